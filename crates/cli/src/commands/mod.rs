//! Every command: a file, an `Args`, a `run`.

mod accept;
mod agents;
mod ask;
mod attach;
mod bridge;
mod caps;
mod carry;
mod compare;
mod config;
mod crew;
mod dashboard;
mod demo;
mod diff;
mod doctor;
mod edited;
mod export;
mod fork;
mod gc;
mod generate;
mod go_on;
mod handoff;
mod import;
mod import_run;
mod keys;
mod letters;
mod limited;
mod list;
mod log;
mod mcp;
mod offer;
mod pair;
mod pick;
mod place;
mod prompt;
mod relist;
mod replay;
mod resume;
mod rewind;
mod rm;
mod run;
mod show;
mod stop;
mod substitute;
mod tasks;
mod verify;
mod watch;
mod worker;

use crate::{context::Context, error::CommandResult};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Pair(Box<pair::Args>),
    Tasks(tasks::Args),
    Crew(Box<crew::Args>),
    Resume(resume::Args),
    Handoff(handoff::Args),
    Rewind(rewind::Args),
    Fork(fork::Args),
    Replay(Box<replay::Args>),
    Compare(compare::Args),
    Accept(accept::Args),
    Export(export::Args),
    Import(import::Args),
    List(list::Args),
    Show(show::Args),
    Log(log::Args),
    Diff(diff::Args),
    Watch(watch::Args),
    Bridge(bridge::Args),
    Attach(attach::Args),
    Stop(stop::Args),
    Dashboard(dashboard::Args),
    Verify(verify::Args),
    Rm(rm::Args),
    Gc(gc::Args),
    Config(config::Args),
    Agents(agents::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    #[command(hide = true)]
    Mcp(mcp::Args),
    Completions(generate::Completions),
    Man(generate::Man),
    #[command(hide = true)]
    Reference(generate::Reference),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::Run(args) => run::run(context, args),
            Self::Pair(args) => pair::run(context, *args),
            Self::Tasks(args) => tasks::run(context, args),
            Self::Crew(args) => crew::run(context, *args),
            Self::Bridge(args) => bridge::run(context, args),
            Self::Resume(args) => resume::run(context, args),
            Self::Handoff(args) => handoff::run(context, &args),
            Self::Rewind(args) => rewind::run(context, args),
            Self::Fork(args) => fork::run(context, args),
            Self::Replay(args) => replay::run(context, &args),
            Self::Compare(args) => compare::run(context, &args),
            Self::Accept(args) => accept::run(context, &args),
            Self::Export(args) => export::run(context, &args),
            Self::Import(args) => import::run(context, &args),
            Self::List(args) => list::run(context, &args),
            Self::Show(args) => show::run(context, &args),
            Self::Log(args) => log::run(context, &args),
            Self::Diff(args) => diff::run(context, &args),
            Self::Watch(args) => watch::run(context, &args),
            Self::Attach(args) => attach::run(context, &args),
            Self::Stop(args) => stop::run(context, &args),
            Self::Dashboard(args) => dashboard::run(context, &args),
            Self::Verify(args) => verify::run(context, &args),
            Self::Gc(args) => gc::run(context, &args),
            Self::Rm(args) => rm::run(context, &args),
            Self::Config(args) => config::run(context, args),
            Self::Agents(args) => agents::run(context, &args),
            Self::Doctor(args) => doctor::run(context, &args),
            Self::Demo(args) => demo::run(context, &args),
            Self::Mcp(args) => mcp::run(context, args),
            Self::Completions(args) => generate::completions(&args),
            Self::Man(args) => generate::man(&args),
            Self::Reference(args) => generate::reference(&args),
        }
    }
}
