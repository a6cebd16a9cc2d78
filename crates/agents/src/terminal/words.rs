//! Any other program at a terminal, by words that its user knows it by.

use super::{Screen, Sight, screen::bare};

/// How far up from the last line the words count: further up is what was said.
const LINES: usize = 15;

/// Words on the screen of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// It would take a prompt.
    pub ready: Option<String>,
    pub busy: Option<String>,
    /// It waits for a person.
    pub waiting: Option<String>,
}

impl Words {
    /// A question comes before work, and work before readiness. A question is answered where the
    /// program has shown below it that it is ready. Without any word that says when it is ready, it
    /// is as soon as it shows something.
    #[must_use]
    pub fn sight(&self, screen: &Screen<'_>) -> Sight {
        let tail = screen.tail(LINES);
        let ready = lowest(&tail, self.ready.as_deref());
        if let Some(asked) = lowest(&tail, self.waiting.as_deref())
            && ready.is_none_or(|ready| ready <= asked)
        {
            return Sight::waiting(bare(tail[asked]));
        }
        if lowest(&tail, self.busy.as_deref()).is_some() {
            return Sight::Busy;
        }
        match ready {
            Some(_) => Sight::Idle,
            None if tail.is_empty() => Sight::Starting,
            // It shows something, and not what it shows when it is ready.
            None if self.ready.as_deref().is_some_and(is_a_word) => Sight::Busy,
            None => Sight::Idle,
        }
    }
}

fn is_a_word(word: &str) -> bool {
    !word.trim().is_empty()
}

/// The last line that shows a word. Blanks at the end of a line are on no screen.
fn lowest(tail: &[&str], word: Option<&str>) -> Option<usize> {
    let word = word.filter(|word| is_a_word(word))?;
    tail.iter().rposition(|line| line.contains(word) || line.ends_with(word.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(text: &str) -> Sight {
        let word = |word: &str| Some(word.to_owned());
        let words = Words { ready: word("> "), busy: word("Working"), waiting: word("(y/n)") };
        words.sight(&Screen { text, title: "" })
    }

    #[test]
    fn blanks_at_the_end_of_a_word_are_on_no_screen() {
        assert_eq!(sight("Welcome.\n>"), Sight::Idle);
        assert_eq!(sight("a > b\nWelcome to >here"), Sight::Idle);
        assert_eq!(sight("Welcome to >here"), Sight::Busy);
        assert_eq!(sight("  \n"), Sight::Starting);
    }

    #[test]
    fn a_question_is_answered_when_it_is_ready_again() {
        let asked = Sight::waiting("Allow it? (y/n)");
        assert_eq!(sight("> mend it\nAllow it? (y/n)"), asked);
        assert_eq!(sight("Allow it? (y/n)\nhm"), asked);
        assert_eq!(sight("Allow it? (y/n) y\ndone\n>"), Sight::Idle);
        assert_eq!(sight("Allow it? (y/n) y\nWorking\n>"), Sight::Busy);
    }
}
