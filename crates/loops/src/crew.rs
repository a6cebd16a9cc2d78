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
mod record;
mod scope;
mod start;
mod tell;
#[cfg(test)]
mod testing;
mod timers;

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
    crew::{Mail, Occasion, template},
    event::{
        Doing, MessageFailed, MessageSent, Process, Reason, SessionResumed, SessionStarted,
        SessionStopped,
    },
    state::{Crew, CrewMember as Member, Phase},
};
pub use segue_journal::session::MEMBERS;
use segue_journal::{Clock, Durability, Home, Session, lock::Holder};
use segue_runner::{
    Halt, Interrupt, Observer, Supervisor, briefing,
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

/// The most that a member is told of an earlier conversation, as if its model took in so much.
const CONTEXT: u64 = 128_000;

/// How the ids of packets begin.
const PACKET: &str = "packet-";

/// What is said to somebody whose conversation is gone, after all that it has to know.
const GO_ON: &str = "Your earlier conversation is gone; this is what is known of it. Go on from \
                     there. If nothing is left to do, wait for the next message.";

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
    let still_there = || {
        let seats = room(session, name, cwd).and_then(|room| room.seats()).unwrap_or_default();
        let alive = crew.iter().flat_map(|crew| &crew.members).any(chair::is_there);
        alive || seats.iter().any(|seat| !seat.dead)
    };
    before.filter(|_| still_there()).unwrap_or_else(tmux::here)
}

/// Watches over a crew until it is taken down, or until the watcher is told to leave.
///
/// # Errors
/// Where the session can't be had or written.
pub fn watch(
    session: Session,
    around: Around<'_>,
    observer: &mut dyn Observer,
) -> Result<End, LaunchError> {
    let (dir, me) = (session.dir().to_owned(), around.me.clone());
    let (disk, clock) = (Arc::clone(session.disk()), Arc::clone(&around.clock));
    let (session, _) = session.lock(&around.me, Arc::clone(&around.clock))?;
    let begun = match session.state().phase {
        Phase::Created => {
            Draft::from(SessionStarted { by: around.process(), caps: session.state().caps })
        }
        phase => Draft::from(resumed(&around, session.session(), phase)),
    };
    let ticks = Arc::clone(&clock);
    let mut all = Supervisor::new(session, ticks, around.interrupt.clone(), observer);
    let done = all.commit(begun).map(drop).and_then(|()| {
        let cwd = all.state().workspace().map(PathBuf::from).unwrap_or_default();
        let headless = all.state().crew.as_ref().is_none_or(|crew| crew.raised.headless);
        let room = match headless {
            true => None,
            false => Some(
                room(all.session().session(), &around.name, &cwd)
                    .map_err(|error| Halt::from(stop(Reason::Failed, error.to_string())))?,
            ),
        };
        let (members, told) = (BTreeMap::new(), Told::default());
        bridge::settle(&all)?;
        let orders = mail::settle(&mut all)?;
        let mut watcher = Watcher { all, around, room, members, told };
        // Whoever can't even be placed is news too.
        watcher.told.settle(watcher.all.state().crew.as_ref());
        watcher.join_all()?;
        watcher.obey_files(orders)?;
        watcher.run()
    });
    match done {
        Ok(end) => Ok(end),
        Err(Halt::Journal(error)) => Err(LaunchError::Journal(error)),
        Err(Halt::Stop(stop)) => {
            // Nobody can watch over it: it is down, and says why.
            let (mut session, _) = Session::open(disk, &dir)?.lock(&me, clock)?;
            session.append((*stop).clone(), Durability::Synced)?;
            Err(LaunchError::Stopped(stop.message))
        }
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
            mail::taken(&order.path);
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
                    let gone = seat.is_none_or(|seat| seat.dead) && !chair::is_there(&member);
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

/// Tells a member whose conversation is gone what is known of it. One that has not been told yet
/// since it was gone before is told that.
fn brief(all: &mut Supervisor<'_>, own: &Supervisor<'_>, member: &Member) -> Result<(), Halt> {
    if waits(all, member, PACKET) {
        return Ok(());
    }
    let session = own.session().session();
    let agent = session.state().agent().to_owned();
    let budget = briefing::budget(CONTEXT);
    let Some(text) = briefing::briefing(session, &agent, false, GO_ON, budget)? else {
        return Ok(());
    };
    let generation = (member.generation + 1).to_string();
    let id = format!("{PACKET}{}", &mail::hash(&[&session.id().to_string(), &generation])[..16]);
    say(all, &id, &member.name, &text)
}

/// What the crew itself has to say to a member, and has not said yet.
fn unsaid<'a>(
    all: &'a Supervisor<'_>,
    member: &'a Member,
    kind: &'a str,
) -> impl Iterator<Item = &'a str> {
    let waiting = all.state().bridge.waiting_for(&member.name);
    let own = waiting.filter(|one| one.message.from == CREW).map(|one| one.id.as_str());
    own.filter(move |id| id.starts_with(kind))
}

