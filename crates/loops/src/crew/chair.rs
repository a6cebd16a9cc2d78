//! One member at a terminal: started, looked at, started again.
//!
//! What is about to happen is recorded before it does, and what has happened is read from the world:
//! from tmux, from the vendor's own file. So whoever looks next, in this process or after it died,
//! comes to the same conclusion.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use segue_agents::terminal::{Screen, Sight};
use segue_core::{
    event::{AgentIntroduced, Doing, Draft, Mark, MemberEnded, MemberIdentified, MemberSeen},
    state::{Afterwards, CrewMember as Member},
};
use segue_runner::{
    Halt, Supervisor,
    order::Order,
    process,
    tmux::seat::{Room, Seat},
};

use super::{Around, bench::Bench, mark_of, post::Typed, record, scope::Scope, start::started};
use crate::keep::{self, Checkpoints, Keeper};

/// After so many looks that show the same, whatever was said is in the vendor's file.
const QUIET: u32 = 8;

/// How often the vendor's own file is looked at.
const READING: Duration = Duration::from_millis(250);

/// How long what a member's program started may take to end.
const SWEEP_LIMIT: Duration = Duration::from_secs(2);

/// How many lines of a screen are kept as the answer of a command that keeps no record.
const SEEN_LINES: usize = 40;

/// One member, as long as somebody watches.
#[derive(Debug)]
pub(crate) struct Chair {
    pub(crate) bench: Bench,
    /// Its own session.
    pub(crate) own: Supervisor<'static>,
    pub(crate) screen: String,
    pub(crate) title: String,
    pub(crate) sight: Sight,
    /// How many looks in a row have shown the same.
    pub(crate) same: u32,
    pub(crate) typed: Option<Typed>,
    /// What was typed in last: its echo is not what the program has to say.
    pub(crate) said: String,
    /// It was interrupted: some put what they were told back into their input.
    pub(crate) interrupted: bool,
    pub(crate) scope: Scope,
    /// What waits to be handed to its pane.
    pub(super) order: Option<(Order, Instant)>,
    pub(super) again_at: Option<Timestamp>,
    /// Whether it was ever ready since it was started.
    pub(super) was_ready: bool,
    pub(crate) read_at: Option<Instant>,
}

/// What a look at all terminals has shown of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) seat: Option<Seat>,
    pub(crate) screen: Option<String>,
}

impl Chair {
    pub(crate) fn new(bench: Bench, own: Supervisor<'static>, scope: Scope) -> Self {
        Self {
            bench,
            own,
            screen: String::new(),
            title: String::new(),
            sight: Sight::Starting,
            same: 0,
            typed: None,
            said: String::new(),
            interrupted: false,
            scope,
            order: None,
            again_at: None,
            was_ready: false,
            read_at: None,
        }
    }

    /// Whether a prompt would be taken: it was ready twice in a row.
    pub(crate) fn is_ready(&self) -> bool {
        self.sight == Sight::Idle && self.same >= 2
    }

    pub(super) fn pipe(&self, generation: u32) -> PathBuf {
        self.own.session().session().dir().join(format!("order-{generation}"))
    }

    /// One look, and what follows from it.
    pub(crate) fn look(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &Around<'_>,
        room: &Room,
        member: &Member,
        look: Look,
    ) -> Result<(), Halt> {
        let alive = look.seat.as_ref().filter(|seat| !seat.dead);
        if self.order.is_some() || member.starting {
            return self.seat(all, room, member, look.seat.as_ref());
        }
        match (alive, member.doing) {
            (_, Doing::Degraded) => Ok(()),
            (Some(seat), Doing::Down) => {
                // Somebody has started it by hand, or its end was wrongly told.
                let started = started(member, seat);
                all.commit(started).map(drop)
            }
            (None, Doing::Down) => match self.again_at.is_none_or(|at| all.now() >= at) {
                true => self.start(all, around, room, member, None),
                false => Ok(()),
            },
            (None, _) => {
                let why = look.seat.map_or_else(|| "its pane is gone".to_owned(), |s| s.end());
                self.ended(all, member, why)
            }
            (Some(seat), _) => {
                self.see(seat, look.screen.unwrap_or_default());
                self.tell(all, around, room, member, seat)
            }
        }
    }

