//! The real binary, on a real machine, when things go wrong.

mod crowds;
mod damage;
mod disks;
mod guardians;
mod io_errors;
mod kills;
mod signals;
mod strace;
mod support;
mod syscalls;
