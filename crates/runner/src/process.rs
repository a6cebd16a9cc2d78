//! What `/proc` says about processes, and the second net under the guardian.
//!
//! The guardian (see [`crate::guardian`]) ends an agent's whole tree. If somebody kills the guardian
//! as well, its tree goes to init and nobody holds it any more. Every process of a session still
//! carries `SEGUE_SESSION=<ulid>` in its environment, so [`leftovers`] finds them again and
//! [`end_leftovers`] ends them, normally when a session is opened again.
//!
//! Promises:
//! - A signal goes only to the process that was looked at. A pid alone is not a process: it is given
//!   to somebody else after its owner is gone. So each signal goes through a pidfd, and only when the
//!   start time (field 22 of `/proc/<pid>/stat`) is still the one that was seen.
//! - Neither the caller, nor its ancestors, nor a tree whose guardian does its work is ever a leftover.
//! - What cannot be read (a process of another user, one that is just ending) is left out, never an error.
//!
//! Limit: a process that cleared its environment *and* whose marked ancestors are all gone is not found.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

/// The variable that marks every process of a session; its value is the session's id.
pub const SESSION_VAR: &str = "SEGUE_SESSION";
/// The variable that marks every process of one run of Segue; its value is a nonce.
pub const RUN_VAR: &str = "SEGUE_RUN";

/// How long a guardian that has lost its owner may take to end its tree by itself.
const GUARDIAN_LIMIT: Duration = Duration::from_secs(2);

/// How long one freezing round may take before the killing starts anyway.
const FREEZE_LIMIT: Duration = Duration::from_secs(2);

/// A process of a session that nobody guards any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub pid: u32,
    /// Its command line, arguments separated by spaces, for showing to a person.
    pub command: String,
}

/// What [`end_leftovers`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Every leftover that was found and got a SIGKILL, in order of finding.
    pub found: Vec<Leftover>,
    /// Those that were still there when the time was up. Empty means that nothing is left.
    pub alive: Vec<Leftover>,
}

/// Asks a process to end, and ends it where it does not in time.
pub fn end_gently(pid: u32, limit: Duration) {
    let Some(found) = i32::try_from(pid).ok().and_then(Stat::read) else { return };
    let is_there =
        || Stat::read(found.pid).is_some_and(|now| now.start == found.start && !now.has_ended());
    found.signal(Signal::TERM);
    let started = Instant::now();
    while is_there() && started.elapsed() < limit {
        thread::sleep(Duration::from_millis(20));
    }
    if is_there() {
        found.signal(Signal::KILL);
    }
}

/// When a process began: with its number this names it for good.
#[must_use]
pub fn began(pid: u32) -> Option<u64> {
    i32::try_from(pid).ok().and_then(Stat::read).map(|stat| stat.start)
}

/// Whether the process that began then is still there.
#[must_use]
pub fn is_there(pid: u32, began: u64) -> bool {
    let found = i32::try_from(pid).ok().and_then(Stat::read);
    found.is_some_and(|stat| stat.start == began && !stat.has_ended())
}

/// One line of `/proc/<pid>/stat`, as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    state: u8,
    /// Clock ticks since boot: together with the pid, this names a process for good.
    start: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The command name stands in parentheses and may itself hold blanks and parentheses, so the
    /// fields are counted from the last `)`.
    fn parse(line: &[u8]) -> Option<Stat> {
        let open = line.iter().position(|&b| b == b'(')?;
        let close = line.iter().rposition(|&b| b == b')')?;
        let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let ppid = fields.next()?.parse().ok()?;
        // State is field 3, the parent 4, the start time 22: 17 fields lie between the last two.
        let start = fields.nth(17)?.parse().ok()?;
        Some(Stat { pid: pid.parse().ok()?, ppid, state, start })
    }

    /// A zombie has ended and only waits for its parent; there is nothing left to signal.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Signals exactly this process, or nobody. Whether it arrived is seen at the next look.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        // The pidfd is opened before the look at the start time: from then on the number may be
        // given away, but the signal still goes to the process that was checked.
        let opened = pidfd_open(pid, PidfdFlags::empty());
        if Stat::read(self.pid).is_none_or(|now| now.start != self.start) {
            return;
        }
        // Failing is fine: it ended meanwhile, or is not ours to signal. The caller looks again.
        let _ = match opened {
            Ok(fd) => pidfd_send_signal(fd, signal),
            // Kernels before 5.3: a gap of microseconds remains between the look and the signal.
            Err(Errno::NOSYS) => kill_process(pid, signal),
            Err(error) => Err(error),
        };
    }
}