    fn see(&mut self, seat: &Seat, screen: String) {
        self.title.clone_from(&seat.title);
        let shown = self.bench.without_echo(&screen, &self.said);
        let sight = self.bench.sight(&Screen { text: &shown, title: &seat.title });
        self.same = if sight == self.sight { self.same.saturating_add(1) } else { 1 };
        self.sight = sight;
        self.screen = screen;
        self.was_ready |= self.is_ready();
    }

    /// Records what it does now, where that is news.
    fn tell(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &Around<'_>,
        room: &Room,
        member: &Member,
        seat: &Seat,
    ) -> Result<(), Halt> {
        self.identify(all, member, seat)?;
        self.scope.look(all, member, false)?;
        let (doing, what) = match &self.sight {
            Sight::Starting => (Doing::Starting, None),
            Sight::Idle => (Doing::Idle, None),
            Sight::Busy => (Doing::Busy, None),
            Sight::Waiting(what) => (Doing::Waiting, Some(what.clone())),
        };
        // A quick answer may come between two looks.
        if doing == Doing::Idle && self.same == QUIET && member.doing == Doing::Idle {
            self.read(all, member, false)?;
            return match self.own.state().turn.open {
                true => self.turn_over(all, around, member),
                false => Ok(()),
            };
        }
        // A screen that is just being drawn may show anything.
        let certain = self.same >= 2 || doing == Doing::Busy;
        if !certain || (member.doing == doing && member.what == what) {
            return Ok(());
        }
        if doing == Doing::Starting && self.was_ready {
            return Ok(());
        }
        let was = member.doing;
        let name = member.name.clone();
        all.note(MemberSeen { member: name, doing, what: what.clone() })?;
        let marked = |doing: Doing| doing == Doing::Waiting;
        if marked(was) != marked(doing) {
            let mark = what.as_deref().filter(|_| marked(doing));
            let window = window_of(member);
            let members = all.state().crew.iter().flat_map(|crew| &crew.members);
            let waits = members.filter(|one| window_of(one) == window).any(|one| marked(one.doing));
            let window = if waits { format!("!{window}") } else { window };
            let _ = room.mark(&seat.pane, &window, mark);
        }
        match doing {
            Doing::Busy => self.scope.begins(),
            Doing::Idle if was == Doing::Busy => self.turn_over(all, around, member)?,
            _ => {}
        }
        Ok(())
    }

    /// Finds out what its vendor calls the conversation, where we could not choose that.
    fn identify(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        seat: &Seat,
    ) -> Result<(), Halt> {
        if member.vendor_session.is_some() || !self.bench.remembers() {
            return Ok(());
        }
        let (Some(pid), Some(since)) = (seat.pid, member.spawned_at) else { return Ok(()) };
        if self.read_at.is_some_and(|at| at.elapsed() < READING) {
            return Ok(());
        }
        self.read_at = Some(Instant::now());
        let taken = taken(all, &member.name);
        let first = self.typed.as_ref().map(|typed| typed.text.as_str());
        let Some(id) = self.bench.identify(pid, &member.cwd, since, first, &taken) else {
            return Ok(());
        };
        let told = AgentIntroduced { vendor_session: Some(id.clone()), ..Default::default() };
        let agent = self.own.state().agent().to_owned();
        self.own.commit(Draft { agent: Some(agent), ..Draft::from(told) })?;
        let identified = MemberIdentified { member: member.name.clone(), vendor_session: id };
        all.commit(identified).map(drop)
    }

