//! The reviewers at work, side by side.
//!
//! Each has a session of its own within the directory of the one that it reviews. So all that holds
//! for a session holds for a reviewer: its journal is the truth, it is resumed where it was, it runs
//! into limits and is replaced. Its turns are known by the question that they answer; whatever dies
//! in between, the question is asked once, and the answer is there to be read.

mod mend;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use segue_agents::verdict;
use segue_core::{
    Event, Permission, State,
    caps::Caps,
    decide::{self, Next},
    event::{Cause, Reason, ReviewerStopped, SessionStopped, VerdictSubmitted},
    identity::LoopKind,
    inbox::Message,
    review::{Ledger, Seat, render},
    usage::Micros,
};
use segue_journal::{
    Clock, Home, Session, home::NewSession, inbox, lock::Holder, session::REVIEWERS,
};
use segue_runner::{
    Halt, Interrupt, Observer, Purse, Supervisor,
    supervisor::{Activity, capped, stop},
};

use crate::{
    bridge,
    keep::{Checkpoints, last_text},
    launch::{self, Asked, LaunchError, Resume, Surroundings, Worker},
    shift::Shift,
};

/// How often it is looked whether somebody wants it to end, or has something to say.
const LOOK: Duration = Duration::from_millis(50);

/// How often a reviewer may die in one round before that is a stop.
const MOST_DEATHS: u32 = 2;

/// How the name of a question ends that asks about what is settled.
const SETTLED: &str = ":settled";

/// What the reviewers' sessions need of those around them.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) me: Holder,
    pub(crate) segue: String,
    pub(crate) interrupt: Interrupt,
}

/// One reviewer in one round.
#[derive(Debug)]
pub(crate) struct Sitting {
    pub(crate) seat: Seat,
    /// Its own session's directory.
    pub(crate) dir: PathBuf,
    pub(crate) question: String,
    pub(crate) text: String,
    pub(crate) messages: Vec<String>,
    /// Hired already, so that a missing program is known before anybody works.
    pub(crate) worker: Option<Worker>,
    pub(crate) caps: Caps,
    /// When the pair's time is over, however often this one is started.
    pub(crate) until: Option<Timestamp>,
    pub(crate) purse: Purse,
    pub(crate) ledger: Ledger,
    /// It is asked without a memory of the rounds before.
    pub(crate) fresh: bool,
}

/// What a reviewer came back with.
pub(crate) struct Returned {
    pub(crate) name: String,
    pub(crate) session: Session,
    pub(crate) stopped: ReviewerStopped,
    pub(crate) outcome: Result<VerdictSubmitted, SessionStopped>,
    /// What it has raised again that is settled, by name: that does not count.
    pub(crate) set_aside: Vec<String>,
}

fn dir_of(session: &Session, seat: &Seat) -> PathBuf {
    session.dir().join(REVIEWERS).join(&seat.name)
}

/// A reviewer's own session, as it is now.
pub(crate) fn open(session: &Session, seat: &Seat) -> segue_journal::Result<Session> {
    Session::open(Arc::clone(session.disk()), &dir_of(session, seat))
}

/// The reviewers that have not spoken because something stopped them, each with its own session.
pub(crate) fn stopped(session: &Session) -> segue_journal::Result<Vec<(String, Session)>> {
    let state = session.state();
    let missing = state.terms().zip(state.round()).map(|(terms, round)| round.missing(terms));
    let mut found = Vec::new();
    for seat in missing.unwrap_or_default() {
        // One that can't be read is asked in a session of its own.
        let Ok(theirs) = open(session, seat) else { continue };
        let over = [Reason::Done, Reason::Interrupted];
        let stopped = theirs.state().stop.as_ref().is_some_and(|stop| !over.contains(&stop.reason));
        // One that could not even begin has no stop of its own: the session's names its agent.
        let named = state.stop.as_ref().and_then(|stop| stop.agent.as_deref());
        if stopped || named == Some(theirs.state().agent()) {
            found.push((seat.name.clone(), theirs));
        }
    }
    Ok(found)
}

/// Makes a reviewer's own session where it is not there yet, or can't be gone on with.
pub(crate) fn prepare(
    supervisor: &mut Supervisor<'_>,
    shift: &Shift<'_>,
    seat: &Seat,
) -> Result<(), Halt> {
    mend::make_room(supervisor, shift, seat)?;
    let session = supervisor.session().session();
    let Some(identity) = supervisor.state().identity.clone() else { return Ok(()) };
    let new = NewSession {
        loop_kind: LoopKind::Review,
        model: seat.model.clone(),
        permission: Permission::ReadOnly,
        caps: Caps { steps: identity.caps.steps, ..Caps::default() },
        fallback: identity.fallback,
        segue: shift.panel.segue.clone(),
        ..NewSession::new(
            identity.repo,
            shift.workspace.clone(),
            seat.agent.clone(),
            session.text(&identity.prompt)?,
        )
    };
    Ok(shift.home.create_within(&dir_of(session, seat), new, supervisor.clock())?)
}

