//! Agents at terminals: a session of tmux whose panes are programs that matter.
//!
//! A pane is known by the id that tmux gave it, and by the name that was written on it: numbers of
//! windows and panes move, and other sessions may have a name that begins alike. What is typed goes
//! into one pane, from a buffer of its own.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    process::Stdio,
};

use super::{Result, Tmux, TmuxError, is_no_server, plain_name, refused, word};

/// How large a window is as long as no terminal shows it. The vendors' programs draw for it.
const UNSEEN: (&str, &str) = ("200", "50");

/// The title comes last, since it may hold any character.
const SEAT: &str = "#{session_id}|#{window_id}|#{pane_id}|#{pane_pid}|#{pane_dead}|#{pane_dead_status}|\
                    #{pane_dead_signal}|#{@segue_owner}|#{@segue_part}|#{pane_title}";

/// One pane of a crew's own session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    pub session_id: String,
    pub window_id: String,
    pub pane: String,
    pub pid: Option<u32>,
    /// Its program has ended.
    pub dead: bool,
    /// How, as far as tmux tells.
    pub status: Option<i32>,
    pub signal: Option<i32>,
    /// Who sits there. Empty for one that was never labelled.
    pub part: String,
    pub title: String,
    owner: String,
}

impl Seat {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(10, '|').map(str::to_owned);
        let mut next = || fields.next();
        Some(Self {
            session_id: next()?,
            window_id: next()?,
            pane: next()?,
            pid: next()?.parse().ok(),
            dead: next()? == "1",
            status: next()?.parse().ok(),
            signal: next()?.parse().ok(),
            owner: next()?,
            part: next()?,
            title: next()?,
        })
    }

    /// How its program ended, for people.
    #[must_use]
    pub fn end(&self) -> String {
        match (self.status, self.signal) {
            (_, Some(signal)) if signal > 0 => format!("killed by signal {signal}"),
            (Some(status), _) => format!("exit status {status}"),
            _ => "ended".to_owned(),
        }
    }
}

/// Where a new seat belongs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    Window,
    /// Beside somebody, in the same window, which is then arranged like this.
    Beside {
        pane: &'a str,
        layout: &'a str,
    },
}

/// A crew's own session of tmux.
#[derive(Clone, Debug)]
pub struct Room {
    tmux: Tmux,
    name: String,
    owner: String,
}

impl Room {
    /// `name` as it should be called, if nobody else is.
    #[must_use]
    pub fn new(tmux: Tmux, name: &str, owner: &str) -> Self {
        Self { tmux, name: name.to_owned(), owner: owner.to_owned() }
    }

    #[must_use]
    pub fn tmux(&self) -> &Tmux {
        &self.tmux
    }

    /// Every pane of it.
    pub fn seats(&self) -> Result<Vec<Seat>> {
        let text = match self.tmux.run(["list-panes", "-a", "-F", SEAT]) {
            Err(TmuxError::Refused { said, .. }) if is_no_server(&said) => return Ok(Vec::new()),
            text => text?,
        };
        let seats = text.lines().filter_map(Seat::parse);
        Ok(seats.filter(|seat| seat.owner == self.owner).collect())
    }

    /// What it is called, where it is there.
    pub fn called(&self) -> Result<Option<String>> {
        let panes = self.tmux.panes()?;
        Ok(panes.into_iter().find(|pane| pane.owner == self.owner).map(|pane| pane.session))
    }

    /// Starts a program in a pane of its own, and writes the name on it.
    pub fn sit(
        &self,
        part: &str,
        window: &str,
        place: Place<'_>,
        argv: &[OsString],
    ) -> Result<String> {
        let pane = match (place, self.called()?) {
            (_, None) => self.create(window, argv)?,
            (Place::Beside { pane, layout }, Some(name)) => {
                let split = ["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", pane];
                match self.tmux.run(with_program(&split, argv)) {
                    Ok(made) => {
                        // It is only the look.
                        let _ = self.tmux.run(["select-layout", "-t", made.trim(), layout]);
                        made
                    }
                    // There is no room left, or nobody to sit beside.
                    Err(TmuxError::Refused { .. }) => self.window(&name, window, argv)?,
                    Err(error) => return Err(error),
                }
            }
            (Place::Window, Some(name)) => self.window(&name, window, argv)?,
        };
        let pane = pane.trim().to_owned();
        self.tmux.run(["set-option", "-p", "-t", &pane, "@segue_part", part])?;
        Ok(pane)
    }

    fn window(&self, name: &str, window: &str, argv: &[OsString]) -> Result<String> {
        let (target, window) = (format!("={name}:"), plain_name(window));
        let args = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-n", &window, "-t", &target];
        let made = self.tmux.run(with_program(&args, argv))?;
        self.dress(made.trim())?;
        Ok(made)
    }

    /// In one go, so that no program can end before the session is told to keep its pane.
    fn create(&self, window: &str, argv: &[OsString]) -> Result<String> {
        let panes = self.tmux.panes()?;
        let name = match panes.iter().any(|pane| pane.session == self.name) {
            false => self.name.clone(),
            true => {
                let from = self.owner.len().saturating_sub(6);
                format!("{}-{}", self.name, self.owner.get(from..).unwrap_or_default())
            }
        };
        let (target, window) = (format!("={name}:"), plain_name(window));
        let (columns, lines) = UNSEEN;
        let args = [
            "new-session",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-s",
            &name,
            "-n",
            &window,
            "-x",
            columns,
            "-y",
            lines,
        ];
        let mut words = with_program(&args, argv);
        for option in [
            &["-w", "-t", &target, "remain-on-exit", "on"][..],
            &["-t", &target, "@segue_owner", &self.owner],
            &["-t", &target, "destroy-unattached", "off"],
        ] {
            words.extend([";", "set-option"].iter().chain(option).map(OsString::from));
        }
        let pane = self.tmux.run(words)?;
        self.dress(pane.trim())?;
        Ok(pane)
    }

