//! Nothing leads out of the workspace.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use segue_agents::native::{Outcome, Workspace, tools};
use serde_json::json;

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    workspace: Workspace,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("work");
    let outside = root.with_file_name("outside");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.txt"), "secret\n").unwrap();
    fs::write(root.join("src/a.txt"), "inside\n").unwrap();
    let workspace = Workspace::open(&root).unwrap();
    Place { _dir: dir, root, outside, workspace }
}

impl Place {
    fn run(&self, name: &str, input: &serde_json::Value) -> Outcome {
        self.workspace.run(&tools::parse(name, &input.to_string()).unwrap())
    }

    fn read(&self, path: &str) -> Outcome {
        self.run("read_file", &json!({ "path": path }))
    }

    fn write(&self, path: &str) -> Outcome {
        self.run("write_file", &json!({ "path": path, "content": "changed" }))
    }

    fn edit(&self, path: &str) -> Outcome {
        let input = json!({ "path": path, "old_string": "secret", "new_string": "changed" });
        self.run("edit_file", &input)
    }

    fn refused(&self, path: &str) {
        for outcome in [self.read(path), self.write(path), self.edit(path)] {
            assert!(outcome.is_error, "{path}: {outcome:?}");
            assert!(!outcome.output.contains("secret\n"), "{path}: {outcome:?}");
            let clear = outcome.output.contains("outside the workspace");
            assert!(clear, "{path}: {}", outcome.output);
        }
        let names: Vec<_> = fs::read_dir(&self.outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, ["secret.txt"], "after {path}");
        let content = fs::read_to_string(self.outside.join("secret.txt")).unwrap();
        assert_eq!(content, "secret\n", "after {path}");
    }
}

#[test]
fn dots_and_absolute_paths() {
    let place = place();
    place.refused("../outside/secret.txt");
    place.refused("src/../../outside/secret.txt");
    place.refused(place.outside.join("secret.txt").to_str().unwrap());
    place.refused("/etc/hostname");
    place.refused(&format!("{}/../outside/secret.txt", place.root.display()));
    // What stays inside is fine, however it is written.
    for path in ["src/../src/a.txt", "./src/a.txt", place.root.join("src/a.txt").to_str().unwrap()]
    {
        assert_eq!(place.read(path).output, "     1\tinside\n", "{path}");
    }
}

#[test]
fn links_at_the_end_and_in_the_middle() {
    let place = place();
    symlink(place.outside.join("secret.txt"), place.root.join("absolute")).unwrap();
    symlink("../outside/secret.txt", place.root.join("relative")).unwrap();
    symlink("relative", place.root.join("chain")).unwrap();
    symlink(&place.outside, place.root.join("parent")).unwrap();
    symlink("../../outside", place.root.join("src/up")).unwrap();
    for path in ["absolute", "relative", "chain", "parent/secret.txt", "src/up/secret.txt"] {
        place.refused(path);
    }
    assert!(place.write("parent/new/deep.txt").is_error);
    assert!(!place.outside.join("new").exists());
    for path in ["parent", "src/up"] {
        let found = place.run("glob", &json!({ "pattern": "**", "path": path }));
        assert!(found.is_error && found.output.contains("outside"), "{found:?}");
    }
    let found = place.run("grep", &json!({ "pattern": "secret" }));
    assert_eq!(found.output, "no line matches");
}

#[test]
fn dangling_links_are_not_written_through() {
    let place = place();
    symlink(place.outside.join("new.txt"), place.root.join("dangling")).unwrap();
    symlink("../outside/new.txt", place.root.join("dangling2")).unwrap();
    symlink("nowhere/at/all", place.root.join("gone")).unwrap();
    for path in ["dangling", "dangling2"] {
        let outcome = place.write(path);
        assert!(outcome.is_error && outcome.output.contains("outside"), "{outcome:?}");
    }
    assert!(!place.outside.join("new.txt").exists());
    // One that stays inside makes the file that it names.
    assert!(!place.write("gone").is_error);
    assert_eq!(fs::read_to_string(place.root.join("nowhere/at/all")).unwrap(), "changed");
    symlink("loop", place.root.join("loop")).unwrap();
    assert!(place.write("loop").is_error && place.read("loop").is_error);
}

