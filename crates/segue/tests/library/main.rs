//! The library, as a program that uses it sees it.

mod replay;
mod runs;
mod support;
mod work;
