//! One member at a terminal: started, looked at, started again.
//!
//! What is about to happen is recorded before it does, and what has happened is read from the world:
//! from tmux, from the vendor's own file. So whoever looks next, in this process or after it died,
//! comes to the same conclusion.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use segue_agents::terminal::{Screen, Sight};
use segue_core::{
    event::{
        AgentIntroduced, Doing, Draft, Mark, MemberEnded, MemberIdentified, MemberSeen, Outcome,
        Reason, Start as How,
    },
    state::{Afterwards, Crew, CrewMember as Member},
};
use segue_runner::{
    Halt, Supervisor,
    order::{self, Order},
    process,
    supervisor::stop,
    tmux::seat::{Room, Seat},
};

use super::{
    Around,
    bench::Bench,
    mark_of,
    post::{self, Typed},
    program::{end_program, is_another, is_there, out_of_reach},
    record,
    scope::Scope,
    start::started,
};
use crate::keep::{self, Checkpoints, Keeper};

/// After so many looks that show the same, whatever was said is in the vendor's file.
const QUIET: u32 = 8;

/// How often the vendor's own file is looked at.
const READING: Duration = Duration::from_millis(250);

/// How often it is asked which conversation it has open, once one is known.
const ASKING: Duration = Duration::from_secs(2);

/// When it is said that a member's conversation was not found.
const LATE: Duration = Duration::from_secs(20);

