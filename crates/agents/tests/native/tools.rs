//! What the file tools do inside the workspace.

use std::fs;

use segue_agents::native::{Outcome, Workspace, tools};
use serde_json::{Value, json};

struct Place {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

fn place(files: &[(&str, &str)]) -> Place {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let workspace = Workspace::open(dir.path()).unwrap();
    Place { dir, workspace }
}

impl Place {
    fn run(&self, name: &str, input: Value) -> Outcome {
        self.workspace.run(&tools::parse(name, &input.to_string()).unwrap())
    }

    fn content(&self, path: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(path)).unwrap()
    }

    fn ok(&self, name: &str, input: Value) -> String {
        let outcome = self.run(name, input);
        assert!(!outcome.is_error, "{outcome:?}");
        outcome.output
    }

    fn fail(&self, name: &str, input: Value) -> String {
        let outcome = self.run(name, input);
        assert!(outcome.is_error && outcome.touched.is_empty(), "{outcome:?}");
        outcome.output
    }
}

#[test]
fn reading_numbers_bounds_and_goes_on() {
    let long: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    let place = place(&[
        ("a", "one\r\ntwo\nthree"),
        ("long", &long),
        ("wide", &format!("{}\nend\n", "ü".repeat(5000))),
        ("huge", &"x".repeat(1000).repeat(200).replace("xxxxxxxxxx", "xxxxxxxxx\n")),
        ("empty", ""),
        ("nul", "a\0b"),
    ]);
    let read = |input| place.ok("read_file", input);
    assert_eq!(read(json!({ "path": "a" })), "     1\tone\n     2\ttwo\n     3\tthree\n");
    let part = read(json!({ "path": "a", "offset": 2, "limit": 1 }));
    assert_eq!(part, "     2\ttwo\n(lines 2 to 2; go on with offset 3)");
    let first = read(json!({ "path": "long" }));
    assert!(first.ends_with("  2000\tline 2000\n(lines 1 to 2000; go on with offset 2001)"));
    let last = read(json!({ "path": "long", "offset": 4999 }));
    assert_eq!(last, "  4999\tline 4999\n  5000\tline 5000\n");
    let error = place.fail("read_file", json!({ "path": "long", "offset": 5001 }));
    assert_eq!(error, "long has 5000 lines; there is no line 5001");
    let wide = read(json!({ "path": "wide" }));
    assert!(wide.contains("… [8000 more bytes]\n     2\tend\n"), "{}", &wide[wide.len() - 60..]);
    assert!(!wide.contains('\u{fffd}'));
    let huge = read(json!({ "path": "huge", "limit": 1_000_000 }));
    assert!(huge.len() <= 64 * 1024 + 60 && huge.contains("go on with offset"));
    assert_eq!(read(json!({ "path": "empty" })), "empty is empty");
    assert_eq!(read(json!({ "path": "nul" })), "nul is a binary file of 3 bytes");
}

#[test]
fn writing_creates_and_replaces() {
    let place = place(&[("a", "old")]);
    let outcome = place.run("write_file", json!({ "path": "x/y/z.txt", "content": "1\n2\n" }));
    assert_eq!(outcome.output, "created x/y/z.txt (2 lines, 4 bytes)");
    assert_eq!(outcome.touched, ["x/y/z.txt"]);
    assert_eq!(place.content("x/y/z.txt"), b"1\n2\n");
    let outcome = place.ok("write_file", json!({ "path": "./a", "content": "" }));
    assert_eq!(outcome, "replaced a (0 lines, 0 bytes)");
    assert_eq!(place.content("a"), b"");
}

