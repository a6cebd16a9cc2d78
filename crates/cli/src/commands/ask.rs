//! Questions, which are only ever asked on a terminal.

use std::io::{self, IsTerminal, Write};

/// Whether there is somebody to ask.
pub(crate) fn can() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// One of a few letters; the last one where the answer is none of them. `None` without a terminal.
pub(crate) fn choose<'a>(question: &str, answers: &[(&'a str, &str)]) -> Option<&'a str> {
    if !can() {
        return None;
    }
    let named: Vec<String> =
        answers.iter().map(|(letter, what)| format!("[{letter}] {what}")).collect();
    let mut err = io::stderr().lock();
    let _ = write!(err, "{question} {} ", named.join("  "));
    let _ = err.flush();
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok()?;
    let said = line.trim().to_ascii_lowercase();
    let fits = |(letter, _): &&(&'a str, &str)| said.chars().next() == letter.chars().next();
    answers.iter().find(fits).or(answers.last()).map(|(letter, _)| *letter)
}

/// Yes or no; `None` without a terminal.
pub(crate) fn confirm(question: &str) -> Option<bool> {
    choose(question, &[("y", "yes"), ("n", "no")]).map(|answer| answer == "y")
}
