//! How the screen looks, at any size. Nothing here changes anything but the buffer, and how much of
//! a list is seen.
//!
//! ```text
//! 12 sessions · 2 running · 1 waiting            /parser · active only
//!   # state      progress  agents  spend  age    last words
//! ▸ 7 running    turn 3    codex   412k   now    The tests pass.
//!   8 running    2/2 up    2 agents   –   now    1 waiting: coder · 1 idle
//!     ├ coder   claude  waiting  3 min  ⏸ Allow `cargo publish`?
//!     └ tester  codex   idle     now
//! ─────────────────────────────────────────────────────────────────
//! status     running · now                       where there is height for it
//! hand session 7 to: clau
//! enter follow · r resume · s stop …
//! ```

use ratatui::{
    Frame,
    layout::{Position, Rect},
};

use segue_core::event::Doing;

use crate::{
    row::Row,
    style::{Line, Paint, Style, count, sanitize, shorten, width},
    table::status_paint,
    tui::{canvas::Canvas, preview},
};

use super::{
    Action, Order,
    board::{Board, Mode},
    columns::{Columns, next, progress, task},
    follow::Follow,
    rows::{Rank, Shown, members, rank},
};

const LEAST: (u16, u16) = (40, 8);
/// How many lines the details have, and how many the table keeps for itself.
const DETAILS: u16 = 8;
const TABLE: u16 = 6;

/// All of them, also at 80 columns; what is narrower has those that are needed most.
const KEYS: [Keys; 3] = [
    "enter follow · r resume · s stop · h hand off · o files · / filter · a active only · ? help · q quit",
    "⏎ follow  r resume  s stop  h hand  o files  / filter  a active  ? help  q quit",
    "enter follow · r resume · s stop · h hand off · / filter · ? help · q quit",
];
const FOLLOW_KEYS: [Keys; 3] = [
    "esc back · ↑ ↓ scroll · end follow · r resume · s stop · h hand off · o files · ? help · q quit",
    "esc back  ↑↓ scroll  end last  r resume  s stop  h hand  o files  ? help  q quit",
    "esc back · ↑ ↓ scroll · end follow · r resume · s stop · ? help · q quit",
];
const HELP: [(&str, &str); 13] = [
    ("↑ ↓  j k", "move; PgUp, PgDn, Home and End too"),
    ("enter", "follow the session live; esc comes back"),
    ("r", "resume it in the background"),
    ("s", "stop it; asks first"),
    ("h", "hand it off to another agent; asks first"),
    ("o", "open its files with $VISUAL, $EDITOR, $PAGER or less"),
    ("/", "filter: every word must occur; esc clears"),
    ("a", "only those that run or wait"),
    ("?", "this help; any key ends it"),
    ("q  ctrl-c", "quit; what runs goes on running"),
    ("", ""),
    ("running", "a process works on it"),
    ("waiting", "limit, overloaded, unreachable, not signed in, crashed, unattended"),
];

/// What is where.
struct Rooms {
    head: Rect,
    body: Rect,
    message: Rect,
    keys: Rect,
}

impl Rooms {
    fn of(area: Rect) -> Self {
        let line = |at: u16, lines: u16| Rect { y: area.y + at, height: lines, ..area };
        let height = area.height;
        Self {
            head: line(0, 1),
            body: line(1, height - 3),
            message: line(height - 2, 1),
            keys: line(height - 1, 1),
        }
    }
}

pub(super) fn draw(board: &mut Board, style: &Style, frame: &mut Frame<'_>) {
    let area = frame.area();
    let mut canvas = Canvas { style, buffer: frame.buffer_mut() };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(area, &mut canvas);
    }
    let rooms = Rooms::of(area);
    let keys = match (&board.mode, board.follow.is_some()) {
        (Mode::Help, _) => help(&rooms, &mut canvas),
        (_, true) => follow(board, &rooms, &mut canvas),
        (_, false) => table(board, &rooms, &mut canvas),
    };
    let (keys, cursor) = foot(board, keys, rooms.message, &mut canvas);
    canvas.put(rooms.keys, 0, Paint::Dim, &shorten(keys, rooms.keys.width.into()));
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

