//! A home with a session that has everything, and bundles made by hand.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use segue_core::{
    Identity, SessionId,
    event::{Draft, SessionCreated, SessionNamed, WarningRaised},
};
use segue_journal::{
    Durability, Home, LockedSession, RealDisk, Session,
    home::Located,
    line::{self, Link, Place},
    lock::Holder,
    session::{IDENTITY, JOURNAL},
    stream::Voice,
    system_clock,
};
use segue_share::{
    ExportOptions, Exported, FileEntry, ImportOptions, Imported, Manifest, Progress, VendorContent,
    VendorFile, export, import,
};
use tempfile::TempDir;

pub(crate) const ID: &str = "01M7GHH13XK50TNXR82WW3N941";
pub(crate) const REPO: &str = "app-0123456789";

pub(crate) fn id() -> SessionId {
    ID.parse().unwrap()
}

pub(crate) fn at() -> Located {
    Located { repo: REPO.to_owned(), id: id() }
}

pub(crate) fn me() -> Holder {
    Holder { pid: 1, host: "box".to_owned(), since: jiff::Timestamp::UNIX_EPOCH }
}

pub(crate) fn home(dir: &Path) -> Home {
    Home::new(Arc::new(RealDisk), dir.to_owned())
}

/// The identity as its JSON, so that new fields of it change nothing here.
pub(crate) fn identity(id: &str, repo: &str) -> Identity {
    let json = serde_json::json!({
        "v": 1, "id": id, "created_at": "2026-11-15T21:24:03Z",
        "repo": {"id": repo, "identity": "example.org/app"},
        "workspace": "/home/ann/app", "loop": "solo", "agent": "native",
        "prompt": {"text": "Mend it"}, "segue": "0.1.0",
    });
    serde_json::from_value(json).unwrap()
}

pub(crate) fn first_line(identity: &Identity, id: SessionId) -> Vec<u8> {
    let mut journal = Vec::new();
    let place = Place { seq: 1, prev: Link::first(id), synced: 0 };
    let draft = Draft::from(SessionCreated { identity: identity.clone().into() });
    line::encode(&draft, place, identity.created_at, &mut journal).unwrap();
    journal
}

/// A session with blobs, streams, a packet, a torn tail set aside, a cache and a lock.
pub(crate) fn make(home: &Home) -> PathBuf {
    let dir = home.session_dir(&at());
    fs::create_dir_all(&dir).unwrap();
    let identity = identity(ID, REPO);
    fs::write(dir.join(IDENTITY), serde_json::to_vec_pretty(&identity).unwrap()).unwrap();
    fs::write(dir.join(JOURNAL), first_line(&identity, id())).unwrap();
    let mut locked = lock(home);
    locked.append(SessionNamed { name: "lim".to_owned() }, Durability::Soon).unwrap();
    for n in 0..12 {
        let text = noise(n, 9000);
        let payload = locked.payload(&text).unwrap();
        assert!(payload.blob.is_some());
        let draft = segue_core::event::TextWritten { text: payload, partial: false };
        locked.append(draft, Durability::Soon).unwrap();
    }
    warn(&mut locked, "the last one");
    let mut stream = locked.stream(1, "native", Voice::Out).unwrap();
    stream.write(noise(99, 50_000).as_bytes()).unwrap();
    locked.stream(1, "native", Voice::Err).unwrap().write(b"\xff\x00 oh\n").unwrap();
    locked.text_file("gemini-policy.toml", "x = 1\n").unwrap();
    drop(locked);
    fs::write(dir.join("resume.json"), b"{\"v\":1}\n").unwrap();
    fs::write(dir.join("journal.torn-9"), b"{\"v\":1,\"se").unwrap();
    fs::create_dir(dir.join("inbox")).unwrap();
    fs::write(dir.join("inbox/1"), b"not to be told").unwrap();
    fs::write(dir.join("blobs/.x.tmp"), b"not whole").unwrap();
    assert!(dir.join("state.json").exists() && dir.join("lock").exists());
    home.give_number(&at()).unwrap();
    dir
}

pub(crate) fn lock(home: &Home) -> LockedSession {
    home.open(&at()).unwrap().lock(&me(), system_clock()).unwrap().0
}

pub(crate) fn warn(locked: &mut LockedSession, text: &str) {
    let message = text.to_owned();
    locked.append(WarningRaised { message }, Durability::Synced).unwrap();
}

