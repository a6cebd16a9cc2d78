//! Fork: a new run that begins with the steps of another one, and goes another way from there.

mod scene;

use scene::{Done, Scene, WRITER};

const OTHER_WAY: &str = r#"
[[reply]]
text = "Never asked: the recorded reply stands in its place."

[[reply]]
text = "Then I write it elsewhere."
tools = [ { name = "write_file", input = { path = "elsewhere.md", content = "hello\n" } } ]

[[reply]]
text = "It is in elsewhere.md."
"#;

fn main() -> Done {
    segue::guard();
    let scene = Scene::new()?;
    let run = scene.agent("writer", WRITER)?.run("Write down what the greeting says.").wait()?;

    // It waits until somebody says what to do.
    let fork = run.fork(3)?;
    println!("forked after step 3: {:?}", fork.status()?);

    // Or at once, with somebody to go on; in a worktree, with the files of that time.
    let other = scene.agent("other", OTHER_WAY)?.resume(&run, 3, "Write it elsewhere.").wait()?;
    println!("{} steps, {} of them shared", other.steps()?.len(), run.diff(&other)?.shared);
    println!("elsewhere: {}", other.workspace()?.join("elsewhere.md").exists());
    println!("in the repository: {}", scene.path("repo/elsewhere.md").exists());
    Ok(())
}
