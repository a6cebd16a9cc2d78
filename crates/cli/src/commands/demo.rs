//! `segue demo`: see it happen, on the embedded model, in a scratch repository.
//!
//! Everything in it is real: a real process of Segue, a real SIGKILL, a real resume. What it claims
//! at the end it has looked up on the disk, and it fails where one of its claims does not hold.

mod replay;

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use segue_core::{Body, Exit, event::Verdict, status::Status};
use segue_journal::{Home, RealDisk, Session, repair};
use segue_runner::process;
use segue_view::style::{Paint, Style};
use serde_json::json;

use crate::{
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

const PATIENCE: Duration = Duration::from_secs(30);

const PROJECT: [(&str, &str); 3] = [
    ("slug.sh", include_str!("../../demo/slug.sh")),
    ("test.sh", include_str!("../../demo/test.sh")),
    ("announce.sh", include_str!("../../demo/announce.sh")),
];

/// Who plays: beside the project, so that nobody sees them at work in it.
const PLAYERS: [(&str, &str); 7] = [
    ("script.toml", include_str!("../../demo/script.toml")),
    ("limited.toml", include_str!("../../demo/limited.toml")),
    ("colleague.sh", include_str!("../../demo/colleague.sh")),
    ("worker.toml", include_str!("../../demo/worker.toml")),
    ("reviewer.toml", include_str!("../../demo/reviewer.toml")),
    ("list-worker.toml", include_str!("../../demo/list-worker.toml")),
    ("evaluator.toml", include_str!("../../demo/evaluator.toml")),
];

const PLAN: [(&str, &str); 3] = [
    ("overview.md", include_str!("../../demo/plan/overview.md")),
    ("T-001-version.md", include_str!("../../demo/plan/T-001-version.md")),
    ("T-002-usage.md", include_str!("../../demo/plan/T-002-usage.md")),
];

/// The tool call that is under way when Segue is killed.
const FATAL_CALL: &str = "call-1-0";

const LOOK_AROUND: [(&str, &str); 9] = [
    ("segue log 1", "what happened, event by event"),
    ("segue show 2", "all that is known of the session"),
    ("segue bridge 3", "who said what of the pair's work"),
    ("segue tasks status 4", "the list, task by task"),
    ("segue show 1 --graph", "the steps of the first one, and what went on from them"),
    ("less ../.segue/sessions/*/*/resume.json", "what the next agent has to know"),
    ("less ../.segue/sessions/*/*/journal.jsonl", "the journal itself: one event, one line"),
    ("git diff", "what the agent changed"),
    ("segue resume 1 \"And digits?\"", "ask for more (this model has no answer to it)"),
];

/// See it happen: runs are killed, resumed, handed over, rewound, reviewed and replayed, and a list is worked on
///
/// In a scratch repository, on the embedded model: no account, no network, under a minute.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue demo
  segue demo --dir /tmp/see-it      keep it where it is easy to find")]
pub(crate) struct Args {
    /// Where to play it [default: a new directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let stage = Stage::set(context, args.dir.as_deref())?;
    stage.title("1", "A small program whose test fails, in a scratch repository");
    stage.say(&format!("   {}", stage.err.paint(Paint::Dim, &stage.app.display().to_string())));
    stage.title("2", "Segue's own agent starts to work on it");
    let killed = stage.run_until_killed()?;
    stage.title("3", "That was kill -9, in the middle of a tool call. What is left?");
    stage.segue(&["list"])?;
    let session = stage.session()?;
    let status = Status::of(session.state(), session.held_by()?.is_some());
    let left_alone = process::leftovers(&session.id().to_string());
    stage.title("4", "Go on from there");
    let resumed = stage.segue(&["resume", "1"])?;
    let mut checks = vec![
        ("the process was ended by SIGKILL", killed.signal() == Some(9)),
        ("nothing that it had started was left running", left_alone.is_empty()),
        ("the session was found as crashed, by its journal alone", status == Status::Crashed),
        ("the resumed session came to its end", resumed.success()),
        ("the program's test passes", stage.test_passes()),
        ("what may not happen twice happened once (announcements.log)", stage.announced() == 1),
        ("every recorded byte checks out (segue verify)", stage.verifies()?),
    ];
    checks.extend(stage.second_scene()?);
    checks.extend(stage.third_scene()?);
    checks.extend(stage.fourth_scene()?);
    checks.extend(stage.replay_scene()?);
    stage.conclude(context, &checks)
}

/// The scratch directory and who plays on it.
struct Stage {
    dir: PathBuf,
    app: PathBuf,
    home: Home,
    quiet: bool,
    out: Style,
    err: Style,
}

impl Stage {
    fn set(context: &Context, named: Option<&Path>) -> Result<Self, CommandError> {
        let dir = match named {
            Some(named) => context.cwd.join(named),
            None => std::env::temp_dir().join(format!("segue-demo-{}", std::process::id())),
        };
        // Somebody's directory is no stage: a home in it would hide theirs.
        if fs::read_dir(&dir).is_ok_and(|mut names| names.next().is_some()) {
            return Err(CommandError::usage(format!("{} is not empty", dir.display()))
                .hint("name a new place with --dir"));
        }
        let app = dir.join("app");
        fs::create_dir_all(&app)
            .map_err(|error| CommandError::failed(format!("{}: {error}", app.display())))?;
        let dir = fs::canonicalize(&dir)?;
        let app = dir.join("app");
        for (name, text) in PROJECT {
            fs::write(app.join(name), text)?;
        }
        for (name, text) in PLAYERS {
            fs::write(dir.join(name), text)?;
        }
        git(&app);
        let home = Home::new(Arc::new(RealDisk), dir.join(".segue"));
        Ok(Self { dir, app, home, quiet: context.json, out: context.out(), err: context.err() })
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    fn title(&self, number: &str, text: &str) {
        self.say(&self.err.paint(Paint::Bold, &format!("\n━━ {number}. {text}")));
    }

    /// This very program, as a person would call it in the scratch repository.
    fn command(&self, words: &[&str]) -> Command {
        let words_shown: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        let shown = format!("segue {}", words_shown.join(" "));
        let (prompt, shown) =
            (self.err.paint(Paint::Dim, "$"), self.err.paint(Paint::Cyan, &shown));
        self.say(&format!("   {prompt} {shown}"));
        let mut command = Command::new(process::this_program());
        command.args(words).current_dir(&self.app).env("SEGUE_HOME", self.home.dir());
        command.stdin(Stdio::null());
        if self.quiet {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        command
    }

    fn segue(&self, words: &[&str]) -> Result<ExitStatus, CommandError> {
        Ok(self.command(words).status()?)
    }

    /// Runs the agent, and kills Segue when the fatal tool call has had its effect.
    fn run_until_killed(&self) -> Result<ExitStatus, CommandError> {
        let words =
            ["run", "Mend slug.sh", "--proof", "sh test.sh", "--model", "script:../script.toml"];
        let mut child = self.command(&words).spawn()?;
        let started = Instant::now();
        while !(self.fatal_call_started() && self.announced() > 0) {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Err(CommandError::failed("the run did not get to its tool call in time"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        // Long enough to be seen.
        thread::sleep(Duration::from_millis(700));
        child.kill()?;
        let status = child.wait()?;
        let id = self.session()?.id().to_string();
        while !process::leftovers(&id).is_empty() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        self.say(&self.err.paint(Paint::Red, "\n   ✗ kill -9"));
        Ok(status)
    }

    /// A limit, another agent, a step back.
    fn second_scene(&self) -> Result<Vec<(&'static str, bool)>, CommandError> {
        self.title(
            "5",
            "Another task. This time the agent runs into its limit: another one goes on",
        );
        let words = [
            "run",
            "Describe how slug.sh is used",
            "--model",
            "script:../limited.toml",
            "--fallback",
            "exec:sh ../colleague.sh",
        ];
        let handed = self.segue(&words)?;
        let told = fs::read_to_string(self.dir.join("told.txt")).unwrap_or_default();
        let knew = |what: &str| told.contains(what);
        let usage = self.app.join("USAGE.md");
        let mut checks = vec![
            (
                "the second agent finished what the first had begun",
                handed.success() && usage.exists(),
            ),
            (
                "it was told the objective, the decision, the file and the next task",
                knew("Describe how slug.sh is used")
                    && knew("words are joined by a dash")
                    && knew("STYLE.md")
                    && knew("Write USAGE.md"),
            ),
        ];
        if !self.app.join(".git").exists() {
            self.say("   (without git there are no checkpoints to go back to)");
            return Ok(checks);
        }
        self.title("6", "Back to before the second agent came, and forward again");
        let back = self.segue(&["rewind", "2", "--turn", "1"])?;
        let gone = !usage.exists() && self.app.join("STYLE.md").exists();
        let forward = self.segue(&["rewind", "2", "--undo"])?;
        checks.push(("the rewind took its file away, and nothing else", back.success() && gone));
        checks
            .push(("taking the rewind back brought it again", forward.success() && usage.exists()));
        Ok(checks)
    }

    /// One agent works, another reviews: a fail, a fix, a pass.
    fn third_scene(&self) -> Result<Vec<(&'static str, bool)>, CommandError> {
        self.title("7", "A third task, for two: one works, the other reviews until it is right");
        let words = [
            "pair",
            "Write shout.sh, which prints its argument in capitals",
            "--worker",
            "native@script:../worker.toml",
            "--reviewer",
            "native@script:../reviewer.toml",
            "--proof",
            "sh shout.sh hello",
        ];
        let agreed = self.segue(&words)?;
        let session = self.numbered(3)?;
        let mut verdicts = Vec::new();
        session.for_each(|event| {
            if let Body::VerdictGiven(given) = event.body {
                verdicts.push((given.iteration, given.said.verdict));
            }
        })?;
        let mut shout = Command::new("sh");
        let said = shout.args(["shout.sh", "so  it is"]).current_dir(&self.app).output();
        let mut asked = String::new();
        for (_, part) in session.parts()? {
            part.for_each(|event| {
                if let Body::TurnStarted(started) = event.body {
                    asked.push_str(started.prompt.head());
                }
            })?;
        }
        Ok(vec![
            (
                "the first attempt failed the review, the second passed",
                agreed.success() && verdicts == [(1, Verdict::Fail), (2, Verdict::Pass)],
            ),
            (
                "the reviewer saw the task, the diff and the proof",
                ["in capitals", "+echo $1", "HELLO"].iter().all(|part| asked.contains(part)),
            ),
            (
                "what it objected to is mended",
                said.is_ok_and(|output| output.stdout == b"SO  IT IS\n"),
            ),
        ])
    }

    /// A list of tasks: a cap is hit, raised, and the rest is done.
    fn fourth_scene(&self) -> Result<Vec<(&'static str, bool)>, CommandError> {
        self.title(
            "8",
            "A list of two tasks, each until an evaluator accepts it; one attempt each",
        );
        let plan = self.dir.join("plan");
        fs::create_dir_all(&plan)?;
        for (name, text) in PLAN {
            fs::write(plan.join(name), text)?;
        }
        let words = [
            "tasks",
            "run",
            "../plan",
            "--dir",
            ".",
            "--worker",
            "native@script:../list-worker.toml",
            "--evaluator",
            "native@script:../evaluator.toml",
            "--max-iterations",
            "1",
        ];
        let capped = self.segue(&words)?;
        let failed = self.subjects()?;
        self.title("9", "The cap ended it. Raise it: the failed task is tried again");
        let done = self.segue(&["resume", "4", "--max-iterations", "4"])?;
        let subjects = self.subjects()?;
        let is = |found: &[String], wanted: &[&str]| found == wanted;
        Ok(vec![
            (
                "the cap stopped the list, and kept what there was of the task on its branch",
                capped.code() == Some(3)
                    && is(
                        &failed,
                        &[
                            "T-001: Say the version",
                            "T-002: FAILED (iter_cap): Say how it is called",
                        ],
                    ),
            ),
            (
                "the placeholder was unwound, and each task is one commit",
                done.success()
                    && is(&subjects, &["T-001: Say the version", "T-002: Say how it is called"]),
            ),
        ])
    }

    /// What the commits of the list's branch are about, oldest first.
    fn subjects(&self) -> Result<Vec<String>, CommandError> {
        let session = self.numbered(4)?;
        let Some(tree) = &session.state().worktree else { return Ok(Vec::new()) };
        let mut git = Command::new("git");
        let range = format!("{}..{}", tree.plan.base, tree.plan.branch);
        git.args(["log", "--reverse", "--format=%s", &range]).current_dir(&self.app);
        let log = git.output()?;
        Ok(String::from_utf8_lossy(&log.stdout).lines().map(str::to_owned).collect())
    }

    fn session(&self) -> Result<Session, CommandError> {
        self.numbered(1)
    }

    fn numbered(&self, number: u64) -> Result<Session, CommandError> {
        let at = self.home.numbered(number)?;
        let at = at.ok_or_else(|| CommandError::failed("the run did not create a session"))?;
        Ok(self.home.open(&at)?)
    }

    fn fatal_call_started(&self) -> bool {
        let Ok(session) = self.session() else { return false };
        session.newest_first().is_ok_and(|mut events| {
            events.any(|event| {
                matches!(event.body, Body::ToolStarted(_))
                    && event.id.as_deref() == Some(FATAL_CALL)
            })
        })
    }

    fn announced(&self) -> usize {
        fs::read_to_string(self.app.join("announcements.log"))
            .map_or(0, |text| text.lines().count())
    }

    fn test_passes(&self) -> bool {
        let mut test = Command::new("sh");
        test.arg("test.sh").current_dir(&self.app).stdout(Stdio::null()).stderr(Stdio::null());
        test.status().is_ok_and(|status| status.success())
    }

    fn verifies(&self) -> Result<bool, CommandError> {
        Ok(repair::verify(&self.session()?)?.problems.is_empty())
    }

    fn conclude(&self, context: &Context, checks: &[(&str, bool)]) -> CommandResult {
        let all = checks.iter().all(|(_, holds)| *holds);
        let exit = if all { Exit::Done } else { Exit::Failed };
        let session = self.session()?;
        let dir = session.dir();
        if context.json {
            let checks: Vec<_> = checks
                .iter()
                .map(|(what, holds)| json!({ "what": what, "holds": holds }))
                .collect();
            context.print_json(&json!({
                "ok": all, "checks": checks, "app": self.app, "home": self.home.dir(), "session": dir,
            }))?;
            return Ok(exit);
        }
        self.title("12", "What happened, looked up on the disk");
        for (what, holds) in checks {
            let sign = if *holds { (Paint::Green, "✓") } else { (Paint::Red, "✗") };
            print(&format!("   {} {what}", self.out.paint(sign.0, sign.1)));
        }
        print(&self.out.paint(Paint::Bold, "\n━━ Look around"));
        let dim = |text: &str| self.out.paint(Paint::Dim, text);
        print(&format!("   {} cd {}", dim("$"), self.app.display()));
        // It would hide the home of the demo.
        if std::env::var_os("SEGUE_HOME").is_some() {
            print(&format!("   {} export SEGUE_HOME={}", dim("$"), self.home.dir().display()));
        }
        for (command, what) in LOOK_AROUND {
            print(&format!("   {} {command:<45} {}", dim("$"), dim(what)));
        }
        print(&format!(
            "   All of it is in {}; remove that when you have seen enough.",
            self.dir.display()
        ));
        Ok(exit)
    }
}

/// A word as a person would type it in a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("\"{word}\""),
    }
}

/// A repository with one commit, where there is a git.
fn git(app: &Path) {
    let quiet = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=demo",
            "-c",
            "user.email=demo@localhost",
            "-c",
            "init.defaultBranch=main",
        ]);
        git.args(words).current_dir(app).stdout(Stdio::null()).stderr(Stdio::null());
        git.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        // Without git the demo is the same, in a plain directory.
        let _ = git.status();
    };
    quiet(&["init", "-q"]);
    quiet(&["add", "."]);
    quiet(&["commit", "-q", "-m", "A program whose test fails"]);
}
