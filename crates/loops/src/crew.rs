//! A crew: several agents under one name, each with a session of its own, all brought back together.
//!
//! ```text
//! <session>/                 the crew's own: who is in it, what each does, what they say to each other
//! ├── members/<name>/        a member's own session: its turns, its packet
//! ├── inbox/<name>/          messages for a member, as files
//! └── mail/<name>/           messages for a member that reads files
//! ```
//!
//! Whoever sits at a terminal belongs to tmux and to the person in front of it: it outlives the one
//! who watches. So the watcher holds nothing that matters. It records what it is about to do, looks
//! at the world, and records what it finds; whoever takes its place does the same from there.

mod bench;
mod chair;
mod headless;
mod join;
mod mail;
mod notify;
mod orders;
mod post;
mod program;
mod record;
mod scope;
mod start;
mod tell;
#[cfg(test)]
mod testing;
mod timers;
mod words;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use segue_agents::vendor::World;
use segue_core::{
    Draft, Event,
    crew::{Mail, Occasion},
    event::{
        Doing, Process, Reason, SessionResumed, SessionStarted, SessionStopped, WarningRaised,
    },
    state::{Crew, CrewMember as Member, Phase},
};
pub use segue_journal::session::MEMBERS;
use segue_journal::{Clock, Durability, Home, LockedSession, Session, lock::Holder};
use segue_runner::{
    Halt, Interrupt, Observer, Supervisor,
    supervisor::stop,
    tmux::{
        self, Tmux, TmuxError,
        seat::{Room, Seat},
    },
};

use self::{chair::Look, headless::Headless, tell::Told};
use crate::{bridge, launch::LaunchError, shift::Hire};

pub use self::join::plan;

pub use segue_core::bridge::CREW;

/// How often is looked: while something is on its way, and else.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_millis(400);

/// What a watcher needs.
pub struct Around<'a> {
    pub home: Home,
    pub me: Holder,
    pub clock: Clock,
    /// The version of Segue that works, and its program.
    pub segue: String,
    pub program: PathBuf,
    pub world: World,
    pub hire: Hire<'a>,
    pub interrupt: Interrupt,
    pub number: Option<u64>,
    /// What the crew is called.
    pub name: String,
}

impl std::fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Around<'_> {
    fn process(&self) -> Process {
        Process { pid: self.me.pid, host: self.me.host.clone(), segue: self.segue.clone() }
    }
}

/// How a watch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The crew was taken down.
    Down(SessionStopped),
    /// Only the watcher has left: whoever sits at a terminal goes on.
    Left,
}

/// A member's place, while somebody watches.
#[derive(Debug)]
enum At {
    Terminal(Box<chair::Chair>),
    Loop(Box<Headless>),
    /// It can't be started.
    Nowhere,
}

impl At {
    /// Whether what it writes should be watched, and can't be.
    fn is_blind(&self) -> bool {
        match self {
            Self::Terminal(chair) => chair.scope.is_blind(),
            Self::Loop(headless) => headless.is_blind(),
            Self::Nowhere => false,
        }
    }
}

/// One who watches over a crew.
struct Watcher<'a, 'o> {
    all: Supervisor<'o>,
    around: Around<'a>,
    room: Option<Room>,
    members: BTreeMap<String, At>,
    told: Told,
}

/// What marks the panes and the processes of a session, here: a copy of it in another place has
/// others.
#[must_use]
pub fn mark_of(session: &Session) -> String {
    let place = session.dir().to_string_lossy();
    format!("{}-{}", session.id(), &mail::hash(&[&place])[..8])
}

/// The tmux session of a crew, and what it is called: in the server that it was raised in, whatever
/// this process has around it.
pub fn room(session: &Session, name: &str, cwd: &Path) -> Result<Room, TmuxError> {
    let raised = session.state().crew.as_ref().and_then(|crew| crew.raised.tmux.as_deref());
    let tmux = match raised {
        Some(socket) => Tmux::find_at(cwd, socket)?,
        None => Tmux::find(cwd)?,
    };
    let name = format!("segue-{}", tmux::plain_name(name));
    Ok(Room::new(tmux, &name, &mark_of(session)))
}

/// Where the terminals of a crew are to be that is raised again: where somebody of it still is, else
/// in the server that is meant from here.
#[must_use]
pub fn server(session: &Session, name: &str, cwd: &Path) -> PathBuf {
    let crew = session.state().crew.as_ref();
    let before = crew.and_then(|crew| crew.raised.tmux.clone());
    before.filter(|_| lives(session, name, cwd)).unwrap_or_else(tmux::here)
}

