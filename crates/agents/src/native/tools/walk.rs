//! Walks the workspace the way a developer sees it: without what git ignores, without hidden
//! files unless they are asked for, links not followed, in one fixed order.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;

use super::path::Root;

/// What to see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) hidden: bool,
    pub(super) git: bool,
}

impl Sight {
    /// What a pattern or path names, it wants to see.
    pub(super) fn of(texts: &[&str]) -> Self {
        let parts = || texts.iter().flat_map(|text| text.split(['/', '{', ',', '[']));
        Self {
            hidden: parts().any(|part| part.starts_with('.') && !part.trim_matches('.').is_empty()),
            git: parts().any(|part| part.trim_end_matches('}') == ".git"),
        }
    }
}

/// All files below `base` (relative to the root), as paths relative to the root.
pub(super) fn files(root: &Root, base: &Path, sight: Sight) -> impl Iterator<Item = PathBuf> {
    let top = root.path().to_owned();
    let walk = WalkBuilder::new(root.path().join(base))
        .hidden(!sight.hidden)
        .require_git(false)
        // What one person's machine ignores must not change what an agent finds.
        .git_global(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| sight.git || entry.depth() == 0 || entry.file_name() != ".git")
        .build();
    walk.filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()))
        .filter_map(move |entry| entry.path().strip_prefix(&top).ok().map(Path::to_owned))
}

/// `*` stays within one directory; `**` does not.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.split('/').any(|part| part == "..") {
        return Err(format!("{pattern}: a pattern cannot go up with .."));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("the pattern cannot be read: {error}"))
}
