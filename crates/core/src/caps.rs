//! The caps that stand in for the person who would have stopped a run.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{event::Cause, state::State, usage::Micros};

/// How far a session may go. What is absent is not capped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caps {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Attempts of a worker whose work is reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// How often its work is put before the reviewers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviews: Option<u32>,
    /// Model calls within one turn: ends an agent that goes round in circles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Counted from the start or the last resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_clock_secs: Option<u64>,
    /// All tokens of the session, over every resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// All money of the session in millionths of a dollar, over every resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<Micros>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cap {
    Turns,
    Iterations,
    Reviews,
    Steps,
    WallClock,
    Tokens,
    Cost,
    #[serde(other)]
    Unknown,
}

impl Cap {
    /// The flag that raises this cap.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Turns => "--max-turns",
            Self::Iterations => "--max-iterations",
            Self::Reviews => "--max-reviews",
            Self::Steps => "--max-steps",
            Self::WallClock => "--max-time",
            Self::Tokens => "--max-tokens",
            Self::Cost => "--max-cost",
            Self::Unknown => "--max-…",
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "turns",
            Self::Iterations => "iterations",
            Self::Reviews => "reviews",
            Self::Steps => "steps",
            Self::WallClock => "wall_clock",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Unknown => "unknown",
        })
    }
}

impl Caps {
    /// These caps, with those of `over` in their place where it has any, and without those that it
    /// lifts: the greatest number there is means that, in what somebody asks for.
    #[must_use]
    pub fn overridden_by(self, over: Self) -> Self {
        let all = self.and_then(over);
        let few = |cap: Option<u32>| cap.filter(|cap| *cap != u32::MAX);
        let many = |cap: Option<u64>| cap.filter(|cap| *cap != u64::MAX);
        Self {
            turns: few(all.turns),
            iterations: few(all.iterations),
            reviews: few(all.reviews),
            steps: few(all.steps),
            wall_clock_secs: many(all.wall_clock_secs),
            tokens: many(all.tokens),
            cost_micros: all.cost_micros.filter(|cap| cap.0 != u64::MAX),
        }
    }

    /// What is asked for here and then, with more right, by `over`: what is lifted stays so.
    #[must_use]
    pub fn and_then(self, over: Self) -> Self {
        Self {
            turns: over.turns.or(self.turns),
            iterations: over.iterations.or(self.iterations),
            reviews: over.reviews.or(self.reviews),
            steps: over.steps.or(self.steps),
            wall_clock_secs: over.wall_clock_secs.or(self.wall_clock_secs),
            tokens: over.tokens.or(self.tokens),
            cost_micros: over.cost_micros.or(self.cost_micros),
        }
    }

    /// The cap that forbids another model call at `now`, if one does.
    #[must_use]
    pub fn against_call(&self, state: &State, now: Timestamp) -> Option<Cap> {
        let reached = |cap: Option<u64>, used: u64| cap.is_some_and(|cap| used >= cap);
        if reached(self.tokens, state.usage.total()) {
            Some(Cap::Tokens)
        } else if reached(self.cost_micros.map(|m| m.0), state.cost.0) {
            Some(Cap::Cost)
        } else if reached(self.steps.map(u64::from), u64::from(state.turn.calls)) {
            Some(Cap::Steps)
        } else if self.time_left(state, now).is_some_and(|left| left.is_zero()) {
            Some(Cap::WallClock)
        } else {
            None
        }
    }

    /// The cap that forbids another turn at `now`, if one does.
    #[must_use]
    pub fn against_turn(&self, state: &State, now: Timestamp) -> Option<Cap> {
        if self.turns.is_some_and(|cap| state.turn.number >= cap) {
            return Some(Cap::Turns);
        }
        // A new turn starts with no steps used, whatever the last one had.
        Self { steps: None, ..*self }.against_call(state, now)
    }

    /// The cap that forbids a turn with this cause at `now`, if one does. What a person asks for is
    /// another task, and has all attempts before it.
    #[must_use]
    pub fn against(&self, cause: Cause, state: &State, now: Timestamp) -> Option<Cap> {
        let counts =
            state.terms().is_some() && state.begins_attempt(cause) && cause != Cause::Person;
        if counts && self.iterations.is_some_and(|cap| state.review.attempt() >= cap) {
            return Some(Cap::Iterations);
        }
        let asked = counts && cause == Cause::Review;
        if asked && self.reviews.is_some_and(|cap| state.review.asked >= cap) {
            return Some(Cap::Reviews);
        }
        self.against_turn(state, now)
    }

    /// How much of the wall clock cap is left; `None` where there is no such cap.
    #[must_use]
    pub fn time_left(&self, state: &State, now: Timestamp) -> Option<Duration> {
        let cap = Duration::from_secs(self.wall_clock_secs?);
        let Some(since) = state.running_since else { return Some(cap) };
        // A clock that jumped back has used up nothing.
        let used = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        Some(cap.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Usage;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn each_cap_stops_at_its_own_number() {
        let mut state = State { running_since: Some(at(0)), ..State::default() };
        let caps = Caps {
            turns: Some(2),
            iterations: None,
            reviews: None,
            steps: Some(3),
            wall_clock_secs: Some(60),
            tokens: Some(100),
            cost_micros: Some(Micros(5)),
        };
        assert_eq!(caps.against_call(&state, at(59)), None);
        assert_eq!(caps.against_call(&state, at(60)), Some(Cap::WallClock));
        assert_eq!(caps.against_call(&state, at(-60)), None);
        state.turn.calls = 3;
        assert_eq!(caps.against_call(&state, at(0)), Some(Cap::Steps));
        assert_eq!(caps.against_turn(&state, at(0)), None);
        state.turn.number = 2;
        assert_eq!(caps.against_turn(&state, at(0)), Some(Cap::Turns));
        state.usage = Usage { output: 100, ..Usage::default() };
        assert_eq!(caps.against_call(&state, at(0)), Some(Cap::Tokens));
        state.usage = Usage::default();
        state.cost = Micros(5);
        assert_eq!(caps.against_call(&state, at(0)), Some(Cap::Cost));
    }

    #[test]
    fn later_caps_override_earlier_ones() {
        let base = Caps { turns: Some(1), tokens: Some(9), ..Caps::default() };
        let over = Caps { turns: Some(5), ..Caps::default() };
        assert_eq!(
            base.overridden_by(over),
            Caps { turns: Some(5), tokens: Some(9), ..Caps::default() }
        );
    }

    #[test]
    fn a_cap_that_is_lifted_is_none_and_stays_lifted_on_the_way() {
        let most = Caps {
            turns: Some(u32::MAX),
            iterations: Some(u32::MAX),
            reviews: Some(u32::MAX),
            steps: Some(u32::MAX),
            wall_clock_secs: Some(u64::MAX),
            tokens: Some(u64::MAX),
            cost_micros: Some(Micros(u64::MAX)),
        };
        let base = Caps {
            turns: Some(1),
            iterations: Some(2),
            reviews: Some(3),
            steps: Some(4),
            wall_clock_secs: Some(5),
            tokens: Some(6),
            cost_micros: Some(Micros(7)),
        };
        assert_eq!(base.overridden_by(most), Caps::default());
        assert_eq!(base.overridden_by(most.and_then(Caps::default())), Caps::default());
        let raised = Caps { tokens: Some(9), ..Caps::default() };
        assert_eq!(base.overridden_by(most.and_then(raised)), raised);
    }
}
