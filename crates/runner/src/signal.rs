//! Being asked to stop.
//!
//! SIGINT, SIGTERM and SIGHUP (a closed terminal, a dropped connection) only set a flag: whoever
//! works looks at it and comes to a recorded, resumable stop. A second SIGINT or SIGTERM ends the
//! process at once; the journal is made for that, and the guardian ends what the agent started. A
//! second SIGHUP does not: a terminal that closes may send several.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

/// Whether, and by which signal, the process was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Takes the three signals over, for the rest of the process.
    pub fn install() -> io::Result<Self> {
        let first = Arc::new(AtomicUsize::new(0));
        let asked_before = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the check for a second signal must not see what this one sets.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked_before))?;
            flag::register(signal, Arc::clone(&asked_before))?;
        }
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_usize(signal, Arc::clone(&first), usize::try_from(signal).unwrap_or(0))?;
        }
        Ok(Self(first))
    }

    /// The signal that came, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.0.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Asks as a signal would.
    pub fn ask(&self, signal: u8) {
        self.0.store(usize::from(signal), Ordering::Relaxed);
    }
}
