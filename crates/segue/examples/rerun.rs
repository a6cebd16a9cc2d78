//! Rerun: somebody else does the same work, told what was recorded, in a worktree with the files that
//! the run began with; and how the two compare.

mod scene;

use scene::{Done, Scene, WRITER};
use segue::Mode;

const OTHER: &str = r#"
[[reply]]
text = "Never asked: the recorded reply stands in its place."

[[reply]]
text = "Nor this one."

[[reply]]
text = "I write it in capitals."
tools = [ { name = "write_file", input = { path = "notes.md", content = "HELLO\n" } } ]

[[reply]]
text = "It is written."
"#;

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let run = scene.agent("writer", WRITER)?.run("Write down what the greeting says.").wait()?;

    let rerun = scene.agent("other", OTHER)?.replay(&run, Mode::Rerun).wait()?;

    let compared = run.diff(&rerun)?;
    println!("{} steps and {}", run.steps()?.len(), rerun.steps()?.len());
    println!("{} shared, {} differ", compared.shared, compared.differences());
    let notes = std::fs::read_to_string(rerun.workspace()?.join("notes.md"))?;
    println!("notes.md: {}", notes.trim_end());
    Ok(())
}
