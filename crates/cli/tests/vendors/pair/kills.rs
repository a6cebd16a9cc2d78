//! `kill -9` of Segue in every state of a pair: the same iteration goes on, nobody who has spoken is
//! asked again, what was said to each arrives once, and it ends as it would have.

use std::{fs, path::PathBuf, thread, time::Duration};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use segue_testkit::{
    model_server::{Fault, Reply, When},
    vendors::{Cli, Lab},
};
use serde_json::Value;

use super::stage::{
    QUESTION, TASK, first_attempt, fix, git, given, hello, objection, objects, of_kind, pass,
    passes, prompts, questions, reviewer_journal, reviewing, second_attempt, start, verdicts,
    wait_for_event, wait_until_nothing_runs, working,
};
use crate::{
    checkpoint::our_tool,
    support::{Live, api, asked_by, bodies, journal, of, segue, show, wait_for, wait_gone},
};

const WORKER: Cli = Cli::Codex;
const REVIEWER: Cli = Cli::Claude;

const PAIR: [&str; 4] = ["pair", TASK, "--proof", "cat hello.txt"];

/// Nothing comes back, however long one waits.
fn silence() -> Reply {
    Reply::fault(Fault::hang()).sticky()
}

/// How far it came; what is said to somebody comes at any time.
fn last_kind(lab: &Lab) -> String {
    let mut kinds =
        journal(lab).into_iter().map(|event| event["kind"].as_str().unwrap().to_owned());
    kinds.rfind(|kind| kind != "message.sent").unwrap()
}

/// What is said to each of them just before the kill, whether it is recorded by then or not.
const SAID: [(&str, &str); 2] = [("worker", "WORKERWORD"), ("claude", "REVIEWERWORD")];

fn say(lab: &Lab, to: &str, word: &str) {
    let output = segue(lab, &["bridge", "1", "send", to, &format!("{word}, says a person")]);
    assert_eq!(output.status, 0, "{}", output.stderr);
}

fn say_to_both(lab: &Lab) {
    for (to, word) in SAID {
        say(lab, to, word);
    }
}

/// The last that a model knew of an agent's conversation: of the worker's, or of a reviewer's.
fn conversation(lab: &Lab, cli: Cli, review: bool) -> String {
    let mut all = asked_by(lab, cli).into_iter().map(|request| request.texts().join("\n"));
    all.rfind(|text| text.contains(QUESTION) == review).unwrap_or_default()
}

/// Each was told what was said to it once. Nobody was told what was said to somebody else, but that
/// reviewers judge by what a person has said to the worker before they were asked.
fn each_was_told_once(lab: &Lab, before: bool) {
    let (worker, reviewer) = (conversation(lab, WORKER, false), conversation(lab, REVIEWER, true));
    let count = |text: &str| SAID.map(|(_, word)| text.matches(word).count());
    assert_eq!(count(&worker), [1, 0], "{worker}");
    assert_eq!(count(&reviewer), [usize::from(before), 1], "{reviewer}");
    nothing_waits(lab);
}

fn nothing_waits(lab: &Lab) {
    let bridge = segue(lab, &["bridge", "1", "--json"]).stdout;
    let bridge: Value = serde_json::from_str(&bridge).unwrap();
    assert_eq!(bridge["not_delivered"], 0, "{bridge:#}");
}

fn killed(lab: &Lab, live: Live) {
    say_to_both(lab);
    live.kill();
    wait_until_nothing_runs(lab);
    assert_eq!(show(lab)["status"], "crashed");
}

/// Goes on, to the end that it would have had without the kill.
fn resumed_to_its_end(lab: &Lab) {
    ends_after(lab, &["person", "review"]);
    each_was_told_once(lab, true);
}

