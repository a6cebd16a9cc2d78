//! Any program at all: `exec:<command>` gets the prompt on its standard input, and what it prints
//! is its answer.
//!
//! There is no session, no tool and no usage to be seen here, and nothing that could be forbidden.
//! The exit status is the only structured thing that such a program says: 0 means done.

use std::{io, path::Path};

use segue_core::Permission;

use super::{
    Abilities, Call, Card, Dialogue, Ending, Heard, History, Job, Opening, SignIn, Signal, Trouble,
    Unreadable, Vendor, World,
};

#[derive(Clone, Debug)]
pub struct Exec {
    command: String,
}

impl Exec {
    /// For a command line as a shell understands it.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into() }
    }
}

impl Vendor for Exec {
    fn card(&self) -> Card {
        Card {
            name: format!("exec:{}", self.command),
            alias: None,
            title: "A command",
            programs: &["sh"],
            install: "",
            sign_in: "",
            tested: None,
            can: Abilities::default(),
            stop_signal: 15,
            argument_limit: None,
        }
    }

    fn looks_for(&self) -> Vec<String> {
        vec![first_word(&self.command).to_owned()]
    }

    fn signed_in(&self, _world: &World) -> SignIn {
        SignIn::Unknown
    }

    fn terms(&self, _permission: Permission) -> &'static str {
        "do all that you may do"
    }

    fn call(&self, job: &Job<'_>) -> Call {
        by_shell(&self.command, job.extra)
    }

    fn dialogue(&self, job: &Job<'_>) -> Box<dyn Dialogue> {
        Box::new(Listening { prompt: job.prompt.to_owned(), printed: None })
    }

    fn history(&self, _world: &World, _cwd: &Path, _id: &str) -> io::Result<Option<History>> {
        Ok(None)
    }
}

/// The arguments by which a shell runs a command line, with flags behind it.
pub(super) fn by_shell(command: &str, extra: &[String]) -> Call {
    let flags = if extra.is_empty() { "" } else { " \"$@\"" };
    // The shell gets out of the way, so that signals reach the program. Where there is more than
    // one command, or a variable in front of it, it has to stay.
    let line = match is_one_program(command) {
        true => format!("exec {command}{flags}"),
        false => format!("{command}{flags}"),
    };
    let mut call = Call::new(["-c".to_owned(), line]);
    if !extra.is_empty() {
        call.arg("sh").args(extra);
    }
    call
}

fn is_one_program(command: &str) -> bool {
    let assigned = command.split_whitespace().next().is_some_and(|word| word.contains('='));
    !assigned && !command.contains([';', '&', '|', '(', ')', '{', '}', '`', '\n', '!'])
}

/// The program that a command line starts, where it can be read without a shell; otherwise `sh`.
pub(super) fn first_word(command: &str) -> &str {
    let plain = |c: char| c.is_alphanumeric() || " \t-_./=:,@+%".contains(c);
    let first = command.split_whitespace().next().unwrap_or_default();
    match command.chars().all(plain) && !first.is_empty() && !first.contains('=') {
        true => first,
        false => "sh",
    }
}

#[derive(Debug)]
struct Listening {
    prompt: String,
    /// All that it has printed.
    printed: Option<String>,
}

impl Dialogue for Listening {
    fn open(&mut self) -> Opening {
        Opening::prompt(&std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], heard: &mut Heard) -> Result<(), Unreadable> {
        let line = String::from_utf8_lossy(line);
        match &mut self.printed {
            Some(printed) => {
                printed.push('\n');
                printed.push_str(&line);
            }
            None => self.printed = Some(line.clone().into_owned()),
        }
        heard.push(Signal::Writing(format!("{line}\n")));
        Ok(())
    }

