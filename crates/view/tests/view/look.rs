//! What people see, to the letter.

use insta::assert_snapshot;
use jiff::Timestamp;
use segue_core::{
    Body, Event, Payload,
    caps::{Cap, Caps},
    event::{
        Cause, Failure, JournalRepaired, LimitHit, ModelCalled, ModelFailed, ModelReplied,
        ModelStop, Outcome, Process, ProofReturned, ProofStarted, Reason, SessionNamed,
        SessionResumed, SessionStopped, TextWritten, ThinkingWritten, ToolCalled, ToolReturned,
        ToolStarted, ToolStatus, TurnEnded, TurnStarted, WarningRaised,
    },
    selector::Selector,
    usage::{Micros, Usage},
};
use segue_journal::Durability;
use segue_view::{
    Filter, Index, Row, Style,
    json::{RowJson, ShowJson},
    render::{Detail, event_line},
    select::resolve,
    show::{Show, show_text},
    style::{self, sanitize},
    table::list_table,
};

use crate::common::{at, clock, home, me, named, new, session, stopped, work};

fn colored(width: usize) -> Style {
    Style { color: true, ..Style::plain(width) }
}

/// Escape sequences as text, so that a snapshot can be read.
fn seen(text: &str) -> String {
    assert!(text.chars().all(|c| c == '\n' || c == '\x1b' || !c.is_control()), "{text:?}");
    text.replace('\x1b', "␛")
}

/// Rows of every kind, made once per test.
fn rows() -> (tempfile::TempDir, Vec<Row>) {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    session(
        &home,
        "a",
        "Fix the failing test in the parser, and then say what was wrong with it, in a few words that a newcomer understands",
        1_000,
        Reason::Done,
    );
    let mut major = new("a", "move everything\n\nto the new API");
    major.name = Some("Major refactoring".into());
    named(&home, major, 40_000, Reason::Interrupted);
    session(
        &home,
        "a",
        "修复解析器中失败的测试，然后用新人能理解的几句话说明它出了什么问题，谢谢你的帮助",
        86_000,
        Reason::AgentCrashed,
    );
    session(
        &home,
        "a",
        "evil \x1b[31mred\x1b[0m \x1b]0;title\x07 \r\n\x07 \u{202e}txt",
        86_200,
        Reason::Failed,
    );
    let (mut locked, _) = home.create(new("a", "dies"), &me(), &clock(86_390)).unwrap();
    work(&mut locked);
    drop(locked);
    let torn = session(&home, "a", "torn", 500, Reason::Cap);
    let journal = home.session_dir(&torn).join("journal.jsonl");
    std::fs::write(&journal, std::fs::read_to_string(&journal).unwrap() + "{").unwrap();
    let mut index = Index::open(&home).unwrap();
    index.refresh().unwrap();
    let rows = index.query(&Filter::default()).unwrap().rows;
    (temp, rows)
}

