//! Text from agents and files can't steer the terminal of whoever looks.

use crate::support::{scripted, segue};

/// A title, a clipboard, a bell, colours, a cleared screen, a turned direction of reading.
const EVIL: &str =
    "a\\u001b]0;owned\\u0007b\\u001b[31mc\\u001b[2Jd\\u0007e\\r\\nf\\u202eg\\u009b31mh";

#[test]
fn nothing_hostile_reaches_a_terminal() {
    let script = format!(
        "[[reply]]\nthinking = \"{EVIL}\"\ntext = \"{EVIL}\"\ntools = [\n  {{ name = \"write_file\", \
         input = {{ path = \"{EVIL}\", content = \"x\" }} }},\n  {{ name = \"shell\", input = {{ \
         command = \"printf '{}'; exit 3\" }} }},\n]\n[[reply]]\ntext = \"{EVIL}\"\n",
        EVIL.replace('\\', "\\\\"),
    );
    let (env, model) = scripted(&script);
    let evil: String =
        "a\u{1b}]0;owned\u{7}b\u{1b}[31mc\u{1b}[2Jd\u{7}e\r\nf\u{202e}g\u{9b}31mh".into();
    let run =
        ["run", &evil, "--model", &model, "--color", "always", "--proof", "exit 0 # \u{1b}[2J"];
    let mut outputs = vec![segue(&env, &run)];
    assert_eq!(outputs[0].status, 0, "{}", outputs[0].stderr);
    for args in [
        &["list"][..],
        &["show", "1"],
        &["log", "1"],
        &["log", "1", "--verbose"],
        &["watch", "1", "-n", "100"],
        &["resume", "1", "--dry-run", &evil],
        &["show", &evil],
        &["run", &evil, "y"],
        &["verify", "1"],
    ] {
        outputs.push(segue(&env, &[args, &["--color", "always"]].concat()));
    }
    for output in outputs {
        for text in [&output.stdout, &output.stderr] {
            let harmless = without_colours(text);
            let hostile =
                harmless.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(hostile, None, "{harmless:?}");
        }
    }
}

/// Our own colours: one number each, from a few.
fn without_colours(text: &str) -> String {
    let mut clean = text.to_owned();
    for code in ["0", "1", "2", "31", "32", "33", "36"] {
        clean = clean.replace(&format!("\u{1b}[{code}m"), "");
    }
    // What the evil text itself would have left, were it let through.
    assert!(!text.contains("\u{1b}[31mc"), "{text:?}");
    clean
}

#[test]
fn a_pipe_gets_the_agents_words_as_they_are() {
    let (env, model) = scripted(&format!("[[reply]]\ntext = \"{EVIL}\"\n"));
    let output = segue(&env, &["run", "Go", "--model", &model]);
    let said = "a\u{1b}]0;owned\u{7}b\u{1b}[31mc\u{1b}[2Jd\u{7}e\r\nf\u{202e}g\u{9b}31mh\n";
    assert_eq!(output.stdout, said);
}
