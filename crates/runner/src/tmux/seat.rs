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
                    #{pane_dead_signal}|#{pane_in_mode}|#{@segue_seat}|#{@segue_owner}|#{@segue_part}|#{pane_title}";

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
    /// A person looks at what was said, or chooses something: keys go there, and not to the program.
    pub in_mode: bool,
    /// Who sits there. Empty for one that was never labelled.
    pub part: String,
    pub title: String,
    /// Whose pane it is, and whose session: a person may take a pane along to one of their own.
    owner: String,
    host: String,
}

impl Seat {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(12, '|').map(str::to_owned);
        let mut next = || fields.next();
        Some(Self {
            session_id: next()?,
            window_id: next()?,
            pane: next()?,
            pid: next()?.parse().ok(),
            dead: next()? == "1",
            status: next()?.parse().ok(),
            signal: next()?.parse().ok(),
            in_mode: !matches!(&*next()?, "" | "0"),
            owner: next()?,
            host: next()?,
            part: next()?,
            title: next()?,
        })
    }

    /// Whether it was taken along to a session that is not the crew's.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        !self.owner.is_empty() && self.owner != self.host
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
        let ours = |seat: &Seat| seat.owner == self.owner || seat.host == self.owner;
        Ok(seats.filter(ours).collect())
    }

    /// What its session is called, where it is there.
    fn home(&self) -> Result<Option<String>> {
        let panes = self.tmux.panes()?;
        Ok(panes.into_iter().find(|pane| pane.owner == self.owner).map(|pane| pane.session))
    }

    /// What the session is called in which somebody sits.
    pub fn called(&self) -> Result<Option<String>> {
        if let Some(name) = self.home()? {
            return Ok(Some(name));
        }
        let (seats, panes) = (self.seats()?, self.tmux.panes()?);
        let mut panes = panes.into_iter();
        Ok(panes.find(|pane| seats.iter().any(|seat| seat.pane == pane.id)).map(|one| one.session))
    }

    /// Starts a program in a pane of its own, and writes the name on it.
    pub fn sit(
        &self,
        part: &str,
        window: &str,
        place: Place<'_>,
        argv: &[OsString],
    ) -> Result<String> {
        let pane = match (place, self.home()?) {
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
        // On the pane itself: with that it is known wherever it is taken.
        let on_it = ["set-option", "-p", "-t", &pane];
        let owner = on_it.into_iter().chain(["@segue_seat", &self.owner, ";"]);
        self.tmux.run(owner.chain(on_it).chain(["@segue_part", part]))?;
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

    /// Puts a text into a pane as a paste, which submits nothing. False where the keys of a pane go
    /// elsewhere, its program has ended, or somebody else sits there: then nothing was done.
    pub fn paste(&self, part: &str, pane: &str, text: &str) -> Result<bool> {
        let buffer = format!("segue-{}-{}", self.owner, pane.trim_start_matches('%'));
        self.tmux.run_with(&["load-buffer", "-b", &buffer, "-"], harmless(text).as_bytes())?;
        self.if_it_listens(part, pane, &format!("paste-buffer -p -r -d -b {buffer} -t {pane}"))
    }

    /// The Enter after a paste. False where that would go elsewhere.
    pub fn enter(&self, part: &str, pane: &str) -> Result<bool> {
        self.if_it_listens(part, pane, &format!("send-keys -t {pane} Enter"))
    }

    /// The server looks and does it in one: a person may be quicker than whoever looked before, and
    /// so may the end of a program. A paste into a pane that is dead ends some servers of tmux; and
    /// the next server gives the same ids to others.
    fn if_it_listens(&self, part: &str, pane: &str, command: &str) -> Result<bool> {
        const NO: &str = "not now";
        let is = |option: &str, value: &str| format!("#{{==:#{{{option}}},{value}}}");
        let owner = &self.owner;
        let ours = format!("#{{||:{},{}}}", is("@segue_seat", owner), is("@segue_owner", owner));
        let its = format!("#{{&&:{ours},{}}}", is("@segue_part", part));
        let listens = format!("#{{&&:{its},#{{?#{{||:#{{pane_in_mode}},#{{pane_dead}}}},0,1}}}}");
        let refuse = format!("display-message -p '{NO}'");
        let question = ["if-shell", "-F", "-t", pane, &listens, command, &refuse];
        Ok(self.tmux.run(question)?.trim() != NO)
    }

    /// Has the keys of a pane go to its program again.
    pub fn leave_mode(&self, pane: &str) -> Result<()> {
        self.tmux.run(["copy-mode", "-q", "-t", pane]).map(drop)
    }

    pub fn keys(&self, pane: &str, keys: &[&str]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.tmux.run(["send-keys", "-t", pane].iter().chain(keys)).map(drop)
    }

    /// Marks a pane or takes the mark off again, and gives its window a name where that is ours.
    pub fn mark(&self, pane: &str, window: Option<&str>, mark: Option<&str>) -> Result<()> {
        let style = if mark.is_some() { "bg=colour52" } else { "default" };
        let text = mark.map(|mark| format!(": {}", plain_text(mark))).unwrap_or_default();
        let text = word(OsStr::new(&text));
        let on_it = ["set-option", "-p", "-t", pane].map(OsStr::new);
        let mut words: Vec<&OsStr> = on_it.to_vec();
        words.extend([OsStr::new("@segue_mark"), &text, OsStr::new(";")]);
        words.extend(on_it.into_iter().chain(["window-style", style].map(OsStr::new)));
        if let Some(window) = window {
            words.extend([";", "rename-window", "-t", pane, window].map(OsStr::new));
        }
        self.tmux.run(words).map(drop)
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
#[must_use]
pub fn harmless(text: &str) -> String {
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
        let seat = Seat::parse("$1|@2|%3|77|1|3||1|01ABC|01ABC|coder|a|b").unwrap();
        assert_eq!((seat.pane.as_str(), seat.pid, seat.dead), ("%3", Some(77), true));
        assert_eq!((seat.part.as_str(), seat.title.as_str()), ("coder", "a|b"));
        assert_eq!(seat.end(), "exit status 3");
        assert!(seat.in_mode && !seat.is_elsewhere());
        let moved = Seat::parse("$1|@2|%3|77|0|||0|01ABC||coder|").unwrap();
        assert!(!moved.in_mode && moved.is_elsewhere());
        assert_eq!(Seat::parse("$1|@2|%3"), None);
    }

    /// A real server, ended with the test.
    struct Real {
        _dir: tempfile::TempDir,
        room: Room,
    }

    impl Real {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let tmux = Tmux::find_at(dir.path(), &dir.path().join("s/socket")).unwrap();
            Self { room: Room::new(tmux, "room", "01ABC-7"), _dir: dir }
        }

        fn seated(&self, part: &str) -> String {
            let argv = ["cat"].map(OsString::from);
            self.room.sit(part, part, Place::Window, &argv).unwrap()
        }
    }

    impl Drop for Real {
        fn drop(&mut self) {
            let _ = self.room.tmux.run(["kill-server"]);
        }
    }

    #[test]
    fn nothing_is_typed_where_keys_go_elsewhere_or_nobody_sits() {
        let real = Real::new();
        let room = &real.room;
        let pane = real.seated("coder");
        let type_in = |part: &str| {
            (room.paste(part, &pane, "hello").unwrap(), room.enter(part, &pane).unwrap())
        };
        assert_eq!((type_in("coder"), type_in("tester")), ((true, true), (false, false)));
        let another = Room::new(room.tmux.clone(), "room", "01ABC-8");
        assert!(!another.paste("coder", &pane, "hello").unwrap());
        room.tmux.run(["copy-mode", "-t", &pane]).unwrap();
        assert!(room.seats().unwrap()[0].in_mode);
        assert_eq!(type_in("coder"), (false, false));
        room.leave_mode(&pane).unwrap();
        let pid = room.seats().unwrap()[0].pid.unwrap();
        crate::process::end_gently(pid, std::time::Duration::ZERO);
        while !room.seats().unwrap()[0].dead {
            std::thread::yield_now();
        }
        // And the server is still there.
        assert!(!room.paste("coder", &pane, "hello").unwrap());
        assert_eq!(room.seats().unwrap().len(), 1);
    }

    #[test]
    fn a_pane_is_known_wherever_it_is_taken() {
        let real = Real::new();
        let room = &real.room;
        let (coder, tester) = (real.seated("coder"), real.seated("tester"));
        room.tmux.run(["new-session", "-d", "-s", "mine", "cat"]).unwrap();
        room.tmux.run(["join-pane", "-d", "-s", &coder, "-t", "=mine:"]).unwrap();
        let seats = room.seats().unwrap();
        let of = |part: &str| seats.iter().find(|seat| seat.part == part).unwrap();
        assert_eq!((of("coder").pane.as_str(), of("coder").is_elsewhere()), (&*coder, true));
        assert_eq!((of("tester").pane.as_str(), of("tester").is_elsewhere()), (&*tester, false));
        assert_eq!(seats.len(), 2, "the person's own is none of them");
        room.close().unwrap();
        assert_eq!(room.called().unwrap().as_deref(), Some("mine"));
    }

    #[test]
    fn a_paste_can_not_be_ended_from_within() {
        assert_eq!(harmless("a\u{1b}[201~\r\nb\u{7}\tc"), "a[201~\nb\tc");
    }
}
