//! The steps from the working tree as it is to a target.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::target::Target;
use super::{Plan, RestoreError, io_error};
use crate::checkpoint::{Snapshots, is_below};
use crate::git;
use crate::index::{EXEC, Entry, LINK, REPO};
use crate::manifest::Manifest;
use crate::scan::{ignored, parent};

#[derive(Default)]
pub(super) struct Steps {
    pub(super) delete: Vec<Vec<u8>>,
    /// From the inside out; those that are not empty stay.
    pub(super) remove_dirs: Vec<Vec<u8>>,
    pub(super) dirs: BTreeSet<Vec<u8>>,
    pub(super) write: Vec<Vec<u8>>,
    pub(super) modes: Vec<(Vec<u8>, u32)>,
    pub(super) nested: Vec<(Vec<u8>, Steps)>,
}

impl Steps {
    /// Leaves out what is not wanted. A directory is needed by the files in it.
    pub(super) fn retain(&mut self, wanted: &dyn Fn(&Path) -> bool) {
        let is_wanted = |path: &[u8]| wanted(git::path(path));
        let (deletes, nested) = (self.delete.len(), self.nested.len());
        self.delete.retain(|path| is_wanted(path));
        self.write.retain(|path| is_wanted(path));
        self.modes.retain(|(path, _)| is_wanted(path));
        self.nested.retain(|(path, _)| is_wanted(path));
        if deletes == self.delete.len() && nested == self.nested.len() && is_wanted(b"") {
            return;
        }
        self.remove_dirs.clear();
        let write = &self.write;
        self.dirs.retain(|dir| write.iter().any(|file| is_below(file, dir)));
    }
}

impl Snapshots {
    /// Compares the target with the snapshot that was taken just now.
    pub(super) fn plan_into(
        &self,
        target: &Target,
        now: &Manifest,
        plan: &mut Plan,
    ) -> Result<Steps, RestoreError> {
        self.plan_at(target, now, plan, Path::new(""))
    }

    fn plan_at(
        &self,
        target: &Target,
        now: &Manifest,
        plan: &mut Plan,
        at: &Path,
    ) -> Result<Steps, RestoreError> {
        let (entries, _) = self.private()?;
        let files: BTreeMap<&[u8], Entry<'_>> = entries
            .iter()
            .filter(|entry| entry.mode != REPO)
            .map(|entry| (entry.path, entry))
            .collect();
        let tracked = self.tracked()?;
        let away: BTreeSet<&[u8]> = tracked
            .iter()
            .filter(|entry| entry.skip && !self.on_disk(entry.path))
            .map(|entry| entry.path)
            .collect();
        let place = |path: &[u8]| at.join(git::path(path));
        for path in now.nested.keys().filter(|path| !target.nested.contains_key(*path)) {
            let inside = |file: &&Vec<u8>| is_below(file, path);
            if let Some(file) = target.files.keys().find(inside) {
                return Err(RestoreError::InTheWay(place(file)));
            }
            plan.left.push(place(path));
        }
        plan.left.extend(target.lost.iter().map(|path| place(path)));
        let mut steps = Steps { dirs: target.dirs_without(&away), ..Steps::default() };
        for (path, (mode, id)) in &target.files {
            if away.contains(path.as_slice()) || now.skipped.contains(path) {
                continue;
            }
            match files.get(path.as_slice()) {
                Some(entry) if entry.hex_id() == *id && (entry.mode == LINK) == (*mode == LINK) => {
                    if *mode != LINK {
                        self.compare_mode(target, path, *mode, &mut steps)?;
                    }
                    continue;
                }
                Some(_) => plan.modified.push(place(path)),
                None => plan.added.push(place(path)),
            }
            steps.write.push(path.clone());
        }
        plan.modes.extend(steps.modes.iter().map(|(path, _)| place(path)));
        steps.delete = self.to_delete(target, &files, &away)?;
        plan.deleted.extend(steps.delete.iter().map(|path| place(path)));
        steps.remove_dirs = to_remove(target, now, &files);
        for (path, inner) in &target.nested {
            let inner_at = place(path);
            let Some(nested) = now.nested.get(path) else { continue };
            let manifest = inner.repo.manifest(&nested.commit)?;
            let inner_steps = inner.repo.plan_at(&inner.target, &manifest, plan, &inner_at)?;
            steps.nested.push((path.clone(), inner_steps));
        }
        Ok(steps)
    }

    fn on_disk(&self, path: &[u8]) -> bool {
        std::fs::symlink_metadata(self.place.top.join(git::path(path))).is_ok()
    }

