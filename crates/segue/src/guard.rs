//! Who ends what an agent leaves behind.
//!
//! Every command that an agent runs, and every vendor's program, has a guardian: a process that ends
//! all of it when its owner dies. It is the running program, started again with an argument of its
//! own; so that program has to know what that means, or it would begin from the start.

use std::{
    env,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use segue_agents::vendor::{World, look_up};
use segue_runner::{guardian, process};

use crate::error::{Error, Result};

static READY: AtomicBool = AtomicBool::new(false);

/// To be called first in `main`: where this process was started as a guardian, it becomes one, and
/// never returns.
///
/// A program that does not call it needs the program `segue`, in PATH or named with
/// [`Agent::tools_from`](crate::Agent::tools_from): without either, no agent is let loose
/// ([`Error::NoGuardian`]).
///
/// ```no_run
/// fn main() -> segue::Result<()> {
///     segue::guard();
///     let run = segue::Agent::new("anthropic/claude-sonnet-4-5").run("Mend the test").wait()?;
///     println!("{}", run.id());
///     Ok(())
/// }
/// ```
pub fn guard() {
    let mut args = env::args_os().skip(1);
    if args.next().is_some_and(|first| first == guardian::ARGUMENT) {
        std::process::exit(guardian::run(args).into());
    }
    READY.store(true, Ordering::Relaxed);
}

/// Makes sure that somebody stands guard.
pub(crate) fn check(segue: &Path) -> Result<()> {
    if READY.load(Ordering::Relaxed) {
        return Ok(());
    }
    let name = segue.to_string_lossy();
    let found = match name.contains('/') {
        true => Some(segue.to_owned()).filter(|path| path.is_file()),
        false => look_up(&World::here(), &[&*name]).map(|program| program.path),
    };
    process::guarded_by(found.ok_or(Error::NoGuardian)?);
    Ok(())
}
