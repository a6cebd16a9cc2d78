//! Back to the end of an earlier turn: the files, and the vendor's own conversation.

use segue_testkit::{
    model_server::Reply,
    vendors::{Cli, Lab},
};

use crate::support::{self, bodies, segue, show, word};

#[test]
fn claude_goes_back_in_a_copy_of_its_conversation() {
    goes_back(Cli::Claude, "claude: a copy of its own conversation, cut there");
}

#[test]
fn codex_goes_back_in_a_copy_of_its_conversation() {
    goes_back(Cli::Codex, "codex: a copy of its own conversation, cut there");
}

#[test]
fn gemini_goes_back_with_a_packet() {
    goes_back(Cli::Gemini, "gemini: a new conversation, with a packet of what was done");
}

const FILES: [&str; 3] = ["one.txt", "two.txt", "three.txt"];

fn there(lab: &Lab) -> Vec<&'static str> {
    FILES.into_iter().filter(|name| lab.work().join(name).exists()).collect()
}

fn goes_back(cli: Cli, way: &str) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let prompts = ["Please do the first", "Please do the second", "Please do the third"];
    let answers = ["Done with alpha.", "Done with beta.", "Done with gamma."];
    for (n, file) in FILES.into_iter().enumerate() {
        let scenario = lab.scenario().reply(lab.write_file(file, "text\n"));
        lab.start(scenario.reply(Reply::text(answers[n]).sticky()));
        let args = match n {
            0 => ["run", word(cli), prompts[n]],
            _ => ["resume", "1", prompts[n]],
        };
        let output = segue(&lab, &args);
        assert_eq!(output.status, 0, "{}", output.stderr);
    }
    let id = show(&lab)["vendors"][0]["id"].as_str().unwrap().to_owned();

    lab.start(lab.scenario().reply(Reply::text("Another way, then.").sticky()));
    let back = ["rewind", "1", "--turn", "1", "Another way"];
    let output = segue(&lab, &[&back[..], &["--dry-run"]].concat());
    assert_eq!((output.status, lab.turns().len()), (0, 0), "{}", output.stderr);
    assert!(output.stderr.contains(way), "{}", output.stderr);
    assert_eq!(there(&lab), FILES, "only a plan");

    let output = segue(&lab, &back);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(there(&lab), ["one.txt"]);
    let request = &lab.turns()[0];
    let texts = request.texts().join("\n");
    for part in [prompts[0], answers[0], "Another way"] {
        assert!(texts.contains(part), "{part} is not in {texts}");
    }
    let all = request.body.to_string() + &serde_json::to_string(&request.prior).unwrap();
    for part in [prompts[1], answers[1], "two.txt", prompts[2], answers[2], "three.txt"] {
        assert!(!all.contains(part), "{part} is in {all}");
    }
    assert_eq!(texts.contains("You take over work"), !support::card(cli).can.rewind, "{texts}");
    assert_ne!(show(&lab)["vendors"][0]["id"].as_str(), Some(&*id), "a conversation of its own");
    assert_eq!(bodies(&lab, "rewind.finished").len(), 1);

    // What goes on from there remembers itself, and no more than that.
    lab.start(lab.scenario().reply(Reply::text("Further, then.").sticky()));
    let output = segue(&lab, &["resume", "1", "And further"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let texts = lab.conversation().join("\n");
    for part in [prompts[0], "Another way, then.", "And further"] {
        assert!(texts.contains(part), "{part} is not in {texts}");
    }
    assert!(!texts.contains(answers[2]), "{texts}");

    let output = segue(&lab, &["rewind", "1", "--undo"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(there(&lab), FILES);
    // And with the files, the conversation.
    lab.start(lab.scenario().reply(Reply::text("As before.").sticky()));
    let output = segue(&lab, &["resume", "1", "Where were we?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    let texts = lab.conversation().join("\n");
    assert!(texts.contains(answers[2]) && !texts.contains("Another way, then."), "{texts}");
}
