//! What holds over the rounds of a pair: concerns, messages, caps, files, and what is done when one of
//! them goes wrong.

use std::fs;

use rustix::process::Signal;
use segue_testkit::env::TestEnv;
use serde_json::{Value, json};

use crate::{
    pair::{FAIL, PASS, model, pair, prompts, questions, run, theirs, verdict, verdicts},
    support::{data, finish, json, segue, show, signal, start, until},
};

/// A worker that writes one file in each of its turns.
fn writer(files: &[&str]) -> String {
    let turns = files.iter().map(|file| {
        format!(
            "[[reply]]\ntools = [{{ name = \"write_file\", input = {{ path = \"{file}\", content = \
             \"of {file}\\n\" }} }}]\n[[reply]]\ntext = \"It is there.\"\n"
        )
    });
    turns.collect()
}

fn concern(text: &str, evidence: &str) -> String {
    format!(
        "{{ category = \"tests\", concern = \"{text}\", evidence = \"{evidence}\", next_step = \"Mend it\" }}"
    )
}

/// A reviewer's turn: what it objects to, and a last word.
fn objection(concerns: &[&str]) -> String {
    format!(
        "[[reply]]\ntools = [{{ name = \"submit_verdict\", input = {{ verdict = \"fail\", concerns = \
         [{}] }} }}]\n[[reply]]\ntext = \"See above.\"\n",
        concerns.join(", ")
    )
}

fn ids(given: &Value) -> Vec<&str> {
    let concerns = given["concerns"].as_array();
    concerns.into_iter().flatten().filter_map(|one| one["id"].as_str()).collect()
}

