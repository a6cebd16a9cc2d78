//! The blocks that an answer ends with.
//!
//! An agent may be asked for more than one thing at the end of its answer: a verdict, and how it
//! leaves the work. Then there are several blocks of ours, one right after the other, and each is
//! found by whoever looks for it. Of two of a kind the last counts; behind anything else that is no
//! block of ours, nothing does.

use crate::{case, report, verdict};

const FENCE: &str = "```";

/// In which languages a verdict and a case are looked for: many models write plain JSON.
pub(crate) const ANY_JSON: [&str; 3] = ["segue", "json", ""];

/// What the last block of this kind says.
pub(crate) fn closing<T>(
    mut text: &str,
    languages: &[&str],
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    loop {
        let block = last_block(text)?;
        if languages.contains(&block.language)
            && let Some(said) = read(block.body)
        {
            return Some(said);
        }
        text = block.is_ours().then_some(block.before)?;
    }
}

/// An agent's text without the blocks of ours at its end.
#[must_use]
pub fn without_blocks(mut text: &str) -> &str {
    while let Some(block) = last_block(text).filter(Block::is_ours) {
        text = block.before;
    }
    text
}

struct Block<'a> {
    before: &'a str,
    language: &'a str,
    body: &'a str,
}

impl Block<'_> {
    /// Whether it is whole: what can't be read is in nobody's way but its own.
    fn is_ours(&self) -> bool {
        let any = ANY_JSON.contains(&self.language);
        self.language == "segue" && report::is_report(self.body)
            || any && verdict::from_block(self.body).is_some()
            || any && case::from_block(self.body).is_some()
    }
}

/// The block that a text ends with.
fn last_block(text: &str) -> Option<Block<'_>> {
    let (text, end) = text.trim_end().rsplit_once('\n')?;
    if end.trim() != FENCE {
        return None;
    }
    // The nearest fence before it, or else the two are not a block.
    let mut at = text.len();
    for line in text.split_inclusive('\n').rev() {
        let body = &text[at..];
        at -= line.len();
        if line.trim_start().starts_with(FENCE) {
            let language = line.trim().trim_start_matches('`');
            return Some(Block { before: &text[..at], language, body });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use segue_core::event::Verdict;

    use super::*;

    const VERDICT: &str = "```segue\n{\"verdict\":\"pass\"}\n```";
    const LEFT: &str = "```segue\n{\"next_task\":\"the docs\"}\n```";

    #[test]
    fn each_of_several_blocks_is_found_by_whoever_looks_for_it() {
        for text in [format!("Fine.\n{VERDICT}\n\n{LEFT}\n"), format!("Fine.\n{LEFT}\n{VERDICT}")] {
            let verdict = verdict::closing_block(&text).map(|said| said.verdict);
            assert_eq!(verdict, Some(Verdict::Pass), "{text}");
            let left = report::closing_block(&text).and_then(|left| left.next_task);
            assert_eq!(left.as_deref(), Some("the docs"), "{text}");
            assert_eq!(without_blocks(&text), "Fine.\n");
        }
    }

    #[test]
    fn nothing_is_found_behind_what_is_none() {
        let broken = "```segue\n{\"verdict\":\"maybe\"}\n```";
        let both = "```segue\n{\"verdict\":\"maybe\",\"next_task\":\"the docs\"}\n```";
        for end in [broken, both, "```json\n{}\n```", "```rust\nlet x = 1;\n```", "No, wait."] {
            let text = format!("Fine.\n{VERDICT}\n{end}");
            assert!(verdict::closing_block(&text).is_none(), "{text}");
            assert_eq!(without_blocks(&text), text);
        }
        assert_eq!(without_blocks("``` \n```"), "``` \n```");
    }
}
