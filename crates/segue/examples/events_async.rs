//! The same without waiting: two agents at once, one future each, and a stream of events. Any
//! executor will do, and no runtime is needed.

mod scene;

use futures_util::{StreamExt, future::join};
use scene::{Done, Scene, WRITER};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let (one, other) = (scene.agent("one", WRITER)?, scene.agent("other", WRITER)?);

    let work = one.run("Write down what the greeting says.");
    let events = work.events().collect::<Vec<_>>();
    let beside = other.worktree().run("Write it down as well.");

    let ((events, run), beside) = futures_executor::block_on(join(join(events, work), beside));
    let (run, beside) = (run?, beside?);
    println!("{} events, {} steps: {:?}", events.len(), run.steps()?.len(), run.status()?);
    println!("beside it, {} steps: {:?}", beside.steps()?.len(), beside.status()?);
    Ok(())
}
