//! `segue resume`: go on at exactly the point where a session stopped.

use std::{ffi::OsString, path::PathBuf};

use segue_core::Permission;
use segue_loops::rewind::Scope;

use crate::{
    commands::{
        caps::{CapFlags, cap_words},
        crew,
        go_on::{Back, Request, Where, go_on},
        import, pick, place,
    },
    context::Context,
    error::{CommandError, CommandResult},
};

/// Go on where a session stopped
///
/// Prints its plan first. Without a SESSION, the latest of this repository that has something left
/// to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue resume                      the latest one of this repository
  segue resume 7                    by its number, from any directory
  segue resume refactor \"Now the tests\"
  segue resume 7 --dry-run          only the plan
  segue resume 7 --wait             after a limit, as soon as it has reset
  segue resume 7 --with codex       hand it to another agent
  segue resume 7 --return           give it back to the agent that began
  segue resume 7 --tmux             in the background, shown in tmux
  segue resume 7 --turn 8 \"Another way\"   go back to the end of turn 8 first")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
    session: Option<String>,
    /// What to do next, `-` reads it from standard input; without it, the session goes on where it was
    prompt: Option<String>,
    /// The same, where no SESSION is named
    #[arg(long = "prompt", value_name = "PROMPT", conflicts_with = "prompt")]
    prompt_flag: Option<String>,
    /// Print the plan and stop
    #[arg(long)]
    dry_run: bool,
    /// Who goes on, where that is somebody else: a hand-off; where it stopped at a reviewer, who
    /// reviews in its place
    #[arg(long, value_name = "AGENT")]
    with: Option<String>,
    /// Why, for the journal and for the one who takes over
    #[arg(long, value_name = "TEXT", requires = "with")]
    reason: Option<String>,
    /// Give the work back to the agent that began, told what happened meanwhile
    #[arg(long = "return", conflicts_with = "with")]
    give_back: bool,
    /// Go back to the end of this turn first; 0 is the start
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Go back to just after this step: to the end of its turn where it was the last, else of the
    /// turn before
    #[arg(long, value_name = "ID", conflicts_with = "turn")]
    step: Option<String>,
    /// Where a limit has not reset yet, wait until it has
    #[arg(long)]
    wait: bool,
    /// Where a limit has not reset yet, try all the same
    #[arg(long, conflicts_with = "wait")]
    now: bool,
    /// Choose from a list, also where one session is the obvious one
    #[arg(long, conflicts_with = "session")]
    pick: bool,
    /// Another model for the agent
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do from now on: read-only, edit or full
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    /// Go on in a new conversation of the vendor's, with a packet of what was done
    #[arg(long)]
    fresh: bool,
    /// The workspace's new place, if it has moved
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// On another machine: keep files that differ from the checkpoint
    #[arg(long, conflicts_with = "restore_files")]
    keep_files: bool,
    /// Bring the files of the last checkpoint back, after a checkpoint of what is there
    #[arg(long)]
    restore_files: bool,
    /// Go on in the background, and show it in tmux
    #[arg(long)]
    tmux: bool,
    /// Go on in this terminal, also where the session was begun with --tmux
    #[arg(long, conflicts_with = "tmux")]
    here: bool,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let (session, pick) = (args.session.clone(), args.pick);
    let request = args.request();
    let latest = session.as_deref().is_none_or(|text| text == "@latest");
    let found = match &session {
        None if pick || pick::is_wanted(context, request.prompt.is_some())? => {
            match pick::session(context)? {
                Some(found) => found,
                None => return Ok(segue_core::Exit::Done),
            }
        }
        // With something new to do, a completed session will do as well.
        _ if latest && request.prompt.is_some() => context.find_kept(None)?,
        Some(text) if import::is_run(&context.cwd.join(text)) => import::find(context, Some(text))?,
        Some(text) => context.find_resumable(Some(text)).map_err(|error| unquote(error, text))?,
        None => context.find_resumable(None)?,
    };
    if crew::is_crew(&found.open(&context.home)?) {
        return match request.prompt {
            None => crew::up::go_on(context, &found, request.dry_run),
            Some(_) => Err(CommandError::usage("a crew takes no prompt").hint(format!(
                "say it to one of them: segue crew send {} MEMBER \"…\"",
                found.selector()
            ))),
        };
    }
    go_on(context, &found, request)
}

