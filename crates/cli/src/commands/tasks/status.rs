//! `segue tasks status`: where a list stands.

use std::path::Path;

use segue_core::{Exit, identity::LoopKind, status::Status};
use segue_view::{
    index::Filter,
    select::Found,
    style::{self, Paint},
    tasks,
};
use serde_json::json;

use crate::{
    context::{Context, print, view_error},
    error::{CommandError, CommandResult},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session, or the directory of a list [default: the latest list of this repository]
    session: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = find(context, args.session.as_deref())?;
    let session = found.open(&context.home)?;
    let state = session.state();
    let alive = session.held_by()?.is_some();
    let status = Status::of(state, alive);
    let selector = found.selector();
    let Some(list) = &state.tasks else { return Err(no_list(&selector)) };
    let last = state.stop.as_ref().map(tasks::last_stop);
    let next = segue_view::show::advice(status, state, &selector);
    if context.json {
        context.print_json(&json!({
            "session": selector, "status": status.to_string(), "source": list.source,
            "branch": state.worktree.as_ref().map(|tree| &tree.plan.branch),
            "worktree": state.worktree.as_ref().map(|tree| &tree.plan.path),
            "last_stop": last, "done": list.done(), "tasks": tasks::rows(state),
            "caps": state.caps, "tokens": state.usage.total(),
            "cost_dollars": state.cost.dollars(), "next": next,
        }))?;
        return Ok(Exit::Done);
    }
    let look = context.out();
    let last = last.map(|last| format!(" · last stop: {last}")).unwrap_or_default();
    let ago = state.updated_at.map(|at| style::relative(at, context.now())).unwrap_or_default();
    let head = format!("session {selector} · {status}{last} · {ago}");
    print(&look.paint(Paint::Bold, &head));
    if let Some(tree) = &state.worktree {
        let text = format!("branch {}", style::sanitize(&tree.plan.branch));
        print(&look.paint(Paint::Dim, &text));
    }
    print(&tasks::table(state, &look));
    print(&look.paint(Paint::Dim, &format!("spent {}", tasks::spend(state, alive, context.now()))));
    print(&look.paint(Paint::Cyan, &next));
    Ok(Exit::Done)
}

/// The session of a list: by its own name, by the list's directory, or the latest one.
pub(crate) fn find(context: &Context, named: Option<&str>) -> Result<Found, CommandError> {
    let is_list = |text: &str| {
        let path = context.cwd.join(text);
        path.join("overview.md").is_file() || path.is_file() || path.join("prd.json").is_file()
    };
    match named {
        Some(text) if !is_list(text) => context.find(Some(text)),
        Some(text) => {
            let path = std::fs::canonicalize(context.cwd.join(text))?;
            latest(context, Some(&path))
        }
        None => latest(context, None),
    }
}

fn latest(context: &Context, source: Option<&Path>) -> Result<Found, CommandError> {
    let mut index = context.index()?;
    let here = context.repo()?;
    let listing = index.query(&Filter::default()).map_err(view_error)?;
    for row in listing.rows.into_iter().filter(|row| row.loop_kind == LoopKind::Tasks) {
        let Ok(session) = context.home.open(&row.at) else { continue };
        let state = session.state();
        let fits = match source {
            Some(source) => state.tasks.as_ref().is_some_and(|list| list.source == source),
            // A remote that was added gives a repository another name, and leaves it in its place.
            None => {
                let tree = state.worktree.as_ref().map(|tree| &tree.plan);
                row.at.repo == here.id
                    || tree.is_some_and(|plan| plan.repo == here.root || plan.path == here.root)
            }
        };
        if fits {
            return context.find(Some(&row.selector()));
        }
    }
    let error = CommandError::new(Exit::NoSuchSession, "there is no session over a list of tasks");
    Err(error.hint("start one: segue tasks run DIR").hint("write a list: segue tasks new DIR"))
}

pub(crate) fn no_list(selector: &str) -> CommandError {
    CommandError::usage(format!("session {selector} works on no list of tasks"))
        .hint(format!("segue show {selector}"))
}
