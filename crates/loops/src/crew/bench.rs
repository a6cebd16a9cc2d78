//! Who sits at a terminal: a vendor's program, or any command.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use segue_agents::{
    terminal::{Manners, Screen, Seated, Sight, Sitting, Terminal, Words},
    vendor::{Call, Conversation, History, ToolServer, World},
};
use segue_core::{Permission, bridge::shown_in, crew::Spec};
use segue_runner::{order::Order, process::SESSION_VAR, vendor::VendorConfig};

/// How much of the end of a command's own transcript is looked at.
const MOST_TRANSCRIPT: u64 = 8 << 20;

/// Between a paste and the Enter after it, for a command that nobody knows.
const GAP: Duration = Duration::from_millis(300);

/// Somebody who can be seated.
#[derive(Debug)]
pub(crate) enum Bench {
    Vendor { config: Box<VendorConfig>, terminal: &'static dyn Terminal },
    Command { argv: Vec<String>, words: Words, transcript: Option<PathBuf>, world: World },
}

/// What is known of the messages that were typed in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    These(Vec<String>),
    /// It keeps no record that could be read.
    CantTell,
    /// It keeps one, and that can't be read now.
    Unreadable,
}

/// All that a start needs besides.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) conversation: Conversation<'a>,
    pub(crate) cwd: &'a Path,
    pub(crate) spec: &'a Spec,
    /// Where its files may be put.
    pub(crate) files: &'a Path,
    /// Its own session.
    pub(crate) session: &'a str,
    /// Arguments of the server with our tools.
    pub(crate) tools: &'a [String],
}

impl Bench {
    pub(crate) fn command(spec: &Spec, transcript: Option<PathBuf>, world: World) -> Self {
        let words = Words {
            ready: spec.ready.clone(),
            busy: spec.busy.clone(),
            waiting: spec.waiting.clone(),
        };
        let argv = spec.command.iter().chain(&spec.args).cloned().collect();
        Self::Command { argv, words, transcript, world }
    }

    fn world(&self) -> &World {
        match self {
            Self::Vendor { config, .. } => &config.world,
            Self::Command { world, .. } => world,
        }
    }

    /// Whether a new conversation takes the id that we give it.
    pub(crate) fn own_id(&self) -> bool {
        matches!(self, Self::Vendor { terminal, .. } if terminal.own_id())
    }

    /// Has the vendor's program make a conversation, where it can do so before it is seated.
    pub(crate) fn make_conversation(&self, cwd: &Path) -> Option<String> {
        let Self::Vendor { config, terminal } = self else { return None };
        let args = terminal.makes_id()?;
        let output = std::process::Command::new(&config.program.path)
            .args(args)
            .env_clear()
            .envs(&config.world.env)
            .current_dir(cwd)
            .stdin(std::process::Stdio::null())
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let id = said.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        (output.status.success() && id.len() >= 8 && id.chars().all(plain)).then(|| id.to_owned())
    }

    /// Whether it has conversations that can be found again.
    pub(crate) fn remembers(&self) -> bool {
        matches!(self, Self::Vendor { .. })
    }

    /// Whether it can be told what stands in its conversation.
    pub(crate) fn keeps_record(&self) -> bool {
        match self {
            Self::Vendor { terminal, .. } => terminal.keeps_record(),
            Self::Command { transcript, .. } => transcript.is_some(),
        }
    }

    /// Whether it says which conversation it has open, also after a person turned to another one.
    pub(crate) fn knows_open(&self) -> bool {
        matches!(self, Self::Vendor { terminal, .. } if terminal.knows_open())
    }

    /// Whether its program is to make the conversation before it is seated.
    pub(crate) fn makes_conversations(&self) -> bool {
        matches!(self, Self::Vendor { terminal, .. } if terminal.makes_id().is_some())
    }

    /// What is to be run, with the files that it wants put in place; and how a person would read it.
    pub(crate) fn order(&self, start: &Start<'_>) -> io::Result<(Order, String)> {
        let mut env = self.world().env.clone();
        env.insert(SESSION_VAR.to_owned(), start.session.to_owned());
        // For the native agent alone.
        env.remove("SEGUE_CHAT_KEY");
        let cwd = start.cwd.to_owned();
        match self {
            Self::Command { argv, .. } => {
                let (program, args) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
                let program = found(program, start.cwd, self.world());
                let shown = argv.join(" ");
                Ok((Order { program, args: args.to_vec(), env, cwd }, shown))
            }
            Self::Vendor { config, terminal } => {
                let tools = ToolServer { program: &config.segue, args: start.tools };
                let call = terminal.call(&Sitting {
                    conversation: start.conversation,
                    cwd: start.cwd,
                    model: config.model.as_deref(),
                    permission: Permission::default(),
                    extra: &start.spec.args,
                    world: &config.world,
                    files: start.files,
                    tools: config.tools.then_some(tools),
                });
                call.prepare(start.files)?;
                for variable in &call.env {
                    if !(variable.keep && env.contains_key(variable.name)) {
                        env.insert(variable.name.to_owned(), variable.value.clone());
                    }
                }
                let program = config.program.path.clone();
                let shown = format!("{} {}", terminal.name(), call.shown());
                Ok((Order { program, args: words(&call), env, cwd }, shown))
            }
        }
    }

