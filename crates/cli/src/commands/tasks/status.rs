//! `segue tasks status`: where a list stands.

use std::path::Path;

use segue_core::{Exit, State, status::Status};
use segue_journal::Session;
use segue_loops::tasks::branch::Differences;
use segue_view::{
    select::Found,
    show::Show,
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
    let (differs, untold) = differences(&session);
    let mut state = session.state().clone();
    differs.settle(&mut state);
    let state = &state;
    let alive = session.held_by()?.is_some();
    let status = Status::of(state, alive);
    let selector = found.selector();
    let Some(list) = &state.tasks else { return Err(no_list(state, &selector)) };
    let last = state.stop.as_ref().map(tasks::last_stop);
    let next = next(&differs, status, state, &selector);
    let planned = state.worktree.as_ref().map(|tree| &tree.plan.branch);
    let branch = planned.or(Some(&differs.branch).filter(|found| !found.is_empty()));
    if context.json {
        context.print_json(&json!({
            "session": selector, "status": status.to_string(), "source": list.source,
            "branch": branch,
            "branch_gone": differs.gone.is_some(),
            "branch_unknown": untold,
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
    if let Some(branch) = branch {
        print(&look.paint(Paint::Dim, &format!("branch {}", style::sanitize(branch))));
    }
    for text in untold.into_iter().chain(remarks(&differs)) {
        print(&look.paint(Paint::Yellow, &text));
    }
    print(&tasks::table(state, &look));
    print(&look.paint(Paint::Dim, &format!("spent {}", tasks::spend(state, alive, context.now()))));
    print(&look.paint(Paint::Cyan, &next));
    Ok(Exit::Done)
}

/// What the branch says otherwise than the journal. A look fails for nothing that git says: it says that
/// it could not be asked.
fn differences(session: &Session) -> (Differences, Option<String>) {
    match Differences::of(session.id(), session.state()) {
        Ok(differs) => (differs, None),
        Err(error) => {
            let said = error.to_string();
            let said = style::sanitize(said.lines().next().unwrap_or_default()).into_owned();
            let text =
                format!("as the journal has it: what is on the branch can't be read: {said}");
            (Differences::default(), Some(text))
        }
    }
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

/// The command that goes on from here, where the branch is asked too.
fn next(differs: &Differences, status: Status, state: &State, selector: &str) -> String {
    let gone = differs.gone.as_ref().filter(|_| status == Status::Completed);
    let last = state.tasks.as_ref().and_then(|tasks| tasks.last_done());
    match (gone, last, &state.worktree) {
        (None, ..) => segue_view::show::advice(status, state, selector),
        (Some(refs), Some(last), Some(tree)) if refs.is_empty() => {
            format!("git -C {} branch {} {last}", tree.plan.repo.display(), tree.plan.branch)
        }
        (Some(_), ..) => format!("segue log {selector}"),
    }
}

/// What a page of the session shows where its branch says something else than its journal.
pub(crate) fn settle(show: &mut Show, session: &Session) {
    if session.check_whole().is_err() {
        return;
    }
    let (differs, untold) = differences(session);
    differs.settle(&mut show.state);
    let said: Vec<String> = untold.into_iter().chain(remarks(&differs)).collect();
    if !said.is_empty() {
        show.problem.get_or_insert_with(|| said.join("; "));
    }
    if differs.gone.is_some() {
        show.next = Some(next(&differs, show.status(), &show.state, &show.selector));
    }
}

/// What is to be said where the branch is not what the journal knows of it.
fn remarks(differs: &Differences) -> Vec<String> {
    let unproven = named(&differs.unproven)
        .map(|names| format!("a commit says that it is done, and nobody has accepted it: {names}"));
    [gone(differs), off_branch(differs), unproven].into_iter().flatten().collect()
}

/// What is to be said of a branch that is gone.
pub(super) fn gone(differs: &Differences) -> Option<String> {
    let refs = differs.gone.as_ref()?;
    let branch = style::sanitize(&differs.branch);
    Some(match refs.as_slice() {
        [] => format!("done, and the branch {branch} is gone: no other one has its commits"),
        refs => {
            let names: Vec<&str> = refs.iter().take(3).map(String::as_str).collect();
            let names = names.join(", ");
            format!("the branch {branch} is gone; its commits are on {}", style::sanitize(&names))
        }
    })
}

/// What is to be said of tasks that are recorded as done, and whose commits are not on the branch.
pub(super) fn off_branch(differs: &Differences) -> Option<String> {
    let branch = style::sanitize(&differs.branch);
    named(&differs.missing).map(|names| format!("done, and no longer on {branch}: {names}"))
}

/// Tasks with their commits.
pub(super) fn named(tasks: &[(String, String)]) -> Option<String> {
    let short = |commit: &str| commit.get(..7).unwrap_or(commit).to_owned();
    let named: Vec<String> = tasks
        .iter()
        .map(|(task, commit)| format!("{} ({})", style::sanitize(task), short(commit)))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

pub(crate) fn no_list(state: &State, selector: &str) -> CommandError {
    match state.identity.as_ref().and_then(|identity| identity.tasks.as_ref()) {
        Some(path) => CommandError::usage(format!(
            "session {selector} does not know its list any more: it is read again from {}",
            path.display()
        ))
        .hint(format!("segue resume {selector}")),
        None => CommandError::usage(format!("session {selector} works on no list of tasks"))
            .hint(format!("segue show {selector}")),
    }
}
