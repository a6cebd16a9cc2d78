use std::sync::Arc;

use insta::assert_snapshot;
use jiff::ToSpan;
use ratatui::{
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};
use segue_core::{
    Event as Happened, Payload, SessionId,
    event::{Doing, Reason, TextWritten},
    identity::LoopKind,
    state::Phase,
    usage::Micros,
};
use segue_journal::{Home, RealDisk, lock::Holder};

use super::{board::Mode, *};
use crate::{
    crew::MemberRow,
    tui::testing::{now, row, text},
};

fn running(number: u64, prompt: &str) -> Row {
    let mut row = row(number, prompt);
    row.phase = Phase::Running;
    row.stop = None;
    row.updated_at = now();
    row.holder = Some(Holder { pid: 4711, host: "here".to_owned(), since: now() });
    row
}

fn stopped(number: u64, reason: Reason, hours: i64) -> Row {
    let mut row = row(number, &format!("Task {number}"));
    let stop = row.stop.as_mut().unwrap();
    (stop.reason, stop.cap, stop.message) = (reason, None, format!("why {number} stopped"));
    row.updated_at = now() - hours.hours();
    row
}

fn five() -> Vec<Row> {
    let mut rows = vec![
        stopped(1, Reason::Done, 1),
        stopped(2, Reason::Limit, 30),
        running(3, "Refactor the parser\nand keep its tests"),
        row(4, "Write the manual"),
        running(5, "漢字の表を書く"),
    ];
    rows[1].stop.as_mut().unwrap().resets_at = Some(now() + 2.hours());
    rows[2].last_text = Some("First line.\n\nThe tests pass. \n".to_owned());
    rows[3].name = Some("Handbook".to_owned());
    rows[3].agent = "claude".to_owned();
    rows[4].created_at = now();
    rows[4].last_text = None;
    rows[4].turns = 0;
    rows
}

fn board(rows: Vec<Row>) -> Board {
    let mut board = Board::new(now());
    board.rows.take(rows);
    board
}

fn drawn(board: &mut Board, style: &Style, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    show(&mut terminal, board, style).unwrap();
    terminal
}

fn screen(board: &mut Board, width: u16, height: u16) -> String {
    text(drawn(board, &Style::plain(width.into()), width, height).backend().buffer())
}

fn key(board: &mut Board, code: KeyCode) -> Option<Wish> {
    board.press(code.into())
}

fn type_in(board: &mut Board, text: &str) -> Option<Wish> {
    text.chars().filter_map(|c| key(board, KeyCode::Char(c))).last()
}

fn numbers(board: &mut Board) -> Vec<u64> {
    board.rows.fit(100);
    let number = |shown| match shown {
        rows::Shown::Session { row, .. } => row.number,
        rows::Shown::Member { .. } => None,
    };
    board.rows.shown().filter_map(number).collect()
}

fn selected(board: &Board) -> u64 {
    board.rows.selected().unwrap().number.unwrap()
}

