use insta::assert_snapshot;
use ratatui::{backend::TestBackend, crossterm::event::KeyModifiers, style::Color};
use segue_core::state::Phase;

use super::*;
use crate::tui::testing::{now, row, text};

fn three() -> Vec<Row> {
    let mut rows = vec![
        row(12, "Refactor the parser\nand keep its tests"),
        row(7, "Write the manual"),
        row(3, "Fix the login"),
    ];
    rows[1].name = Some("Handbook".to_owned());
    rows[1].agent = "claude".to_owned();
    rows[2].stop = None;
    rows[2].phase = Phase::Running;
    rows
}

/// What is on a screen of this size.
fn drawn(list: &mut List<'_>, style: &Style, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    show(&mut terminal, list, style).unwrap();
    terminal
}

fn screen(list: &mut List<'_>, width: u16, height: u16) -> String {
    text(drawn(list, &Style::plain(width.into()), width, height).backend().buffer())
}

fn key(list: &mut List<'_>, code: KeyCode) -> Option<End> {
    press(list, code.into())
}

fn control(list: &mut List<'_>, c: char) -> Option<End> {
    press(list, KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL))
}

fn type_in(list: &mut List<'_>, text: &str) {
    for c in text.chars() {
        assert_eq!(key(list, KeyCode::Char(c)), None);
    }
}

fn found(list: &mut List<'_>, query: &str) -> Vec<u64> {
    control(list, 'u');
    type_in(list, query);
    list.fit(100);
    list.shown().filter_map(|(row, _)| row.number).collect()
}

