//! Native resume: the conversation is rebuilt from the recording, from any of its steps, and goes on.

mod scene;

use scene::{Done, Scene, WRITER};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let agent = scene.agent("writer", WRITER)?;
    let run = agent.run("Write down what the greeting says.").wait()?;

    let resumed = agent
        .resume(&run, run.refs()?.get("main"), "Continue with a concise final answer.")
        .wait()?;
    resumed.save(scene.path("resumed.tine"))?;

    let steps = resumed.steps()?;
    println!("{} steps, {} of them shared", steps.len(), run.diff(&resumed)?.shared);
    println!("{}", steps.last().map(|step| step.title()).unwrap_or_default());
    Ok(())
}
