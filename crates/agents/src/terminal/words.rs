//! Any other program at a terminal, by words that its user knows it by.

use super::{
    Screen, Sight,
    screen::{any, bare},
};

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
    /// A question comes before work, and work before readiness. Without any word that says when it
    /// is ready, it is as soon as it shows something.
    #[must_use]
    pub fn sight(&self, screen: &Screen<'_>) -> Sight {
        let tail = screen.tail(LINES);
        let word = |word: &Option<String>| {
            word.as_deref().filter(|word| !word.is_empty()).map(str::to_owned)
        };
        if let Some(waiting) = word(&self.waiting)
            && let Some(line) = tail.iter().rev().find(|line| line.contains(&waiting))
        {
            return Sight::waiting(bare(line));
        }
        if word(&self.busy).is_some_and(|busy| any(&tail, &[&busy])) {
            return Sight::Busy;
        }
        match word(&self.ready) {
            Some(ready) if any(&tail, &[&ready]) => Sight::Idle,
            _ if tail.is_empty() => Sight::Starting,
            // It shows something, and not what it shows when it is ready.
            Some(_) => Sight::Busy,
            None => Sight::Idle,
        }
    }
}
