//! What a worker and its evaluator are told of a task: built anew from the list and the journal each
//! time, never from what was said before.

use std::fmt::Write;

use super::{List, Task};
use crate::{
    event::{CaseSubmitted, Retry},
    packet::shortened,
    review::{Ledger, render::ledger_for_worker},
    state::{Standing, Tasks},
};

/// How much of each part is told.
const MOST_OVERVIEW: usize = 8 << 10;
const MOST_PLAN: usize = 6 << 10;
const MOST_NOTES: usize = 4 << 10;
const MOST_PROJECT: usize = 8 << 10;

/// How a worker says that it is done; the same words for the tool and for the block.
pub const ASK_CASE: &str = "\
When the task is done, make your case with the tool `submit_case` of the server `segue`. If you do \
not have that tool, end your answer with exactly one block of this form, as its very last thing:
```segue
{\"summary\":\"…\",\"criteria\":[{\"criterion\":\"…\",\"met_by\":\"…\",\"evidence\":\"…\"}],\"work_arounds\":[],\"doubts\":[]}
```
- summary: what you did, in a few sentences.
- criteria: for each acceptance criterion where it is met (met_by: file and function or line), and \
what shows it (evidence: a test, a command and its output).
- work_arounds: what is not as it should be, and why. doubts: what you are not sure of.
Without a case nobody looks at your work.";

/// Everything that a worker is told at the beginning of a task.
#[derive(Debug)]
pub struct Brief<'a> {
    pub list: &'a List,
    pub task: &'a Task,
    pub tasks: &'a Tasks,
    /// `AGENTS.md` and the like, with their names; empty for an agent that reads them by itself.
    pub project: &'a [(String, String)],
    pub proof: Option<&'a str>,
    pub ledger: &'a Ledger,
    /// What became of the attempt before, where there was one.
    pub retry: Option<&'a Retry>,
}

/// The first prompt of a task.
#[must_use]
pub fn worker(brief: &Brief<'_>) -> String {
    let Brief { list, task, tasks, .. } = brief;
    let mut text = format!(
        "You work on one task of a list, {}: {}. Do this task and nothing of the others. Leave \
         your changes uncommitted: they are committed once they are accepted.\n",
        task.id, task.title
    );
    for (name, body) in brief.project {
        section(&mut text, &format!("From {name}"), &shortened(body, MOST_PROJECT));
    }
    section(&mut text, "What it is about", &shortened(&list.overview, MOST_OVERVIEW));
    section(&mut text, "The plan", &shortened(&plan(tasks, &task.id), MOST_PLAN));
    if !tasks.notes.is_empty() {
        let notes = tasks.notes.iter().fold(String::new(), |mut all, note| {
            let _ = writeln!(all, "- {note}");
            all
        });
        section(&mut text, "What was done so far", &tail(&notes, MOST_NOTES));
    }
    section(&mut text, "Your task", &of_task(task));
    if let Some(retry) = brief.retry {
        section(&mut text, "Where it stands", &before(&task.id, retry));
    }
    let said = ledger_for_worker(brief.ledger);
    if !said.is_empty() {
        section(&mut text, "What the evaluator has said before", &said);
    }
    let mut judged = String::new();
    if let Some(proof) = brief.proof {
        let _ = writeln!(judged, "When you have finished, `{proof}` is run, and has to succeed.");
    }
    judged.push_str(
        "Then an evaluator looks at it, who sees the task, the diff and your case, and none of \
         your thoughts.\n\n",
    );
    judged.push_str(ASK_CASE);
    section(&mut text, "How it is judged", &judged);
    text
}

/// What a worker is told that has ended its turn without a case.
#[must_use]
pub fn nudge() -> String {
    format!("Your turn is over and there is no case. Go on with the task, or: {ASK_CASE}")
}

/// What an evaluator is told of the task.
#[must_use]
pub fn evaluator(list: &List, task: &Task) -> String {
    format!(
        "{}: {}\n\n{}\n\nIt is one task of a list; judge this one alone. What the whole is \
         about:\n{}",
        task.id,
        task.title,
        of_task(task),
        shortened(&list.overview, MOST_OVERVIEW)
    )
}

/// The worker's case, for whoever judges it.
#[must_use]
pub fn case(case: &CaseSubmitted) -> String {
    let mut text = format!("{}\n", case.summary.trim());
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = write!(text, "\n{title}:\n- {}\n", lines.join("\n- "));
        }
    };
    let met = case.criteria.iter().map(|one| match &one.evidence {
        Some(evidence) => {
            format!("{}\n  met by: {}\n  shown by: {evidence}", one.criterion, one.met_by)
        }
        None => format!("{}\n  met by: {}", one.criterion, one.met_by),
    });
    list("How each criterion is met", met.collect());
    list("Work-arounds", case.work_arounds.clone());
    list("Doubts", case.doubts.clone());
    text
}

fn of_task(task: &Task) -> String {
    let criteria: Vec<String> = task.criteria.iter().map(|one| format!("- {one}")).collect();
    let criteria = criteria.join("\n");
    match task.description.trim() {
        "" => format!("Acceptance criteria:\n{criteria}"),
        description => format!("{description}\n\nAcceptance criteria:\n{criteria}"),
    }
}