#[test]
fn on_eighty_by_twenty_four() {
    assert_snapshot!(screen(&mut board(five()), 80, 24), @"
    5 sessions · 2 running · 1 waiting
      #  state      progress  agents       spend  age     last words
    ▸ 5  running    –         codex   412k $0.12  now     漢字の表を書く
      3  running    turn 3    codex   412k $0.12  now     The tests pass.
      2  limit      turn 3    codex   412k $0.12  30 h    The parser is done.
      1  completed  turn 3    codex   412k $0.12  1 h     The parser is done.
      4  cap:steps  turn 3    claude  412k $0.12  14 h    The parser is done.






    ────────────────────────────────────────────────────────────────────────────────
    status     running · now
               process 4711 on here, since 2026-11-15T18:00:00Z
    next       segue watch 5
    prompt     漢字の表を書く
    agent      codex · gpt-5
    spend      0 turns · 412k tokens · $0.12
    workspace  /src/app
    vendor     019c3e-77aa                                                         …

    ⏎ follow  r resume  s stop  h hand  o files  / filter  a active  ? help  q quit
    ");
}

#[test]
fn on_a_large_terminal() {
    let mut board = board(five());
    key(&mut board, KeyCode::End);
    assert_snapshot!(screen(&mut board, 120, 40), @"
    5 sessions · 2 running · 1 waiting
      #  state      progress  agents       spend  age     task                          last words
      5  running    –         codex   412k $0.12  now     漢字の表を書く                漢字の表を書く
      3  running    turn 3    codex   412k $0.12  now     Refactor the parser and kee…  The tests pass.
      2  limit      turn 3    codex   412k $0.12  30 h    Task 2                        The parser is done.
      1  completed  turn 3    codex   412k $0.12  1 h     Task 1                        The parser is done.
    ▸ 4  cap:steps  turn 3    claude  412k $0.12  14 h    Handbook                      The parser is done.






















    ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    status     cap:steps · 14 h ago
               20 model calls, as many as were allowed
    next       segue resume 4 --max-steps N
    name       Handbook
    prompt     Write the manual
    agent      claude · gpt-5
    spend      3 turns · 412k tokens · $0.12
    workspace  /src/app                                                                                                    …

    enter follow · r resume · s stop · h hand off · o files · / filter · a active only · ? help · q quit
    ");
}

#[test]
fn without_room_for_details() {
    let mut board = board(five());
    assert_snapshot!(screen(&mut board, 44, 8), @"
    5 sessions · 2 running · 1 waiting
      #  state      progress  last words
    ▸ 5  running    –         漢字の表を書く
      3  running    turn 3    The tests pass.
      2  limit      turn 3    The parser is don…
      1  completed  turn 3    The parser is don…

    enter follow · r resume · s stop · h hand o…
    ");
}

/// A crew of so many: one who waits, and others who do not.
fn crew(number: u64, count: u64) -> Row {
    let mut row = running(number, "");
    (row.loop_kind, row.name) = (LoopKind::Crew, Some("app".to_owned()));
    (row.agent, row.model, row.turns) = ("crew".to_owned(), None, 0);
    (row.tokens, row.cost) = (0, Micros(0));
    let member = |n| MemberRow {
        name: if n == 1 { "coder".to_owned() } else { format!("tester-{n}") },
        agent: if n == 1 { "claude".to_owned() } else { "codex".to_owned() },
        doing: if n == 1 { Doing::Waiting } else { Doing::Idle },
        what: (n == 1).then(|| "Allow \x1b[2J`cargo publish`?\n(y/n)".to_owned()),
        since: Some(now() - 3.minutes()),
    };
    row.crew = (1..=count).map(member).collect();
    row.last_text = Some(crate::crew::standing(&row.crew));
    row
}

#[test]
fn a_crew_is_a_tree() {
    let mut rows = five();
    rows.push(crew(6, 3));
    assert_snapshot!(screen(&mut board(rows.clone()), 80, 24), @"
    6 sessions · 3 running · 1 waiting · 1 agent waits
      #  state      progress  agents         spend  age     last words
    ▸ 5  running    –         codex     412k $0.12  now     漢字の表を書く
      6  running    3/3 up    3 agents           –  now     1 waiting: coder · 2 id…
         ├ coder     claude  waiting  3 min   ⏸ Allow `cargo publish`? (y/n)
         ├ tester-2  codex   idle     3 min
         └ tester-3  codex   idle     3 min
      3  running    turn 3    codex     412k $0.12  now     The tests pass.
      2  limit      turn 3    codex     412k $0.12  30 h    The parser is done.
      1  completed  turn 3    codex     412k $0.12  1 h     The parser is done.
      4  cap:steps  turn 3    claude    412k $0.12  14 h    The parser is done.


    ────────────────────────────────────────────────────────────────────────────────
    status     running · now
               process 4711 on here, since 2026-11-15T18:00:00Z
    next       segue watch 5
    prompt     漢字の表を書く
    agent      codex · gpt-5
    spend      0 turns · 412k tokens · $0.12
    workspace  /src/app
    vendor     019c3e-77aa                                                         …

    ⏎ follow  r resume  s stop  h hand  o files  / filter  a active  ? help  q quit
    ");
    sort(&mut rows);
    let screen = screen(&mut board(rows.clone()), 80, 24).replace('▸', " ");
    assert!(screen.contains(&table(&rows, &Style::plain(80), now())), "{screen}");
    // Of one that was taken down, nobody has anything to say.
    let mut down = crew(6, 3);
    (down.phase, down.stop) = (Phase::Stopped, stopped(6, Reason::Interrupted, 0).stop);
    assert!(!self::screen(&mut board(vec![down]), 80, 24).contains('├'));
    // Its watcher has died.
    let mut alone = crew(6, 3);
    alone.holder = None;
    let text = self::screen(&mut board(vec![alone]), 80, 24);
    assert!(text.contains("1 waiting") && text.contains("unattended  3/3 up"), "{text}");
}

#[test]
fn those_who_wait_stand_out() {
    let mut board = board(vec![crew(6, 3)]);
    let style = Style { color: true, ..Style::plain(80) };
    let terminal = drawn(&mut board, &style, 80, 12);
    let cells = &terminal.backend().buffer().content;
    let yellow: String =
        cells.iter().filter(|cell| cell.fg == Color::Yellow).map(|cell| cell.symbol()).collect();
    assert!(yellow.contains("coder") && yellow.contains("⏸ Allow `cargo publish`? (y/n)"));
}

#[test]
fn a_tree_scrolls_with_its_crew() {
    // From the top: crew 9 with 4 members, then 8 to 5, and crew 4 with 4 at the end.
    let mut rows: Vec<Row> = (5..=8).map(|n| running(n, "Task")).collect();
    rows.extend([crew(9, 4), crew(4, 4)]);
    for row in &mut rows {
        row.created_at = now() + i64::try_from(row.number.unwrap()).unwrap().minutes();
    }
    let mut board = board(rows);
    let at = |board: &mut Board, code| {
        key(board, code);
        board.rows.fit(6);
        (selected(board), board.rows.shown().count())
    };
    board.rows.fit(6);
    assert_eq!(at(&mut board, KeyCode::Down), (8, 6));
    assert_eq!(at(&mut board, KeyCode::Down), (7, 6));
    assert_eq!(at(&mut board, KeyCode::Up), (8, 6));
    // Up from below a tree is its crew, not one in it; then all of the tree is seen.
    assert_eq!(at(&mut board, KeyCode::Up), (9, 6));
    assert_snapshot!(screen(&mut board, 60, 10), @"
    6 sessions · 6 running · 2 agents wait
      #  state      progress  agents    age     last words
    ▸ 9  running    4/4 up    4 agents  now     1 waiting: code…
         ├ coder     claude  waiting  3 min   ⏸ Allow `cargo pu…
         ├ tester-2  codex   idle     3 min
         ├ tester-3  codex   idle     3 min
         └ tester-4  codex   idle     3 min
      8  running    turn 3    codex     now     The parser is d…

    enter follow · r resume · s stop · h hand off · / filter ·…
    ");
    // A page goes as many lines as are seen.
    assert_eq!(at(&mut board, KeyCode::PageDown), (8, 6));
    assert_eq!(at(&mut board, KeyCode::PageDown), (4, 6));
    assert_eq!(at(&mut board, KeyCode::Down), (4, 6));
    assert!(screen(&mut board, 60, 10).contains("└ tester-4"), "the last one is seen");
    assert_eq!(at(&mut board, KeyCode::PageUp), (9, 6));
    assert_eq!(at(&mut board, KeyCode::End), (4, 6));
    assert_eq!(at(&mut board, KeyCode::Home), (9, 6));
    // Where a tree is larger than the screen, its crew is seen.
    board.rows.fit(3);
    assert!(matches!(board.rows.shown().next(), Some(rows::Shown::Session { .. })));
}

#[test]
fn a_window_that_is_too_small_says_so_kindly() {
    assert_snapshot!(screen(&mut board(five()), 39, 8), @"
    This window is a little small: 40×8 is
    the least, 80×24 is comfortable. q
    quits.
    ");
    assert!(screen(&mut board(five()), 80, 7).contains("80×24 is comfortable"));
}

#[test]
fn every_size_can_be_drawn() {
    let mut board = board(five());
    for mode in [Mode::Look, Mode::Filter, Mode::Agent("漢字".repeat(40)), Mode::Help] {
        board.mode = mode;
        for width in 0..130 {
            for height in 0..20 {
                screen(&mut board, width, height);
            }
        }
    }
}

#[test]
fn the_table_as_text_is_the_table_on_the_screen() {
    let mut rows = five();
    sort(&mut rows);
    assert_snapshot!(table(&rows, &Style::plain(80), now()), @"
    #  state      progress  agents       spend  age     last words
    5  running    –         codex   412k $0.12  now     漢字の表を書く
    3  running    turn 3    codex   412k $0.12  now     The tests pass.
    2  limit      turn 3    codex   412k $0.12  30 h    The parser is done.
    1  completed  turn 3    codex   412k $0.12  1 h     The parser is done.
    4  cap:steps  turn 3    claude  412k $0.12  14 h    The parser is done.
    ");
    let screen = screen(&mut board(five()), 80, 24).replace('▸', " ");
    assert!(screen.contains(&table(&rows, &Style::plain(80), now())), "{screen}");
}

#[test]
fn the_active_come_first_and_the_newest_of_the_rest() {
    let mut rows = five();
    rows.extend([stopped(6, Reason::NotSignedIn, 5), stopped(7, Reason::Interrupted, 0)]);
    assert_eq!(numbers(&mut board(rows)), [5, 3, 6, 2, 7, 1, 4]);
}

#[test]
fn those_that_run_keep_their_places() {
    let mut board = board(five());
    let before = numbers(&mut board);
    let mut rows = five();
    rows[2].updated_at = now() + 1.hour();
    rows[2].turns = 4;
    assert!(board.rows.take(rows));
    assert_eq!(numbers(&mut board), before);
}

#[test]
fn the_selected_one_stays_selected() {
    let mut board = board(five());
    key(&mut board, KeyCode::Down);
    assert_eq!(selected(&board), 3);
    let mut rows = five();
    rows[2] = stopped(3, Reason::Done, 0);
    assert!(board.rows.take(rows.clone()));
    assert_eq!((numbers(&mut board), selected(&board)), (vec![5, 2, 3, 1, 4], 3));
    // The same again is nothing new.
    assert!(!board.rows.take(rows));
    // Where it has gone, the one in its place is.
    assert!(board.rows.take(five().into_iter().filter(|row| row.number != Some(3)).collect()));
    assert_eq!(selected(&board), 1);
    assert!(board.rows.take(Vec::new()));
    assert_eq!(board.rows.selected(), None);
    assert!(screen(&mut board, 80, 24).contains("there is no session yet"));
}

#[test]
fn time_is_drawn_only_where_it_is_seen() {
    let mut board = board(vec![stopped(1, Reason::Done, 3)]);
    board.rows.fit(10);
    assert!(!board.rows.tick(now() + 10.seconds()));
    assert!(board.rows.tick(now() + 1.hour()));
}

#[test]
fn keys_move() {
    let mut board = board((1..=50).map(|n| stopped(n, Reason::Done, 50 - n as i64)).collect());
    board.rows.fit(10);
    let mut at = |code| {
        assert_eq!(key(&mut board, code), None);
        board.rows.fit(10);
        51 - selected(&board)
    };
    assert_eq!(at(KeyCode::Char('j')), 2);
    assert_eq!(at(KeyCode::Char('k')), 1);
    assert_eq!(at(KeyCode::PageDown), 10);
    assert_eq!(at(KeyCode::End), 50);
    assert_eq!(at(KeyCode::Down), 50);
    assert_eq!(at(KeyCode::PageUp), 41);
    assert_eq!(at(KeyCode::Home), 1);
    assert_eq!(at(KeyCode::Up), 1);
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut board = board(five());
    assert_eq!(type_in(&mut board, "/codex  PARSERx"), None);
    assert_eq!(numbers(&mut board), [] as [u64; 0]);
    assert!(screen(&mut board, 80, 24).contains("nothing found · esc clears the filter"));
    key(&mut board, KeyCode::Backspace);
    assert_eq!(numbers(&mut board), [3]);
    // A q in a filter is a letter, and Enter follows nothing.
    assert_eq!(key(&mut board, KeyCode::Enter), None);
    let text = screen(&mut board, 80, 24);
    assert!(text.lines().next().unwrap().ends_with("/codex  PARSER · 1 shown"), "{text}");
    assert_eq!(type_in(&mut board, "/q"), None);
    assert_eq!(numbers(&mut board), [] as [u64; 0]);
    key(&mut board, KeyCode::Esc);
    assert_eq!(numbers(&mut board), [5, 3, 2, 1, 4]);
    type_in(&mut board, "/4");
    assert_eq!(selected(&board), 4);
}

#[test]
fn only_the_active_are_shown_on_demand() {
    let mut board = board(five());
    type_in(&mut board, "a");
    assert_eq!(numbers(&mut board), [5, 3, 2]);
    assert!(screen(&mut board, 80, 24).contains("active only · 3 shown"));
    type_in(&mut board, "a");
    assert_eq!(numbers(&mut board).len(), 5);
    let mut board = self::board(vec![stopped(1, Reason::Done, 1)]);
    type_in(&mut board, "a");
    assert!(screen(&mut board, 80, 24).contains("nothing is active · a shows all"));
}

fn order(number: u64, running: bool, action: Action) -> Wish {
    let at = row(number, "").at;
    Wish::Do(Order { at, selector: number.to_string(), running, action })
}

#[test]
fn what_changes_something_asks_first() {
    let mut board = board(five());
    assert_eq!(type_in(&mut board, "s"), None);
    let text = screen(&mut board, 80, 24);
    assert!(text.contains("stop session 5? It can be resumed at any time. (y/n)"), "{text}");
    assert_eq!(type_in(&mut board, "n"), None);
    assert_eq!(board.message, "nothing was done");
    assert_eq!(type_in(&mut board, "sy"), Some(order(5, true, Action::Stop)));
    assert_eq!(type_in(&mut board, "hclaude"), None);
    assert!(screen(&mut board, 80, 24).contains("hand session 5 to: claude"));
    assert_eq!(key(&mut board, KeyCode::Enter), None);
    let text = screen(&mut board, 80, 24);
    assert!(text.contains("hand session 5 to claude at the end of its turn? (y/n)"), "{text}");
    let to = || Action::HandOff { to: "claude".to_owned() };
    assert_eq!(type_in(&mut board, "y"), Some(order(5, true, to())));
    key(&mut board, KeyCode::End);
    type_in(&mut board, "hclaude");
    key(&mut board, KeyCode::Enter);
    assert!(screen(&mut board, 80, 24).contains("go on with session 4 with claude? (y/n)"));
    assert_eq!(type_in(&mut board, "y"), Some(order(4, false, to())));
    // Without a name there is nobody to hand it to.
    type_in(&mut board, "h");
    key(&mut board, KeyCode::Enter);
    assert_eq!(board.mode, Mode::Look);
}

#[test]
fn an_answer_is_about_what_was_asked() {
    let mut board = board(five());
    type_in(&mut board, "s");
    // It has stopped meanwhile, and another one is in its place.
    assert!(board.rows.take(five().into_iter().filter(|row| row.number != Some(5)).collect()));
    assert_eq!(type_in(&mut board, "y"), Some(order(5, true, Action::Stop)));
}

#[test]
fn what_makes_no_sense_is_said() {
    let mut board = board(five());
    assert_eq!(type_in(&mut board, "r"), None);
    assert_eq!(board.message, "session 5 runs already");
    key(&mut board, KeyCode::End);
    assert_eq!(board.message, "");
    assert_eq!(type_in(&mut board, "s"), None);
    assert_eq!(board.message, "session 4 does not run");
    assert_eq!(type_in(&mut board, "r"), Some(order(4, false, Action::Resume)));
    assert_eq!(type_in(&mut board, "o"), Some(order(4, false, Action::Open)));
    let mut none = self::board(Vec::new());
    assert_eq!(type_in(&mut none, "rshoa"), None);
    assert_eq!((key(&mut none, KeyCode::Enter), none.mode), (None, Mode::Look));
}

#[test]
fn there_are_two_ways_to_quit_from_everywhere() {
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["", "/abc", "habc", "s", "?"] {
        let mut board = board(five());
        type_in(&mut board, keys);
        assert_eq!(board.press(control_c), Some(Wish::Quit));
    }
    assert_eq!(type_in(&mut board(five()), "q"), Some(Wish::Quit));
    // A key ends the help, and does nothing else.
    assert_eq!(type_in(&mut board(five()), "?q"), None);
}

#[test]
fn what_is_pasted_presses_no_keys() {
    let mut board = board(five());
    board.paste("sy\nq");
    assert_eq!((&board.mode, board.message.as_str()), (&Mode::Look, ""));
    type_in(&mut board, "/");
    board.paste("the\nparser");
    assert_eq!(board.rows.filter, "the parser");
    assert_eq!(numbers(&mut board), [3]);
}

#[test]
fn the_help() {
    let mut board = board(five());
    type_in(&mut board, "?");
    assert_snapshot!(screen(&mut board, 80, 24), @"
    segue dashboard

      ↑ ↓  j k    move; PgUp, PgDn, Home and End too
      enter       follow the session live; esc comes back
      r           resume it in the background
      s           stop it; asks first
      h           hand it off to another agent; asks first
      o           open its files with $VISUAL, $EDITOR, $PAGER or less
      /           filter: every word must occur; esc clears
      a           only those that run or wait
      ?           this help; any key ends it
      q  ctrl-c   quit; what runs goes on running

      running     a process works on it
      waiting     limit, overloaded, unreachable, not signed in, crashed, unattended








    any key comes back
    ");
}

#[test]
fn hostile_texts_stay_in_their_place() {
    let hostile = "\x1b[2J\x1b]0;owned\x07漢字かな混じり文をとても長く\r\n\u{202e}b\x08";
    let mut rows = vec![running(1, hostile), running(2, "Plain")];
    rows[0].agent = "a\x1bc\x07".to_owned();
    rows[0].last_text = Some(format!("{hostile}\n👩‍👩‍👧 {hostile}").repeat(1000));
    let mut board = board(rows);
    type_in(&mut board, "/");
    board.paste("\x1b[2J");
    type_in(&mut board, "x");
    key(&mut board, KeyCode::Esc);
    board.say("\x1b[2Jfailed\x07");
    for (width, height) in [(80, 24), (61, 9), (200, 50)] {
        let text = screen(&mut board, width, height);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text}");
        assert!(!text.contains('\u{202e}') && !text.contains("owned"), "{text}");
        let wide = text.lines().map(crate::style::width).max().unwrap();
        assert!(wide <= usize::from(width), "{wide}: {text}");
    }
}

#[test]
fn colours_are_there_where_they_are_wanted() {
    let mut board = board(five());
    let mut colours = |color| {
        let style = Style { color, ..Style::plain(80) };
        let terminal = drawn(&mut board, &style, 80, 12);
        let cells = &terminal.backend().buffer().content;
        cells.iter().filter(|cell| cell.fg == Color::Green && cell.symbol() != " ").count()
    };
    assert_eq!(colours(false), 0);
    assert_eq!(colours(true), "completed".len());
}

/// A home with one session that has said so many lines.
fn home_with_words(dir: &Path, count: u64) -> (Home, Located) {
    let home = Home::new(Arc::new(RealDisk), dir.to_owned());
    let at = Located { repo: "app-1".to_owned(), id: SessionId::from_parts(1, 1) };
    std::fs::create_dir_all(home.session_dir(&at)).unwrap();
    say_more(&home, &at, 1..=count);
    (home, at)
}

fn say_more(home: &Home, at: &Located, numbers: std::ops::RangeInclusive<u64>) {
    use segue_journal::line::{self, Link, Place};
    let path = home.session_dir(at).join("journal.jsonl");
    let mut bytes = Vec::new();
    let mut prev = Link::first(at.id);
    // From the start, since each line vouches for the one before.
    for seq in 1..=*numbers.end() {
        let text = Payload::inline(format!("word {seq}"));
        let draft = TextWritten { text, partial: false }.into();
        prev = line::encode(&draft, Place { seq, prev, synced: 0 }, now(), &mut bytes).unwrap();
    }
    std::fs::write(path, bytes).unwrap();
}

fn following(home: &Home, at: &Located) -> Board {
    let mut rows = vec![running(1, "Refactor the parser")];
    rows[0].at = at.clone();
    let mut board = board(rows);
    board.follow = Some(Follow::open(home, at, &Style::plain(60)).unwrap());
    board
}

fn words(board: &mut Board) -> (String, String) {
    let text = screen(board, 60, 10);
    let said = text.lines().skip(2).filter(|line| line.contains("word"));
    let mut said = said.map(|line| line.rsplit(' ').next().unwrap().to_owned());
    (said.next().unwrap(), said.last().unwrap())
}

#[test]
fn one_is_followed_and_scrolled() {
    let dir = tempfile::tempdir().unwrap();
    let (home, at) = home_with_words(dir.path(), 30);
    let mut board = following(&home, &at);
    assert_snapshot!(screen(&mut board, 60, 10), @"
    #1 running · turn 3 · codex · Refactor the parser
    ────────────────────────────────────────────────────────────
    18:00:00    word 25
    18:00:00    word 26
    18:00:00    word 27
    18:00:00    word 28
    18:00:00    word 29
    18:00:00    word 30

    esc back · ↑ ↓ scroll · end follow · r resume · s stop · ?…
    ");
    assert_snapshot!(screen(&mut board, 80, 24).lines().last().unwrap(), @"esc back  ↑↓ scroll  end last  r resume  s stop  h hand  o files  ? help  q quit");
    screen(&mut board, 60, 10);
    key(&mut board, KeyCode::Up);
    assert_eq!(words(&mut board), ("24".to_owned(), "29".to_owned()));
    assert!(screen(&mut board, 60, 10).contains(" 1 line below "));
    // What comes does not move what is read.
    say_more(&home, &at, 31..=35);
    assert!(board.follow.as_mut().unwrap().look().unwrap());
    assert!(!board.follow.as_mut().unwrap().look().unwrap());
    assert_eq!(words(&mut board), ("24".to_owned(), "29".to_owned()));
    assert!(screen(&mut board, 60, 10).contains(" 6 lines below "));
    key(&mut board, KeyCode::Home);
    assert_eq!(words(&mut board), ("1".to_owned(), "6".to_owned()));
    key(&mut board, KeyCode::PageDown);
    assert_eq!(words(&mut board), ("6".to_owned(), "11".to_owned()));
    key(&mut board, KeyCode::End);
    assert_eq!(words(&mut board), ("30".to_owned(), "35".to_owned()));
    // At the end, what comes is seen.
    say_more(&home, &at, 36..=37);
    assert!(board.follow.as_mut().unwrap().look().unwrap());
    assert_eq!(words(&mut board), ("32".to_owned(), "37".to_owned()));
    key(&mut board, KeyCode::Esc);
    assert!(board.follow.is_none() && screen(&mut board, 60, 10).contains("1 session"));
}

#[test]
fn who_scrolls_back_gets_more_of_a_long_session() {
    let dir = tempfile::tempdir().unwrap();
    let (home, at) = home_with_words(dir.path(), 3000);
    let mut board = following(&home, &at);
    assert_eq!(words(&mut board).1, "3000");
    key(&mut board, KeyCode::Home);
    assert_eq!(words(&mut board).0, "2501");
    let follow = board.follow.as_mut().unwrap();
    assert!(follow.renew(&home, 60).unwrap());
    // The same place, with more above it.
    assert_eq!(words(&mut board).0, "2501");
    key(&mut board, KeyCode::Up);
    assert_eq!(words(&mut board).0, "2500");
    assert!(!board.follow.as_mut().unwrap().renew(&home, 60).unwrap());
    // Another width is read again, at the same place.
    assert!(board.follow.as_mut().unwrap().renew(&home, 50).unwrap());
    assert_eq!(words(&mut board).0, "2500");
}

#[test]
fn what_follows_is_what_watch_prints() {
    use crate::render::{Detail, event_line};
    let dir = tempfile::tempdir().unwrap();
    let (home, at) = home_with_words(dir.path(), 3);
    let mut printed = Vec::new();
    home.open(&at)
        .unwrap()
        .for_each(|event: Happened| {
            printed.extend(event_line(&event, &Style::plain(60), Detail::Full));
        })
        .unwrap();
    let text = screen(&mut following(&home, &at), 60, 10);
    assert!(text.contains(&printed.join("\n")), "{text}\n{printed:?}");
}
