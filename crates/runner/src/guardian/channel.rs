//! The channel between Segue and its guardian: lines over a socket pair, and one descriptor.
//!
//! Promises: no call here waits longer than it was told to, none is disturbed by a signal, and
//! writing to a side that is gone is an error, never a SIGPIPE. Whatever goes wrong while reading
//! counts as the end of the channel: both sides then do what is safe.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Instant;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};

/// Takes the first whole line out of what was received, split at blanks.
pub(super) fn take_words(received: &mut Vec<u8>) -> Option<Vec<String>> {
    let end = received.iter().position(|&b| b == b'\n')?;
    let line: Vec<u8> = received.drain(..=end).collect();
    let line = String::from_utf8_lossy(&line);
    Some(line.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Waits for one of the descriptors; `false` when the time is up. No deadline: waits for ever.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // What no Timespec can hold is for ever.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, left.as_ref()) {
            Ok(0) if deadline.is_none_or(|at| Instant::now() < at) => {}
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads what is there; `false` when the other side is gone.
pub(super) fn receive(from: &UnixStream, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 256];
    match recv(from, &mut buffer, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => false,
        Ok((_, length)) => {
            into.extend_from_slice(buffer.get(..length).unwrap_or_default());
            true
        }
        Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
    }
}

pub(super) fn send_line(to: &UnixStream, line: &str) -> io::Result<()> {
    let line = format!("{line}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        match send(to, rest, SendFlags::NOSIGNAL) {
            Ok(length) => rest = rest.get(length..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Tells the guardian to start the command, with this as its standard input.
pub(super) fn send_start(to: &UnixStream, stdin: Option<OwnedFd>) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = stdin.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    loop {
        let byte = [IoSlice::new(b"+")];
        match sendmsg(to, &byte, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for Segue's word to start; `None` when Segue is gone instead.
pub(super) fn receive_start(from: &UnixStream) -> io::Result<Option<Stdio>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut buffers = [IoSliceMut::new(&mut byte)];
        match recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    };
    if message.bytes == 0 {
        return Ok(None);
    }
    for ancillary in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = ancillary
            && let Some(stdin) = fds.next()
        {
            return Ok(Some(stdin.into()));
        }
    }
    Ok(Some(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::event::PollFlags;

    use super::*;

    #[test]
    fn lines_come_out_whole_and_in_order() {
        let (left, right) = UnixStream::pair().expect("pair");
        let mut received = Vec::new();
        send_line(&left, "spawned 7").expect("send");
        send_line(&left, "exited 0").expect("send");
        assert!(receive(&right, &mut received));
        assert_eq!(take_words(&mut received), Some(vec!["spawned".into(), "7".into()]));
        received.pop();
        assert_eq!(take_words(&mut received), None);
        drop(left);
        assert!(!receive(&right, &mut received));
    }

    #[test]
    fn a_deadline_is_kept_and_a_far_one_does_not_overflow() {
        let (left, right) = UnixStream::pair().expect("pair");
        let soon = Instant::now() + Duration::from_millis(20);
        let mut fds = [PollFd::new(&right, PollFlags::IN)];
        assert!(!poll_until(&mut fds, Some(soon)).expect("poll"));
        assert!(Instant::now() >= soon);
        send_line(&left, "x").expect("send");
        let far = Instant::now().checked_add(Duration::from_secs(1 << 60));
        assert!(poll_until(&mut fds, far).expect("poll"));
    }

    #[test]
    fn writing_to_a_side_that_is_gone_is_an_error() {
        let (left, right) = UnixStream::pair().expect("pair");
        drop(right);
        assert!(send_line(&left, "exited 0").is_err());
        assert!(send_start(&left, None).is_err());
    }
}
