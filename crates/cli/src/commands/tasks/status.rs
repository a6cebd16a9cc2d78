//! `segue tasks status`: where a list stands.

use std::path::Path;

use segue_core::{Exit, status::Status};
use segue_loops::tasks::branch::Differences;
use segue_view::{
    select::Found,
    style::{self, Paint},
    tasks,
};
use serde_json::json;

use super::sessions;
use crate::{
    context::{Context, print},
    error::{CommandError, CommandResult},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session, or the directory of a list [default: the latest list of this repository]
    session: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = find(context, args.session.as_deref())?;
    let session = sessions::open(context, &found)?;
    // A look fails for nothing that git says.
    let differs = Differences::of(&session).unwrap_or_default();
    let mut state = session.state().clone();
    differs.settle(&mut state);
    let state = &state;
    let alive = session.held_by()?.is_some();
    let status = Status::of(state, alive);
    let selector = found.selector();
    let Some(list) = &state.tasks else { return Err(no_list(&selector)) };
    let last = state.stop.as_ref().map(tasks::last_stop);
    let next = match differs.missing.is_empty() || alive {
        true => segue_view::show::advice(status, state, &selector),
        false => format!("segue resume {selector}"),
    };
    if context.json {
        context.print_json(&json!({
            "session": selector, "status": status.to_string(), "source": list.source,
            "branch": state.worktree.as_ref().map(|tree| &tree.plan.branch),
            "worktree": state.worktree.as_ref().map(|tree| &tree.plan.path),
            "last_stop": last, "done": list.done(), "tasks": tasks::rows(state),
            "removed": tasks::removed(state),
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
        if let Some(text) = off_branch(&differs, &tree.plan.branch) {
            print(&look.paint(Paint::Yellow, &text));
        }
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
    let here = context.repo()?;
    for one in sessions::all(context)? {
        let fits = match source {
            Some(source) => one.is_of(source, &here.id),
            // A remote that was added gives a repository another name, and leaves it in its place.
            None => {
                let tree = one.state.worktree.as_ref().map(|tree| &tree.plan);
                one.row.at.repo == here.id
                    || tree.is_some_and(|plan| plan.repo == here.root || plan.path == here.root)
            }
        };
        if fits {
            return context.find(Some(&one.row.selector()));
        }
    }
    let error = CommandError::new(Exit::NoSuchSession, "there is no session over a list of tasks");
    Err(error.hint("start one: segue tasks run DIR").hint("write a list: segue tasks new DIR"))
}

/// What is to be said of tasks that are recorded as done, and whose commits are not on the branch.
pub(super) fn off_branch(found: &Differences, branch: &str) -> Option<String> {
    let short = |commit: &str| commit.get(..7).unwrap_or(commit).to_owned();
    let named: Vec<String> = found
        .missing
        .iter()
        .map(|(task, commit)| format!("{} ({})", style::sanitize(task), short(commit)))
        .collect();
    let branch = style::sanitize(branch);
    (!named.is_empty()).then(|| format!("done, and no longer on {branch}: {}", named.join(", ")))
}

pub(crate) fn no_list(selector: &str) -> CommandError {
    CommandError::usage(format!("session {selector} works on no list of tasks"))
        .hint(format!("segue show {selector}"))
}
