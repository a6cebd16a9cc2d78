//! What is checked in is what the program says of itself, and what it writes fits its schemas.

use std::{fs, path::Path};

use segue_core::schema;
use serde_json::Value;

use crate::support::{SLOW_TOOL, WORK, env, files_below, finish, json, scripted, segue, signal};

#[test]
fn the_reference_that_is_checked_in_is_up_to_date() {
    let env = env();
    let made = env.path("docs");
    assert_eq!(segue(&env, &["reference", made.to_str().unwrap()]).status, 0);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut files = files_below(&made);
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in &files {
        let name = file.strip_prefix(&made).unwrap();
        let (new, old) = (fs::read_to_string(file).unwrap(), fs::read_to_string(kept.join(name)));
        assert!(
            old.is_ok_and(|old| old == new),
            "docs/{} is not what the program says: cargo run -p segue-cli -- reference docs",
            name.display()
        );
    }
    for file in files_below(&kept.join("schemas")) {
        let name = file.strip_prefix(&kept).unwrap();
        assert!(made.join(name).exists(), "docs/{} is made by nothing any more", name.display());
    }
}

fn check(name: &str, value: &Value) {
    let all = schema::all();
    let (_, schema) = all.iter().find(|(known, _)| *known == name).unwrap();
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {value}");
}

#[test]
fn what_a_pair_leaves_fits_the_schemas() {
    let (env, model) = scripted(&format!(
        "{WORK}[[reply]]\ntext = \"\"\"\n```segue\n{{\"verdict\":\"pass\"}}\n```\n\"\"\"\nrepeat = true"
    ));
    let agent = format!("native@{model}");
    let fail = r#"{"verdict":"fail","category":"x","concern":"y","evidence":"z","next_step":"w"}"#;
    let fail = format!("[[reply]]\ntext = \"\"\"\n```segue\n{fail}\n```\n\"\"\"\nrepeat = true");
    fs::write(env.path("fail.toml"), fail).unwrap();
    let reviewers = format!("{agent},native@script:{}", env.path("fail.toml").display());
    let args =
        ["pair", "Go", "--worker", &agent, "--reviewer", &reviewers, "--max-iterations", "2"];
    let output = segue(&env, &args);
    assert_eq!(output.status, 3, "{}", output.stderr);
    segue(&env, &["bridge", "1", "send", "all", "Hello"]);
    segue(&env, &["resume", "1", "--max-iterations", "3"]);
    let dir = env.session_dir(1).unwrap();
    for dir in [dir.clone(), dir.join("reviewers/native-2"), dir.join("reviewers/native-3")] {
        for line in fs::read_to_string(dir.join("journal.jsonl")).unwrap().lines() {
            check("journal-line.schema.json", &json(line));
        }
        let read = |name: &str| json(&fs::read_to_string(dir.join(name)).unwrap());
        check("session.schema.json", &read("session.json"));
        check("state.schema.json", &read("state.json")["state"]);
    }
}

#[test]
fn what_is_on_disk_fits_the_schemas() {
    let (env, model) = scripted(&format!("{WORK}repeat = true"));
    let args =
        ["run", "Go", "--model", &model, "--name", "all", "--proof", "exit 1", "--max-turns", "2"];
    assert_eq!(segue(&env, &args).status, 3);
    segue(&env, &["resume", "1", "--max-turns", "3", "--dir", ".", "--model", &model]);
    env.script(SLOW_TOOL).unwrap();
    let child = crate::support::start_slow_tool(&env, &model);
    signal(&child, rustix::process::Signal::KILL);
    finish(child);
    segue(&env, &["resume", "2", "Something else"]);
    for number in [1, 2] {
        for line in env.journal(number).unwrap() {
            check("journal-line.schema.json", &line);
        }
        let read = |name: &str| {
            json(&fs::read_to_string(env.session_dir(number).unwrap().join(name)).unwrap())
        };
        check("session.schema.json", &read("session.json"));
        check("state.schema.json", &read("state.json")["state"]);
    }
    // A schema that lets everything through would prove nothing.
    let all = schema::all();
    let validator = jsonschema::validator_for(&all[0].1).unwrap();
    let mut line = env.journal(1).unwrap().remove(2);
    line["data"] = serde_json::json!({ "by": 1 });
    assert!(!validator.is_valid(&line), "{line}");
}