/// One look at all processes. Not atomic: what is forked meanwhile shows up at the next look.
fn snapshot() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Stat::read)
        .collect()
}

/// All living processes below the given ones, without these.
fn below(all: &[Stat], roots: impl IntoIterator<Item = i32>) -> Vec<Stat> {
    let mut children: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in all {
        children.entry(stat.ppid).or_default().push(*stat);
    }
    let mut queue: Vec<i32> = roots.into_iter().collect();
    let mut seen: HashSet<i32> = queue.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(parent) = queue.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if seen.insert(child.pid) {
                queue.push(child.pid);
                found.push(child);
            }
        }
    }
    found.retain(|stat| !stat.has_ended());
    found
}

/// All living descendants of the calling process.
pub(crate) fn own_descendants() -> Vec<Stat> {
    below(&snapshot(), [getpid().as_raw_nonzero().get()])
}

/// Ends all that `find` finds: first everything is stopped, until a look finds nothing new, then
/// everything is killed.
///
/// Stopping first is what wins against a fork bomb: a stopped process cannot fork and still takes up
/// its place, whereas killing one at once makes room for the next.
pub(crate) fn freeze_and_kill(mut find: impl FnMut() -> Vec<Stat>) {
    let deadline = Instant::now() + FREEZE_LIMIT;
    let mut stopped = HashSet::new();
    loop {
        let found = find();
        let mut fresh = false;
        for stat in &found {
            if stopped.insert((stat.pid, stat.start)) {
                stat.signal(Signal::STOP);
                fresh = true;
            }
        }
        if !fresh || Instant::now() >= deadline {
            for stat in &found {
                stat.signal(Signal::KILL);
            }
            return;
        }
    }
}

fn environ_has(pid: i32, entry: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&b| b == 0).any(|one| one == entry))
}

fn command_line(pid: i32) -> Vec<Vec<u8>> {
    let Ok(mut line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return Vec::new();
    };
    if line.last() == Some(&0) {
        line.pop();
    }
    line.split(|&b| b == 0).map(<[u8]>::to_vec).collect()
}

fn is_guardian(pid: i32) -> bool {
    command_line(pid).get(1).map(Vec::as_slice) == Some(crate::guardian::ARGUMENT.as_bytes())
}

/// The calling process and all above it.
fn own_ancestry(all: &[Stat]) -> HashSet<i32> {
    let parents: HashMap<i32, i32> = all.iter().map(|stat| (stat.pid, stat.ppid)).collect();
    let mut line = HashSet::new();
    let mut next = Some(getpid().as_raw_nonzero().get());
    while let Some(pid) = next.filter(|&pid| line.insert(pid)) {
        next = parents.get(&pid).copied();
    }
    line
}

/// Which guardians look after their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trusted {
    All,
    /// Those below the caller, who is their owner.
    Own,
}

fn find_leftovers(session: &str, trusted: Trusted) -> Vec<Stat> {
    let all = snapshot();
    let own: HashSet<i32> =
        below(&all, [getpid().as_raw_nonzero().get()]).iter().map(|stat| stat.pid).collect();
    let entry = [SESSION_VAR.as_bytes(), b"=", session.as_bytes()].concat();
    let marked: Vec<Stat> =
        all.iter().filter(|stat| environ_has(stat.pid, &entry)).copied().collect();
    let guardians: Vec<i32> = marked
        .iter()
        .map(|stat| stat.pid)
        .filter(|pid| trusted == Trusted::All || own.contains(pid))
        .filter(|&pid| is_guardian(pid))
        .collect();

    // A living guardian looks after its own: either its owner lives and these are no leftovers, or
    // it is busy ending them and must not be disturbed.
    let mut spared: HashSet<i32> =
        below(&all, guardians.iter().copied()).iter().map(|stat| stat.pid).collect();
    spared.extend(guardians);
    spared.extend(own_ancestry(&all));

    let roots: Vec<Stat> = marked.into_iter().filter(|stat| !spared.contains(&stat.pid)).collect();
    // What a leftover started belongs to it, also with a cleared environment.
    let mut found = below(&all, roots.iter().map(|stat| stat.pid));
    found.retain(|stat| !spared.contains(&stat.pid));
    found.extend(roots);
    found
}

fn describe(stat: &Stat) -> Leftover {
    let words = command_line(stat.pid);
    let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    Leftover { pid: stat.pid.unsigned_abs(), command: words.join(" ") }
}

