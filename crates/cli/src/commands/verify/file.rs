//! `segue verify FILE.tine`: digest, ids of steps, graph and signature.

use std::path::Path;

use segue_core::Exit;
use segue_share::foreign::{self, Format};
use segue_view::style;
use serde_json::json;

use super::Args;
use crate::{
    commands::export::share_error,
    context::{Context, print},
    error::{CommandError, CommandResult},
};

pub(super) fn run(context: &Context, file: &Path, args: &Args) -> CommandResult {
    if args.repair {
        return Err(CommandError::usage("a file is not repaired"));
    }
    let format = foreign::sniff(file).map_err(|error| share_error(&error))?;
    if format == Format::Bundle {
        return Err(CommandError::usage(format!("{} is no .tine file", file.display()))
            .hint(format!("a bundle is checked by segue import {}", file.display())));
    }
    let demand = args.trust.demand(context)?;
    let (mut wrong, mut notes) = (Vec::new(), Vec::new());
    let (mut run, mut steps, mut digest) = (None, 0, None);
    let mut signature = None;
    match foreign::open(file, format) {
        Err(error @ segue_share::Error::Io { .. }) => return Err(share_error(&error)),
        Err(error) => wrong.push(error.to_string()),
        Ok(artifact) => {
            for finding in artifact.findings() {
                let to = if finding.is_wrong() { &mut wrong } else { &mut notes };
                to.push(finding.to_string());
            }
            let verdict = artifact.signature(demand.trust.as_ref());
            let said = format!("signature {}: {}", verdict.state.word(), verdict.reason);
            match verdict.is_good() || !args.trust.given() {
                true => notes.push(said),
                false => wrong.push(said),
            }
            signature = Some(verdict.state.word());
            run = Some(artifact.run_id().to_owned());
            steps = artifact.steps().count();
            digest = Some(artifact.digest());
        }
    }
    if context.json {
        context.print_json(&json!({
            "file": file, "ok": wrong.is_empty(), "run": run, "steps": steps, "digest": digest,
            "signature": signature, "problems": wrong, "notes": notes,
        }))?;
        return Ok(if wrong.is_empty() { Exit::Done } else { Exit::Failed });
    }
    let sign = if wrong.is_empty() { "✓" } else { "✗" };
    print(&format!("{sign} {}: {}", file.display(), style::count(steps as u64, "step")));
    for line in wrong.iter().chain(&notes) {
        print(&format!("    {}", style::sanitize(line)));
    }
    match wrong.is_empty() {
        true => Ok(Exit::Done),
        false => Err(CommandError::failed("the file is not what it says it is")),
    }
}
