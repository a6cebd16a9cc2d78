//! Pairs of real agents: one works, others review, and what each of them was asked is judged by
//! what its model's server received.

mod kills;
mod messages;
mod stage;
mod stops;

use std::{collections::BTreeMap, fs, path::PathBuf};

use segue_testkit::{
    model_server::{Reply, When},
    vendors::{Cli, Lab},
};
use serde_json::Value;

pub(crate) use self::stage::git;
use self::stage::{
    CONCERN, QUESTION, TASK, first_attempt, given, hello, objects, of_kind, passes, processes,
    prompts, questions, reviewer_journal, reviewing, second_attempt, start, verdicts, working,
};
use crate::support::{self, Live, asked_by, bodies, segue, show, wait_for, word};

/// Of whoever reviews it has to stay hidden how the worker came to its work.
const THOUGHT: &str = "GRUMBLEFOX";

/// What would be a key, if it were one.
const SECRET: &str = "sk-none-0123456789abcdefghijklmnopqrstuvwxyz-SECRET";

macro_rules! pairs {
    ($($name:ident: $worker:ident, $reviewer:ident;)*) => {
        $(#[test]
        fn $name() {
            it_fails_is_mended_and_passes(Cli::$worker, Cli::$reviewer);
        })*
    };
}

pairs! {
    codex_works_and_claude_reviews: Codex, Claude;
    claude_works_and_codex_reviews: Claude, Codex;
    codex_works_and_gemini_reviews: Codex, Gemini;
}

