//! Lets an adapter hear what its vendor's program once printed. The lines are records of the real
//! programs against a scripted model, without the vendors' own prompts.

use std::path::{Path, PathBuf};

use segue_agents::vendor::{
    CallMade, Conversation, Ending, Heard, Job, LastTurn, Signal, ToolEnd, Trouble, Vendor, World,
};
use segue_core::{Permission, usage::Usage};

pub(crate) const ID: &str = "00000003-aaaa-4aaa-8aaa-000000000003";

pub(crate) fn record(vendor: &str, name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams").join(vendor);
    std::fs::read(dir.join(name)).unwrap()
}

pub(crate) fn job<'a>(world: &'a World, conversation: Conversation<'a>) -> Job<'a> {
    Job {
        prompt: "Say hello, please.",
        cwd: Path::new("/work"),
        conversation,
        permission: Permission::Edit,
        model: None,
        extra: &[],
        world,
        files: Path::new("files"),
        tools: None,
    }
}

/// Everything that was meant: by the record of that name, its standard error before that, and the
/// exit status.
pub(crate) fn all(
    vendor: &dyn Vendor,
    world: &World,
    conversation: Conversation<'_>,
    name: &str,
    exit: Option<i32>,
) -> Vec<Signal> {
    let job = job(world, conversation);
    let mut dialogue = vendor.dialogue(&job);
    let opening = dialogue.open();
    assert_eq!((opening.bytes.as_slice(), opening.close), (job.prompt.as_bytes(), true));
    let mut heard = Heard::default();
    let dir = vendor.card().name;
    let errors =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/streams/{dir}/{name}.stderr"));
    for line in std::fs::read_to_string(errors).unwrap_or_default().lines() {
        dialogue.error_line(line, &mut heard);
    }
    for line in record(&dir, &format!("{name}.jsonl")).split(|byte| *byte == b'\n') {
        if !line.is_empty() {
            dialogue.line(line, &mut heard).unwrap();
        }
    }
    dialogue.exited(exit, &mut heard);
    assert!(heard.say.is_empty() && !heard.close);
    heard.signals
}

/// The same for a new conversation, without what is only for the eye.
pub(crate) fn told(vendor: &dyn Vendor, name: &str, exit: Option<i32>) -> Vec<Signal> {
    let world = World::default();
    solid(all(vendor, &world, Conversation::New { id: ID }, name, exit))
}

pub(crate) fn solid(signals: Vec<Signal>) -> Vec<Signal> {
    let solid = |signal: &Signal| !matches!(signal, Signal::Writing(_) | Signal::Thinking);
    signals.into_iter().filter(solid).collect()
}

/// The only end there is, and it is the last thing that was meant.
pub(crate) fn ending(signals: &[Signal]) -> &Ending {
    let ends = signals.iter().filter(|signal| matches!(signal, Signal::Ended(_)));
    assert_eq!(ends.count(), 1, "{signals:#?}");
    match signals.last() {
        Some(Signal::Ended(ending)) => ending,
        _ => panic!("something comes after the end: {signals:#?}"),
    }
}

pub(crate) fn texts(signals: &[Signal]) -> Vec<&str> {
    let texts = signals.iter().filter_map(|signal| match signal {
        Signal::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

pub(crate) fn retries(signals: &[Signal]) -> Vec<&Signal> {
    signals.iter().filter(|signal| matches!(signal, Signal::Retrying { .. })).collect()
}

pub(crate) fn returned(signals: &[Signal]) -> Vec<&ToolEnd> {
    let ends = signals.iter().filter_map(|signal| match signal {
        Signal::ToolReturned(end) => Some(end),
        _ => None,
    });
    ends.collect()
}

/// All tokens together.
pub(crate) fn used(signals: &[Signal]) -> Usage {
    let mut all = Usage::default();
    for signal in signals {
        if let Signal::Used { usage, .. } = signal {
            all += *usage;
        }
    }
    all
}

pub(crate) fn limit(message: &str, quota: bool, retry_after: Option<u64>) -> Trouble {
    let retry_after = retry_after.map(std::time::Duration::from_millis);
    Trouble::Limit { message: message.to_owned(), resets_at: None, retry_after, quota }
}

pub(crate) fn last(prompt: &str, texts: &[&str], calls: &[(&str, bool)]) -> LastTurn {
    LastTurn {
        prompt: prompt.to_owned(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        calls: calls
            .iter()
            .map(|(id, answered)| CallMade { id: (*id).to_owned(), answered: *answered })
            .collect(),
    }
}

/// A home of a test.
pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) world: World,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = World { home: dir.path().to_owned(), ..World::default() };
        Self { dir, world }
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

pub(crate) fn args(vendor: &dyn Vendor, job: &Job<'_>) -> String {
    vendor.call(job).shown()
}

pub(crate) fn envs(vendor: &dyn Vendor, job: &Job<'_>) -> Vec<(&'static str, String, bool)> {
    vendor.call(job).env.into_iter().map(|v| (v.name, v.value, v.keep)).collect()
}
