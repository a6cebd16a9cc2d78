//! A script of events as a real session has them: every kind, and texts from many languages.

use segue_core::{
    Payload, Permission,
    caps::{Cap, Caps},
    crew::{Roster, Spec},
    event::{
        AgentChanged, AgentExited, AgentIntroduced, AgentStarted, Blocker, Body, CaseSubmitted,
        Cause, ChangeCause, CheckpointSkipped, CheckpointTaken, Concern, CrewEnding, CrewRaised,
        Decision, Delivery, Doing, DoneSignalled, Draft, Entry, Failure, FileChange, FileStatus,
        JournalRepaired, LimitHit, Mark, MemberEnded, MemberIdentified, MemberJoined, MemberLeft,
        MemberRestarted, MemberSeen, MemberStarted, MemberStarting, MessageDelivered,
        MessageFailed, MessagePosted, MessageSent, Met, ModelCalled, ModelFailed, ModelReplied,
        ModelStop, Outcome, PacketWritten, PassedOver, Process, ProgressReported, ProofReturned,
        ProofStarted, QuotaTold, Reason, ReplayEnd, ReplayEnded, Retry, ReviewStarted,
        ReviewerStopped, RewindFinished, RewindStarted, ScopeBroken, ScopeClosed, ScopeOpened,
        SessionNamed, SessionResumed, SessionStarted, SessionStopped, Span, Start, TaskFailed,
        TaskRead, TaskStarted, TasksRead, ThinkingWritten, TimerFired, ToolCalled, ToolReturned,
        ToolStarted, ToolStatus, TurnEnded, TurnStarted, UsageReported, Verdict, VerdictGiven,
        VerdictSubmitted, Via, WarningRaised, WorkAccepted, WorkCommitted, WorktreeMade,
        WorktreePlanned,
    },
    identity::Accounts,
    usage::{Micros, Usage},
};

use crate::support::{said, time};

/// A few hundred events of every kind but the first, as a session of so many turns has them.
pub(crate) fn script(turns: u32) -> Vec<Draft> {
    let by = Process { pid: 4711, host: "büro-1".into(), segue: "0.1.0".into() };
    let caps = Caps { turns: Some(40), ..Caps::default() };
    let mut drafts: Vec<Draft> = vec![
        SessionNamed { name: "Zähler reparieren 🛠".into() }.into(),
        SessionStarted { by: by.clone(), caps }.into(),
    ];
    for turn in 1..=turns {
        let bodies = opening(turn).into_iter().chain(middle(turn)).chain(closing(turn));
        drafts.extend(bodies.map(|(id, body)| Draft {
            turn: Some(turn),
            agent: Some("native".to_owned()),
            id: id.map(|id: &str| format!("{id}_{turn}")),
            body,
        }));
        if turn.is_multiple_of(7) {
            drafts.extend(interruption(&by, caps));
        }
    }
    drafts
}