    pub(crate) fn sight(&self, screen: &Screen<'_>) -> Sight {
        match self {
            Self::Vendor { terminal, .. } => terminal.sight(screen),
            Self::Command { words, .. } => words.sight(screen),
        }
    }

    /// A screen without what was typed in: the words of a command are looked for anywhere.
    pub(crate) fn without_echo(&self, screen: &str, said: &str) -> String {
        let Self::Command { .. } = self else { return screen.to_owned() };
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| line.len() > 3).collect();
        let Some(end) = said.last() else { return screen.to_owned() };
        let echoes = |line: &str| said.iter().any(|part| line.contains(part));
        let lines: Vec<&str> = screen.lines().collect();
        // An echo ends with the end of what was typed: another line below it is the program's own,
        // also where the text has it somewhere.
        let own = lines.iter().rposition(|line| !line.trim().is_empty());
        let own = own.filter(|at| !lines[*at].contains(end));
        let kept = lines.iter().enumerate().filter(|(at, line)| own == Some(*at) || !echoes(line));
        kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn manners(&self) -> Manners {
        match self {
            Self::Vendor { terminal, .. } => terminal.manners(),
            Self::Command { .. } => Manners { gap: GAP, interrupt: &["C-c"], clear: &["C-u"] },
        }
    }

    /// Whether what was typed still stands in its input.
    pub(crate) fn unsent(&self, screen: &Screen<'_>, first_line: &str) -> Option<bool> {
        match self {
            Self::Vendor { terminal, .. } => terminal.unsent(screen, first_line),
            Self::Command { .. } => None,
        }
    }

    /// What the vendor calls the conversation that a process has open.
    pub(crate) fn identify(
        &self,
        pid: u32,
        cwd: &Path,
        since: Timestamp,
        first_prompt: Option<&str>,
        taken: &[String],
    ) -> Option<String> {
        let Self::Vendor { terminal, config } = self else { return None };
        let world = &config.world;
        terminal.identify(&Seated { pid, cwd, since, first_prompt, world, taken })
    }

    /// What the vendor remembers of a conversation; `None` where it has no such one.
    pub(crate) fn history(&self, cwd: &Path, id: &str) -> io::Result<Option<History>> {
        match self {
            Self::Vendor { config, .. } => config.vendor.history(&config.world, cwd, id),
            Self::Command { .. } => Ok(None),
        }
    }

    /// Which of these messages it was told, by its own record.
    pub(crate) fn heard(&self, cwd: &Path, conversation: Option<&str>, ids: &[String]) -> Heard {
        let ids = || ids.iter().map(String::as_str);
        if !self.keeps_record() {
            return Heard::CantTell;
        }
        match self {
            Self::Vendor { .. } => match conversation.map(|id| self.history(cwd, id)) {
                Some(Ok(Some(history))) => {
                    let turns = history.earlier.iter().chain([&history.last]);
                    let found: BTreeSet<String> =
                        turns.flat_map(|turn| shown_in(&turn.prompt, ids())).collect();
                    Heard::These(found.into_iter().collect())
                }
                Some(Ok(None)) | None => Heard::These(Vec::new()),
                Some(Err(_)) => Heard::Unreadable,
            },
            Self::Command { transcript: None, .. } => Heard::CantTell,
            Self::Command { transcript: Some(path), .. } => {
                let text = match tail(path) {
                    Ok(text) => text,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                    Err(_) => return Heard::Unreadable,
                };
                let told = |id: &&str| text.contains(&segue_core::bridge::mark(id));
                Heard::These(ids().filter(told).map(str::to_owned).collect())
            }
        }
    }
}

fn words(call: &Call) -> Vec<String> {
    call.args.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// A command as a shell would find it, from the directory that it works in.
fn found(program: &str, cwd: &Path, world: &World) -> PathBuf {
    match program.contains('/') {
        true => cwd.join(program),
        false => segue_agents::vendor::look_up(world, &[program])
            .map_or_else(|| PathBuf::from(program), |found| found.path),
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_TRANSCRIPT)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_ends_with_the_end_of_what_was_typed() {
        let spec = Spec { ready: Some("two ready>".to_owned()), ..Spec::default() };
        let bench = Bench::command(&spec, None, World::default());
        let said = "Its log ends like this:\nagent two ready>\nwhy is that?";
        let sight = |text: &str| {
            let shown = bench.without_echo(text, said);
            bench.sight(&Screen { text: &shown, title: "" })
        };
        let echo = format!("{said}\n\n");
        assert_eq!(sight(&echo), Sight::Starting, "nothing but what was typed");
        assert_eq!(sight(&format!("{echo}got it\n")), Sight::Busy);
        assert_eq!(sight(&format!("{echo}got it\nagent two ready>\n\n")), Sight::Idle);
        assert_eq!(sight("agent two ready>"), Sight::Idle, "the rest is out of sight");
    }
}
