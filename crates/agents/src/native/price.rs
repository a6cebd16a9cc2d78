//! What well-known models cost and hold.
//!
//! A name matches an entry when it is the entry, or the entry with a date or `-latest` after it.
//! A model that is not listed has no price: an unknown cost is better than a wrong one.

use segue_core::usage::Price;

struct Entry {
    name: &'static str,
    /// Dollars per million tokens: input, output, read from the cache.
    price: (f64, f64, f64),
    context: u64,
    max_output: u32,
}

const fn entry(name: &'static str, price: (f64, f64, f64), context: u64, max_output: u32) -> Entry {
    Entry { name, price, context, max_output }
}

const TABLE: &[Entry] = &[
    entry("claude-opus-4-7", (5.0, 25.0, 0.5), 1_000_000, 32_000),
    entry("claude-opus-4-6", (5.0, 25.0, 0.5), 1_000_000, 32_000),
    entry("claude-opus-4-5", (5.0, 25.0, 0.5), 200_000, 32_000),
    entry("claude-opus-4-1", (15.0, 75.0, 1.5), 200_000, 32_000),
    entry("claude-opus-4", (15.0, 75.0, 1.5), 200_000, 32_000),
    entry("claude-sonnet-4-6", (3.0, 15.0, 0.3), 1_000_000, 32_000),
    entry("claude-sonnet-4-5", (3.0, 15.0, 0.3), 200_000, 32_000),
    entry("claude-sonnet-4", (3.0, 15.0, 0.3), 200_000, 32_000),
    entry("claude-haiku-4-5", (1.0, 5.0, 0.1), 200_000, 32_000),
    entry("claude-3-7-sonnet", (3.0, 15.0, 0.3), 200_000, 32_000),
    entry("claude-3-5-sonnet", (3.0, 15.0, 0.3), 200_000, 8192),
    entry("claude-3-5-haiku", (0.8, 4.0, 0.08), 200_000, 8192),
    entry("gpt-5.2", (1.75, 14.0, 0.175), 400_000, 128_000),
    entry("gpt-5.2-codex", (1.75, 14.0, 0.175), 400_000, 128_000),
    entry("gpt-5.1", (1.25, 10.0, 0.125), 400_000, 128_000),
    entry("gpt-5.1-codex", (1.25, 10.0, 0.125), 400_000, 128_000),
    entry("gpt-5.1-codex-max", (1.25, 10.0, 0.125), 400_000, 128_000),
    entry("gpt-5.1-codex-mini", (0.25, 2.0, 0.025), 400_000, 128_000),
    entry("gpt-5", (1.25, 10.0, 0.125), 400_000, 128_000),
    entry("gpt-5-codex", (1.25, 10.0, 0.125), 400_000, 128_000),
    entry("gpt-5-mini", (0.25, 2.0, 0.025), 400_000, 128_000),
    entry("gpt-5-nano", (0.05, 0.4, 0.005), 400_000, 128_000),
    entry("gpt-4.1", (2.0, 8.0, 0.5), 1_047_576, 32_768),
    entry("gpt-4.1-mini", (0.4, 1.6, 0.1), 1_047_576, 32_768),
    entry("gpt-4.1-nano", (0.1, 0.4, 0.025), 1_047_576, 32_768),
    entry("gpt-4o", (2.5, 10.0, 1.25), 128_000, 16_384),
    entry("gpt-4o-mini", (0.15, 0.6, 0.075), 128_000, 16_384),
    entry("o3", (2.0, 8.0, 0.5), 200_000, 100_000),
    entry("o4-mini", (1.1, 4.4, 0.275), 200_000, 100_000),
];

fn find(model: &str) -> Option<&'static Entry> {
    let model = model.rsplit('/').next().unwrap_or(model);
    TABLE.iter().find(|entry| {
        let rest = model.strip_prefix(entry.name);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest == "-latest" || rest.starts_with("-20") || rest.starts_with('@')
        })
    })
}

/// What the model costs. Takes the bare name, or `provider/name`.
#[must_use]
pub fn price(model: &str) -> Option<Price> {
    find(model).map(|entry| {
        let (input, output, cache_read) = entry.price;
        // Anthropic takes a quarter more for writing its cache; the others report no writes.
        Price { input, output, cache_read, cache_write: input * 1.25 }
    })
}

/// How many tokens a conversation with the model may have.
#[must_use]
pub fn context_tokens(model: &str) -> Option<u64> {
    find(model).map(|entry| entry.context)
}

/// How many tokens to let an answer have where the API wants a number. Unknown models are taken
/// to be newer than this table.
pub(super) fn max_output(model: &str) -> u32 {
    find(model).map_or(32_000, |entry| entry.max_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_and_other_versions_do_not() {
        let input = |model| price(model).map(|price| price.input);
        assert_eq!(input("claude-sonnet-4-5-20250929"), Some(3.0));
        assert_eq!(input("anthropic/claude-sonnet-4-5"), Some(3.0));
        assert_eq!(input("claude-opus-4-20250514"), Some(15.0));
        assert_eq!(input("claude-opus-4-9"), None);
        assert_eq!(input("gpt-5-mini-2025-08-07"), Some(0.25));
        assert_eq!(input("gpt-5.9"), None);
        assert_eq!(input("gpt-5-pro"), None);
        assert_eq!(input("llama3"), None);
        assert_eq!(context_tokens("gpt-4.1-mini"), Some(1_047_576));
    }
}
