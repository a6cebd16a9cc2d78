//! `segue list`: the sessions of this repository, or all of them.

use segue_core::Exit;
use segue_view::{Filter, StatusFilter, json::RowJson, table::list_table};

use crate::{
    context::{Context, print, say, view_error},
    error::CommandResult,
};

/// List sessions, the latest first
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  segue list                        of this repository
  segue list --all --status crashed
  segue list --all --limit 0 --json | jq '.[].id'"
)]
pub(crate) struct Args {
    /// Of every repository, not only this one
    #[arg(long, short)]
    all: bool,
    /// Only these: running, crashed, completed, resumable, …
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<StatusFilter>,
    /// At most so many; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let repo = if args.all { None } else { Some(context.repo()?.id) };
    let filter =
        Filter { repo, status: args.status.clone(), limit: (args.limit > 0).then_some(args.limit) };
    let listing = context.index()?.query(&filter).map_err(view_error)?;
    if context.json {
        let rows: Vec<RowJson<'_>> = listing.rows.iter().map(RowJson::from).collect();
        context.print_json(&rows)?;
        return Ok(Exit::Done);
    }
    if listing.rows.is_empty() {
        say(match args.all {
            _ if !args.status.is_empty() => {
                "there is no session with that status here; all: segue list --all"
            }
            true => "there is no session yet: segue run \"…\" starts one",
            false => "there is no session of this repository; all: segue list --all",
        });
        return Ok(Exit::Done);
    }
    print(list_table(&listing.rows, &context.out(), context.now()).trim_end());
    if listing.more {
        say("there are more: --limit 0 shows all");
    }
    Ok(Exit::Done)
}