fn waits(all: &Supervisor<'_>, member: &Member, kind: &str) -> bool {
    unsaid(all, member, kind).next().is_some()
}

/// What was to be said to a member of another conversation is not said in the one that it begins.
fn withdraw(all: &mut Supervisor<'_>, member: &Member, kinds: &[&str]) -> Result<(), Halt> {
    let of = |kind: &&str| unsaid(all, member, kind).map(str::to_owned).collect::<Vec<_>>();
    let messages: Vec<String> = kinds.iter().flat_map(of).collect();
    if messages.is_empty() {
        return Ok(());
    }
    let (to, reason) = (member.name.clone(), "it began a new conversation".to_owned());
    all.commit(MessageFailed { to, messages, reason }).map(drop)
}

/// Has the crew itself say something, once for each id.
fn say(all: &mut Supervisor<'_>, id: &str, to: &str, text: &str) -> Result<(), Halt> {
    let state = all.state();
    let waits = state.bridge.waiting.iter().any(|waiting| waiting.id == id);
    if waits || state.notes.taken_in.iter().any(|known| known == id) {
        return Ok(());
    }
    let text = all.payload(text)?;
    let sent = MessageSent { from: CREW.to_owned(), to: to.to_owned(), text };
    all.commit(Draft::from(sent).about(id)).map(drop)
}

/// A prompt file as it is now, for one member.
fn prompt(
    crew: &Crew,
    name: &str,
    member: &Member,
    file: &str,
    session: &Path,
) -> Result<String, String> {
    let path = crew.raised.project.join(file);
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let wrong = |all: Vec<segue_core::wrong::Wrong>| {
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    template::render(file, &text, &vars(crew, name, member, session)).map_err(wrong)
}

fn vars(crew: &Crew, name: &str, member: &Member, session: &Path) -> template::Vars {
    let text = |path: &Path| path.display().to_string();
    let inbox = |name: &str| text(&session.join(mail::INBOX).join(name));
    let others = crew.members.iter().filter(|one| one.name != member.name);
    let peers: Vec<String> = others.map(|one| one.name.clone()).collect();
    let same = crew.members.iter().filter(|one| one.role == member.role).count();
    template::Vars {
        agent: member.name.clone(),
        role: member.role.clone(),
        crew: name.to_owned(),
        instance: member.instance,
        count: u32::try_from(same).unwrap_or(u32::MAX),
        group: member.group.clone().unwrap_or_default(),
        inboxes: peers.iter().map(|peer| (peer.clone(), inbox(peer))).collect(),
        peers,
        root: text(&member.cwd),
        project: text(&crew.raised.project),
        worktree: member.worktree.as_deref().map(text).unwrap_or_default(),
        branch: member.branch.clone().unwrap_or_default(),
        inbox: inbox(&member.name),
        mail: text(&session.join(mail::MAIL).join(&member.name)),
    }
}

/// Nobody watches a member's own journal while it is written.
#[derive(Debug)]
struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event) {}
}