/// The processes of a session that nobody guards any more.
///
/// An interactive agent that lives on in tmux must not carry the marker, or it would be one of them.
pub fn leftovers(session: &str) -> Vec<Leftover> {
    find_leftovers(session, Trusted::All).iter().map(describe).collect()
}

/// Ends the leftovers of a session, and waits until they are gone, for at most `limit`.
///
/// The caller is the session's one owner, so a guardian that is not below it has lost its own. It is
/// given time to end its tree, and waited for: nothing new may begin beside the old. One that hangs
/// is ended with its tree.
pub fn end_leftovers(session: &str, limit: Duration) -> Sweep {
    let deadline = Instant::now() + limit;
    let patience = Instant::now() + GUARDIAN_LIMIT.min(limit / 2);
    let mut sweep = Sweep::default();
    let mut known = HashSet::new();
    loop {
        let trusted = match Instant::now() < patience {
            true => Trusted::All,
            false => Trusted::Own,
        };
        freeze_and_kill(|| {
            let found = find_leftovers(session, trusted);
            for stat in &found {
                if known.insert((stat.pid, stat.start)) {
                    sweep.found.push(describe(stat));
                }
            }
            found
        });
        sweep.alive = find_leftovers(session, Trusted::Own).iter().map(describe).collect();
        if sweep.alive.is_empty() || Instant::now() >= deadline {
            return sweep;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a process to stop, if it is the one that has `file` open. Says whether it was.
///
/// A pid that was written down may be somebody else's by now, or that of another namespace.
pub fn interrupt_holder(pid: u32, file: &Path) -> io::Result<bool> {
    let wanted = fs::metadata(file)?;
    let Some(stat) = i32::try_from(pid).ok().and_then(Stat::read) else {
        return Ok(false);
    };
    let is_it = |entry: fs::DirEntry| {
        let found = fs::metadata(entry.path());
        found.is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    let holds = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten().any(is_it);
    if holds {
        stat.signal(Signal::INT);
    }
    Ok(holds)
}

/// Who is started as a guardian, where the running program can't be.
static GUARDIAN: OnceLock<PathBuf> = OnceLock::new();

/// Says for the rest of the process which program stands guard: one that calls
/// [`crate::guardian::main`]. Segue itself does; a program that uses its library may not. The first
/// word counts.
pub fn guarded_by(program: PathBuf) {
    let _ = GUARDIAN.set(program);
}

/// The program that is started as a guardian.
pub fn guardian() -> PathBuf {
    GUARDIAN.get().cloned().unwrap_or_else(this_program)
}

/// The running program itself, for starting it again as a guardian.
///
/// `/proc/self/exe` is resolved by the kernel in the new process, so it is the very same program,
/// also when its file was replaced or deleted by an update meanwhile.
pub fn this_program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if fs::read_link(&link).is_ok_and(|target| !target.as_os_str().as_bytes().is_empty()) {
        return link;
    }
    std::env::current_exe().unwrap_or(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c) S 7 42 40 0 -1 4194304 2 3 4 5 6 7 8 9 20 0 1 0 77246 1 2 3\n";
        let stat = Stat::parse(line).expect("parsed");
        assert_eq!((stat.pid, stat.ppid, stat.start), (42, 7, 77246));
        assert!(!stat.has_ended());
        assert_eq!(Stat::parse(b"42 (cut"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn the_tree_is_followed_through_and_loops_do_no_harm() {
        let stat = |pid, ppid, state| Stat { pid, ppid, state, start: 1 };
        let all = [
            stat(2, 1, b'S'),
            stat(3, 2, b'Z'),
            stat(4, 3, b'R'),
            stat(5, 1, b'S'),
            stat(1, 4, b'S'),
        ];
        let mut found: Vec<i32> = below(&all, [2]).iter().map(|stat| stat.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 4, 5]);
    }

    #[test]
    fn a_number_that_was_given_out_again_is_somebody_else() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let start = began(child.id()).expect("began");
        assert!(is_there(child.id(), start) && !is_there(child.id(), start + 1));
        child.kill().expect("killed");
        child.wait().expect("wait");
        assert!(!is_there(child.id(), start));
    }

    #[test]
    fn a_process_with_another_start_time_gets_no_signal() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let mut stat = Stat::read(child.id().cast_signed()).expect("stat");
        stat.start += 1;
        stat.signal(Signal::KILL);
        thread::sleep(Duration::from_millis(30));
        assert!(child.try_wait().expect("wait").is_none());
        stat.start -= 1;
        stat.signal(Signal::KILL);
        assert!(!child.wait().expect("wait").success());
    }
}
