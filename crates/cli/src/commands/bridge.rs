//! `segue bridge`: what the participants of a pair say to each other.

use std::io::Read;

use segue_core::{
    Body, Event, Exit, State,
    bridge::{PERSON, short},
    decide,
    event::Reason,
    identity::LoopKind,
    review::render,
    state::Phase,
};
use segue_journal::Session;
use segue_loops::bridge;
use segue_view::{
    Filter,
    style::{self, Paint, sanitize},
};
use serde_json::{Value, json};

use crate::{
    commands::go_on::check_whole,
    context::{Context, print, say, view_error},
    error::{CommandError, CommandResult},
};

/// What the participants of a pair say to each other
///
/// Without a SESSION, all pairs of this repository with where they stand. With one, its messages and
/// verdicts. With `send`, a message to one of the participants: it is delivered once, at the latest
/// with the recipient's next prompt.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue bridge                      all pairs of this repository
  segue bridge 7                    counts, verdicts and messages of one
  segue bridge 7 send codex \"Keep the old API\"
  git diff | segue bridge 7 send all -")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// Of every repository, not only this one
    #[arg(long, short)]
    all: bool,
    /// The same as SESSION
    #[arg(long, value_name = "N", conflicts_with = "session")]
    run_id: Option<String>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Say something to a participant, by name, or to worker, reviewers or all
    Send {
        /// Whom
        to: String,
        /// What; `-` reads it from standard input
        message: String,
    },
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let Some(selector) = args.session.or(args.run_id) else {
        return match args.action {
            None => list(context, args.all),
            Some(_) => Err(CommandError::usage("which session is meant?")
                .hint("segue bridge 7 send codex \"…\"")),
        };
    };
    let found = context.find(Some(&selector))?;
    let session = found.open(&context.home)?;
    check_whole(&session)?;
    match args.action {
        None => show(context, &session, &found.selector()),
        Some(Action::Send { to, message }) => {
            send(context, &session, &found.selector(), &to, message)
        }
    }
}

fn list(context: &Context, all: bool) -> CommandResult {
    let repo = if all { None } else { Some(context.repo()?.id) };
    let filter = Filter { repo, ..Filter::default() };
    let listing = context.index()?.query(&filter).map_err(view_error)?;
    let mut rows = Vec::new();
    for row in listing
        .rows
        .iter()
        .filter(|row| matches!(row.loop_kind, LoopKind::Pair | LoopKind::Tasks | LoopKind::Crew))
    {
        let Ok(session) = context.home.open(&row.at) else { continue };
        let selector = row.number.map_or_else(|| row.at.id.to_string(), |n| n.to_string());
        rows.push((selector, row.status(), session));
    }
    if context.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(selector, status, session)| {
                let mut counts = counts(session);
                counts["session"] = json!(selector);
                counts["status"] = json!(segue_view::json::status_word(*status));
                counts
            })
            .collect();
        context.print_json(&rows)?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        say("there is no pair here yet: segue pair \"…\" starts one");
        return Ok(Exit::Done);
    }
    let look = context.out();
    for (selector, status, session) in rows {
        let state = session.state();
        let number = look.paint(Paint::Bold, &format!("#{selector}"));
        let text = format!(
            "{status} · iteration {} · messages {} · done {} · pass {} · fail {}",
            state.review.iteration,
            state.bridge.total(),
            is_done(state),
            state.review.passes,
            state.review.fails,
        );
        let prompt = state.identity.as_ref().map_or("", |found| found.prompt.head());
        let line = format!("{number}  {text} · {}", sanitize(prompt.lines().next().unwrap_or("")));
        print(&style::shorten(&line, look.width));
    }
    Ok(Exit::Done)
}

/// Whether the worker has said the word for "done"; where there is none, whether it is done.
fn is_done(state: &State) -> bool {
    match state.terms() {
        Some(terms) if terms.done.is_some() => {
            state.review.done_in == state.last_turn() && state.review.done_in > 0
        }
        _ => state.stop.as_ref().is_some_and(|stop| stop.reason == Reason::Done),
    }
}

/// The counts, with those messages that nobody has recorded yet.
fn counts(session: &Session) -> Value {
    let state = session.state();
    let fresh = bridge::unrecorded(session).map_or(0, |list| list.len());
    json!({
        "iteration": state.review.iteration,
        "max_iterations": state.caps.iterations,
        "messages": state.bridge.total() + fresh as u64,
        "not_delivered": state.bridge.waiting.len() + fresh,
        "done_signal": is_done(state),
        "passes": state.review.passes,
        "fails": state.review.fails,
        "participants": bridge::participants(state),
        "by_agent": state.bridge.sent.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    })
}

