//! How a member comes to its terminal: by its vendor's own resume, by what we know of it, or anew.
//!
//! A pane is made that waits for its order, then the order is handed over. Whoever dies in between
//! leaves a pane that waits, and has done nothing.

use std::time::{Duration, Instant};

use segue_agents::{terminal::Sight, vendor::Conversation};
use segue_core::{
    Permission,
    crew::Layout,
    event::{AgentStarted, Draft, Entry, MemberStarted, MemberStarting, Reason, Start as How},
    state::CrewMember as Member,
};
use segue_runner::{
    Halt, Supervisor,
    order::{self, Order},
    supervisor::stop,
    tmux::seat::{Place, Room, Seat},
};

use super::{
    Around,
    bench::Start,
    brief,
    chair::{Chair, window_of},
    mark_of, post,
};

/// How long a pane may take to ask for its order.
const SEATING: Duration = Duration::from_secs(20);

impl Chair {
    /// How it would come back: by its vendor's own resume, or by what we know of it.
    pub(crate) fn way_back(&self, member: &Member) -> (How, Option<String>) {
        let known = member.vendor_session.as_deref();
        let there = known.is_some_and(|id| {
            // What can't be told now is tried.
            !matches!(self.bench.history(&member.cwd, id), Ok(None))
        });
        // It was tried, and did not even come to its first screen.
        let hopeless = self.again_at.is_some() && member.how == How::Resumed && !self.was_ready;
        match known.filter(|_| there && !hopeless) {
            Some(id) => (How::Resumed, Some(id.to_owned())),
            None if self.own.state().turn.number > 0 => (How::Packet, None),
            None => (How::New, None),
        }
    }

    /// Starts it: in its old pane, or in a new one.
    pub(crate) fn start(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &Around<'_>,
        room: &Room,
        member: &Member,
        how: Option<How>,
    ) -> Result<(), Halt> {
        post::settle(self, all, member)?;
        let (how, id) = match how {
            Some(how) => (how, None),
            None => self.way_back(member),
        };
        let mut made = None;
        let id = match id {
            Some(id) => Some(id),
            None if self.bench.own_id() => Some(segue_runner::vendor::fresh_id()?),
            None => {
                made = self.bench.make_conversation(&member.cwd);
                made.clone()
            }
        };
        let generation = member.generation + 1;
        // One that was made before is there to be entered.
        let enter = if made.is_some() { How::Resumed } else { how };
        let (order, shown) = self.order(all, member, enter, id.as_deref())?;
        let starting = MemberStarting {
            member: member.name.clone(),
            how,
            generation,
            vendor_session: id.clone(),
            command: shown.clone(),
            cwd: member.cwd.clone(),
        };
        all.commit(starting)?;
        let entry = if how == How::Resumed { Entry::Resumed } else { Entry::New };
        let agent = self.own.state().agent().to_owned();
        let started = AgentStarted {
            entry,
            vendor_session: id,
            command: shown,
            said: None,
            cwd: member.cwd.clone(),
            permission: Permission::default(),
            version: None,
            stream_from: 0,
        };
        self.own.commit(Draft { agent: Some(agent), ..Draft::from(started) })?;
        self.sight = Sight::Starting;
        (self.same, self.was_ready, self.typed, self.again_at) = (0, false, None, None);
        if let Err(why) = self.seated(all, around, room, member, generation) {
            return self.ended(all, member, why);
        }
        self.order = Some((order, Instant::now()));
        if how == How::Packet {
            brief(all, &mut self.own, member)?;
        }
        Ok(())
    }

    fn order(
        &self,
        all: &Supervisor<'_>,
        member: &Member,
        how: How,
        id: Option<&str>,
    ) -> Result<(Order, String), Halt> {
        let session = self.own.session().session();
        let dir = session.dir().to_string_lossy().into_owned();
        let agent = self.own.state().agent().to_owned();
        let tools = ["mcp", "--dir", &dir, "--turn", "0", "--agent", &agent].map(str::to_owned);
        let crew = all.state().crew.as_ref();
        let spec = crew.and_then(|crew| crew.spec(member)).cloned().unwrap_or_default();
        let conversation = match (how, id) {
            (How::Resumed, Some(id)) => Conversation::Resume { id },
            (_, id) => Conversation::New { id: id.unwrap_or_default() },
        };
        let start = Start {
            conversation,
            cwd: &member.cwd,
            spec: &spec,
            files: &session.text_files(),
            session: &mark_of(session),
            tools: &tools,
        };
        let failed =
            |error: std::io::Error| stop(Reason::Failed, format!("{}: {error}", member.name));
        self.bench.order(&start).map_err(|error| failed(error).into())
    }

