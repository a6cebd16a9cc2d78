//! What a resume is about to do, said before it does it.
//!
//! A pure look at the state: the same lines are printed for the person and recorded as part of
//! `session.resumed`.

use std::path::Path;

use jiff::Timestamp;
use segue_core::{
    State,
    caps::{Cap, Caps},
    decide::{self, Next, Step},
    event::Cause,
    state::{Phase, Progress, Proof, TaskStep, Tasks},
    status::Status,
};
use segue_journal::Session;
use serde::Serialize;

use crate::{
    style::{self, sanitize, shorten},
    tasks,
};

/// How the session is to go on.
#[derive(Clone, Copy, Debug)]
pub struct Going<'a> {
    pub selector: &'a str,
    pub prompt: Option<&'a str>,
    pub model: Option<&'a str>,
    pub workspace: Option<&'a Path>,
    /// What the agent may do, in its vendor's terms.
    pub permission: Option<&'a str>,
    /// In a new conversation of the vendor's.
    pub fresh: bool,
    /// Somebody else goes on.
    pub with: Option<&'a str>,
    /// Somebody takes the place of a reviewer that is at its limit.
    pub relieved: bool,
    /// It goes back to an earlier turn first.
    pub rewinds: bool,
    /// How the workspace stands.
    pub workspace_note: &'a str,
    /// The list of tasks as it will be, where there is one.
    pub tasks: Option<&'a Tasks>,
    /// More lines, each with its label.
    pub notes: &'a [(&'static str, String)],
    pub caps: Caps,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub lines: Vec<String>,
    /// What was certainly done before a crash, what certainly not, and what nobody knows.
    pub done: Vec<String>,
    pub not_done: Vec<String>,
    pub unknown: Vec<String>,
}

/// The plan for going on with `session`.
#[must_use]
pub fn resume(session: &Session, going: &Going<'_>) -> Plan {
    let state = session.state();
    let certain = decide::certainty(state);
    let mut lines = match going.tasks {
        Some(tasks) => {
            vec![
                tasks::plan(state, tasks),
                format!("  {:<9} {}", "session", headline(state, going)),
            ]
        }
        None => vec![format!("↻ resume {}", headline(state, going))],
    };
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<9} {text}"));
    let begins = begins_a_task(state, going);
    if crashed(state) && !begins {
        if !certain.done.is_empty() {
            line("done", certain.done.join(", "));
        }
        if !certain.not_done.is_empty() {
            line("not done", certain.not_done.join(", "));
        }
        if state.proof == Proof::Started && !state.turn.open {
            line(
                "unknown",
                "the proof: it may have run; it only judges, and is run again".to_owned(),
            );
        } else if !certain.unknown.is_empty() {
            line(
                "unknown",
                format!(
                    "{}: may have run, and is not run again unasked",
                    certain.unknown.join(", ")
                ),
            );
        }
        if certain.call_lost {
            line(
                "lost",
                "the answer to a model call that was under way: it is asked again".to_owned(),
            );
        }
    }
    let resets_at = state.stop.as_ref().and_then(|stop| stop.resets_at);
    if let Some(at) = resets_at.filter(|at| *at > going.now && is_held_up(state, going)) {
        let when = style::relative(at, going.now);
        line("limit", format!("resets {when}; --wait goes on then"));
    }
    for (label, text) in going.notes {
        line(label, text.clone());
    }
    line("continue", continuation(state, going));
    if let Some(path) = going.workspace.or_else(|| state.workspace()) {
        let note = match going.workspace_note {
            "" if path.is_dir() => String::new(),
            "" => " (is not there: name its new place with --dir)".to_owned(),
            note => format!(", {note}"),
        };
        let path = sanitize(&path.display().to_string()).into_owned();
        // Nobody has worked there yet: in what it was made from, nothing is touched.
        let own = state.identity.as_ref().is_some_and(|identity| identity.worktree);
        let place = match own && state.worktree.is_none() {
            true => format!("a worktree of its own, made of {path}"),
            false => path,
        };
        line("workspace", format!("{place}{note}"));
    }
    if let Some(permission) = going.permission {
        line("may", permission.to_owned());
    }
    line("spend", spend(state, &going.caps));
    if let Some(cap) = reached(state, going) {
        let what = cap.to_string().replace('_', " ");
        line("cap", format!("on {what}, reached already: raise it with {}", cap.flag()));
    }
    Plan { lines, done: certain.done, not_done: certain.not_done, unknown: certain.unknown }
}

