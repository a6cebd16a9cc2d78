//! Every command: a file, an `Args`, a `run`.

mod agents;
mod config;
mod demo;
mod doctor;
mod fork;
mod generate;
mod list;
mod log;
mod resume;
mod rm;
mod run;
mod show;
mod verify;
mod watch;
mod worker;

use crate::{context::Context, error::CommandResult};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Resume(resume::Args),
    Fork(fork::Args),
    List(list::Args),
    Show(show::Args),
    Log(log::Args),
    Watch(watch::Args),
    Verify(verify::Args),
    Rm(rm::Args),
    Config(config::Args),
    Agents(agents::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Completions(generate::Completions),
    Man(generate::Man),
    #[command(hide = true)]
    Reference(generate::Reference),
}

impl Command {
    pub(crate) fn run(self, context: &Context) -> CommandResult {
        match self {
            Self::Run(args) => run::run(context, args),
            Self::Resume(args) => resume::run(context, args),
            Self::Fork(args) => fork::run(context, args),
            Self::List(args) => list::run(context, &args),
            Self::Show(args) => show::run(context, &args),
            Self::Log(args) => log::run(context, &args),
            Self::Watch(args) => watch::run(context, &args),
            Self::Verify(args) => verify::run(context, &args),
            Self::Rm(args) => rm::run(context, &args),
            Self::Config(args) => config::run(context, args),
            Self::Agents(args) => agents::run(context, &args),
            Self::Doctor(args) => doctor::run(context, &args),
            Self::Demo(args) => demo::run(context, &args),
            Self::Completions(args) => generate::completions(&args),
            Self::Man(args) => generate::man(&args),
            Self::Reference(args) => generate::reference(&args),
        }
    }
}
