//! A packet that a person has edited: it is honoured as it stands, in a session of its own.

use std::path::PathBuf;

use segue_core::{
    Identity, Packet,
    identity::{How, Lineage},
};
use segue_journal::{Error, Session, home::NewSession};
use segue_loops::{keep::Keeper, rewind};

use crate::{
    commands::{
        go_on::{Request, say_plan},
        place,
        rewind::{rewind_error, rewind_lines},
        run::{Begin, Manner, launch_new},
        worker::{Wishes, hire, known_agent, no_such_agent},
    },
    context::Context,
    error::{CommandError, CommandResult},
};

/// A packet that does not parse, with line and column.
pub(crate) fn broken(error: &Error) -> CommandError {
    match error {
        Error::Json { .. } => CommandError::usage(error.to_string())
            .hint("nothing was changed: mend the file, or remove it to go on from the journal"),
        error => CommandError::failed(error.to_string()),
    }
}

/// Starts the session that the edited packet describes.
pub(crate) fn start(
    context: &Context,
    session: &Session,
    selector: &str,
    mut packet: Packet,
    asked: &Request,
) -> CommandResult {
    let state = session.state();
    let unreadable = || CommandError::failed(format!("session {selector} can't be read"));
    let identity = state.identity.as_ref().ok_or_else(unreadable)?;
    let prompt = asked.prompt.clone().or_else(|| packet.next_task.clone());
    let Some(prompt) = prompt.filter(|prompt| !prompt.trim().is_empty()) else {
        return Err(CommandError::usage("the edited packet has no next_task")
            .hint(format!("say what to do: segue resume {selector} \"…\"")));
    };
    let agent = match &asked.with {
        Some(word) => known_agent(word).ok_or_else(|| no_such_agent(word))?,
        None => state.agent().to_owned(),
    };
    let config = context.config()?;
    let place = place::find(context, session, asked.dir.as_deref())?;
    let keeper = Keeper::new(session, &place.dir, config.checkpoints());
    let back = match packet.turn_count < state.last_turn() {
        true => Some(files_at(session, &keeper, packet.turn_count)?),
        false => None,
    };
    check(&packet, state.last_turn())?;
    if asked.tmux && back.is_some() {
        return Err(CommandError::usage("files have to be brought back first: not with --tmux")
            .hint(format!("segue resume {selector}")));
    }
    let mut lines = vec![format!("↻ resume #{selector} from its edited packet, in a new session")];
    let mut line = |label: &str, text: String| lines.push(format!("  {label:<9} {text}"));
    line("packet", session.dir().join("resume.json").display().to_string());
    for (label, text) in back.as_ref().map(rewind_lines).unwrap_or_default() {
        // What is kept is kept under the new session's name.
        if label != "kept" && label != "talk" {
            line(label, text);
        }
    }
    line("continue", format!("{agent}, told what the packet says: {prompt}"));
    if asked.dry_run || !context.json {
        say_plan(context, &lines);
    }
    if asked.dry_run {
        return Ok(segue_core::Exit::Done);
    }
    let model = asked.model.as_deref().or_else(|| state.model().filter(|_| agent == state.agent()));
    let wishes = Wishes { model, permission: asked.permission, fresh: false };
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let files = back.and_then(|back| back.started.files);
    if let Some(commit) = &files {
        let turn = packet.turn_count;
        packet.cut_to(turn, keeper.touched_until(state, commit));
    }
    let new = new_session(session, identity, packet, files, asked, place.dir);
    let new =
        NewSession { agent, model, prompt, caps: config.caps().overridden_by(asked.caps), ..new };
    let manner = Manner { wait: asked.wait, tmux: asked.tmux, ..Manner::default() };
    // It has been read: the session that it was made from goes on as if it had not been edited.
    let used = format!("resume.json.used-{}", context.now().as_millisecond());
    let packet = (session.dir().join("resume.json"), session.dir().join(used));
    let begin = Begin { packet: Some(packet), list: None };
    launch_new(context, &config, new, worker, manner, begin)
}

/// What can't be meant.
fn check(packet: &Packet, last: u32) -> Result<(), CommandError> {
    if packet.turn_count > last {
        return Err(CommandError::usage(format!("turn_count is beyond the last turn, {last}")));
    }
    if packet.v > segue_core::packet::VERSION {
        return Err(CommandError::failed("the packet was written by a newer Segue"));
    }
    Ok(())
}

/// A session like the one that the packet is of, with all that it says.
fn new_session(
    session: &Session,
    identity: &Identity,
    packet: Packet,
    files: Option<String>,
    asked: &Request,
    workspace: PathBuf,
) -> NewSession {
    let state = session.state();
    let how = if packet.turn_count < state.last_turn() { How::Rewound } else { How::Continued };
    NewSession {
        loop_kind: identity.loop_kind,
        permission: asked.permission.unwrap_or_else(|| state.permission()),
        proof: identity.proof.clone(),
        proof_secs: identity.proof_secs,
        pair: identity.pair.clone(),
        caps: identity.caps,
        lineage: Some(Lineage {
            step: Some(format!("turn {}", packet.turn_count)),
            files,
            ..Lineage::new(session.id(), how)
        }),
        packet: Some(Box::new(packet)),
        fallback: identity.fallback.clone(),
        ..NewSession::new(identity.repo.clone(), workspace, String::new(), String::new())
    }
}

fn files_at(session: &Session, keeper: &Keeper, turn: u32) -> Result<rewind::Plan, CommandError> {
    let scope = rewind::Scope { files: true, conversation: false };
    rewind::plan(session, keeper, turn, scope).map_err(rewind_error)
}