/// Whether the one whose limit it was is needed to go on.
fn is_held_up(state: &State, going: &Going<'_>) -> bool {
    // A reviewer's limit stays a reviewer's, whoever works.
    if state.stop.as_ref().is_some_and(|stop| stop.agent.is_some()) {
        return !going.relieved;
    }
    let goes_on = going.with.unwrap_or(state.agent());
    state.stopped_agent.as_deref() == Some(goes_on) && going.model.is_none()
}

fn crashed(state: &State) -> bool {
    state.phase == Phase::Running
}

fn headline(state: &State, going: &Going<'_>) -> String {
    let prompt = state.identity.as_ref().map_or("", |identity| identity.prompt.head());
    let title = state.name.as_deref().unwrap_or(prompt);
    let title = sanitize(title);
    let title = shorten(&title, 50);
    let agent = state.agent();
    let ago = state
        .updated_at
        .map(|at| style::relative(at, going.now))
        .map(|ago| if ago == "now" { "just now".to_owned() } else { ago })
        .unwrap_or_default();
    let sign = if going.selector.parse::<u64>().is_ok() { "#" } else { "" };
    let how = match &state.stop {
        _ if crashed(state) => Status::of(state, false).to_string(),
        Some(stop) => format!("stopped: {}", sanitize(stop.message.trim_end_matches('.'))),
        None => "never started".to_owned(),
    };
    let kind = match (&state.tasks, state.terms()) {
        _ if state.crew.is_some() => "crew",
        (Some(_), _) => "tasks",
        (None, Some(_)) => "pair",
        (None, None) => "solo",
    };
    format!("{sign}{} \"{title}\" · {kind} · {agent} · {how}, {ago}", going.selector)
}

fn continuation(state: &State, going: &Going<'_>) -> String {
    let number = state.turn.number;
    let before = if going.with.is_some() { None } else { state.model() };
    let model = going.model.or(before).unwrap_or("?");
    if let (Some(agent), None, true) = (going.with, going.prompt, state.turn.open) {
        let with = vendor_line(state, going).unwrap_or_else(|| agent.to_owned());
        return format!("turn {}, with what turn {number} had not finished ({with})", number + 1);
    }
    if let Some(prompt) = going.prompt {
        let prompt = sanitize(prompt);
        let with = vendor_line(state, going).unwrap_or_else(|| model.to_owned());
        return format!("turn {} with a new prompt: {} ({with})", number + 1, shorten(&prompt, 50));
    }
    let waits = going.rewinds && going.prompt.is_none();
    if begins_a_task(state, going) {
        return next_task(going);
    }
    let what = match decide::next(state) {
        _ if waits => "nothing: it waits for what to do instead".to_owned(),
        _ if going.with.is_some() && !state.turn.open && state.turn.number > 0 => {
            format!("turn {}, taken over", number + 1)
        }
        Next::StartTask | Next::FirstTurn if going.tasks.is_some() => next_task(going),
        Next::StartTask | Next::FirstTurn => "turn 1 from its start".to_owned(),
        Next::NoCase => format!("turn {number}: the worker has made no case", number = number + 1),
        Next::ProofTurn => format!("turn {}, with what the failed proof printed", number + 1),
        Next::GoOn => format!("turn {}, after a reply that was cut off", number + 1),
        Next::LetGo | Next::TakeOver => format!("turn {}, taken over", number + 1),
        Next::Ask => "nothing: it was rewound, and waits for a prompt".to_owned(),
        Next::GiveUp => "nothing: the model refused; give it another prompt".to_owned(),
        Next::SettleProof | Next::Prove => format!("the proof after turn {number}"),
        Next::UnfinishedTurn => format!("turn {}: it has not said that it is done", number + 1),
        Next::StartReview => format!("the review of turn {number}"),
        Next::Review => reviewing(state),
        Next::ReviewTurn => format!("turn {}, with what the reviewers said", number + 1),
        Next::Idle => "nothing: no file has changed; say more about it".to_owned(),
        Next::MessageTurn => format!("turn {}, with what was said to it meanwhile", number + 1),
        Next::Commit => "the commit of what has passed".to_owned(),
        Next::Finish => "nothing is left but to say that it is done".to_owned(),
        Next::Turn if state.turn.spawns > 0 => format!("turn {number}, where it was broken off"),
        Next::Turn => match decide::step(state) {
            Step::SettleTool(_) | Step::RunTool(_) => {
                let open = state.turn.tools.iter().filter(|c| c.progress != Progress::Returned);
                let names: Vec<&str> = open.map(|call| call.name.as_str()).collect();
                format!("turn {number}, at its tool calls: {}", names.join(", "))
            }
            Step::CallModel => {
                format!("turn {number}, with model call {}", state.turn.calls + 1)
            }
            Step::EndTurn(_) => format!("the end of turn {number}"),
        },
    };
    let what = match state.terms() {
        Some(_) if decide::next(state) == Next::StartTask => what,
        Some(_) => format!("{}, {what}", iteration(state, going)),
        None => what,
    };
    if matches!(decide::next(state), Next::StartReview | Next::Review | Next::Commit)
        && going.with.is_none()
    {
        return what;
    }
    match vendor_line(state, going) {
        Some(vendor) => format!("{what} ({vendor})"),
        None => format!("{what} ({model})"),
    }
}