impl Args {
    fn request(self) -> Request {
        let to = match (self.turn, self.step) {
            (Some(turn), _) => Some(Where::Turn(turn)),
            (None, step) => step.map(Where::Step),
        };
        let scope = Scope { files: true, conversation: true };
        let files = match (self.keep_files, self.restore_files) {
            (true, _) => place::Wish::Keep,
            (_, true) => place::Wish::Restore,
            _ => place::Wish::Ask,
        };
        Request {
            prompt: self.prompt.or(self.prompt_flag),
            with: self.with,
            reason: self.reason,
            give_back: self.give_back,
            rewind: to.map(|to| Back { to, scope }),
            dry_run: self.dry_run,
            wait: self.wait,
            now: self.now,
            model: self.model,
            permission: self.permission,
            fresh: self.fresh,
            dir: self.dir,
            files,
            caps: self.caps.caps(),
            tmux: self.tmux,
            here: self.here,
        }
    }
}

/// The words that ask another process of Segue for the same.
pub(crate) fn args_for(selector: &str, request: &Request) -> Vec<OsString> {
    let mut words: Vec<String> = vec!["resume".to_owned(), selector.to_owned()];
    let mut text = |flag: &str, value: Option<&str>| {
        words.extend(value.map(|value| format!("{flag}={value}")));
    };
    text("--prompt", request.prompt.as_deref());
    text("--with", request.with.as_deref());
    text("--reason", request.reason.as_deref().filter(|_| request.with.is_some()));
    text("--model", request.model.as_deref());
    text("--permission", request.permission.map(Permission::word));
    match request.rewind.as_ref().map(|back| &back.to) {
        Some(Where::Turn(turn)) => text("--turn", Some(&turn.to_string())),
        Some(Where::Step(id)) => text("--step", Some(id)),
        None => {}
    }
    let flags = [
        ("--return", request.give_back),
        ("--wait", request.wait),
        ("--now", request.now),
        ("--fresh", request.fresh),
        ("--keep-files", request.files == place::Wish::Keep),
        ("--restore-files", request.files == place::Wish::Restore),
    ];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
    words.extend(cap_words(request.caps));
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    if let Some(dir) = &request.dir {
        words.extend(["--dir".into(), dir.into()]);
    }
    words
}

/// A prompt alone is taken for a session: its blanks tell.
fn unquote(error: CommandError, text: &str) -> CommandError {
    match text.contains(char::is_whitespace) {
        true => {
            error.hint(format!("a prompt for the latest session: segue resume --prompt \"{text}\""))
        }
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(words: &[OsString]) -> Request {
        Line::try_parse_from(words).unwrap().args.request()
    }

    #[test]
    fn what_is_asked_of_another_process_is_what_was_asked() {
        let rest = ["--max-turns=9", "--max-steps=8", "--max-time=90s", "--max-tokens=2M"];
        let lines: [&[&str]; 4] = [
            &["--prompt=- do \"this\"", "--with=codex", "--reason=-x", "--now", "--model=-m"],
            &["--turn=3", "--wait", "--return", "--fresh", "--keep-files", "--max-cost=2.500001"],
            &["--step=-a", "--restore-files", "--permission=read-only", "--dir=/a b"],
            &rest,
        ];
        for line in lines {
            let words: Vec<OsString> =
                ["resume", "7"].iter().chain(line).map(OsString::from).collect();
            let asked = read(&words);
            assert_eq!(format!("{:?}", read(&args_for("7", &asked))), format!("{asked:?}"));
            assert_eq!(args_for("7", &asked).len() - usize::from(asked.dir.is_some()), words.len());
        }
    }
}
