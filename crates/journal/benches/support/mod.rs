//! What the benches share: a session to write to, events as an agent makes them, and goals.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use segue_core::{
    Payload,
    event::{
        Draft, ModelCalled, ModelReplied, ModelStop, TextWritten, ToolCalled, ToolReturned,
        ToolStarted, ToolStatus,
    },
    identity::RepoRef,
    usage::{Micros, Usage},
};
use segue_journal::{
    Home, LockedSession, RealDisk, Result, home::NewSession, lock::Holder, system_clock,
};

/// A directory on the disk that the project is built on: a temporary one may be memory.
pub(crate) fn place() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn create(dir: &Path) -> Result<LockedSession> {
    let new = NewSession {
        segue: "0".into(),
        ..NewSession::new(
            RepoRef { id: "repo".into(), identity: "/repo".into(), head: None, branch: None },
            PathBuf::from("/repo"),
            "native".into(),
            "measure".into(),
        )
    };
    let clock = system_clock();
    let me = Holder { pid: std::process::id(), host: "here".into(), since: clock() };
    let home = Home::new(Arc::new(RealDisk), dir.join("home"));
    Ok(home.create(new, &me, &clock)?.0)
}

/// The `n`th event of a turn that calls a model and runs a tool, again and again.
pub(crate) fn draft(n: usize) -> Draft {
    let id = format!("toolu_{:020}", n / 6);
    let text = |text: String| Payload::inline(text);
    let model = || "example-model-5".to_owned();
    let draft: Draft = match n % 6 {
        0 => ModelCalled { model: model(), attempt: 1, messages: 40, told: None }.into(),
        1 => TextWritten { text: text(format!("I look at part {n} of it now.")), partial: false }
            .into(),
        2 => ToolCalled {
            name: "shell".into(),
            input: text(format!(r#"{{"command":"sed -n {n},+20p src/main.rs"}}"#)),
        }
        .into(),
        3 => ModelReplied {
            model: model(),
            stop: ModelStop::ToolUse,
            usage: Usage { input: 41_000, output: 300, ..Usage::default() },
            cost_micros: Some(Micros(127_500)),
            reply_id: Some(format!("msg_{n:020}")),
        }
        .into(),
        4 => ToolStarted {}.into(),
        _ => ToolReturned {
            name: "shell".into(),
            status: ToolStatus::Done,
            output: text("    let answer = question.parse()?;\n".repeat(8)),
            exit: Some(0),
            touched: vec![],
        }
        .into(),
    };
    draft.about(id).in_turn(7, "native")
}

pub(crate) fn median<T: Copy + PartialOrd>(values: &[T]) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    sorted.get(sorted.len() / 2).copied()
}

/// The goals of a bench. A missed one is only said, unless `SEGUE_BENCH_STRICT=1`.
#[derive(Default)]
pub(crate) struct Goals {
    missed: usize,
}

impl Goals {
    pub(crate) fn check(&mut self, what: &str, value: f64, goal: &str, met: bool) {
        let verdict = if met { "met" } else { "missed" };
        println!("{what}: {value:.4} (goal {goal}: {verdict})");
        self.missed += usize::from(!met);
    }

    pub(crate) fn exit(&self) -> ExitCode {
        let strict = std::env::var("SEGUE_BENCH_STRICT").is_ok_and(|value| value == "1");
        if strict && self.missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
