//! With a real git, in temporary directories.

use std::fs;
use std::os::unix::fs::chown;

use tempfile::TempDir;

use super::*;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("temporary directory") }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        let top = fs::canonicalize(self.dir.path()).expect("canonical");
        top.join(name)
    }

    fn git(&self, dir: impl AsRef<Path>, args: &[&str]) -> String {
        let mut command = Command::new("git");
        for name in FOREIGN_VARS {
            command.env_remove(name);
        }
        let output = command
            .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
            .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
            .args(args)
            .current_dir(self.path(dir))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .expect("git");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn init(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("directory");
        self.git(&path, &["init", "-q"]);
        path
    }

    /// With one commit.
    fn repo(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.init(name);
        self.git(&path, &["commit", "-q", "--allow-empty", "-m", "one"]);
        path
    }
}

fn quiet() -> Git {
    Git {
        program: "git".into(),
        env: vec![
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_CONFIG_SYSTEM".into(), "/dev/null".into()),
        ],
    }
}

fn look(dir: impl AsRef<Path>) -> Repo {
    quiet().identify(dir.as_ref()).expect("identified")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn a_remote_names_the_repository_from_anywhere_in_it() {
    let place = Place::new();
    let app = place.repo("app");
    place.git(&app, &["remote", "add", "aaa", "https://other.example/x/y"]);
    place.git(&app, &["remote", "add", "origin", "https://me:s3cret@GitHub.com/user/Repo.git"]);
    fs::create_dir_all(app.join("deep/er")).expect("directory");

    let repo = identify(&app).expect("identified");
    assert_eq!(repo.identity, "github.com/user/Repo");
    assert!(repo.id.starts_with("github.com-user-repo-"), "{}", repo.id);
    assert_eq!(repo.id.len(), "github.com-user-repo-".len() + 8);
    assert_eq!((repo.kind, repo.note.as_deref()), (Kind::Remote, None));
    assert_eq!(repo.root, app);
    assert_eq!(repo.branch.as_deref(), Some("main"));
    assert_eq!(repo.head, Some(place.git(&app, &["rev-parse", "HEAD"])));
    assert!(!format!("{repo:?}").contains("s3cret"));
    assert_eq!(look(app.join("deep/er")), repo);

    let inside = look(app.join(".git"));
    assert_eq!((inside.id, inside.root), (repo.id, app.clone()));

    place.git(&app, &["remote", "remove", "origin"]);
    place.git(&app, &["remote", "add", "zzz", "git@h:x/z"]);
    assert_eq!(look(&app).identity, "other.example/x/y");
}

#[test]
fn short_forms_from_the_configuration_are_written_out() {
    let place = Place::new();
    let app = place.repo("app");
    place.git(&app, &["config", "url.https://t0ken@github.com/.insteadOf", "gh:"]);
    place.git(&app, &["config", "url.https://example.org/.insteadOf", "g"]);
    place.git(&app, &["remote", "add", "origin", "gh:user/repo"]);
    assert_eq!(look(&app).identity, "github.com/user/repo");
}

#[test]
fn without_a_remote_it_is_the_path_and_worktrees_agree() {
    let place = Place::new();
    let app = place.repo("My App");
    let main = look(&app);
    assert_eq!((main.identity.as_str(), main.kind), (text(&app), Kind::Path));
    assert!(main.id.starts_with("my-app-"), "{}", main.id);

    place.git(&app, &["worktree", "add", "-q", "-b", "side", "../side tree"]);
    let side = look(place.path("side tree"));
    assert_eq!((&side.id, &side.identity), (&main.id, &main.identity));
    assert_eq!(side.root, place.path("side tree"));
    assert_eq!(side.branch.as_deref(), Some("side"));

    std::os::unix::fs::symlink(&app, place.path("link")).expect("link");
    assert_eq!(look(place.path("link")), main);
}

#[test]
fn no_commit_yet_and_a_detached_head() {
    let place = Place::new();
    let fresh = place.init("fresh");
    let repo = look(&fresh);
    assert_eq!((repo.head, repo.branch.as_deref()), (None, Some("main")));
    assert_eq!(repo.kind, Kind::Path);
    fs::write(fresh.join("HEAD"), "not a commit").expect("file");
    let repo = look(&fresh);
    assert_eq!((repo.head, repo.branch.as_deref()), (None, Some("main")));

    let app = place.repo("app");
    place.git(&app, &["checkout", "-q", "--detach"]);
    let repo = look(&app);
    assert!(repo.head.is_some());
    assert_eq!(repo.branch, None);
}

#[test]
fn a_bare_repository_and_its_worktrees() {
    let place = Place::new();
    place.repo("app");
    place.git("", &["clone", "-q", "--bare", "app", "store.git"]);
    let store = place.path("store.git");
    place.git(&store, &["remote", "remove", "origin"]);
    let bare = look(&store);
    assert_eq!((bare.identity.as_str(), bare.kind), (text(&store), Kind::Bare));
    assert_eq!(bare.root, store);
    assert!(bare.id.starts_with("store-"), "{}", bare.id);
    assert!(bare.head.is_some());

    place.git(&store, &["worktree", "add", "-q", "../tree"]);
    assert_eq!(look(place.path("tree")).id, bare.id);

    place.git(&store, &["remote", "add", "origin", "ssh://git@h/u/r"]);
    assert_eq!((look(&store).identity.as_str(), look(&store).kind), ("h/u/r", Kind::Remote));

    fs::create_dir(place.path("empty.git")).expect("directory");
    place.git("empty.git", &["init", "-q", "--bare"]);
    let empty = look(place.path("empty.git"));
    assert_eq!((empty.head, empty.branch.as_deref()), (None, Some("main")));
}

#[test]
fn a_clone_agrees_with_its_source() {
    let place = Place::new();
    let source = place.repo("the source");
    place.git("", &["clone", "-q", "the source", "one"]);
    place.git("", &["clone", "-q", &format!("file://{}", text(&place.path("one"))), "two"]);
    place.git("", &["clone", "-q", "--bare", "two", "three.git"]);
    // Without its suffix, and relative: both are allowed.
    place.git("", &["clone", "-q", "three.git", "four"]);
    place.git("four", &["remote", "set-url", "origin", "../three"]);
    let expected = look(&source);
    for clone in ["one", "two", "three.git", "four"] {
        let repo = look(place.path(clone));
        assert_eq!((repo.id, repo.identity), (expected.id.clone(), expected.identity.clone()));
        assert_eq!(repo.kind, Kind::Path, "{clone}");
    }
    place.git(&source, &["remote", "add", "origin", "git@h:u/r.git"]);
    for clone in ["one", "two", "three.git", "four"] {
        assert_eq!(look(place.path(clone)).identity, "h/u/r", "{clone}");
    }
}

#[test]
fn a_source_that_is_gone_leaves_its_path() {
    let place = Place::new();
    place.repo("outer");
    place.repo("outer/source");
    place.git("", &["clone", "-q", "outer/source", "clone"]);
    let before = look(place.path("clone"));
    assert_eq!(before.identity, text(&place.path("outer/source")));
    fs::remove_dir_all(place.path("outer/source")).expect("removed");
    assert_eq!(look(place.path("clone")).id, before.id);
    // A plain directory of that name in another repository is not that repository.
    fs::create_dir(place.path("outer/source")).expect("directory");
    assert_eq!(look(place.path("clone")).id, before.id);
}

#[test]
fn circles_and_long_chains_end() {
    let place = Place::new();
    for (name, remote) in
        [("b", "../a"), ("a", "../c"), ("c", "../b"), ("tail", "../b"), ("me", ".")]
    {
        place.repo(name);
        place.git(name, &["remote", "add", "origin", remote]);
    }
    for name in ["a", "b", "c", "tail"] {
        assert_eq!(look(place.path(name)).identity, text(&place.path("a")), "{name}");
    }
    assert_eq!(look(place.path("me")).identity, text(&place.path("me")));

    for number in 0..12 {
        place.init(format!("chain{number}"));
        let next = format!("../chain{}", number + 1);
        place.git(format!("chain{number}"), &["remote", "add", "origin", &next]);
    }
    assert_eq!(look(place.path("chain0")).identity, text(&place.path("chain8")));
}

#[test]
fn a_submodule_is_a_repository_of_its_own() {
    let place = Place::new();
    place.repo("library");
    let app = place.repo("app");
    let url = text(&place.path("library")).to_owned();
    place.git(&app, &["submodule", "--quiet", "add", &url, "lib"]);
    let inner = look(app.join("lib"));
    assert_eq!(inner.identity, url);
    assert_eq!(inner.root, app.join("lib"));
    place.git(app.join("lib"), &["remote", "remove", "origin"]);
    let inner = look(app.join("lib"));
    assert!(inner.identity.ends_with("/app/.git/modules/lib"), "{}", inner.identity);
    assert!(inner.id.starts_with("lib-"));
    assert_ne!(inner.id, look(&app).id);
}

#[test]
fn odd_names_work_and_are_told_apart() {
    let place = Place::new();
    let names: [&[u8]; 7] = [
        b"with space",
        b"quote'\"`$",
        b"line\nbreak",
        b"\n--segue-1-1\n",
        b"\xff\xfe",
        b"back\\xff",
        "tr\u{e4}\u{1f980}".as_bytes(),
    ];
    let mut ids = Vec::new();
    for name in names {
        let path = place.repo(OsStr::from_bytes(name));
        let repo = look(&path);
        assert_eq!(repo.root, path);
        assert_eq!(repo.identity, path_identity(&path));
        assert!(!repo.identity.contains('\n'));
        assert!(repo.head.is_some() && repo.branch.is_some(), "{repo:?}");
        let safe = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        assert!(repo.id.chars().all(safe) && repo.id.len() < 80, "{}", repo.id);
        ids.push(repo.id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), names.len());
    assert_eq!(escape(b"a\\b\n\xff\xc3\xa4"), "a\\\\b\\x0a\\xff\u{e4}");
}

#[test]
fn without_a_repository_or_without_git_it_is_the_directory() {
    let place = Place::new();
    fs::create_dir(place.path("plain")).expect("directory");
    let plain = look(place.path("plain"));
    assert_eq!((plain.kind, plain.note.as_deref()), (Kind::NoGit, None));
    assert_eq!(
        (&plain.root, plain.identity.as_str()),
        (&place.path("plain"), text(&place.path("plain")))
    );
    // Becoming a repository does not change who it is.
    place.init("plain");
    assert_eq!(look(place.path("plain")).id, plain.id);

    let app = place.repo("app");
    fs::create_dir(app.join("sub")).expect("directory");
    let none = Git { program: "/no/such/git".into(), env: Vec::new() };
    let repo = none.identify(&app.join("sub")).expect("identified");
    assert_eq!((repo.id, repo.kind), (look(&app).id, Kind::Path));
    assert_eq!(repo.note.as_deref(), Some("git is not installed"));

    assert!(matches!(identify(&place.path("none")), Err(RepoError::Unreadable { .. })));
    fs::write(place.path("file"), "").expect("file");
    assert!(matches!(identify(&place.path("file")), Err(RepoError::NotADirectory(_))));
}

#[test]
fn a_repository_of_somebody_else_is_known_by_its_path() {
    let place = Place::new();
    let app = place.repo("app");
    place.git(&app, &["remote", "add", "origin", "git@h:u/r"]);
    fs::create_dir(app.join("sub")).expect("directory");
    // Only root can give a directory away; git has a switch for its own tests.
    let _ = chown(&app, Some(65_534), None);
    let mut git = quiet();
    git.env.push(("GIT_TEST_ASSUME_DIFFERENT_OWNER".into(), "1".into()));
    let repo = git.identify(&app.join("sub")).expect("identified");
    assert_eq!((repo.kind, repo.identity.as_str()), (Kind::Path, text(&app)));
    assert!(repo.note.expect("note").contains("another user"));
}

#[test]
fn a_broken_repository_is_known_by_its_path() {
    let place = Place::new();
    let app = place.repo("app");
    fs::write(app.join(".git/config"), "[broken").expect("file");
    let repo = look(&app);
    assert_eq!((repo.kind, repo.root), (Kind::Path, app));
    assert!(repo.note.is_some());

    fs::create_dir(place.path("lost")).expect("directory");
    fs::write(place.path("lost/.git"), "gitdir: /no/such/place").expect("file");
    let repo = look(place.path("lost"));
    assert_eq!((repo.kind, repo.root), (Kind::Path, place.path("lost")));
    assert!(repo.note.is_some());
}

#[test]
fn the_environment_does_not_lead_elsewhere() {
    let place = Place::new();
    let app = place.repo("app");
    let other = place.repo("other");
    let mut command = quiet().command(&app, None);
    command.args(["rev-parse", "--show-toplevel"]);
    for name in FOREIGN_VARS {
        let removed = command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(removed, "{name}");
    }
    assert_ne!(look(&app).id, look(&other).id);
}
