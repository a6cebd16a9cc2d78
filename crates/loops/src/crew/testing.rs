//! A crew with nobody at a terminal, for tests: its journal, its directories, and a clock that is set.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::Timestamp;
use segue_agents::{
    native::retry::Policy,
    terminal,
    vendor::{self, Program, World},
};
use segue_core::{
    Body, Draft,
    caps::Caps,
    event::{
        CrewRaised, Doing, MemberJoined, MemberSeen, MemberStarted, MemberStarting, MessageSent,
        Process, SessionStarted, Start as How,
    },
    id::SessionId,
    identity::{LoopKind, RepoRef},
    state::CrewMember as Member,
};
use segue_journal::{Clock, Home, RealDisk, home::NewSession, lock::Holder};
use segue_runner::{
    Interrupt, Supervisor,
    tmux::{
        Tmux,
        seat::{Room, Seat},
    },
    vendor::{VendorConfig, Watch},
};

use super::{Around, Silent, bench::Bench, chair::Look, mail};

pub(crate) struct Scene {
    pub(crate) all: Supervisor<'static>,
    /// Where everybody works.
    pub(crate) project: PathBuf,
    now: Arc<AtomicI64>,
    clock: Clock,
    dir: tempfile::TempDir,
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
        let ticks = Arc::clone(&clock);
        let mut all = Supervisor::new(session, ticks, Interrupt::default(), silent);
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
        Self { all, project, now, clock, dir }
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

    /// All that a watcher needs; nobody can be hired.
    pub(crate) fn around(&self) -> Around<'static> {
        let me = Holder { pid: std::process::id(), host: "here".to_owned(), since: (self.clock)() };
        Around {
            home: Home::new(Arc::new(RealDisk), self.dir.path().join("home")),
            me,
            clock: Arc::clone(&self.clock),
            segue: String::new(),
            program: "/bin/false".into(),
            world: World::default(),
            hire: Box::new(|_, _| Err("nobody can be hired".to_owned())),
            interrupt: Interrupt::default(),
            number: None,
            name: "app".to_owned(),
        }
    }

    /// A room that has no server, and can't have one.
    pub(crate) fn room(&self) -> Room {
        let socket = self.dir.path().join("no/such/socket");
        Room::new(Tmux::find_at(&self.project, &socket).unwrap(), "app", "owner")
    }

    /// Somebody is about to be started in a conversation.
    pub(crate) fn starting(&mut self, name: &str, how: How, vendor_session: Option<&str>) {
        let member = self.member(name);
        let starting = MemberStarting {
            member: member.name,
            how,
            generation: member.generation + 1,
            vendor_session: vendor_session.map(str::to_owned),
            command: String::new(),
            cwd: member.cwd,
        };
        self.all.commit(starting).unwrap();
    }

    /// Somebody sits at a terminal.
    pub(crate) fn sits(&mut self, name: &str) {
        self.starting(name, How::New, None);
        let Seat { pane, pid, .. } = seat();
        let (member, pane) = (name.to_owned(), Some(pane));
        self.all.commit(MemberStarted { member, pane, pid, began: Some(1) }).unwrap();
    }

    /// Somebody is to be told something.
    pub(crate) fn says(&mut self, id: &str, to: &str, text: &str) {
        let text = self.all.payload(text).unwrap();
        let (from, to) = ("person".to_owned(), to.to_owned());
        self.all.commit(Draft::from(MessageSent { from, to, text }).about(id)).unwrap();
    }

    /// The kinds of all events, oldest first.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let events = self.all.session().session().newest_first().unwrap();
        let mut kinds: Vec<String> = events.map(|event| event.body.kind().to_owned()).collect();
        kinds.reverse();
        kinds
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

/// The terminal of whoever [sits](Scene::sits) at one.
fn seat() -> Seat {
    let mut seat = Seat::default();
    (seat.pane, seat.pid) = ("%1".to_owned(), Some(u32::MAX));
    seat
}

/// What its screen shows.
pub(crate) fn look(screen: &str) -> Look {
    Look { seat: Some(seat()), screen: Some(screen.to_owned()) }
}

/// The program of one vendor with the screen of another one.
pub(crate) fn vendors(vendor: &str, terminal: &str) -> Bench {
    let program = PathBuf::from("/bin/false");
    let config = VendorConfig {
        vendor: vendor::find(vendor).unwrap(),
        program: Program { path: program.clone(), real: program.clone(), version: None },
        world: World::default(),
        model: None,
        prices: HashMap::new(),
        policy: Policy::default(),
        watch: Watch::default(),
        fresh: false,
        tools: false,
        segue: program,
    };
    Bench::Vendor { config: Box::new(config), terminal: terminal::find(terminal).unwrap() }
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