/// How long what a member's program started may take to end.
pub(super) const SWEEP_LIMIT: Duration = Duration::from_secs(2);

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
    /// When it is started again. By a clock that nobody sets.
    pub(super) again_at: Option<Instant>,
    /// Whether it was ever ready since it was started.
    pub(super) was_ready: bool,
    /// How often in a row its vendor's own resume did not even bring it to its first screen.
    pub(super) in_vain: u32,
    /// The keys of its pane go elsewhere: a person looks at what was said before.
    pub(super) in_mode: bool,
    /// When its conversation was looked at last, and when it was looked for.
    pub(crate) read_at: Option<Instant>,
    pub(super) asked_at: Option<Instant>,
    /// Another conversation that it had open at the last look.
    other: Option<String>,
    /// It was said that its conversation is not found.
    warned: bool,
    /// What its pane is marked with, where that is known.
    marked: Option<Option<String>>,
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
            in_vain: 0,
            in_mode: false,
            read_at: None,
            asked_at: None,
            other: None,
            warned: false,
            marked: None,
        }
    }

    /// Whether a prompt would be taken: it was ready twice in a row.
    pub(crate) fn is_ready(&self) -> bool {
        self.sight == Sight::Idle && self.same >= 2 && !self.in_mode
    }

    /// What is known of the program before does not count for the next one.
    pub(super) fn forget(&mut self) {
        (self.in_mode, self.asked_at, self.other, self.warned) = (false, None, None, false);
        self.marked = None;
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
        let waits = |seat: &Seat| seat.pid.is_some_and(order::is_waiting);
        let unfed = member.doing == Doing::Starting && alive.is_some_and(waits);
        if self.order.is_some() || member.starting || unfed {
            return self.seat(all, room, member, look.seat.as_ref());
        }
        match (alive, member.doing) {
            (_, Doing::Degraded) => Ok(()),
            // Somebody has started it by hand, or its end was wrongly told.
            (Some(seat), doing) if doing == Doing::Down || is_another(member, seat) => {
                all.commit(started(member, seat)).map(drop)
            }
            (None, Doing::Down) => match self.again_at.is_none_or(|at| Instant::now() >= at) {
                true => self.start(all, around, room, member),
                false => Ok(()),
            },
            (None, _) if is_there(member) => out_of_reach(all, member),
            (None, _) => {
                let why = look.seat.map_or_else(|| "its pane is gone".to_owned(), |s| s.end());
                self.ended(all, member, why)
            }
            (Some(seat), _) => {
                self.see(seat, look.screen.unwrap_or_default());
                self.tell(all, around, member)
            }
        }
    }

    fn see(&mut self, seat: &Seat, screen: String) {
        self.title.clone_from(&seat.title);
        self.in_mode = seat.in_mode;
        let shown = self.bench.without_echo(&screen, &self.said);
        let sight = self.bench.sight(&Screen { text: &shown, title: &seat.title });
        self.same = if sight == self.sight { self.same.saturating_add(1) } else { 1 };
        self.sight = sight;
        self.screen = screen;
        self.was_ready |= self.is_ready() || matches!(self.sight, Sight::Waiting(_));
    }

    /// Records what it does now, where that is news.
    fn tell(
        &mut self,
        all: &mut Supervisor<'_>,
        around: &Around<'_>,
        member: &Member,
    ) -> Result<(), Halt> {
        self.identify(all, member)?;
        if matches!(self.sight, Sight::Busy | Sight::Waiting(_)) {
            self.scope.look(all, member, false)?;
        }
        let (doing, what) = match &self.sight {
            Sight::Starting => (Doing::Starting, None),
            Sight::Idle => (Doing::Idle, None),
            Sight::Busy => (Doing::Busy, None),
            Sight::Waiting(what) => (Doing::Waiting, Some(what.clone())),
        };
        // A quick answer may come between two looks. As long as it is not certain that it was told
        // anything, there is nothing to answer.
        let quiet = doing == Doing::Idle && self.same == QUIET && member.posted.is_none();
        if quiet && member.doing == Doing::Idle {
            self.read(all, member, None)?;
            return match self.own.state().turn.open {
                true => self.turn_over(all, around, member),
                false => self.scope.look(all, member, true),
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
        all.note(MemberSeen { member: name, doing, what })?;
        match doing {
            Doing::Busy => self.scope.begins(all, &member.name)?,
            Doing::Idle if was == Doing::Busy => self.turn_over(all, around, member)?,
            _ => {}
        }
        Ok(())
    }

    /// Shows on a member's pane whether it waits for a person, as it stands now.
    pub(crate) fn mark(&mut self, crew: &Crew, room: &Room, member: &Member, seat: &Seat) {
        let waits = |one: &Member| one.doing == Doing::Waiting;
        let mark = waits(member).then(|| member.what.clone().unwrap_or_default());
        if self.marked.as_ref() == Some(&mark) {
            return;
        }
        let window = window_of(member);
        let mut mates = crew.members.iter().filter(|one| window_of(one) == window);
        let window = if mates.any(waits) { format!("!{window}") } else { window };
        // A window of a person's own keeps its name.
        let window = (!seat.is_elsewhere()).then_some(window);
        if room.mark(&seat.pane, window.as_deref(), mark.as_deref()).is_ok() {
            self.marked = Some(mark);
        }
    }

    /// Finds out what its vendor calls the conversation, where we could not choose that; and now and
    /// then whether it has another one open by now.
    fn identify(&mut self, all: &mut Supervisor<'_>, member: &Member) -> Result<(), Halt> {
        if !self.bench.remembers() {
            return Ok(());
        }
        let known = member.vendor_session.is_some();
        if known && !(self.is_ready() && member.posted.is_none()) {
            return Ok(());
        }
        let often = if known { ASKING } else { READING };
        if self.asked_at.is_some_and(|at| at.elapsed() < often) {
            return Ok(());
        }
        self.asked_at = Some(Instant::now());
        match self.found(all, member) {
            // Right after its start it may say anything.
            Some(id) if known && self.other.as_ref() != Some(&id) => self.other = Some(id),
            Some(id) => return self.is_now(all, member, id),
            None => self.other = None,
        }
        let typed = self.typed.as_ref().and_then(Typed::since_enter);
        if !known && !self.warned && typed.is_some_and(|since| since > LATE) {
            self.warned = true;
            let what = format!(
                "{}: what its vendor calls its conversation was not found: it can't be brought back by that",
                member.name
            );
            all.warn(what)?;
        }
        Ok(())
    }

    /// Whether it has another conversation open than the one that is known; then that is recorded.
    pub(super) fn turned(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
    ) -> Result<bool, Halt> {
        match self.found(all, member) {
            Some(id) => self.is_now(all, member, id).map(|()| true),
            None => Ok(false),
        }
    }

    /// The conversation that it has open, where that is news.
    fn found(&self, all: &Supervisor<'_>, member: &Member) -> Option<String> {
        if member.vendor_session.is_some() && !self.bench.knows_open() {
            return None;
        }
        let (pid, since) = (member.pid?, member.spawned_at?);
        let taken = taken(all, &member.name);
        let first = self.typed.as_ref().map(|typed| typed.text.as_str());
        let id = self.bench.identify(pid, &member.cwd, since, first, &taken);
        id.filter(|id| member.vendor_session.as_ref() != Some(id))
    }

    fn is_now(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        id: String,
    ) -> Result<(), Halt> {
        self.other = None;
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
        self.read(all, member, Some(Outcome::Finished))?;
        if !self.bench.remembers() {
            record::answered(&mut self.own, &self.screen)?;
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
        over: Option<Outcome>,
    ) -> Result<(), Halt> {
        let Some(id) = member.vendor_session.as_deref() else { return Ok(()) };
        // A file that can't be read now can be read later.
        let Ok(Some(history)) = self.bench.history(&member.cwd, id) else { return Ok(()) };
        let waiting = all.state().bridge.waiting_for(&member.name);
        let waiting: Vec<String> = waiting.map(|one| one.id.clone()).collect();
        record::conversation(&mut self.own, id, &history, &waiting, over)
    }

    /// Its program has ended or is to end: a turn that was under way is not finished by that.
    fn break_off(&mut self, all: &Supervisor<'_>, member: &Member) -> Result<(), Halt> {
        let before = self.own.state().turn.number;
        self.read(all, member, None)?;
        let turn = &self.own.state().turn;
        let just_told = turn.number > before && member.posted.is_some();
        match turn.open {
            true if member.doing == Doing::Idle && !just_told => {
                self.own.end_turn(Outcome::Finished)
            }
            true => self.own.end_turn(Outcome::CutOff),
            false => Ok(()),
        }
    }

    /// Its program has ended: it is started again after a while, unless that happens too often.
    pub(crate) fn ended(
        &mut self,
        all: &mut Supervisor<'_>,
        member: &Member,
        why: String,
    ) -> Result<(), Halt> {
        self.break_off(all, member)?;
        self.scope.look(all, member, true)?;
        // What it had started would go on without it.
        process::end_leftovers(&mark_of(self.own.session().session()), SWEEP_LIMIT);
        let (again_in_ms, degraded) = match member.after_end(all.now()) {
            Afterwards::AgainIn(wait) => (u64::try_from(wait.as_millis()).ok(), false),
            Afterwards::Degraded => (None, true),
        };
        let wait = Duration::from_millis(again_in_ms.unwrap_or_default());
        self.again_at = Instant::now().checked_add(wait);
        let came_up = self.was_ready || matches!(member.doing, Doing::Idle | Doing::Waiting);
        self.in_vain = match member.how == How::Resumed && !came_up {
            true => self.in_vain.saturating_add(1),
            false => 0,
        };
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
        // What it has been told is not told it again when it is back.
        post::settle(self, all, member)?;
        self.break_off(all, member)?;
        end_program(room, member, Some(self.own.session().session()), keep_pane);
        self.scope.look(all, member, true)?;
        self.typed = None;
        self.order = None;
        self.again_at = None;
        let (member, why) = (member.name.clone(), why.to_owned());
        all.commit(MemberEnded { member, why, again_in_ms: None, degraded: false }).map(drop)
    }

    /// Keeps the workspace's packet for whoever comes after. Nothing is under way any more.
    pub(crate) fn close(
        &mut self,
        number: Option<u64>,
        member: &Member,
        why: &str,
    ) -> Result<(), Halt> {
        let keeper = Keeper::new(self.own.session().session(), &member.cwd, Checkpoints::Git);
        if self.own.state().turn.number > 0 {
            keeper.checkpoint(&mut self.own, Mark::Stop)?;
        }
        keeper.packet(&mut self.own, number, why)?;
        self.own.commit(stop(Reason::Interrupted, why)).map(drop)
    }
}

/// What the vendors call the conversations of the others.
fn taken(all: &Supervisor<'_>, me: &str) -> Vec<String> {
    let crew = all.state().crew.iter();
    let members = crew.flat_map(|crew| crew.members.iter().chain(&crew.former));
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

#[cfg(test)]
mod tests {
    use segue_agents::vendor::World;

    use super::*;
    use crate::crew::testing::{Scene, look, vendors};

    const BOUND: &str = "[[agents]]\nid = \"coder\"\ncommand = \"sh\"\nready = \"READY\"\n\
        busy = \"BUSY\"\nwrite = [\"src\"]\nenforce = true\n";

    /// Somebody new in front of the coder's terminal.
    fn chair(scene: &Scene, own: Supervisor<'static>, transcript: Option<PathBuf>) -> Chair {
        let member = scene.member("coder");
        let spec = scene.all.state().crew.as_ref().unwrap().spec(&member).unwrap();
        let scope = Scope::new(spec, &member.cwd, "coder");
        Chair::new(Bench::command(spec, transcript, World::default()), own, scope)
    }

    fn looks(chair: &mut Chair, scene: &mut Scene, times: u32, screen: &str) {
        let (around, room) = (scene.around(), scene.room());
        for _ in 0..times {
            let member = scene.member("coder");
            chair.look(&mut scene.all, &around, &room, &member, look(screen)).unwrap();
        }
    }

    #[test]
    fn whoever_takes_over_after_a_turn_puts_nothing_back_that_a_person_may_have_written() {
        let (mut scene, own) = (Scene::new(BOUND), Scene::new(BOUND));
        scene.repository();
        scene.sits("coder");
        // Whoever watched has died in the middle of it.
        Scope::new(
            scene.all.state().crew.as_ref().unwrap().spec(&scene.member("coder")).unwrap(),
            &scene.project,
            "coder",
        )
        .begins(&mut scene.all, "coder")
        .unwrap();
        scene.sees("coder", Doing::Busy);
        let written = scene.project.join("notes.txt");
        std::fs::write(&written, "by a person").unwrap();
        let mut chair = chair(&scene, own.all, None);
        looks(&mut chair, &mut scene, 3, "READY");
        let [segue_core::Body::ScopeBroken(broken)] = &scene.events("scope.broken")[..] else {
            panic!("{:?}", scene.kinds());
        };
        assert_eq!((broken.undone, &broken.paths[..]), (false, &["notes.txt".to_owned()][..]));
        assert!(written.exists());
        assert_eq!(scene.member("coder").bounds, None);

        // What it is seen to do itself is put back.
        looks(&mut chair, &mut scene, 1, "BUSY");
        std::fs::write(scene.project.join("more.txt"), "by the coder").unwrap();
        looks(&mut chair, &mut scene, 2, "READY");
        assert_eq!(scene.events("scope.broken").len(), 2);
        assert!(written.exists() && !scene.project.join("more.txt").exists());
    }

    #[test]
    fn no_turn_is_over_before_it_is_certain_that_it_has_begun() {
        let (mut scene, own) = (Scene::new(BOUND), Scene::new(BOUND));
        scene.repository();
        scene.sits("coder");
        let transcript = scene.project.with_file_name("told");
        let mut chair = chair(&scene, own.all, Some(transcript.clone()));
        looks(&mut chair, &mut scene, QUIET - 1, "READY");
        scene.says("file-1", "coder", "Mend it");
        let (member, room) = (scene.member("coder"), scene.room());
        post::attend(&mut chair, &mut scene.all, &room, &member).unwrap();
        looks(&mut chair, &mut scene, 2 * QUIET, "READY");
        assert!(scene.member("coder").posted.is_some() && scene.member("coder").bounds.is_some());

        std::fs::write(&transcript, segue_core::bridge::mark("file-1")).unwrap();
        // As another one would find it.
        chair.typed = None;
        let member = scene.member("coder");
        post::attend(&mut chair, &mut scene.all, &room, &member).unwrap();
        assert!(chair.own.state().turn.open && scene.member("coder").posted.is_none());
        looks(&mut chair, &mut scene, QUIET - 1, "READY");
        assert!(chair.own.state().turn.open && scene.member("coder").bounds.is_some());
        // So quick an answer that nobody has seen it at work.
        looks(&mut chair, &mut scene, 1, "READY");
        assert!(!chair.own.state().turn.open && scene.member("coder").bounds.is_none());
    }

    #[test]
    fn a_conversation_that_can_not_be_entered_twice_in_a_row_counts_as_gone() {
        let (mut scene, own) = (Scene::new(BOUND), Scene::new(BOUND));
        let mut own = own.all;
        record::told(&mut own, "v", "Mend the parser", Vec::new()).unwrap();
        // What its vendor keeps can't be read, so its resume is tried.
        let mut chair = Chair::new(vendors("cursor", "cursor"), own, Scope::default());
        let ends = |chair: &mut Chair, scene: &mut Scene, seen: Option<Doing>| {
            scene.starting("coder", How::Resumed, Some("v"));
            seen.into_iter().for_each(|doing| scene.sees("coder", doing));
            let member = scene.member("coder");
            chair.ended(&mut scene.all, &member, "exit status 1".to_owned()).unwrap();
            chair.way_back(&scene.member("coder")).0
        };
        assert_eq!(ends(&mut chair, &mut scene, None), How::Resumed);
        // It came up and asked something: it is no conversation that can't be entered.
        assert_eq!(ends(&mut chair, &mut scene, Some(Doing::Waiting)), How::Resumed);
        assert_eq!(ends(&mut chair, &mut scene, None), How::Resumed);
        assert_eq!(ends(&mut chair, &mut scene, None), How::Packet);
    }
}
