use insta::assert_snapshot;
use jiff::ToSpan;
use segue_core::{
    SessionId,
    bridge::PERSON,
    crew::{Group, Roster, Spec},
    event::{CrewRaised, MessageSent, Start},
    payload::Payload,
    state::Waiting,
};

use super::*;

pub(crate) fn now() -> Timestamp {
    "2026-11-15T18:00:00Z".parse().unwrap()
}

fn member(name: &str, role: &str, group: Option<&str>, doing: Doing) -> Member {
    Member {
        name: name.to_owned(),
        role: role.to_owned(),
        group: group.map(str::to_owned),
        instance: 1,
        session: Some(SessionId::from_parts(1, 7)),
        cwd: "/src/app".into(),
        doing,
        since: Some(now() - 3.minutes()),
        ..Member::default()
    }
}

fn raised() -> CrewRaised {
    let spec = |id: &str, agent: Option<&str>, command: &[&str]| Spec {
        id: id.to_owned(),
        agent: agent.map(str::to_owned),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        ..Spec::default()
    };
    let agents = vec![
        spec("coder", Some("claude"), &[]),
        spec("tester", Some("codex"), &[]),
        spec("linter", None, &["/opt/bin/lint-agent", "--loop"]),
    ];
    let group = Group {
        id: "build".to_owned(),
        agents: vec!["coder".to_owned(), "tester".to_owned()],
        ..Group::default()
    };
    CrewRaised {
        roster: Roster { agents, groups: vec![group], ..Roster::default() },
        project: "/src/app".into(),
        headless: false,
        worktrees: false,
        branch: None,
        ..CrewRaised::default()
    }
}

/// Two in a group, and one who is alone and joined in between.
fn members() -> Vec<Member> {
    let mut coder = member("coder", "coder", Some("build"), Doing::Waiting);
    coder.what = Some("Allow \x1b[2J`cargo publish`?".to_owned());
    coder.vendor_session = Some("5f1e23aa-77aa-4c1e-9d02-1f2e3d4c5b6a".to_owned());
    (coder.pane, coder.pid) = (Some("%3".to_owned()), Some(4711));
    coder.spawned_at = Some(now() - 2.hours());
    (coder.how, coder.generation) = (Start::Resumed, 2);
    coder.command = "claude --resume 5f1e23aa".to_owned();
    coder.restarts = 1;
    let mut linter = member("linter", "linter", None, Doing::Degraded);
    linter.what = Some("exit 1".to_owned());
    linter.cwd = "/src/app/tools".into();
    let mut tester = member("tester", "tester", Some("build"), Doing::Idle);
    tester.cwd = "/src/app-segue-tester".into();
    tester.since = None;
    vec![coder, linter, tester]
}

pub(crate) fn state() -> State {
    let letter = DeadLetter {
        id: "file-1".to_owned(),
        from: "tester".to_owned(),
        to: "linter".to_owned(),
        reason: "it has left the crew".to_owned(),
        at: now() - 1.hour(),
    };
    let mut state = State {
        phase: Phase::Running,
        name: Some("app".to_owned()),
        crew: Some(Crew {
            raised: raised(),
            members: members(),
            dead: vec![letter],
            dead_total: 1,
            timers: vec![("standup".to_owned(), now())],
            ..Crew::default()
        }),
        ..State::default()
    };
    let message = MessageSent {
        from: PERSON.to_owned(),
        to: "coder".to_owned(),
        text: Payload::inline("hurry"),
    };
    state.bridge.waiting.push(Waiting { id: "m-1".to_owned(), message });
    state.bridge.sent = vec![(PERSON.to_owned(), 3)];
    state.bridge.delivered = 1;
    state
}

#[test]
fn a_few_words_say_who_needs_somebody() {
    let members = rows(&state());
    assert_eq!(agents(&members), "3 agents: claude, codex, lint-agent");
    assert_eq!(standing(&members), "1 degraded: linter · 1 waiting: coder · 1 idle");
    assert_eq!((agents(&[]).as_str(), standing(&[]).as_str()), ("0 agents", ""));
    assert!(rows(&State::default()).is_empty());
}