    fn exited(&mut self, exit: Option<i32>, heard: &mut Heard) {
        // Without a status it was killed: what it would have said nobody knows.
        let Some(status) = exit else { return };
        if let Some(printed) = self.printed.take().filter(|printed| !printed.is_empty()) {
            heard.push(Signal::Text(printed));
        }
        heard.end(match status {
            0 => Ending::Finished,
            _ => {
                let message = format!("exited with {status}");
                Ending::Failed(Trouble::BadRequest { status: 0, message })
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use segue_core::Permission;

    use super::*;
    use crate::vendor::{Conversation, find};

    fn job<'a>(prompt: &'a str, extra: &'a [String], world: &'a World) -> Job<'a> {
        Job {
            prompt,
            cwd: Path::new("/w"),
            conversation: Conversation::New { id: "1" },
            permission: Permission::Edit,
            model: None,
            extra,
            world,
            files: Path::new("files"),
            tools: None,
        }
    }

    fn args(command: &str, extra: &[&str]) -> Vec<String> {
        let extra: Vec<String> = extra.iter().map(|&word| word.to_owned()).collect();
        let call = Exec::new(command).call(&job("p", &extra, &World::default()));
        call.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_shell_gives_way_to_the_program_where_there_is_only_one() {
        assert_eq!(args("./my-agent --fast", &[]), ["-c", "exec ./my-agent --fast"]);
        assert_eq!(args("a \"b c\"", &[]), ["-c", "exec a \"b c\""]);
        assert_eq!(args("cd x && ./a", &[]), ["-c", "cd x && ./a"]);
        assert_eq!(args("KEY=1 ./a", &[]), ["-c", "KEY=1 ./a"]);
        assert_eq!(args("a", &["-x", "y z"]), ["-c", "exec a \"$@\"", "sh", "-x", "y z"]);
    }

    #[test]
    fn it_is_there_where_its_first_word_is() {
        let looks_for = |command: &str| Exec::new(command).looks_for();
        assert_eq!(looks_for("./my-agent --fast"), ["./my-agent"]);
        assert_eq!(looks_for("agent"), ["agent"]);
        assert_eq!(looks_for("a | b"), ["sh"]);
        assert_eq!(looks_for("A=1 b"), ["sh"]);
        assert_eq!(looks_for("~/agent"), ["sh"]);
        let claude = find("claude").unwrap();
        assert_eq!(claude.looks_for(), ["claude"]);
    }

    #[test]
    fn a_command_is_found_by_its_prefix_and_an_empty_one_is_none() {
        let card = find("exec:./my-agent --fast").unwrap().card();
        assert_eq!(card.name, "exec:./my-agent --fast");
        assert_eq!(card.can, Abilities::default());
        assert!(find("exec:").is_none() && find("exec:  ").is_none() && find("acp: ").is_none());
        assert_eq!(find("acp:opencode acp").unwrap().card().name, "acp:opencode acp");
    }

    fn played(lines: &[&[u8]], exit: Option<i32>) -> Vec<Signal> {
        let world = World::default();
        let mut dialogue = Exec::new("a").dialogue(&job("Größe \"1\"\n2", &[], &world));
        assert_eq!(dialogue.open(), Opening::prompt("Größe \"1\"\n2"));
        let mut heard = Heard::default();
        for line in lines {
            dialogue.line(line, &mut heard).unwrap();
        }
        dialogue.exited(exit, &mut heard);
        assert!(heard.say.is_empty());
        heard.signals
    }

    #[test]
    fn all_that_is_printed_is_one_text() {
        let writing = |text: &str| Signal::Writing(text.to_owned());
        assert_eq!(
            played(&[b"", b"{\"a\":1}", b"x\xff"], Some(0)),
            [
                writing("\n"),
                writing("{\"a\":1}\n"),
                writing("x\u{fffd}\n"),
                Signal::Text("\n{\"a\":1}\nx\u{fffd}".to_owned()),
                Signal::Ended(Ending::Finished),
            ]
        );
        assert_eq!(played(&[], Some(0)), [Signal::Ended(Ending::Finished)]);
    }

    #[test]
    fn only_the_status_says_that_it_failed() {
        let failed = |message: &str| {
            let message = message.to_owned();
            Signal::Ended(Ending::Failed(Trouble::BadRequest { status: 0, message }))
        };
        let error = "Error: 429".to_owned();
        assert_eq!(
            played(&[b"Error: 429"], Some(3)),
            [
                Signal::Writing("Error: 429\n".to_owned()),
                Signal::Text(error.clone()),
                failed("exited with 3"),
            ]
        );
        assert_eq!(
            played(&[b"Error: 429"], Some(0)).last(),
            Some(&Signal::Ended(Ending::Finished))
        );
        // Killed: the runner knows by whom.
        assert_eq!(played(&[b"Error: 429"], None), [Signal::Writing("Error: 429\n".to_owned())]);
    }
}