#[test]
fn below_each_other() {
    let rows = three();
    let mut list = List::new(&rows, now());
    assert_snapshot!(screen(&mut list, 70, 20), @"
    search:                                                         3 of 3
    ▸ 12  Refactor the parser and keep its t…  codex   cap:steps  14 h ago
       7  Handbook                             claude  cap:steps  14 h ago
       3  Fix the login                        codex   crashed    14 h ago
    ──────────────────────────────────────────────────────────────────────
    status     cap:steps · 14 h ago
               20 model calls, as many as were allowed
    prompt     Refactor the parser
               and keep its tests
    agent      codex · gpt-5
    spend      3 turns · 412k tokens · $0.12
    workspace  /src/app
    last words The parser is done.
    vendor     019c3e-77aa
    repository github.com/acme/app




    enter choose · esc cancel · ↑ ↓ move · type to search · ctrl-u clear
    ");
}

#[test]
fn beside_each_other() {
    let rows = three();
    let mut list = List::new(&rows, now());
    key(&mut list, KeyCode::Down);
    assert_snapshot!(screen(&mut list, 110, 14), @"
    search:                                                                                                 3 of 3
      12  Refactor the parser and ke…  cap:steps  14 h ago │ status     cap:steps · 14 h ago
    ▸  7  Handbook                     cap:steps  14 h ago │            20 model calls, as many as were allowed
       3  Fix the login                crashed    14 h ago │ name       Handbook
                                                           │ prompt     Write the manual
                                                           │ agent      claude · gpt-5
                                                           │ spend      3 turns · 412k tokens · $0.12
                                                           │ workspace  /src/app
                                                           │ last words The parser is done.
                                                           │ vendor     019c3e-77aa
                                                           │ repository github.com/acme/app
                                                           │
                                                           │
    enter choose · esc cancel · ↑ ↓ move · type to search · ctrl-u clear
    ");
}

#[test]
fn in_a_small_terminal() {
    let rows = three();
    let mut list = List::new(&rows, now());
    assert_snapshot!(screen(&mut list, 40, 10), @"
    search:                           3 of 3
    ▸ 12  Refactor the parser an…  cap:steps
       7  Handbook                 cap:steps
       3  Fix the login            crashed
    ────────────────────────────────────────
    status     cap:steps · 14 h ago
               20 model calls, as many as
               were allowed
    prompt     Refactor the parser         …
    enter choose · esc cancel · ↑ ↓ move ·…
    ");
}

#[test]
fn nothing_is_found() {
    let rows = three();
    let mut list = List::new(&rows, now());
    type_in(&mut list, "parser manual");
    assert_snapshot!(screen(&mut list, 60, 7), @"
    search: parser manual                                 0 of 3
      nothing found · ctrl-u clears the search


    ────────────────────────────────────────────────────────────
    ");
    assert_eq!(key(&mut list, KeyCode::Enter), None);
    for code in [KeyCode::Up, KeyCode::Down, KeyCode::Home, KeyCode::End, KeyCode::PageDown] {
        assert_eq!(key(&mut list, code), None);
        assert_eq!(list.selected(), None);
    }
    control(&mut list, 'u');
    assert_eq!(key(&mut list, KeyCode::Enter), Some(End(Some(0))));
}

#[test]
fn every_size_can_be_drawn() {
    let mut rows = three();
    rows[0].name = Some("漢字の名前がここにある".to_owned());
    let mut list = List::new(&rows, now());
    for width in 0..130 {
        for height in 0..16 {
            screen(&mut list, width, height);
        }
    }
}

#[test]
fn every_word_must_occur_somewhere() {
    let rows = three();
    let mut list = List::new(&rows, now());
    assert_eq!(found(&mut list, ""), [12, 7, 3]);
    assert_eq!(found(&mut list, "PARSER"), [12]);
    assert_eq!(found(&mut list, "  the   wri "), [7]);
    assert_eq!(found(&mut list, "handbook"), [7]);
    assert_eq!(found(&mut list, "claude"), [7]);
    assert_eq!(found(&mut list, "crashed"), [3]);
    assert_eq!(found(&mut list, "cap:steps codex"), [12]);
    assert_eq!(found(&mut list, "acme/app"), [12, 7, 3]);
    assert_eq!(found(&mut list, "019c3e-77aa fix"), [3]);
    assert_eq!(found(&mut list, "#12"), [12]);
    // It is in every id, and the number of one session.
    assert_eq!(found(&mut list, "7"), [7, 12, 3]);
    assert_eq!(found(&mut list, "parsermanual"), [] as [u64; 0]);
}

#[test]
fn the_search_can_be_mended() {
    let rows = three();
    let mut list = List::new(&rows, now());
    type_in(&mut list, "loginx");
    assert_eq!(list.selected(), None);
    key(&mut list, KeyCode::Backspace);
    assert_eq!(key(&mut list, KeyCode::Enter), Some(End(Some(2))));
    assert_eq!(list.query(), "login");
    control(&mut list, 'h');
    assert_eq!(list.query(), "logi");
    control(&mut list, 'u');
    assert_eq!(list.query(), "");
    key(&mut list, KeyCode::Backspace);
    // An unknown control key is not a letter.
    control(&mut list, 'x');
    assert_eq!(list.query(), "");
    press(&mut list, KeyEvent::new(KeyCode::Char('M'), KeyModifiers::SHIFT));
    assert_eq!(list.query(), "M");
}

#[test]
fn there_are_two_ways_to_cancel() {
    let rows = three();
    let mut list = List::new(&rows, now());
    assert_eq!(key(&mut list, KeyCode::Esc), Some(End(None)));
    assert_eq!(control(&mut list, 'c'), Some(End(None)));
}

#[test]
fn keys_move() {
    let rows: Vec<Row> = (1..=50).map(|n| row(n, "Work")).collect();
    let mut list = List::new(&rows, now());
    list.fit(10);
    let mut at = |code| {
        key(&mut list, code);
        list.fit(10);
        let shown: Vec<u64> = list.shown().filter_map(|(row, _)| row.number).collect();
        assert_eq!(shown.len(), 10);
        (list.selected().unwrap() + 1, shown[0])
    };
    assert_eq!(at(KeyCode::Up), (1, 1));
    assert_eq!(at(KeyCode::Down), (2, 1));
    assert_eq!(at(KeyCode::PageDown), (11, 2));
    assert_eq!(at(KeyCode::Up), (10, 2));
    assert_eq!(at(KeyCode::End), (50, 41));
    assert_eq!(at(KeyCode::Down), (50, 41));
    assert_eq!(at(KeyCode::PageUp), (41, 41));
    assert_eq!(at(KeyCode::Home), (1, 1));
    control(&mut list, 'n');
    control(&mut list, 'n');
    control(&mut list, 'p');
    assert_eq!(list.selected(), Some(1));
}

#[test]
fn a_resize_keeps_the_selected_one_in_sight() {
    let rows: Vec<Row> = (1..=50).map(|n| row(n, "Work")).collect();
    let mut list = List::new(&rows, now());
    key(&mut list, KeyCode::End);
    for height in [40, 5, 1, 30, 80] {
        list.fit(height);
        assert!(list.shown().any(|(row, selected)| selected && row.number == Some(50)));
        assert_eq!(list.shown().count(), height.min(50));
    }
}

#[test]
fn one_row_is_a_list_too() {
    let rows = [row(1, "Alone")];
    let mut list = List::new(&rows, now());
    for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Up] {
        key(&mut list, code);
    }
    assert!(screen(&mut list, 60, 12).contains("▸ 1  Alone"));
    assert_eq!(key(&mut list, KeyCode::Enter), Some(End(Some(0))));
}

#[test]
fn of_many_only_the_visible_are_drawn() {
    let rows: Vec<Row> = (1..=10_000).map(|n| row(n, "Work")).collect();
    let mut list = List::new(&rows, now());
    key(&mut list, KeyCode::End);
    let text = screen(&mut list, 80, 24);
    assert!(text.contains("10000 of 10000") && text.contains("▸ 10000  Work"), "{text}");
    assert_eq!(list.shown().count(), 11);
    assert_eq!(found(&mut list, "9999"), [9999]);
}

#[test]
fn a_hostile_prompt_stays_in_its_place() {
    let hostile =
        "\x1b[2J\x1b]0;owned\x07漢字かな混じり文をとても長く書くとどうなるか\r\n\u{202e}b\x08";
    let mut rows = vec![row(1, hostile), row(2, "Plain")];
    rows[0].agent = "a\x1bc\x07".to_owned();
    rows[0].last_text = Some("👩‍👩‍👧 \x1b[31mred".repeat(10_000));
    rows[0].problem = Some("broken\x1b[5m".to_owned());
    let mut list = List::new(&rows, now());
    let text = screen(&mut list, 44, 16);
    assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains("owned"), "{text}");
    assert_snapshot!(text, @"
    search:                               2 of 2
    ▸ 1  ⚠ 漢字かな混じり文をとても…   cap:steps
      2  Plain                         cap:steps
    ────────────────────────────────────────────
    status     cap:steps · 14 h ago
    problem    broken
               20 model calls, as many as were
               allowed
    prompt     漢字かな混じり文をとても長く書く
               とどうなるか
               �b�
    agent      a� · gpt-5
    spend      3 turns · 412k tokens · $0.12
    workspace  /src/app
    last words 👩‍👩‍👧 red👩‍👩‍👧 red👩‍👩‍👧                  …
    enter choose · esc cancel · ↑ ↓ move · type…
    ");
}

#[test]
fn the_end_of_a_long_search_is_seen() {
    let rows = three();
    let mut list = List::new(&rows, now());
    type_in(&mut list, &"字".repeat(30));
    type_in(&mut list, "end");
    let mut terminal = drawn(&mut list, &Style::plain(40), 40, 10);
    let line = text(terminal.backend().buffer()).lines().next().unwrap().to_owned();
    assert_snapshot!(line, @"search: 字字字字字字字字字字end   0 of 3");
    let cursor = terminal.get_cursor_position().unwrap();
    assert_eq!(usize::from(cursor.x), crate::style::width(line.split("end").next().unwrap()) + 3);
}

#[test]
fn colours_are_there_where_they_are_wanted() {
    let rows = three();
    let mut list = List::new(&rows, now());
    let mut colours = |color| {
        let style = Style { color, ..Style::plain(80) };
        let terminal = drawn(&mut list, &style, 80, 20);
        let cells = &terminal.backend().buffer().content;
        let plain = cells.iter().all(|cell| cell.fg == Color::Reset && cell.modifier.is_empty());
        (plain, cells.iter().filter(|cell| cell.fg == Color::Red).count())
    };
    assert_eq!(colours(false), (true, 0));
    assert_eq!(colours(true), (false, "crashed".len()));
}
