//! An agent at a terminal, for tests with a real tmux: it is told things as a vendor's program is, and
//! does what its flags say.
//!
//! - Before `--start-ms` is over it shows nothing, and what is typed is lost.
//! - A paste is one piece, whatever is in it. Enter submits what is in the input box.
//! - What it was told is on the disk (`--transcript`) before anything on the screen says so.
//! - The last lines of the screen say how it stands, and nothing else ever does: `READY>`, `WORKING…`
//!   or `ALLOW THIS? [y/N]`, or what `--ready` and `--busy` have in their place. Each frame is one write.

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use rustix::termios::{self, OptionalActions, QueueSelector, Termios};
use serde_json::{Value, json};
use signal_hook::{
    consts::{SIGHUP, SIGTERM},
    flag,
};

/// How long a signal may go unnoticed.
const TICK: Duration = Duration::from_millis(50);

/// How much of a prompt an answer repeats.
const REPEATED: usize = 60;

/// How many lines of the screen are not for what was said.
const STATUS_LINES: usize = 2;

/// A scripted agent at a terminal.
#[derive(Debug, Parser)]
#[command(name = "tui-agent")]
struct Args {
    /// Show nothing for so long, and lose what is typed.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    start_ms: u64,
    /// An Enter that comes sooner than this after a paste is a newline.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    gap_ms: u64,
    /// How long an answer takes.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    work_ms: u64,
    /// Append every prompt to this file as a JSON line.
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
    /// Go on with a conversation: the prompts in the transcript count from then on.
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// Ask whether it may go on with this prompt, counted from 1.
    #[arg(long, value_name = "K")]
    ask_at: Option<u64>,
    /// Exit with status 3 at this prompt, counted from 1.
    #[arg(long, value_name = "K")]
    exit_at: Option<u64>,
    /// Exit with status 1 at once.
    #[arg(long)]
    crash: bool,
    /// What the screen says when it is ready, and while it works.
    #[arg(long, value_name = "WORDS", default_value = "READY>")]
    ready: String,
    #[arg(long, value_name = "WORDS", default_value = "WORKING…")]
    busy: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.crash {
        return ExitCode::FAILURE;
    }
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tui-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> io::Result<ExitCode> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGTERM] {
        flag::register(signal, Arc::clone(&ended))?;
    }
    let terminal = Terminal::open()?;
    thread::sleep(Duration::from_millis(args.start_ms));
    let mut agent = Agent::new(args)?;
    terminal.listen()?;
    let typed = typed();
    agent.draw()?;
    loop {
        if ended.load(Ordering::Relaxed) {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(code) = agent.step(&typed)? {
            return Ok(code);
        }
    }
}

