//! What `--json` prints. Names stay as they are: scripts depend on them. Times are RFC 3339, money
//! is in millionths of a dollar, what is not known is absent or null.

use std::path::PathBuf;

use jiff::Timestamp;
use segue_core::{
    Identity, Permission, SessionId, State,
    caps::Caps,
    event::{QuotaTold, SessionStopped},
    identity::LoopKind,
    state::VendorSession,
    status::Status,
    usage::Usage,
};
use segue_journal::lock::Holder;
use serde::Serialize;

use crate::{
    crew::{self, MemberRow},
    row::Row,
    show::Show,
};

/// A status as one word: `completed`, `agent_crashed`, `cap:turns`.
#[must_use]
pub fn status_word(status: Status) -> String {
    status.to_string().replace(' ', "_")
}

/// One session of `segue list --json`.
#[derive(Debug, Serialize)]
pub struct RowJson<'a> {
    pub number: Option<u64>,
    pub id: SessionId,
    pub name: Option<&'a str>,
    pub status: String,
    pub resumable: bool,
    pub stop: Option<&'a SessionStopped>,
    pub repo: &'a str,
    pub repo_identity: &'a str,
    pub workspace: &'a std::path::Path,
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    pub agent: &'a str,
    pub model: Option<&'a str>,
    pub prompt: &'a str,
    pub turns: u32,
    /// Of a pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub reviewers: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crew: Option<CrewJson<'a>>,
    pub runs: u32,
    pub tokens: u64,
    pub cost_micros: u64,
    pub unpriced_calls: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub last_text: Option<&'a str>,
    pub vendor_ids: &'a [String],
    pub problem: Option<&'a str>,
    pub holder: Option<&'a Holder>,
}

/// A crew in a list: what `segue show` has is more.
#[derive(Debug, Serialize)]
pub struct CrewJson<'a> {
    /// `1 waiting: coder · 2 idle`
    pub standing: String,
    pub members: &'a [MemberRow],
}

impl<'a> From<&'a Row> for RowJson<'a> {
    fn from(row: &'a Row) -> Self {
        let status = row.status();
        Self {
            number: row.number,
            id: row.at.id,
            name: row.name.as_deref(),
            status: status_word(status),
            resumable: status.is_resumable(),
            stop: row.stop.as_ref(),
            repo: &row.at.repo,
            repo_identity: &row.repo_identity,
            workspace: &row.workspace,
            loop_kind: row.loop_kind,
            agent: &row.agent,
            model: row.model.as_deref(),
            prompt: &row.prompt,
            turns: row.turns,
            iteration: matches!(row.loop_kind, LoopKind::Pair | LoopKind::Tasks)
                .then_some(row.iteration),
            max_iterations: row.max_iterations,
            reviewers: &row.reviewers,
            crew: (row.loop_kind == LoopKind::Crew)
                .then(|| CrewJson { standing: crew::standing(&row.crew), members: &row.crew }),
            runs: row.runs,
            tokens: row.tokens,
            cost_micros: row.cost.0,
            unpriced_calls: row.unpriced_calls,
            created_at: row.created_at,
            updated_at: row.updated_at,
            last_text: row.last_text.as_deref(),
            vendor_ids: &row.vendor_ids,
            problem: row.problem.as_deref(),
            holder: row.holder.as_ref(),
        }
    }
}

/// `segue show --json`.
#[derive(Debug, Serialize)]
pub struct ShowJson<'a> {
    pub number: Option<u64>,
    pub id: SessionId,
    pub name: Option<&'a str>,
    pub status: String,
    pub resumable: bool,
    pub stop: Option<&'a SessionStopped>,
    /// The command that goes on from here.
    pub next: String,
    pub dir: &'a std::path::Path,
    pub workspace: Option<&'a std::path::Path>,
    pub agent: Option<&'a str>,
    pub model: Option<&'a str>,
    pub permission: Permission,
    pub vendors: Vec<VendorJson<'a>>,
    pub quotas: &'a [QuotaTold],
    pub unread_lines: u64,
    pub identity: Option<&'a Identity>,
    pub events: u64,
    pub turns: u32,
    pub runs: u32,
    pub tool_calls: u64,
    pub usage: Usage,
    pub tokens: u64,
    pub cost_micros: u64,
    pub unpriced_calls: u64,
    pub caps: Caps,
    pub created_at: Option<Timestamp>,
    pub updated_at: Option<Timestamp>,
    pub last_text: Option<&'a str>,
    /// Of a crew, all that `segue crew status --json` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crew: Option<serde_json::Value>,
    pub problem: Option<&'a str>,
    pub holder: Option<&'a Holder>,
    pub files: Vec<FileJson>,
}

/// A vendor's part of a session: all that is needed to find it again.
#[derive(Debug, Serialize)]
pub struct VendorJson<'a> {
    /// The name of Segue's session.
    pub session_name: Option<&'a str>,
    #[serde(flatten)]
    pub vendor: &'a VendorSession,
}

impl<'a> VendorJson<'a> {
    fn of(state: &'a State, vendor: &'a VendorSession) -> Self {
        Self { session_name: state.name.as_deref(), vendor }
    }
}

/// One file or directory of a session.
#[derive(Debug, Serialize)]
pub struct FileJson {
    pub path: PathBuf,
    /// Absent for a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl<'a> From<&'a Show> for ShowJson<'a> {
    fn from(show: &'a Show) -> Self {
        let state = &show.state;
        let identity = state.identity.as_ref();
        Self {
            number: show.number,
            id: show.id,
            name: state.name.as_deref(),
            status: status_word(show.status()),
            resumable: show.status().is_resumable(),
            stop: state.stop.as_ref(),
            next: show.advice(),
            dir: &show.dir,
            workspace: state.workspace(),
            agent: identity.map(|_| state.agent()),
            model: state.model(),
            permission: state.permission(),
            vendors: state.vendors.iter().map(|vendor| VendorJson::of(state, vendor)).collect(),
            quotas: &state.quotas,
            unread_lines: state.unread_lines,
            identity,
            events: state.seq,
            turns: state.turn.number,
            runs: state.runs,
            tool_calls: state.tool_calls,
            usage: state.usage,
            tokens: state.usage.total(),
            cost_micros: state.cost.0,
            unpriced_calls: state.unpriced_calls,
            caps: state.caps,
            created_at: identity.map(|identity| identity.created_at),
            updated_at: state.updated_at,
            last_text: state.last_text.as_deref(),
            crew: state.crew.as_ref().map(|_| crew::json(state, show.holder.is_some())),
            problem: show.problem.as_deref(),
            holder: show.holder.as_ref(),
            files: show
                .files
                .iter()
                .map(|file| FileJson { path: show.dir.join(&file.name), bytes: file.bytes })
                .collect(),
        }
    }
}

/// One event of `segue log --json`: its journal line without the frame.
#[must_use]
pub fn event_json(event: &segue_core::Event) -> serde_json::Value {
    let data = event.body.data().ok().and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut value = serde_json::json!({
        "seq": event.seq, "at": event.at, "kind": event.body.kind(),
        "data": data.unwrap_or(serde_json::Value::Null),
    });
    let mut add = |name: &str, field: Option<serde_json::Value>| {
        if let Some(field) = field {
            value[name] = field;
        }
    };
    add("turn", event.turn.map(Into::into));
    add("agent", event.agent.clone().map(Into::into));
    add("id", event.id.clone().map(Into::into));
    value
}