/// Text that does not compress to nothing.
pub(crate) fn noise(seed: u64, len: usize) -> String {
    let mut random = Random(seed);
    std::iter::repeat_with(|| char::from(b' ' + (random.next() % 90) as u8)).take(len).collect()
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

pub(crate) fn options() -> ExportOptions {
    ExportOptions {
        force: false,
        number: Some(7),
        home: Some("/home/ann".into()),
        segue: "0.1.0".to_owned(),
        now: "2026-11-16T00:00:00Z".parse().unwrap(),
        vendor_files: vec![VendorFile {
            agent: "claude".to_owned(),
            id: "e0e45e0b".to_owned(),
            name: format!("projects/{}/a b.jsonl", "-home-ann-app".repeat(15)),
            content: VendorContent::Bytes(b"{}\n".to_vec()),
        }],
    }
}

pub(crate) fn quiet(_: Progress) {}

pub(crate) struct Made {
    pub(crate) tmp: TempDir,
    pub(crate) home: Home,
    pub(crate) dir: PathBuf,
    pub(crate) bundle: PathBuf,
    pub(crate) exported: Exported,
}

/// A session and its bundle.
pub(crate) fn made() -> Made {
    let tmp = TempDir::new().unwrap();
    let home = home(&tmp.path().join("from"));
    let dir = make(&home);
    let bundle = tmp.path().join("x.segue");
    let session = home.open(&at()).unwrap();
    let exported = export(&session, None, &bundle, &options(), &mut quiet).unwrap();
    Made { tmp, home, dir, bundle, exported }
}

pub(crate) fn take(bundle: &Path, home: &Home) -> segue_share::Result<Imported> {
    import(bundle, home, &ImportOptions::default(), &mut quiet)
}

/// Every file below a directory, with its bytes.
pub(crate) fn tree(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                found.insert(format!("{name}/"), Vec::new());
                walk(root, &path, found);
            } else {
                found.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found);
    found
}

/// What of a session travels.
pub(crate) fn carried(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = tree(dir);
    files.retain(|name, _| {
        !name.ends_with('/')
            && !["lock", "state.json", "blobs/.x.tmp"].contains(&name.as_str())
            && !name.starts_with("inbox")
    });
    files
}

/// One tar entry made by hand.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) link: &'static str,
    pub(crate) size: u64,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    pub(crate) fn file(name: &str, body: &[u8]) -> Self {
        let name = name.as_bytes().to_vec();
        Self { name, kind: b'0', link: "", size: body.len() as u64, body: body.to_vec() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut header = tar::Header::new_ustar();
        let mut out = Vec::new();
        if self.name.len() <= 100 {
            header.as_old_mut().name[..self.name.len()].copy_from_slice(&self.name);
        } else {
            let mut name = self.name.clone();
            name.push(0);
            let long = Self { kind: b'L', ..Self::file("././@LongLink", &name) };
            out.extend(long.bytes());
        }
        header.as_old_mut().linkname[..self.link.len()].copy_from_slice(self.link.as_bytes());
        header.set_size(self.size);
        header.set_mode(0o600);
        header.as_old_mut().linkflag = [self.kind];
        header.set_cksum();
        out.extend(header.as_bytes());
        out.extend(&self.body);
        out.resize(out.len().div_ceil(512) * 512, 0);
        out
    }
}

pub(crate) fn squeeze(tar: &[u8]) -> Vec<u8> {
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
    zstd.include_checksum(true).unwrap();
    zstd.write_all(tar).unwrap();
    zstd.finish().unwrap()
}

/// A bundle in parts, to be put together wrongly.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) manifest: Manifest,
    pub(crate) entries: Vec<Raw>,
}

impl Parts {
    pub(crate) fn of(bundle: &Path) -> Self {
        let tar = zstd::decode_all(fs::File::open(bundle).unwrap()).unwrap();
        let mut archive = tar::Archive::new(&tar[..]);
        let mut entries = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut body = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut body).unwrap();
            entries.push(Raw::file(std::str::from_utf8(&entry.path_bytes()).unwrap(), &body));
        }
        let manifest = serde_json::from_slice(&entries.remove(0).body).unwrap();
        Self { manifest, entries }
    }

    pub(crate) fn tar(&self) -> Vec<u8> {
        let json = serde_json::to_vec(&self.manifest).unwrap();
        let mut tar = Raw::file("bundle.json", &json).bytes();
        tar.extend(self.entries.iter().flat_map(Raw::bytes));
        tar.extend([0; 1024]);
        tar
    }

    pub(crate) fn pack(&self) -> Vec<u8> {
        squeeze(&self.tar())
    }

    /// Adds a file, and lists it.
    pub(crate) fn add(&mut self, raw: Raw) {
        self.manifest.files.push(FileEntry {
            path: String::from_utf8_lossy(&raw.name).into_owned(),
            size: raw.body.len() as u64,
            blake3: blake3::hash(&raw.body).to_hex().to_string(),
        });
        self.entries.push(raw);
    }

    /// Puts other bytes in the place of a file's, and lists them.
    pub(crate) fn swap(&mut self, name: &str, body: &[u8]) {
        let n = self.entries.iter().position(|raw| raw.name == name.as_bytes()).unwrap();
        self.entries.remove(n);
        self.manifest.files.retain(|file| file.path != name);
        self.add(Raw::file(name, body));
    }

    pub(crate) fn entry(&mut self, name: &str) -> &mut Raw {
        self.entries.iter_mut().find(|raw| raw.name == name.as_bytes()).unwrap()
    }

    pub(crate) fn body(&self, name: &str) -> Vec<u8> {
        self.entries.iter().find(|raw| raw.name == name.as_bytes()).unwrap().body.clone()
    }
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"])
        .args(["-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

pub(crate) fn open(home: &Home) -> Session {
    home.open(&at()).unwrap()
}
