//! What a model call cost, in tokens and in money.
//!
//! Vendors count differently: some include cached tokens in the input, some do not. Here the four
//! input and output buckets never overlap, so totals are plain sums whatever the vendor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls. The buckets do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the vendor's prompt cache.
    pub input: u64,
    /// Output tokens without the reasoning ones.
    pub output: u64,
    /// Input tokens that the vendor read from its prompt cache.
    pub cache_read: u64,
    /// Input tokens that the vendor wrote to its prompt cache.
    pub cache_write: u64,
    /// Output tokens spent on reasoning, where the vendor tells them apart.
    pub reasoning: u64,
}

impl Usage {
    /// All tokens together: what a token cap counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.reasoning)
    }
}

impl Usage {
    /// What this count has beyond an earlier one, bucket by bucket.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            reasoning: self.reasoning.saturating_sub(before.reasoning),
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// Dollars per million tokens of one model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    #[serde(default)]
    pub cache_read: f64,
    #[serde(default)]
    pub cache_write: f64,
}

/// Money in millionths of a US dollar, so that sums are exact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// A sum in dollars, for reading and printing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sums of money stay far below 2^52 micros")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Rounds to the nearest millionth; negative amounts and NaN become zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and the sign is cut off before it"
    )]
    pub fn from_dollars(dollars: f64) -> Self {
        Self((dollars.max(0.0) * 1e6).round() as u64)
    }
}

impl std::ops::AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Price {
    /// What `usage` costs at this price. Reasoning tokens are billed as output.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    pub fn cost(&self, usage: &Usage) -> Micros {
        let micros = usage.input as f64 * self.input
            + (usage.output + usage.reasoning) as f64 * self.output
            + usage.cache_read as f64 * self.cache_read
            + usage.cache_write as f64 * self.cache_write;
        Micros::from_dollars(micros / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_summed_and_priced_apart() {
        let mut usage =
            Usage { input: 1000, output: 100, cache_read: 5000, cache_write: 0, reasoning: 50 };
        usage += Usage { input: 1, ..Usage::default() };
        assert_eq!(usage.total(), 6151);
        let price = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        // 1001*3 + 150*15 + 5000*0.3 = 3003 + 2250 + 1500
        assert_eq!(price.cost(&usage), Micros(6753));
    }

    #[test]
    fn strange_amounts_do_not_wrap() {
        assert_eq!(Micros::from_dollars(-1.0), Micros(0));
        assert_eq!(Micros::from_dollars(f64::NAN), Micros(0));
        let mut most = Micros(u64::MAX);
        most += Micros(1);
        assert_eq!(most, Micros(u64::MAX));
    }
}