/// All tasks with where they stand; of a long list, those around the one in hand.
fn plan(tasks: &Tasks, in_hand: &str) -> String {
    /// How many are shown before and after.
    const AROUND: usize = 20;
    let at = tasks.entries.iter().position(|entry| entry.id == in_hand).unwrap_or(0);
    let (from, to) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(tasks.entries.len()));
    let mut text = String::new();
    if from > 0 {
        let _ = writeln!(text, "({from} tasks before these)");
    }
    for entry in &tasks.entries[from..to] {
        let standing = match entry.standing {
            _ if entry.id == in_hand => "this one",
            Standing::Done => "done",
            _ => "later",
        };
        let _ = writeln!(text, "- {} {} ({standing})", entry.id, entry.title);
    }
    match tasks.entries.len() - to {
        0 => {}
        more => drop(writeln!(text, "({more} tasks after these)")),
    }
    text
}

/// What a worker is told of the attempt before.
fn before(task: &str, retry: &Retry) -> String {
    let how = match retry.was.as_str() {
        crate::state::OFF_BRANCH => {
            return "This task was done before, and its commit has been taken off the branch since. \
                    Look at what is there first (`git status`, `git log`), and do it again."
                .to_owned();
        }
        super::stop::EDITED => "The text of this task has changed since it was begun.".to_owned(),
        was => format!("This task was tried before, and not finished ({was})."),
    };
    if retry.kept.is_some() {
        return format!(
            "{how} What there was of it is committed: it is in the commit on this branch whose message \
             begins with `{task}: FAILED`, which stays there. Look at that first (`git log`, `git \
             show`) and at what is not committed (`git status`, `git diff HEAD`), and go on from there."
        );
    }
    format!(
        "{how} What there is of it is in the working directory, as changes that are not \
         committed: look at them first (`git status`, `git diff HEAD`), and go on from there."
    )
}

/// The end of a text that is too long: what was done lately counts.
fn tail(text: &str, most: usize) -> String {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[from..].to_owned()
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "\n## {title}\n\n{}\n", body.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Met, Via};

    fn task(id: &str) -> Task {
        Task {
            id: id.into(),
            title: format!("Title of {id}"),
            description: "Write it.".into(),
            criteria: vec!["it works".into(), "it is tested".into()],
        }
    }

    fn entry(id: &str, standing: Standing) -> crate::state::TaskEntry {
        let value = serde_json::json!({
            "id": id, "title": format!("Title of {id}"), "digest": "", "standing": standing,
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_worker_is_told_everything_that_it_needs_and_nothing_else() {
        let list = List { overview: "A csv exporter.".into(), tasks: vec![task("T-001")] };
        let mut tasks = Tasks {
            entries: (1..=100).map(|n| entry(&format!("T-{n:03}"), Standing::Pending)).collect(),
            notes: vec!["T-049 Before: laid the ground".into()],
            ..Tasks::default()
        };
        tasks.entries[0].standing = Standing::Done;
        let this = task("T-050");
        let was = || "iter_cap".to_owned();
        let retry = Retry { was: was(), unwound: Some("c".into()), kept: None };
        let brief = Brief {
            list: &list,
            task: &this,
            tasks: &tasks,
            project: &[("AGENTS.md".into(), "Use tabs.".into())],
            proof: Some("make test"),
            ledger: &Ledger::default(),
            retry: Some(&retry),
        };
        let text = worker(&brief);
        for part in [
            "T-050: Title of T-050",
            "## From AGENTS.md\n\nUse tabs.",
            "A csv exporter.",
            "(29 tasks before these)\n- T-030",
            "- T-050 Title of T-050 (this one)",
            "- T-070 Title of T-070 (later)\n(30 tasks after these)",
            "- T-049 Before: laid the ground",
            "Acceptance criteria:\n- it works\n- it is tested",
            "tried before, and not finished (iter_cap).",
            "`make test` is run",
            "submit_case",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("What the evaluator has said"), "{text}");
        let uncommitted = "as changes that are not committed";
        assert!(text.contains(uncommitted), "{text}");
        // Where the placeholder stays, it has what there was.
        let retry = Retry { was: was(), unwound: None, kept: Some("it was pushed".into()) };
        let text = worker(&Brief { retry: Some(&retry), ..brief });
        assert!(text.contains("begins with `T-050: FAILED`"), "{text}");
        assert!(!text.contains(uncommitted), "{text}");
    }

    #[test]
    fn a_case_is_told_point_by_point() {
        let made = CaseSubmitted {
            summary: "Wrote it.".into(),
            criteria: vec![Met {
                criterion: "it works".into(),
                met_by: "a.rs:main".into(),
                evidence: Some("cargo test".into()),
            }],
            work_arounds: vec![],
            doubts: vec!["big files".into()],
            via: Via::Tool,
        };
        let text = case(&made);
        assert_eq!(
            text,
            "Wrote it.\n\nHow each criterion is met:\n- it works\n  met by: a.rs:main\n  shown by: \
             cargo test\n\nDoubts:\n- big files\n"
        );
    }
}
