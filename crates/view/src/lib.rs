//! The read side: every way to look at sessions without changing one.
//!
//! ```text
//! sessions/ ──► index (index.db, a cache) ──► select, table, json     many sessions
//! a journal ──► Session of segue-journal  ──► show, render, json      one session
//! ```
//!
//! The journals are the truth. What is here can be thrown away and computed again, so nothing in
//! this crate fails because of a cache, and a session that can't be read is a row with a problem,
//! never a list that does not come. The one thing it may write outside `index.db` is the number of
//! a session that has none.
//!
//! Texts of agents and of other people's machines are hostile until proven otherwise: whatever is
//! printed has gone through [`style::sanitize`].

pub mod compare;
pub mod crew;
pub mod dashboard;
pub mod diff;
pub mod graph;
pub mod index;
pub mod json;
pub mod picker;
pub mod plan;
pub mod render;
pub mod row;
pub mod select;
pub mod show;
pub mod status_lines;
pub mod steps;
pub mod style;
pub mod table;
pub mod tasks;

mod database;
mod error;
mod numbers;
mod telling;
mod tui;
mod walk;

pub use error::{Error, Result};
pub use index::{Filter, Index, Listing, StatusFilter};
pub use row::Row;
pub use select::{Found, SelectError};
pub use style::Style;
