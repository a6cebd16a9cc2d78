//! What is said about the selected session: first where it stands, then what it is about.

use jiff::Timestamp;
use ratatui::layout::Rect;

use crate::{
    row::Row,
    style::{Paint, Style, count, money, relative, sanitize, tokens, wrap},
    table::{agents, status_paint},
    tui::canvas::Canvas,
};

/// How wide the names on the left are.
const LABEL: usize = 11;

/// `next`: the command that helps, where it is to be said.
pub(crate) fn draw(
    row: &Row,
    next: Option<&str>,
    now: Timestamp,
    room: Rect,
    canvas: &mut Canvas<'_>,
) {
    if room.is_empty() {
        return;
    }
    let mut page = Page {
        width: usize::from(room.width).saturating_sub(LABEL),
        // No text can fill more than the room, however long it is.
        most: usize::from(room.width) * usize::from(room.height),
        lines: Vec::new(),
    };
    standing(row, now, canvas.style, &mut page);
    if let Some(next) = next {
        page.add("next", Paint::Cyan, next);
    }
    subject(row, &mut page);
    let left_out = page.lines.len() > room.height.into();
    for (line, (label, paint, text)) in room.rows().zip(&page.lines) {
        canvas.put(line, 0, Paint::Dim, label);
        canvas.put(line, LABEL, *paint, text);
    }
    if left_out && let Some(last) = room.rows().next_back() {
        canvas.put(last, usize::from(room.width) - 1, Paint::Dim, "…");
    }
}

struct Page {
    width: usize,
    /// How many characters of a text are looked at.
    most: usize,
    lines: Vec<(&'static str, Paint, String)>,
}

impl Page {
    fn add(&mut self, label: &'static str, paint: Paint, text: &str) {
        let head: String = text.chars().take(self.most).collect();
        // One column stays free: for the sign that there is more.
        for (n, line) in wrap(head.trim(), self.width.saturating_sub(1)).into_iter().enumerate() {
            self.lines.push((if n == 0 { label } else { "" }, paint, line));
        }
    }
}

fn standing(row: &Row, now: Timestamp, style: &Style, page: &mut Page) {
    let status = row.status();
    let text = format!("{status} · {}", relative(row.updated_at, now));
    page.add("status", status_paint(status), &text);
    if let Some(problem) = &row.problem {
        page.add("problem", Paint::Yellow, problem);
    }
    if let Some(holder) = &row.holder {
        page.add("", Paint::Plain, &holder.to_string());
    } else if let Some(stop) = &row.stop {
        page.add("", Paint::Plain, &stop.message);
        if let Some(at) = stop.resets_at {
            let text = format!("resets {} ({})", relative(at, now), style.date_and_time(at));
            page.add("", Paint::Plain, &text);
        }
    }
}

fn subject(row: &Row, page: &mut Page) {
    if let Some(name) = &row.name {
        page.add("name", Paint::Bold, name);
    }
    page.add("prompt", Paint::Plain, &row.prompt);
    let agent = match &row.model {
        _ if !row.crew.is_empty() => agents(row),
        Some(model) => format!("{} · {model}", row.agent),
        None => row.agent.clone(),
    };
    page.add("agent", Paint::Plain, &agent);
    let spend = format!(
        "{} · {} tokens · {}",
        count(row.turns.into(), "turn"),
        tokens(row.tokens),
        money(row.cost, row.unpriced_calls)
    );
    page.add("spend", Paint::Plain, &spend);
    page.add("workspace", Paint::Plain, &row.workspace.display().to_string());
    if let Some(text) = &row.last_text {
        page.add("last words", Paint::Plain, text);
    }
    let ids: Vec<_> = row.vendor_ids.iter().map(|id| sanitize(id)).collect();
    page.add("vendor", Paint::Plain, &ids.join("\n"));
    page.add("repository", Paint::Plain, &row.repo_identity);
}
