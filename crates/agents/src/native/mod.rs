//! Segue's own small coding agent: the models that it talks to and the tools that it has.
//!
//! Nothing here knows of journals, loops or processes. The caller drives: it calls a [`Model`]
//! with the conversation so far, keeps the [`Reply`], runs each tool that the reply asks for,
//! keeps the result, and calls again. Everything between two of those steps is the caller's to
//! make durable, so a conversation can be picked up after any of them.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`message`] | the conversation, the same for every vendor |
//! | [`model`] | what a model is, and every way in which a call can fail |
//! | [`settings`] | which model, where it is, with which key |
//! | `anthropic`, `responses`, `chat` | the three APIs; `api` is what they share |
//! | [`script`] | a model that answers from a file |
//! | [`retry`] | when to call again, and after how long |
//! | [`price`] | what well-known models cost and hold |
//! | [`prompt`] | what the agent is told about itself |
//! | [`tools`] | read, write, edit, glob, grep, shell, checkpoint |

mod anthropic;
mod api;
mod chat;
mod failure;
mod http;
pub mod message;
pub mod model;
pub mod price;
pub mod prompt;
mod responses;
pub mod retry;
pub mod script;
pub mod settings;
mod sse;
pub mod tools;

pub use message::{Block, Message, Reply, Role, StopReason};
pub use model::{Delta, Model, ModelError, Request};
pub use settings::{Effort, ModelSpec, Provider, Secret, Settings, SpecError, build};
pub use tools::{Call, Outcome, ToolSpec, Workspace};