#[test]
fn links_inside_are_followed_and_kept() {
    let place = place();
    symlink("a.txt", place.root.join("src/near")).unwrap();
    symlink(place.root.join("src/a.txt"), place.root.join("far")).unwrap();
    symlink(place.root.join("src"), place.root.join("dir")).unwrap();
    for path in ["src/near", "far", "dir/a.txt"] {
        assert_eq!(place.read(path).output, "     1\tinside\n", "{path}");
        let outcome = place.write(path);
        assert_eq!(outcome.touched, ["src/a.txt"], "{path}: {outcome:?}");
        assert_eq!(fs::read_to_string(place.root.join("src/a.txt")).unwrap(), "changed");
        fs::write(place.root.join("src/a.txt"), "inside\n").unwrap();
    }
    assert!(place.root.join("far").is_symlink());
}

#[test]
fn git_is_read_only() {
    let place = place();
    fs::create_dir_all(place.root.join(".git/hooks")).unwrap();
    fs::write(place.root.join(".git/config"), "secret = 1\n").unwrap();
    symlink(".git/hooks", place.root.join("hooks")).unwrap();
    symlink("../.git/config", place.root.join("src/config")).unwrap();
    assert_eq!(place.read(".git/config").output, "     1\tsecret = 1\n");
    for path in
        [".git/config", ".git/hooks/pre-commit", "hooks/x", "src/config", ".git/n/m", ".git"]
    {
        let outcome = place.write(path);
        assert!(outcome.is_error && outcome.output.contains(".git"), "{path}: {outcome:?}");
    }
    assert!(place.edit(".git/config").is_error);
    assert!(!place.root.join(".git/n").exists());
    assert_eq!(fs::read_dir(place.root.join(".git/hooks")).unwrap().count(), 0);
    assert!(!place.write(".gitignore").is_error);
}

#[test]
fn strange_files_and_modes() {
    let place = place();
    let pipe = place.root.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert!(place.read("pipe").output.contains("not a regular file"));
    assert!(place.write("pipe").output.contains("not a regular file"));
    assert!(place.read("src").output.contains("is a directory"));
    assert!(place.write("src").output.contains("is a directory"));
    assert!(place.write("src/a.txt/b").output.contains("not a directory"));
    assert!(place.read("").is_error && place.write("..").is_error && place.write(".").is_error);
    assert!(place.read("a\u{0}b").output.contains("NUL"));
    assert!(place.read("nothing").output.contains("does not exist"));

    let script = place.root.join("run.sh");
    fs::write(&script, "old").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o751)).unwrap();
    assert!(!place.write("run.sh").is_error);
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o7777, 0o751);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(place.write("run.sh").output.contains("read-only"));
    let left: Vec<_> = fs::read_dir(&place.root)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A link is swapped in and out under the tools' feet; whatever the timing, nothing gets out.
#[cfg(target_os = "linux")]
#[test]
fn a_race_cannot_be_won() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let place = place();
    let (dir, link) = (place.root.join("d"), place.root.join("link"));
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("secret.txt"), "harmless\n").unwrap();
    symlink(&place.outside, &link).unwrap();
    let stop = AtomicBool::new(false);
    let mut both = [false; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut leaks = Vec::new();
        // Many times, and until both the directory and the link were met.
        for round in 0..1_000_000 {
            if round >= 2000 && both == [true, true] {
                break;
            }
            let read = place.read("d/secret.txt");
            if read.output.contains("\tsecret") {
                leaks.push(read.output);
            }
            both[usize::from(place.write("d/secret.txt").is_error)] = true;
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(leaks, Vec::<String>::new());
    });
    assert_eq!(both, [true, true], "the directory and the link were both met");
    let content = fs::read_to_string(place.outside.join("secret.txt")).unwrap();
    assert_eq!(content, "secret\n");
    assert_eq!(fs::read_dir(&place.outside).unwrap().count(), 1);
}
