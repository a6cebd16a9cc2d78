//! Questions, which are only ever asked on a terminal.

use std::io::{self, IsTerminal, Write};

/// Whether there is somebody to ask.
pub(crate) fn can() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// One of a few letters. Who says nothing, or is gone, means the last one, which does no harm; who
/// says something else is asked again. `None` without a terminal.
pub(crate) fn choose<'a>(question: &str, answers: &[(&'a str, &str)]) -> Option<&'a str> {
    if !can() {
        return None;
    }
    let named: Vec<String> =
        answers.iter().map(|(letter, what)| format!("[{letter}] {what}")).collect();
    let mut err = io::stderr().lock();
    loop {
        let _ = write!(err, "{question} {} ", named.join("  "));
        let _ = err.flush();
        let mut line = String::new();
        io::stdin().read_line(&mut line).ok()?;
        if let Some(letter) = meant(line.trim(), answers) {
            return Some(letter);
        }
        let letters: Vec<&str> = answers.iter().map(|(letter, _)| *letter).collect();
        let _ = writeln!(err, "that is none of {}", letters.join(", "));
    }
}

/// Which answer it is: its letter, its first word, or all of it.
fn meant<'a>(said: &str, answers: &[(&'a str, &str)]) -> Option<&'a str> {
    let said = said.to_lowercase();
    let fits = |(letter, what): &&(&'a str, &str)| {
        said == *letter || said == *what || Some(said.as_str()) == what.split(' ').next()
    };
    let nothing = answers.last().filter(|_| said.is_empty());
    answers.iter().find(fits).or(nothing).map(|(letter, _)| *letter)
}

/// Yes or no; `None` without a terminal.
pub(crate) fn confirm(question: &str) -> Option<bool> {
    choose(question, &[("y", "yes"), ("n", "no")]).map(|answer| answer == "y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_word_is_an_answer() {
        let answers = [("r", "resume it"), ("d", "discard it and start anew"), ("c", "cancel")];
        let meant = |said| meant(said, &answers);
        for (said, letter) in [("r", "r"), ("D", "d"), ("Discard", "d"), ("resume it", "r")] {
            assert_eq!(meant(said), Some(letter), "{said}");
        }
        for said in ["don't", "do not", "dr", "disc", "x", "yes", "?"] {
            assert_eq!(meant(said), None, "{said}");
        }
        // Enter, or no more input: nothing is done.
        assert_eq!(meant(""), Some("c"));
    }
}
