//! Tokens, which every agent counts and tells in its own way.

use agent_client_protocol_schema::v1 as acp;
use segue_core::usage::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::vendor::json::{at, number, text};

/// The protocol does not say whether cached tokens are among the input ones and thoughts among the
/// output ones, and agents differ. The total, which they all tell, shows which it is.
pub(super) fn of_turn(told: &acp::Usage) -> Usage {
    let (read, write) =
        (told.cached_read_tokens.unwrap_or(0), told.cached_write_tokens.unwrap_or(0));
    let thought = told.thought_tokens.unwrap_or(0);
    let cached = read.saturating_add(write);
    let base = told.input_tokens.saturating_add(told.output_tokens);
    let sums = |more: u64| base.saturating_add(more) == told.total_tokens;
    let (cached_apart, thought_apart) = if sums(cached.saturating_add(thought)) {
        (true, true)
    } else if sums(cached) {
        (true, false)
    } else if sums(0) {
        (false, false)
    } else {
        (cached > told.input_tokens, sums(thought))
    };
    let without = |all: u64, part: u64, apart: bool| {
        if apart { all } else { all.saturating_sub(part) }
    };
    Usage {
        input: without(told.input_tokens, cached, cached_apart),
        output: without(told.output_tokens, thought, thought_apart),
        cache_read: read,
        cache_write: write,
        reasoning: thought,
    }
}

/// Qwen Code tells the tokens of each call beside an empty piece of text.
pub(super) fn of_call(meta: &acp::Meta) -> Option<Usage> {
    acp::Usage::deserialize(meta.get("usage")?).ok().as_ref().map(of_turn)
}

/// Gemini CLI tells those of a turn here, cached ones among the input.
pub(super) fn beside(meta: &acp::Meta) -> Option<Usage> {
    let count = meta.get("quota")?.get("token_count")?;
    Some(Usage {
        input: number(count, &["input_tokens"])?,
        output: number(count, &["output_tokens"])?,
        ..Usage::default()
    })
}

/// The model of a turn in which there was only one.
pub(super) fn model(meta: &acp::Meta) -> Option<String> {
    let models = at(meta.get("quota")?, &["model_usage"]).and_then(Value::as_array)?;
    let [one] = models.as_slice() else { return None };
    text(one, &["model"]).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(json: &str) -> Usage {
        of_turn(&serde_json::from_str(json).unwrap())
    }

    /// The same call, as it was told by the agents.
    #[test]
    fn buckets_never_overlap_whoever_counted() {
        let all = Usage { input: 11, output: 7, cache_read: 100, cache_write: 20, reasoning: 3 };
        let codex = r#"{"totalTokens":141,"inputTokens":11,"cachedReadTokens":100,
            "cachedWriteTokens":20,"outputTokens":10,"thoughtTokens":3}"#;
        assert_eq!(usage(codex), all);
        let copilot = r#"{"inputTokens":131,"outputTokens":10,"totalTokens":141,"thoughtTokens":3,
            "cachedReadTokens":100,"cachedWriteTokens":20}"#;
        assert_eq!(usage(copilot), all);
        let opencode = r#"{"inputTokens":31,"outputTokens":7,"totalTokens":141,"thoughtTokens":3,
            "cachedReadTokens":100}"#;
        assert_eq!(usage(opencode), Usage { input: 31, cache_write: 0, ..all });
        let claude = r#"{"inputTokens":11,"outputTokens":10,"cachedReadTokens":100,
            "cachedWriteTokens":20,"totalTokens":141}"#;
        assert_eq!(usage(claude), Usage { output: 10, reasoning: 0, ..all });
    }
}
