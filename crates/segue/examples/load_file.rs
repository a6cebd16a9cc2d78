//! A run as a file: paused into it here, loaded and marked as running somewhere else.

mod scene;

use scene::{Done, Scene, WRITER};
use segue::Runs;

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let agent = scene.agent("writer", WRITER)?;
    let mut run = agent.run("Write down what the greeting says.").wait()?;
    run.pause(scene.path("checkpoint.tine"))?;

    // `Run::resume("checkpoint.tine")` does the same in the person's own home.
    let mut loaded = Runs::at(scene.path("elsewhere")).load(scene.path("checkpoint.tine"))?;
    loaded.hold()?;
    println!("{} steps: {:?}", loaded.steps()?.len(), loaded.status()?);
    Ok(())
}