    /// Makes the pane that will ask for the order.
    fn seated(
        &self,
        all: &Supervisor<'_>,
        around: &Around<'_>,
        room: &Room,
        member: &Member,
        generation: u32,
    ) -> Result<(), String> {
        let pipe = self.pipe(generation);
        order::make_pipe(&pipe).map_err(|error| error.to_string())?;
        let argv =
            [around.program.clone().into(), order::ARGUMENT.into(), pipe.clone().into_os_string()];
        let seats = room.seats().map_err(|error| error.to_string())?;
        let seated = match seats.iter().find(|seat| seat.part == member.name) {
            Some(seat) if seat.dead => room.sit_again(&seat.pane, &argv),
            Some(_) => Ok(()),
            None => {
                let beside = neighbour(all, member, &seats);
                let layout = layout(all, member);
                let place = match &beside {
                    Some(pane) => Place::Beside { pane, layout },
                    None => Place::Window,
                };
                room.sit(&member.name, &window_of(member), place, &argv).map(drop)
            }
        };
        seated.map_err(|error| error.to_string())
    }

    /// Hands the order to the pane; or finds out that somebody before us has done so.
    pub(super) fn seat(
        &mut self,
        all: &mut Supervisor<'_>,
        room: &Room,
        member: &Member,
        seat: Option<&Seat>,
    ) -> Result<(), Halt> {
        let Some(seat) = seat.filter(|seat| !seat.dead) else {
            // It was never made, or has ended already.
            let late = self.order.as_ref().is_none_or(|(_, since)| since.elapsed() > SEATING);
            let dead = seat.is_some();
            return match late || dead {
                true => {
                    self.order = None;
                    let why = seat.map_or_else(|| "it was never started".to_owned(), Seat::end);
                    self.ended(all, member, why)
                }
                false => Ok(()),
            };
        };
        // As long as it waits, it is still us.
        if seat.pid.is_some_and(order::is_waiting) {
            let order = match &self.order {
                Some((order, _)) => order.clone(),
                // Whoever was to hand it over has died.
                None => self.order(all, member, member.how, member.vendor_session.as_deref())?.0,
            };
            let since = self.order.get_or_insert_with(|| (order.clone(), Instant::now())).1;
            match order::hand_over(&self.pipe(member.generation), &order) {
                Ok(true) => {}
                _ if since.elapsed() < SEATING => return Ok(()),
                _ => {
                    self.order = None;
                    let _ = room.clear(&seat.pane);
                    return self.ended(all, member, "its pane did not come to life".to_owned());
                }
            }
        }
        self.order = None;
        all.commit(started(member, seat)).map(drop)
    }
}

pub(super) fn started(member: &Member, seat: &Seat) -> MemberStarted {
    MemberStarted { member: member.name.clone(), pane: Some(seat.pane.clone()), pid: seat.pid }
}

/// A pane of somebody who shares the member's window.
fn neighbour(all: &Supervisor<'_>, member: &Member, seats: &[Seat]) -> Option<String> {
    let crew = all.state().crew.as_ref()?;
    member.group.as_ref()?;
    let window = window_of(member);
    let shares = |one: &&Member| one.group.is_some() && window_of(one) == window;
    let mut mates = crew.members.iter().filter(shares).filter(|one| one.name != member.name);
    mates
        .find_map(|mate| seats.iter().find(|seat| seat.part == mate.name))
        .map(|seat| seat.pane.clone())
}

fn layout(all: &Supervisor<'_>, member: &Member) -> &'static str {
    let crew = all.state().crew.as_ref();
    let groups = crew.map(|crew| crew.roster().groups.as_slice()).unwrap_or_default();
    let group = groups.iter().find(|group| Some(&group.id) == member.group.as_ref());
    match group.map(|group| group.layout) {
        Some(Layout::Vertical) => "even-vertical",
        Some(Layout::Tiled) => "tiled",
        _ => "even-horizontal",
    }
}
