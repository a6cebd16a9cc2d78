//! The real binary, on a real machine, when things go wrong.

// Said once more than needed, so that lints know the helpers for tests too.
#[cfg(test)]
mod crews;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod disks;
#[cfg(test)]
mod guardians;
#[cfg(test)]
mod io_errors;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod landings;
#[cfg(test)]
mod passages;
#[cfg(test)]
mod power;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod strace;
#[cfg(test)]
mod support;
#[cfg(test)]
mod syscalls;