fn too_small(area: Rect, canvas: &mut Canvas<'_>) {
    let (columns, lines) = LEAST;
    let text = format!(
        "This window is a little small: {columns}×{lines} is the least, 80×24 is comfortable. q quits."
    );
    for (line, text) in area.rows().zip(crate::style::wrap(&text, area.width.into())) {
        canvas.put(line, 0, Paint::Plain, &text);
    }
}

/// Each part says which keys it has.
type Keys = &'static str;

fn fitting(keys: [Keys; 3], room: Rect) -> Keys {
    let [_, _, short] = keys;
    keys.into_iter().find(|keys| width(keys) <= room.width.into()).unwrap_or(short)
}

fn help(rooms: &Rooms, canvas: &mut Canvas<'_>) -> Keys {
    canvas.put(rooms.head, 0, Paint::Bold, "segue dashboard");
    for (line, (key, what)) in rooms.body.rows().skip(1).zip(HELP) {
        canvas.put(line, 2, Paint::Cyan, key);
        canvas.put(line, 14, Paint::Plain, what);
    }
    "any key comes back"
}

fn table(board: &mut Board, rooms: &Rooms, canvas: &mut Canvas<'_>) -> Keys {
    let (now, body) = (board.rows.now, rooms.body);
    head(board, rooms.head, canvas);
    let has_details = body.height > TABLE + DETAILS;
    let details = if has_details { DETAILS } else { 0 };
    let list =
        Rect { y: body.y + 1, height: body.height - 1 - details - u16::from(has_details), ..body };
    board.rows.fit(list.height.into());
    let columns = Columns::of(board.rows.found(), now, body.width.into());
    canvas.put_line(Rect { height: 1, ..body }, &columns.head());
    for (line, shown) in list.rows().zip(board.rows.shown()) {
        let text = match shown {
            Shown::Session { row, selected } => columns.line(row, selected),
            Shown::Member { row, member } => columns.member(row, member),
        };
        canvas.put_line(line, &text);
    }
    if board.rows.found().len() == 0 {
        canvas.put(list, 2, Paint::Dim, nothing(board));
    }
    if has_details && let Some(row) = board.rows.selected() {
        canvas.rule(Rect { y: list.bottom(), height: 1, ..body });
        let room = Rect { y: list.bottom() + 1, height: details, ..body };
        preview::draw(row, Some(&next(row)), now, room, canvas);
    }
    fitting(KEYS, rooms.keys)
}

fn nothing(board: &Board) -> &'static str {
    match (board.rows.all().is_empty(), board.rows.filter.is_empty()) {
        (true, _) => "there is no session yet: segue run \"…\" starts one",
        (_, false) => "nothing found · esc clears the filter",
        (_, true) => "nothing is active · a shows all",
    }
}

/// How many there are, and which of them are shown.
fn head(board: &Board, room: Rect, canvas: &mut Canvas<'_>) {
    let all = board.rows.all();
    let of = |wanted: Rank| all.iter().filter(|row| rank(row) == wanted).count();
    let (running, waiting) = (of(Rank::Running), of(Rank::Waiting));
    let mut line = Line::new().with(Paint::Bold, count(all.len() as u64, "session"));
    if running > 0 {
        line = line.plain(" · ").with(Paint::Cyan, format!("{running} running"));
    }
    if waiting > 0 {
        line = line.plain(" · ").with(Paint::Yellow, format!("{waiting} waiting"));
    }
    // Whoever of a crew waits, waits for a person, while the crew itself runs.
    let agents: usize = all.iter().map(waiting_members).sum();
    if agents > 0 {
        let verb = if agents == 1 { "waits" } else { "wait" };
        let text = format!("{} {verb}", count(agents as u64, "agent"));
        line = line.plain(" · ").with(Paint::Yellow, text);
    }
    canvas.put_line(room, &line);
    let mut shown = Vec::new();
    if !board.rows.filter.is_empty() {
        shown.push(format!("/{}", shorten(&sanitize(&board.rows.filter), 20)));
    }
    if board.rows.active_only {
        shown.push("active only".to_owned());
    }
    if !shown.is_empty() {
        shown.push(format!("{} shown", board.rows.found().len()));
    }
    let shown = shown.join(" · ");
    let column = usize::from(room.width).saturating_sub(width(&shown));
    canvas.put(room, column, Paint::Bold, &shown);
}

