//! One agent after another on the same work: what the server of the second received is the proof.

use std::{fs, path::Path, time::Duration};

use segue_testkit::{
    model_server::{Fault, Reply, Reset, When},
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

use crate::{
    checkpoint::checkpoint,
    support::{
        self, Live, asked_by, bodies, journal, limit, limited, limited_command, of, segue, show,
        stop, wait_for, wait_gone, word,
    },
};

const OBJECTIVE: &str = "Please build the parser of dates";

/// Stands in every packet, before the prompt.
const NOW: &str = "## What to do now";

/// What whoever goes on is told of the first agent's work, in the packet's own sections: that it can
/// also be read from the conversation proves nothing.
const TOLD: [&str; 5] = [
    "## The objective\n\nPlease build the parser of dates\n",
    "## Decisions\n\n- Dates are ISO 8601 (they sort)\n",
    "- dates.txt (added, turn 1)\n",
    "## What is left\n\n- the docs\n",
    "## The next task\n\nNow parse the time zones\n",
];

/// The work of the first agent, as both ways of reporting tell it.
fn report() -> Value {
    json!({
        "decisions": [{ "summary": "Dates are ISO 8601", "why": "they sort" }],
        "remaining": ["the docs"],
        "next_task": "Now parse the time zones",
    })
}

/// How an agent reports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Tool,
    Block,
}

/// Writes a file, reports, and runs into its limit.
fn works_until_its_limit(lab: &Lab, cli: Cli, by: By) -> Vec<Reply> {
    let write = cli.write_file(&lab.work().join("dates.txt"), "a first draft\n");
    let block = format!("I have begun with the dates.\n\n```segue\n{}\n```", report());
    let replies = match by {
        By::Tool => vec![write, checkpoint(cli, report())],
        By::Block => vec![Reply { text: block, ..write }],
    };
    replies.into_iter().map(|reply| of(cli, reply)).chain([limit(cli)]).collect()
}

fn start(lab: &mut Lab, replies: Vec<Reply>) {
    let scenario = replies.into_iter().fold(lab.scenario(), |scenario, one| scenario.reply(one));
    lab.start(scenario);
}

macro_rules! pairs {
    ($($name:ident: $from:ident, $to:ident, $by:ident;)*) => {
        $(#[test]
        fn $name() {
            at_a_limit_the_next_one_goes_on(Cli::$from, Cli::$to, By::$by);
        })*
    };
}

pairs! {
    claude_to_codex: Claude, Codex, Tool;
    claude_to_gemini: Claude, Gemini, Block;
    codex_to_claude: Codex, Claude, Tool;
    codex_to_gemini: Codex, Gemini, Block;
    gemini_to_claude: Gemini, Claude, Block;
    gemini_to_codex: Gemini, Codex, Tool;
}

fn at_a_limit_the_next_one_goes_on(from: Cli, to: Cli, by: By) {
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, by);
    replies.push(of(to, to.write_file(&lab.work().join("zones.txt"), "a second one\n")));
    replies.push(of(to, Reply::text("The zones are parsed.").sticky()));
    start(&mut lab, replies);
    let output = limited(&lab, &["run", word(from), OBJECTIVE, "--fallback", word(to)]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stdout.contains("The zones are parsed."), "{}", output.stdout);
    assert!(lab.work().join("dates.txt").exists() && lab.work().join("zones.txt").exists());

    let asked = asked_by(&lab, to);
    let told = asked[0].texts().join("\n");
    for part in TOLD {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let hits = bodies(&lab, "limit.hit");
    assert_eq!(hits.len(), 1, "{hits:?}");
    let changes = bodies(&lab, "agent.changed");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        (&changes[0]["from"], &changes[0]["to"], &changes[0]["cause"]),
        (&json!(word(from)), &json!(word(to)), &json!("limit"))
    );
    let ended: Vec<(Value, Value)> = journal(&lab)
        .into_iter()
        .filter(|event| event["kind"] == "turn.ended")
        .map(|event| (event["agent"].clone(), event["data"]["outcome"].clone()))
        .collect();
    let expected = [(word(from), "handed_off"), (word(to), "finished")];
    assert_eq!(ended, expected.map(|(who, how)| (json!(who), json!(how))));
    assert_eq!(show(&lab)["status"], "completed");

    let reports = bodies(&lab, "progress.reported");
    assert_eq!(reports.len(), 1, "{reports:?}");
    let limits = read(&lab.segue_home().join("limits.json"));
    assert_eq!(limits["limits"][0]["agent"], word(from), "{limits}");
    let packet = packet(&lab);
    assert_eq!(packet["objective"], OBJECTIVE);
    assert_eq!(packet["decisions"][0]["summary"], "Dates are ISO 8601");
    let touched = packet["touched_files"].as_array().unwrap();
    let names: Vec<&str> = touched.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["dates.txt", "zones.txt"], "{packet}");
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// `resume.json`, which has to be as it is promised to be.
fn packet(lab: &Lab) -> Value {
    let packet = read(&support::session_dir(lab).join("resume.json"));
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let validator = jsonschema::validator_for(&read(&schemas.join("packet.schema.json"))).unwrap();
    let errors: Vec<String> = validator.iter_errors(&packet).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {packet}");
    packet
}

