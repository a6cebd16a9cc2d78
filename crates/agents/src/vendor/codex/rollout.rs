//! Its session files: `sessions/2026/11/15/rollout-….jsonl`.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use crate::vendor::{
    History,
    json::{at, text},
    read_lines,
};

pub(super) fn is_named(file: &Path, ending: &str) -> bool {
    file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(ending))
}

/// `sessions/2026/11/15/rollout-….jsonl`, the newest directories first.
pub(super) fn rollouts(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut dirs = vec![root.to_owned()];
    let mut files = Vec::new();
    std::iter::from_fn(move || {
        loop {
            if let Some(file) = files.pop() {
                return Some(file);
            }
            let dir = dirs.pop()?;
            let mut inside: Vec<PathBuf> = std::fs::read_dir(dir)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .collect();
            inside.sort_unstable();
            for path in inside {
                if path.is_dir() { dirs.push(path) } else { files.push(path) }
            }
        }
    })
}

fn meta_of(line: &[u8]) -> Option<(String, String, std::time::SystemTime)> {
    let value: Value = serde_json::from_slice(line).ok()?;
    if text(&value, &["type"]) != Some("session_meta") {
        return None;
    }
    let began: Timestamp = text(&value, &["payload", "timestamp"])?.parse().ok()?;
    let id = text(&value, &["payload", "id"])?;
    Some((id.to_owned(), text(&value, &["payload", "cwd"])?.to_owned(), began.into()))
}

/// One line of a rollout.
pub(super) fn remember(line: &[u8], history: &mut History) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
    let Some(payload) = value.get("payload") else { return };
    let kind = text(payload, &["type"]).unwrap_or_default();
    let texts = |content: Option<&Value>| {
        let parts = content.and_then(Value::as_array).into_iter().flatten();
        parts.filter_map(|part| text(part, &["text"])).collect::<Vec<_>>().join("\n")
    };
    match (text(&value, &["type"]), kind) {
        (Some("event_msg"), "user_message") => {
            history.prompt(text(payload, &["message"]).unwrap_or_default());
        }
        (Some("event_msg"), "item_completed")
            if text(payload, &["item", "type"]) == Some("UserMessage") =>
        {
            history.prompt(texts(at(payload, &["item", "content"])));
        }
        (Some("response_item"), "message") if text(payload, &["role"]) == Some("assistant") => {
            history.text(texts(payload.get("content")));
        }
        (Some("response_item"), "function_call" | "custom_tool_call" | "local_shell_call") => {
            history.call(text(payload, &["call_id"]).unwrap_or_default());
        }
        (Some("response_item"), "function_call_output" | "custom_tool_call_output") => {
            history.answer(text(payload, &["call_id"]).unwrap_or_default());
        }
        _ => {}
    }
}

/// Sessions of a directory since a time that began with the prompt.
pub(crate) fn look_for(config: &Path, cwd: &Path, since: Timestamp, prompt: &str) -> Vec<String> {
    let since: std::time::SystemTime = since.into();
    let recent = |file: &PathBuf| {
        file.metadata().and_then(|found| found.modified()).is_ok_and(|at| at >= since)
    };
    let files = rollouts(&config.join("sessions"));
    let ids = files.filter(recent).filter_map(|file| {
        let mut meta = None;
        let mut history = History::new(file.clone());
        read_lines(&file, |line| {
            meta = meta.take().or_else(|| meta_of(line));
            remember(line, &mut history);
        })
        .ok()?;
        let (id, place, began) = meta?;
        let first = history.earlier.first().unwrap_or(&history.last);
        let said = history.prompts > 0 && first.prompt.trim() == prompt.trim();
        (Path::new(&place) == cwd && began >= since && said).then_some(id)
    });
    ids.collect()
}

/// Where a rollout that was brought from another machine belongs.
pub(super) fn home_of(config: &Path, id: &str, name: &str, bytes: &[u8]) -> Option<PathBuf> {
    // A fork is not whole without the file that it was forked from.
    let whole = memchr::memmem::find(bytes, b"\"history_base\"").is_none();
    let date = name.strip_prefix("rollout-")?.get(..10)?.replace('-', "/");
    let ours = whole && name.ends_with(&format!("-{id}.jsonl"));
    ours.then(|| config.join("sessions").join(date).join(name))
}

/// The id in the name of a rollout: `rollout-2026-11-15T20-10-11-<uuid>.jsonl`.
pub(crate) fn id_of(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let stem = name.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
    let id = stem.get(stem.len().checked_sub(36)?..)?;
    (id.split('-').count() == 5).then(|| id.to_owned())
}