    /// A turn has ended: what was said is recorded, what it wrote is looked at.
    fn turn_over(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &Around<'_>,
        member: &Member,
    ) -> Result<(), Halt> {
        self.scope.look(all, member, true)?;
        self.read(all, member, true)?;
        if !self.bench.remembers() {
            let lines: Vec<&str> = self.screen.lines().collect();
            let from = lines.len().saturating_sub(SEEN_LINES);
            record::answered(&mut self.own, lines[from..].join("\n").trim())?;
        }
        keep::take_in(&mut self.own)?;
        keep::closing_block(&mut self.own)?;
        let keeper = Keeper::new(self.own.session().session(), &member.cwd, Checkpoints::Off);
        keeper.packet(&mut self.own, around.number, "turn over")?;
        Ok(())
    }

    /// Records what is new in its conversation.
    pub(crate) fn read(
        &mut self,
        all: &Supervisor<'_>,
        member: &Member,
        over: bool,
    ) -> Result<(), Halt> {
        let Some(id) = member.vendor_session.as_deref() else { return Ok(()) };
        // A file that can't be read now can be read later.
        let Ok(Some(history)) = self.bench.history(&member.cwd, id) else { return Ok(()) };
        let waiting = all.state().bridge.waiting_for(&member.name);
        let waiting: Vec<String> = waiting.map(|one| one.id.clone()).collect();
        record::conversation(&mut self.own, id, &history, &waiting, over)
    }

    /// Its program has ended: it is started again after a while, unless that happens too often.
    pub(crate) fn ended(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        why: String,
    ) -> Result<(), Halt> {
        self.read(all, member, true)?;
        if self.own.state().turn.open {
            record::answered(&mut self.own, "")?;
        }
        // What it had started would go on without it.
        process::end_leftovers(&mark_of(self.own.session().session()), SWEEP_LIMIT);
        let now = all.now();
        let afterwards = member.after_end(now);
        let (again_in_ms, degraded) = match afterwards {
            Afterwards::AgainIn(wait) => (u64::try_from(wait.as_millis()).ok(), false),
            Afterwards::Degraded => (None, true),
        };
        let wait = again_in_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or_default();
        self.again_at = now.checked_add(SignedDuration::from_millis(wait)).ok();
        self.typed = None;
        all.commit(MemberEnded { member: member.name.clone(), why, again_in_ms, degraded })
            .map(drop)
    }

    /// Ends its program, for good or to start it anew.
    pub(crate) fn end(
        &mut self,
        all: &mut Supervisor<'_>,
        room: &Room,
        member: &Member,
        why: &str,
        keep_pane: bool,
    ) -> Result<(), Halt> {
        self.read(all, member, true)?;
        let seats = room.seats().unwrap_or_default();
        if let Some(seat) = seats.iter().find(|seat| seat.part == member.name) {
            if let Some(pid) = seat.pid.filter(|_| !seat.dead) {
                process::end_gently(pid, SWEEP_LIMIT);
            }
            if !keep_pane {
                let _ = room.clear(&seat.pane);
            }
        }
        process::end_leftovers(&mark_of(self.own.session().session()), SWEEP_LIMIT);
        self.typed = None;
        self.order = None;
        self.again_at = None;
        let (member, why) = (member.name.clone(), why.to_owned());
        all.commit(MemberEnded { member, why, again_in_ms: None, degraded: false }).map(drop)
    }

    /// Keeps the workspace's packet for whoever comes after.
    pub(crate) fn close(&mut self, number: Option<u64>, member: &Member) -> Result<(), Halt> {
        let keeper = Keeper::new(self.own.session().session(), &member.cwd, Checkpoints::Git);
        if self.own.state().turn.number > 0 {
            keeper.checkpoint(&mut self.own, Mark::Stop)?;
        }
        keeper.packet(&mut self.own, number, "crew down")
    }
}

/// What the vendors call the conversations of the others.
fn taken(all: &Supervisor<'_>, me: &str) -> Vec<String> {
    let members = all.state().crew.iter().flat_map(|crew| &crew.members);
    members.filter(|one| one.name != me).filter_map(|one| one.vendor_session.clone()).collect()
}

/// What the window of a member is called: those of a group share one.
pub(crate) fn window_of(member: &Member) -> String {
    match &member.group {
        Some(group) if member.instance > 1 => format!("{group}-{}", member.instance),
        Some(group) => group.clone(),
        None => member.name.clone(),
    }
}