/// What is left of the caps for one reviewer, where all of them have spent this much that the session
/// has not been told of. The rest is shared out as it is spent: they have one purse. What is not capped
/// is lifted: its own session may have had a cap on it before. Of the time, see [`in_time`].
pub(crate) fn caps(all: &State, theirs: &State, untold: (u64, u64)) -> Caps {
    let left = |cap: Option<u64>, used: u64, own: u64| match cap {
        Some(cap) => own.saturating_add(cap.saturating_sub(used)),
        None => u64::MAX,
    };
    let caps = all.caps_now();
    let money = caps.cost_micros.map(|cap| cap.0);
    Caps {
        steps: caps.steps.or(Some(u32::MAX)),
        tokens: Some(left(caps.tokens, all.usage.total() + untold.0, theirs.usage.total())),
        cost_micros: Some(Micros(left(money, all.cost.0 + untold.1, theirs.cost.0))),
        ..Caps::default()
    }
}

/// When a session's time is over, where there is a cap on it.
pub(crate) fn until(all: &State) -> Option<Timestamp> {
    let cap = SignedDuration::from_secs(all.caps_now().wall_clock_secs?.try_into().ok()?);
    all.running_since?.checked_add(cap).ok()
}

/// These caps, with the time that is left at `now`: each run of a reviewer counts its own from zero.
fn in_time(caps: Caps, until: Option<Timestamp>, now: Timestamp) -> Caps {
    let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
    Caps { wall_clock_secs: Some(left.map_or(u64::MAX, |left| left.as_secs())), ..caps }
}

/// What a reviewer has spent since the session was last told of it: its run may have been killed.
pub(crate) fn untold(all: &State, name: &str, theirs: &State) -> (u64, u64) {
    let told = all.review.reviewers.iter().find(|one| one.name == name);
    let (tokens, cost) = told.map_or((0, 0), |one| (one.usage.total(), one.cost.0));
    (theirs.usage.total().saturating_sub(tokens), theirs.cost.0.saturating_sub(cost))
}

/// What the threads of the reviewers have to say.
enum News {
    Event(String, Box<Event>),
    Hire { agent: String, model: Option<String>, answer: Sender<Result<Worker, String>> },
    Returned(Box<Returned>),
    Failed(String, segue_journal::Error),
}

/// Lets all of them work, and calls `each` for everyone who comes back.
pub(crate) fn sit(
    supervisor: &mut Supervisor<'_>,
    shift: &mut Shift<'_>,
    sittings: Vec<Sitting>,
    what: &str,
    mut each: impl FnMut(&mut Supervisor<'_>, Returned) -> Result<(), Halt>,
) -> Result<(), Halt> {
    let chair = Chair::of(supervisor, shift);
    let (news, heard) = mpsc::channel();
    let mut halted = None;
    thread::scope(|scope| {
        for sitting in sittings {
            let (chair, news) = (&chair, news.clone());
            scope.spawn(move || {
                let name = sitting.seat.name.clone();
                let told = match chair.sit(sitting, &news) {
                    Ok(returned) => News::Returned(Box::new(returned)),
                    Err(error) => News::Failed(name, error),
                };
                let _ = news.send(told);
            });
        }
        drop(news);
        loop {
            if let Some(signal) = shift.panel.interrupt.signal() {
                chair.interrupt.ask(signal);
            }
            let done = match heard.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    supervisor.progress(Activity::Running(what));
                    bridge::take_in(supervisor)
                }
                Ok(News::Returned(returned)) => each(supervisor, *returned),
                Ok(other) => told(supervisor, shift, other),
            };
            if let Err(halt) = done {
                // Nobody goes on where the session can't.
                halted.get_or_insert(halt);
                chair.interrupt.ask(15);
            }
        }
    });
    halted.map_or(Ok(()), Err)
}

/// Whatever a reviewer has to say before it comes back.
fn told(supervisor: &mut Supervisor<'_>, shift: &mut Shift<'_>, news: News) -> Result<(), Halt> {
    match news {
        News::Event(who, event) => supervisor.aside(&who, &event),
        News::Hire { agent, model, answer } => {
            let _ = answer.send((shift.hire)(&agent, model.as_deref()));
        }
        News::Failed(name, error) => {
            return Err(stop(Reason::Disk, format!("the reviewer {name}: {error}")).into());
        }
        News::Returned(_) => {}
    }
    Ok(())
}

/// What all reviewers of a round have in common.
struct Chair {
    clock: Clock,
    interrupt: Interrupt,
    me: Holder,
    segue: String,
    home: Home,
    workspace: PathBuf,
    wait: bool,
}