/// What is typed, piece by piece, and when.
fn typed() -> Receiver<(Instant, Vec<u8>)> {
    let (sender, receiver) = mpsc::channel();
    // It ends with the process: nothing else ends a read from a terminal.
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = io::stdin().read(&mut buffer) {
            if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The terminal in raw mode, until this goes.
#[derive(Debug)]
struct Terminal {
    /// `None` where it is none.
    before: Option<Termios>,
}

impl Terminal {
    fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let Ok(before) = termios::tcgetattr(&stdin) else { return Ok(Self { before: None }) };
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Self { before: Some(before) })
    }

    /// Loses what was typed so far, and has pastes marked from now on.
    fn listen(&self) -> io::Result<()> {
        if self.before.is_some() {
            termios::tcflush(io::stdin(), QueueSelector::IFlush)?;
        }
        show("\x1b[?2004h")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where that is not possible any more, there is no terminal either.
        drop(show("\x1b[?2004l\r\n"));
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

fn show(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[derive(Debug)]
struct Agent {
    args: Args,
    keys: Keys,
    /// The input box.
    input: Vec<u8>,
    /// When the last paste ended.
    pasted: Option<Instant>,
    /// What was submitted while it worked.
    queued: VecDeque<String>,
    state: State,
    /// What was said, a line each.
    lines: Vec<String>,
    prompts: u64,
    sent: u64,
}

#[derive(Debug)]
enum State {
    Ready,
    Asking { prompt: String },
    Working { prompt: String, until: Instant },
}

impl Agent {
    fn new(args: Args) -> io::Result<Self> {
        let (mut lines, mut prompts) = (Vec::new(), 0);
        if let Some(id) = &args.resume {
            prompts = args.transcript.as_deref().map_or(Ok(0), remembered)?;
            lines = vec![format!("RESUMED {id}"), format!("REMEMBERS {prompts}")];
        }
        Ok(Self {
            args,
            keys: Keys::default(),
            input: Vec::new(),
            pasted: None,
            queued: VecDeque::new(),
            state: State::Ready,
            lines,
            prompts,
            sent: 0,
        })
    }

    /// Waits for what happens next, and does it. Says with which status it ends, when it does.
    fn step(&mut self, typed: &Receiver<(Instant, Vec<u8>)>) -> io::Result<Option<ExitCode>> {
        let wait = match self.state {
            State::Working { until, .. } => until.saturating_duration_since(Instant::now()),
            _ => TICK,
        };
        if wait.is_zero() {
            self.answer();
            let ended = self.next_queued()?;
            self.draw()?;
            return Ok(ended);
        }
        let (when, bytes) = match typed.recv_timeout(wait.min(TICK)) {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Ok(Some(ExitCode::SUCCESS)),
        };
        for key in self.keys.feed(&bytes) {
            let ended = self.key(key, when)?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
        self.draw()?;
        Ok(None)
    }

    fn key(&mut self, key: Key, when: Instant) -> io::Result<Option<ExitCode>> {
        if matches!(self.state, State::Asking { .. }) {
            return self.decision(&key);
        }
        match key {
            Key::Byte(byte) => self.input.push(byte),
            Key::Newline => self.input.push(b'\n'),
            Key::Paste(text) => {
                self.input.extend(text);
                self.pasted = Some(when);
            }
            Key::Backspace => {
                // The rest of a character goes with its first byte.
                while self.input.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            Key::Enter => return self.enter(when),
            Key::Clear => self.input.clear(),
            Key::Interrupt if matches!(self.state, State::Ready) => self.input.clear(),
            Key::Interrupt => return self.cancel(),
            Key::End if self.input.is_empty() => return Ok(Some(ExitCode::SUCCESS)),
            Key::End => {}
        }
        Ok(None)
    }

    fn enter(&mut self, when: Instant) -> io::Result<Option<ExitCode>> {
        let gap = Duration::from_millis(self.args.gap_ms);
        if self.pasted.is_some_and(|pasted| when.saturating_duration_since(pasted) < gap) {
            self.input.push(b'\n');
            return Ok(None);
        }
        let prompt = String::from_utf8_lossy(&self.input).into_owned();
        if prompt.trim().is_empty() {
            return Ok(None);
        }
        self.input.clear();
        self.queued.push_back(prompt);
        match self.state {
            State::Ready => self.next_queued(),
            _ => Ok(None),
        }
    }

    /// Begins with what was submitted first, if anything was.
    fn next_queued(&mut self) -> io::Result<Option<ExitCode>> {
        self.state = State::Ready;
        let Some(prompt) = self.queued.pop_front() else { return Ok(None) };
        self.prompts += 1;
        self.note(&json!({ "pid": std::process::id(), "prompt": prompt }))?;
        if self.args.exit_at == Some(self.prompts) {
            return Ok(Some(ExitCode::from(3)));
        }
        match self.args.ask_at == Some(self.prompts) {
            true => self.state = State::Asking { prompt },
            false => self.work(prompt),
        }
        Ok(None)
    }

    fn work(&mut self, prompt: String) {
        let until = Instant::now() + Duration::from_millis(self.args.work_ms);
        self.state = State::Working { prompt, until };
    }

    /// What is typed while it asks is an answer, or lost.
    fn decision(&mut self, key: &Key) -> io::Result<Option<ExitCode>> {
        match key {
            Key::Byte(b'y' | b'Y') => {
                if let State::Asking { prompt } = std::mem::replace(&mut self.state, State::Ready) {
                    self.work(prompt);
                }
                Ok(None)
            }
            Key::Byte(b'n' | b'N') | Key::Enter => {
                self.note(&json!({ "denied": true }))?;
                self.lines.push("DENIED".to_owned());
                self.next_queued()
            }
            Key::Interrupt => self.cancel(),
            _ => Ok(None),
        }
    }

    fn cancel(&mut self) -> io::Result<Option<ExitCode>> {
        self.lines.push("CANCELLED".to_owned());
        self.next_queued()
    }

    fn answer(&mut self) {
        let State::Working { prompt, .. } = std::mem::replace(&mut self.state, State::Ready) else {
            return;
        };
        for line in prompt.lines() {
            let Some(order) = line.trim_start().strip_prefix("SEND ") else { continue };
            let mut words = order.splitn(3, ' ');
            let (Some(to), Some(dir), Some(text)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            self.sent += 1;
            self.lines.push(match send(Path::new(dir), self.sent, text) {
                Ok(()) => format!("SENT {to}"),
                Err(error) => format!("NOT SENT {to}: {error}"),
            });
        }
        let start: String = prompt.chars().take(REPEATED).collect();
        self.lines.push(format!("ANSWER {}: {start}", self.prompts));
    }

    /// Appends to the transcript; it is on the disk when this returns.
    fn note(&self, line: &Value) -> io::Result<()> {
        let Some(path) = &self.args.transcript else { return Ok(()) };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()
    }

    fn draw(&self) -> io::Result<()> {
        let (rows, columns) = match termios::tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
            _ => (24, 80),
        };
        show(&self.frame(rows.into(), columns.into()))
    }

    /// The whole screen. It is drawn over what is there, so that nobody sees it empty in between.
    fn frame(&self, rows: usize, columns: usize) -> String {
        let input = String::from_utf8_lossy(&self.input);
        let status = match self.state {
            State::Ready => vec![format!("{} {input}", self.args.ready)],
            State::Asking { .. } => vec!["ALLOW THIS? [y/N]".to_owned()],
            State::Working { .. } => vec![self.args.busy.clone(), format!("> {input}")],
        };
        let room = rows.saturating_sub(STATUS_LINES);
        let said = &self.lines[self.lines.len().saturating_sub(room)..];
        let mut frame = String::from("\x1b[H");
        for (number, line) in said.iter().chain(&status).enumerate() {
            if number > 0 {
                frame.push_str("\r\n");
            }
            // A line that is full to the last column would leave the cursor in between two lines.
            let visible = line.chars().map(visible).take(columns.saturating_sub(1));
            frame.extend(visible);
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        frame
    }
}

/// What can be shown in one place of the screen.
fn visible(sign: char) -> char {
    match sign {
        '\n' => '⏎',
        sign if sign.is_control() => ' ',
        sign => sign,
    }
}

/// How many prompts are in a transcript. One that is not there has none.
fn remembered(transcript: &Path) -> io::Result<u64> {
    let text = match fs::read_to_string(transcript) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_default();
    Ok(text.lines().map(|text| u64::from(line(text).get("prompt").is_some())).sum())
}

/// Puts a message into somebody's inbox, where it is seen as a whole or not at all.
fn send(dir: &Path, number: u64, text: &str) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let name = format!("{}-{number}.md", now.as_nanos());
    let draft = dir.join(format!(".{name}.tmp"));
    fs::write(&draft, text)?;
    fs::rename(&draft, dir.join(name))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Key {
    Byte(u8),
    Enter,
    /// Ctrl-J, or Enter with Alt.
    Newline,
    /// With `\n` at the end of each line, however they ended.
    Paste(Vec<u8>),
    Backspace,
    /// Ctrl-C
    Interrupt,
    Clear,
    /// Ctrl-D
    End,
}

/// Makes keys of bytes, wherever a read ended in between.
#[derive(Debug, Default)]
enum Keys {
    #[default]
    Plain,
    /// What came from an ESC on.
    Escape(Vec<u8>),
    Paste(Vec<u8>),
}

impl Keys {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|&byte| self.take(byte)).collect()
    }

    fn take(&mut self, byte: u8) -> Option<Key> {
        match self {
            Self::Plain => match byte {
                0x1b => {
                    *self = Self::Escape(Vec::new());
                    None
                }
                b'\r' => Some(Key::Enter),
                b'\n' => Some(Key::Newline),
                0x03 => Some(Key::Interrupt),
                0x15 => Some(Key::Clear),
                0x04 => Some(Key::End),
                0x08 | 0x7f => Some(Key::Backspace),
                0x00..0x20 => None,
                byte => Some(Key::Byte(byte)),
            },
            Self::Escape(sequence) => {
                sequence.push(byte);
                let (next, key) = escaped(sequence)?;
                *self = next;
                key
            }
            Self::Paste(text) => {
                text.push(byte);
                let length = text.strip_suffix(b"\x1b[201~")?.len();
                let text = normal(&text[..length]);
                *self = Self::Plain;
                Some(Key::Paste(text))
            }
        }
    }
}

/// What follows a sequence of bytes after an ESC, once it is complete.
fn escaped(sequence: &[u8]) -> Option<(Keys, Option<Key>)> {
    match sequence {
        b"[200~" => Some((Keys::Paste(Vec::new()), None)),
        [0x1b] => Some((Keys::Escape(Vec::new()), None)),
        b"\r" => Some((Keys::Plain, Some(Key::Newline))),
        b"[" | b"O" => None,
        // Parameters of a key; its last byte is another one.
        [b'[', .., 0x20..0x40] => None,
        _ => Some((Keys::Plain, None)),
    }
}

/// A terminal sends the newlines of a paste as `\r`.
fn normal(text: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(text.len());
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'\r' => lines.push(b'\n'),
            b'\n' if at > 0 && text[at - 1] == b'\r' => {}
            byte => lines.push(byte),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<Key> {
        text.bytes().map(Key::Byte).collect()
    }

    fn paste(text: &str) -> Vec<Key> {
        vec![Key::Paste(text.into())]
    }

    #[test]
    fn keys_are_the_same_wherever_a_read_ends() {
        let table = [
            ("aü\r", [bytes("aü"), vec![Key::Enter]].concat()),
            ("\x1b[200~a\rb\r\nc\nd\x1b[201~\r", [paste("a\nb\nc\nd"), vec![Key::Enter]].concat()),
            (
                "\x1b[200~\x1b[A\x03\x1b[20\x1b[201~x",
                [paste("\x1b[A\x03\x1b[20"), bytes("x")].concat(),
            ),
            ("\x1b[200~\x1b[201~", paste("")),
            // Keys that mean nothing here: arrows, a function key, Alt and a letter, focus.
            ("\x1b[Aa\x1bOPb\x1b[1;5Cc\x1bxd\x1b[I\x1b\x1b[15~", bytes("abcd")),
            (
                "\x1b\r\n\x7f\x03\x04\x01",
                vec![Key::Newline, Key::Newline, Key::Backspace, Key::Interrupt, Key::End],
            ),
        ];
        for (text, expected) in table {
            assert_eq!(Keys::default().feed(text.as_bytes()), expected, "{text:?}");
            for at in 0..text.len() {
                let (first, second) = text.as_bytes().split_at(at);
                let mut keys = Keys::default();
                let found = [keys.feed(first), keys.feed(second)].concat();
                assert_eq!(found, expected, "{text:?} at {at}");
            }
        }
        assert_eq!(Keys::default().feed(b"\x1b[200~never closed\r"), []);
    }

    /// An agent with a transcript, and the transcript.
    fn agent(dir: &tempfile::TempDir, flags: &[&str]) -> Agent {
        let transcript = dir.path().join("t.jsonl");
        let args = ["tui-agent", "--transcript", transcript.to_str().unwrap()];
        Agent::new(Args::parse_from(args.iter().chain(flags))).unwrap()
    }

    fn noted(agent: &Agent) -> Vec<Value> {
        let text = fs::read_to_string(agent.args.transcript.as_ref().unwrap()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn told(agent: &Agent) -> Vec<String> {
        let prompt = |line: &Value| Some(line.get("prompt")?.as_str()?.to_owned());
        noted(agent).iter().filter_map(prompt).collect()
    }

    fn type_in(agent: &mut Agent, text: &str, when: Instant) -> Option<ExitCode> {
        let keys = agent.keys.feed(text.as_bytes());
        keys.into_iter().find_map(|key| agent.key(key, when).unwrap())
    }

    #[test]
    fn an_enter_too_soon_after_a_paste_is_a_newline() {
        let dir = tempfile::tempdir().unwrap();
        let mut agent = agent(&dir, &["--gap-ms", "40"]);
        let now = Instant::now();
        type_in(&mut agent, "\x1b[200~a\rb\x1b[201~\r", now);
        assert!(told(&agent).is_empty() && agent.input == b"a\nb\n");
        type_in(&mut agent, "\r", now + Duration::from_millis(40));
        assert_eq!(told(&agent), ["a\nb\n"]);
        assert!(agent.frame(24, 80).contains("WORKING…"));
        // What comes meanwhile is next.
        type_in(&mut agent, "c\x7fd\x03", now);
        assert!(agent.frame(24, 80).contains("> d") && agent.frame(24, 80).contains("CANCELLED"));
        type_in(&mut agent, "\x03", now);
        assert!(agent.frame(24, 80).contains("READY> \x1b[K"), "{:?}", agent.frame(24, 80));
    }

    #[test]
    fn what_is_submitted_while_it_works_comes_next() {
        let dir = tempfile::tempdir().unwrap();
        let mut agent = agent(&dir, &["--work-ms", "0"]);
        type_in(&mut agent, "one\rtwo\rthree", Instant::now());
        assert_eq!(told(&agent), ["one"]);
        let (_sender, typed) = mpsc::channel();
        assert_eq!(agent.step(&typed).unwrap(), None);
        assert_eq!(agent.step(&typed).unwrap(), None);
        assert_eq!(told(&agent), ["one", "two"]);
        assert_eq!(agent.lines, ["ANSWER 1: one", "ANSWER 2: two"]);
        assert!(agent.frame(24, 80).ends_with("READY> three\x1b[K\x1b[J"));
    }

    #[test]
    fn a_blind_enter_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut asked = agent(&dir, &["--ask-at", "1"]);
        let now = Instant::now();
        type_in(&mut asked, "do it\r", now);
        assert!(asked.frame(24, 80).contains("ALLOW THIS? [y/N]"));
        type_in(&mut asked, "\x1b[200~lost\x1b[201~\r", now);
        assert_eq!(noted(&asked)[1..], [json!({ "denied": true })]);
        assert_eq!(
            (asked.lines.as_slice(), asked.input.as_slice()),
            (&["DENIED".into()][..], &b""[..])
        );
        // What was asked before it was resumed counts.
        let mut resumed = agent(&dir, &["--resume", "x", "--ask-at", "2", "--exit-at", "3"]);
        assert_eq!(resumed.lines, ["RESUMED x", "REMEMBERS 1"]);
        assert_eq!(type_in(&mut resumed, "more\ry", now), None);
        assert!(matches!(resumed.state, State::Working { .. }));
        assert_eq!(type_in(&mut resumed, "\x03last\r", now), Some(ExitCode::from(3)));
        assert_eq!(told(&resumed), ["do it", "more", "last"]);
    }

    #[test]
    fn a_message_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path().join("inbox");
        fs::create_dir(&inbox).unwrap();
        let mut agent = agent(&dir, &[]);
        let inbox_name = inbox.display();
        let prompt = format!("Hi\nSEND b {inbox_name} one two\nSEND c /nowhere/at/all x\nSEND d");
        agent.work(prompt);
        agent.answer();
        let files: Vec<PathBuf> =
            fs::read_dir(&inbox).unwrap().map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), 1);
        assert!(files[0].to_str().unwrap().ends_with("-1.md"));
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), "one two");
        assert_eq!(agent.lines[0], "SENT b");
        assert!(agent.lines[1].starts_with("NOT SENT c: ") && agent.lines.len() == 3);
    }
}