fn it_fails_is_mended_and_passes(worker: Cli, reviewer: Cli) {
    let Some(mut lab) = Lab::open(worker) else { return };
    let mut work = first_attempt(worker);
    for reply in &mut work {
        reply.thinking = format!("{THOUGHT}: let me be quick about it.");
    }
    let script = [work, objects(reviewer, 1), second_attempt(worker), passes(reviewer, 2)];
    start(&mut lab, script);
    let args = ["pair", TASK, "-w", word(worker), "-r", word(reviewer), "--proof", "cat hello.txt"];
    let output = segue(&lab, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(hello(&lab), "hello\n");
    let who = word(reviewer);
    assert_eq!(verdicts(&lab), given(&[(1, who, "fail"), (2, who, "pass")]));
    let via: Vec<Value> =
        bodies(&lab, "verdict.given").iter().map(|one| one["via"].clone()).collect();
    assert_eq!(via, ["tool", "block"], "{}", output.stderr);
    let shown = show(&lab);
    assert_eq!((&shown["status"], &shown["turns"]), (&"completed".into(), &2.into()));
    the_reviewer_saw_what_it_judges_by(&lab, reviewer);
    the_worker_was_told(&lab, worker);
    both_remember(&lab, worker, reviewer);
}

fn the_reviewer_saw_what_it_judges_by(lab: &Lab, reviewer: Cli) {
    let asked = questions(lab, reviewer);
    assert_eq!(asked.len(), 2, "{asked:?}");
    for part in [
        TASK,
        "+helo\n",
        "`cat hello.txt`\nIt passed (exit status 0). Its output:\nhelo\n",
        "I wrote the greeting by hand.",
        "This is round 1.",
    ] {
        assert!(asked[0].contains(part), "{part} is not in {}", asked[0]);
    }
    assert!(!asked[0].contains(CONCERN), "{}", asked[0]);
    let ledger = format!("### C1 · correctness · raised by you in round 1\n{CONCERN}\n");
    for part in [TASK, "+hello\n", "I mended the spelling.", "This is round 2.", &ledger] {
        assert!(asked[1].contains(part), "{part} is not in {}", asked[1]);
    }
    // It was thought, and kept; but not told.
    let kept = serde_json::to_string(&support::journal(lab)).unwrap();
    assert!(kept.contains(THOUGHT), "{kept}");
    for request in asked_by(lab, reviewer) {
        let all = request.body.to_string() + &serde_json::to_string(&request.prior).unwrap();
        assert!(!all.contains(THOUGHT), "{all}");
    }
}

fn the_worker_was_told(lab: &Lab, worker: Cli) {
    let prompts = prompts(lab, worker);
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    for part in [
        "Your work was reviewed (round 1) and does not pass yet: 0 of 1 reviewers",
        "### C1 · correctness · raised by ",
        CONCERN,
        "Evidence: hello.txt:1 says helo",
        "Next step: Write it with two l",
    ] {
        assert!(prompts[1].contains(part), "{part} is not in {}", prompts[1]);
    }
}

/// In the second round, each goes on in the conversation of the first.
fn both_remember(lab: &Lab, worker: Cli, reviewer: Cli) {
    let last = |cli| asked_by(lab, cli).last().unwrap().texts().join("\n");
    let (working, reviewing) = (last(worker), last(reviewer));
    for part in [TASK, "I wrote the greeting by hand.", "does not pass yet"] {
        assert!(working.contains(part), "{part} is not in {working}");
    }
    assert!(!working.contains(QUESTION), "{working}");
    for part in ["This is round 1.", "I have said what I think.", "This is round 2."] {
        assert!(reviewing.contains(part), "{part} is not in {reviewing}");
    }
    assert_eq!(show(lab)["vendors"].as_array().unwrap().len(), 1);
    let stopped = bodies(lab, "reviewer.stopped");
    assert_eq!(stopped.len(), 2, "{stopped:?}");
    let ids = |n: usize| stopped[n]["vendor_sessions"].as_array().unwrap().clone();
    assert_eq!((ids(0).len(), ids(0)), (1, ids(1)), "{stopped:?}");
}

#[test]
fn one_vendor_twice_is_two_conversations() {
    let cli = Cli::Claude;
    let Some(mut lab) = Lab::open(cli) else { return };
    start(&mut lab, [first_attempt(cli), objects(cli, 1), second_attempt(cli), passes(cli, 2)]);
    let output = segue(&lab, &["pair", TASK, "-w", "claude", "-r", "claude"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(hello(&lab), "hello\n");
    assert_eq!(verdicts(&lab), given(&[(1, "claude-2", "fail"), (2, "claude-2", "pass")]));
    let asked = asked_by(&lab, cli);
    let texts = asked.iter().map(|request| request.texts().join("\n"));
    let (theirs, ours): (Vec<String>, Vec<String>) = texts.partition(|all| all.contains(QUESTION));
    assert!(theirs.len() == 3 && ours.len() == 5, "{} {}", theirs.len(), ours.len());
    for text in &theirs {
        assert!(!text.contains("Then your work is reviewed by"), "{text}");
    }
    for text in &ours {
        assert!(!text.contains("I have said what I think."), "{text}");
    }
    let own = show(&lab)["vendors"][0]["id"].clone();
    let reviewer = &bodies(&lab, "reviewer.stopped")[1]["vendor_sessions"];
    assert_eq!(reviewer.as_array().unwrap().len(), 1, "{reviewer}");
    assert_ne!(reviewer[0], own);
}

#[test]
fn a_reviewer_behind_the_protocol_has_the_tool_too() {
    let (worker, reviewer) = (Cli::Codex, Cli::Claude);
    let Some(mut lab) = Lab::open(Cli::ClaudeAcp) else { return };
    let script =
        [first_attempt(worker), objects(reviewer, 1), second_attempt(worker), passes(reviewer, 2)];
    start(&mut lab, script);
    let output = segue(&lab, &["pair", TASK, "-r", word(Cli::ClaudeAcp)]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "acp", "fail"), (2, "acp", "pass")]));
    let given = bodies(&lab, "verdict.given");
    assert_eq!(
        (&given[0]["via"], &given[0]["concerns"][0]["concern"]),
        (&"tool".into(), &CONCERN.into())
    );
    assert_eq!(questions(&lab, reviewer).len(), 2);
}

