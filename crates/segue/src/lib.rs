//! Segue as a library: runs of coding agents that are never lost.
