//! `segue show`: one session, all that is known of it.

use segue_core::Exit;
use segue_journal::Session;
use segue_view::{
    graph::{Graph, GraphJson, graph_text},
    json::ShowJson,
    select::Found,
    show::{Show, show_text},
};

use crate::{
    commands::{import, tasks},
    context::{Context, print, view_error},
    error::CommandResult,
};

/// Show all that is known of a session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue show                        the latest one of this repository
  segue show 7 --json | jq .usage
  segue show 7 --graph              its steps, with branches and forks")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest
    session: Option<String>,
    /// Draw its steps as a graph: rewound branches, forks, where each turn begins
    #[arg(long)]
    graph: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = import::find(context, args.session.as_deref())?;
    let session = found.open(&context.home)?;
    if args.graph {
        return draw(context, &session, &found);
    }
    let mut show = Show::of(&session, &found);
    tasks::settle(&mut show, &session);
    if context.json {
        context.print_json(&ShowJson::from(&show))?;
    } else {
        print(show_text(&show, &context.out(), context.now()).trim_end());
    }
    Ok(Exit::Done)
}

fn draw(context: &Context, session: &Session, found: &Found) -> CommandResult {
    let graph = Graph::of(&context.home, session, found).map_err(view_error)?;
    if context.json {
        context.print_json(&GraphJson::of(&graph, session, found.number))?;
    } else {
        print(&graph_text(&graph, &context.out()));
    }
    Ok(Exit::Done)
}