    /// How a window behaves: a pane stays when its program ends, and keeps the name that it has.
    fn dress(&self, pane: &str) -> Result<()> {
        let options = [
            ("remain-on-exit", "on"),
            ("automatic-rename", "off"),
            ("allow-rename", "off"),
            ("pane-border-status", "top"),
            ("pane-border-format", " #{@segue_part}#{@segue_mark} "),
        ];
        for (name, value) in options {
            self.tmux.run(["set-option", "-w", "-t", pane, name, value])?;
        }
        Ok(())
    }

    /// Starts a program in the place of one that has ended.
    pub fn sit_again(&self, pane: &str, argv: &[OsString]) -> Result<()> {
        self.tmux.run(with_program(&["respawn-pane", "-t", pane], argv)).map(drop)
    }

    /// Takes a pane away, with whatever runs in it.
    pub fn clear(&self, pane: &str) -> Result<()> {
        self.tmux.run(["kill-pane", "-t", pane]).map(drop)
    }

    /// What some panes show, all at one moment. None for one that is gone.
    pub fn screens(&self, panes: &[&str]) -> Result<Vec<Option<String>>> {
        if panes.is_empty() {
            return Ok(Vec::new());
        }
        let between = format!("==={}===", self.owner);
        let mut words: Vec<&str> = Vec::new();
        for pane in panes {
            words.extend(["capture-pane", "-p", "-t", pane, ";"]);
            words.extend(["display-message", "-p", &between, ";"]);
        }
        words.pop();
        match self.tmux.run(&words) {
            Ok(text) => {
                let mark = format!("{between}\n");
                let shown = text.split(&mark).take(panes.len()).map(|text| Some(text.to_owned()));
                Ok(shown.collect())
            }
            // One of them is gone: each for itself.
            Err(TmuxError::Refused { .. }) => {
                Ok(panes.iter().map(|pane| self.screen(pane).ok()).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// What a pane shows.
    pub fn screen(&self, pane: &str) -> Result<String> {
        self.tmux.run(["capture-pane", "-p", "-t", pane])
    }

    /// Puts a text into a pane as a paste, which submits nothing.
    pub fn paste(&self, pane: &str, text: &str) -> Result<()> {
        let buffer = format!("segue-{}-{}", self.owner, pane.trim_start_matches('%'));
        self.tmux.run_with(&["load-buffer", "-b", &buffer, "-"], harmless(text).as_bytes())?;
        self.tmux.run(["paste-buffer", "-p", "-r", "-d", "-b", &buffer, "-t", pane]).map(drop)
    }

    pub fn keys(&self, pane: &str, keys: &[&str]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.tmux.run(["send-keys", "-t", pane].iter().chain(keys)).map(drop)
    }

    /// Marks a pane or takes the mark off again, and gives its window this name.
    pub fn mark(&self, pane: &str, window: &str, mark: Option<&str>) -> Result<()> {
        let style = if mark.is_some() { "bg=colour52" } else { "default" };
        let text = mark.map(|mark| format!(": {}", plain_text(mark))).unwrap_or_default();
        self.tmux.run(["set-option", "-p", "-t", pane, "@segue_mark", &text])?;
        self.tmux.run(["set-option", "-p", "-t", pane, "window-style", style])?;
        self.tmux.run(["rename-window", "-t", pane, window]).map(drop)
    }

    /// Ends all of it.
    pub fn close(&self) -> Result<()> {
        self.tmux.close(&self.owner)
    }
}

impl Tmux {
    /// Runs a command that reads from its standard input.
    fn run_with(&self, args: &[&str], input: &[u8]) -> Result<()> {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input)?;
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(refused(args.first().copied().unwrap_or_default(), said.trim()))
            }
        }
    }
}

/// Nothing in a text may end the paste, or be taken for a key.
fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// A text that tmux shows as it is.
fn plain_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect::<String>().replace('#', "##")
}

fn with_program(args: &[&str], argv: &[OsString]) -> Vec<OsString> {
    let args = args.iter().copied().chain(["--"]).map(OsString::from);
    args.chain(argv.iter().map(|one| word(OsStr::new(one)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_read_also_with_a_strange_title() {
        let seat = Seat::parse("$1|@2|%3|77|1|3||01ABC|coder|a|b").unwrap();
        assert_eq!((seat.pane.as_str(), seat.pid, seat.dead), ("%3", Some(77), true));
        assert_eq!((seat.part.as_str(), seat.title.as_str()), ("coder", "a|b"));
        assert_eq!(seat.end(), "exit status 3");
        assert_eq!(Seat::parse("$1|@2|%3"), None);
    }

    #[test]
    fn a_paste_can_not_be_ended_from_within() {
        assert_eq!(harmless("a\u{1b}[201~\r\nb\u{7}\tc"), "a[201~\nb\tc");
    }
}
