//! What every screen on a terminal needs: the terminal itself, a canvas, keys that move and edit,
//! a list that scrolls, and what is said of one session.

pub(crate) mod canvas;
pub(crate) mod keys;
pub(crate) mod preview;
pub(crate) mod screen;
pub(crate) mod scroll;
pub(crate) mod search;
#[cfg(test)]
pub(crate) mod testing;
