//! `segue import` of a run that another program wrote: a `.tine` file, or OpenTelemetry spans.

use std::path::Path;

use segue_core::Exit;
use segue_share::{
    foreign::{self, Format},
    tine::{Into, Taken},
};
use segue_view::style::Paint;
use serde_json::json;

use crate::{
    commands::{
        export::share_error,
        keys::TrustFlags,
        run::{repo_of, workspace},
    },
    context::{Context, say},
    error::{CommandError, CommandResult},
};

pub(super) fn run(
    context: &Context,
    file: &Path,
    format: Format,
    dir: Option<&Path>,
    trust: &TrustFlags,
) -> CommandResult {
    let dir = workspace(&context.cwd, dir)?;
    let into = Into { repo: repo_of(&dir)?, workspace: dir };
    let demand = trust.demand(context)?;
    let (done, verdict) = foreign::import(file, format, &context.home, into, &demand)
        .map_err(|error| share_error(&error))?;
    let next = match done.sealed {
        true => format!("segue show {}", done.number),
        false => format!("segue resume {}", done.number),
    };
    if context.json {
        context.print_json(&json!({
            "session": done.number.to_string(), "id": done.at.id, "dir": done.dir,
            "was_there": done.was_there, "gone_on": done.gone_on, "sealed": done.sealed,
            "signature": verdict.state.word(), "next": next,
        }))?;
        return Ok(Exit::Done);
    }
    let sign = context.err().paint(Paint::Green, "✓");
    let what = if done.was_there { "was here already" } else { "is here" };
    say(&format!("{sign} session {} {what} · {}", done.number, done.dir.display()));
    say_gone_on(&done);
    if done.sealed {
        say("  it can be looked at, replayed and forked, and not resumed: so the file says");
    }
    say(&next);
    Ok(Exit::Done)
}

/// The session that is meant by a `.tine` file, and whether it was here.
pub(super) fn bring(context: &Context, file: &Path) -> Result<(u64, bool), CommandError> {
    let dir = workspace(&context.cwd, None)?;
    let into = Into { repo: repo_of(&dir)?, workspace: dir };
    let done = foreign::load(file, Format::Tine, &context.home, into)
        .map_err(|error| share_error(&error))?;
    say_gone_on(&done);
    Ok((done.number, done.was_there))
}

/// The file stands for what is in it. Whoever means what it has become names the session.
fn say_gone_on(done: &Taken) {
    if let Some(before) = done.gone_on {
        say(&format!("  session {before}, made of it before, has gone on: segue resume {before}"));
    }
}