/// Whether anybody of a crew is still at a terminal, whoever watches, and whatever was recorded.
#[must_use]
pub fn lives(session: &Session, name: &str, cwd: &Path) -> bool {
    let Some(crew) = session.state().crew.as_ref().filter(|crew| !crew.raised.headless) else {
        return false;
    };
    let seats = || room(session, name, cwd).and_then(|room| room.seats()).unwrap_or_default();
    crew.members.iter().any(|member| program::runs(session, member))
        || seats().iter().any(|seat| !seat.dead)
}

/// Watches over a crew until it is taken down, or until the watcher is told to leave.
///
/// # Errors
/// Where the session can't be had or written, or nobody can be watched over from here.
pub fn watch(
    session: Session,
    around: Around<'_>,
    observer: &mut dyn Observer,
) -> Result<End, LaunchError> {
    let (dir, me, name) = (session.dir().to_owned(), around.me.clone(), around.name.clone());
    let (disk, clock) = (Arc::clone(session.disk()), Arc::clone(&around.clock));
    let cwd = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let (session, _) = session.lock(&around.me, Arc::clone(&around.clock))?;
    let headless = session.state().crew.as_ref().is_none_or(|crew| crew.raised.headless);
    let room = match headless {
        true => Ok(None),
        false => room(session.session(), &name, &cwd).map(Some),
    };
    if let Err(error) = &room
        && lives(session.session(), &name, &cwd)
    {
        // Whoever is at work goes on. One who has tmux at hand can watch over it.
        return Err(LaunchError::Stopped(error.to_string()));
    }
    match raise(session, around, observer, room) {
        Ok(end) => Ok(end),
        Err(Halt::Journal(error)) => Err(LaunchError::Journal(error)),
        Err(Halt::Stop(stop)) => {
            let (mut session, _) = Session::open(disk, &dir)?.lock(&me, clock)?;
            match lives(session.session(), &name, &cwd) {
                true => session
                    .append(WarningRaised { message: stop.message.clone() }, Durability::Synced)?,
                // Nobody can watch over it: it is down, and says why.
                false => session.append((*stop).clone(), Durability::Synced)?,
            };
            Err(LaunchError::Stopped(stop.message))
        }
    }
}

fn raise(
    session: LockedSession,
    around: Around<'_>,
    observer: &mut dyn Observer,
    room: Result<Option<Room>, TmuxError>,
) -> Result<End, Halt> {
    let begun = match session.state().phase {
        Phase::Created => {
            Draft::from(SessionStarted { by: around.process(), caps: session.state().caps })
        }
        phase => Draft::from(resumed(&around, session.session(), phase)),
    };
    let clock = Arc::clone(&around.clock);
    let mut all = Supervisor::new(session, clock, around.interrupt.clone(), observer);
    all.commit(begun)?;
    let room = room.map_err(|error| stop(Reason::Failed, error.to_string()))?;
    bridge::settle(&all)?;
    let (orders, files) = (orders::known(&all)?, mail::settle(&mut all)?);
    let (members, told) = (BTreeMap::new(), Told::default());
    let mut watcher = Watcher { all, around, room, members, told };
    watcher.obey_all(orders)?;
    // Whoever can't even be placed is news too.
    watcher.told.settle(watcher.all.state().crew.as_ref());
    watcher.join_all()?;
    watcher.obey_files(files)?;
    watcher.run()
}

/// Why something could not be done, for people.
fn why(halt: Halt) -> String {
    match halt {
        Halt::Stop(stop) => stop.message,
        Halt::Journal(error) => error.to_string(),
    }
}

fn resumed(around: &Around<'_>, session: &Session, phase: Phase) -> SessionResumed {
    let cwd = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let room = room(session, &around.name, &cwd).ok();
    let plan = session.state().crew.as_ref().map(|crew| match crew.ending {
        true => vec!["everybody is ended: it was taken down".to_owned()],
        false => {
            let ways = plan(session, &crew.raised, room.as_ref(), &around.world);
            ways.into_iter().map(|(member, how)| format!("{member}  {how}")).collect()
        }
    });
    SessionResumed {
        by: around.process(),
        caps: session.state().caps,
        plan: plan.unwrap_or_default(),
        crashed: phase == Phase::Running,
        model: None,
        workspace: None,
        permission: None,
        leftovers_ended: Vec::new(),
    }
}

impl Watcher<'_, '_> {
    fn run(&mut self) -> Result<End, Halt> {
        loop {
            if self.around.interrupt.signal().is_some() {
                self.leave();
                return Ok(End::Left);
            }
            if self.all.state().crew.as_ref().is_some_and(|crew| crew.ending) {
                // Somebody before us has died over it.
                return self.down();
            }
            bridge::take_in(&mut self.all)?;
            let orders = mail::take_in(&mut self.all)?;
            self.obey_files(orders)?;
            mail::give_up(&mut self.all)?;
            if let Some(end) = self.asked()? {
                return Ok(end);
            }
            self.timers()?;
            self.look()?;
            for (from, text) in mail::for_the_person(&mut self.all)? {
                self.notify(Occasion::Attention, &format!("{from}: {text}"));
            }
            self.tell();
            let pause = if self.is_expecting() { SOON } else { LATER };
            thread::sleep(pause);
        }
    }