/// The same with these turns of the worker.
fn ends_after(lab: &Lab, turns: &[&str]) {
    let output = segue(lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(hello(lab), "hello\n");
    assert_eq!(verdicts(lab), given(&[(1, "claude", "fail"), (2, "claude", "pass")]));
    let rounds: Vec<Value> =
        bodies(lab, "review.started").iter().map(|one| one["iteration"].clone()).collect();
    assert_eq!(rounds, (1..=turns.len()).collect::<Vec<_>>());
    let begun = bodies(lab, "turn.started");
    let causes: Vec<&Value> = begun.iter().map(|turn| &turn["cause"]).collect();
    assert_eq!(causes, turns);
    let asked = of_kind(&reviewer_journal(lab, "claude"), "turn.started");
    let ids: Vec<&str> = asked.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["review-1", "review-2"], "each question once");
    assert_eq!(show(lab)["status"], "completed");
}

#[test]
fn in_the_middle_of_the_work() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    // In the second attempt, after the file was written and before the last word.
    let [written] = fix(WORKER).try_into().unwrap();
    let held = vec![working(WORKER, 2, written), working(WORKER, 2, silence())];
    start(&mut lab, [first_attempt(WORKER), objects(REVIEWER, 1), held]);
    let live = Live::start(&lab, &PAIR);
    wait_for(|| (hello(&lab) == "hello\n" && asked_by(&lab, WORKER).len() == 4).then_some(()));
    killed(&lab, live);

    let done = of(WORKER, Reply::text("I mended the spelling."));
    // Its turn goes on as it was begun: what was said to it since is one more.
    let thanks = of(WORKER, Reply::text("I have heard it."));
    start(&mut lab, [vec![done, thanks], passes(REVIEWER, 2)]);
    ends_after(&lab, &["person", "review", "message"]);
    each_was_told_once(&lab, false);
    assert_eq!(questions(&lab, REVIEWER).len(), 1);
    let told = asked_by(&lab, WORKER)[0].texts().join("\n");
    for part in [TASK, "I wrote the greeting by hand.", "does not pass yet", "Go on where you"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(told.matches("does not pass yet").count(), 1, "told once: {told}");
}

#[test]
fn between_the_work_and_its_proof() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    start(&mut lab, [first_attempt(WORKER)]);
    let (proving, go) = (lab.path("proving"), lab.path("go"));
    let (shown, open) = (proving.display(), go.display());
    let proof = format!("echo $$ > {shown}; test -e {open} || sleep 300; cat hello.txt");
    let live = Live::start(&lab, &["pair", TASK, "--proof", &proof]);
    let proof = wait_for(|| fs::read_to_string(&proving).ok().filter(|text| text.ends_with('\n')));
    killed(&lab, live);
    wait_gone(proof.trim().parse().unwrap());
    assert_eq!(last_kind(&lab), "proof.started");

    fs::write(&go, "").unwrap();
    start(&mut lab, [objects(REVIEWER, 1), second_attempt(WORKER), passes(REVIEWER, 2)]);
    resumed_to_its_end(&lab);
    assert_eq!(prompts(&lab, WORKER).len(), 1, "its first attempt was over");
    let proofs = bodies(&lab, "proof.returned");
    let ended: Vec<(&Value, &Value)> =
        proofs.iter().map(|proof| (&proof["status"], &proof["exit"])).collect();
    assert_eq!(ended.len(), 3, "{ended:?}");
    assert_eq!(ended[0].0, "may_have_run");
    let asked = questions(&lab, REVIEWER);
    assert!(asked[0].contains("It passed (exit status 0). Its output:\nhelo"), "{}", asked[0]);
}

