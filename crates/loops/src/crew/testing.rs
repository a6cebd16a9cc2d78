//! A crew with nobody at a terminal, for tests: its journal, its directories, and a clock that is set.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::Timestamp;
use segue_core::{
    Body,
    caps::Caps,
    event::{CrewRaised, Doing, MemberJoined, MemberSeen, Process, SessionStarted},
    id::SessionId,
    identity::{LoopKind, RepoRef},
    state::CrewMember as Member,
};
use segue_journal::{Clock, Home, RealDisk, home::NewSession, lock::Holder};
use segue_runner::{Interrupt, Supervisor};

use super::{Silent, mail};

pub(crate) struct Scene {
    pub(crate) all: Supervisor<'static>,
    /// Where everybody works.
    pub(crate) project: PathBuf,
    now: Arc<AtomicI64>,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// Everybody of a `segue.toml` has joined.
    pub(crate) fn new(toml: &str) -> Self {
        let roster = segue_core::crew::read(toml, &["claude"], &|_| true).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("app");
        std::fs::create_dir(&project).unwrap();
        let now = Arc::new(AtomicI64::new(1_800_000_000));
        let ticks = Arc::clone(&now);
        let clock: Clock =
            Arc::new(move || Timestamp::from_second(ticks.load(Ordering::SeqCst)).unwrap());
        let host = "here".to_owned();
        let me = Holder { pid: std::process::id(), host: host.clone(), since: clock() };
        let home = Home::new(Arc::new(RealDisk), dir.path().join("home"));
        let (session, _) = home.create(new_session(&project), &me, &clock).unwrap();
        let silent: &'static mut Silent = Box::leak(Box::new(Silent));
        let mut all = Supervisor::new(session, clock, Interrupt::default(), silent);
        all.commit(CrewRaised {
            roster: roster.clone(),
            project: project.clone(),
            ..CrewRaised::default()
        })
        .unwrap();
        let by = Process { pid: me.pid, host, segue: String::new() };
        all.commit(SessionStarted { by, caps: Caps::default() }).unwrap();
        for place in roster.places() {
            all.commit(MemberJoined {
                member: place.member,
                role: place.spec,
                group: place.group,
                instance: place.instance,
                session: SessionId::from_parts(1, 1),
                cwd: project.clone(),
                worktree: None,
                branch: None,
            })
            .unwrap();
        }
        let members = all.state().crew.as_ref().unwrap().members.clone();
        mail::prepare(all.session().session().dir(), &members).unwrap();
        Self { all, project, now, _dir: dir }
    }

    pub(crate) fn later(&self, secs: i64) {
        self.now.fetch_add(secs, Ordering::SeqCst);
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.all.session().session().dir().to_owned()
    }

    pub(crate) fn member(&self, name: &str) -> Member {
        self.all.state().crew.as_ref().unwrap().member(name).cloned().unwrap()
    }

    pub(crate) fn sees(&mut self, name: &str, doing: Doing) {
        self.all.note(MemberSeen { member: name.to_owned(), doing, what: None }).unwrap();
    }

    /// What waits for somebody.
    pub(crate) fn waiting(&self, name: &str) -> usize {
        self.all.state().bridge.waiting_for(name).count()
    }

    /// The events of a kind, oldest first.
    pub(crate) fn events(&self, kind: &str) -> Vec<Body> {
        let events = self.all.session().session().newest_first().unwrap();
        let mut found: Vec<Body> =
            events.map(|event| event.body).filter(|body| body.kind() == kind).collect();
        found.reverse();
        found
    }

    /// Makes a repository of where everybody works.
    pub(crate) fn repository(&self) {
        std::fs::write(self.project.join("kept.txt"), "base\n").unwrap();
        for args in [
            &["init", "-q"][..],
            &["add", "."],
            &["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "base"],
        ] {
            let mut git = Command::new("git");
            let none = Path::new("/dev/null");
            git.env("GIT_CONFIG_GLOBAL", none).env("GIT_CONFIG_SYSTEM", none);
            assert!(git.args(args).current_dir(&self.project).status().unwrap().success());
        }
    }
}

fn new_session(project: &Path) -> NewSession {
    let (id, identity) = ("app".to_owned(), "app".to_owned());
    NewSession {
        loop_kind: LoopKind::Crew,
        segue: String::new(),
        ..NewSession::new(
            RepoRef { id, identity, head: None, branch: None },
            project.to_owned(),
            "crew".to_owned(),
            String::new(),
        )
    }
}
