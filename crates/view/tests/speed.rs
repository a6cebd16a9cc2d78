//! How long a list takes: `cargo test --release -p segue-view --test speed -- --ignored --nocapture`.

mod common;

use std::{fs, time::Instant};

use common::{at, home, new, stopped};
use segue_core::{
    Identity, Payload, SessionId,
    event::{Draft, Reason, SessionCreated, TextWritten},
    identity,
};
use segue_journal::{
    Home,
    home::Located,
    line::{self, Link, Place},
};
use segue_view::{Filter, Index, Style, table::list_table};

const SESSIONS: u64 = 10_000;
const REPOS: u64 = 20;

/// Writes a session without syncing anything: ten thousand would take minutes.
fn write(home: &Home, n: u64) {
    let new = new(&format!("repo-{}", n % REPOS), &format!("prompt number {n}: make it so"));
    let id = SessionId::from_parts(1_800_000_000_000 + n, u128::from(n) * 7919);
    let place = Located { repo: new.repo.id.clone(), id };
    let identity = Identity {
        v: identity::VERSION,
        id,
        created_at: at(0),
        repo: new.repo,
        workspace: new.workspace,
        loop_kind: new.loop_kind,
        agent: new.agent,
        model: new.model,
        prompt: Payload::inline(new.prompt),
        proof: None,
        caps: new.caps,
        lineage: None,
        segue: new.segue,
    };
    let mut drafts = vec![Draft::from(SessionCreated { identity }), common::started().into()];
    drafts.extend((0..10).map(|_| TextWritten { text: Payload::inline("words ".repeat(20)) }.into()));
    drafts.push(stopped(Reason::Done).into());
    let (mut journal, mut prev) = (Vec::new(), Link::first(id));
    for (seq, draft) in (1..).zip(&drafts) {
        let second = i64::try_from(n).unwrap();
        prev = line::encode(draft, Place { seq, prev, synced: 0 }, at(second), &mut journal).unwrap();
    }
    let dir = home.session_dir(&place);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("journal.jsonl"), journal).unwrap();
    fs::write(dir.join("lock"), "").unwrap();
    fs::write(home.dir().join(format!("numbers/{}", n + 1)), format!("{}/{id}\n", place.repo)).unwrap();
}

#[test]
#[ignore = "a measurement"]
fn ten_thousand_sessions() {
    let temp = tempfile::tempdir().unwrap();
    let home = home(temp.path());
    fs::create_dir_all(home.dir().join("numbers")).unwrap();
    (0..SESSIONS).for_each(|n| write(&home, n));
    let list = |what: &str| {
        let start = Instant::now();
        let mut index = Index::open(&home).unwrap();
        let opened = start.elapsed();
        index.refresh().unwrap();
        let refreshed = start.elapsed();
        let filter = Filter { limit: Some(20), ..Filter::default() };
        let listing = index.query(&filter).unwrap();
        let table = list_table(&listing.rows, &Style::plain(100), at(20_000));
        assert_eq!((table.lines().count(), listing.more), (21, true));
        assert_eq!(index.take_notes(), Vec::<String>::new());
        println!("{what}: open {opened:?}, refreshed {refreshed:?}, listed {:?}", start.elapsed());
    };
    list("cold");
    (0..5).for_each(|_| list("warm"));
    write(&home, SESSIONS);
    list("one new");
    list("warm");
    let mut index = Index::open(&home).unwrap();
    index.refresh().unwrap();
    let start = Instant::now();
    let filter = Filter { status: vec!["crashed".parse().unwrap()], ..Filter::default() };
    assert_eq!(index.query(&filter).unwrap().rows.len(), 0);
    println!("a status that nobody has: {:?}", start.elapsed());
    let size = fs::metadata(home.dir().join("index.db")).unwrap().len();
    println!("index.db: {size} bytes");
}
