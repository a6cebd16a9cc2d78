//! How a member comes to its terminal: by its vendor's own resume, by what we know of it, or anew.
//!
//! A pane is made that waits for its order, then the order is handed over. Whoever dies in between
//! leaves a pane that waits, and has done nothing.

use std::time::{Duration, Instant};

use segue_agents::{terminal::Sight, vendor::Conversation};
use segue_core::{
    Permission,
    crew::Layout,
    event::{AgentStarted, Draft, Entry, MemberStarted, MemberStarting, Outcome, Start as How},
    state::CrewMember as Member,
};
use segue_runner::{
    Halt, Supervisor,
    order::{self, Order},
    process,
    tmux::seat::{Place, Room, Seat},
};

use super::{
    Around,
    bench::Start,
    chair::{Chair, window_of},
    mail, mark_of, post,
    program::{is_marked, out_of_reach},
    words::{PACKET, brief, say, waits, withdraw},
};

/// How long a pane may take to ask for its order.
const SEATING: Duration = Duration::from_secs(20);

/// After so many resumes in a row that came to nothing, the conversation counts as gone.
const MOST_IN_VAIN: u32 = 2;

/// How the ids begin of what is said to somebody who was cut off.
const CUT_OFF: &str = "cut-off-";

const WAS_CUT_OFF: &str = "Your program was ended in the middle of your work, and this is your own \
                           conversation again. See what was done already, and go on from there. If \
                           nothing is left to do, wait for the next message.";

