//! The read side over real sessions: the index, selectors, and what is printed.

// Said once more than needed, so that lints know the helpers for tests too.
#[cfg(test)]
mod common;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod index;
#[cfg(test)]
mod look;
#[cfg(test)]
mod select;
