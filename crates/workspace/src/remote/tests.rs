use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::*;
use crate::testing::{Lab, git, write};

/// A repository with a bare one as its `origin`.
fn with_origin() -> (Lab, PathBuf) {
    let lab = Lab::new();
    let bare = lab.dir.path().join("bare.git");
    git(lab.dir.path(), &["init", "-q", "--bare", "-b", "main", "bare.git"]);
    lab.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    (lab, bare)
}

fn hook(path: &Path, text: &str) {
    write(path, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_branch_is_pushed_under_its_name_and_found_there() {
    let (lab, bare) = with_origin();
    lab.git(&["checkout", "-q", "-b", "segue/3-x"]);
    assert_eq!(remotes(&lab.top).unwrap(), ["origin"]);
    assert_eq!(url(&lab.top, "origin").unwrap(), bare.to_str().unwrap());
    assert_eq!(has(&lab.top, "origin", "segue/3-x").unwrap(), None);
    // Not taken for the one that is asked for.
    git(&bare, &["update-ref", "refs/odd/refs/heads/segue/3-x", &push_object(&lab)]);
    assert_eq!(has(&lab.top, "origin", "segue/3-x").unwrap(), None);
    push(&lab.top, "origin", "segue/3-x").unwrap();
    let head = lab.git(&["rev-parse", "HEAD"]);
    assert_eq!(has(&lab.top, "origin", "segue/3-x").unwrap(), Some(head.clone()));
    assert_eq!(git(&bare, &["rev-parse", "refs/heads/segue/3-x"]), head);
    assert_eq!(lab.git(&["rev-parse", "--abbrev-ref", "@{upstream}"]), "origin/segue/3-x");
    push(&lab.top, "origin", "segue/3-x").unwrap();
    // As far as one commit, and no further.
    for _ in 0..2 {
        lab.git(&["commit", "-q", "--allow-empty", "-m", "more"]);
    }
    let before = lab.git(&["rev-parse", "HEAD^"]);
    push_up_to(&lab.top, "origin", "segue/3-x", &before).unwrap();
    assert_eq!(has(&lab.top, "origin", "segue/3-x").unwrap(), Some(before));
}

fn push_object(lab: &Lab) -> String {
    lab.git(&["push", "-q", "origin", "HEAD:refs/heads/other"]);
    lab.git(&["rev-parse", "HEAD"])
}

#[test]
fn what_went_wrong_is_told_apart_and_nothing_is_forced() {
    let (lab, bare) = with_origin();
    let missing = push(&lab.top, "upstream", "main");
    assert_eq!(missing.unwrap_err().to_string(), "there is no remote upstream, only origin");
    for odd in ["--force", bare.to_str().unwrap(), "", "."] {
        let refused = push(&lab.top, odd, "main");
        assert!(matches!(refused, Err(RemoteError::NoRemote { .. })), "{odd}");
        assert!(matches!(has(&lab.top, odd, "main"), Err(RemoteError::NoRemote { .. })));
    }
    push(&lab.top, "origin", "main").unwrap();
    let there = git(&bare, &["rev-parse", "main"]);

    lab.git(&["commit", "-q", "--amend", "-m", "another first"]);
    match push(&lab.top, "origin", "main") {
        Err(RemoteError::Behind { message, .. }) => {
            assert!(message.contains("non-fast-forward"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(git(&bare, &["rev-parse", "main"]), there);

    hook(&bare.join("hooks/pre-receive"), "echo 'not on a Friday' >&2; exit 1");
    lab.git(&["branch", "other"]);
    match push(&lab.top, "origin", "other") {
        Err(RemoteError::Refused { message, .. }) => {
            assert!(message.contains("not on a Friday"), "{message}");
            assert!(message.contains("pre-receive hook declined"), "{message}");
        }
        other => panic!("{other:?}"),
    }

    hook(&lab.path(".git/hooks/pre-push"), "echo 'tests fail' >&2; exit 1");
    match push(&lab.top, "origin", "other") {
        Err(RemoteError::Failed { message, .. }) => {
            assert!(message.contains("tests fail"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    std::fs::remove_dir_all(&bare).unwrap();
    assert!(matches!(has(&lab.top, "origin", "other"), Err(RemoteError::Failed { .. })));
    assert!(matches!(push(&lab.top, "origin", "none"), Err(RemoteError::Failed { .. })));
    assert!(remotes(&bare).is_err());
}

#[test]
fn the_default_branch_is_the_remotes_head_or_a_usual_name() {
    let (lab, _) = with_origin();
    assert_eq!(default_branch(&lab.top, "origin"), None);
    let head = lab.git(&["rev-parse", "HEAD"]);
    let point =
        |name: &str| lab.git(&["update-ref", &format!("refs/remotes/origin/{name}"), &head]);
    point("master");
    assert_eq!(default_branch(&lab.top, "origin").unwrap(), "master");
    point("main");
    assert_eq!(default_branch(&lab.top, "origin").unwrap(), "main");
    lab.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/dev/next"]);
    assert_eq!(default_branch(&lab.top, "origin").unwrap(), "main");
    point("dev/next");
    assert_eq!(default_branch(&lab.top, "origin").unwrap(), "dev/next");
    assert_eq!(default_branch(&lab.top, "none"), None);
    assert_eq!(default_branch(&lab.path("gone"), "origin"), None);
}

#[test]
fn no_message_has_credentials() {
    for (text, clean) in [
        ("to 'https://u:p@h/x' and ssh://git@h/y", "to 'https://h/x' and ssh://h/y"),
        ("https://u:p/a@ss@h/x: no", "https://h/x: no"),
        ("https://h/x\nhttps://t@h", "https://h/x\nhttps://h"),
        ("ü://ü@ü", "ü://ü"),
        ("plain a@b", "plain a@b"),
        ("://", "://"),
    ] {
        assert_eq!(without_credentials(text), clean);
    }
    let lab = Lab::new();
    lab.git(&["remote", "add", "origin", "https://user:s3cret@localhost:1/u/r"]);
    for error in [
        push(&lab.top, "origin", "main").unwrap_err(),
        has(&lab.top, "origin", "main").unwrap_err(),
        push(&lab.top, "https://user:s3cret@localhost:1/u/r", "main").unwrap_err(),
    ] {
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}

#[test]
fn each_host_has_its_page() {
    let gitlab = "-/merge_requests/new?merge_request%5Bsource_branch%5D=segue%2F3-x\
                  &merge_request%5Btarget_branch%5D=main";
    let github = "compare/main...segue%2F3-x?expand=1";
    for (url, top, page) in [
        ("git@github.com:u/r.git", "https://github.com/u/r", github),
        ("ssh://git@ssh.github.com:443/u/r", "https://github.com/u/r", github),
        ("https://t0ken@github.com/u/r.git", "https://github.com/u/r", github),
        ("http://github.com/u/r", "https://github.com/u/r", github),
        ("https://github.corp.example:8443/u/r", "https://github.corp.example:8443/u/r", github),
        ("ssh://git@git.example.org:2222/u/r", "https://git.example.org/u/r", github),
        ("git@gitlab.com:g/s/r.git", "https://gitlab.com/g/s/r", gitlab),
        ("https://oauth2:t0ken@gitlab.example/g/r", "https://gitlab.example/g/r", gitlab),
        (
            "git@bitbucket.org:u/r.git",
            "https://bitbucket.org/u/r",
            "pull-requests/new?source=segue%2F3-x&dest=main",
        ),
        ("git@codeberg.org:u/r.git", "https://codeberg.org/u/r", "compare/main...segue%2F3-x"),
        ("http://gitea:3000/u/r", "http://gitea:3000/u/r", "compare/main...segue%2F3-x"),
        (
            "https://forgejo.example/u/r",
            "https://forgejo.example/u/r",
            "compare/main...segue%2F3-x",
        ),
    ] {
        assert_eq!(compare_url(url, "main", "segue/3-x").unwrap(), format!("{top}/{page}"));
    }
    let odd = compare_url("git@github.com:u/r", "a b", "ü?&#%").unwrap();
    assert_eq!(odd, "https://github.com/u/r/compare/a%20b...%C3%BC%3F%26%23%25?expand=1");
}

#[test]
fn an_odd_url_has_no_page_rather_than_a_secret_in_it() {
    for url in [
        "",
        "/srv/git/r.git",
        "file:///srv/github.com/u/r",
        "https://example.org/u/r",
        "github-work:u/r",
        "https://github.com/r",
        "https://github.com/u/r/tree/s3cret",
        "https://git:123/s3cret@github.com/r",
        "git:s3cret@github.com:u/r",
        "https:/u:s3cret@github.com/u/r",
        "ssh://git@github.com/u/r?token=s3cret",
        "ssh://git@github.com/u/r#s3cret",
        "https://github.com/u/..",
        "https://github.com/u/r%2f..%2fs3cret",
        "https://github.com/u/%0d%0as3cret",
        "https://github.com/u/<s3cret>",
        "https://github.com:s3cret/u/r",
        "https://git\u{202e}hub.com/u/r",
        "https://[::1]/git/r",
        "github::s3cret",
        "ext::sh -c 's3cret git.example/u/r'",
    ] {
        let page = compare_url(url, "main", "x");
        assert_eq!(page, None, "{url}");
        // A company's own GitHub may have any name.
        let own = url == "https://example.org/u/r";
        assert_eq!(gh_repo(url), own.then(|| "example.org/u/r".to_owned()), "{url}");
    }
    for url in [
        "https://u:s3cret@github.com/u/r?x=s3cret#s3cret",
        "https://u:s/3:c@s3cret@github.com/u/r",
        "s3cret@github.com:u/r",
        "gcrypt::https://s3cret@github.com/u/r",
    ] {
        let page = compare_url(url, "main", "x").unwrap();
        assert_eq!(page, "https://github.com/u/r/compare/main...x?expand=1", "{url}");
        assert_eq!(gh_repo(url).as_deref(), Some("github.com/u/r"), "{url}");
    }
    assert_eq!(compare_url("git@github.com:u/r", "", "x"), None);
    for url in ["git@gitlab.com:g/r.git", "git@bitbucket.org:u/r.git", "git@codeberg.org:u/r"] {
        assert_eq!(gh_repo(url), None, "{url}");
    }
}
