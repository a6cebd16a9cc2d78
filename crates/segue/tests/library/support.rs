//! A place for one test: a repository, a home, models that answer from scripts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use segue::{Agent, Runs};
use tempfile::TempDir;

/// Writes a file, then says so; what it is asked besides, it answers too.
pub(crate) const WRITER: &str = r#"
[[reply]]
text = "I write."
tools = [
    { name = "write_file", input = { path = "a.txt", content = "a\n" } },
    { name = "write_file", input = { path = "b.txt", content = "b\n" } },
]

[[reply]]
text = "Written."

[[reply]]
text = "As you say."
repeat = true
"#;

/// Does not answer before it is asked to stop.
pub(crate) const SLOW: &str = "[[reply]]\ntext = \"late\"\ndelay_ms = 600000\nrepeat = true\n";

pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { dir: TempDir::new().unwrap() };
        fs::create_dir_all(place.repo()).unwrap();
        place
    }

    pub(crate) fn with_git() -> Self {
        let place = Self::new();
        fs::write(place.repo().join("first.txt"), "first\n").unwrap();
        for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "First"]] {
            let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
            let mut git = Command::new("git");
            git.arg("-C").arg(place.repo()).args(who).args(args);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
            assert!(git.status().unwrap().success());
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.path("repo")
    }

    pub(crate) fn runs(&self) -> Runs {
        Runs::at(self.path("home"))
    }

    /// Works here, under a guardian that is not the test.
    pub(crate) fn here(&self, agent: Agent) -> Agent {
        agent.in_dir(self.repo()).keep_in(&self.runs()).tools_from(guardian())
    }

    pub(crate) fn agent(&self, script: &str) -> Agent {
        let name = format!("{}.toml", fs::read_dir(self.dir.path()).unwrap().count());
        fs::write(self.path(&name), script).unwrap();
        self.here(Agent::new(format!("script:{}", self.path(&name).display())))
    }
}

/// Any program that calls `segue::guard` first.
fn guardian() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples/events")
}
