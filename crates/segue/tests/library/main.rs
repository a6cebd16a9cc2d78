//! The library, as a program that uses it sees it.

#[cfg(test)]
mod left;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod support;
#[cfg(test)]
mod work;
