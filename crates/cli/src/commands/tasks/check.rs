//! `segue tasks check`: what is in a list, or everything that is wrong with it.

use std::path::PathBuf;

use segue_core::{
    Exit,
    tasks::{List, Task},
};
use segue_view::{
    style::{self, sanitize, shorten},
    table::plain_table,
};
use serde_json::{Value, json};

use super::source;
use crate::{
    context::{Context, print, say},
    error::CommandResult,
};

/// Check a list of tasks, and show what is in it
///
/// Where something is wrong, everything that is wrong is told, each with its file and line, and the
/// exit status is 2.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue tasks check plan
  segue tasks check prd.json --json")]
pub(crate) struct Args {
    /// A directory with pages or with a prd.json, or such a file
    #[arg(value_name = "DIR")]
    path: PathBuf,
}

const HEAD: [&str; 3] = ["TASK", "TITLE", "CRITERIA"];

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let list = source::read(&args.path)?;
    if context.json {
        let tasks: Vec<Value> = list.tasks.iter().map(as_json).collect();
        context.print_json(&json!({ "overview": list.overview, "tasks": tasks }))?;
        return Ok(Exit::Done);
    }
    print(&table(context, &list));
    let criteria = list.tasks.iter().map(|task| task.criteria.len()).sum::<usize>();
    say(&format!(
        "{}, {}: nothing is wrong",
        style::count(list.tasks.len() as u64, "task"),
        match criteria {
            1 => "1 acceptance criterion".to_owned(),
            _ => format!("{criteria} acceptance criteria"),
        },
    ));
    Ok(Exit::Done)
}

fn as_json(task: &Task) -> Value {
    let Task { id, title, description, criteria } = task;
    json!({
        "id": id, "title": title, "description": description, "criteria": criteria,
        "digest": task.digest(),
    })
}

fn table(context: &Context, list: &List) -> String {
    let look = context.out();
    let ids = list.tasks.iter().map(|task| task.id.len()).max().unwrap_or(0);
    // The title gives way to the count behind it, which would be wrapped otherwise.
    let room = look.width.saturating_sub(ids.max(HEAD[0].len()) + HEAD[2].len() + 4).max(20);
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(list.tasks.iter().map(|task| {
        let title = shorten(&sanitize(&task.title), room).into_owned();
        [task.id.clone(), title, task.criteria.len().to_string()]
    }));
    plain_table(&rows, &look).trim_end().to_owned()
}
