//! `segue tasks push` and `segue tasks pr`: what was accepted, for others to see. Nothing is merged.

use std::process::Command;

use segue_core::Exit;
use segue_workspace::remote::{self, RemoteError};
use serde_json::json;

use super::status::{find, no_list};
use crate::{
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

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
}

fn branch(context: &Context, args: &Push) -> Result<Branch, CommandError> {
    let found = find(context, args.session.as_deref())?;
    let session = found.open(&context.home)?;
    let selector = found.selector();
    let state = session.state();
    let Some(tasks) = &state.tasks else { return Err(no_list(&selector)) };
    let Some(tree) = state.worktree.as_ref().filter(|tree| tree.made && tasks.done() > 0) else {
        return Err(CommandError::usage("nothing of this list is done yet: nothing to push")
            .hint(format!("segue tasks status {selector}")));
    };
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
    })
}

pub(crate) fn push(context: &Context, args: &Push) -> CommandResult {
    let branch = branch(context, args)?;
    pushed(&branch, &args.remote)?;
    if context.json {
        let remote = &args.remote;
        context.print_json(&json!({ "branch": branch.name, "remote": remote, "pushed": true }))?;
    } else {
        say(&format!("pushed {} to {}", branch.name, args.remote));
        print(&format!("segue tasks pr {}", branch.selector));
    }
    Ok(Exit::Done)
}

fn pushed(branch: &Branch, remote: &str) -> Result<(), CommandError> {
    remote::push(&branch.repo, remote, &branch.name).map_err(|error| remote_error(&error))
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
    if !args.web
        && let Some(url) = with_gh(&branch, &base)
    {
        return said(context, &branch, &url, "opened");
    }
    let url = remote::url(&branch.repo, remote).map_err(|error| remote_error(&error))?;
    match remote::compare_url(&url, &base, &branch.name) {
        Some(url) => said(context, &branch, &url, "to be opened at"),
        None => Err(CommandError::failed(format!(
            "{} is pushed; where a request is opened on {remote} is not known",
            branch.name
        ))
        .hint("open it on the remote's own pages")),
    }
}

fn said(context: &Context, branch: &Branch, url: &str, how: &str) -> CommandResult {
    match context.json {
        true => context.print_json(&json!({ "branch": branch.name, "how": how, "url": url }))?,
        false => {
            say(&format!("{} is pushed; the request is {how}", branch.name));
            print(url);
        }
    }
    Ok(Exit::Done)
}

/// The request that `gh` has for the branch, or makes; nothing where it can't.
fn with_gh(branch: &Branch, base: &str) -> Option<String> {
    let gh = |args: &[&str]| {
        let output = Command::new("gh").args(args).current_dir(&branch.repo).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let there = gh(&["pr", "view", &branch.name, "--json", "url", "--jq", ".url"]);
    there.or_else(|| {
        let made = gh(&[
            "pr",
            "create",
            "--head",
            &branch.name,
            "--base",
            base,
            "--title",
            &branch.title,
            "--body",
            &branch.body,
        ])?;
        made.lines().last().map(str::to_owned)
    })
}
