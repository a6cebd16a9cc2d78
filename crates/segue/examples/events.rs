//! A run, and what happens in it while it happens.

mod scene;

use scene::{Done, Scene, WRITER};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let agent = scene.agent("writer", WRITER)?;

    let work = agent.run("Write down what the greeting says.");
    for event in work.events() {
        println!("{:>2} {}", event.seq, event.body.kind());
    }
    let run = work.wait()?;

    for step in run.steps()? {
        println!("step {}: {}", step.index, step.title());
    }
    println!("run {}: {:?}", run.selector(), run.status()?);
    Ok(())
}
