//! What the system knows of a process: when it began, its children, the files it has open.
//!
//! All of it is from `/proc`; where there is none, nothing is known.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// When a process began, in the system's own count since it was started. A process id may be given
/// out again; together with this it is not.
pub(super) fn began(pid: u32) -> Option<u64> {
    stat(pid)?.1
}

/// The process and all that come from it.
pub(super) fn family(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, stat(pid)?.0?))).collect();
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(&parent) = family.get(at) {
        let children = parents.iter().filter(|(pid, of)| *of == parent && !family.contains(pid));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        family.extend(children);
        at += 1;
    }
    family
}

/// The files that a process has open.
pub(super) fn files(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

/// The parent, and when it began. The name before them may have anything in it but ends at the last
/// bracket.
fn stat(pid: u32) -> Option<(Option<u32>, Option<u64>)> {
    let text = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let parent = fields.get(1).and_then(|field| field.parse().ok());
    let began = fields.get(19).and_then(|field| field.parse().ok());
    Some((parent, began))
}