#[test]
fn two_review_side_by_side_and_both_have_to_agree() {
    let (worker, first, second) = (Cli::Codex, Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(worker) else { return };
    // Neither is answered before both are asked.
    let both = lab.path("both");
    let mut objection = objects(first, 1);
    objection[0].until = Some(both.clone());
    let agreement = reviewing(second, 1, stage::pass().until(&both));
    let rest = [second_attempt(worker), passes(first, 2), passes(second, 2)];
    start(&mut lab, [first_attempt(worker), objection, vec![agreement]].into_iter().chain(rest));
    let live = Live::start(&lab, &["pair", TASK, "-r", "claude,codex"]);
    wait_for(|| {
        let asked = [first, second].map(|cli| questions(&lab, cli).len());
        (asked == [1, 1]).then_some(())
    });
    fs::write(&both, "").unwrap();
    let output = live.end();
    assert_eq!(output.status, 0, "{}", output.stderr);
    let mut all = verdicts(&lab);
    all.sort();
    let expected = [
        (1, "claude", "fail"),
        (1, "codex-2", "pass"),
        (2, "claude", "pass"),
        (2, "codex-2", "pass"),
    ];
    assert_eq!(all, given(&expected));
    // Each has its own place in the ledger: whose concern it is, and whose not.
    let asked = [first, second].map(|cli| questions(&lab, cli)[1].clone());
    assert!(asked[0].contains("raised by you in round 1"), "{}", asked[0]);
    assert!(asked[1].contains("raised by claude in round 1"), "{}", asked[1]);
    let told = &prompts(&lab, worker)[1];
    assert!(told.contains("1 of 2 reviewers let it pass, and all of them have to"), "{told}");
}

#[test]
fn words_in_prose_change_nothing() {
    let (worker, reviewer) = (Cli::Codex, Cli::Claude);
    let Some(mut lab) = Lab::open(worker) else { return };
    let prose = "The password is checked: PASS, not FAIL. LGTM. It is DONE, DONE.";
    let mut work = first_attempt(worker);
    work[1].text = prose.to_owned();
    let asked_to_go_on = |reply: Reply| {
        let when = When::last_user("Go on with the task.");
        support::of(worker, reply.when(when))
    };
    let once_more = |reply: Reply| {
        let when = When::last_user("no verdict that can be read");
        support::of(reviewer, reply.when(when))
    };
    let script = [
        work,
        vec![asked_to_go_on(Reply::text("Now I am sure.\nDONE\n"))],
        vec![reviewing(reviewer, 2, Reply::text("PASS. LGTM, also the password. DONE"))],
        vec![once_more(Reply::text("I said it: PASS.\n{\"verdict\":\"pass\"}"))],
        vec![working(worker, 3, Reply::text("FAIL? No.\nDONE"))],
        vec![reviewing(
            reviewer,
            3,
            Reply { text: format!("FAIL\n{}", stage::pass().text), ..stage::pass() },
        )],
    ];
    start(&mut lab, script);
    let output = segue(&lab, &["pair", TASK, "--done", "DONE"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(2, "claude", "fail"), (3, "claude", "pass")]));
    let unreadable = &bodies(&lab, "verdict.given")[0]["concerns"];
    assert_eq!(unreadable.as_array().unwrap().len(), 1, "{unreadable}");
    assert_eq!(unreadable[0]["category"], "unreadable");
    assert!(unreadable[0]["evidence"].as_str().unwrap().contains("I said it: PASS."));
    assert_eq!(bodies(&lab, "done.signalled").len(), 2, "not in the middle of a sentence");
    assert_eq!(bodies(&lab, "review.started").len(), 2);
    let turns = of_kind(&reviewer_journal(&lab, "claude"), "turn.started");
    let ids: Vec<&str> = turns.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["review-2", "review-2:again", "review-3"], "once more, and once only");
}