/// What a reviewer is to do next.
enum Step {
    Ask {
        text: String,
        question: String,
    },
    /// The answer is under way.
    GoOn,
    Judged(VerdictSubmitted),
}

impl Chair {
    fn of(supervisor: &Supervisor<'_>, shift: &Shift<'_>) -> Self {
        Self {
            clock: Arc::clone(supervisor.clock()),
            // Their own: it is also asked when the session that they belong to can't go on.
            interrupt: Interrupt::default(),
            me: shift.panel.me.clone(),
            segue: shift.panel.segue.clone(),
            home: shift.home.clone(),
            workspace: shift.workspace.clone(),
            wait: shift.wait,
        }
    }

    /// One reviewer's part of a round, from wherever its own journal says it is.
    fn sit(&self, mut sitting: Sitting, news: &Sender<News>) -> segue_journal::Result<Returned> {
        let mut worker = sitting.worker.take();
        let mut deaths = 0;
        loop {
            let session = Session::open(Arc::clone(self.home.disk()), &sitting.dir)?;
            let prompt = match next(&session, &sitting)? {
                Step::Judged(said) => {
                    let done = stop(Reason::Done, "the verdict is given");
                    return Ok(returned(&sitting, session, &done, Ok(said)));
                }
                Step::GoOn => None,
                Step::Ask { text, question } => {
                    // Only the first question tells them: what is asked once more is the verdict.
                    let first = question == sitting.question;
                    let messages = if first { sitting.messages.clone() } else { Vec::new() };
                    let (cause, question) = (Cause::Review, Some(question));
                    Some(Asked { text, cause, question, messages, fresh: first && sitting.fresh })
                }
            };
            let stopped = match self.worker(worker.take(), &session, news) {
                Ok(worker) => self.run(session, &sitting, prompt, worker, news),
                Err(why) => stop(Reason::Failed, why),
            };
            deaths += u32::from(stopped.reason == Reason::AgentCrashed);
            let again = stopped.reason == Reason::AgentCrashed && deaths < MOST_DEATHS;
            if stopped.reason != Reason::Done && !again {
                let session = Session::open(Arc::clone(self.home.disk()), &sitting.dir)?;
                // The rest of its answer is lost; its verdict came by the tool, and is not.
                let state = session.state();
                let said = state.verdict().filter(|_| is_about(state, &sitting)).cloned();
                let outcome = said.ok_or_else(|| stopped.clone());
                return Ok(returned(&sitting, session, &stopped, outcome));
            }
        }
    }

    /// Whoever was hired for it, or somebody like them.
    fn worker(
        &self,
        hired: Option<Worker>,
        session: &Session,
        news: &Sender<News>,
    ) -> Result<Worker, String> {
        match hired {
            Some(worker) => Ok(worker),
            None => hire(news, session.state().agent(), session.state().model()),
        }
    }

    fn run(
        &self,
        session: Session,
        sitting: &Sitting,
        prompt: Option<Asked>,
        worker: Worker,
        news: &Sender<News>,
    ) -> SessionStopped {
        let mut forward = Forward { name: sitting.seat.name.clone(), news: news.clone() };
        let moved = Some(self.workspace.as_path()) != session.state().workspace();
        let how = Resume {
            prompt,
            caps: in_time(sitting.caps, sitting.until, (self.clock)()),
            workspace: moved.then(|| self.workspace.clone()),
            ..Resume::default()
        };
        let from = news.clone();
        let around = Surroundings {
            clock: Arc::clone(&self.clock),
            interrupt: self.interrupt.clone(),
            observer: &mut forward,
            segue: self.segue.clone(),
            me: self.me.clone(),
            home: self.home.clone(),
            number: None,
            hire: Box::new(move |agent, model| hire(&from, agent, model)),
            wait: self.wait,
            give_back: false,
            checkpoints: Checkpoints::Off,
            purse: Some(sitting.purse.clone()),
        };
        match launch::resume(session, how, worker, around, |_| {}) {
            Ok(stopped) => stopped,
            Err(LaunchError::Journal(error)) => stop(Reason::Disk, error.to_string()),
            Err(LaunchError::NoRoom { cap }) => capped(cap),
            Err(error) => stop(Reason::Failed, error.to_string()),
        }
    }
}

/// Asks the thread that can.
fn hire(news: &Sender<News>, agent: &str, model: Option<&str>) -> Result<Worker, String> {
    let (answer, reply) = mpsc::channel();
    let (agent, model) = (agent.to_owned(), model.map(str::to_owned));
    let asked = news.send(News::Hire { agent, model, answer });
    let gone = "nobody is there to hire another agent";
    asked.map_err(|_| gone.to_owned())?;
    reply.recv().unwrap_or_else(|_| Err(gone.to_owned()))
}

