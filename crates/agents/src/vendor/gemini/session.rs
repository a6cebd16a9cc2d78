//! Its session files, which have to be folded: a later line of the same id replaces the earlier one, and
//! `$set` replaces whatever it names.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use crate::vendor::{History, json, read_lines};

/// Where it keeps what belongs to a working directory. The name is in a list; and what belongs to
/// one that is missing there says so itself.
pub(super) fn project(dir: &Path, cwd: &Path) -> Option<PathBuf> {
    let list = projects(dir);
    let all = dir.join("tmp");
    if let Some(name) = json::text(&list, &["projects", &*cwd.to_string_lossy()]) {
        return Some(all.join(name));
    }
    let dirs = std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path());
    dirs.into_iter().find(|dir| owner(dir).is_some_and(|owner| owner == cwd))
}

/// [`project`], or for a working directory that is new to it the one that it will choose: the first
/// that bears its name and is nobody else's. What was brought from another machine waits there.
pub(super) fn project_to_be(dir: &Path, cwd: &Path) -> Option<PathBuf> {
    if let Some(known) = project(dir, cwd) {
        return Some(known);
    }
    let list = projects(dir);
    let taken = |name: &str| {
        let listed = list.get("projects").and_then(Value::as_object);
        let listed = listed.is_some_and(|all| all.values().any(|one| one == name));
        let owned = |above: &str| owner(&dir.join(above).join(name)).is_some_and(|who| who != cwd);
        listed || owned("tmp") || owned("history")
    };
    let name = slug(&cwd.file_name().unwrap_or_default().to_string_lossy());
    let more = (1..1000).map(|n| format!("{name}-{n}"));
    let free = std::iter::once(name.clone()).chain(more).find(|name| !taken(name))?;
    Some(dir.join("tmp").join(free))
}

fn projects(dir: &Path) -> Value {
    let list = std::fs::read(dir.join("projects.json")).unwrap_or_default();
    serde_json::from_slice(&list).unwrap_or_default()
}

fn owner(project: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(project.join(".project_root")).ok()?;
    Some(text.trim().into())
}

/// A directory's name in its words: letters and digits, with single dashes between.
fn slug(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-");
    if slug.is_empty() { "project".to_owned() } else { slug }
}

/// The session of a project. A resume in another minute leaves another file of the same session,
/// with no prompt in it.
pub(super) fn fullest(project: &Path, id: &str) -> io::Result<Option<History>> {
    let Ok(files) = std::fs::read_dir(project.join("chats")) else { return Ok(None) };
    let ending = format!("-{}.jsonl", id.get(..8).unwrap_or(id));
    let mut best: Option<History> = None;
    for file in files.flatten().map(|entry| entry.path()) {
        if !file.to_string_lossy().ends_with(&ending) {
            continue;
        }
        let Some(history) = read_session(&file, id)? else { continue };
        if best.as_ref().is_none_or(|best| history.prompts > best.prompts) {
            best = Some(history);
        }
    }
    // One without a prompt is none: it can't be resumed, and the next start deletes it.
    Ok(best.filter(|history| history.prompts > 0))
}

