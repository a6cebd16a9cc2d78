//! Cached replay: a new run that reuses the recorded steps. No model and no tool is called.

mod scene;

use scene::{Done, Scene, WRITER};
use segue::{Agent, Mode};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let run = scene.agent("writer", WRITER)?.run("Write down what the greeting says.").wait()?;

    // Nobody has a key for this one here, and nobody needs it.
    let agent = Agent::new("anthropic/claude-sonnet-4-5");
    let replayed = agent.replay(&run, Mode::Cache).wait()?;
    replayed.save(scene.path("finished-replay.tine"))?;

    let same = run.refs()?.get("main") == replayed.refs()?.get("main");
    println!("{} steps, the same ids: {same}", replayed.steps()?.len());
    println!("{}", replayed.stopped().map(|stop| stop.message.clone()).unwrap_or_default());
    println!("as recorded: {}", replayed.verify()?.reproduces());
    Ok(())
}
