//! `segue crew watch`: the process in the background that watches over a crew.

use segue_agents::vendor::World;
use segue_core::{Event, Exit};
use segue_loops::crew::{Around, End, watch};
use segue_runner::{Interrupt, Observer};
use segue_view::{render::Detail, render::event_line, style::Style};

use super::{called, find};
use crate::{
    commands::{
        attach::program,
        worker::{Wishes, hire},
    },
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Watch over a crew until it is taken down
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A name or a number
    crew: String,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let (found, session) = find(context, Some(&args.crew))?;
    let config = context.config()?;
    let name = called(&found, &session);
    let around = Around {
        home: context.home.clone(),
        me: context.me(),
        clock: context.clock.clone(),
        segue: env!("CARGO_PKG_VERSION").to_owned(),
        program: program()?,
        world: World::here(),
        hire: Box::new(|agent, model| {
            let wishes = Wishes { model, ..Wishes::default() };
            hire(context, &config, agent, wishes)
                .map(|(_, worker)| worker)
                .map_err(|error| error.short())
        }),
        interrupt: Interrupt::install()?,
        number: found.number,
        name: name.clone(),
    };
    let mut log = Log(context.out());
    match watch(session, around, &mut log) {
        Ok(End::Down(_)) => Ok(Exit::Done),
        Ok(End::Left) => {
            say(&format!("nobody watches over {name} now: segue crew status {name}"));
            Ok(Exit::Done)
        }
        Err(error) => Err(CommandError::from(error)),
    }
}

/// Everything goes to the log of the background process.
struct Log(Style);

impl Observer for Log {
    fn event(&mut self, event: &Event) {
        if let Some(line) = event_line(event, &self.0, Detail::Full) {
            print(&line);
        }
    }
}
