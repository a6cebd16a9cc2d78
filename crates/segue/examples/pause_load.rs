//! Pause and load: they mark a run around saving and loading it, and execute nothing.

mod scene;

use scene::{Done, Scene, WRITER};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let agent = scene.agent("writer", WRITER)?;
    let mut run = agent.run("Write down what the greeting says.").wait()?;

    run.pause(scene.path("checkpoint.tine"))?; // marks it as paused, then saves
    println!("paused: {:?}", run.status()?);

    // As `Run::resume("checkpoint.tine")` in the person's own home: loads it, and marks it as running.
    let loaded = run.runs().resume(scene.path("checkpoint.tine"))?;
    println!("the same run: {}", loaded.id() == run.id());
    println!("held: {:?}", loaded.status()?);
    println!("meanwhile: {}", run.hold().map_or_else(|_| "busy", |()| "free"));

    drop(loaded);
    println!("let go: {:?}", run.runs().load(run.selector())?.status()?);
    Ok(())
}
