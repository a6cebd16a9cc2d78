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

    let loaded = Runs::at(scene.path("elsewhere")).resume(scene.path("checkpoint.tine"))?;
    println!("{} steps: {:?}", loaded.steps()?.len(), loaded.status()?);
    Ok(())
}