    fn compare_mode(
        &self,
        target: &Target,
        path: &[u8],
        mode: u32,
        steps: &mut Steps,
    ) -> Result<(), RestoreError> {
        let wanted = target.manifest.file_mode(path, mode == EXEC);
        let meta = std::fs::symlink_metadata(self.place.top.join(git::path(path)));
        let meta = meta.map_err(|error| io_error(path, error))?;
        if meta.permissions().mode() & 0o7777 != wanted {
            steps.modes.push((path.to_vec(), wanted));
        }
        Ok(())
    }

    /// What is in the snapshot of now and not in the target, unless the target's own rules ignore
    /// it: then it was there all along and no snapshot said so.
    fn to_delete(
        &self,
        target: &Target,
        files: &BTreeMap<&[u8], Entry<'_>>,
        away: &BTreeSet<&[u8]>,
    ) -> Result<Vec<Vec<u8>>, RestoreError> {
        let stays = |path: &[u8]| {
            let mut left = target.manifest.skipped.iter().chain(&target.lost);
            away.contains(path) || left.any(|dir| is_below(path, dir))
        };
        let extra: Vec<Vec<u8>> = files
            .keys()
            .filter(|path| !target.files.contains_key(**path) && !stays(path))
            .map(|path| path.to_vec())
            .collect();
        let rules = |path: &[u8]| path.rsplit(|&b| b == b'/').next() == Some(b".gitignore");
        let of_target = |path: &[u8]| target.files.get(path).map(|(_, id)| id.clone());
        let of_now = |path: &[u8]| files.get(path).map(Entry::hex_id);
        let mut all = target.files.keys().map(Vec::as_slice).chain(files.keys().copied());
        if extra.is_empty() || !all.any(|path| rules(path) && of_target(path) != of_now(path)) {
            return Ok(extra);
        }
        let left_alone = self.ignored_by(target, &extra)?;
        let in_the_way = |path: &[u8]| {
            let mut above = path;
            loop {
                if target.files.contains_key(above) {
                    return true;
                }
                if above.is_empty() {
                    return target.dirs.contains(path);
                }
                above = parent(above);
            }
        };
        let both = extra.into_iter().zip(left_alone);
        Ok(both.filter(|(path, kept)| !kept || in_the_way(path)).map(|(path, _)| path).collect())
    }

    /// Asks git with the target's `.gitignore` files, in a directory of their own.
    fn ignored_by(&self, target: &Target, paths: &[Vec<u8>]) -> Result<Vec<bool>, RestoreError> {
        let dir = self.place.git_dir.join("segue").join(format!("rules-{}", std::process::id()));
        let result = self.write_rules(target, &dir).and_then(|()| {
            let mut command = git::safe(&dir);
            command.env("GIT_DIR", &self.place.git_dir).env("GIT_WORK_TREE", &dir);
            Ok(ignored(command, paths.iter().map(Vec::as_slice))?)
        });
        let _ = std::fs::remove_dir_all(&dir);
        result
    }

    fn write_rules(&self, target: &Target, dir: &PathBuf) -> Result<(), RestoreError> {
        std::fs::create_dir_all(dir).map_err(|error| io_error(b".gitignore", error))?;
        for (path, (mode, id)) in &target.files {
            let name = path.rsplit(|&b| b == b'/').next();
            if name != Some(b".gitignore") || *mode == LINK {
                continue;
            }
            let mut command = self.reader();
            command.args(["cat-file", "blob", id]);
            let text = git::run(command)?;
            let inside = dir.join(git::path(parent(path)));
            std::fs::create_dir_all(&inside)
                .and_then(|()| std::fs::write(inside.join(".gitignore"), text))
                .map_err(|error| io_error(path, error))?;
        }
        Ok(())
    }
}

/// Directories of now that the target does not have.
fn to_remove(target: &Target, now: &Manifest, files: &BTreeMap<&[u8], Entry<'_>>) -> Vec<Vec<u8>> {
    let mut dirs: BTreeSet<Vec<u8>> = now.empty.clone();
    for path in files.keys().copied().chain(now.empty.iter().map(Vec::as_slice)) {
        let mut dir = parent(path);
        while !dir.is_empty() && dirs.insert(dir.to_vec()) {
            dir = parent(dir);
        }
    }
    let gone = dirs.into_iter().rev().filter(|dir| !target.dirs.contains(dir));
    gone.filter(|dir| !target.lost.iter().any(|lost| is_below(dir, lost))).collect()
}
