//! `segue dashboard`: all sessions at a glance, live.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, IsTerminal, Read, Seek},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, Receiver, Sender},
    thread,
};

use segue_core::Exit;
use segue_view::{
    Filter,
    dashboard::{self, Action, Hands, Order},
    json::RowJson,
};

use crate::{
    background,
    commands::ask,
    context::{Context, print, say, view_error},
    error::{CommandError, CommandResult},
};

/// See all sessions at a glance, live
///
/// Those that run come first, then those that wait for a limit, a server or a resume. Enter follows
/// one live; keys resume, stop and hand off; ? shows all of them. Without a terminal, the table is
/// printed once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue dashboard
  segue dashboard --here            only of this repository
  segue dashboard --json | jq '.[] | select(.status == \"running\") | .number'")]
pub(crate) struct Args {
    /// Only the sessions of this repository
    #[arg(long)]
    here: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let repo = if args.here { Some(context.repo()?.id) } else { None };
    let mut index = context.index()?;
    if ask::can() && io::stdout().is_terminal() && !context.json {
        let mut hands = Starter::new(context);
        dashboard::run(&mut index, repo, &context.clock, &context.err(), &mut hands)?;
        return Ok(Exit::Done);
    }
    let filter = Filter { repo, ..Filter::default() };
    let mut rows = index.query(&filter).map_err(view_error)?.rows;
    dashboard::sort(&mut rows);
    if context.json {
        context.print_json(&rows.iter().map(RowJson::from).collect::<Vec<_>>())?;
    } else if rows.is_empty() {
        say("there is no session here yet: segue run \"…\" starts one");
    } else {
        print(&dashboard::table(&rows, &context.out(), context.now()));
    }
    Ok(Exit::Done)
}

/// Starts other commands of Segue in the background, and hears what they say at their end.
struct Starter<'a> {
    context: &'a Context,
    says: Sender<Option<String>>,
    heard: Receiver<Option<String>>,
    running: usize,
}

impl<'a> Starter<'a> {
    fn new(context: &'a Context) -> Self {
        let (says, heard) = mpsc::channel();
        Self { context, says, heard, running: 0 }
    }

    fn try_start(&mut self, order: &Order) -> Result<(), CommandError> {
        let args = arguments(order);
        let said = scratch(self.context.home.dir())?;
        let mut command = background::command(self.context, &args);
        let child = command.stderr(said.try_clone()?).spawn()?;
        let says = self.says.clone();
        let is_short = matches!(args.first(), Some(word) if word != "resume");
        thread::Builder::new().name("dashboard-command".to_owned()).spawn(move || {
            // Nobody listens any more where the dashboard has ended.
            drop(says.send(last_words(child, said, is_short)));
        })?;
        self.running += 1;
        Ok(())
    }
}

impl Hands for Starter<'_> {
    fn start(&mut self, order: &Order) -> String {
        if let Err(error) = self.try_start(order) {
            return error.short();
        }
        let session = format!("session {}", order.selector);
        match &order.action {
            Action::Stop => format!("{session} is asked to stop"),
            Action::HandOff { to } => format!("{session} is handed to {to}"),
            Action::Resume | Action::Open => format!("{session} goes on in the background"),
        }
    }

    fn busy(&self) -> bool {
        self.running > 0
    }

    fn heard(&mut self) -> Option<String> {
        while let Ok(said) = self.heard.try_recv() {
            self.running = self.running.saturating_sub(1);
            if said.is_some() {
                return said;
            }
        }
        None
    }

    fn open(&mut self, dir: &Path) -> io::Result<()> {
        let mut command = viewer(dir, |name| env::var(name).ok().filter(|word| !word.is_empty()));
        let status = command.status()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{}: {status}; its files are in {}",
                command.get_args().nth(1).unwrap_or_default().display(),
                dir.display()
            ))),
        }
    }
}

fn arguments(order: &Order) -> Vec<OsString> {
    let session = order.selector.as_str();
    let words: Vec<&str> = match &order.action {
        Action::Resume | Action::Open => vec!["resume", session],
        Action::Stop => vec!["stop", session],
        Action::HandOff { to } if order.running => vec!["handoff", session, "--to", to],
        Action::HandOff { to } => vec!["resume", session, "--with", to],
    };
    words.into_iter().map(OsString::from).collect()
}