#[test]
fn a_list_in_three_widths() {
    let (_temp, rows) = rows();
    let table = |style: &Style| {
        let text = list_table(&rows, style, at(86_400));
        for line in text.lines() {
            let plain = strip(line);
            assert!(style::width(&plain) <= style.width, "{plain}");
        }
        seen(&text)
    };
    assert_snapshot!(table(&Style::plain(40)), @r"
    #  status         prompt
    5  crashed        dies
    4  failed         evil red  � �txt
    3  agent crashed  修复解析器中失败的测…
    2  interrupted    Major refactoring · m…
    1  completed      Fix the failing test…
    6  cap            ⚠ journal.jsonl has a…
    ");
    assert_snapshot!(table(&Style::plain(80)), @r"
    #  status         agent   turns       spend  updated    prompt
    5  crashed        native      1  412k $0.12  10 s ago   dies
    4  failed         native      1  412k $0.12  3 min ago  evil red  � �txt
    3  agent crashed  native      1  412k $0.12  6 min ago  修复解析器中失败的测试…
    2  interrupted    native      1  412k $0.12  12 h ago   Major refactoring · mov…
    1  completed      native      1  412k $0.12  23 h ago   Fix the failing test in…
    6  cap            native      1  412k $0.12  23 h ago   ⚠ journal.jsonl has a t…
    ");
    assert_snapshot!(table(&Style::plain(120)), @r"
    #  status         agent   turns       spend  updated    prompt
    5  crashed        native      1  412k $0.12  10 s ago   dies
    4  failed         native      1  412k $0.12  3 min ago  evil red  � �txt
    3  agent crashed  native      1  412k $0.12  6 min ago  修复解析器中失败的测试，然后用新人能理解的几句话说明它出了什么…
    2  interrupted    native      1  412k $0.12  12 h ago   Major refactoring · move everything to the new API
    1  completed      native      1  412k $0.12  23 h ago   Fix the failing test in the parser, and then say what was wrong…
    6  cap            native      1  412k $0.12  23 h ago   ⚠ journal.jsonl has a torn end of 1 B, which the next resume se…
    ");
    assert_snapshot!(table(&colored(80)), @r"
    ␛[2m#  status         agent   turns       spend  updated    prompt␛[0m
    5  ␛[31mcrashed␛[0m        native      1  412k $0.12  10 s ago   dies
    4  ␛[31mfailed␛[0m         native      1  412k $0.12  3 min ago  evil red  � �txt
    3  ␛[31magent crashed␛[0m  native      1  412k $0.12  6 min ago  修复解析器中失败的测试…
    2  ␛[33minterrupted␛[0m    native      1  412k $0.12  12 h ago   Major refactoring · mov…
    1  ␛[32mcompleted␛[0m      native      1  412k $0.12  23 h ago   Fix the failing test in…
    6  ␛[33mcap␛[0m            native      1  412k $0.12  23 h ago   ␛[33m⚠␛[0m journal.jsonl has a t…
    ");
    assert_eq!(
        strip(&list_table(&rows, &colored(80), at(86_400))),
        list_table(&rows, &Style::plain(80), at(86_400))
    );
    assert_eq!(list_table(&[], &Style::plain(80), at(0)), "");
    assert_ne!(list_table(&rows, &Style::plain(1), at(0)), "", "too narrow, and no crash");
}

/// Without our own colours.
fn strip(text: &str) -> String {
    text.split('\n').map(|line| sanitize(line).into_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_row_as_json() {
    let (_temp, rows) = rows();
    let row = rows.iter().find(|row| row.name.is_some()).unwrap();
    let mut json = serde_json::to_value(RowJson::from(row)).unwrap();
    json["id"] = "ID".into();
    assert_snapshot!(serde_json::to_string_pretty(&json).unwrap(), @r#"
    {
      "number": 2,
      "id": "ID",
      "name": "Major refactoring",
      "status": "interrupted",
      "resumable": true,
      "stop": {
        "reason": "interrupted",
        "message": "as asked"
      },
      "repo": "a",
      "repo_identity": "/src/a",
      "workspace": "/src/a",
      "loop": "solo",
      "agent": "native",
      "model": "scripted",
      "prompt": "move everything\n\nto the new API",
      "turns": 1,
      "runs": 1,
      "tokens": 412000,
      "cost_micros": 120000,
      "unpriced_calls": 0,
      "created_at": "2027-01-15T19:06:40Z",
      "updated_at": "2027-01-15T19:06:40Z",
      "last_text": "All done.",
      "vendor_ids": [],
      "problem": null,
      "holder": null
    }
    "#);
}

#[test]
fn one_session_on_a_page() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let mut session = new(
        "a",
        "Fix the failing test,\nthen say \x1b[2Jwhat was wrong with it, in a few words that a newcomer understands",
    );
    session.name = Some("parser".into());
    session.proof = Some("make test".into());
    session.caps = Caps {
        iterations: None,
        reviews: None,
        turns: Some(20),
        steps: Some(50),
        wall_clock_secs: Some(7_200),
        tokens: Some(2_000_000),
        cost_micros: Some(Micros(5_000_000)),
    };
    let caps = session.caps;
    let (mut locked, _) = home.create(session, &me(), &clock(0)).unwrap();
    work(&mut locked);
    let resumed = SessionResumed {
        by: Process { pid: 7, host: "here".into(), segue: "0".into() },
        caps,
        plan: vec![],
        crashed: false,
        model: None,
        workspace: None,
        permission: None,
        leftovers_ended: vec![],
    };
    locked.append(resumed, Durability::Synced).unwrap();
    let mut stop = stopped(Reason::Limit);
    stop.message = "the vendor's limit".into();
    stop.hint = Some("another agent could go on".into());
    stop.resets_at = Some(at(7_200));
    locked.append(stop, Durability::Synced).unwrap();
    drop(locked);
    let mut index = Index::open(&home).unwrap();
    let found = resolve(&mut index, &Selector::Number(1), None).unwrap();
    let show = Show::of(&found.open(&home).unwrap(), &found);
    let hide = |text: String| {
        text.replace(&show.id.to_string(), "ID").replace(&temp.path().display().to_string(), "TEMP")
    };
    let sizes = |text: String| {
        // How long the journal is depends on how long the times in it are.
        text.lines()
            .map(|line| {
                line.rsplit_once("  ")
                    .filter(|(_, size)| size.ends_with('B'))
                    .map_or(line, |(name, _)| name)
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_snapshot!(sizes(hide(seen(&show_text(&show, &Style::plain(80), at(3_600))))), @r#"
    #1 "parser"  ID
    status     limit · 1 h ago
               the vendor's limit
               another agent could go on
               resets in 1 h (2027-01-15 10:00 UTC)
    next       segue resume 1 --wait
    prompt     Fix the failing test, then say what was wrong with it, in a few words
               that a newcomer understands
    agent      native · scripted
    workspace  /src/a
    repository /src/a
    proof      make test
    created    1 h ago (2027-01-15 08:00 UTC)
    last words All done.
    turns      1 · 2 runs · 0 tool calls
    tokens     412k = input 400k + output 12k
    cost       $0.12
    caps       turns 1 of 20
               model calls of the turn 1 of 50
               time 0 s of 2 h
               tokens 412k of 2M
               cost $0.12 of $5.00
    files      journal.jsonl
               lock
               session.json
               state.json
    in         TEMP/home/sessions/a/ID
    "#);
    assert_snapshot!(sizes(hide(seen(&show_text(&show, &colored(40), at(3_600))))), @r#"
    ␛[1m#1␛[0m␛[1m "parser"␛[0m␛[2m  ID␛[0m
    ␛[2mstatus     ␛[0m␛[33mlimit · 1 h ago␛[0m
               the vendor's limit
               ␛[2manother agent could go on␛[0m
               resets in 1 h (2027-01-15 10…
    ␛[2mnext       ␛[0m␛[36msegue resume 1 --wait␛[0m
    ␛[2mprompt     ␛[0mFix the failing test, then
               say what was wrong with it,
               in a few words that a
               newcomer understands
    ␛[2magent      ␛[0mnative · scripted
    ␛[2mworkspace  ␛[0m/src/a
    ␛[2mrepository ␛[0m/src/a
    ␛[2mproof      ␛[0mmake test
    ␛[2mcreated    ␛[0m1 h ago (2027-01-15 08:00 UT…
    ␛[2mlast words ␛[0mAll done.
    ␛[2mturns      ␛[0m1 · 2 runs · 0 tool calls
    ␛[2mtokens     ␛[0m412k = input 400k + output 1…
    ␛[2mcost       ␛[0m$0.12
    ␛[2mcaps       ␛[0mturns 1 of 20
               model calls of the turn 1 of…
               time 0 s of 2 h
               tokens 412k of 2M
               cost $0.12 of $5.00
    ␛[2mfiles      ␛[0mjournal.jsonl
               lock
               session.json
               state.json
    ␛[2min         ␛[0mTEMP/home/session…
    "#);
    let json = serde_json::to_value(ShowJson::from(&show)).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_snapshot!(format!("{keys:?}"), @r#"
    ["number", "id", "name", "status", "resumable", "stop", "next", "dir", "workspace", "agent", "model", "permission", "vendors", "quotas", "unread_lines", "identity", "events", "turns", "runs", "tool_calls", "usage", "tokens", "cost_micros", "unpriced_calls", "caps", "created_at", "updated_at", "last_text", "problem", "holder", "files"]
    "#);
    assert_eq!(
        (&json["status"], &json["next"]),
        (&"limit".into(), &"segue resume 1 --wait".into())
    );
    assert_eq!(json["created_at"], "2027-01-15T08:00:00Z");
}

fn event(body: impl Into<Body>) -> Event {
    Event {
        seq: 1,
        at: Timestamp::from_millisecond(1_800_000_000_417).unwrap(),
        turn: Some(1),
        agent: Some("native".into()),
        id: None,
        body: body.into(),
    }
}

fn text(text: &str) -> TextWritten {
    TextWritten { text: Payload::inline(text), partial: false }
}

fn call(name: &str, input: &str) -> ToolCalled {
    ToolCalled { name: name.into(), input: Payload::inline(input) }
}

fn back(status: ToolStatus, exit: Option<i32>, output: &str) -> ToolReturned {
    ToolReturned {
        name: "shell".into(),
        status,
        exit,
        output: Payload::inline(output),
        touched: vec![],
    }
}

/// One of everything.
fn story() -> Vec<Event> {
    let long = "{\"path\": \"src/big.rs\", \"content\": \"".to_owned() + &"x".repeat(5_000);
    let usage =
        Usage { input: 500, cache_read: 400, output: 30, reasoning: 10, ..Usage::default() };
    let mut wrote = back(ToolStatus::Done, None, "");
    wrote.touched = vec!["src/big.rs".into()];
    vec![
        event(SessionNamed { name: "parser".into() }),
        event(TurnStarted {
            fresh: false,
            messages: Vec::new(),
            briefing: None,
            prompt: Payload::inline("fix the failing test\nin the parser"),
            cause: Cause::Person,
        }),
        event(ModelCalled { model: "scripted".into(), attempt: 1, messages: 3, told: None }),
        event(ModelFailed {
            error: Failure::Overloaded,
            message: "529 overloaded".into(),
            retry_in_ms: Some(2_000),
        }),
        event(ModelCalled { model: "scripted".into(), attempt: 2, messages: 3, told: None }),
        event(ThinkingWritten {
            text: Payload::inline("Let me look\nat the test."),
            signature: None,
        }),
        event(text(
            "I will run the test first, to see what it says about the sum of the two numbers.",
        )),
        event(call("shell", r#"{"timeout": 5, "command": "sh test.sh"}"#)),
        event(ModelReplied {
            model: "scripted".into(),
            stop: ModelStop::ToolUse,
            usage,
            cost_micros: Some(Micros(4_200)),
            reply_id: None,
        }),
        event(ToolStarted {}),
        event(back(ToolStatus::Done, Some(1), "running\nexpected 4, got 5\n\n")),
        event(ToolCalled { name: "write".into(), input: Payload::in_blob("ab".into(), &long) }),
        event(wrote),
        event(call("shell", r#"{"command": ["sh", "test.sh"]}"#)),
        event(back(ToolStatus::Done, Some(0), "one\ntwo\nthree\n")),
        event(call("grep", r#"{"pattern": "sum", "path": "src"}"#)),
        event(back(ToolStatus::Failed, None, "no such directory")),
        event(call("list", "{}")),
        event(back(ToolStatus::MayHaveRun, None, "")),
        event(back(ToolStatus::NotRun, None, "")),
        event(back(ToolStatus::Interrupted, None, "")),
        event(back(ToolStatus::Done, None, "")),
        event(TurnEnded::with(Outcome::Finished)),
        event(TurnEnded::with(Outcome::Truncated)),
        event(ProofStarted { command: "make test".into() }),
        event(ProofReturned {
            status: ToolStatus::Done,
            exit: Some(0),
            output: Payload::inline("ok"),
        }),
        event(WarningRaised { message: "the clock went back".into() }),
        event(JournalRepaired { bytes: 20, kept_in: "journal.torn-12".into() }),
        event(LimitHit {
            message: "5-hour limit".into(),
            window: None,
            resets_at: Some(at(7_200)),
        }),
        event(Body::Unknown {
            kind: "moon.landed".into(),
            data: serde_json::value::to_raw_value(&1).unwrap(),
        }),
        event(SessionStopped {
            cap: Some(Cap::Turns),
            hint: Some("segue resume 7 --max-turns 40".into()),
            ..stopped(Reason::Cap)
        }),
        event(SessionResumed {
            by: Process { pid: 7, host: "here".into(), segue: "0".into() },
            caps: Caps::default(),
            plan: vec!["continue  turn 2".into(), "spend     412k tokens so far".into()],
            crashed: true,
            model: Some("other".into()),
            workspace: None,
            permission: None,
            leftovers_ended: vec![4711],
        }),
        event(SessionStopped { message: String::new(), ..stopped(Reason::Interrupted) }),
        event(stopped(Reason::Done)),
    ]
}

fn told(style: &Style, detail: Detail) -> String {
    let lines: Vec<String> =
        story().iter().filter_map(|event| event_line(event, style, detail)).collect();
    let text = lines.join("\n");
    for line in text.lines() {
        assert!(style::width(&strip(line)) <= style.width, "{line:?}");
    }
    seen(&text)
}

#[test]
fn a_story_told_short_and_full() {
    assert_snapshot!(told(&Style::plain(80), Detail::Short), @r#"
    ● named "parser"
    ▸ turn 1 · native · fix the failing test in the parser
      ⚠ 529 overloaded · again in 2 s
      · asking scripted, 3 messages, attempt 2
      ~ Let me look at the test.
      I will run the test first, to see what it says about the sum of the two
      numbers.
      ⚙ shell  sh test.sh
      · scripted 900+40 tokens
        ✗ shell  exit 1  expected 4, got 5
      ⚙ write  src/big.rs
        ✓ shell  wrote src/big.rs
      ⚙ shell  sh test.sh
        ✓ shell  exit 0  3 lines
      ⚙ grep  sum in src
        ✗ shell  failed  no such directory
      ⚙ list
        ? shell  may have run  its result was never recorded
        – shell  not run
        ✗ shell  interrupted
        ✓ shell  done
      ◂ the reply was cut at the model's output limit
      ⚖ proof  make test
        ✓ exit 0  ok
    ⚠ the clock went back
    ⚠ journal repaired: 20 B set aside in journal.torn-12
    ⏸ limit: 5-hour limit · resets 2027-01-15 10:00 UTC
      ? moon.landed
    ■ stopped: cap:turns · as asked
      segue resume 7 --max-turns 40
    ↻ resumed after a crash with other
      continue  turn 2
      spend     412k tokens so far
      ⚠ ended process 4711 of the run before
    ■ stopped: interrupted
    ✔ done · as asked
    "#);
    assert_snapshot!(told(&Style::plain(80), Detail::Full), @r#"
    08:00:00  ● named "parser"
    08:00:00  ▸ turn 1 · native · fix the failing test in the parser
    08:00:00    · asking scripted, 3 messages
    08:00:00    ⚠ 529 overloaded · again in 2 s
    08:00:00    · asking scripted, 3 messages, attempt 2
    08:00:00    ~ Let me look
                ~ at the test.
    08:00:00    I will run the test first, to see what it says about the sum of the
                two numbers.
    08:00:00    ⚙ shell  sh test.sh
    08:00:00    · scripted 900+40 tokens, 400 of them cached · $0.0042
    08:00:00      … started
    08:00:00      ✗ shell  exit 1  expected 4, got 5
                    running
                    expected 4, got 5
    08:00:00    ⚙ write  src/big.rs
    08:00:00      ✓ shell  wrote src/big.rs
    08:00:00    ⚙ shell  sh test.sh
    08:00:00      ✓ shell  exit 0  3 lines
                    one
                    two
                    three
    08:00:00    ⚙ grep  sum in src
    08:00:00      ✗ shell  failed  no such directory
                    no such directory
    08:00:00    ⚙ list
    08:00:00      ? shell  may have run  its result was never recorded
    08:00:00      – shell  not run
    08:00:00      ✗ shell  interrupted
    08:00:00      ✓ shell  done
    08:00:00    ◂ turn finished
    08:00:00    ◂ the reply was cut at the model's output limit
    08:00:00    ⚖ proof  make test
    08:00:00      ✓ exit 0  ok
                    ok
    08:00:00  ⚠ the clock went back
    08:00:00  ⚠ journal repaired: 20 B set aside in journal.torn-12
    08:00:00  ⏸ limit: 5-hour limit · resets 2027-01-15 10:00 UTC
    08:00:00    ? moon.landed
    08:00:00  ■ stopped: cap:turns · as asked
                segue resume 7 --max-turns 40
    08:00:00  ↻ resumed after a crash with other
                continue  turn 2
                spend     412k tokens so far
                ⚠ ended process 4711 of the run before
    08:00:00  ■ stopped: interrupted
    08:00:00  ✔ done · as asked
    "#);
}

#[test]
fn a_story_told_in_colour_and_on_a_narrow_terminal() {
    assert_snapshot!(told(&colored(120), Detail::Short), @r#"
    ␛[2m●␛[0m ␛[2mnamed "parser"␛[0m
    ␛[36m▸␛[0m ␛[1mturn 1␛[0m · native · fix the failing test in the parser
      ␛[33m⚠␛[0m ␛[33m529 overloaded · again in 2 s␛[0m
      ␛[2m·␛[0m ␛[2masking scripted, 3 messages, attempt 2␛[0m
      ␛[2m~␛[0m ␛[2mLet me look at the test.␛[0m
      I will run the test first, to see what it says about the sum of the two numbers.
      ␛[36m⚙␛[0m ␛[1mshell␛[0m  sh test.sh
      ␛[2m·␛[0m ␛[2mscripted 900+40 tokens␛[0m
        ␛[31m✗␛[0m ␛[2mshell  ␛[0m␛[31mexit 1␛[0m␛[2m  expected 4, got 5␛[0m
      ␛[36m⚙␛[0m ␛[1mwrite␛[0m  src/big.rs
        ␛[32m✓␛[0m ␛[2mshell  ␛[0m␛[32mwrote src/big.rs␛[0m
      ␛[36m⚙␛[0m ␛[1mshell␛[0m  sh test.sh
        ␛[32m✓␛[0m ␛[2mshell  ␛[0m␛[32mexit 0␛[0m␛[2m  3 lines␛[0m
      ␛[36m⚙␛[0m ␛[1mgrep␛[0m  sum in src
        ␛[31m✗␛[0m ␛[2mshell  ␛[0m␛[31mfailed␛[0m␛[2m  no such directory␛[0m
      ␛[36m⚙␛[0m ␛[1mlist␛[0m
        ␛[33m?␛[0m ␛[2mshell  ␛[0m␛[33mmay have run␛[0m␛[2m  its result was never recorded␛[0m
        ␛[33m–␛[0m ␛[2mshell  ␛[0m␛[33mnot run␛[0m
        ␛[33m✗␛[0m ␛[2mshell  ␛[0m␛[33minterrupted␛[0m
        ␛[32m✓␛[0m ␛[2mshell  ␛[0m␛[32mdone␛[0m
      ␛[33m◂␛[0m ␛[33mthe reply was cut at the model's output limit␛[0m
      ␛[36m⚖␛[0m ␛[1mproof␛[0m  make test
        ␛[32m✓␛[0m ␛[32mexit 0␛[0m␛[2m  ok␛[0m
    ␛[33m⚠␛[0m ␛[33mthe clock went back␛[0m
    ␛[33m⚠␛[0m ␛[33mjournal repaired: 20 B set aside in journal.torn-12␛[0m
    ␛[33m⏸␛[0m ␛[33mlimit: 5-hour limit · resets 2027-01-15 10:00 UTC␛[0m
      ␛[2m?␛[0m ␛[2mmoon.landed␛[0m
    ␛[33m■␛[0m ␛[33mstopped: cap:turns␛[0m · as asked
      ␛[2msegue resume 7 --max-turns 40␛[0m
    ␛[36m↻␛[0m ␛[1mresumed after a crash with other␛[0m
      ␛[2mcontinue  turn 2␛[0m
      ␛[2mspend     412k tokens so far␛[0m
      ␛[33m⚠␛[0m ␛[33mended process 4711 of the run before␛[0m
    ␛[33m■␛[0m ␛[33mstopped: interrupted␛[0m
    ␛[32m✔␛[0m ␛[32mdone␛[0m · as asked
    "#);
    assert_snapshot!(told(&Style::plain(40), Detail::Short), @r#"
    ● named "parser"
    ▸ turn 1 · native · fix the failing tes…
      ⚠ 529 overloaded · again in 2 s
      · asking scripted, 3 messages, attemp…
      ~ Let me look at the test.
      I will run the test first, to see what
      it says about the sum of the two
      numbers.
      ⚙ shell  sh test.sh
      · scripted 900+40 tokens
        ✗ shell  exit 1  expected 4, got 5
      ⚙ write  src/big.rs
        ✓ shell  wrote src/big.rs
      ⚙ shell  sh test.sh
        ✓ shell  exit 0  3 lines
      ⚙ grep  sum in src
        ✗ shell  failed  no such directory
      ⚙ list
        ? shell  may have run  its result w…
        – shell  not run
        ✗ shell  interrupted
        ✓ shell  done
      ◂ the reply was cut at the model's ou…
      ⚖ proof  make test
        ✓ exit 0  ok
    ⚠ the clock went back
    ⚠ journal repaired: 20 B set aside in j…
    ⏸ limit: 5-hour limit · resets 2027-01-…
      ? moon.landed
    ■ stopped: cap:turns · as asked
      segue resume 7 --max-turns 40
    ↻ resumed after a crash with other
      continue  turn 2
      spend     412k tokens so far
      ⚠ ended process 4711 of the run before
    ■ stopped: interrupted
    ✔ done · as asked
    "#);
    told(&Style::plain(10), Detail::Full);
}

#[test]
fn hostile_and_wide_texts_stay_in_their_place() {
    let evil = "a\x1b[2J\x1b[1;1Hb\x1b]52;c;ZXZpbA==\x07c\rd\x07e\u{9b}31mf\u{202e}g\x1b[31\n\nh\x1b]0;never ended";
    let show =
        |body: Body| seen(&event_line(&event(body), &Style::plain(60), Detail::Short).unwrap());
    assert_snapshot!(show(text(evil).into()), @r"
    abc d�e�31mf�g�[31

    h�]0;never ended
    ");
    assert_snapshot!(show(call(evil, &serde_json::json!({"command": evil}).to_string()).into()), @"  ⚙ abc d�e�31mf�g�[31 h�]0;never ended  abc d�e�31mf�g�[31…");
    assert_snapshot!(show(back(ToolStatus::Done, Some(2), evil).into()), @"    ✗ shell  exit 2  h�]0;never ended");
    assert_snapshot!(show(WarningRaised { message: evil.into() }.into()), @"⚠ abc d�e�31mf�g�[31 h�]0;never ended");
    assert_snapshot!(show(Body::Unknown { kind: evil.into(), data: serde_json::value::to_raw_value(&1).unwrap() }), @"  ? abc d�e�31mf�g�[31 h�]0;never ended");
    assert_snapshot!(show(text("修复解析器中失败的测试，然后用新人能理解的几句话说明它出了什么问题，谢谢你的帮助").into()), @r"
    修复解析器中失败的测试，然后用新人能理解的几句话说明它出了
    什么问题，谢谢你的帮助
    ");
    assert_snapshot!(show(WarningRaised { message: "修复解析器中失败的测试，然后用新人能理解的几句话说明它出了什么问题".into() }.into()), @"⚠ 修复解析器中失败的测试，然后用新人能理解的几句话说明它出…");
    let many: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
    assert_snapshot!(show(text(&many.join("\n")).into()), @r"
    line 1
    line 2
    line 3
    line 4
    line 5
    line 6
    line 7
    line 8
    line 9
    line 10
    line 11
    line 12
    … 8 more lines
    ");
}

#[test]
fn times_and_sums() {
    let relative = |second| style::relative(at(second), at(0));
    let all: Vec<String> =
        [0, -12, -200, -50_400, -300_000, 7_200, 90, -9_000_000].map(relative).to_vec();
    assert_snapshot!(all.join(" | "), @r"
    now | 12 s ago | 3 min ago | 14 h ago | 3 d ago | in 2 h | in 1 min 30 s | 2026-10-03
    ");
    let spans = [0, 400, 12_000, 200_000, 7_500_000, 273_600_000];
    let all = spans.map(|ms| style::duration(std::time::Duration::from_millis(ms)));
    assert_snapshot!(all.join(" | "), @"0 s | 0.4 s | 12 s | 3 min 20 s | 2 h 5 min | 3 d 4 h");
    let all =
        [0, 812, 999, 1_000, 9_449, 412_000, 999_499, 999_500, 2_000_000, 1_234_567_890, u64::MAX]
            .map(style::tokens);
    assert_snapshot!(all.join(" | "), @"0 | 812 | 999 | 1k | 9.4k | 412k | 999k | 1M | 2M | 1.2G | 18446744074G");
    let all = [0, 812, 4_200, 3_000_000].map(style::bytes);
    assert_snapshot!(all.join(" | "), @"0 B | 812 B | 4.2 kB | 3 MB");
    let all = [(0, 0), (120_000, 0), (120_000, 2), (0, 2), (4_200, 0), (12_345_678, 1)]
        .map(|(cost, unpriced)| style::money(Micros(cost), unpriced));
    assert_snapshot!(all.join(" | "), @"$0.00 | $0.12 | ≥ $0.12 | – | $0.0042 | ≥ $12.35");
    assert_eq!(style::shorten("修复解析", 5), "修复…");
    assert_eq!(style::shorten("abc", 0), "");
    assert_eq!(sanitize("plain ünï 👩‍💻"), "plain ünï 👩‍💻");
}

#[test]
fn a_list_of_several_repositories_names_them() {
    let (_dir, mut rows) = rows();
    let head = |rows: &[Row]| {
        let table = list_table(rows, &Style::plain(100), at(86_400));
        table.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(head(&rows), "# status agent turns spend updated prompt");
    rows[0].at.repo = "another".into();
    rows[0].repo_identity = "github.com/user/another".into();
    assert_eq!(head(&rows), "# status agent turns spend updated repo prompt");
    let table = list_table(&rows, &Style::plain(100), at(86_400));
    assert_eq!(table.lines().filter(|line| line.contains(" another ")).count(), 1, "{table}");
}