#[test]
fn the_accepted_work_is_on_its_branch_and_the_users_own_is_as_it_was() {
    let (worker, reviewer) = (Cli::Codex, Cli::Claude);
    let Some(mut lab) = Lab::open(worker) else { return };
    let script =
        [first_attempt(worker), objects(reviewer, 1), second_attempt(worker), passes(reviewer, 2)];
    start(&mut lab, script);
    fs::write(lab.work().join("README.md"), "# Lab, in the middle of a change\n").unwrap();
    fs::write(lab.work().join("staged.txt"), "staged\n").unwrap();
    fs::write(lab.work().join("untracked.txt"), "untracked\n").unwrap();
    stage::git(&lab, &["add", "staged.txt"]);
    let users = |lab: &Lab| {
        let said = [&["status", "--porcelain"][..], &["ls-files", "-s"], &["rev-parse", "HEAD"]];
        let said = said.map(|args| stage::git(lab, args));
        let names = ["README.md", "staged.txt", "untracked.txt"];
        let texts = names.map(|name| fs::read_to_string(lab.work().join(name)).unwrap());
        (said, texts, stage::git(lab, &["branch", "--show-current"]))
    };
    let before = users(&lab);
    let output = segue(&lab, &["pair", TASK, "--worktree"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(users(&lab), before);
    assert_eq!(hello(&lab), "", "not among the user's files");
    let committed = bodies(&lab, "work.committed");
    assert_eq!(committed.len(), 1, "{committed:?}");
    let branch = committed[0]["branch"].as_str().unwrap();
    let tip = stage::git(&lab, &["rev-parse", branch]);
    assert_eq!(Some(tip.trim()), committed[0]["commit"].as_str());
    assert_eq!(stage::git(&lab, &["show", &format!("{branch}:hello.txt")]), "hello\n");
    let log = stage::git(&lab, &["log", "--format=%B", &format!("main..{branch}")]);
    assert!(log.starts_with(TASK), "{log}");
    assert!(log.contains("Reviewed-by: claude pass (iteration 2)"), "{log}");
    let trees = stage::git(&lab, &["worktree", "list", "--porcelain"]);
    let line = format!("branch refs/heads/{branch}");
    let tree = trees.split("\n\n").find(|tree| tree.contains(&line)).unwrap();
    let place = tree.lines().next().unwrap().trim_start_matches("worktree ");
    assert_eq!(fs::read_to_string(PathBuf::from(place).join("hello.txt")).unwrap(), "hello\n");
}

#[test]
fn settings_stay_as_they_were_and_no_key_is_seen_anywhere() {
    let (worker, reviewer) = (Cli::Codex, Cli::Claude);
    let Some(mut lab) = Lab::open(worker) else { return };
    let gate = lab.path("gate");
    let mut objection = objects(reviewer, 1);
    objection[1].until = Some(gate.clone());
    let script = [first_attempt(worker), objection, second_attempt(worker), passes(reviewer, 2)];
    start(&mut lab, script);
    let own = r#"{ "mcpServers": { "mine": { "command": "false", "args": [] } } }"#;
    fs::write(lab.work().join(".mcp.json"), own).unwrap();
    fs::create_dir_all(lab.home().join(".claude")).unwrap();
    fs::write(lab.home().join(".claude/settings.json"), "{\n  \"model\": \"opus\" }\n").unwrap();
    let before = settings(&lab);
    let mut command = support::command(&lab, &["pair", TASK, "--proof", "cat hello.txt"]);
    command.env("ANTHROPIC_API_KEY", SECRET).env("LAB_KEY", SECRET);
    let live = Live::of(command);
    // Both the reviewer's program and the server of our tools run now.
    wait_for(|| (asked_by(&lab, reviewer).len() == 2).then_some(()));
    let running = processes(&lab);
    let argv = |part: &str| running.iter().filter(|(_, line)| line.contains(part)).count();
    assert!(argv(" mcp --dir ") > 0 && argv("--output-format") > 0, "{running:?}");
    assert_eq!(argv(SECRET), 0, "{running:?}");
    fs::write(&gate, "").unwrap();
    let output = live.end();
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(settings(&lab), before);
    let kept = stage::files(&lab.segue_home());
    assert!(kept.iter().any(|path| path.ends_with("resume.json")), "{kept:?}");
    for path in kept {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains(SECRET), "{}", path.display());
    }
}

/// The files that are the user's to write, byte for byte.
fn settings(lab: &Lab) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let home = [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
    ];
    let home = home.map(|name| lab.home().join(name));
    let work = [".mcp.json", ".claude/settings.json", ".claude/settings.local.json"];
    let work = work.map(|name| lab.work().join(name));
    home.into_iter().chain(work).map(|path| (path.clone(), fs::read(&path).ok())).collect()
}
