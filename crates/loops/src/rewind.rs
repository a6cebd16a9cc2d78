//! Going back to the end of an earlier turn: the conversation, the files, or both.
//!
//! ```text
//! rewind.started   what will be done, and the ref that will keep what is there now
//!   … files change: the safety checkpoint first, then the files …
//! rewind.finished  from here on the conversation is the shorter one
//! ```
//!
//! Between the two events a rewind is to be finished, by whoever comes next; doing it twice does
//! no harm. Nothing is taken out of the journal or out of git, so a rewind can be taken back.

use segue_agents::vendor;
use segue_core::{
    Body, State,
    event::{
        CheckpointTaken, Cut, Mark, Outcome, Reason, RewindFinished, RewindStarted, SessionStopped,
    },
    steps::Steps,
};
use segue_journal::Session;
use segue_runner::{Halt, Supervisor, agent, supervisor::stop};
use segue_workspace::Plan as FilePlan;

use crate::keep::{Keeper, reference};

/// What is to go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    pub files: bool,
    pub conversation: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RewindError {
    #[error(transparent)]
    Journal(#[from] segue_journal::Error),
    #[error("there is no turn {turn}: the last one is {last}")]
    NoTurn { turn: u32, last: u32 },
    #[error("turn {turn} was left behind by a rewind")]
    LeftBehind { turn: u32 },
    #[error("the files can't be brought back: {why}")]
    NoFiles { why: String },
    #[error("there is no step `{step}`: `segue log --json` has their ids")]
    NoStep { step: String },
    #[error("there is no rewind to take back")]
    NothingToUndo,
}

/// A rewind that was thought through and has not begun.
#[derive(Debug)]
pub struct Plan {
    pub started: RewindStarted,
    /// What would change in the workspace.
    pub files: FilePlan,
    /// How each agent's own conversation goes back, in words for people.
    pub conversations: Vec<String>,
}

/// Thinks a rewind through. Nothing is changed.
pub fn plan(
    session: &Session,
    keeper: &Keeper,
    to_turn: u32,
    scope: Scope,
) -> Result<Plan, RewindError> {
    let state = session.state();
    if to_turn > state.turn.number {
        return Err(RewindError::NoTurn { turn: to_turn, last: state.turn.number });
    }
    if to_turn > 0 && !state.on_path(to_turn) {
        return Err(RewindError::LeftBehind { turn: to_turn });
    }
    let files = match scope.files {
        true => Some(files_of(session, keeper, to_turn)?),
        false => None,
    };
    let path = scope.conversation.then(|| state.path_to(to_turn));
    let (cuts, conversations) = match scope.conversation {
        true => cuts(session, to_turn)?,
        false => (Vec::new(), Vec::new()),
    };
    let safety = reference(session, &format!("before-{}", state.seq));
    let started = RewindStarted { to_turn, files, path, safety, cuts, undo: false };
    with_changes(keeper, started, conversations)
}

/// The files alone, back to the last checkpoint: what a session on another machine begins with.
#[must_use]
pub fn to_checkpoint(session: &Session) -> Option<RewindStarted> {
    let commit = session.state().checkpoint.as_ref()?.commit.clone()?;
    Some(to_files(session, commit))
}

/// The files alone, back to any checkpoint.
fn to_files(session: &Session, commit: String) -> RewindStarted {
    let state = session.state();
    RewindStarted {
        to_turn: state.last_turn(),
        files: Some(commit),
        path: None,
        safety: reference(session, &format!("before-{}", state.seq)),
        cuts: Vec::new(),
        undo: false,
    }
}

/// The last turn whose end is not after a step: steps are ids of tool calls, or numbers of events.
pub fn turn_of_step(session: &Session, step: &str) -> Result<u32, RewindError> {
    let number: Option<u64> = step.trim_start_matches('#').parse().ok();
    let mut later_steps = false;
    for event in session.conversed()? {
        let named = event.id.as_deref() == Some(step) || Some(event.seq) == number;
        if let (true, Some(turn)) = (named, event.turn) {
            return Ok(if later_steps { turn - 1 } else { turn });
        }
        match event.body {
            Body::TurnStarted(_) => later_steps = false,
            Body::TextWritten(_) | Body::ToolCalled(_) => later_steps = true,
            _ => {}
        }
    }
    Err(RewindError::NoStep { step: step.to_owned() })
}

/// Thinks the way back through.
pub fn plan_undo(session: &Session, keeper: &Keeper) -> Result<Plan, RewindError> {
    let state = session.state();
    let before = state.rewind.last.as_ref().ok_or(RewindError::NothingToUndo)?;
    let files = before.safety.as_deref().map(|safety| resolve(keeper, safety)).transpose()?;
    let path = before.conversation.then(|| before.path.clone());
    let safety = reference(session, &format!("before-{}", state.seq));
    let started = RewindStarted {
        to_turn: before.to_turn,
        files,
        path,
        safety,
        cuts: Vec::new(),
        undo: true,
    };
    with_changes(keeper, started, Vec::new())
}

/// How the session stood before its last rewind, where it was done: that is how it stands again
/// when the rewind is taken back. Whatever else it was in the middle of, the rewind has ended.
pub fn completed_before(session: &Session) -> Result<Option<SessionStopped>, RewindError> {
    let mut events = session.newest_first()?;
    events.find(|event| matches!(event.body, Body::RewindStarted(_)));
    let stop = events.find_map(|event| match event.body {
        Body::SessionStopped(stop) => Some(Some(stop)),
        Body::SessionStarted(_) | Body::TurnStarted(_) => Some(None),
        _ => None,
    });
    let stands = |stop: &SessionStopped| matches!(stop.reason, Reason::Done | Reason::Rewound);
    Ok(stop.flatten().filter(stands))
}

fn with_changes(
    keeper: &Keeper,
    started: RewindStarted,
    conversations: Vec<String>,
) -> Result<Plan, RewindError> {
    let files = match (&started.files, keeper.snapshots()) {
        (Some(commit), Ok(snapshots)) => snapshots
            .plan(commit)
            .map_err(|error| RewindError::NoFiles { why: error.to_string() })?,
        _ => FilePlan::default(),
    };
    Ok(Plan { started, files, conversations })
}

/// The checkpoint of a turn: what the journal says that it is, since the ref may be another's who
/// has a copy of this session.
pub(crate) fn files_of(
    session: &Session,
    keeper: &Keeper,
    turn: u32,
) -> Result<String, RewindError> {
    let no = |why: String| RewindError::NoFiles { why };
    let found = kept_after(session, turn)?;
    let commit = found.ok_or_else(|| no(format!("turn {turn} has no checkpoint")))?;
    let snapshots = keeper.snapshots().map_err(|why| no(why.to_owned()))?;
    match snapshots.exists(&commit) {
        Ok(true) => Ok(commit),
        Ok(false) => Err(no(format!("the checkpoint {commit} is not in this repository"))),
        Err(error) => Err(no(error.to_string())),
    }
}

/// What was kept after a turn. A session that begins with a part of another one has its own start:
/// what it had in hand after the last turn of that part. Where nobody has worked in it, that is what
/// the other one kept then, if the part has all of that turn.
fn kept_after(session: &Session, turn: u32) -> Result<Option<String>, RewindError> {
    let shared = session.state().base().map_or(0, |base| base.turn);
    if turn < shared {
        return session.base()?.map_or(Ok(None), |base| kept_after(&base, turn));
    }
    let first = session.state().first_checkpoint.as_ref().filter(|_| turn == shared);
    if let Some(first) = first.and_then(|first| first.commit.clone()) {
        return Ok(Some(first));
    }
    if turn == 0 {
        return Ok(None);
    }
    let part = session.state().base().filter(|_| turn == shared);
    let Some((part, base)) = part.zip(session.base()?) else {
        return kept_in(session, turn, u64::MAX);
    };
    // Nothing but a hand-off, say, is told there since then.
    match base.state().base().is_some_and(|before| before.turn >= turn) {
        true => kept_after(&base, turn),
        false => kept_in(&base, turn, part.seq),
    }
}

/// What was kept at the end of a turn, where none of its steps comes after this event.
fn kept_in(session: &Session, turn: u32, last: u64) -> Result<Option<String>, RewindError> {
    let (mut found, mut more) = (None, false);
    session.turn(turn, |event| {
        more |= event.seq > last && Steps::is_part(&event.body);
        if let Body::CheckpointTaken(taken) = &event.body
            && matches!(taken.mark, Mark::TurnEnd | Mark::Stop)
        {
            found = Some(taken.commit.clone());
        }
        Ok(())
    })?;
    Ok(found.filter(|_| !more))
}

fn resolve(keeper: &Keeper, reference: &str) -> Result<String, RewindError> {
    let no = |why: String| RewindError::NoFiles { why };
    let snapshots = keeper.snapshots().map_err(|why| no(why.to_owned()))?;
    let found = snapshots.resolve(reference).map_err(|error| no(error.to_string()))?;
    found.ok_or_else(|| no(format!("{reference} is not in this repository")))
}

/// Where in each vendor's own conversation the turn ended, for those that can go back by themselves.
fn cuts(session: &Session, to_turn: u32) -> Result<(Vec<Cut>, Vec<String>), RewindError> {
    let state = session.state();
    let mut cuts = Vec::new();
    let mut words = Vec::new();
    for known in state.vendors.iter().filter(|known| known.turn > to_turn) {
        let can = vendor::find(&known.agent).is_some_and(|vendor| vendor.card().can.rewind);
        let cut = if can { last_mark(session, state, &known.agent, to_turn)? } else { None };
        words.push(match &cut {
            Some(_) => format!("{}: a copy of its own conversation, cut there", known.agent),
            None => format!("{}: a new conversation, with a packet of what was done", known.agent),
        });
        cuts.extend(cut);
    }
    Ok((cuts, words))
}

/// The end of the agent's last turn up to `to_turn`, in the vendor's words.
pub(crate) fn last_mark(
    session: &Session,
    state: &State,
    agent: &str,
    to_turn: u32,
) -> Result<Option<Cut>, RewindError> {
    let turns = (1..=to_turn).rev().filter(|turn| state.on_path(*turn));
    for turn in turns.take(MOST_LOOKED_AT) {
        let (mut vendor_session, mut at, mut ours) = (None, None, false);
        session.turn(turn, |event| {
            ours |= event.agent.as_deref() == Some(agent);
            match &event.body {
                Body::AgentStarted(started) => vendor_session = started.vendor_session.clone(),
                Body::AgentIntroduced(told) => {
                    vendor_session = told.vendor_session.clone().or(vendor_session.take());
                }
                Body::TurnEnded(ended) => at = ended.mark.clone(),
                _ => {}
            }
            Ok(())
        })?;
        if ours {
            return Ok(at.zip(vendor_session).map(|(at, vendor_session)| Cut {
                agent: agent.to_owned(),
                vendor_session,
                at: Some(at),
            }));
        }
    }
    Ok(None)
}

/// How many turns back an agent's own last one is looked for.
const MOST_LOOKED_AT: usize = 200;

/// Does what was planned.
pub fn rewind(
    supervisor: &mut Supervisor<'_>,
    keeper: &Keeper,
    started: RewindStarted,
) -> Result<(), Halt> {
    // Where only the files go back, what was under way goes on with them.
    if supervisor.state().turn.open && started.path.is_some() {
        agent::let_go(supervisor)?;
        supervisor.end_turn(Outcome::Superseded)?;
    }
    supervisor.commit(started)?;
    complete(supervisor, keeper)
}

/// How many files a restore changes.
#[must_use]
pub fn count(plan: &FilePlan) -> u64 {
    let lists = [&plan.added, &plan.modified, &plan.deleted, &plan.modes];
    lists.iter().map(|list| list.len() as u64).sum()
}

/// Brings a rewind that has begun to its end.
pub fn complete(supervisor: &mut Supervisor<'_>, keeper: &Keeper) -> Result<(), Halt> {
    let Some(under_way) = supervisor.state().rewind.under_way.clone() else { return Ok(()) };
    let failed = |why: String| Halt::from(stop(Reason::Failed, format!("the rewind: {why}")));
    let mut files = 0;
    let mut kept = None;
    if let Some(target) = &under_way.files {
        let snapshots = keeper.snapshots().map_err(|why| failed(why.to_owned()))?;
        let restored = snapshots
            .restore(target, &under_way.safety)
            .map_err(|error| failed(error.to_string()))?;
        files = count(&restored.done);
        if restored.safety_ref != under_way.safety {
            let kept = &restored.safety_ref;
            supervisor.warn(format!(
                "the rewind was broken off before: what was there now is in {kept}"
            ))?;
        }
        kept = Some(snapshots);
    }
    let begins = !supervisor.state().has_begun();
    supervisor.commit(RewindFinished { to_turn: under_way.to_turn, files, begins })?;
    // What the next turn changes is told from here.
    if let Some(snapshots) = kept {
        let session = supervisor.session().session();
        let reference = reference(session, &format!("rewound-{}", session.state().seq));
        if let Ok(taken) = snapshots.take(&reference, "Segue: after a rewind") {
            supervisor.note(CheckpointTaken {
                mark: Mark::Rewound,
                commit: taken.commit,
                reference,
                head: taken.head,
                branch: taken.branch,
                changed: Vec::new(),
                changed_total: 0,
                left_out: Vec::new(),
            })?;
        }
    }
    Ok(())
}
