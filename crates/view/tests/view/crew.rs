//! A crew on a real disk: in a list, on its page, for scripts.

use insta::assert_snapshot;
use segue_core::{
    Draft, SessionId,
    crew::{Roster, Spec},
    event::{
        CrewRaised, Doing, MemberIdentified, MemberJoined, MemberSeen, MemberStarted,
        MessageFailed, MessageSent,
    },
    identity::LoopKind,
    payload::Payload,
    selector::Selector,
    status::Status,
};
use segue_journal::{Durability, Home, LockedSession};
use segue_view::{
    Filter, Index, Row, Style,
    json::{RowJson, ShowJson},
    select::resolve,
    show::{Show, show_text},
    table::list_table,
};

use crate::common::{at, clock, home, me, new, started};

/// A crew of two, of whom one waits for a person.
fn raise(home: &Home) -> LockedSession {
    let mut made = new("a", "");
    (made.loop_kind, made.agent, made.model) = (LoopKind::Crew, "crew".into(), None);
    made.name = Some("app".into());
    let (mut session, _) = home.create(made, &me(), &clock(1_000)).unwrap();
    let mut record = |draft: Draft| {
        session.append(draft, Durability::Synced).unwrap();
    };
    let spec = |id: &str, agent: &str| Spec {
        id: id.into(),
        agent: Some(agent.into()),
        ..Spec::default()
    };
    let agents = vec![spec("coder", "claude"), spec("tester", "codex")];
    let raised = CrewRaised {
        roster: Roster { agents, ..Roster::default() },
        project: "/src/a".into(),
        headless: false,
        worktrees: false,
        branch: None,
        ..CrewRaised::default()
    };
    record(raised.into());
    record(started().into());
    for (n, member) in ["coder", "tester"].map(String::from).into_iter().enumerate() {
        let joined = MemberJoined {
            member: member.clone(),
            role: member.clone(),
            group: None,
            instance: 1,
            session: SessionId::from_parts(1, n as u128),
            cwd: "/src/a".into(),
            worktree: None,
            branch: None,
        };
        record(joined.into());
        let pane = Some(format!("%{n}"));
        record(MemberStarted { member: member.clone(), pane, pid: Some(7), began: None }.into());
        record(MemberSeen { member, doing: Doing::Idle, what: None }.into());
    }
    let member = "coder".to_owned();
    let vendor_session = "5f1e23-77aa".to_owned();
    record(MemberIdentified { member: member.clone(), vendor_session }.into());
    let what = Some("Allow `cargo publish`?".to_owned());
    record(MemberSeen { member: member.clone(), doing: Doing::Waiting, what }.into());
    for (id, to) in [("m-1", member), ("m-2", "tester".to_owned())] {
        let sent = MessageSent { from: "person".into(), to, text: Payload::inline("hurry") };
        record(Draft::from(sent).about(id));
    }
    let failed = MessageFailed {
        to: "tester".into(),
        messages: vec!["m-2".into()],
        reason: "it has \x1b[2Jgone\naway".into(),
    };
    record(failed.into());
    session
}

fn only_row(home: &Home) -> Row {
    let mut index = Index::open(home).unwrap();
    index.refresh().unwrap();
    index.query(&Filter::default()).unwrap().rows.remove(0)
}

#[test]
fn a_crew_in_a_list() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    let session = raise(&home);
    assert_eq!(only_row(&home).status(), Status::Running);
    drop(session);
    // What is read from the index again is the same.
    let row = only_row(&home);
    assert_eq!((row.status(), row.crew.len()), (Status::Unattended, 2));
    assert_eq!(row.vendor_ids, ["5f1e23-77aa"]);
    let json = serde_json::to_value(RowJson::from(&row)).unwrap();
    assert_snapshot!(list_table(&[row], &Style::plain(100), at(1_200)), @"
    #  status      agent                    turns  spend  updated    prompt
    1  unattended  2 agents: claude, codex      0      –  3 min ago  app · 1 waiting: coder · 1 idle
    ");
    assert_eq!((&json["status"], &json["resumable"]), (&"unattended".into(), &true.into()));
    assert_eq!(json["crew"]["standing"], "1 waiting: coder · 1 idle");
    let coder = &json["crew"]["members"][0];
    assert_eq!((&coder["agent_id"], &coder["state"]), (&"coder".into(), &"waiting".into()));
}

#[test]
fn a_crew_is_found_by_what_a_vendor_calls_one_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    drop(raise(&home));
    let mut index = Index::open(&home).unwrap();
    index.refresh().unwrap();
    let selector = Selector::parse("5f1e23-77aa");
    assert_eq!(resolve(&mut index, &selector, None).unwrap().number, Some(1));
}

#[test]
fn the_page_of_a_crew() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    drop(raise(&home));
    let mut index = Index::open(&home).unwrap();
    index.refresh().unwrap();
    let found = resolve(&mut index, &Selector::Number(1), None).unwrap();
    let show = Show::of(&found.open(&home).unwrap(), &found);
    let text = show_text(&show, &Style::plain(80), at(1_200));
    let (_, text) = text.split_once('\n').unwrap();
    let (text, _) = text.split_once("files").unwrap();
    assert_snapshot!(text, @"
    status     unattended · 3 min ago
    next       segue resume 1
    agents     2 agents: claude, codex
    workspace  /src/a
    repository /src/a
    created    3 min ago (2027-01-15 08:16 UTC)
    runs       1
    members    1 waiting: coder · 1 idle
      member  agent   state    since  vendor id    pane  in  restarts
      coder   claude  waiting  3 min  5f1e23-77aa  %0    .          0
        ⏸ Allow `cargo publish`?
      tester  codex   idle     3 min  –            %1    .          0
    messages   2 sent · 0 delivered · 1 waiting · 1 not delivered
    dead       person → tester · it has gone away · 3 min ago
    ");
    let json = serde_json::to_value(ShowJson::from(&show)).unwrap();
    assert_eq!(json["crew"]["members"][0]["waiting_messages"], 1);
    assert_eq!(json["crew"]["watched"], false);
}
