//! `segue fork`: a new session that begins with all that another one knows.

use segue_agents::vendor;
use segue_core::{
    Permission,
    identity::{How, Lineage},
};
use segue_journal::home::NewSession;

use crate::{
    commands::{
        caps::CapFlags,
        go_on::{check_no_list, check_whole},
        run::{Begin, Manner, check_free, launch_new, workspace},
        worker::{NATIVE, Wishes, hire},
    },
    context::Context,
    error::{CommandError, CommandResult},
};

/// Begin a new session with all that another one knows
///
/// The vendor copies its conversation; the session that is forked stays as it is. Both work in the
/// same directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue fork 7 \"Try it without the cache\"
  segue fork refactor \"Another way\" --name other-way")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: String,
    /// What to do in the new session
    prompt: String,
    /// A name for the new session
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Another model
    #[arg(long, short, value_name = "MODEL")]
    model: Option<String>,
    /// What the agent may do: read-only, edit or full [default: as before]
    #[arg(long, value_name = "WHAT")]
    permission: Option<Permission>,
    #[command(flatten)]
    caps: CapFlags,
}

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    let config = context.config()?;
    let found = context.find(Some(&args.session))?;
    let selector = found.selector();
    let session = found.open(&context.home)?;
    crate::commands::crew::check_single(&found, &session)?;
    check_whole(&session)?;
    check_no_list(&session, "forked")?;
    let state = session.state();
    let Some(identity) = &state.identity else {
        return Err(CommandError::failed(format!("session {selector} can't be read"))
            .hint(format!("segue verify {selector}")));
    };
    let agent = identity.agent.clone();
    let card = vendor::find(&agent).map(|vendor| vendor.card());
    if agent == NATIVE || card.as_ref().is_some_and(|card| !card.can.fork) {
        let title = card.map_or("the native agent", |card| card.title);
        return Err(CommandError::usage(format!("{title} can't fork a conversation"))
            .hint(format!("go on in the same one: segue resume {selector} \"…\"")));
    }
    let Some(from) = state.vendor(&agent).and_then(|vendor| vendor.id.clone()) else {
        return Err(CommandError::usage(format!("session {selector} has no conversation yet"))
            .hint(format!("segue resume {selector}")));
    };
    check_free(context, args.name.as_deref())?;
    let permission = args.permission.unwrap_or_else(|| state.permission());
    let wishes = Wishes {
        model: args.model.as_deref().or(state.model()),
        permission: args.permission,
        fresh: false,
    };
    let (model, worker) = hire(context, &config, &agent, wishes)?;
    let new = NewSession {
        repo: identity.repo.clone(),
        workspace: workspace(&context.cwd, Some(state.workspace().unwrap_or(&identity.workspace)))?,
        loop_kind: identity.loop_kind,
        agent,
        model,
        permission,
        vendor_args: identity.vendor_args.clone(),
        prompt: args.prompt,
        proof: identity.proof.clone(),
        proof_secs: identity.proof_secs,
        pair: identity.pair.clone(),
        tasks: None,
        caps: config.caps().overridden_by(args.caps.caps()),
        lineage: Some(Lineage {
            vendor_session: Some(from),
            ..Lineage::new(session.id(), How::Forked)
        }),
        packet: None,
        fallback: identity.fallback.clone(),
        worktree: false,
        sealed: false,
        name: args.name,
        segue: env!("CARGO_PKG_VERSION").to_owned(),
    };
    launch_new(context, &config, new, worker, Manner::default(), Begin::default())
}