#[test]
fn editing_wants_exactly_one_place() {
    let place = place(&[("a", "let x = 1;\nlet y = 1;\n")]);
    let edit = |old: &str, new: &str, all: bool| json!({ "path": "a", "old_string": old, "new_string": new, "replace_all": all });
    let error = place.fail("edit_file", edit("let", "var", false));
    assert!(error.contains("occurs 2 times in a; nothing was changed"), "{error}");
    assert!(place.fail("edit_file", edit("nope", "x", true)).contains("does not occur"));
    assert!(place.fail("edit_file", edit("", "x", true)).contains("empty"));
    assert!(place.fail("edit_file", edit("let", "let", true)).contains("the same"));
    assert_eq!(place.content("a"), b"let x = 1;\nlet y = 1;\n");
    assert_eq!(place.ok("edit_file", edit("x = 1", "x = 2", false)), "edited a");
    assert_eq!(place.ok("edit_file", edit("let", "var", true)), "edited a in 2 places");
    assert_eq!(place.content("a"), b"var x = 2;\nvar y = 1;\n");
    let gone = json!({ "path": "b", "old_string": "a", "new_string": "b" });
    assert_eq!(place.fail("edit_file", gone), "b does not exist");
}

#[test]
fn editing_keeps_line_ends_and_foreign_bytes() {
    let place = place(&[("crlf", "a\r\nb\r\nc\r\n"), ("mixed", "a\r\nb\nc\r\n")]);
    let edit = |path: &str, old: &str, new: &str| {
        let input = json!({ "path": path, "old_string": old, "new_string": new });
        place.run("edit_file", input)
    };
    assert!(!edit("crlf", "a\nb", "x\ny\nz").is_error);
    assert_eq!(place.content("crlf"), b"x\r\ny\r\nz\r\nc\r\n");
    assert!(edit("mixed", "a\nb", "x").is_error);
    assert!(!edit("mixed", "b\n", "d\n").is_error);
    assert_eq!(place.content("mixed"), b"a\r\nd\nc\r\n");
    fs::write(place.dir.path().join("latin1"), b"caf\xe9 = \xc3\xbc1\n\xff").unwrap();
    assert!(!edit("latin1", "ü1", "2").is_error);
    assert_eq!(place.content("latin1"), b"caf\xe9 = 2\n\xff");
}

#[test]
fn globbing_sees_what_a_developer_sees() {
    let place = place(&[
        (".gitignore", "target/\n*.log\n"),
        ("target/x.rs", ""),
        ("src/b.rs", ""),
        ("src/a.rs", ""),
        ("src/deep/c.rs", ""),
        ("main.rs", ""),
        ("x.log", ""),
        (".github/ci.yml", ""),
        (".git/config", ""),
        ("a b/\"q\".txt", ""),
    ]);
    let glob = |pattern: &str| place.ok("glob", json!({ "pattern": pattern }));
    assert_eq!(glob("**/*.rs"), "main.rs\nsrc/a.rs\nsrc/b.rs\nsrc/deep/c.rs\n");
    assert_eq!(glob("*.rs"), "main.rs\n");
    assert_eq!(glob("./src/*.rs"), "src/a.rs\nsrc/b.rs\n");
    assert_eq!(glob("{src,a b}/*.{rs,txt}"), "a b/\"q\".txt\nsrc/a.rs\nsrc/b.rs\n");
    assert_eq!(glob("**/*.yml"), "no file matches **/*.yml");
    assert_eq!(glob(".github/**"), ".github/ci.yml\n");
    assert_eq!(glob(".g*"), ".gitignore\n");
    assert_eq!(glob("**/.*"), ".gitignore\n");
    assert_eq!(glob(".git/*"), ".git/config\n");
    let whole = place.workspace.root().join("src/*.rs");
    assert_eq!(glob(whole.to_str().unwrap()), "src/a.rs\nsrc/b.rs\n");
    assert_eq!(place.ok("glob", json!({ "pattern": "*", "path": "src/deep" })), "src/deep/c.rs\n");
    assert!(place.fail("glob", json!({ "pattern": "a[" })).contains("cannot be read"));
    assert!(place.fail("glob", json!({ "pattern": "../*" })).contains(".."));
    assert!(place.fail("glob", json!({ "pattern": "*", "path": "main.rs" })).contains("not a dir"));
}