#[test]
fn in_mid_review_with_one_of_two_verdicts_in() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let second = WORKER;
    let held = vec![reviewing(second, 1, silence())];
    start(&mut lab, [first_attempt(WORKER), objects(REVIEWER, 1), held]);
    let live = Live::start(&lab, &[&PAIR[..], &["-r", "claude,codex"]].concat());
    wait_for_event(&lab, "verdict.given");
    wait_for(|| (questions(&lab, second).len() == 1).then_some(()));
    assert_eq!(questions(&lab, REVIEWER).len(), 1);
    say(&lab, "codex-2", "SECONDWORD");
    killed(&lab, live);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "fail")]));

    let rest = [second_attempt(WORKER), passes(REVIEWER, 2), passes(second, 2)];
    start(&mut lab, [passes(second, 1)].into_iter().chain(rest));
    let output = segue(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(hello(&lab), "hello\n");
    let mut all = verdicts(&lab);
    all[2..].sort();
    let expected = [
        (1, "claude", "fail"),
        (1, "codex-2", "pass"),
        (2, "claude", "pass"),
        (2, "codex-2", "pass"),
    ];
    assert_eq!(all, given(&expected));
    let rounds = questions(&lab, REVIEWER);
    assert!(rounds.len() == 1 && rounds[0].contains("This is round 2."), "{rounds:?}");
    // Whose answer was lost goes on in its conversation, which has the question once.
    let asked = asked_by(&lab, second);
    let first = asked.iter().find(|request| request.texts().join("\n").contains(QUESTION)).unwrap();
    let told = first.texts().join("\n");
    assert_eq!(told.matches(QUESTION).count(), 1, "{told}");
    for name in ["claude", "codex-2"] {
        let turns = of_kind(&reviewer_journal(&lab, name), "turn.started");
        let ids: Vec<&str> = turns.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["review-1", "review-2"], "{name}");
    }
    assert_eq!(bodies(&lab, "review.started").len(), 2);
    each_was_told_once(&lab, true);
    let told = conversation(&lab, second, true);
    assert_eq!(told.matches("SECONDWORD").count(), 1, "{told}");
}

/// A verdict that came by the tool is the reviewer's last word: it is not even asked for the rest of
/// its answer.
#[test]
fn after_a_verdict_was_submitted_and_before_it_counts() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let [call, _] = objects(REVIEWER, 1).try_into().unwrap();
    let held = vec![call, reviewing(REVIEWER, 1, silence())];
    start(&mut lab, [first_attempt(WORKER), held]);
    let live = Live::start(&lab, &PAIR);
    wait_for(|| (asked_by(&lab, REVIEWER).len() == 2).then_some(()));
    killed(&lab, live);
    assert!(verdicts(&lab).is_empty());

    start(&mut lab, [second_attempt(WORKER), passes(REVIEWER, 2)]);
    resumed_to_its_end(&lab);
    let asked = questions(&lab, REVIEWER);
    assert_eq!((asked.len(), asked_by(&lab, REVIEWER).len()), (1, 1), "{asked:?}");
    assert!(asked[0].contains("This is round 2."), "{asked:?}");
}