type Step = (Option<&'static str>, Body);

fn opening(turn: u32) -> Vec<Step> {
    let prompt =
        Payload::inline(format!("Schritt {turn}: prüfe, ob α < β\n\tund \"zitiere\" es\u{7}"));
    let cause = if turn == 1 { Cause::Person } else { Cause::Proof };
    let model = "claude-example-5".to_owned();
    let failed = ModelFailed {
        error: Failure::Overloaded,
        message: "529 overloaded".into(),
        retry_in_ms: Some(1500),
    };
    vec![
        (None, TurnStarted::new(prompt, cause).into()),
        (
            None,
            ModelCalled { model: model.clone(), attempt: 1, messages: turn.into(), told: None }
                .into(),
        ),
        (None, failed.into()),
        (None, ModelCalled { model, attempt: 2, messages: turn.into(), told: None }.into()),
    ]
}

fn middle(turn: u32) -> Vec<Step> {
    let thinking = ThinkingWritten {
        text: Payload::inline("考え中… ".repeat(turn as usize % 9)),
        signature: Some(Payload::inline("Zm9v".repeat(20))),
    };
    let input = format!(r#"{{"command":"cargo test -p teil-{turn}","why":"日本語 \u00e4"}}"#);
    let replied = ModelReplied {
        model: "claude-example-5".into(),
        stop: ModelStop::ToolUse,
        usage: Usage { input: 12_345, output: u64::from(turn) * 17, ..Usage::default() },
        cost_micros: (!turn.is_multiple_of(3)).then_some(Micros(1234)),
        reply_id: Some(format!("msg_{turn:020}")),
    };
    let returned = ToolReturned {
        name: "shell".into(),
        status: ToolStatus::Done,
        output: Payload::inline("test ok … 👍🏽\r\n".repeat(turn as usize % 13)),
        exit: Some(0),
        touched: vec!["src/größe.rs".into()],
    };
    vec![
        (None, thinking.into()),
        (None, said(format!("Ich sehe mir Teil {turn} an. \u{2028} e\u{301}")).into()),
        (Some("call"), ToolCalled { name: "shell".into(), input: Payload::inline(input) }.into()),
        (None, replied.into()),
        (Some("call"), ToolStarted {}.into()),
        (Some("call"), returned.into()),
    ]
}

fn closing(turn: u32) -> Vec<Step> {
    let passed = ProofReturned {
        status: ToolStatus::Done,
        exit: Some(1),
        output: Payload::inline("FAILED tests::zähler\n".repeat(3)),
    };
    let mut steps: Vec<Step> = vec![
        (None, TurnEnded::with(Outcome::Finished).into()),
        (None, ProofStarted { command: "cargo test".into() }.into()),
        (None, passed.into()),
    ];
    if turn.is_multiple_of(3) {
        steps.extend(vendor_run(turn));
        steps.extend(review(turn));
    }
    if turn.is_multiple_of(6) {
        steps.extend(crew(turn));
    }
    if turn.is_multiple_of(4) {
        steps.extend(passage(turn));
    }
    if turn.is_multiple_of(5) {
        let data = serde_json::value::to_raw_value(&serde_json::json!({"on": "füße"})).unwrap();
        steps.push((None, Body::Unknown { kind: "moon.landed".into(), data }));
        steps.push((None, WarningRaised { message: "knapp".into() }.into()));
    }
    steps
}

/// What a hand-off, a checkpoint, a rewind and a worktree leave.
fn passage(turn: u32) -> Vec<Step> {
    let changed = AgentChanged {
        from: "native".into(),
        to: "codex".into(),
        model: None,
        cause: ChangeCause::Limit,
        reason: "Grenze erreicht".into(),
        passed_over: vec![PassedOver { agent: "gemini".into(), why: "nicht da".into() }],
    };
    let decision = Decision { summary: "ohne Zwischenspeicher".into(), why: Some("alt".into()) };
    let reported = ProgressReported {
        decisions: vec![decision],
        blockers: Some(vec![Blocker { summary: "日本".into(), evidence: None }]),
        remaining: Some(vec!["Doku".into()]),
        next_task: Some("weiter".into()),
        via: Via::Block,
    };
    let commit = "0123456789abcdef0123456789abcdef01234567".to_owned();
    let taken = CheckpointTaken {
        mark: Mark::TurnEnd,
        commit: commit.clone(),
        reference: format!("refs/segue/x/{turn}"),
        head: Some(commit.clone()),
        branch: Some("main".into()),
        changed: vec![FileChange { path: "src/größe.rs".into(), status: FileStatus::Added }],
        changed_total: 1,
        left_out: Vec::new(),
    };
    let started = RewindStarted {
        to_turn: turn,
        files: Some(commit.clone()),
        path: Some(vec![Span { from: 1, to: turn }]),
        safety: "refs/segue/x/before-1".into(),
        cuts: Vec::new(),
        undo: false,
    };
    let planned = WorktreePlanned {
        path: "/tmp/füße-segue-1".into(),
        branch: "segue/1-x".into(),
        base: commit,
        repo: "/tmp/füße".into(),
    };
    let ended = ReplayEnded {
        why: ReplayEnd::Drifted,
        step: 7,
        id: None,
        differs: Some("the system prompt, line 3: \"Grüße\" is new".into()),
        files: "as before turn 1".into(),
        told: Some(Payload::inline("[The files are others.]")),
        replies: 3,
        reused: Accounts::default(),
    };
    let accepted = WorkAccepted {
        commit: "0123456789abcdef0123456789abcdef01234567".into(),
        into: "/tmp/füße".into(),
        files: 2,
        safety: "refs/segue/x/before-2".into(),
    };
    vec![
        (None, changed.into()),
        (Some("report"), reported.into()),
        (None, PacketWritten { blake3: "ab".repeat(32), reason: "limit".into() }.into()),
        (None, taken.into()),
        (None, CheckpointSkipped { mark: Mark::Stop, why: "kein git".into() }.into()),
        (None, started.into()),
        (None, RewindFinished { to_turn: turn, files: 3, begins: false }.into()),
        (None, planned.into()),
        (None, WorktreeMade { path: "/tmp/füße-segue-1".into() }.into()),
        (None, ended.into()),
        (None, accepted.into()),
    ]
}

/// What a worker and its reviewers leave.
fn review(turn: u32) -> Vec<Step> {
    let concern = Concern {
        id: "C1".into(),
        category: "tests".into(),
        concern: "kein Test für „ß“".into(),
        evidence: "füße.rs:3".into(),
        next_step: "einen schreiben".into(),
        again: None,
    };
    let said = VerdictSubmitted {
        verdict: Verdict::Fail,
        concerns: vec![concern],
        summary: Some("fast".into()),
        via: Via::Block,
    };
    let started = ReviewStarted {
        iteration: turn,
        reviewers: vec!["claude".into()],
        from: Some("a".repeat(40)),
        to: Some("b".repeat(40)),
        files: Some(2),
    };
    let stopped = ReviewerStopped {
        reviewer: "claude".into(),
        agent: "claude".into(),
        session: segue_core::SessionId::from_parts(1, 1),
        reason: Reason::Done,
        message: "the verdict is given".into(),
        resets_at: None,
        vendor_sessions: vec!["5f1e23".into()],
        usage: Usage { input: 7 * u64::from(turn), ..Usage::default() },
        cost_micros: Micros(3 * u64::from(turn)),
        unpriced_calls: 0,
    };
    let sent = MessageSent {
        from: "person".into(),
        to: "native".into(),
        text: Payload::inline("behalte die alte API\nbitte"),
    };
    let delivered = MessageDelivered {
        to: "native".into(),
        messages: vec![format!("message_{turn}")],
        by: Delivery::Tool,
    };
    let given = VerdictGiven {
        iteration: turn,
        reviewer: "claude".into(),
        agent: "claude".into(),
        said: said.clone(),
        set_aside: vec!["tests-2".into()],
    };
    vec![
        (None, DoneSignalled { signal: "FERTIG".into() }.into()),
        (None, started.into()),
        (Some("verdict"), said.into()),
        (None, stopped.into()),
        (Some("review"), given.into()),
        (Some("message"), sent.into()),
        (None, delivered.into()),
        (
            None,
            WorkCommitted {
                commit: "c".repeat(40),
                branch: "segue/1-x".into(),
                task: Some("T-001".into()),
                failed: Some("iter_cap".into()),
            }
            .into(),
        ),
        (
            None,
            TasksRead {
                source: "/src/plan".into(),
                list: Payload::inline("{}"),
                tasks: vec![TaskRead {
                    id: "T-001".into(),
                    title: "One".into(),
                    digest: "d".repeat(16),
                }],
                added: vec!["T-001".into()],
                removed: Vec::new(),
                edited: Vec::new(),
            }
            .into(),
        ),
        (
            None,
            TaskStarted {
                task: "T-001".into(),
                attempt: 2,
                retry: Some(Retry {
                    was: "iter_cap".into(),
                    unwound: Some("c".repeat(40)),
                    kept: None,
                }),
            }
            .into(),
        ),
        (
            None,
            CaseSubmitted {
                summary: "Wrote it.".into(),
                criteria: vec![Met {
                    criterion: "it works".into(),
                    met_by: "a.rs:1".into(),
                    evidence: None,
                }],
                work_arounds: Vec::new(),
                doubts: vec!["big files".into()],
                via: Via::Tool,
            }
            .into(),
        ),
        (
            None,
            TaskFailed {
                task: "T-001".into(),
                why: "no_case".into(),
                message: "it made no case".into(),
            }
            .into(),
        ),
    ]
}

/// What a crew leaves: who is in it, and what becomes of one of them.
fn crew(turn: u32) -> Vec<Step> {
    let spec = Spec { id: "prüfer".into(), agent: Some("claude".into()), ..Spec::default() };
    let raised = CrewRaised {
        roster: Roster { name: Some("größe".into()), agents: vec![spec], ..Roster::default() },
        project: "/tmp/füße".into(),
        headless: turn.is_multiple_of(12),
        worktrees: true,
        branch: Some("segue/größe".into()),
        tmux: Some("/tmp/tmux-7/größe".into()),
        ..CrewRaised::default()
    };
    let member = || "prüfer-1".to_owned();
    let joined = MemberJoined {
        member: member(),
        role: "prüfer".into(),
        group: Some("bau".into()),
        instance: 1,
        session: segue_core::SessionId::from_parts(1, turn.into()),
        cwd: "/tmp/füße-1".into(),
        worktree: Some("/tmp/füße-1".into()),
        branch: Some("segue/größe-1".into()),
    };
    let starting = MemberStarting {
        member: member(),
        how: Start::Packet,
        generation: turn,
        vendor_session: None,
        command: "claude --model größer".into(),
        cwd: "/tmp/füße-1".into(),
    };
    let started = MemberStarted {
        member: member(),
        pane: Some("%3".into()),
        pid: Some(4711),
        began: Some(815),
    };
    let identified = MemberIdentified { member: member(), vendor_session: format!("5f1e{turn}") };
    let what = Some("„rm -rf“ erlauben?".into());
    let seen = MemberSeen { member: member(), doing: Doing::Waiting, what };
    let ended = MemberEnded {
        member: member(),
        why: "exit 1".into(),
        again_in_ms: Some(2000),
        degraded: false,
    };
    let mut steps: Vec<Step> = vec![
        (None, raised.into()),
        (None, joined.into()),
        (None, starting.into()),
        (None, started.into()),
        (None, identified.into()),
        (None, seen.into()),
        (None, ended.into()),
    ];
    steps.extend(crew_mail(turn));
    let ending = CrewEnding { order: Some(format!("befehl_{turn}")) };
    steps.push((None, ending.into()));
    let left = MemberLeft { member: member(), reason: "entfernt".into() };
    steps.push((None, left.into()));
    steps
}

/// What a crew says, and what it does that it should not.
fn crew_mail(turn: u32) -> Vec<Step> {
    let messages = vec![format!("message_{turn}")];
    let to = "prüfer-1".to_owned();
    let posted = MessagePosted { to: to.clone(), messages: messages.clone(), attempt: 2 };
    let failed = MessageFailed { to: to.clone(), messages, reason: "nie gesehen".into() };
    let fired = TimerFired {
        timer: "täglich".into(),
        to: vec![to.clone()],
        passed_over: vec!["coder".into()],
    };
    let broken = ScopeBroken {
        members: vec![to.clone()],
        turn_of: to.clone(),
        paths: vec!["src/größe.rs".into()],
        undone: true,
        kept_in: Some("d".repeat(40)),
    };
    let opened = ScopeOpened { member: to.clone(), base: "c".repeat(40) };
    let restarted = MemberRestarted { member: to.clone(), fresh: true };
    let closed = ScopeClosed { member: to };
    vec![
        (None, posted.into()),
        (None, failed.into()),
        (None, fired.into()),
        (None, opened.into()),
        (None, broken.into()),
        (None, restarted.into()),
        (None, closed.into()),
    ]
}

/// What a vendor's program leaves.
fn vendor_run(turn: u32) -> Vec<Step> {
    let id = Some(format!("5f1e23-{turn}"));
    let started = AgentStarted {
        entry: Entry::Resumed,
        vendor_session: id.clone(),
        command: "claude -p".into(),
        said: Some(Payload::inline("weiter")),
        cwd: "/tmp/füße".into(),
        permission: Permission::Edit,
        version: None,
        stream_from: 4096,
    };
    let told = AgentIntroduced { vendor_session: id, model: Some("m".into()), version: None };
    let usage = Usage { input: 7, cache_read: 5, reasoning: 3, ..Usage::default() };
    let used = UsageReported { model: None, usage, cost_micros: Some(Micros(12)), settles: true };
    let quota =
        QuotaTold { window: "weekly".into(), used_percent: Some(40), resets_at: Some(time(9)) };
    let exited =
        AgentExited { exit: Some(0), lines: 12, unread_lines: 1, ..AgentExited::default() };
    vec![
        (None, started.into()),
        (None, told.into()),
        (None, used.into()),
        (None, quota.into()),
        (None, exited.into()),
    ]
}

fn interruption(by: &Process, caps: Caps) -> Vec<Draft> {
    let stopped = SessionStopped {
        reason: Reason::Cap,
        agent: None,
        cap: Some(Cap::Turns),
        signal: None,
        resets_at: Some(time(60_000)),
        message: "genug für heute".into(),
        hint: Some("segue resume 1 --max-turns 80".into()),
    };
    let resumed = SessionResumed {
        by: by.clone(),
        caps,
        plan: vec!["1. weiter".into(), "2. prüfen".into()],
        crashed: false,
        model: None,
        workspace: None,
        permission: None,
        leftovers_ended: vec![],
    };
    vec![
        LimitHit { message: "weekly limit".into(), window: None, resets_at: Some(time(60_000)) }
            .into(),
        stopped.into(),
        resumed.into(),
        JournalRepaired { bytes: 17, kept_in: "journal.torn-9".into() }.into(),
    ]
}