fn show(context: &Context, session: &Session, selector: &str) -> CommandResult {
    let state = session.state();
    let mut talk = Vec::new();
    session.for_each(|event| {
        let talks = matches!(
            event.body,
            Body::MessageSent(_) | Body::ReviewStarted(_) | Body::VerdictGiven(_)
        );
        if talks || !delivered_by(&event).is_empty() {
            talk.push(event);
        }
    })?;
    if context.json {
        let mut all = counts(session);
        all["session"] = json!(selector);
        all["messages_list"] = messages(session, &talk)?;
        all["verdicts"] = verdicts(&talk);
        context.print_json(&all)?;
        return Ok(Exit::Done);
    }
    print(&format!("Session {selector}, the bridge:"));
    let (iteration, most) = (state.review.iteration, state.caps.iterations);
    let most = most.map(|most| format!(" of {most}")).unwrap_or_default();
    print(&format!("  Iteration:      {iteration}{most}"));
    let fresh = bridge::unrecorded(session)?;
    let waiting = state.bridge.waiting.len() + fresh.len();
    let waiting = if waiting == 0 { String::new() } else { format!(" ({waiting} not delivered)") };
    let total = state.bridge.total() + fresh.len() as u64;
    print(&format!("  Total Messages: {total}{waiting}"));
    print(&format!("  Done Signal:    {}", is_done(state)));
    print(&format!("  Pass Count:     {}", state.review.passes));
    print(&format!("  Fail Count:     {}", state.review.fails));
    for (name, count) in &state.bridge.sent {
        print(&format!("  From {}: {count}", sanitize(name)));
    }
    let look = context.out();
    for event in &talk {
        if delivered_by(event).is_empty()
            && let Some(line) =
                segue_view::render::event_line(event, &look, segue_view::render::Detail::Short)
        {
            print(&line);
        }
    }
    for (to, letter) in fresh {
        print(&sanitize(&format!("✉ {} → {to} · not delivered yet", letter.from)));
        for line in style::wrap(&letter.text, look.width.saturating_sub(2)) {
            print(&format!("  {}", sanitize(&line)));
        }
    }
    Ok(Exit::Done)
}

/// The messages that reach their recipients with this event.
fn delivered_by(event: &Event) -> &[String] {
    match &event.body {
        Body::MessageDelivered(delivered) => &delivered.messages,
        // The worker's, as part of its prompt.
        Body::TurnStarted(started) => &started.messages,
        _ => &[],
    }
}

fn messages(session: &Session, talk: &[Event]) -> Result<Value, CommandError> {
    let reached = |id: &str| {
        let reached = |event: &&Event| delivered_by(event).iter().any(|one| one == id);
        talk.iter().find(reached).map(|event| event.at)
    };
    let waiting = &session.state().bridge.waiting;
    let mut list = Vec::new();
    for event in talk {
        let Body::MessageSent(sent) = &event.body else { continue };
        let id = event.id.as_deref().unwrap_or_default();
        list.push(json!({
            "id": id,
            "short": short(id),
            "from": sent.from,
            "to": sent.to,
            "text": session.text(&sent.text)?,
            "sent_at": event.at,
            "delivered": !waiting.iter().any(|one| one.id == id),
            "delivered_at": reached(id),
        }));
    }
    for (to, letter) in bridge::unrecorded(session)? {
        list.push(json!({
            "id": letter.id,
            "short": short(&letter.id),
            "from": letter.from,
            "to": to,
            "text": letter.text,
            "delivered": false,
        }));
    }
    Ok(Value::Array(list))
}

fn verdicts(talk: &[Event]) -> Value {
    let given = talk.iter().filter_map(|event| match &event.body {
        Body::VerdictGiven(given) => Some(json!({
            "iteration": given.iteration,
            "reviewer": given.reviewer,
            "agent": given.agent,
            "verdict": given.said.verdict,
            "concerns": given.said.concerns,
            "set_aside": given.set_aside,
            "line": render::line(&given.said),
            "at": event.at,
        })),
        _ => None,
    });
    given.collect()
}

fn send(
    context: &Context,
    session: &Session,
    selector: &str,
    to: &str,
    message: String,
) -> CommandResult {
    let message = match message.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| CommandError::usage(format!("standard input: {error}")))?;
            text
        }
        _ => message,
    };
    let occasion = u64::try_from(context.now().as_millisecond()).unwrap_or_default();
    let sent =
        bridge::send(session, PERSON, to, &message, occasion).map_err(CommandError::usage)?;
    let working = session.held_by()?.is_some();
    if context.json {
        context.print_json(&json!({ "session": selector, "sent_to": sent, "working": working }))?;
        return Ok(Exit::Done);
    }
    say(&format!("sent to {}", sent.join(", ")));
    // What is said to reviewers waits for a review, and where all is done there is none.
    let reviewers_only = !sent.iter().any(|name| name == session.state().worker());
    let over = session.state().phase == Phase::Stopped && !decide::is_resumable(session.state());
    if !working && over && reviewers_only {
        say("the session is completed: it is delivered with the next review");
        say(&format!("segue resume {selector} \"…\""));
    } else if !working {
        say("nobody works on the session now: it is delivered when it goes on");
        say(&format!("segue resume {selector}"));
    }
    Ok(Exit::Done)
}