/// The same with the roles the other way round.
#[test]
fn claude_works_and_codex_had_submitted_its_verdict() {
    let (worker, reviewer) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(worker) else { return };
    let [call, _] = objects(reviewer, 1).try_into().unwrap();
    let held = vec![call, reviewing(reviewer, 1, silence())];
    start(&mut lab, [first_attempt(worker), held]);
    let live = Live::start(&lab, &["pair", TASK, "--worker", "claude", "--reviewer", "codex"]);
    wait_for(|| (asked_by(&lab, reviewer).len() == 2).then_some(()));
    say(&lab, "worker", "WORKERWORD");
    say(&lab, "codex", "REVIEWERWORD");
    live.kill();
    wait_until_nothing_runs(&lab);
    assert_eq!((show(&lab)["status"].as_str(), verdicts(&lab)), (Some("crashed"), vec![]));

    start(&mut lab, [second_attempt(worker), passes(reviewer, 2)]);
    let output = segue(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(hello(&lab), "hello\n");
    assert_eq!(verdicts(&lab), given(&[(1, "codex", "fail"), (2, "codex", "pass")]));
    let asked = of_kind(&reviewer_journal(&lab, "codex"), "turn.started");
    let ids: Vec<&str> = asked.iter().map(|turn| turn["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["review-1", "review-2"], "each question once");
    assert_eq!(asked_by(&lab, reviewer).len(), 1, "not for the rest of its answer");
    let (working, judging) =
        (conversation(&lab, worker, false), conversation(&lab, reviewer, true));
    let told = |text: &str| SAID.map(|(_, word)| text.matches(word).count());
    // What a person said to the worker, the reviewer judges by.
    assert_eq!((told(&working), told(&judging)), ([1, 0], [1, 1]), "{judging}");
    nothing_waits(&lab);
}

/// What is known of limits is read at the end of every turn and before the next thing is done. Here
/// it is a pipe that nobody writes to: so Segue stands still there.
struct Barrier {
    limits: PathBuf,
    /// Every pipe that had the name so far.
    pipes: Vec<PathBuf>,
}

impl Barrier {
    fn put_up(lab: &Lab) -> Self {
        let mut barrier = Self { limits: lab.segue_home().join("limits.json"), pipes: Vec::new() };
        barrier.shut();
        barrier
    }

    /// Whoever comes from now on finds a new pipe.
    fn shut(&mut self) {
        let pipe = self.limits.with_extension(format!("pipe-{}", self.pipes.len()));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let link = self.limits.with_extension("link");
        fs::hard_link(&pipe, &link).unwrap();
        fs::rename(&link, &self.limits).unwrap();
        self.pipes.push(pipe);
    }

    /// Lets in the first who comes, and nobody after: it is shut behind them before they can go on.
    fn let_one_in(&mut self) {
        wait_for(|| {
            self.shut();
            let [before @ .., _] = &self.pipes[..] else { unreachable!("one is there") };
            let flags = OFlags::WRONLY | OFlags::NONBLOCK;
            // It opens only where somebody stands and waits.
            before.iter().any(|pipe| open(pipe, flags, Mode::empty()).is_ok()).then_some(())
        });
    }

    /// Kills Segue in front of it.
    fn kill_after(self, lab: &Lab, live: Live, last: &str, before: impl FnOnce(&Lab)) {
        wait_for_event(lab, last);
        before(lab);
        live.kill();
        for pipe in self.pipes.iter().chain([&self.limits]) {
            fs::remove_file(pipe).unwrap();
        }
        wait_until_nothing_runs(lab);
        assert_eq!(last_kind(lab), last);
        assert_eq!(show(lab)["status"], "crashed");
    }
}

#[test]
fn after_the_last_word_of_the_worker_and_before_anything_is_kept_of_it() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let gate = lab.path("gate");
    let mut work = first_attempt(WORKER);
    work[1].until = Some(gate.clone());
    start(&mut lab, [work]);
    let live = Live::start(&lab, &PAIR);
    wait_for(|| (asked_by(&lab, WORKER).len() == 2).then_some(()));
    let barrier = Barrier::put_up(&lab);
    fs::write(&gate, "").unwrap();
    barrier.kill_after(&lab, live, "turn.ended", say_to_both);

    start(&mut lab, [objects(REVIEWER, 1), second_attempt(WORKER), passes(REVIEWER, 2)]);
    resumed_to_its_end(&lab);
    assert_eq!(prompts(&lab, WORKER).len(), 1, "its first attempt was over");
    let asked = questions(&lab, REVIEWER);
    assert!(asked[0].contains("+helo\n"), "what it did is kept: {}", asked[0]);
}

#[test]
fn between_the_verdict_and_the_next_attempt() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let gate = lab.path("gate");
    let mut objection = objects(REVIEWER, 1);
    objection[1].until = Some(gate.clone());
    start(&mut lab, [first_attempt(WORKER), objection]);
    let live = Live::start(&lab, &PAIR);
    wait_for(|| (asked_by(&lab, REVIEWER).len() == 2).then_some(()));
    let mut barrier = Barrier::put_up(&lab);
    fs::write(&gate, "").unwrap();
    // The reviewer's own turn ends before its verdict counts.
    barrier.let_one_in();
    barrier.kill_after(&lab, live, "verdict.given", say_to_both);

    start(&mut lab, [second_attempt(WORKER), passes(REVIEWER, 2)]);
    resumed_to_its_end(&lab);
    let rounds = questions(&lab, REVIEWER);
    assert!(rounds.len() == 1 && rounds[0].contains("This is round 2."), "{rounds:?}");
    let told = prompts(&lab, WORKER);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("does not pass yet"), "{}", told[0]);
}

