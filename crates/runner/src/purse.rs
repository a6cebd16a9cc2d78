//! What several who work side by side spend together.
//!
//! Each has a session of its own, and a cap that is the same for all of them: what one spends is no
//! longer there for the others.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use segue_core::{State, caps::Caps, usage::Micros};

/// One's own share, and what all of them have spent.
#[derive(Clone, Debug, Default)]
pub struct Purse {
    all: Arc<Sums>,
    mine: Arc<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    tokens: AtomicU64,
    micros: AtomicU64,
}

impl Sums {
    fn add(&self, (tokens, micros): (u64, u64)) {
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, u64) {
        (self.tokens.load(Ordering::Relaxed), self.micros.load(Ordering::Relaxed))
    }
}

impl Purse {
    /// The same purse in the hands of another one.
    #[must_use]
    pub fn shared(&self) -> Self {
        Self { all: Arc::clone(&self.all), mine: Arc::default() }
    }

    /// How much a session has spent.
    pub(crate) fn spent(state: &State) -> (u64, u64) {
        (state.usage.total(), state.cost.0)
    }

    /// Takes out what was spent between two looks at one's own session.
    pub(crate) fn pay(&self, before: (u64, u64), after: (u64, u64)) {
        let since = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        // In this order: nobody ever sees more of their own than of all.
        self.all.add(since);
        self.mine.add(since);
    }

    /// What the others have left of one's own caps.
    pub(crate) fn left_of(&self, caps: Caps) -> Caps {
        let (mine, all) = (self.mine.get(), self.all.get());
        let others = (all.0.saturating_sub(mine.0), all.1.saturating_sub(mine.1));
        let less = |cap: Option<u64>, spent: u64| cap.map(|cap| cap.saturating_sub(spent));
        Caps {
            tokens: less(caps.tokens, others.0),
            cost_micros: less(caps.cost_micros.map(|cap| cap.0), others.1).map(Micros),
            ..caps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_spends_is_gone_for_the_others_and_counts_once_for_oneself() {
        let purse = Purse::default();
        let (one, other) = (purse.shared(), purse.shared());
        let caps = Caps { tokens: Some(100), cost_micros: Some(Micros(50)), ..Caps::default() };
        one.pay((0, 0), (30, 20));
        assert_eq!(one.left_of(caps), caps, "its own is in its own session");
        let left = other.left_of(caps);
        assert_eq!((left.tokens, left.cost_micros), (Some(70), Some(Micros(30))));
        // The same one in its next run.
        one.clone().pay((30, 20), (130, 10));
        assert_eq!(other.left_of(caps).tokens, Some(0));
        assert_eq!(other.left_of(caps).cost_micros, Some(Micros(30)));
        assert_eq!(one.left_of(caps), caps);
        assert_eq!(other.left_of(Caps::default()), Caps::default());
    }
}