    fn obey_files(&mut self, orders: Vec<mail::Order>) -> Result<(), Halt> {
        for order in orders {
            self.obey(order.what, &order.id)?;
            match order.says_more {
                true => mail::as_message(&order.path),
                false => mail::taken(&order.path),
            }
        }
        Ok(())
    }

    fn crew(&self) -> Option<Crew> {
        self.all.state().crew.clone()
    }

    /// Whether something is on its way.
    fn is_expecting(&self) -> bool {
        let state = self.all.state();
        !state.bridge.waiting.is_empty()
            || state.crew.iter().flat_map(|crew| &crew.members).any(|member| {
                member.starting || matches!(member.doing, Doing::Starting | Doing::Busy)
            })
    }

    fn timers(&mut self) -> Result<(), Halt> {
        let dir = self.all.session().session().dir().to_owned();
        let interrupted = timers::fire(&mut self.all, &self.around.name, &dir)?;
        if let Some(crew) = self.crew() {
            interrupted.iter().for_each(|name| self.interrupt(&crew, name));
        }
        Ok(())
    }

    /// Looks at everybody, and does what follows from it.
    fn look(&mut self) -> Result<(), Halt> {
        let seats = match self.room.as_ref().map(Room::seats) {
            None => Vec::new(),
            Some(Ok(seats)) => seats,
            // A server that does not answer now is asked again.
            Some(Err(_)) => return Ok(()),
        };
        self.clear_up(&seats);
        let screens = self.screens(&seats);
        let names: Vec<String> = match &self.all.state().crew {
            Some(crew) => crew.in_order().map(|member| member.name.clone()).collect(),
            None => Vec::new(),
        };
        for name in names {
            let Some(member) = self.member(&name) else { continue };
            let files = self.reads_files(&member);
            let seat = seats.iter().find(|seat| seat.part == name);
            let look = Look { seat: seat.cloned(), screen: screens.get(&name).cloned() };
            match (self.members.get_mut(&name), &self.room) {
                (Some(At::Terminal(chair)), Some(room)) => {
                    chair.look(&mut self.all, &self.around, room, &member, look)?;
                    let Some(crew) = &self.all.state().crew else { continue };
                    let Some(member) = crew.member(&name).cloned() else { continue };
                    if let Some(seat) = seat {
                        chair.mark(crew, room, &member, seat);
                    }
                    match files {
                        true => mail::hand_out(&mut self.all, &member)?,
                        false => post::attend(chair, &mut self.all, room, &member)?,
                    }
                }
                (Some(At::Loop(headless)), _) => {
                    headless.look(&mut self.all, &mut self.around, &member)?;
                }
                (Some(At::Nowhere), _) => {
                    let session = self.all.session().session();
                    let gone =
                        seat.is_none_or(|seat| seat.dead) && !program::runs(session, &member);
                    if member.doing == Doing::Unreachable && gone {
                        self.give_up(&name, "its program has ended".to_owned())?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn member(&self, name: &str) -> Option<Member> {
        self.all.state().crew.as_ref()?.member(name).cloned()
    }

    fn reads_files(&self, member: &Member) -> bool {
        let crew = self.all.state().crew.as_ref();
        crew.and_then(|crew| crew.spec(member)).is_some_and(|spec| spec.mail == Mail::Files)
    }

    /// Panes that were made by a watcher who died before it could write a name on them. Nothing runs
    /// in there yet.
    fn clear_up(&self, seats: &[Seat]) {
        let Some(room) = &self.room else { return };
        for seat in seats.iter().filter(|seat| seat.part.is_empty()) {
            if seat.dead || seat.pid.is_some_and(segue_runner::order::is_waiting) {
                let _ = room.clear(&seat.pane);
            }
        }
    }

    fn screens(&self, seats: &[Seat]) -> BTreeMap<String, String> {
        let Some(room) = &self.room else { return BTreeMap::new() };
        let alive: Vec<&Seat> = seats
            .iter()
            .filter(|seat| !seat.dead && self.members.contains_key(&seat.part))
            .collect();
        let panes: Vec<&str> = alive.iter().map(|seat| seat.pane.as_str()).collect();
        let shown = room.screens(&panes).unwrap_or_default();
        let parts = alive.iter().map(|seat| seat.part.clone());
        parts.zip(shown).filter_map(|(part, text)| Some((part, text?))).collect()
    }
}

/// Nobody watches a member's own journal while it is written.
#[derive(Debug)]
struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event) {}
}
