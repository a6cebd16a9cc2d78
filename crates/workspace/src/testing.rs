//! A real repository in a temporary directory, and ways to see that nothing else changed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Opened, Snapshots};

pub(crate) struct Lab {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) top: PathBuf,
}

impl Lab {
    pub(crate) fn plain() -> Lab {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&top).unwrap();
        Lab { dir, top }
    }

    pub(crate) fn unborn() -> Lab {
        let lab = Lab::plain();
        lab.git(&["init", "-q", "-b", "main"]);
        lab
    }

    pub(crate) fn new() -> Lab {
        let lab = Lab::unborn();
        lab.write("a.txt", "one\n");
        lab.write("src/lib.rs", "fn lib() {}\n");
        lab.write("src/deep/er/x.rs", "fn x() {}\n");
        lab.write(".gitignore", "*.log\n/build/\n");
        lab.commit("first");
        lab
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.top, args)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        write(&self.top.join(name), text);
    }

    pub(crate) fn write_bytes(&self, name: &[u8], text: &str) {
        write(&self.top.join(OsStr::from_bytes(name)), text);
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.top.join(name);
        if std::fs::symlink_metadata(&path).unwrap().is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }

    pub(crate) fn link(&self, name: &str, to: &str) {
        std::os::unix::fs::symlink(to, self.top.join(name)).unwrap();
    }

    pub(crate) fn mode(&self, name: &str, bits: u32) {
        let permissions = std::fs::Permissions::from_mode(bits);
        std::fs::set_permissions(self.top.join(name), permissions).unwrap();
    }

    pub(crate) fn open(&self) -> Snapshots {
        open(&self.top)
    }

    pub(crate) fn tree(&self) -> BTreeMap<String, String> {
        fingerprint(&self.top)
    }

    pub(crate) fn users(&self) -> BTreeMap<String, String> {
        users(&self.top)
    }
}

pub(crate) fn open(dir: &Path) -> Snapshots {
    match Snapshots::open(dir, "test").unwrap() {
        Opened::Ready(snapshots) => snapshots,
        Opened::Unable(why) => panic!("{why}"),
    }
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=T", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(args)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Type, permission bits and content of everything below a directory but `.git`.
pub(crate) fn fingerprint(top: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    visit(top, top, &mut all);
    all
}

fn visit(top: &Path, dir: &Path, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name() == Some(OsStr::new(".git")) {
            continue;
        }
        let name = crate::repo::escape(path.strip_prefix(top).unwrap().as_os_str().as_bytes());
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let bits = meta.permissions().mode() & 0o7777;
        if meta.is_symlink() {
            let to = std::fs::read_link(&path).unwrap();
            all.insert(name, format!("link {}", to.display()));
        } else if meta.is_dir() {
            all.insert(name, format!("dir {bits:o}"));
            visit(top, &path, all);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let text = if bytes.len() < 60 {
                crate::repo::escape(&bytes)
            } else {
                blake3::hash(&bytes).to_hex().to_string()
            };
            all.insert(name, format!("file {bits:o} {text}"));
        }
    }
}

/// Everything in the git directory that is the user's: index, HEAD, refs, stash, reflogs, settings.
pub(crate) fn users(top: &Path) -> BTreeMap<String, String> {
    let dir = PathBuf::from(git(top, &["rev-parse", "--absolute-git-dir"]));
    let mut all = BTreeMap::new();
    visit(&dir, &dir, &mut all);
    all.retain(|name, _| {
        let own = ["segue", "refs/segue", "objects", "modules"];
        !own.iter().any(|own| name == own || name.starts_with(&format!("{own}/")))
    });
    all
}
