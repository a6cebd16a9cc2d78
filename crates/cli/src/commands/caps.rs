//! The caps, as flags of the commands that start or go on.

use std::time::Duration;

use segue_core::{
    caps::{Cap, Caps},
    usage::Micros,
};

use crate::config::{parse_count, parse_duration, parse_money};

/// The caps, as flags.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct CapFlags {
    /// Stop after so many turns; `none` lifts a cap, also of those below
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_turns: Option<u32>,
    /// Stop after so many attempts of the worker of a pair, or at one task of a list
    #[arg(long, value_name = "N", value_parser = count_or_none, help_heading = "Caps")]
    max_iterations: Option<u32>,
    /// Stop after so many reviews of a pair's work, or of one task of a list
    #[arg(long, value_name = "N", value_parser = count_or_none, help_heading = "Caps")]
    max_reviews: Option<u32>,
    /// Stop after so many model calls in one turn
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Caps")]
    max_steps: Option<u32>,
    /// Stop after this time: 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Caps")]
    max_time: Option<Duration>,
    /// Stop after so many tokens: 400k, 2M
    #[arg(long, value_name = "N", value_parser = tokens, help_heading = "Caps")]
    max_tokens: Option<u64>,
    /// Stop after so many dollars
    #[arg(
        long,
        value_name = "DOLLARS",
        value_parser = money,
        allow_negative_numbers = true,
        help_heading = "Caps"
    )]
    max_cost: Option<Micros>,
}

/// The word that lifts a cap. In numbers it is the greatest one that there is.
const NONE: &str = "none";

fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        _ if text == NONE => Ok(u32::MAX),
        Ok(n @ 1..) => Ok(n),
        _ => Err(format!("`{text}` is not a number from 1 on, or {NONE}")),
    }
}

/// 0 is none here, as it is in the settings.
fn count_or_none(text: &str) -> Result<u32, String> {
    if text == "0" { Ok(u32::MAX) } else { at_least_one(text) }
}

fn time(text: &str) -> Result<Duration, String> {
    if text == NONE { Ok(Duration::MAX) } else { parse_duration(text) }
}

fn tokens(text: &str) -> Result<u64, String> {
    if text == NONE { Ok(u64::MAX) } else { parse_count(text) }
}

fn money(text: &str) -> Result<Micros, String> {
    if text == NONE { Ok(Micros(u64::MAX)) } else { parse_money(text) }
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
    let few = |n: u32| if n == u32::MAX { NONE.to_owned() } else { n.to_string() };
    let many = |n: u64| if n == u64::MAX { NONE.to_owned() } else { n.to_string() };
    let secs = |n: u64| if n == u64::MAX { NONE.to_owned() } else { format!("{n}s") };
    let dollars = |cap: Micros| match cap.0 {
        u64::MAX => NONE.to_owned(),
        n => format!("{}.{:06}", n / 1_000_000, n % 1_000_000),
    };
    let values = [
        (Cap::Turns, caps.turns.map(few)),
        (Cap::Iterations, caps.iterations.map(few)),
        (Cap::Reviews, caps.reviews.map(few)),
        (Cap::Steps, caps.steps.map(few)),
        (Cap::WallClock, caps.wall_clock_secs.map(secs)),
        (Cap::Tokens, caps.tokens.map(many)),
        (Cap::Cost, caps.cost_micros.map(dollars)),
    ];
    let words = values.into_iter().filter_map(|(cap, value)| Some((cap.flag(), value?)));
    words.map(|(flag, value)| format!("{flag}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        caps: CapFlags,
    }

    fn caps(words: &[String]) -> Caps {
        let words = std::iter::once("segue").chain(words.iter().map(String::as_str));
        Command::try_parse_from(words).unwrap().caps.caps()
    }

    #[test]
    fn what_is_passed_on_means_the_same_also_where_a_cap_is_lifted() {
        let all = ["turns", "iterations", "reviews", "steps", "time", "tokens", "cost"];
        let none: Vec<String> = all.iter().map(|cap| format!("--max-{cap}=none")).collect();
        let base = Caps { turns: Some(3), tokens: Some(1), ..Caps::default() };
        assert_eq!(cap_words(caps(&none)), none);
        assert_eq!(base.overridden_by(caps(&none)), Caps::default());
        let zero = ["--max-iterations=0", "--max-reviews=0"].map(str::to_owned);
        assert_eq!(cap_words(caps(&zero)), none[1..3]);
        let some = ["--max-turns=4", "--max-time=90s", "--max-cost=2.500000"].map(str::to_owned);
        assert_eq!(cap_words(caps(&some)), some);
    }
}
