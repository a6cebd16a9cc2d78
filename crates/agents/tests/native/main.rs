//! The native agent's models and tools, from outside.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod anthropic;
mod confinement;
mod openai;
mod script;
mod support;
mod tools;
