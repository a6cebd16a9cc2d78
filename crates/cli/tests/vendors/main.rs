//! The real agents of the vendors under Segue: each is started, told things, limited, cut off,
//! killed, resumed, forked, and run twice at once; what the model's server received proves what they
//! remember. What was seen is written down for the table in docs/agents.md.
//!
//! They are skipped where the agents are not installed (`scripts/vendors`).
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests may fail the test"
)]

mod carry;
mod checkpoint;
mod crew;
mod handoff;
mod manual;
mod matrix;
mod pair;
mod replay;
mod rewind;
mod support;
mod tasks;

use std::{fs, time::Duration};

use segue_testkit::{
    model_server::{Fault, Reply, Reset, Usage, When},
    vendors::{Cli, Lab},
};

use crate::{
    matrix::{Cell, saw},
    support::{Live, bodies, log, segue, show, stop, wait_for, wait_gone},
};

/// The tests of one agent. What an agent can't do is told by its last argument.
macro_rules! agent {
    ($name:ident, $cli:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn works_and_remembers() {
                super::works_and_remembers($cli);
            }

            #[test]
            fn a_limit_is_a_limit() {
                super::a_limit_is_a_limit($cli);
            }

            #[test]
            fn a_broken_server_is_told_and_gone_on_from() {
                super::a_broken_server_is_told_and_gone_on_from($cli);
            }

            #[test]
            fn killed_in_mid_turn_it_goes_on() {
                super::killed_in_mid_turn_it_goes_on($cli);
            }

            #[test]
            fn two_at_once_stay_apart() {
                super::two_at_once_stay_apart($cli);
            }

            #[test]
            fn a_session_that_is_gone_is_replaced_by_the_packet() {
                super::a_session_that_is_gone_is_replaced_by_the_packet($cli);
            }

            #[test]
            fn a_long_prompt_arrives_byte_for_byte() {
                super::a_long_prompt_arrives_byte_for_byte($cli);
            }

            #[test]
            fn it_may_do_what_it_may() {
                super::it_may_do_what_it_may($cli);
            }
        }
    };
}

agent!(claude, Cli::Claude);
agent!(codex, Cli::Codex);
agent!(gemini, Cli::Gemini);
agent!(copilot, Cli::Copilot);
agent!(opencode, Cli::OpenCode);
agent!(qwen, Cli::Qwen);
agent!(pi, Cli::Pi);

/// The same over the Agent Client Protocol, as far as it goes.
macro_rules! acp {
    ($name:ident, $cli:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn works_and_remembers() {
                super::acp_works_and_remembers($cli);
            }

            #[test]
            fn killed_in_mid_turn_it_goes_on() {
                super::acp_killed_in_mid_turn_it_goes_on($cli);
            }
        }
    };
}

acp!(claude_acp, Cli::ClaudeAcp);
acp!(codex_acp, Cli::CodexAcp);
acp!(gemini_acp, Cli::GeminiAcp);
acp!(copilot_acp, Cli::CopilotAcp);
acp!(opencode_acp, Cli::OpenCodeAcp);
acp!(qwen_acp, Cli::QwenAcp);