/// A file that has no name and goes when it is closed: unlike a pipe, it keeps nobody waiting and
/// breaks for nobody when the dashboard ends.
fn scratch(home: &Path) -> io::Result<File> {
    let path = home.join(format!(".dashboard-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// What a command said, where it failed, or where what it says is all that it does.
fn last_words(mut child: Child, mut said: File, is_short: bool) -> Option<String> {
    let status = child.wait().ok()?;
    let mut bytes = Vec::new();
    said.rewind().and_then(|()| said.read_to_end(&mut bytes)).ok()?;
    let said = String::from_utf8_lossy(&bytes);
    // A run says how it went in the table; where it did not come to one, that is said.
    let ran = !said.contains("nothing to do");
    (!status.success() || is_short || !ran).then(|| in_one_line(&said, status))
}

/// What happened, and the command that helps: an error and its first hint, or how the session
/// stopped and what was said last.
fn in_one_line(said: &str, status: ExitStatus) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let find = |sign: &str| lines.iter().rposition(|line| line.starts_with(sign));
    let told = match (find("error: "), find("■ "), lines.as_slice()) {
        // What went well is said first; what one could do next comes after it.
        (.., [first, ..]) if status.success() => vec![*first],
        (Some(at), ..) => lines[at..].iter().take(2).copied().collect(),
        (None, Some(at), [.., last]) if at + 1 < lines.len() => vec![lines[at], last],
        (.., [.., last]) => vec![*last],
        (.., []) => return status.to_string(),
    };
    let signs = ["error: ", "hint: ", "■ "];
    let told: Vec<&str> = told
        .into_iter()
        .map(|line| signs.iter().fold(line, |line, sign| line.trim_start_matches(sign)))
        .collect();
    told.join(" · ")
}

/// An editor is given the session's directory. A pager can't show one, and is given its files.
fn viewer(dir: &Path, variable: impl Fn(&str) -> Option<String>) -> Command {
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let (program, files) = match editor {
        Some(editor) => (editor, vec![dir.to_owned()]),
        None => {
            let names = ["session.json", "resume.json", "journal.jsonl"];
            let files = names.map(|name| dir.join(name));
            let pager = variable("PAGER").unwrap_or_else(|| "less".to_owned());
            (pager, files.into_iter().filter(|file| file.exists()).collect())
        }
    };
    // As git does it: the word may have arguments, and a shell knows how to read them.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{program} \"$@\"")).arg(program).args(files).current_dir(dir);
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_error_and_what_helps_are_one_line() {
        let failed = ExitStatus::from_raw(256);
        let said = "plan\nerror: the session is in use\n  hint: segue watch 7\n  hint: more\n";
        assert_eq!(in_one_line(said, failed), "the session is in use · segue watch 7");
        let said =
            "plan\n■ session 7 has stopped\n  hint: raise it\nsegue resume 7 --max-steps 2\n";
        assert_eq!(
            in_one_line(said, failed),
            "session 7 has stopped · segue resume 7 --max-steps 2"
        );
        assert_eq!(in_one_line("a\n  b\n\n", failed), "b");
        assert_eq!(in_one_line("", failed), "exit status: 1");
        let said = "session 7 runs: codex goes on at the end of turn 1\nsegue watch 7\n";
        let well = in_one_line(said, ExitStatus::default());
        assert_eq!(well, "session 7 runs: codex goes on at the end of turn 1");
    }

    #[test]
    fn an_editor_gets_the_directory_and_a_pager_the_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("journal.jsonl"), "").unwrap();
        let args = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let command = viewer(dir.path(), find);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ").replace(&*dir.path().to_string_lossy(), "DIR")
        };
        assert_eq!(args(&[("EDITOR", "vi"), ("VISUAL", "e -w")]), "-c e -w \"$@\" e -w DIR");
        assert_eq!(args(&[("PAGER", "more")]), "-c more \"$@\" more DIR/journal.jsonl");
        assert_eq!(args(&[]), "-c less \"$@\" less DIR/journal.jsonl");
    }
}
