//! Run again: Segue's own agent, answered from the recording as long as it asks the same.

mod scene;

use scene::{Done, Scene, WRITER};
use segue::{Body, Error, Mode, Permission, Reason};

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let agent = scene.agent("writer", WRITER)?;
    let run = agent.run("Write down what the greeting says.").wait()?;

    let again = agent.replay(&run, Mode::Continue).wait()?;
    let compared = run.diff(&again)?;
    println!("{} shared, {} differ", compared.shared, compared.differences());
    again.each_event(|event| {
        if let Body::ReplayEnded(ended) = event.body {
            println!("{ended}");
        }
    })?;

    // With other tools it would be another request: here it stops instead of going live.
    let reader = agent.permission(Permission::ReadOnly).stop_at_drift();
    match reader.replay(&run, Mode::Continue).wait() {
        Err(Error::Stopped { reason: Reason::Drifted, message, .. }) => println!("{message}"),
        other => println!("{}", other?.id()),
    }
    Ok(())
}
