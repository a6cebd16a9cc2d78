//! Where an example plays: a repository, a home, and models that answer from scripts. No account is
//! needed. With a directory as the first argument all of it stays there to be looked at.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use segue::{Agent, Runs};
use tempfile::TempDir;

pub(crate) type Done = Result<(), Box<dyn Error>>;

/// Looks, writes a file, and says so; asked again, it is brief.
pub(crate) const WRITER: &str = r#"
[[reply]]
text = "I look at what is there, and write it down."
tools = [
    { name = "shell", input = { command = "cat greeting.txt" } },
    { name = "write_file", input = { path = "notes.md", content = "It says hello.\n" } },
]

[[reply]]
text = "It is written in notes.md."

[[reply]]
text = "In short: it says hello."
repeat = true
"#;

pub(crate) struct Scene {
    dir: PathBuf,
    _scratch: Option<TempDir>,
}

impl Scene {
    pub(crate) fn new() -> io::Result<Self> {
        let (dir, scratch) = match std::env::args_os().nth(1) {
            Some(named) => (PathBuf::from(named), None),
            None => {
                let scratch = TempDir::new()?;
                (scratch.path().to_owned(), Some(scratch))
            }
        };
        let scene = Self { dir, _scratch: scratch };
        let repo = scene.path("repo");
        fs::create_dir_all(&repo)?;
        fs::write(repo.join("greeting.txt"), "hello\n")?;
        git(&repo, &["init", "-q"])?;
        git(&repo, &["add", "."])?;
        git(&repo, &["commit", "-q", "-m", "A greeting"])?;
        Ok(scene)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Somebody who answers from a script.
    pub(crate) fn agent(&self, name: &str, script: &str) -> io::Result<Agent> {
        let file = self.path(&format!("{name}.toml"));
        fs::write(&file, script)?;
        let model = format!("script:{}", file.display());
        let runs = Runs::at(self.path("home"));
        Ok(Agent::new(model).in_dir(self.path("repo")).keep_in(&runs))
    }
}

fn git(repo: &Path, args: &[&str]) -> io::Result<()> {
    let who = ["-c", "user.name=example", "-c", "user.email=example@localhost"];
    let done = Command::new("git").arg("-C").arg(repo).args(who).args(args).status()?;
    match done.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("git {args:?} failed"))),
    }
}
