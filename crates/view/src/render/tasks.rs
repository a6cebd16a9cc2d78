//! How a list of tasks looks as it is worked through.

use segue_core::{
    Body,
    event::{CaseSubmitted, TaskStarted, TasksRead, WorkCommitted},
};

use super::{Out, count};
use crate::style::{Paint, sanitize};

impl Out<'_> {
    pub(super) fn tasks(&mut self, body: &Body) {
        match body {
            Body::TasksRead(read) => self.tasks_read(read),
            Body::TaskStarted(started) => self.task_started(started),
            Body::TaskFailed(failed) => {
                let text = [
                    (Paint::Bold, sanitize(&failed.task).into_owned()),
                    (Paint::Red, format!(" failed ({})", sanitize(&failed.why))),
                    (Paint::Plain, format!(" · {}", sanitize(&failed.message))),
                ];
                self.line(0, (Paint::Red, "✘"), &text);
            }
            Body::CaseSubmitted(case) => self.case(case),
            _ => {}
        }
    }

    fn tasks_read(&mut self, read: &TasksRead) {
        let source = sanitize(&read.source.display().to_string()).into_owned();
        let mut text = format!("{} from {source}", count(read.tasks.len() as u64, "task"));
        let parts = [("added", &read.added), ("removed", &read.removed), ("edited", &read.edited)];
        for (what, ids) in parts {
            if !ids.is_empty() {
                text.push_str(&format!(" · {what}: {}", sanitize(&ids.join(", "))));
            }
        }
        self.one(0, (Paint::Dim, "≡"), Paint::Dim, &text);
    }

    fn task_started(&mut self, started: &TaskStarted) {
        let mut text = vec![(Paint::Bold, sanitize(&started.task).into_owned())];
        if let Some(retry) = &started.retry {
            text.push((Paint::Plain, format!(" again (was: {})", sanitize(&retry.was))));
            if let Some(commit) = &retry.unwound {
                let commit = commit.get(..7).unwrap_or(commit);
                text.push((Paint::Dim, format!(" · unwound {}", sanitize(commit))));
            }
        }
        self.line(0, (Paint::Cyan, "▶"), &text);
    }

    fn case(&mut self, case: &CaseSubmitted) {
        let met = count(case.criteria.len() as u64, "criterion").replace("criterions", "criteria");
        let text = [
            (Paint::Bold, "case".to_owned()),
            (Paint::Dim, format!(" · {met} · ")),
            (Paint::Plain, sanitize(&case.summary).into_owned()),
        ];
        self.line(2, (Paint::Cyan, "⚑"), &text);
        if self.full() {
            for met in &case.criteria {
                let text = format!("{} ← {}", sanitize(&met.criterion), sanitize(&met.met_by));
                self.wrapped(4, Paint::Plain, &text);
            }
        }
        for (label, texts) in [("work-around", &case.work_arounds), ("doubt", &case.doubts)] {
            for text in texts {
                self.wrapped(4, Paint::Dim, &format!("{label}: {}", sanitize(text)));
            }
        }
    }

    pub(super) fn committed(&mut self, done: &WorkCommitted) {
        let commit = done.commit.get(..10).unwrap_or(&done.commit);
        let (paint, sign, what) = match (&done.task, &done.failed) {
            (Some(task), Some(why)) => {
                let what = format!("{} FAILED ({}): kept as", sanitize(task), sanitize(why));
                (Paint::Yellow, "◌", what)
            }
            (Some(task), None) => (Paint::Green, "✔", format!("{} done:", sanitize(task))),
            _ => (Paint::Green, "✔", "committed".to_owned()),
        };
        let text = format!("{what} {commit} on {}", sanitize(&done.branch));
        self.one(0, (paint, sign), Paint::Plain, &text);
    }
}