/// Which attempt it is at, as it will be counted.
fn iteration(state: &State, going: &Going<'_>) -> String {
    let turn_ahead = matches!(
        decide::next(state),
        Next::FirstTurn
            | Next::ProofTurn
            | Next::UnfinishedTurn
            | Next::ReviewTurn
            | Next::MessageTurn
    );
    let now = match turn_ahead {
        _ if going.prompt.is_some() => 1,
        true => state.review.attempt() + 1,
        false => state.review.attempt().max(1),
    };
    match going.caps.iterations {
        Some(most) => format!("iteration {now} of {most}"),
        None => format!("iteration {now}"),
    }
}

/// Whether another task is taken in hand first of all, or the same one again: whatever was under way
/// is then left behind.
fn begins_a_task(state: &State, going: &Going<'_>) -> bool {
    let step = going.tasks.map(|tasks| tasks.step(state.turn.number));
    matches!(step, Some(TaskStep::Start | TaskStep::AllDone))
}

/// The task that is taken in hand first.
fn next_task(going: &Going<'_>) -> String {
    match going.tasks.and_then(Tasks::upcoming) {
        Some(next) => format!("{} {}", sanitize(&next.id), shorten(&sanitize(&next.title), 50)),
        None => "nothing is left to do".to_owned(),
    }
}

/// Who is still to speak, and who has spoken.
fn reviewing(state: &State) -> String {
    let (Some(terms), Some(round)) = (state.terms(), state.round()) else {
        return "the review".to_owned();
    };
    let missing: Vec<&str> = round.missing(terms).iter().map(|seat| seat.name.as_str()).collect();
    let mut text = format!("the review by {}", missing.join(", "));
    for (name, verdict) in &round.verdicts {
        text.push_str(&format!("; {name} has said {verdict:?}").to_lowercase());
    }
    text
}

/// Which of the vendor's sessions goes on; nothing for the native agent.
fn vendor_line(state: &State, going: &Going<'_>) -> Option<String> {
    let agent = going.with.unwrap_or(state.agent());
    if agent == "native" {
        return going.with.map(|_| "native, told what was done".to_owned());
    }
    let id = state.vendor(agent).and_then(|vendor| vendor.id.as_deref());
    let new = id.is_none() && going.with.is_some();
    Some(match id {
        _ if going.fresh || new => {
            format!("{agent}, a new conversation with a packet of what was done")
        }
        Some(id) => format!("{agent} {}", sanitize(id)),
        None => agent.to_owned(),
    })
}

/// The cap that would stop it at once.
fn reached(state: &State, going: &Going<'_>) -> Option<Cap> {
    // As it will be then: the wall clock starts again.
    let state = &State { running_since: None, ..state.clone() };
    let turn = || going.caps.against_turn(state, going.now);
    let attempt = || going.caps.against(Cause::Review, state, going.now);
    match decide::next(state) {
        _ if going.prompt.is_some() => turn(),
        Next::FirstTurn | Next::StartTask => turn(),
        Next::ProofTurn | Next::ReviewTurn | Next::MessageTurn | Next::UnfinishedTurn => attempt(),
        Next::GoOn => turn(),
        Next::Turn if decide::step(state) == Step::CallModel => {
            going.caps.against_call(state, going.now)
        }
        _ => None,
    }
}

fn spend(state: &State, caps: &Caps) -> String {
    let mut text = format!("{} tokens so far", style::tokens(state.usage.total()));
    if let Some(cap) = caps.tokens {
        text.push_str(&format!(", cap {}", style::tokens(cap)));
    }
    let money = style::money(state.cost, state.unpriced_calls);
    if money != style::NO_PRICE {
        text.push_str(&format!("; {money}"));
    }
    if let Some(cap) = caps.cost_micros {
        text.push_str(&format!(", cap {}", style::money(cap, 0)));
    }
    if let Some(cap) = caps.turns {
        text.push_str(&format!("; turn {} of at most {cap}", state.turn.number));
    }
    text.push_str("; wall clock starts again");
    text
}
