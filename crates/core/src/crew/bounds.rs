//! Where an agent may write: paths and globs below the directory that it works in.

use std::slice;

use globset::{Error, Glob, GlobSet, GlobSetBuilder};

use crate::wrong::repeated;

/// What is wrong with one word of `write`.
pub(super) fn check(word: &String) -> Result<(), String> {
    let wrong =
        |error: Error| format!("`write`: `{}` is no glob: {}", repeated(word), error.kind());
    globs(slice::from_ref(word)).map(drop).map_err(wrong)
}

/// What some words of `write` let in. A path means all that is below it, and `.` everything.
pub fn globs(words: &[String]) -> Result<GlobSet, Error> {
    let mut set = GlobSetBuilder::new();
    for word in words {
        let parts: Vec<&str> = word.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let word = parts.join("/");
        match word.as_str() {
            "" => drop(set.add(Glob::new("**")?)),
            _ => drop(set.add(Glob::new(&word)?).add(Glob::new(&format!("{word}/**"))?)),
        }
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_all_below_it_and_a_glob_what_it_says() {
        let is_in = |words: &[&str], path: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            globs(&words).unwrap().is_match(path)
        };
        for (path, inside) in [
            ("src/a/b.rs", true),
            ("src", true),
            ("srcs/a.rs", false),
            ("docs/a.md", true),
            ("docs/a.txt", false),
        ] {
            assert_eq!(is_in(&["./src/", "docs/*.md"], path), inside, "{path}");
        }
        for everything in [".", "./", "**"] {
            assert!(is_in(&[everything], "src/a.rs") && is_in(&[everything], "a"), "{everything}");
        }
        assert!(!is_in(&[], "src"));
        assert!(globs(&["src/{a".to_owned()]).is_err());
    }
}
