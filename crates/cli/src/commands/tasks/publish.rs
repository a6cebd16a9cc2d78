//! `segue tasks push` and `segue tasks pr`: what was accepted, for others to see. Nothing is merged.

use std::process::Command;

use segue_core::Exit;
use segue_loops::tasks::branch::Differences;
use segue_view::style;
use segue_workspace::{
    remote::{self, RemoteError},
    worktree,
};
use serde_json::json;

use super::{
    sessions,
    status::{find, gone, named, no_list, off_branch},
};
use crate::{
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// How much is told of what `gh` says when it can't.
const MOST_SAID: usize = 300;

#[derive(Debug, clap::Args)]
pub(crate) struct Push {
    /// A session, or the directory of a list [default: the latest list of this repository]
    session: Option<String>,
    /// Where to
    #[arg(long, value_name = "REMOTE", default_value = "origin")]
    remote: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pr {
    #[command(flatten)]
    push: Push,
    /// The branch to merge into [default: the remote's own]
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Print the address of the page where it can be opened, also where gh is there
    #[arg(long)]
    web: bool,
}

/// What is published.
struct Branch {
    selector: String,
    name: String,
    repo: std::path::PathBuf,
    title: String,
    body: String,
    /// Tasks with the commits that only have what there is of them.
    failed: Vec<(String, String)>,
}

fn branch(context: &Context, args: &Push) -> Result<Branch, CommandError> {
    let found = find(context, args.session.as_deref())?;
    let session = sessions::open(context, &found)?;
    let selector = found.selector();
    let differs = Differences::of(session.id(), session.state())
        .map_err(|error| CommandError::failed(format!("the branch can't be read: {error}")))?;
    let mut state = session.state().clone();
    differs.settle(&mut state);
    let Some(tasks) = &state.tasks else { return Err(no_list(&state, &selector)) };
    let made = state.worktree.as_ref().filter(|tree| tree.made);
    if let Some(gone) = gone(&differs) {
        return Err(CommandError::usage(format!("{gone}; there is nothing to push"))
            .hint(format!("segue tasks status {selector}")));
    }
    let off = off_branch(&differs);
    let Some(tree) = made.filter(|_| tasks.done() > 0) else {
        let why = off.unwrap_or_else(|| "nothing of this list is done yet".to_owned());
        return Err(CommandError::usage(format!("{why}: nothing to push"))
            .hint(format!("segue tasks status {selector}")));
    };
    if let Some(off) = off {
        say(&format!("note: {off}"));
    }
    let title = state.identity.as_ref().map_or("", |found| found.prompt.head()).to_owned();
    let lines = tasks.entries.iter().map(|entry| {
        let sign = if entry.standing == segue_core::state::Standing::Done { "x" } else { " " };
        format!("- [{sign}] {} {}", entry.id, entry.title)
    });
    let body = lines.collect::<Vec<_>>().join("\n");
    Ok(Branch {
        selector,
        name: tree.plan.branch.clone(),
        repo: tree.plan.repo.clone(),
        title,
        body,
        failed: differs.failed,
    })
}

pub(crate) fn push(context: &Context, args: &Push) -> CommandResult {
    let branch = branch(context, args)?;
    let held_back = pushed(&branch, &args.remote)?;
    if context.json {
        let remote = &args.remote;
        let held_back: Vec<&str> = held_back.iter().map(|(task, _)| task.as_str()).collect();
        context.print_json(&json!({
            "branch": branch.name, "remote": remote, "pushed": true, "held_back": held_back,
        }))?;
    } else {
        say(&format!("pushed {} to {}", branch.name, args.remote));
        print(&format!("segue tasks pr {}", branch.selector));
    }
    Ok(Exit::Done)
}

/// Pushes the branch, but for what there is of failed tasks at its end: what others have can't be taken
/// back when the task is tried again. Returns what is not pushed.
fn pushed(branch: &Branch, remote: &str) -> Result<Vec<(String, String)>, CommandError> {
    let wrong = |error: RemoteError| remote_error(&error);
    let failed: Vec<&str> = branch.failed.iter().map(|(_, commit)| commit.as_str()).collect();
    let ending = worktree::ending(&branch.repo, &branch.name, &failed);
    let (ending, before) = ending.map_err(|error| CommandError::failed(error.to_string()))?;
    let Some(before) = before.filter(|_| !ending.is_empty()) else {
        remote::push(&branch.repo, remote, &branch.name).map_err(wrong)?;
        return Ok(Vec::new());
    };
    // Where it was pushed with one of them before, that is where it stays. What keeps the remote from
    // answering is said by the push.
    let there = remote::has(&branch.repo, remote, &branch.name).ok().flatten();
    let there = there.and_then(|there| ending.iter().position(|commit| *commit == there));
    let held_back = ending.get(..there.unwrap_or(ending.len())).unwrap_or_default();
    let to = there.and_then(|at| ending.get(at)).unwrap_or(&before);
    remote::push_up_to(&branch.repo, remote, &branch.name, to).map_err(wrong)?;
    let kept = branch.failed.iter().filter(|(_, commit)| held_back.contains(commit));
    let kept: Vec<(String, String)> = kept.cloned().collect();
    if let Some(names) = named(&kept) {
        say(&format!("note: failed, and not pushed: {names}"));
    }
    Ok(kept)
}

fn remote_error(error: &RemoteError) -> CommandError {
    let told = CommandError::failed(error.to_string());
    match error {
        RemoteError::NoRemote { .. } => told.hint("git remote -v shows where one can push to"),
        _ => told,
    }
}

pub(crate) fn pr(context: &Context, args: &Pr) -> CommandResult {
    let branch = branch(context, &args.push)?;
    let remote = &args.push.remote;
    pushed(&branch, remote)?;
    let base = args.base.clone().or_else(|| remote::default_branch(&branch.repo, remote));
    let base = base.unwrap_or_else(|| "main".to_owned());
    let url = remote::url(&branch.repo, remote).map_err(|error| remote_error(&error))?;
    let mut note = None;
    if let Some(repo) = remote::gh_repo(&url).filter(|_| !args.web) {
        match with_gh(&branch, &repo, &base) {
            Ok(Some(request)) => return said(context, &branch, &request, "opened", None),
            Ok(None) => {}
            Err(why) => note = Some(why),
        }
    }
    match remote::compare_url(&url, &base, &branch.name) {
        Some(url) => said(context, &branch, &url, "to be opened at", note.as_deref()),
        None => {
            let error = CommandError::failed(format!(
                "{} is pushed; where a request is opened on {remote} is not known",
                branch.name
            ));
            let error = note.into_iter().fold(error, CommandError::hint);
            Err(error.hint("open it on the remote's own pages"))
        }
    }
}

fn said(
    context: &Context,
    branch: &Branch,
    url: &str,
    how: &str,
    note: Option<&str>,
) -> CommandResult {
    match context.json {
        true => context
            .print_json(&json!({ "branch": branch.name, "how": how, "url": url, "note": note }))?,
        false => {
            if let Some(note) = note {
                say(&format!("note: {note}"));
            }
            say(&format!("{} is pushed; the request is {how}", branch.name));
            print(url);
        }
    }
    Ok(Exit::Done)
}

/// The open request that `gh` has for the branch, or makes; nothing where there is no `gh`, and what
/// it says where it can't.
fn with_gh(branch: &Branch, repo: &str, base: &str) -> Result<Option<String>, String> {
    let there = [["--state", "open"], ["--json", "url"], ["--jq", ".[].url"]];
    let there = gh(branch, repo, "list", there.as_flattened())?;
    if there.as_ref().is_none_or(|text| !text.is_empty()) {
        return Ok(there.and_then(|text| text.lines().next().map(str::to_owned)));
    }
    let new = [["--base", base], ["--title", &branch.title], ["--body", &branch.body]];
    let made = gh(branch, repo, "create", new.as_flattened())?;
    Ok(made.and_then(|text| text.lines().last().map(str::to_owned)))
}

fn gh(branch: &Branch, repo: &str, what: &str, more: &[&str]) -> Result<Option<String>, String> {
    let mut command = Command::new("gh");
    command.args(["pr", what, "--repo", repo, "--head", &branch.name]).args(more);
    command.current_dir(&branch.repo).env("GH_PROMPT_DISABLED", "1");
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output.map_err(|error| format!("gh can't be started: {error}"))?,
    };
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let words: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = style::sanitize(&words.join(" · ")).into_owned();
    let words = style::shorten(&words, MOST_SAID).into_owned();
    Err(match words.is_empty() {
        true => format!("gh ended with {}", output.status),
        false => format!("gh opened no request: {words}"),
    })
}
