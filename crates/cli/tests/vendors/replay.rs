//! A recorded session, done again by a vendor's program: what its model was sent is the proof.

use segue_testkit::{
    model_server::Reply,
    vendors::{Cli, Lab},
};

use crate::support::{segue, word};

#[test]
fn claude_gets_the_recorded_context() {
    gets_the_recorded_context(Cli::Claude);
}

#[test]
fn codex_gets_the_recorded_context() {
    gets_the_recorded_context(Cli::Codex);
}

fn gets_the_recorded_context(cli: Cli) {
    let Some(mut lab) = Lab::open(cli) else { return };
    let scenario = lab.scenario().reply(lab.write_file("one.txt", "text\n"));
    lab.start(scenario.reply(Reply::text("Done with alpha.").sticky()));
    let output = segue(&lab, &["run", word(cli), "Please do the first"]);
    assert_eq!(output.status, 0, "{}", output.stderr);

    lab.start(lab.scenario().reply(Reply::text("Done once more.").sticky()));
    let rerun = ["replay", "1", "--mode", "rerun", "--agent", word(cli), "--prompt", "Once more"];
    let output = segue(&lab, &rerun);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(output.stdout.contains("Done once more."), "{}", output.stdout);
    let told = lab.turns()[0].texts().join("\n");
    for part in ["Please do the first", "Done with alpha.", "Once more"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let refused = segue(&lab, &["replay", "1", "--mode", "cache", "--continue"]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("--mode rerun --agent"), "{}", refused.stderr);
}
