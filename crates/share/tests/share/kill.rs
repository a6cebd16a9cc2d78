//! Exports and imports in a process of their own that is killed: at every call to the disk, at
//! every step, and at any time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use segue_journal::{
    Disk, Home, RealDisk,
    disk::{DiskFile, LockFile, Stat},
};
use segue_share::{ExportOptions, ImportOptions, export, import};

use crate::support::*;

fn die() -> ! {
    let _ = Command::new("kill").args(["-9", &std::process::id().to_string()]).status();
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The disk of this machine, which kills its process before the nth call that changes something.
#[derive(Debug)]
struct Deadly {
    left: Arc<AtomicU64>,
}

fn step(left: &AtomicU64) {
    if left.fetch_sub(1, Ordering::Relaxed) == 1 {
        die();
    }
}

#[derive(Debug)]
struct DeadlyFile {
    inner: Box<dyn DiskFile>,
    left: Arc<AtomicU64>,
}

impl DiskFile for DeadlyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(&self.left);
        self.inner.write(bytes)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        step(&self.left);
        self.inner.set_len(len)
    }
    fn sync(&mut self) -> io::Result<()> {
        step(&self.left);
        self.inner.sync()
    }
}

impl Deadly {
    fn file(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(DeadlyFile { inner, left: Arc::clone(&self.left) })
    }
}

impl Disk for Deadly {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open(path)
    }
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        step(&self.left);
        Ok(self.file(RealDisk.append(path)?))
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        step(&self.left);
        Ok(self.file(RealDisk.create_new(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.hard_link(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.remove_file(path)
    }
    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.remove_dir_all(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.create_dir_all(path)
    }
    fn write_again(&self, path: &Path, from: u64) -> io::Result<()> {
        step(&self.left);
        RealDisk.write_again(path, from)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        step(&self.left);
        RealDisk.sync_dir(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(path)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        RealDisk.stat(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockFile>>> {
        step(&self.left);
        RealDisk.try_lock(path)
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        RealDisk.is_locked(path)
    }
}

/// What the killed process does. Run by the tests below, in this same program.
#[test]
#[ignore = "the other side of the kill tests"]
fn child() {
    let Ok(order) = std::env::var("SEGUE_SHARE_CHILD") else { return };
    let mut words = order.split('\n');
    let mut next = || words.next().unwrap().to_owned();
    let (what, bundle, dir, steps) = (next(), PathBuf::from(next()), PathBuf::from(next()), next());
    let left = Arc::new(AtomicU64::new(steps.parse().unwrap()));
    if what == "import" {
        let home = Home::new(Arc::new(Deadly { left }), dir);
        drop(import(&bundle, &home, &ImportOptions::default(), &mut quiet).unwrap());
    } else {
        let options = ExportOptions { force: what == "replace", ..options() };
        export(&open(&home(&dir)), None, &bundle, &options, &mut |_| step(&left)).unwrap();
    }
}

fn spawn(what: &str, bundle: &Path, dir: &Path, steps: u64) -> Child {
    let order = format!("{what}\n{}\n{}\n{steps}", bundle.display(), dir.display());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--ignored", "--nocapture", "--test-threads=1"])
        .env("SEGUE_SHARE_CHILD", order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// After a kill: the session is whole or not there, and the next import completes.
fn import_completes(made: &Made, dir: &Path, what: &str) {
    let there = home(dir);
    if there.session_dir(&at()).exists() {
        assert_eq!(carried(&there.session_dir(&at())), carried(&made.dir), "{what}");
    }
    let imported = take(&made.bundle, &there).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(imported.number, 1, "{what}");
    drop(imported);
    assert_eq!(carried(&there.session_dir(&at())), carried(&made.dir), "{what}");
    let repo = fs::read_dir(dir.join("sessions").join(REPO)).unwrap();
    assert_eq!(repo.count(), 1, "{what}: something was left behind");
}

#[test]
fn an_import_killed_at_every_call() {
    let made = made();
    let mut kills = 0;
    for n in 1.. {
        let dir = made.tmp.path().join(format!("to-{n}"));
        let done = spawn("import", &made.bundle, &dir, n).wait().unwrap();
        import_completes(&made, &dir, &format!("call {n}"));
        fs::remove_dir_all(&dir).unwrap();
        if done.success() {
            break;
        }
        kills += 1;
    }
    println!("{kills} kills of an import, one at each call");
    assert!(kills > 50);
}

#[test]
fn an_import_killed_at_any_time() {
    let made = made();
    let mut random = Random(7);
    let mut killed = 0;
    let dir = made.tmp.path().join("to");
    for n in 0..60 {
        let mut child = spawn("import", &made.bundle, &dir, u64::MAX);
        std::thread::sleep(Duration::from_micros(random.next() % 24_000));
        child.kill().unwrap();
        killed += u64::from(!child.wait().unwrap().success());
        // Several kills, then one that is let be.
        if n % 3 == 2 {
            import_completes(&made, &dir, &format!("kill {n}"));
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    println!("{killed} of 60 imports killed at any time");
}

/// After a kill: no target or a whole one, and the next export completes.
fn export_completes(made: &Made, out: &Path, old: Option<&[u8]>, what: &str) {
    let found = fs::read(out).ok();
    let whole = fs::read(&made.bundle).unwrap();
    let fine = found.as_deref() == old || found.as_deref() == Some(&whole[..]);
    assert!(fine, "{what}: a partial bundle");
    let options = ExportOptions { force: true, ..options() };
    export(&open(&made.home), None, out, &options, &mut quiet).unwrap();
    assert_eq!(fs::read(out).unwrap(), whole, "{what}");
    let names = fs::read_dir(out.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "{what}: something was left behind");
}

#[test]
fn an_export_killed_at_every_step_and_at_any_time() {
    let made = made();
    let before = tree(made.home.dir());
    let dir = made.tmp.path().join("out");
    fs::create_dir(&dir).unwrap();
    let out = dir.join("y.segue");
    let mut kills = 0;
    for n in 1.. {
        let done = spawn("export", &out, made.home.dir(), n).wait().unwrap();
        export_completes(&made, &out, None, &format!("step {n}"));
        fs::remove_file(&out).unwrap();
        if done.success() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 30);
    let mut random = Random(8);
    let mut timed = 0;
    for n in 0..60 {
        // Over an old one, too.
        let old = (n % 2 == 0).then_some(&b"old"[..]);
        if let Some(old) = old {
            fs::write(&out, old).unwrap();
        }
        let mut child = spawn("replace", &out, made.home.dir(), u64::MAX);
        std::thread::sleep(Duration::from_micros(random.next() % 10_000));
        child.kill().unwrap();
        timed += u64::from(!child.wait().unwrap().success());
        export_completes(&made, &out, old, &format!("kill {n}"));
        fs::remove_file(&out).unwrap();
    }
    println!("{kills} kills of an export at each step, {timed} of 60 at any time");
    assert_eq!(tree(made.home.dir()), before);
}