impl Chair {
    /// How it would come back: by its vendor's own resume, or by what we know of it.
    pub(crate) fn way_back(&self, member: &Member) -> (How, Option<String>) {
        if member.fresh {
            return (How::New, None);
        }
        let known = member.vendor_session.as_deref();
        let there = known.is_some_and(|id| {
            // What can't be told now is tried.
            !matches!(self.bench.history(&member.cwd, id), Ok(None))
        });
        match known.filter(|_| there && self.in_vain < MOST_IN_VAIN) {
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
    ) -> Result<(), Halt> {
        post::settle(self, all, member)?;
        // Its screen begins anew.
        self.said.clear();
        if self.own.state().turn.open {
            // It was told, and nobody is there any more who would answer.
            self.own.end_turn(Outcome::CutOff)?;
        }
        let (how, id) = self.way_back(member);
        let (id, made) = self.conversation(all, member, id)?;
        let generation = member.generation + 1;
        // One that was made before is there to be entered.
        let enter = if made { How::Resumed } else { how };
        let (order, shown) = match self.order(all, member, enter, id.as_deref()) {
            Ok(order) => order,
            Err(why) => return self.ended(all, member, why),
        };
        let starting = MemberStarting {
            member: member.name.clone(),
            how,
            generation,
            vendor_session: id.clone(),
            command: shown.clone(),
            cwd: member.cwd.clone(),
        };
        // Before it is said that it starts like this: whoever comes after would not say it again.
        self.announce(all, member, how)?;
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
        self.forget();
        if let Err(why) = self.seated(all, around, room, member, generation) {
            return self.ended(all, member, why);
        }
        self.order = Some((order, Instant::now()));
        Ok(())
    }

    /// What it has to know of its earlier conversation in the one that it begins with.
    fn announce(&self, all: &mut Supervisor<'_>, member: &Member, how: How) -> Result<(), Halt> {
        match how {
            How::Packet => {
                withdraw(all, member, &[CUT_OFF])?;
                brief(all, &self.own, member)
            }
            // Its own conversation may be one in which it has not been told of the one before.
            How::Resumed if !waits(all, member, PACKET) => cut_off(all, &self.own, member),
            How::New => withdraw(all, member, &[PACKET, CUT_OFF]),
            How::Resumed | How::Unknown => Ok(()),
        }
    }

    /// The conversation that it is started in, as far as that is known before; and whether its
    /// program has just made it.
    fn conversation(
        &self,
        all: &mut Supervisor<'_>,
        member: &Member,
        known: Option<String>,
    ) -> Result<(Option<String>, bool), Halt> {
        if known.is_some() {
            return Ok((known, false));
        }
        if self.bench.own_id() {
            return Ok((Some(segue_runner::vendor::fresh_id()?), false));
        }
        let made = self.bench.make_conversation(&member.cwd);
        if made.is_none() && self.bench.makes_conversations() {
            let name = &member.name;
            all.warn(format!(
                "{name}: its program made no chat: it can't be brought back by that"
            ))?;
        }
        let is_made = made.is_some();
        Ok((made, is_made))
    }

    fn order(
        &self,
        all: &Supervisor<'_>,
        member: &Member,
        how: How,
        id: Option<&str>,
    ) -> Result<(Order, String), String> {
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
        self.bench
            .order(&start)
            .map_err(|error| format!("its files can't be put in place: {error}"))
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
        let pipe = self.pipe(member.generation);
        let Some(seat) = seat.filter(|seat| !seat.dead) else {
            // It was never made, or has ended already.
            let late = self.order.as_ref().is_none_or(|(_, since)| since.elapsed() > SEATING);
            let why = match seat {
                Some(seat) => seat.end(),
                None if !late => return Ok(()),
                // It has got its order, and whoever gave it that died before it was seen.
                None if !pipe.exists() && is_marked(self.own.session().session()) => {
                    return out_of_reach(all, member);
                }
                None => "it was never started".to_owned(),
            };
            self.order = None;
            return self.ended(all, member, why);
        };
        // As long as it waits, it is still us. Before that, for a moment, it is still tmux.
        let waits = seat.pid.is_some_and(order::is_waiting);
        if waits || pipe.exists() {
            let patient = match self.is_patient(all, member) {
                Ok(patient) => patient,
                Err(why) => return self.unseat(all, room, member, seat, why),
            };
            let handed = match &self.order {
                Some((order, _)) if waits => order::hand_over(&pipe, order).unwrap_or_default(),
                _ => false,
            };
            if !handed && patient {
                return Ok(());
            }
            if !handed && waits {
                let why = "its pane did not come to life".to_owned();
                return self.unseat(all, room, member, seat, why);
            }
        }
        self.order = None;
        all.commit(started(member, seat)).map(drop)
    }

    /// Takes a pane away in which nothing runs yet.
    fn unseat(
        &mut self,
        all: &mut Supervisor<'_>,
        room: &Room,
        member: &Member,
        seat: &Seat,
        why: String,
    ) -> Result<(), Halt> {
        self.order = None;
        let _ = room.clear(&seat.pane);
        self.ended(all, member, why)
    }

    /// Whether its pane may still take a while; with the order at hand that it is to get.
    fn is_patient(&mut self, all: &Supervisor<'_>, member: &Member) -> Result<bool, String> {
        if self.order.is_none() {
            // Whoever was to hand it over has died.
            let id = member.vendor_session.as_deref();
            // One that was made before is there to be entered.
            let made = id.is_some() && self.bench.makes_conversations();
            let how = if made { How::Resumed } else { member.how };
            self.order = Some((self.order(all, member, how, id)?.0, Instant::now()));
        }
        Ok(self.order.as_ref().is_some_and(|(_, since)| since.elapsed() < SEATING))
    }
}

pub(super) fn started(member: &Member, seat: &Seat) -> MemberStarted {
    let began = seat.pid.and_then(process::began);
    let (member, pane) = (member.name.clone(), Some(seat.pane.clone()));
    MemberStarted { member, pane, pid: seat.pid, began }
}

/// Has somebody go on whose program ended in the middle of a turn. Once for each turn.
fn cut_off(all: &mut Supervisor<'_>, own: &Supervisor<'_>, member: &Member) -> Result<(), Halt> {
    let turn = &own.state().turn;
    if turn.outcome != Some(Outcome::CutOff) {
        return Ok(());
    }
    let about = [&*own.session().session().id().to_string(), &*turn.number.to_string()].concat();
    let id = format!("{CUT_OFF}{}", &mail::hash(&[&about])[..16]);
    say(all, &id, &member.name, WAS_CUT_OFF)
}

/// A pane of somebody who shares the member's window.
fn neighbour(all: &Supervisor<'_>, member: &Member, seats: &[Seat]) -> Option<String> {
    let crew = all.state().crew.as_ref()?;
    member.group.as_ref()?;
    let window = window_of(member);
    let shares = |one: &&Member| one.group.is_some() && window_of(one) == window;
    let mates: Vec<&Member> = crew.in_order().filter(shares).collect();
    let at = mates.iter().position(|one| one.name == member.name)?;
    // The one before it, so that they stand in the order of the roster.
    let (before, after) = mates.split_at(at);
    let mut nearest = before.iter().rev().chain(after);
    nearest
        .find_map(|mate| seats.iter().find(|seat| seat.part == mate.name && !seat.is_elsewhere()))
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

#[cfg(test)]
mod tests {
    use segue_agents::vendor::World;
    use segue_core::{crew::Spec, event::Doing};

    use super::*;
    use crate::crew::{
        bench::Bench,
        record,
        scope::Scope,
        testing::{Scene, look},
    };

    const ONE: &str = "[[agents]]\nid = \"coder\"\nagent = \"claude\"\n";

    fn starts(chair: &Chair, scene: &mut Scene, how: How) -> Vec<String> {
        let member = scene.member("coder");
        chair.announce(&mut scene.all, &member, how).unwrap();
        scene.starting("coder", how, None);
        let waiting = scene.all.state().bridge.waiting_for("coder");
        waiting.map(|one| one.id.rsplit_once('-').unwrap().0.to_owned()).collect()
    }

    #[test]
    fn what_is_said_first_is_of_the_conversation_that_it_begins_with_and_said_once() {
        let (mut scene, own) = (Scene::new(ONE), Scene::new(ONE));
        let mut own = own.all;
        record::told(&mut own, "coder", "Mend the parser", Vec::new()).unwrap();
        own.end_turn(Outcome::CutOff).unwrap();
        let bench = Bench::command(&Spec::default(), None, World::default());
        let chair = Chair::new(bench, own, Scope::default());
        let nothing: [&str; 0] = [];

        // It ends before it is told, again and again.
        for _ in 0..3 {
            assert_eq!(starts(&chair, &mut scene, How::Packet), ["packet"]);
        }
        // It has a conversation by now, and nothing was said in there.
        assert_eq!(starts(&chair, &mut scene, How::Resumed), ["packet"]);
        assert_eq!(starts(&chair, &mut scene, How::New), nothing);
        assert_eq!(starts(&chair, &mut scene, How::Resumed), ["cut-off"]);
        assert_eq!(starts(&chair, &mut scene, How::Packet), ["packet"]);
        let dead = &scene.all.state().crew.as_ref().unwrap().dead;
        let reasons: Vec<&str> = dead.iter().map(|one| one.reason.as_str()).collect();
        assert_eq!(reasons, ["it began a new conversation"; 2]);
    }

    /// Somebody with a command, and with a past.
    fn chair(mut own: Supervisor<'static>, command: &[&str]) -> Chair {
        record::told(&mut own, "coder", "Mend the parser", Vec::new()).unwrap();
        own.end_turn(Outcome::Finished).unwrap();
        let command = command.iter().map(|&word| word.to_owned()).collect();
        let spec = Spec { command, ..Spec::default() };
        Chair::new(Bench::command(&spec, None, World::default()), own, Scope::default())
    }

    #[test]
    fn what_is_known_is_recorded_before_it_is_said_that_it_starts_by_that() {
        let (mut scene, own) = (Scene::new(ONE), Scene::new(ONE));
        let mut chair = chair(own.all, &["sh"]);
        let (around, room, member) = (scene.around(), scene.room(), scene.member("coder"));
        chair.start(&mut scene.all, &around, &room, &member).unwrap();
        assert_eq!(scene.member("coder").how, How::Packet);
        let kinds = scene.kinds();
        let from = kinds.iter().position(|kind| kind == "message.sent").unwrap();
        assert_eq!(kinds[from..], ["message.sent", "member.starting", "member.ended"]);
    }

    #[test]
    fn one_whose_files_can_not_be_put_in_place_is_tried_again_and_given_up() {
        let (mut scene, own) = (Scene::new(ONE), Scene::new(ONE));
        let mut chair = chair(own.all, &[]);
        let (around, room) = (scene.around(), scene.room());
        for _ in 0..6 {
            let member = scene.member("coder");
            chair.start(&mut scene.all, &around, &room, &member).unwrap();
        }
        let member = scene.member("coder");
        assert_eq!((member.doing, member.restarts), (Doing::Degraded, 5));
        let why = member.what.unwrap();
        assert!(why.starts_with("its files can't be put in place: "), "{why}");

        // And for one whose pane waits already: whoever was to hand it its order has died.
        scene.starting("coder", How::New, None);
        let member = scene.member("coder");
        order::make_pipe(&chair.pipe(member.generation)).unwrap();
        let seat = look("").seat.unwrap();
        chair.seat(&mut scene.all, &room, &member, Some(&seat)).unwrap();
        assert!(!scene.member("coder").starting);
    }

    #[test]
    fn one_that_has_got_its_order_is_not_ended_because_nobody_finds_its_pane() {
        let (mut scene, own) = (Scene::new(ONE), Scene::new(ONE));
        let mut chair = chair(own.all, &["sh"]);
        let mark = mark_of(chair.own.session().session());
        let mut program = std::process::Command::new("sleep");
        let mut program = program.arg("600").env(process::SESSION_VAR, &mark).spawn().unwrap();
        let room = scene.room();
        scene.starting("coder", How::New, None);
        let mut sees = |chair: &mut Chair| {
            let member = scene.member("coder");
            chair.seat(&mut scene.all, &room, &member, None).unwrap();
            scene.member("coder").doing
        };
        let seen = [sees(&mut chair), sees(&mut chair)];
        let lives = program.try_wait().unwrap().is_none();
        program.kill().unwrap();
        program.wait().unwrap();
        assert_eq!((seen, lives), ([Doing::Unreachable; 2], true));
        assert_eq!(sees(&mut chair), Doing::Down);
    }
}