#[test]
fn without_a_fallback_the_command_is_told_that_goes_on() {
    let (from, to) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, By::Tool);
    replies.push(of(to, Reply::text("The zones are parsed.").sticky()));
    start(&mut lab, replies);
    let output = limited(&lab, &["run", word(from), OBJECTIVE]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(output.stderr.lines().last(), Some("segue resume 1 --wait"), "{}", output.stderr);
    assert_eq!(packet(&lab)["checkpoint_reason"], "limit");
    assert!(stop(&lab)["resets_at"].is_string());
    let before = lab.turns().len();
    let output = limited(&lab, &["resume", "1"]);
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert!(output.stderr.contains("segue resume 1 --with"), "{}", output.stderr);
    assert_eq!(lab.turns().len(), before, "nobody is asked in vain");

    let output = limited(&lab, &["resume", "1", "--with", word(to)]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let told = asked_by(&lab, to)[0].texts().join("\n");
    assert!(TOLD.iter().all(|part| told.contains(part)), "{told}");
    let change = &bodies(&lab, "agent.changed")[0];
    assert_eq!(change["cause"], "asked", "{change}");
}

#[test]
fn a_fallback_that_cannot_go_on_is_passed_over_and_it_is_told_why() {
    let (from, to) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, By::Tool);
    replies.push(limit(Cli::Gemini));
    replies.push(of(to, Reply::text("The zones are parsed.").sticky()));
    start(&mut lab, replies);
    assert_eq!(limited(&lab, &["run", "gemini", "Please begin"]).status, 3);
    let args = ["run", word(from), OBJECTIVE, "--fallback", "cursor,gemini,codex"];
    let output = limited(&lab, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(asked_by(&lab, Cli::Gemini).len(), 1, "not again");
    let change = &support::bodies_of(&lab, "2", "agent.changed")[0];
    assert_eq!(change["to"], word(to), "{change}");
    let passed = change["passed_over"].as_array().unwrap();
    let why = |n: usize| (passed[n]["agent"].as_str().unwrap(), passed[n]["why"].as_str().unwrap());
    assert_eq!((why(0).0, why(1).0, passed.len()), ("cursor", "gemini", 2), "{change}");
    assert!(why(0).1.contains("not installed"), "{change}");
    assert!(why(1).1.contains("limited itself, until"), "{change}");
}

#[test]
fn the_third_one_is_told_of_both_before_it_and_then_there_is_nobody_left() {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    let mut replies = works_until_its_limit(&lab, Cli::Claude, By::Tool);
    let second = Cli::Codex.write_file(&lab.work().join("zones.txt"), "a second one\n");
    let second = Reply { text: "I take the zones from a table.".into(), ..second };
    replies.extend([of(Cli::Codex, second), limit(Cli::Codex), limit(Cli::Gemini)]);
    start(&mut lab, replies);
    let args = ["run", "claude", OBJECTIVE, "--fallback", "codex,gemini"];
    let output = limited(&lab, &args);
    assert_eq!(output.status, 3, "{}", output.stderr);
    let told = asked_by(&lab, Cli::Gemini)[0].texts().join("\n");
    let second = ["I take the zones from a table.", "- zones.txt (added, turn 2)\n"];
    for part in TOLD.iter().chain(&second) {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(told.matches(NOW).count(), 1, "one packet: {told}");
    let changes = bodies(&lab, "agent.changed");
    let way: Vec<&Value> = changes.iter().map(|change| &change["to"]).collect();
    assert_eq!(way, ["codex", "gemini"], "{changes:?}");
    // Gemini CLI tells no time: there is nothing to wait for.
    assert_eq!(output.stderr.lines().last(), Some("segue resume 1"), "{}", output.stderr);
    let limits = read(&lab.segue_home().join("limits.json"));
    assert_eq!(limits["limits"].as_array().unwrap().len(), 3, "{limits}");
    let packet = packet(&lab);
    let (reason, last) = (&packet["checkpoint_reason"], &packet["previous_agent"]);
    assert_eq!((reason, last), (&json!("limit"), &json!("gemini")));
}

#[test]
fn the_first_agent_goes_on_in_its_own_session_and_is_told_what_happened_meanwhile() {
    let (from, to) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, By::Tool);
    replies[0].text = "I look at the dates first.".into();
    replies.push(of(to, Reply::text("I parsed the zones with a table.").sticky()));
    start(&mut lab, replies);
    let output = limited(&lab, &["run", word(from), OBJECTIVE, "--fallback", word(to)]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let id = vendor_id(&lab, from);

    start(&mut lab, vec![of(from, Reply::text("I am back.").sticky())]);
    let back = ["resume", "1", "--return", "Please write the docs"];
    let output = limited(&lab, &back);
    assert_eq!((output.status, lab.turns().len()), (3, 0), "{}", output.stderr);
    let output = limited(&lab, &[&back[..], &["--now"]].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    let texts = asked_by(&lab, from)[0].texts();
    assert!(texts.iter().any(|text| text == OBJECTIVE), "{texts:?}");
    assert!(texts.iter().any(|text| text == "I look at the dates first."), "{texts:?}");
    let told = texts.iter().find(|text| text.contains(NOW)).unwrap();
    assert!(told.contains("Others have worked on this since you last did"), "{told}");
    assert!(told.contains("I parsed the zones with a table."), "{told}");
    assert!(told.contains("Please write the docs") && !told.contains("dates first"), "{told}");
    assert_eq!(vendor_id(&lab, from), id, "its own session");
    let changes = bodies(&lab, "agent.changed");
    assert_eq!((changes.len(), &changes[1]["cause"]), (2, &json!("returned")), "{changes:?}");
}

#[test]
fn once_its_limit_is_over_the_first_agent_gets_the_work_back() {
    let (from, to) = (Cli::Claude, Cli::Codex);
    let Some(mut lab) = Lab::open(from) else { return };
    let meanwhile = "I parsed the zones with a table.";
    let before = When { body_lacks: Some(meanwhile.into()), ..When::default() };
    let fault = Fault::UsageLimit { reset: Some(Reset::In(4)) };
    let replies = vec![
        of(from, Reply::fault(fault).when(before).sticky()),
        of(to, Reply::text(meanwhile).delay(Duration::from_secs(6))),
        of(from, from.write_file(&lab.work().join("done.txt"), "done\n")),
        of(from, Reply::text("I am back.").sticky()),
    ];
    start(&mut lab, replies);
    let proof = ["--proof", "cat done.txt", "--fallback", word(to), "--return"];
    let output = limited(&lab, &[&["run", word(from), OBJECTIVE][..], &proof].concat());
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(asked_by(&lab, to).len(), 1, "{}", output.stderr);
    let told = asked_by(&lab, from).last().unwrap().texts().join("\n");
    for part in [OBJECTIVE, meanwhile, "`cat done.txt` still fails"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let changes = bodies(&lab, "agent.changed");
    let causes: Vec<&Value> = changes.iter().map(|change| &change["cause"]).collect();
    assert_eq!(causes, ["limit", "returned"], "{changes:?}");
}

#[test]
fn a_new_prompt_for_another_agent_takes_the_place_of_what_was_open() {
    let (from, to) = (Cli::Gemini, Cli::Claude);
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, By::Tool);
    replies.push(of(to, Reply::text("Only the docs, then.").sticky()));
    start(&mut lab, replies);
    let output = limited(&lab, &["run", word(from), OBJECTIVE]);
    assert_eq!(output.stderr.lines().last(), Some("segue resume 1"), "{}", output.stderr);
    let output = limited(&lab, &["resume", "1", "--with", word(to), "Write the docs instead"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let texts = asked_by(&lab, to)[0].texts();
    let told = texts.iter().find(|text| text.contains(NOW)).unwrap();
    for part in &TOLD[..4] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let now = told.split(NOW).nth(1).unwrap();
    assert!(now.trim().starts_with("Write the docs instead"), "{now}");
    assert!(!now.contains(OBJECTIVE), "{now}");
}

fn vendor_id(lab: &Lab, cli: Cli) -> String {
    let vendors = show(lab)["vendors"].clone();
    let ours = vendors.as_array().unwrap().iter().find(|known| known["agent"] == word(cli));
    ours.unwrap()["id"].as_str().unwrap().to_owned()
}

/// The moment at which Segue dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Changed,
    MidTurn,
}

macro_rules! kills {
    ($($name:ident: $from:ident, $to:ident, $moment:ident;)*) => {
        $(#[test]
        fn $name() {
            killed_in_a_handoff_the_second_one_goes_on(Cli::$from, Cli::$to, Moment::$moment);
        })*
    };
}

kills! {
    killed_when_the_agent_was_changed_codex_goes_on: Claude, Codex, Changed;
    killed_when_the_agent_was_changed_claude_goes_on: Gemini, Claude, Changed;
    killed_in_mid_turn_codex_goes_on: Claude, Codex, MidTurn;
    killed_in_mid_turn_gemini_goes_on: Codex, Gemini, MidTurn;
    killed_in_mid_turn_claude_goes_on: Gemini, Claude, MidTurn;
}

fn killed_in_a_handoff_the_second_one_goes_on(from: Cli, to: Cli, moment: Moment) {
    let Some(mut lab) = Lab::open(from) else { return };
    let mut replies = works_until_its_limit(&lab, from, By::Tool);
    replies.push(of(to, to.write_file(&lab.work().join("zones.txt"), "a second one\n")));
    replies.push(of(to, Reply::fault(Fault::hang()).sticky()));
    start(&mut lab, replies);
    let args = ["run", word(from), OBJECTIVE, "--fallback", word(to)];
    let live = Live::of(limited_command(&lab, &args));
    wait_for(|| {
        let changed = || journal(&lab).iter().any(|event| event["kind"] == "agent.changed");
        match moment {
            Moment::Changed => changed().then_some(()),
            Moment::MidTurn => (asked_by(&lab, to).len() == 2).then_some(()),
        }
    });
    live.kill();
    assert_eq!(show(&lab)["status"], "crashed");
    assert_eq!(bodies(&lab, "agent.changed").len(), 1);

    let replies = vec![limit(from), of(to, Reply::text("The zones are parsed.").sticky())];
    start(&mut lab, replies);
    let output = limited(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(asked_by(&lab, from).len(), 0, "nothing is asked twice");
    let skipped = bodies(&lab, "checkpoint.skipped");
    assert!(skipped.is_empty(), "{skipped:?}");
    let told = asked_by(&lab, to).last().unwrap().texts().join("\n");
    for part in TOLD {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert_eq!(bodies(&lab, "agent.changed").len(), 1);
    let outcomes: Vec<Value> =
        bodies(&lab, "turn.ended").iter().map(|ended| ended["outcome"].clone()).collect();
    assert_eq!(outcomes, ["handed_off", "finished"]);
    assert_eq!(bodies(&lab, "limit.hit").len(), 1);
    assert_eq!(show(&lab)["status"], "completed");
}

macro_rules! live {
    ($($name:ident: $from:ident, $to:ident;)*) => {
        $(#[test]
        fn $name() {
            a_running_session_is_handed_over_at_the_end_of_its_turn(Cli::$from, Cli::$to);
        })*
    };
}

live! {
    while_claude_works_it_is_handed_to_gemini: Claude, Gemini;
    while_codex_works_it_is_handed_to_claude: Codex, Claude;
    while_gemini_works_it_is_handed_to_codex: Gemini, Codex;
}

fn a_running_session_is_handed_over_at_the_end_of_its_turn(from: Cli, to: Cli) {
    let Some(mut lab) = Lab::open(from) else { return };
    let slow = Reply::text("I have done my part.").delay(Duration::from_secs(5));
    let replies = vec![
        of(from, slow),
        of(to, to.write_file(&lab.work().join("done.txt"), "done\n")),
        of(to, Reply::text("And I mine.").sticky()),
    ];
    start(&mut lab, replies);
    let live = Live::start(&lab, &["run", word(from), OBJECTIVE, "--proof", "cat done.txt"]);
    wait_for(|| (asked_by(&lab, from).len() == 1).then_some(()));
    let output = segue(&lab, &["handoff", "1", "--to", word(to), "--reason", "a second look"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(bodies(&lab, "agent.changed").is_empty(), "not before the turn's end");
    let output = live.end();
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(asked_by(&lab, from).len(), 1, "its turn was its last");
    let told = asked_by(&lab, to)[0].texts().join("\n");
    for part in [OBJECTIVE, "I have done my part.", "`cat done.txt` still fails"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let changes = bodies(&lab, "agent.changed");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(
        (&changes[0]["to"], &changes[0]["cause"], &changes[0]["reason"]),
        (&json!(word(to)), &json!("asked"), &json!("a second look"))
    );
    assert_eq!(show(&lab)["status"], "completed");
}

#[test]
fn after_a_crash_a_packet_is_written_and_another_command_goes_on() {
    let cli = Cli::Claude;
    let Some(mut lab) = Lab::open(cli) else { return };
    let shell = lab.shell("echo $$ > running; sleep 300");
    lab.start(lab.scenario().reply(Reply { text: "I start the long job.".into(), ..shell }));
    let live = Live::start(&lab, &["run", word(cli), "--permission", "full", OBJECTIVE]);
    let running = wait_for(|| {
        fs::read_to_string(lab.work().join("running")).ok().filter(|text| text.ends_with('\n'))
    });
    wait_for(|| (!bodies(&lab, "tool.started").is_empty()).then_some(()));
    live.kill();
    wait_gone(running.trim().parse().unwrap());
    let list = segue(&lab, &["list"]);
    assert!(list.stdout.contains("crashed"), "{}", list.stdout);

    lab.start(lab.scenario().reply(Reply::text("I go on.").sticky()));
    let args = ["handoff", "--session", "1", "--reason", "recovered from crash"];
    let output = segue(&lab, &args);
    assert_eq!((output.status, lab.turns().len()), (0, 0), "{}", output.stderr);
    assert_eq!(output.stderr.lines().last(), Some("segue resume 1"), "{}", output.stderr);
    let packet = packet(&lab);
    assert_eq!(packet["checkpoint_reason"], "recovered from crash");
    assert!(packet.get("next_task").is_none(), "{packet}");
    assert_eq!(packet["objective"], OBJECTIVE);

    let output = segue(&lab, &["run", "c", "--resume", "--from", "1", "Continue the task"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let texts = lab.conversation().join("\n");
    for part in [OBJECTIVE, "I start the long job.", "sleep 300", "Continue the task"] {
        assert!(texts.contains(part), "{part} is not in {texts}");
    }
    assert_eq!(show(&lab)["status"], "completed");
}