#[test]
fn globbing_is_capped_and_says_so() {
    let place = place(&[]);
    for n in 0..1001 {
        fs::write(place.dir.path().join(format!("f{n:04}")), "").unwrap();
    }
    let found = place.ok("glob", json!({ "pattern": "*" }));
    assert_eq!(found.lines().count(), 1001);
    assert!(found.starts_with("f0000\nf0001\n"));
    assert!(found.contains("f0999\n(the first 1,000 files; there are more"));
    fs::remove_file(place.dir.path().join("f1000")).unwrap();
    assert_eq!(place.ok("glob", json!({ "pattern": "*" })).lines().last(), Some("f0999"));
}

#[test]
fn grepping_lines() {
    let place = place(&[
        ("a.txt", "Alpha\nbeta\ngamma\ndelta\r\nbeta two\n"),
        ("b/c.rs", "fn beta() {}\n"),
        ("bin", "beta\0"),
        (".hidden", "beta\n"),
        (".gitignore", "skip\n"),
        ("skip", "beta\n"),
    ]);
    let grep = |input| place.ok("grep", input);
    let all = "a.txt:2:beta\na.txt:5:beta two\nb/c.rs:1:fn beta() {}\n";
    assert_eq!(grep(json!({ "pattern": "beta" })), all);
    assert_eq!(grep(json!({ "pattern": "^alpha$" })), "no line matches");
    let input = json!({ "pattern": "^alpha$", "case_insensitive": true });
    assert_eq!(grep(input), "a.txt:1:Alpha\n");
    assert_eq!(grep(json!({ "pattern": "delta$" })), "a.txt:4:delta\n");
    let rust = grep(json!({ "pattern": "beta", "glob": "*.rs" }));
    assert_eq!(rust, "b/c.rs:1:fn beta() {}\n");
    assert_eq!(grep(json!({ "pattern": "beta", "path": "b" })), rust);
    assert_eq!(grep(json!({ "pattern": "beta", "path": ".hidden" })), ".hidden:1:beta\n");
    assert_eq!(grep(json!({ "pattern": "beta", "glob": ".hid*" })), ".hidden:1:beta\n");
    let around = grep(json!({ "pattern": "beta", "path": "a.txt", "context": 1 }));
    let expected = "a.txt-1-Alpha\na.txt:2:beta\na.txt-3-gamma\na.txt-4-delta\na.txt:5:beta two\n";
    assert_eq!(around, expected);
    let apart = grep(json!({ "pattern": "Alpha|two", "context": 1 }));
    let expected = "a.txt:1:Alpha\na.txt-2-beta\n--\na.txt-4-delta\na.txt:5:beta two\n";
    assert_eq!(apart, expected);
    let capped = grep(json!({ "pattern": "beta", "max_results": 1 }));
    assert!(capped.starts_with("a.txt:2:beta\n(there may be more"), "{capped}");
    assert_eq!(grep(json!({ "pattern": "beta", "max_results": 3 })), all);
    let error = place.fail("grep", json!({ "pattern": "a(" }));
    assert!(error.contains("the regular expression cannot be read"), "{error}");
}

#[test]
fn grep_results_are_bounded() {
    let wide = format!("x{}\n", "ü".repeat(100_000));
    let place = place(&[("wide", &wide), ("many", &"match this line\n".repeat(5000))]);
    let found = place.ok("grep", json!({ "pattern": "^x", "path": "wide" }));
    assert!(found.len() < 600 && found.contains('…'), "{}", found.len());
    let input = json!({ "pattern": "match", "max_results": 100_000 });
    let found = place.ok("grep", input);
    assert!(found.len() <= 30_100, "{}", found.len());
    assert_eq!(found.matches(":match").count(), 1000);
}
