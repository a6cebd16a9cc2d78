//! A list of tasks with real agents: Claude Code works, Codex evaluates.

use std::{collections::BTreeSet, fs, path::Path};

use segue_testkit::{
    model_server::{Reply, When},
    vendors::{Cli, Lab},
};
use serde_json::{Value, json};

use crate::{
    checkpoint::our_tool,
    pair::git,
    support::{api, asked_by, bodies, segue},
};

const TASKS: u32 = 5;

fn said_to(cli: Cli, words: &str, reply: Reply) -> Reply {
    reply.when(When { api: Some(api(cli)), ..When::last_user(words) })
}

/// Claude writes a file of the task's number, makes its case, and says so.
fn works(n: u32, words: &str, file: &str) -> Vec<Reply> {
    let case = json!({
        "summary": format!("Wrote {file}."),
        "criteria": [{ "criterion": "the file is there", "met_by": file }],
    });
    let write = Cli::Claude.write_file(Path::new(file), &format!("{n}\n"));
    let replies = [write, our_tool(Cli::Claude, "submit_case", case), Reply::text("My case.")];
    replies.map(|reply| said_to(Cli::Claude, words, reply)).into()
}

fn evaluates(round: u32, verdict: Value) -> Vec<Reply> {
    let words = format!("This is round {round}.");
    let replies = [our_tool(Cli::Codex, "submit_verdict", verdict), Reply::text("I have said it.")];
    replies.map(|reply| said_to(Cli::Codex, &words, reply)).into()
}

fn plan(lab: &Lab) {
    let dir = lab.work().join("plan");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("overview.md"), "# Numbers\n\nA file for each.\n").unwrap();
    for n in 1..=TASKS {
        let text = format!(
            "---\nid: T-00{n}\ntitle: Number {n}\n---\nWrite it.\n\n## Acceptance criteria\n\
             - the file is there\n"
        );
        fs::write(dir.join(format!("T-00{n}-number.md")), text).unwrap();
    }
}

#[test]
fn claude_works_through_a_list_and_codex_evaluates_each_task() {
    let Some(mut lab) = Lab::open(Cli::Claude) else { return };
    plan(&lab);
    let mut script = Vec::new();
    for n in 1..=TASKS {
        let words = format!("one task of a list, T-00{n}: ");
        script.extend(works(n, &words, &format!("{n}.txt")));
    }
    // The second one is rejected once.
    script.extend(works(2, "Your work was reviewed (round 1)", "2-again.txt"));
    let reject = json!({
        "verdict": "reject", "category": "acceptance_gap", "concern": "There is no second file",
        "evidence": "2.txt", "next_step": "Write it",
    });
    let accept = || json!({ "verdict": "accept", "summary": "it is there" });
    script.extend(evaluates(1, accept()));
    script.extend(evaluates(1, reject));
    script.extend(evaluates(2, accept()));
    for _ in 3..=TASKS {
        script.extend(evaluates(1, accept()));
    }
    let scenario = script.into_iter().fold(lab.scenario(), |scenario, one| scenario.reply(one));
    lab.start(scenario);
    let args = ["tasks", "run", "plan", "--worker", "claude", "--evaluator", "codex"];
    let output = segue(&lab, &args);
    assert_eq!(output.status, 0, "{}", output.stderr);

    let log = git(&lab, &["log", "--reverse", "--format=%s", "main..segue/1-numbers"]);
    let wanted: Vec<String> = (1..=TASKS).map(|n| format!("T-00{n}: Number {n}")).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), wanted);
    let files = git(&lab, &["show", "--format=", "--name-only", "segue/1-numbers~3"]);
    assert_eq!(files.lines().collect::<Vec<_>>(), ["2-again.txt", "2.txt"]);
    let via: BTreeSet<String> = bodies(&lab, "case.submitted")
        .iter()
        .chain(&bodies(&lab, "verdict.given"))
        .map(|one| one["via"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(via, BTreeSet::from(["tool".to_owned()]), "{}", output.stderr);
    // Each task is a conversation of its own; the second attempt goes on in the first one's.
    let started = bodies(&lab, "agent.started");
    let ids: Vec<&str> =
        started.iter().map(|one| one["vendor_session"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 6, "{ids:?}");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 5, "{ids:?}");
    assert_eq!(ids[1], ids[2]);
    // What the models were told: nothing of other tasks' conversations, on either side.
    let last = asked_by(&lab, Cli::Claude).last().unwrap().texts().join("\n");
    assert!(
        last.contains("T-005: Number 5") && !last.contains("There is no second file"),
        "{last}"
    );
    let last = asked_by(&lab, Cli::Codex).last().unwrap().texts().join("\n");
    assert!(last.contains("T-005: Number 5") && !last.contains("This is round 2."), "{last}");
    let second = asked_by(&lab, Cli::Codex);
    let second = second.iter().map(|one| one.texts().join("\n"));
    let second: Vec<String> = second.filter(|text| text.contains("This is round 2.")).collect();
    for part in ["C1 · acceptance_gap", "Wrote 2-again.txt.", "+2"] {
        assert!(second[0].contains(part), "{part} is not in {}", second[0]);
    }
    assert!(!second[0].contains("This is round 1."), "{}", second[0]);
}