/// A line of its session file: the head, a message, or a change of anything.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Kept {
    pub(super) session_id: Option<String>,
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) content: Value,
    pub(super) tool_calls: Vec<Remade>,
    #[serde(rename = "$set")]
    pub(super) set: Option<Change>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Change {
    pub(super) messages: Option<Vec<Remembered>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Remembered {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) content: Value,
    pub(super) tool_calls: Vec<Remade>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Remade {
    pub(super) id: String,
    pub(super) result: Value,
}

/// Reads a file of events into what they add up to, if it is of that session.
pub(super) fn read_session(file: &Path, id: &str) -> io::Result<Option<History>> {
    let mut messages: Vec<Remembered> = Vec::new();
    let mut ours = false;
    read_lines(file, |line| {
        let Ok(kept) = serde_json::from_slice::<Kept>(line) else { return };
        ours |= kept.session_id.as_deref() == Some(id);
        if let Some(all) = kept.set.and_then(|change| change.messages) {
            messages = all;
        } else if !kept.id.is_empty() {
            let Kept { id, kind, content, tool_calls, .. } = kept;
            let message = Remembered { id, kind, content, tool_calls };
            // A message that is written again takes the place of the first one.
            match messages.iter_mut().rev().find(|known| known.id == message.id) {
                Some(known) => *known = message,
                None => messages.push(message),
            }
        }
    })?;
    if !ours {
        return Ok(None);
    }
    let mut history = History::new(file.to_owned());
    messages.iter().for_each(|message| message.remember(&mut history));
    Ok(Some(history))
}

/// What it puts where an answer should be, in a session that it resumes.
pub(super) const INTERRUPTED: &str = "[The previous response was interrupted before it completed.]";

impl Remembered {
    pub(super) fn remember(&self, history: &mut History) {
        match self.kind.as_str() {
            "user" => {
                for answer in self.parts() {
                    if let Some(id) = json::text(answer, &["functionResponse", "id"]) {
                        history.answer(id);
                    }
                }
                let text = self.text();
                // The first of all is the program's own, about the workspace.
                if !text.is_empty() && !text.starts_with("<session_context>") {
                    history.prompt(text);
                }
            }
            "gemini" => {
                let text = self.text();
                if !text.is_empty() && text != INTERRUPTED {
                    history.text(text);
                }
                // Where it writes all its messages anew, calls are parts like any other.
                for part in self.parts() {
                    if let Some(id) = json::text(part, &["functionCall", "id"])
                        && !self.tool_calls.iter().any(|call| call.id == id)
                    {
                        history.call(id);
                    }
                }
                for call in &self.tool_calls {
                    history.call(&*call.id);
                    if call.result.as_array().is_some_and(|parts| !parts.is_empty()) {
                        history.answer(&call.id);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn parts(&self) -> &[Value] {
        self.content.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        if let Some(text) = self.content.as_str() {
            return text.to_owned();
        }
        let texts = self.parts().iter().filter_map(|part| json::text(part, &["text"]));
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the program at a terminal leaves it after a turn was cancelled: all messages anew, and the
    /// cancelled one gone; and a second file of the same session from a resume, with nothing in it.
    #[test]
    fn messages_written_anew_and_a_stub_beside_them() {
        const ID: &str = "0151f01d-fae2-4d3f-91f7-3d02442d2ae1";
        let dir = tempfile::tempdir().unwrap();
        let chats = dir.path().join("chats");
        std::fs::create_dir_all(&chats).unwrap();
        let head = format!(r#"{{"sessionId":"{ID}","kind":"main"}}"#);
        let anew = concat!(
            r#"{"$set":{"messages":["#,
            r#"{"id":"0","type":"user","content":[{"text":"<session_context>\nx"}]},"#,
            r#"{"id":"1","type":"user","content":[{"text":"do it"}]},"#,
            r#"{"id":"2","type":"gemini","content":[{"functionCall":{"name":"t","id":"c1"}}]},"#,
            r#"{"id":"3","type":"user","content":[{"functionResponse":{"id":"c1"}}]},"#,
            r#"{"id":"4","type":"gemini","content":[{"text":"done"}]}]}}"#,
        );
        let gone = r#"{"id":"5","type":"user","content":[{"text":"cancelled"}]}"#;
        let full = format!("{head}\n{gone}\n{anew}\n");
        std::fs::write(chats.join("session-2026-11-16T16-22-0151f01d.jsonl"), full).unwrap();
        let stub = format!("{head}\n{{\"$set\":{{\"sessionId\":\"{ID}\"}}}}\n");
        std::fs::write(chats.join("session-2026-11-16T16-30-0151f01d.jsonl"), stub).unwrap();
        let history = fullest(dir.path(), ID).unwrap().unwrap();
        assert_eq!((history.prompts, &*history.last.prompt), (1, "do it"));
        assert_eq!(history.last.texts, ["done"]);
        assert!(history.last.calls.len() == 1 && history.last.calls[0].answered);
    }
}
