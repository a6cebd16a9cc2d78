//! A key is for the model's API alone.

use std::fs;

use segue_testkit::model_server::Reply;
use serde_json::json;

use crate::support::{
    ANTHROPIC, CHAT, DONE, KEY, OPENAI, ask, files_below, scripted, segue, serve,
};

#[test]
fn the_key_is_found_nowhere() {
    for model in [ANTHROPIC, OPENAI, CHAT] {
        let (env, _) = scripted(DONE);
        let look = "env; tr '\\0' '\\n' < /proc/self/environ; tr '\\0' ' ' < /proc/$PPID/cmdline";
        let server = serve([
            Reply::tool("shell", json!({ "command": look })).thinking("Hm."),
            Reply::text("Done."),
        ]);
        let proof = "env > proof-env.txt";
        let output = ask(&env, &server, &["run", "Go", "--model", model, "--proof", proof]);
        assert_eq!(output.status, 0, "{model}: {}", output.stderr);
        let turns = server.turns();
        assert!(turns[0].headers.values().any(|value| value == "present"), "no key was sent");
        let told = turns[1].texts().join("\n");
        assert!(told.contains("PATH="), "the command saw its environment: {told}");
        assert!(!told.contains(KEY), "{model}: a command has the key");
        let mut everything = format!("{}{}", output.stdout, output.stderr);
        for args in [&["log", "-v"][..], &["show", "--json"], &["config"], &["agents"]] {
            let output = segue(&env, args);
            everything.push_str(&output.stdout);
            everything.push_str(&output.stderr);
        }
        assert!(!everything.contains(KEY), "{model}: it is printed");
        for file in [files_below(&env.home()), files_below(&env.repo())].concat() {
            let bytes = fs::read(&file).unwrap();
            let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
            assert!(!found, "{model}: it is in {}", file.display());
        }
    }
}
