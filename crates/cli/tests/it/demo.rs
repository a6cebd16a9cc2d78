//! `segue demo` holds what it says.

use crate::support::{env, json, segue, shown};

#[test]
fn every_claim_of_the_demo_holds() {
    let env = env();
    let output = segue(&env, &["demo", "--json", "--dir", "../demo"]);
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let result = json(&output.stdout);
    assert_eq!(result["ok"], true);
    let checks = result["checks"].as_array().unwrap();
    assert!(checks.len() >= 16, "{checks:?}");
    assert!(checks.iter().all(|check| check["holds"] == true), "{checks:?}");
    assert!(!env.home().exists(), "the demo has a home of its own");
    let again = shown(&env, &["demo", "--dir", "../demo"]);
    insta::assert_snapshot!(again, @"
    status 2
    ── stdout
    ── stderr
    error: $DIR/repo/../demo is not empty
      hint: name a new place with --dir
    ");
}
