//! A network of one's own: for the calling thread, and for all threads and processes that it starts
//! from then on.
#![expect(unsafe_code, reason = "rustix leaves unshare unsafe for flags that are not used here")]

use std::{
    cell::Cell,
    fs::File,
    os::fd::AsFd,
    process::{Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::must;

thread_local! {
    /// A second network would cut the thread off from what it has started in the first.
    static ISOLATED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Leaves the thread with nothing but a loopback, if it may. Returns whether it did.
pub(super) fn isolate() -> bool {
    ISOLATED.with(|known| {
        let isolated = known.get().unwrap_or_else(enter);
        known.set(Some(isolated));
        isolated
    })
}

fn enter() -> bool {
    let Ok(before) = File::open("/proc/thread-self/ns/net") else { return false };
    // SAFETY: only a change of the table of files is unsafe, and the network is none of it.
    if !ip(&["-V"]) || unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_err() {
        return false;
    }
    if ip(&["link", "set", "lo", "up"]) {
        return true;
    }
    // Not even the model server could be reached from here.
    let network = Some(LinkNameSpaceType::Network);
    must("back into the network", move_into_link_name_space(before.as_fd(), network));
    false
}

fn ip(args: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(args).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
