//! The calls of one turn, from the pieces in which an agent tells of them.
//!
//! Some agents announce a call before they know its input, and fill it in while the model writes
//! it. A call is told of once it is whole: when it runs, when permission for it is asked, or when
//! the agent goes on to something else.

use std::path::PathBuf;

use agent_client_protocol_schema::v1::{
    ContentBlock, Meta, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use segue_core::event::ToolStatus;
use serde_json::{Value, json};

use crate::vendor::{
    Signal, ToolEnd,
    json::{at, mcp_text, text},
};

#[derive(Debug, Default)]
pub(super) struct Calls {
    all: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    call: ToolCall,
    /// It was told that it runs.
    called: bool,
    ended: bool,
    /// What a terminal printed: told in pieces.
    printed: String,
    exit: Option<i32>,
}

impl Calls {
    pub(super) fn begin(&mut self, call: ToolCall) -> Vec<Signal> {
        let at = self.place(call);
        self.progress(at, false)
    }

    pub(super) fn update(&mut self, update: ToolCallUpdate) -> Vec<Signal> {
        let runs = update.fields.content.as_ref().is_some_and(|content| !content.is_empty());
        let at = self.merge(update);
        self.progress(at, runs)
    }

    /// Permission is asked for a call, which the agent may never have spoken of.
    pub(super) fn asked(&mut self, update: ToolCallUpdate) -> (ToolCall, Vec<Signal>) {
        // What is asked about may be described in other words than the call itself.
        let mut signals = self.whole();
        let at = self.merge(update);
        signals.extend(self.progress(at, true));
        (self.all[at].call.clone(), signals)
    }

    /// It was refused, and agents differ in whether they ever speak of it again.
    pub(super) fn refuse(&mut self, call: &ToolCall) -> Option<Signal> {
        let known =
            self.all.iter_mut().find(|known| known.call.tool_call_id == call.tool_call_id)?;
        if std::mem::replace(&mut known.ended, true) {
            return None;
        }
        let mut end = ToolEnd::new(&*call.tool_call_id.0, false, "not permitted");
        end.status = ToolStatus::NotRun;
        Some(Signal::ToolReturned(end))
    }

    /// The agent speaks of something else: what was being put together is whole.
    pub(super) fn whole(&mut self) -> Vec<Signal> {
        let mut signals = Vec::new();
        for known in &mut self.all {
            let told = known.call.raw_input.as_ref().and_then(Value::as_object);
            if !known.called && told.is_some_and(|input| !input.is_empty()) {
                signals.push(known.begun());
            }
        }
        signals
    }

    fn place(&mut self, call: ToolCall) -> usize {
        let same = |known: &Known| known.call.tool_call_id == call.tool_call_id;
        if let Some(at) = self.all.iter().position(same) {
            self.all[at].heard(call.meta.as_ref());
            self.all[at].call = call;
            return at;
        }
        let mut known =
            Known { call, called: false, ended: false, printed: String::new(), exit: None };
        let meta = known.call.meta.take();
        known.heard(meta.as_ref());
        known.call.meta = meta;
        self.all.push(known);
        self.all.len() - 1
    }

    fn merge(&mut self, update: ToolCallUpdate) -> usize {
        let same = |known: &Known| known.call.tool_call_id == update.tool_call_id;
        let Some(at) = self.all.iter().position(same) else {
            let mut call = ToolCall::new(update.tool_call_id, String::new());
            call.update(update.fields);
            call.meta = update.meta;
            return self.place(call);
        };
        let known = &mut self.all[at];
        known.heard(update.meta.as_ref());
        known.call.meta = known.call.meta.take().or(update.meta);
        if !known.ended {
            known.call.update(update.fields);
        }
        at
    }

    fn progress(&mut self, at: usize, runs: bool) -> Vec<Signal> {
        let mut signals = Vec::new();
        let known = &mut self.all[at];
        let over = matches!(known.call.status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        if !known.called && (runs || over || known.call.status == ToolCallStatus::InProgress) {
            signals.push(known.begun());
        }
        if over && !std::mem::replace(&mut known.ended, true) {
            signals.push(Signal::ToolReturned(known.end()));
        }
        signals
    }
}

impl Known {
    fn begun(&mut self) -> Signal {
        self.called = true;
        let input = match &self.call.raw_input {
            Some(input) if !input.is_null() => input.to_string(),
            _ => json!({ "title": self.call.title, "paths": paths(&self.call) }).to_string(),
        };
        Signal::ToolCalled { id: self.call.tool_call_id.to_string(), name: name(&self.call), input }
    }

    /// What the adapter of Codex tells of a command, which belongs to no field of the protocol.
    fn heard(&mut self, meta: Option<&Meta>) {
        let Some(meta) = meta else { return };
        let below = |name: &str, field: &str| meta.get(name)?.get(field).cloned();
        if let Some(Value::String(piece)) = below("terminal_output_delta", "data") {
            self.printed.push_str(&piece);
        }
        if let Some(Value::String(whole)) = below("terminal_output", "data") {
            self.printed = whole;
        }
        let exit = below("terminal_exit", "exit_code").and_then(|code| code.as_i64());
        self.exit = exit.and_then(|code| code.try_into().ok()).or(self.exit);
    }

    fn end(&self) -> ToolEnd {
        let done = self.call.status == ToolCallStatus::Completed;
        let mut end = ToolEnd::new(&*self.call.tool_call_id.0, done, self.output());
        end.exit = self.exit.or_else(|| exit(self.call.raw_output.as_ref()?));
        let changes = matches!(self.call.kind, ToolKind::Edit | ToolKind::Move | ToolKind::Delete);
        match (done, changes) {
            (true, true) => end.touching(shown(paths(&self.call))),
            (true, false) => end.touching(shown(diffs(&self.call))),
            _ => end,
        }
    }

    fn output(&self) -> String {
        if !self.printed.is_empty() {
            return self.printed.clone();
        }
        let raw = self.call.raw_output.as_ref();
        if let Some(Value::String(text)) = raw {
            return text.clone();
        }
        let texts = self.call.content.iter().filter_map(|part| match part {
            ToolCallContent::Content(part) => match &part.content {
                ContentBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            },
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        if !texts.is_empty() {
            return texts.join("\n");
        }
        let Some(raw) = raw else { return String::new() };
        // What Codex's adapter hands on of an MCP server.
        let answer = at(raw, &["result"]).and_then(mcp_text);
        let told = ["output", "message", "error"].iter().find_map(|name| text(raw, &[name]));
        let told = told.or_else(|| text(raw, &["error", "message"]));
        answer.unwrap_or_else(|| told.unwrap_or_default().to_owned())
    }
}

/// A shell command's exit status, where the agents that tell it put it.
fn exit(raw: &Value) -> Option<i32> {
    let last = |raw: &Value| raw.get("contents")?.as_array()?.last()?.get("exitCode")?.as_i64();
    let told = at(raw, &["exitCode"]).or_else(|| at(raw, &["metadata", "exit"]));
    told.and_then(Value::as_i64).or_else(|| last(raw))?.try_into().ok()
}

/// Its own name, what the agent calls it beside the protocol, or what kind of tool it is.
pub(super) fn name(call: &ToolCall) -> String {
    let meta = call.meta.as_ref();
    let beside = meta.and_then(|meta| meta.get("toolName")?.as_str());
    let kind = match call.kind {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "execute",
        ToolKind::Think => "think",
        ToolKind::Fetch => "fetch",
        ToolKind::SwitchMode => "switch_mode",
        _ if call.title.is_empty() => "tool",
        _ => call.title.as_str(),
    };
    let own = call.name.as_deref().or(beside).map(str::to_owned).or_else(|| of_server(call));
    own.unwrap_or_else(|| kind.to_owned())
}

/// Codex's adapter says that a tool of an MCP server is executed, and which one beside that.
fn of_server(call: &ToolCall) -> Option<String> {
    let input = call.raw_input.as_ref()?;
    let name = format!("{}.{}", text(input, &["server"])?, text(input, &["tool"])?);
    (call.title == format!("mcp.{name}")).then_some(name)
}

/// Every path that a call names.
pub(super) fn paths(call: &ToolCall) -> Vec<PathBuf> {
    let mut paths = diffs(call);
    for place in &call.locations {
        if !paths.contains(&place.path) {
            paths.push(place.path.clone());
        }
    }
    paths
}

fn diffs(call: &ToolCall) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for part in &call.content {
        if let ToolCallContent::Diff(diff) = part
            && !paths.contains(&diff.path)
        {
            paths.push(diff.path.clone());
        }
    }
    paths
}

fn shown(paths: Vec<PathBuf>) -> impl Iterator<Item = String> {
    paths.into_iter().map(|path| path.to_string_lossy().into_owned())
}