fn waiting_members(row: &Row) -> usize {
    let shown = row.crew.iter().take(members(row));
    shown.filter(|member| member.doing == Doing::Waiting).count()
}

fn follow(board: &mut Board, rooms: &Rooms, canvas: &mut Canvas<'_>) -> Keys {
    let mut title = Line::new();
    if let Some(row) = board.subject() {
        let status = row.status();
        title = title
            .with(Paint::Bold, format!("#{} ", row.selector()))
            .with(status_paint(status), status.to_string())
            .plain(format!(" · {} · {} · ", progress(row), sanitize(&row.agent)))
            .with(Paint::Dim, sanitize(task(row)).into_owned());
    }
    canvas.put_line(rooms.head, &title);
    let rule = Rect { height: 1, ..rooms.body };
    canvas.rule(rule);
    let room = Rect { y: rule.y + 1, height: rooms.body.height - 1, ..rooms.body };
    if let Some(follow) = &mut board.follow {
        follow.fit(room.height.into());
        for (line, text) in room.rows().zip(follow.shown()) {
            canvas.put_line(line, text);
        }
        more_below(follow, rule, canvas);
    }
    fitting(FOLLOW_KEYS, rooms.keys)
}

fn more_below(follow: &Follow, rule: Rect, canvas: &mut Canvas<'_>) {
    if follow.below() > 0 {
        let text = format!(" {} below ", count(follow.below() as u64, "line"));
        let column = usize::from(rule.width).saturating_sub(width(&text) + 2);
        canvas.put(rule, column, Paint::Yellow, &text);
    }
}

/// The line for questions, answers and what went wrong, and where the cursor belongs.
fn foot(
    board: &Board,
    keys: Keys,
    room: Rect,
    canvas: &mut Canvas<'_>,
) -> (Keys, Option<Position>) {
    match &board.mode {
        Mode::Filter => {
            let found = format!("{} of {}", board.rows.found().len(), board.rows.all().len());
            let cursor = canvas.input(room, "filter: ", &board.rows.filter, &found);
            ("enter keep · esc clear · ↑ ↓ move · ctrl-u empty", Some(cursor))
        }
        Mode::Agent(agent) => {
            let which = board.subject().map(|row| row.selector()).unwrap_or_default();
            let cursor = canvas.input(room, &format!("hand session {which} to: "), agent, "");
            ("enter go on · esc cancel · segue agents lists them", Some(cursor))
        }
        Mode::Sure(order) => {
            canvas.put(room, 0, Paint::Yellow, &question(order));
            ("y yes · n no", None)
        }
        Mode::Look | Mode::Help => {
            let text = sanitize(&board.message);
            canvas.put(room, 0, Paint::Yellow, &shorten(&text, room.width.into()));
            (keys, None)
        }
    }
}

fn question(order: &Order) -> String {
    let session = format!("session {}", order.selector);
    match &order.action {
        Action::Stop => format!("stop {session}? It can be resumed at any time. (y/n)"),
        Action::HandOff { to } if order.running => {
            format!("hand {session} to {} at the end of its turn? (y/n)", sanitize(to))
        }
        Action::HandOff { to } => format!("go on with {session} with {}? (y/n)", sanitize(to)),
        Action::Resume => format!("resume {session}? (y/n)"),
        Action::Open => format!("open the files of {session}? (y/n)"),
    }
}
