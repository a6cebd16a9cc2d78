//! Which names a bundle may hold. One list for both sides, so that nothing is exported that an
//! import refuses.

use segue_journal::{
    base::BASE,
    session::{IDENTITY, JOURNAL, MEMBERS, REVIEWERS},
};

/// What one component of a path may have, everywhere.
const MAX_COMPONENT: usize = 255;
const MAX_PATH: usize = 2048;
const MAX_DEPTH: usize = 24;

pub(crate) const RESUME: &str = "resume.json";
pub(crate) const GIT: &str = "git.bundle";

/// A name that stays in the directory that it is in, on every system.
pub(crate) fn is_plain(name: &str) -> bool {
    let odd = |c: char| matches!(c, '/' | '\\') || c.is_control();
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= MAX_COMPONENT
        && !name.contains(odd)
}

/// A path of plain names.
pub(crate) fn is_plain_path(path: &str) -> bool {
    path.len() <= MAX_PATH && path.split('/').count() <= MAX_DEPTH && path.split('/').all(is_plain)
}

/// The directory of a repository under `sessions/`. A dot first would hide it from every list.
pub(crate) fn is_repo_id(name: &str) -> bool {
    is_plain(name) && !name.starts_with('.')
}

/// Whether a file of this name belongs to a session.
pub(crate) fn is_session_file(path: &str) -> bool {
    if !is_plain_path(path) {
        return false;
    }
    match path.split_once('/') {
        None => [IDENTITY, JOURNAL, RESUME].contains(&path) || is_torn(path),
        Some(("blobs", rest)) => rest.split_once('/').is_some_and(|(a, b)| is_blob(a, b)),
        // A dot first is a file that is just being written.
        Some(("streams", rest)) => !rest.split('/').any(|name| name.starts_with('.')),
        // What was said to somebody and is not in the journal yet.
        Some(("inbox", rest)) => {
            rest.strip_suffix(".json").is_some_and(|id| is_plain(id) && !id.starts_with('.'))
        }
        // A session of its own, which has no others within it.
        Some((REVIEWERS | MEMBERS, rest)) => rest.split_once('/').is_some_and(|(name, rest)| {
            let within = [REVIEWERS, MEMBERS].iter().any(|dir| rest.starts_with(dir));
            !name.starts_with('.') && !within && is_session_file(rest)
        }),
        // What it begins with, of another session.
        Some((BASE, rest)) => match rest.split_once('/') {
            None => [IDENTITY, JOURNAL].contains(&rest),
            Some(("blobs" | BASE, _)) => is_session_file(rest),
            Some(_) => false,
        },
        Some(_) => false,
    }
}

/// Whether an entry of this name may be in a bundle, beside `bundle.json`.
pub(crate) fn is_allowed(path: &str) -> bool {
    is_session_file(path) || is_git(path) || (is_plain_path(path) && is_vendor(path))
}

/// `journal.torn-42`, `journal.torn-42.1`.
pub(crate) fn is_torn(name: &str) -> bool {
    name.strip_prefix("journal.torn-")
        .is_some_and(|rest| rest.split('.').count() <= 2 && rest.split('.').all(is_number))
}

pub(crate) fn is_blob(dir: &str, name: &str) -> bool {
    dir.len() == 2 && is_hex(dir) && name.len() == 62 && is_hex(name)
}

pub(crate) fn is_git(path: &str) -> bool {
    let numbered = |rest: &str| rest.strip_suffix(".bundle").is_some_and(is_number);
    path == GIT || path.strip_prefix("git/").is_some_and(numbered)
}

fn is_vendor(path: &str) -> bool {
    path.starts_with("vendors/") && path.split('/').count() >= 4
}

pub(crate) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_into_a_bundle() {
        let blob = format!("blobs/ab/{}", "c".repeat(62));
        for good in [
            "session.json",
            "journal.jsonl",
            "resume.json",
            "journal.torn-4",
            "journal.torn-4.1",
            &blob,
            "streams/0001-native.jsonl",
            "streams/a/b",
            "inbox/1794814072057-bf8da59e96a6d28e.json",
            "reviewers/claude/journal.jsonl",
            "reviewers/codex-2/streams/0001-codex.jsonl",
            "git.bundle",
            "git/1.bundle",
            "vendors/claude/id/projects/x y/z.jsonl",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "/session.json",
            "../session.json",
            "lock",
            "state.json",
            "steps.idx",
            "inbox/1",
            "journal.torn-",
            "journal.torn-x",
            "journal.torn-1.2.3",
            "blobs/ab",
            "blobs/ab/cd",
            "streams",
            "streams/",
            "streams/../x",
            "streams/.x.tmp",
            "streams//x",
            "streams/a\\b",
            "streams/a\0b",
            "git/x.bundle",
            "git/1.bundle/x",
            "vendors/claude/id",
            "vendors/claude/../../x",
            "bundle.json",
            "journal.damaged-4",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
