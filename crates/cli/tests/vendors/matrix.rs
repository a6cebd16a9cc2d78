//! What the tests saw, one small file for each cell: `scripts/test` puts the table of docs/agents.md
//! together from them.

use std::{fs, path::PathBuf};

use segue_agents::vendor;
use segue_testkit::vendors::{Lab, matrix::DIR};

use crate::support::word;

/// A column of the table.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Start,
    OwnId,
    Stream,
    ToolCall,
    Usage,
    Limit(&'static str),
    /// Which fault, and how it was told.
    Crash(usize, String),
    KillAndResume,
    Resume,
    Fork,
    TwoAtOnce,
    Packet,
    LongPrompt(&'static str),
    Permission(&'static str),
}

/// Notes what was seen of an agent.
pub(crate) fn saw(lab: &Lab, cell: Cell) {
    let (name, value) = match cell {
        Cell::Start => ("start", "yes".to_owned()),
        Cell::OwnId => ("own id", "yes".to_owned()),
        Cell::Stream => ("stream", "yes".to_owned()),
        Cell::ToolCall => ("tool call", "yes".to_owned()),
        Cell::Usage => ("usage", "yes".to_owned()),
        Cell::Limit(how) => ("limit", how.to_owned()),
        Cell::Crash(0, how) => ("server error", how),
        Cell::Crash(_, how) => ("cut stream", how),
        Cell::KillAndResume => ("kill and resume", "yes".to_owned()),
        Cell::Resume => ("resume", "yes".to_owned()),
        Cell::Fork => ("fork", "yes".to_owned()),
        Cell::TwoAtOnce => ("two at once", "yes".to_owned()),
        Cell::Packet => ("packet", "yes".to_owned()),
        Cell::LongPrompt(how) => ("5 MiB prompt", how.to_owned()),
        Cell::Permission(how) => ("edit means", how.to_owned()),
    };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(DIR).join(word(lab.cli()));
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join(name), value).unwrap();
    let program = fs::canonicalize(lab.program(lab.cli())).unwrap();
    let version = vendor::npm_version(&program).unwrap();
    if let Some(tested) = vendor::find(word(lab.cli())).and_then(|vendor| vendor.card().tested) {
        assert_eq!(tested, version, "the tested version is the pinned one");
    }
    fs::write(dir.join("version"), version).unwrap();
}
