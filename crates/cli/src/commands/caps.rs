//! The caps, as flags of the commands that start or go on.

use segue_core::{
    caps::{Cap, Caps},
    usage::Micros,
};

use crate::config::{parse_count, parse_duration, parse_money};

/// The caps, as flags.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CapFlags {
    /// Stop after so many turns
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_turns: Option<u32>,
    /// Stop after so many attempts of the worker of a pair, or at one task of a list
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_iterations: Option<u32>,
    /// Stop after so many reviews of a pair's work, or of one task of a list
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_reviews: Option<u32>,
    /// Stop after so many model calls in one turn
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_steps: Option<u32>,
    /// Stop after this time: 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Caps")]
    max_time: Option<std::time::Duration>,
    /// Stop after so many tokens: 400k, 2M
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Caps")]
    max_tokens: Option<u64>,
    /// Stop after so many dollars
    #[arg(
        long,
        value_name = "DOLLARS",
        value_parser = parse_money,
        allow_negative_numbers = true,
        help_heading = "Caps"
    )]
    max_cost: Option<Micros>,
}

fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..) => Ok(n),
        _ => Err(format!("`{text}` is not a number from 1 on")),
    }
}

impl CapFlags {
    pub(crate) fn caps(&self) -> Caps {
        Caps {
            turns: self.max_turns,
            iterations: self.max_iterations,
            reviews: self.max_reviews,
            steps: self.max_steps,
            wall_clock_secs: self.max_time.map(|time| time.as_secs().max(1)),
            tokens: self.max_tokens,
            cost_micros: self.max_cost,
        }
    }
}

/// The flags that mean these caps.
pub(crate) fn cap_words(caps: Caps) -> Vec<String> {
    let dollars = |cap: Micros| format!("{}.{:06}", cap.0 / 1_000_000, cap.0 % 1_000_000);
    let values = [
        (Cap::Turns, caps.turns.map(|n| n.to_string())),
        (Cap::Iterations, caps.iterations.map(|n| n.to_string())),
        (Cap::Reviews, caps.reviews.map(|n| n.to_string())),
        (Cap::Steps, caps.steps.map(|n| n.to_string())),
        (Cap::WallClock, caps.wall_clock_secs.map(|n| format!("{n}s"))),
        (Cap::Tokens, caps.tokens.map(|n| n.to_string())),
        (Cap::Cost, caps.cost_micros.map(dollars)),
    ];
    let words = values.into_iter().filter_map(|(cap, value)| Some((cap.flag(), value?)));
    words.map(|(flag, value)| format!("{flag}={value}")).collect()
}