struct Forward {
    name: String,
    news: Sender<News>,
}

impl Observer for Forward {
    fn event(&mut self, event: &Event) {
        let _ = self.news.send(News::Event(self.name.clone(), Box::new(event.clone())));
    }
}

/// Whether a reviewer's last turn is about the question of this round.
fn is_about(state: &State, sitting: &Sitting) -> bool {
    state.turn.question.as_deref().is_some_and(|id| bridge::subject(id) == sitting.question)
}

/// Decides by the reviewer's own journal, and by nothing else.
fn next(session: &Session, sitting: &Sitting) -> segue_journal::Result<Step> {
    let state = session.state();
    let ask = |text: String, how: &str| Step::Ask {
        text,
        question: format!("{}{how}", sitting.question),
    };
    if !is_about(state, sitting) {
        return Ok(ask(sitting.text.clone(), ""));
    }
    match decide::next(state) {
        _ if state.turn.open => return Ok(Step::GoOn),
        Next::Finish => {}
        // It would not answer, and that was a stop: now it is to be tried again.
        Next::GiveUp => return Ok(ask(sitting.text.clone(), "")),
        _ => return Ok(Step::GoOn),
    }
    let said = state.verdict();
    let text = match said {
        Some(_) => String::new(),
        None => last_text(session, state.turn.number)?.map(|(text, _)| text).unwrap_or_default(),
    };
    // It has given it, by the tool or at the end of its answer: it is only not recorded yet.
    if said.is_none() && (verdict::closing_block(&text).is_some() || has_submitted(session)?) {
        return Ok(Step::GoOn);
    }
    let first = state.turn.question.as_ref() == Some(&sitting.question);
    Ok(match said {
        Some(said) if first => {
            match sitting.ledger.argued_again(&sitting.seat.name, &said.concerns) {
                Some(settled) => ask(render::settled_already(settled), SETTLED),
                None => Step::Judged(said.clone()),
            }
        }
        Some(said) => Step::Judged(said.clone()),
        None if first => ask(render::once_more(), ":again"),
        None => Step::Judged(verdict::unreadable(&text)),
    })
}

/// Whether a verdict waits to be taken in.
fn has_submitted(session: &Session) -> segue_journal::Result<bool> {
    let waiting = inbox::waiting(&**session.disk(), session.dir())?;
    let since = session.state().turn.asked_in;
    Ok(waiting
        .iter()
        .any(|one| matches!(&one.message, Message::Verdict { turn: of, .. } if *of >= since)))
}

fn returned(
    sitting: &Sitting,
    session: Session,
    stopped: &SessionStopped,
    mut outcome: Result<VerdictSubmitted, SessionStopped>,
) -> Returned {
    let name = sitting.seat.name.clone();
    let state = session.state();
    let last = state.turn.question.as_deref().unwrap_or_default();
    let set_aside = match &mut outcome {
        Ok(said) => sitting.ledger.set_aside(&name, said, last.ends_with(SETTLED)),
        Err(_) => Vec::new(),
    };
    let stopped = ReviewerStopped {
        reviewer: name.clone(),
        agent: state.agent().to_owned(),
        session: session.id(),
        reason: stopped.reason,
        message: stopped.message.clone(),
        resets_at: stopped.resets_at,
        vendor_sessions: state.vendors.iter().filter_map(|one| one.id.clone()).collect(),
        usage: state.usage,
        cost_micros: state.cost,
        unpriced_calls: state.unpriced_calls,
    };
    Returned { name, session, stopped, outcome, set_aside }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn what_is_lifted_for_the_session_is_lifted_for_its_reviewers() {
        let before = Caps {
            steps: Some(1),
            wall_clock_secs: Some(2),
            tokens: Some(3),
            cost_micros: Some(Micros(4)),
            ..Caps::default()
        };
        let all = State { running_since: Some(at(0)), ..State::default() };
        let now = in_time(caps(&all, &State::default(), (0, 0)), until(&all), at(1));
        assert_eq!(before.overridden_by(now), Caps::default());
        let all = State { caps: before, ..all };
        let now = in_time(caps(&all, &State::default(), (1, 0)), until(&all), at(1));
        let left = Caps { wall_clock_secs: Some(1), tokens: Some(2), ..before };
        assert_eq!(before.overridden_by(now), left);
    }

    #[test]
    fn a_reviewer_that_is_started_again_has_the_time_that_is_left() {
        let caps = Caps { wall_clock_secs: Some(60), ..Caps::default() };
        let all = State { running_since: Some(at(0)), caps, ..State::default() };
        let left = |second| in_time(Caps::default(), until(&all), at(second)).wall_clock_secs;
        assert_eq!([left(10), left(59), left(60), left(90)], [50, 1, 0, 0].map(Some));
    }
}
