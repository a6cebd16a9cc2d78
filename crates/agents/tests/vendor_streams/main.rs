//! Adapters against what their vendors' programs once printed and left in their files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like tests")]

mod claude;
mod codex;
mod gemini;
mod pi;
mod qwen;
mod support;
mod tools;