#[test]
fn between_the_last_verdict_and_the_commit() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    let gate = lab.path("gate");
    let agreed = vec![reviewing(REVIEWER, 1, pass().until(&gate))];
    start(&mut lab, [first_attempt(WORKER), agreed]);
    let live = Live::start(&lab, &["pair", TASK, "--worktree"]);
    wait_for(|| (asked_by(&lab, REVIEWER).len() == 1).then_some(()));
    let mut barrier = Barrier::put_up(&lab);
    fs::write(&gate, "").unwrap();
    // The reviewer's own turn ends before its verdict counts.
    barrier.let_one_in();
    barrier.kill_after(&lab, live, "verdict.given", |_| {});

    start(&mut lab, []);
    let output = segue(&lab, &["resume", "1"]);
    assert_eq!((output.status, lab.turns().len()), (0, 0), "{}", output.stderr);
    assert_eq!(verdicts(&lab), given(&[(1, "claude", "pass")]));
    let committed = bodies(&lab, "work.committed");
    assert_eq!(committed.len(), 1, "{committed:?}");
    let branch = committed[0]["branch"].as_str().unwrap();
    assert_eq!(git(&lab, &["show", &format!("{branch}:hello.txt")]), "helo\n");
    assert_eq!(git(&lab, &["rev-list", "--count", &format!("main..{branch}")]), "1\n");
}

/// Whatever is asked, and however often, the models answer as far as the conversation has come.
fn patient_models() -> Vec<Reply> {
    let told = |cli, part: &str| When { api: Some(api(cli)), ..When::body(part) };
    let after = |cli, part: &str| When { api: Some(api(cli)), ..When::last_tool(part) };
    let fix = WORKER.shell("printf 'hello\\n' > hello.txt; echo FIXED");
    let write = WORKER.shell("printf 'helo\\n' > hello.txt; echo WRITTEN");
    let verdict = our_tool(REVIEWER, "submit_verdict", objection());
    let replies = [
        Reply::text("I mended the spelling.").when(after(WORKER, "FIXED")),
        fix.when(told(WORKER, "does not pass yet")),
        Reply::text("I wrote the greeting by hand.").when(after(WORKER, "WRITTEN")),
        of(WORKER, write),
        pass().when(told(REVIEWER, "This is round 2.")),
        Reply::text("I have said what I think.").when(after(REVIEWER, "noted: fail")),
        of(REVIEWER, verdict),
    ];
    replies.map(Reply::sticky).into()
}

#[test]
fn again_and_again_at_any_moment() {
    let Some(mut lab) = Lab::open(WORKER) else { return };
    start(&mut lab, [patient_models()]);
    let mut kills = 0;
    let mut args = &PAIR[..];
    for moment in [400, 250, 700, 500, 900, 350, 1100, 600, 800, 450] {
        let live = Live::start(&lab, args);
        wait_for(|| (!journal(&lab).is_empty()).then_some(()));
        thread::sleep(Duration::from_millis(moment));
        live.kill();
        wait_until_nothing_runs(&lab);
        if show(&lab)["status"] == "completed" {
            break;
        }
        kills += 1;
        args = &["resume", "1"];
    }
    assert!(kills > 1, "it was over too soon");
    ends_after(&lab, &["person", "review"]);
}