/// Lets an agent write a file and answer, and asks it something else afterwards.
fn works_and_remembers(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let counted = Usage { input: 100, output: 20, cache_read: 40, ..Usage::default() };
    let scenario = lab
        .scenario()
        .reply(lab.write_file("made.txt", "by the agent\n").usage(counted))
        .reply(Reply::text("The file is written, at 429 rate limits an hour.").usage(counted));
    lab.start(scenario);
    let output = segue(&lab, &["run", support::word(cli), "Please make a file"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stdout.contains("The file is written"), "{}", output.stdout);
    assert_eq!(fs::read_to_string(lab.work().join("made.txt")).unwrap(), "by the agent\n");
    assert!(lab.knows("Please make a file"));
    saw(&lab, Cell::Start);

    // The words of the model decide nothing, whatever they are about.
    assert_eq!(show(&lab)["status"], "completed");
    let texts = bodies(&lab, "text.written");
    assert!(
        texts
            .iter()
            .any(|text| text["text"]["text"] == "The file is written, at 429 rate limits an hour.")
    );
    let started = &bodies(&lab, "agent.started")[0];
    assert_eq!(show(&lab)["unread_lines"], 0);
    saw(&lab, Cell::Stream);

    let calls = bodies(&lab, "tool.called");
    let returned = bodies(&lab, "tool.returned");
    assert_eq!((calls.len(), returned.len()), (1, 1), "{calls:?} {returned:?}");
    assert_eq!(returned[0]["status"], "done");
    saw(&lab, Cell::ToolCall);

    let id = show(&lab)["vendors"][0]["id"].as_str().expect("an id").to_owned();
    if started["vendor_session"].is_string() {
        assert_eq!(started["vendor_session"].as_str().unwrap(), id);
        saw(&lab, Cell::OwnId);
    }
    let usage = show(&lab)["usage"].clone();
    let one_turn = support::counts(cli, &usage, 2);

    lab.start(lab.scenario().reply(Reply::text("I remember.").usage(counted)));
    let output = segue(&lab, &["resume", "1", "What did I ask before?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(lab.knows("Please make a file"), "{:?}", lab.conversation());
    assert!(lab.knows("What did I ask before?"));
    assert_eq!(show(&lab)["vendors"][0]["id"].as_str().unwrap(), id, "the same session");
    saw(&lab, Cell::Resume);
    // The second turn cost one call: totals are not counted twice.
    if one_turn && support::counts(cli, &show(&lab)["usage"], 3) {
        saw(&lab, Cell::Usage);
    }
    // A vendor's own id names the session in every command.
    assert_eq!(segue(&lab, &["show", &id]).status, 0);

    if support::card(cli).can.fork {
        lab.start(lab.scenario().reply(Reply::text("Another way.").usage(counted)));
        let output = segue(&lab, &["fork", "1", "Now try another way"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(lab.knows("Please make a file") && lab.knows("Now try another way"));
        let forked = support::show_of(&lab, "2");
        assert_ne!(forked["vendors"][0]["id"].as_str().expect("an id"), id);
        assert_eq!(support::bodies_of(&lab, "2", "agent.started")[0]["entry"], "forked");
        assert!(!lab.knows("only in the packet"));
        // The parent does not know of it.
        lab.start(lab.scenario().reply(Reply::text("Still here.")));
        assert_eq!(segue(&lab, &["resume", "1", "And you?"]).status, 0);
        assert!(lab.knows("What did I ask before?") && !lab.knows("Now try another way"));
        saw(&lab, Cell::Fork);
    }
}

/// The vendor's own limit, with its time where it tells one.
fn a_limit_is_a_limit(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let at = jiff::Timestamp::now().as_second() + 7200;
    // These wait in silence for as long as the server says, and tell when that was in vain.
    let waits = matches!(cli.agent(), Cli::OpenCode | Cli::Qwen);
    let reset = if waits { Reset::In(1) } else { Reset::At(at) };
    let fault = Fault::UsageLimit { reset: Some(reset) };
    lab.start(lab.scenario().reply(Reply::fault(fault).sticky()));
    support::set(&lab, "agents.attempts", "1");
    let mut command = support::command(&lab, &["run", support::word(cli), "Please begin"]);
    support::as_subscriber(cli, &mut command);
    // Some try for more than a minute before they tell.
    let output = Live::of(command).end();
    assert_eq!(output.status, 3, "{}", output.stderr);
    let stopped = stop(&lab);
    // Where no time is told, there is nothing to wait for.
    let next = match stopped["resets_at"].is_string() {
        true => "\nsegue resume 1 --wait\n",
        false => "\nsegue resume 1\n",
    };
    assert!(output.stderr.ends_with(next), "{}", output.stderr);
    assert_eq!(stopped["reason"], "limit", "{stopped}");
    assert!(bodies(&lab, "limit.hit").len() == 1);
    let told: Option<jiff::Timestamp> =
        stopped["resets_at"].as_str().map(|text| text.parse().unwrap());
    if let Some(told) = told.filter(|_| !waits) {
        assert!((told.as_second() - at).abs() <= 1, "{told} is not {at}");
        saw(&lab, Cell::Limit("with its reset"));
    } else {
        saw(&lab, Cell::Limit("yes"));
    }
    // What could not be answered is asked again when the limit is over.
    lab.start(lab.scenario().reply(Reply::text("Now I can.")));
    let output = segue(&lab, &["resume", "1", "--now"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(lab.knows("Please begin"), "{:?}", lab.conversation());
    assert_eq!(show(&lab)["turns"], 1, "the count is kept");
}

/// A server that fails, an answer that breaks off, a key that is refused.
fn a_broken_server_is_told_and_gone_on_from(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    support::impatient(&lab);
    let answer = "I begin with a long answer that never comes to its end";
    let faults = [(Fault::ServerError, "overloaded"), (Fault::cut(), "stream_cut")];
    for (n, (fault, reason)) in faults.into_iter().enumerate() {
        let number = (n + 1).to_string();
        lab.start(lab.scenario().reply(Reply::text(answer).failing(fault).sticky()));
        let output = segue(&lab, &["run", support::word(cli), "Please begin well"]);
        assert_eq!(output.status, 3, "{reason}: {}", output.stderr);
        let stopped = support::show_of(&lab, &number)["stop"].clone();
        let seen = stopped["reason"].as_str().unwrap().to_owned();
        // Some retry in silence for minutes: then it is the silence that is told.
        assert!(
            [reason, "silent", "overloaded", "unreachable"].contains(&&*seen),
            "{reason}: {stopped}"
        );
        saw(&lab, Cell::Crash(n, seen.replace('_', " ")));
        lab.start(lab.scenario().reply(Reply::text("Better now.")));
        let output = segue(&lab, &["resume", &number]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(lab.knows("Please begin well"), "{reason}: {:?}", lab.conversation());
        assert_eq!(support::show_of(&lab, &number)["status"], "completed");
    }
    lab.start(lab.scenario().reply(Reply::fault(Fault::Unauthorized).sticky()));
    let output = segue(&lab, &["run", support::word(cli), "Please let me in"]);
    let stopped = support::show_of(&lab, "3")["stop"].clone();
    if stopped["reason"] != "silent" {
        assert_eq!(output.status, 1, "{}", output.stderr);
        assert_eq!(stopped["reason"], "not_signed_in", "{stopped}");
        let fix = support::card(cli).sign_in;
        assert!(output.stderr.contains(fix), "{}", output.stderr);
    }
}

/// `kill -9` of Segue while a tool runs: nothing is left running, and the next command goes on.
fn killed_in_mid_turn_it_goes_on(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let shell = lab.shell("echo $$ > running; sleep 300; echo survived > survived");
    let work = Reply { text: "I start the long job.".into(), ..shell };
    lab.start(lab.scenario().reply(work));
    let args = ["run", support::word(cli), "--permission", "full", "Please do the long job"];
    let live = Live::start(&lab, &args);
    let running = wait_for(|| {
        fs::read_to_string(lab.work().join("running")).ok().filter(|t| t.ends_with('\n'))
    });
    // OpenCode tells of a call only when it is over; what it ran is in its own memory.
    let told = cli != Cli::OpenCode;
    if told {
        wait_for(|| (!bodies(&lab, "tool.started").is_empty()).then_some(()));
    }
    live.kill();
    wait_gone(running.trim().parse().unwrap());
    assert!(!lab.work().join("survived").exists());
    assert_eq!(show(&lab)["status"], "crashed");

    lab.start(lab.scenario().reply(Reply::text("I go on.")));
    let output = segue(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(output.stderr.contains("may have run"), told, "{}", output.stderr);
    let conversation = lab.conversation().join("\n---\n");
    assert!(lab.knows("Please do the long job"), "{conversation}");
    if told {
        assert!(conversation.contains("sleep 300"), "it is told what may have run: {conversation}");
    }
    assert!(conversation.contains("I start the long job."), "{conversation}");
    assert_eq!(show(&lab)["turns"], 1, "the count is kept");
    assert_eq!(bodies(&lab, "turn.ended").len(), 1);
    saw(&lab, Cell::KillAndResume);

    // The agent itself killed, and not Segue: a stop of its own.
    fs::remove_file(lab.work().join("running")).unwrap();
    lab.start(lab.scenario().reply(lab.shell("echo $$ > running; sleep 300")));
    let live = Live::start(&lab, &["resume", "1", "--permission", "full", "Once more"]);
    wait_for(|| fs::read_to_string(lab.work().join("running")).ok().filter(|t| t.ends_with('\n')));
    if told {
        wait_for(|| (bodies(&lab, "tool.started").len() == 2).then_some(()));
    }
    let mut inside = support::programs_below(live.pid());
    assert!(!inside.is_empty());
    support::kill_hard(inside.remove(0));
    let output = live.end();
    assert_eq!(output.status, 3, "{}", output.stderr);
    assert_eq!(stop(&lab)["reason"], "agent_crashed", "{}", output.stderr);

    // Interrupted in time: quickly, and with everything that it started.
    fs::remove_file(lab.work().join("running")).unwrap();
    lab.start(lab.scenario().reply(lab.shell("echo $$ > running; sleep 300")));
    let live = Live::start(&lab, &["resume", "1", "--permission", "full", "And once more"]);
    let running = wait_for(|| {
        fs::read_to_string(lab.work().join("running")).ok().filter(|t| t.ends_with('\n'))
    });
    live.interrupt();
    let output = live.end();
    assert_eq!(output.status, 130, "{}", output.stderr);
    wait_gone(running.trim().parse().unwrap());
    assert_eq!(stop(&lab)["reason"], "interrupted");
}

/// Two agents of one vendor in one directory at the same time.
fn two_at_once_stay_apart(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    // The first run of some sets up their home, which two at once would do against each other.
    lab.start(lab.scenario().reply(Reply::text("Warm.")));
    assert_eq!(segue(&lab, &["run", support::word(cli), "Please warm up"]).status, 0);
    let slow = |word: &str, answer: &str| {
        Reply::text(answer).delay(Duration::from_millis(1500)).when(When::body(word)).sticky()
    };
    let both = |lab: &Lab| {
        lab.scenario()
            .reply(slow("ALPHA", "I am with alpha."))
            .reply(slow("BETA", "I am with beta."))
    };
    lab.start(both(&lab));
    let first = Live::start(&lab, &["run", support::word(cli), "Remember ALPHA"]);
    let second = Live::start(&lab, &["run", support::word(cli), "Remember BETA"]);
    let (first, second) = (first.end(), second.end());
    assert_eq!((first.status, second.status), (0, 0), "{}\n{}", first.stderr, second.stderr);
    let number = |word: &str| {
        let prompt = |n: &&str| {
            support::show_of(&lab, n)["identity"]["prompt"]["text"] == format!("Remember {word}")
        };
        *["2", "3"].iter().find(|n| prompt(n)).unwrap()
    };
    let (alpha, beta) = (number("ALPHA"), number("BETA"));
    let id = |n: &str| support::show_of(&lab, n)["vendors"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(id(alpha), id(beta));
    lab.start(both(&lab));
    for (number, ours, theirs) in [(alpha, "ALPHA", "BETA"), (beta, "BETA", "ALPHA")] {
        let output = segue(&lab, &["resume", number, "Which word was it?"]);
        assert_eq!(output.status, 0, "{}", output.stderr);
        assert!(lab.knows(ours) && !lab.knows(theirs), "{:?}", lab.conversation());
    }
    saw(&lab, Cell::TwoAtOnce);
}

/// A vendor's session that was deleted: a new one gets the packet, and one line says so.
fn a_session_that_is_gone_is_replaced_by_the_packet(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    lab.start(lab.scenario().reply(Reply::text("The answer was forty-two.")));
    assert_eq!(segue(&lab, &["run", support::word(cli), "What is the answer?"]).status, 0);
    let id = show(&lab)["vendors"][0]["id"].as_str().unwrap().to_owned();
    support::forget_everything(&lab);
    lab.start(lab.scenario().reply(Reply::text("As I was told.")));
    let output = segue(&lab, &["resume", "1", "And the question?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let says: Vec<&str> = output.stderr.lines().filter(|line| line.contains("any more")).collect();
    assert_eq!(says.len(), 1, "{}", output.stderr);
    assert!(says[0].contains(&id), "{}", says[0]);
    assert!(lab.knows("What is the answer?") && lab.knows("The answer was forty-two."));
    assert!(lab.knows("And the question?"), "{:?}", lab.conversation());
    assert_ne!(show(&lab)["vendors"][0]["id"].as_str(), Some(&*id));
    assert_eq!(show(&lab)["turns"], 2, "the count is kept");
    saw(&lab, Cell::Packet);
}

/// Five megabytes with everything in them that could be mangled on the way.
fn a_long_prompt_arrives_byte_for_byte(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    lab.start(lab.scenario().reply(Reply::text("Read.").sticky()));
    let unit = "\"quotes\" 'and' `ticks` $(echo no) \\n \t ünï¢ødé 日本語 🦀 <tag> %s {{x}}\n";
    let mut prompt = String::from("The beginning.\n");
    // Gemini CLI refuses what is longer than its model's context, by its own guess at it.
    let (most, size) = if cli == Cli::Gemini { (3 << 20, "3 MiB") } else { (5 << 20, "yes") };
    while prompt.len() < most {
        prompt.push_str(unit);
    }
    prompt.push_str("The very end.");
    fs::write(lab.work().join("prompt.md"), &prompt).unwrap();
    let output = segue(&lab, &["run", support::word(cli), "--prompt-file", "prompt.md"]);
    assert_eq!(output.status, 0, "{}", output.stderr.chars().take(2000).collect::<String>());
    let said = support::user_texts(&lab);
    let arrived = said.iter().any(|text| text.contains(&prompt));
    if arrived {
        return saw(&lab, Cell::LongPrompt(size));
    }
    // It can only be told where to read.
    let in_file = said.iter().any(|text| text.contains("-prompt.md"));
    assert!(in_file && support::card(cli).argument_limit.is_some(), "it did not arrive");
    let kept = support::session_dir(&lab).join("streams/0001-prompt.md");
    assert_eq!(fs::read_to_string(kept).unwrap(), prompt);
    saw(&lab, Cell::LongPrompt("in a file"));
}

/// read-only, edit and full, in the vendor's own terms.
fn it_may_do_what_it_may(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    // Not below /tmp, which some sandboxes leave open; and the target directory may be there.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = outside.path().join("outside.txt");
    let mut allowed = Vec::new();
    for (permission, writes) in [("read-only", false), ("edit", true), ("full", true)] {
        let file = format!("{permission}.txt");
        let by_shell = format!("echo shell > {permission}-shell.txt");
        lab.start(
            lab.scenario()
                .reply(lab.write_file(&file, "text\n"))
                .reply(lab.shell(&by_shell))
                .reply(Reply::text("I tried.").sticky()),
        );
        let output =
            segue(&lab, &["run", support::word(cli), "--permission", permission, "Try this"]);
        // Some end a turn in which something was refused; none may hang.
        assert!([0, 3].contains(&output.status), "{permission}: {}", output.stderr);
        assert_eq!(lab.work().join(&file).exists(), writes, "{permission}: {}", output.stderr);
        let shell = lab.work().join(format!("{permission}-shell.txt")).exists();
        if permission == "read-only" {
            assert!(!shell, "{}", output.stderr);
        }
        if permission == "full" {
            assert!(shell, "{}", output.stderr);
        }
        allowed.push((permission, writes, shell));
    }
    // What `edit` means for the shell differs: a sandbox, or no shell at all.
    if allowed[1].2 {
        let escape = format!("echo shell > '{}'", outside.display());
        lab.start(lab.scenario().reply(lab.shell(&escape)).reply(Reply::text("I tried.").sticky()));
        segue(&lab, &["run", support::word(cli), "--permission", "edit", "Try to get out"]);
        assert!(!outside.exists(), "the shell is confined to the workspace");
    }
    saw(&lab, Cell::Permission(if allowed[1].2 { "shell in the workspace" } else { "no shell" }));
    assert!(log(&lab).contains("turn 1"));
}

/// A file written and an answer given over the protocol, and remembered by the next process.
fn acp_works_and_remembers(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let scenario = lab
        .scenario()
        .reply(lab.write_file("made.txt", "by the agent\n"))
        .reply(Reply::text("The file is written.").sticky());
    lab.start(scenario);
    let output = segue(&lab, &["run", support::word(cli), "Please make a file"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stdout.contains("The file is written."), "{}", output.stdout);
    assert_eq!(fs::read_to_string(lab.work().join("made.txt")).unwrap(), "by the agent\n");
    assert_eq!(bodies(&lab, "tool.returned")[0]["status"], "done");
    assert_eq!(show(&lab)["unread_lines"], 0);
    for cell in [Cell::Start, Cell::Stream, Cell::ToolCall] {
        saw(&lab, cell);
    }
    let id = show(&lab)["vendors"][0]["id"].as_str().expect("an id").to_owned();
    if cli == Cli::GeminiAcp {
        // Loaded within the minute of its creation, a session is destroyed by its own program.
        support::wait_for_the_next_minute();
    }
    lab.start(lab.scenario().reply(Reply::text("I remember.").sticky()));
    let output = segue(&lab, &["resume", "1", "What did I ask before?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(lab.knows("Please make a file") && lab.knows("What did I ask before?"));
    assert!(!lab.knows("You take over work"), "by its own memory: {:?}", lab.conversation());
    assert_eq!(show(&lab)["vendors"][0]["id"].as_str().unwrap(), id);
    let texts = bodies(&lab, "text.written");
    let said = texts.iter().filter(|text| text["text"]["text"] == "The file is written.");
    assert_eq!(said.count(), 1, "what is replayed is not said again: {texts:?}");
    saw(&lab, Cell::Resume);
}

/// `kill -9` of Segue while a tool runs over the protocol.
fn acp_killed_in_mid_turn_it_goes_on(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    lab.start(lab.scenario().reply(lab.shell("echo $$ > running; sleep 300")));
    let args = ["run", support::word(cli), "--permission", "full", "Please do the long job"];
    let live = Live::start(&lab, &args);
    let running = wait_for(|| {
        fs::read_to_string(lab.work().join("running")).ok().filter(|text| text.ends_with('\n'))
    });
    live.kill();
    wait_gone(running.trim().parse().unwrap());
    assert_eq!(show(&lab)["status"], "crashed");
    if cli == Cli::GeminiAcp {
        support::wait_for_the_next_minute();
    }
    lab.start(lab.scenario().reply(Reply::text("I go on.").sticky()));
    let output = segue(&lab, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(lab.knows("Please do the long job"), "{:?}", lab.conversation());
    assert_eq!(show(&lab)["turns"], 1, "the count is kept");
    saw(&lab, Cell::KillAndResume);
}