#[test]
fn what_is_alike_is_apart_and_what_is_settled_stays_so() {
    let empty = concern("There is no test for the empty list in add", "a.rs:1");
    let full = concern("There is no test for the full list in add", "a.rs:9");
    let reviewer = [
        objection(&[&empty, &full]),
        objection(&[&empty, &full]),
        // The one is met.
        objection(&[&full]),
        // It is raised again beside what is open, and then alone, twice.
        objection(&[&empty, &full]),
        objection(&[&empty]),
        objection(&[&empty]),
    ]
    .concat();
    let (env, mut args) = pair(&[&reviewer]);
    args[3] = model(&env, "worker", &writer(&["a", "b", "c", "d", "e", "f"]));
    let output = run(&env, &args, &[]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let given = data(&env, 1, "verdict.given");
    let named: Vec<Vec<&str>> = given.iter().map(ids).collect();
    assert_eq!(named, [vec!["C1", "C2"], vec!["C1", "C2"], vec!["C2"], vec!["C2"], vec![]]);
    let aside: Vec<&Value> = given.iter().map(|one| &one["set_aside"]).collect();
    let none = Value::Null;
    assert_eq!(aside, [&none, &none, &none, &json!(["C1"]), &json!(["C1"])]);
    // Whoever looks sees that it is not all that the reviewer said.
    let shown = segue(&env, &["bridge", "1"]).stdout;
    assert!(shown.contains("native-2  pass (C1 set aside)"), "{shown}");
    let listed = json(&segue(&env, &["bridge", "1", "--json"]).stdout);
    assert_eq!(listed["verdicts"][4]["set_aside"], json!(["C1"]));
    assert_eq!(verdicts(&env).pop(), Some(verdict(5, "native-2", "pass")));
    assert_eq!(questions(&env, "native-2").last().unwrap(), "review-5:settled");
    let told = |turn: usize| {
        data(&env, 1, "turn.started")[turn]["prompt"]["text"].as_str().unwrap().to_owned()
    };
    for part in ["### C1 ", "### C2 "] {
        assert!(told(2).contains(part), "{}", told(2));
    }
    // What was settled is not told as if it had come back.
    assert!(told(4).contains("settled\n\n- C1 (tests)"), "{}", told(4));
    assert!(!told(4).contains("### C1 "), "{}", told(4));
    assert!(
        output.stderr.contains("native-2 raises C1 again: settled before"),
        "{}",
        output.stderr
    );
    let asked = prompts(&env, "native-2");
    assert!(
        asked[2].contains("- round 1: native-2 fail\n- round 2: native-2 fail\n"),
        "{}",
        asked[2]
    );
}

#[test]
fn an_answer_that_cannot_be_read_settles_nothing() {
    let empty = concern("There is no test for the empty list in add", "a.rs:1");
    let prose = "[[reply]]\ntext = \"It looks fine to me.\"\n".repeat(2);
    let reviewer = [objection(&[&empty]), prose, objection(&[&empty]), PASS.to_owned()].concat();
    let (env, mut args) = pair(&[&reviewer]);
    args[3] = model(&env, "worker", &writer(&["a", "b", "c", "d"]));
    let output = run(&env, &args, &[]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let given = data(&env, 1, "verdict.given");
    let named: Vec<Vec<&str>> = given.iter().map(ids).collect();
    assert_eq!(named, [vec!["C1"], vec!["C2"], vec!["C1"], vec![]]);
    let asked = questions(&env, "native-2");
    assert_eq!(asked, ["review-1", "review-2", "review-2:again", "review-3", "review-4"]);
    let told = |turn: usize| {
        data(&env, 1, "turn.started")[turn]["prompt"]["text"].as_str().unwrap().to_owned()
    };
    assert!(told(2).contains("### C1 ") && !told(2).contains("settled"), "{}", told(2));
    assert!(told(3).contains("ESCALATED: raised 2 times"), "{}", told(3));
}

#[test]
fn a_message_in_a_review_that_was_killed_is_not_told_again_in_the_next() {
    let worker = r#"
[[reply]]
tools = [
    { name = "write_file", input = { path = "a.txt", content = "a" } },
    { name = "send_to_agent", input = { to = "reviewers", message = "Look at line 1." } },
]
[[reply]]
text = "Done."
"#;
    let slow = format!("[[reply]]\ndelay_ms = 60000\ntext = \"…\"\n{PASS}");
    let (env, mut args) = pair(&[&slow]);
    args[3] = model(&env, "worker", &format!("{worker}{}", writer(&["b"])));
    let child = start(&mut env.command(&args));
    until("the review", || !theirs(&env, "native-2", "model.called").is_empty());
    signal(&child, Signal::KILL);
    finish(child);
    model(&env, "reviewer-0", PASS);
    let output = segue(&env, &["resume", "1", "And b"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(questions(&env, "native-2"), ["review-1", "review-2"]);
    let told: Vec<usize> = prompts(&env, "native-2")
        .iter()
        .map(|text| text.matches("Look at line 1.").count())
        .collect();
    assert_eq!(told, [1, 0]);
    assert_eq!(data(&env, 1, "message.delivered").len(), 1);
}

#[test]
fn after_a_rewind_the_diff_begins_at_what_is_accepted_there() {
    let (env, mut args) = pair(&[&PASS.repeat(4)]);
    args[3] = model(&env, "worker", &writer(&["one", "two", "three"]));
    assert_eq!(run(&env, &args, &[]).status, 0);
    for prompt in ["Two", "Three"] {
        let output = segue(&env, &["resume", "1", prompt]);
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
    let output = segue(&env, &["rewind", "1", "--turn", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    // The conversation is the shorter one: it does what it did then, and that is new here.
    let output = segue(&env, &["resume", "1", "Two, in another way"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let asked = prompts(&env, "native-2").pop().unwrap();
    assert!(asked.contains("+of two"), "{asked}");
    assert!(!asked.contains("+of one") && !asked.contains("of three"), "{asked}");
    assert_eq!(verdicts(&env).len(), 4);
    assert!(show(&env, "1")["stop"]["message"].as_str().unwrap().contains("lets it pass"));
    // All of it is there again when it is taken back.
    let output = segue(&env, &["rewind", "1", "--undo"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
}

#[test]
fn what_was_said_of_a_turn_that_was_left_behind_is_not_said_of_the_one_that_is_back() {
    let (env, mut args) = pair(&[&[PASS, FAIL, PASS, PASS].concat()]);
    let works = |files: &[&str]| model(&env, "worker", &writer(files));
    args[3] = works(&["good", "bad"]);
    assert_eq!(run(&env, &args, &["--worktree"]).status, 0);
    let output = segue(&env, &["resume", "1", "More", "--max-iterations", "1"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    works(&["good", "better"]);
    let output = segue(&env, &["resume", "1", "In another way"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    let committed = data(&env, 1, "work.committed").len();
    works(&["good", "bad", "mended"]);
    let output = segue(&env, &["resume", "1", "--max-iterations", "3"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    // The old verdict stands: it is mended, and what is reviewed then is all of it.
    let words: Vec<String> = verdicts(&env).into_iter().map(|(_, _, word)| word).collect();
    assert_eq!(words, ["pass", "fail", "pass", "pass"]);
    assert_eq!(verdicts(&env)[3].0, 2);
    assert_eq!(data(&env, 1, "turn.started").last().unwrap()["cause"], "review");
    let asked = prompts(&env, "native-2").pop().unwrap();
    assert!(asked.contains("+of bad") && asked.contains("+of mended"), "{asked}");
    assert!(!asked.contains("of better"), "{asked}");
    assert_eq!(data(&env, 1, "work.committed").len(), committed + 1);
    let branch = "segue/1-write-greet-sh";
    let tree = env.git(["ls-tree", "--name-only", branch]).unwrap().stdout;
    assert_eq!(tree, "bad\nbase.txt\ngood\nmended\n");
}

#[test]
fn a_review_that_was_broken_off_and_left_behind_is_asked_for_again_when_it_is_back() {
    let slow = PASS.replace("[[reply]]", "[[reply]]\ndelay_ms = 60000");
    let (env, mut args) = pair(&[&format!("{PASS}{slow}")]);
    let works = |files: &[&str]| model(&env, "worker", &writer(files));
    args[3] = works(&["good", "bad"]);
    assert_eq!(run(&env, &args, &[]).status, 0);
    let child = start(&mut env.command(["resume", "1", "More"]));
    until("the review", || theirs(&env, "native-2", "model.called").len() == 2);
    signal(&child, Signal::KILL);
    finish(child);
    assert_eq!(segue(&env, &["rewind", "1", "--turn", "1"]).status, 0);
    works(&["good", "better"]);
    model(&env, "reviewer-0", &format!("{PASS}{PASS}{FAIL}{PASS}"));
    let output = segue(&env, &["resume", "1", "In another way"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(segue(&env, &["rewind", "1", "--undo"]).status, 0);
    works(&["good", "bad", "mended"]);
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let asked = questions(&env, "native-2");
    assert_eq!(asked, ["review-1", "review-2", "review-3", "review-2", "review-4"]);
    let asked = &prompts(&env, "native-2")[3];
    assert!(asked.contains("+of bad") && !asked.contains("better"), "{asked}");
    assert!(asked.contains("It is there."), "what the worker says of its work: {asked}");
    let words: Vec<String> = verdicts(&env).into_iter().map(|(_, _, word)| word).collect();
    assert_eq!(words, ["pass", "pass", "fail", "pass"]);
}

#[test]
fn what_passed_is_on_its_branch_also_where_a_message_waits_for_the_worker() {
    let slow = PASS.replace("[[reply]]", "[[reply]]\ndelay_ms = 60000");
    let (env, mut args) = pair(&[&slow]);
    let idle = "[[reply]]\ntext = \"There is nothing to do.\"\nrepeat = true\n";
    args[3] = model(&env, "worker", &format!("{}{idle}", writer(&["a"])));
    args.push("--worktree".to_owned());
    let child = start(&mut env.command(&args));
    until("the review", || !theirs(&env, "native-2", "model.called").is_empty());
    assert_eq!(segue(&env, &["bridge", "1", "send", "worker", "Well done"]).status, 0);
    until("the message", || data(&env, 1, "message.sent").len() == 1);
    signal(&child, Signal::KILL);
    finish(child);
    model(&env, "reviewer-0", PASS);
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let turns = data(&env, 1, "turn.started");
    assert_eq!((turns.len(), &turns[1]["cause"]), (2, &json!("message")));
    assert_eq!(data(&env, 1, "work.committed").len(), 1);
    let branch = "segue/1-write-greet-sh";
    assert_eq!(env.git(["show", &format!("{branch}:a")]).unwrap().stdout, "of a\n");
    let body = env.git(["log", "-1", "--format=%b", branch]).unwrap().stdout;
    assert!(body.starts_with("Reviewed-by: native-2 pass (iteration 1)\n"), "{body}");
}

#[test]
fn a_verdict_that_was_given_is_final_whatever_dies_after_it() {
    let slow = FAIL.replace("[[reply]]\ntext", "[[reply]]\ndelay_ms = 60000\ntext");
    let (env, args) = pair(&[&slow]);
    let child = start(&mut env.command(&args));
    until("the call after it", || theirs(&env, "native-2", "model.called").len() == 2);
    signal(&child, Signal::KILL);
    finish(child);
    assert_eq!(verdicts(&env), []);
    // Asked again, it would say something else.
    model(&env, "reviewer-0", &format!("{}{PASS}", &FAIL[..FAIL.rfind("[[reply]]").unwrap()]));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&env), [verdict(1, "native-2", "fail"), verdict(2, "native-2", "pass")]);
    assert_eq!(questions(&env, "native-2"), ["review-1", "review-2"]);
    assert_eq!(theirs(&env, "native-2", "model.called").len(), 3, "one for the second round");
}

/// As if the disk had no room for it: where the refs of checkpoints are to go, there is a file.
fn break_checkpoints(env: &TestEnv) -> std::path::PathBuf {
    let refs = env.repo().join(".git/refs/segue");
    let _ = fs::remove_dir_all(&refs);
    fs::write(&refs, "x").expect("writes");
    refs
}

#[test]
fn what_nobody_can_see_does_not_pass_and_is_not_committed() {
    // From the very beginning: nobody works before it is mended.
    let (env, args) = pair(&[PASS]);
    let refs = break_checkpoints(&env);
    let output = run(&env, &args, &[]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("the files can't be kept"), "{}", output.stderr);
    assert_eq!(data(&env, 1, "turn.started").len(), 0);
    fs::remove_file(&refs).unwrap();
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(prompts(&env, "native-2")[0].contains("+echo helo"));

    // In the middle of it, on a branch: it is kept after all when the session goes on.
    let breaks = r#"
[[reply]]
tools = [
    { name = "write_file", input = { path = "a.txt", content = "a\n" } },
    { name = "shell", input = { command = "cd \"$(git rev-parse --git-common-dir)\" && rm -rf refs/segue && echo x > refs/segue" } },
]
[[reply]]
text = "Done."
"#;
    let (env, mut args) = pair(&[PASS]);
    args[3] = model(&env, "worker", breaks);
    let output = run(&env, &args, &["--worktree", "--permission", "full"]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert_eq!(show(&env, "1")["stop"]["reason"], "failed");
    assert_eq!((data(&env, 1, "review.started").len(), verdicts(&env)), (0, vec![]));
    assert_eq!(data(&env, 1, "work.committed").len(), 0);
    fs::remove_file(env.repo().join(".git/refs/segue")).unwrap();
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(prompts(&env, "native-2")[0].contains("+a"), "{:?}", prompts(&env, "native-2"));
    assert_eq!(data(&env, 1, "work.committed").len(), 1);
    assert_eq!(data(&env, 1, "turn.started").len(), 1, "its work was done");
}

#[test]
fn a_review_without_a_diff_does_not_go_on() {
    let slow = PASS.replace("[[reply]]", "[[reply]]\ndelay_ms = 60000");
    let (env, args) = pair(&[&slow]);
    let child = start(&mut env.command(&args));
    until("the review", || !theirs(&env, "native-2", "model.called").is_empty());
    signal(&child, Signal::KILL);
    finish(child);
    model(&env, "reviewer-0", PASS);
    let nothing = env.path("nothing");
    fs::create_dir(&nothing).unwrap();
    let output = finish(start(env.command(["resume", "1"]).env("PATH", &nothing)));
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("the diff can't be made"), "{}", output.stderr);
    assert_eq!((show(&env, "1")["status"].as_str(), verdicts(&env)), (Some("failed"), vec![]));
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&env), [verdict(1, "native-2", "pass")]);
}

#[test]
fn the_caps_are_those_of_all_reviewers_together() {
    let look = "[[reply]]\nusage = { input = 1000, output = 0 }\ntools = [{ name = \"glob\", input = { pattern = \"*\" } }]\n";
    let reviewer = format!("{}{PASS}", look.repeat(20));
    let (env, mut args) = pair(&[&reviewer, &reviewer, &reviewer]);
    let worker =
        writer(&["a"]).replace("[[reply]]\n", "[[reply]]\nusage = { input = 0, output = 0 }\n");
    args[3] = model(&env, "worker", &worker);
    let output = run(&env, &args, &["--max-tokens", "10000"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(show(&env, "1")["status"], "cap:tokens");
    let tokens = show(&env, "1")["tokens"].as_u64().unwrap();
    // What was under way when it was reached is the most that can be over it.
    assert!((10_000..13_000).contains(&tokens), "{tokens}");
}

#[test]
fn a_pair_that_goes_on_takes_the_same_words_as_a_new_one() {
    let (env, args) = pair(&[&PASS.repeat(4)]);
    let worker = writer(&["one", "two", "three", "four"]);
    let args: Vec<String> = args
        .iter()
        .enumerate()
        .map(|(n, arg)| if n == 3 { model(&env, "worker", &worker) } else { arg.clone() })
        .collect();
    assert_eq!(run(&env, &args, &[]).status, 0);
    fs::write(env.path("more.md"), "What the file says\n").unwrap();
    let file = env.path("more.md");
    let output = segue(
        &env,
        &["pair", "--run-id", "1", "--prompt-file", file.to_str().unwrap(), "--no-tmux"],
    );
    assert_eq!(output.status, 0, "{}", output.stderr);
    for words in [&["pair", "--run-id", "1", "-"][..], &["resume", "1", "-"]] {
        let mut command = env.command(words);
        let input = env.path("input");
        fs::write(&input, format!("What {} is told\n", words[0])).unwrap();
        command.stdin(fs::File::open(&input).unwrap());
        let output = finish(start(&mut command));
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
    let turns = data(&env, 1, "turn.started");
    let told: Vec<&str> =
        turns.iter().map(|turn| turn["prompt"]["text"].as_str().unwrap()).collect();
    assert!(told[1].contains("What the file says"), "{told:?}");
    assert!(
        told[2].contains("What pair is told") && told[3].contains("What resume is told"),
        "{told:?}"
    );
    let output = segue(&env, &["pair", "--run-id", "1", "--no-worktree"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("--no-worktree is for a new pair"), "{}", output.stderr);
    let output = segue(&env, &["pair", "--run-id", "1", "Five", "--permission", "read-only"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("may only read"), "{}", output.stderr);
}

#[test]
fn what_is_said_to_a_reviewer_of_a_completed_pair_waits_for_the_next_review() {
    let (env, mut args) = pair(&[&PASS.repeat(2)]);
    args[3] = model(&env, "worker", &writer(&["one", "two"]));
    assert_eq!(run(&env, &args, &[]).status, 0);
    let output = segue(&env, &["bridge", "1", "send", "reviewers", "Mind the docs"]);
    assert!(output.stderr.contains("it is delivered with the next review"), "{}", output.stderr);
    assert!(output.stderr.ends_with("\nsegue resume 1 \"…\"\n"), "{}", output.stderr);
    let output = segue(&env, &["resume", "1", "Now two"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(prompts(&env, "native-2")[1].contains("Mind the docs"));
    let all = json(&segue(&env, &["bridge", "1", "--json"]).stdout);
    assert_eq!(all["not_delivered"], 0);
}

#[test]
fn another_one_reviews_in_the_place_of_one_at_its_limit() {
    let limited = format!("[[reply]]\nlimit = {{ secs = 7200, file = \"busy\" }}\n{}", &PASS[10..]);
    let other =
        r#"exec:cat > /dev/null; printf '\140\140\140segue\n{"verdict":"pass"}\n\140\140\140\n'"#;
    let (env, args) = pair(&[&limited]);
    fs::write(env.path("busy"), "").unwrap();
    let output = run(&env, &args, &[]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    let output = segue(&env, &["resume", "1"]);
    assert!(
        output.stderr.contains("let another one review now: segue resume 1 --with AGENT"),
        "{}",
        output.stderr
    );
    let same = segue(&env, &["resume", "1", "--with", "native"]);
    assert_eq!(same.status, 2, "{}", same.stderr);
    let plan = segue(&env, &["resume", "1", "--with", other, "--dry-run"]);
    assert!(plan.stderr.contains("takes the place of native-2"), "{}", plan.stderr);
    assert!(!plan.stderr.contains("--wait"), "nobody has to: {}", plan.stderr);
    // Who is at its own limit is no help.
    let known = env.home().join("limits.json");
    let before = fs::read_to_string(&known).unwrap();
    let limit = json!({
        "agent": other, "message": "busy", "hit_at": "2020-01-01T00:00:00Z",
        "resets_at": "2100-01-01T00:00:00Z",
    });
    fs::write(&known, json!({ "v": 1, "limits": [limit] }).to_string()).unwrap();
    let limited = segue(&env, &["resume", "1", "--with", other]);
    assert_eq!(limited.status, 3, "{}", limited.stderr);
    assert!(limited.stderr.contains("is at its limit"), "{}", limited.stderr);
    fs::write(&known, before).unwrap();
    let output = segue(&env, &["resume", "1", "--with", other]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&env), [verdict(1, "native-2", "pass")]);
    assert_eq!(data(&env, 1, "verdict.given")[0]["agent"], other);
    // The worker is who it was, and was asked for nothing.
    assert_eq!((data(&env, 1, "agent.changed").len(), data(&env, 1, "turn.started").len()), (0, 1));
    assert_eq!(theirs(&env, "native-2", "agent.changed").len(), 1);
}

#[test]
fn reviewers_see_all_that_was_asked_for_and_what_was_said_to_the_worker() {
    let slow = PASS.replace("[[reply]]", "[[reply]]\ndelay_ms = 60000");
    let (env, mut args) = pair(&[&slow]);
    args[3] = model(&env, "worker", &writer(&["a", "b", "c"]));
    let child = start(&mut env.command(&args));
    until("the review", || !theirs(&env, "native-2", "model.called").is_empty());
    assert_eq!(segue(&env, &["bridge", "1", "send", "worker", "Keep the old API"]).status, 0);
    until("the message", || data(&env, 1, "message.sent").len() == 1);
    signal(&child, Signal::KILL);
    finish(child);
    model(&env, "reviewer-0", &[FAIL, PASS, PASS].concat());
    assert_eq!(segue(&env, &["resume", "1"]).status, 0);
    // It was told with what the reviewers had to say.
    let turns = data(&env, 1, "turn.started");
    assert_eq!((turns.len(), &turns[1]["cause"]), (2, &json!("review")));
    let long = format!("{}and then it ends", "Do one thing after another, ".repeat(40));
    let output = segue(&env, &["resume", "1", &long]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let asked = prompts(&env, "native-2");
    let since = |n: usize| {
        let (_, since) = asked[n].split_once("## What was asked for since\n\n")?;
        Some(since.split_once("\n\n## ")?.0.trim_end())
    };
    let expected =
        [None, Some("Keep the old API".to_owned()), Some(format!("Keep the old API\n\n{long}"))];
    assert_eq!([0, 1, 2].map(|n| since(n).map(str::to_owned)), expected);
}

#[test]
fn a_cap_that_is_reached_between_two_questions_is_a_cap_until_it_is_lifted() {
    let prose = "[[reply]]\nusage = { input = 9000, output = 0 }\ntext = \"It looks fine.\"\n";
    let (env, mut args) = pair(&[&format!("{prose}{PASS}")]);
    let worker =
        writer(&["a"]).replace("[[reply]]\n", "[[reply]]\nusage = { input = 0, output = 0 }\n");
    args[3] = model(&env, "worker", &worker);
    let output = run(&env, &args, &["--max-tokens", "5000"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(show(&env, "1")["status"], "cap:tokens");
    assert_eq!(questions(&env, "native-2"), ["review-1"]);
    let output = segue(&env, &["resume", "1", "--max-tokens", "none"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(questions(&env, "native-2"), ["review-1", "review-1:again"]);
    assert_eq!(verdicts(&env), [verdict(1, "native-2", "pass")]);
}

#[test]
fn another_one_reviews_in_the_place_of_one_that_could_not_even_begin() {
    let other =
        r#"exec:cat > /dev/null; printf '\140\140\140segue\n{"verdict":"pass"}\n\140\140\140\n'"#;
    let (env, args) = pair(&[PASS]);
    let gone = format!("rm -f {}", env.path("reviewer-0.toml").display());
    let output = run(&env, &args, &["--proof", &gone]);
    assert_eq!(output.status, 1, "{}", output.stderr);
    let stop = &show(&env, "1")["stop"];
    assert!(stop["message"].as_str().unwrap().starts_with("the reviewer native-2: "), "{stop}");
    assert_eq!(theirs(&env, "native-2", "session.stopped").len(), 0);
    let same = segue(&env, &["resume", "1", "--with", "native"]);
    assert_eq!(same.status, 2, "{}", same.stderr);
    assert!(same.stderr.contains("the reviewer that it stopped at"), "{}", same.stderr);
    let output = segue(&env, &["resume", "1", "--with", other]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(verdicts(&env), [verdict(1, "native-2", "pass")]);
    assert_eq!(data(&env, 1, "verdict.given")[0]["agent"], other);
    assert_eq!((data(&env, 1, "agent.changed").len(), data(&env, 1, "turn.started").len()), (0, 1));
}

#[test]
fn the_plan_says_which_messages_the_worker_gets() {
    let reviewer = r#"
[[reply]]
tools = [
    { name = "send_to_agent", input = { to = "worker", message = "Well done" } },
    { name = "submit_verdict", input = { verdict = "pass" } },
]
[[reply]]
text = "So it is."
"#;
    let (env, mut args) = pair(&[reviewer]);
    args[3] = model(&env, "worker", &writer(&["a"]));
    assert_eq!(run(&env, &args, &[]).status, 0);
    // It is no reason to go on, however often that is asked for.
    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    for said in ["nothing to do", "1 for the worker, which gets it when it is asked for more"] {
        assert!(output.stderr.contains(said), "{}", output.stderr);
    }
    assert_eq!(data(&env, 1, "session.resumed").len(), 0);
    let plan =
        |words: &[&str]| segue(&env, &[&["resume", "1", "--dry-run"], words].concat()).stderr;
    assert!(plan(&["More"]).contains("1 for the worker, which gets it\n"), "{}", plan(&["More"]));
    // What a person says is a turn of its own, which has the other one too.
    assert_eq!(segue(&env, &["bridge", "1", "send", "worker", "Thanks"]).status, 0);
    assert!(plan(&[]).contains("2 for the worker, which gets them\n"), "{}", plan(&[]));
}
