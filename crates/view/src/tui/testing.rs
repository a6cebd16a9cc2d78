//! What tests of screens share: a time, a row, and a screen as text.

use jiff::{Timestamp, ToSpan};
use ratatui::buffer::Buffer;
use segue_core::{
    SessionId,
    caps::Cap,
    event::{Reason, SessionStopped},
    identity::LoopKind,
    state::Phase,
    usage::Micros,
};
use segue_journal::home::Located;

use crate::row::Row;

pub(crate) fn now() -> Timestamp {
    "2026-11-15T18:00:00Z".parse().unwrap()
}

pub(crate) fn row(number: u64, prompt: &str) -> Row {
    let at = now() - 14.hours();
    Row {
        number: Some(number),
        at: Located { repo: "app-1".to_owned(), id: SessionId::from_parts(1, number.into()) },
        repo_identity: "github.com/acme/app".to_owned(),
        name: None,
        loop_kind: LoopKind::Unknown,
        agent: "codex".to_owned(),
        model: Some("gpt-5".to_owned()),
        prompt: prompt.to_owned(),
        phase: Phase::Stopped,
        stop: Some(SessionStopped {
            reason: Reason::Cap,
            agent: None,
            cap: Some(Cap::Steps),
            signal: None,
            resets_at: None,
            message: "20 model calls, as many as were allowed".to_owned(),
            hint: None,
        }),
        turns: 3,
        iteration: 0,
        max_iterations: None,
        reviewers: Vec::new(),
        crew: Vec::new(),
        runs: 1,
        tokens: 412_000,
        cost: Micros(120_000),
        unpriced_calls: 0,
        created_at: at,
        updated_at: at,
        workspace: "/src/app".into(),
        last_text: Some("The parser is done.".to_owned()),
        vendor_ids: vec!["019c3e-77aa".to_owned()],
        problem: None,
        holder: None,
    }
}

pub(crate) fn text(buffer: &Buffer) -> String {
    let line = |cells: &[ratatui::buffer::Cell]| {
        let mut skip = 0;
        let mut line = String::new();
        for cell in cells {
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = crate::style::width(cell.symbol());
            }
            skip = skip.saturating_sub(1);
        }
        line.trim_end().to_owned()
    };
    let width = usize::from(buffer.area.width).max(1);
    buffer.content.chunks(width).map(line).collect::<Vec<_>>().join("\n")
}