#[test]
fn the_status_of_everybody() {
    assert_snapshot!(table(&state(), &Style::plain(100), now()), @"
    member    agent       state     since  messages  vendor id                             pane
    build
      coder   claude      waiting   3 min         1  5f1e23aa-77aa-4c1e-9d02-1f2e3d4c5b6a  %3
        ⏸ Allow `cargo publish`?
      tester  codex       idle      –             –  –                                     –
    linter    lint-agent  degraded  3 min         –  –                                     –
      ✘ exit 1
    ");
    assert_snapshot!(table(&state(), &Style::plain(60), now()), @"
    member    agent   state     since  messages  vendor id  pane
    build
      coder   claude  waiting   3 min         1  5f1e23aa…  %3
        ⏸ Allow `cargo publish`?
      tester  codex   idle      –             –  –          –
    linter    lint-…  degraded  3 min         –  –          –
      ✘ exit 1
    ");
    assert_eq!(table(&State::default(), &Style::plain(60), now()), "");
}

#[test]
fn no_line_is_too_wide_and_colours_say_who_needs_somebody() {
    for width in 1..120 {
        let style = Style::plain(width);
        let text =
            format!("{}\n{}", table(&state(), &style, now()), long_table(&state(), &style, now()));
        let wide = text.lines().map(crate::style::width).max().unwrap();
        assert!(wide <= width.max(13), "{width}: {text}");
    }
    let text = table(&state(), &Style { color: true, ..Style::plain(80) }, now());
    for part in ["\x1b[33mwaiting\x1b[0m", "\x1b[31mdegraded\x1b[0m", "\x1b[31m  ✘ exit 1\x1b[0m"]
    {
        assert!(text.contains(part), "{part:?}: {text:?}");
    }
}

#[test]
fn the_page_of_a_crew_tells_where_everybody_is() {
    assert_snapshot!(long_table(&state(), &Style::plain(120), now()), @"
    member    agent       state     since  vendor id                             pane  in                  restarts
    build
      coder   claude      waiting   3 min  5f1e23aa-77aa-4c1e-9d02-1f2e3d4c5b6a  %3    .                          1
        ⏸ Allow `cargo publish`?
      tester  codex       idle      –      –                                     –     …/app-segue-tester         0
    linter    lint-agent  degraded  3 min  –                                     –     tools                      0
      ✘ exit 1
    ");
    assert_eq!(messages(&state()), "3 sent · 1 delivered · 1 waiting · 1 not delivered");
    assert_eq!(
        dead_letters(&state(), 5, now()),
        ["tester → linter · it has left the crew · 1 h ago"]
    );
}

#[test]
fn instances_of_a_group_have_their_numbers() {
    let mut state = state();
    let crew = state.crew.as_mut().unwrap();
    crew.members = ["coder-1", "coder-2", "tester-1", "tester-2"]
        .into_iter()
        .map(|name| {
            let (role, instance) = name.split_once('-').unwrap();
            let mut one = member(name, role, Some("build"), Doing::Busy);
            one.instance = instance.parse().unwrap();
            one
        })
        .collect();
    let text = table(&state, &Style::plain(80), now());
    let names: Vec<&str> = text
        .lines()
        .skip(1)
        .map(|line| line.trim_start().split("  ").next().unwrap_or_default())
        .collect();
    assert_eq!(names, ["build 1", "coder-1", "tester-1", "build 2", "coder-2", "tester-2"]);
}

#[test]
fn scripts_get_everything() {
    let all = json(&state(), false);
    assert_eq!((&all["status"], &all["watched"]), (&"unattended".into(), &false.into()));
    assert_snapshot!(serde_json::to_string_pretty(&all["members"][0]).unwrap(), @r#"
    {
      "agent_id": "coder",
      "role": "coder",
      "group": "build",
      "instance": 1,
      "agent": "claude",
      "command": "claude --resume 5f1e23aa",
      "session": "00000000010000000000000007",
      "session_name": "app",
      "vendor_session": "5f1e23aa-77aa-4c1e-9d02-1f2e3d4c5b6a",
      "cwd": "/src/app",
      "worktree": null,
      "branch": null,
      "pane": "%3",
      "pid": 4711,
      "spawned_at": "2026-11-15T16:00:00Z",
      "how": "resumed",
      "generation": 2,
      "state": "waiting",
      "what": "Allow \u001b[2J`cargo publish`?",
      "since": "2026-11-15T17:57:00Z",
      "restarts": 1,
      "waiting_messages": 1
    }
    "#);
    assert_eq!(all["messages"], json!({"sent": 3, "delivered": 1, "waiting": 1, "dead": 1}));
    assert_eq!(all["dead_letters"][0]["reason"], "it has left the crew");
    let kinds = all["members"].as_array().unwrap().iter().map(|one| one["agent"].clone());
    assert_eq!(kinds.collect::<Vec<_>>(), ["claude", "codex", "lint-agent"]);
    assert_eq!(all["members"][2]["command"], "/opt/bin/lint-agent --loop");
    assert_eq!(json(&State::default(), true), Value::Null);
}
