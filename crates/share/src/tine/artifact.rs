//! A `.tine` file as a document: read, brought to the present version, checked, written.
//!
//! ```text
//! {cache, created_at, format_version, graph: {order, steps: {id: step}}, manifest, metadata,
//!  policies, refs, run_id, status, transcript}
//! ```
//!
//! A digest over everything but `metadata` is in `metadata.integrity`. The id of a step is the
//! digest of what it says and of its parents' ids. What has another shape than this is no artifact.

use std::{fs::File, io::Read, path::Path};

use ring::digest::{SHA256, digest};

use super::{
    json::{BadJson, Map, Value, map},
    shape,
    wrap::{self, BadWrap, Codec},
    write::{canonical, pretty},
};

/// The version that is written.
pub const VERSION: u64 = 2;

/// A run as one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What the file says.
    pub(crate) source: Map,
    /// The same in the present version.
    pub(crate) run: Map,
    /// The version of the file: 0 is the list of steps of the very first one.
    pub version: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BadArtifact {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Wrap(#[from] BadWrap),
    #[error("{0}")]
    Json(#[from] BadJson),
    #[error("format version {0} is not known here")]
    Version(String),
    #[error("{0}")]
    Shape(String),
}

/// What is wrong with an artifact that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The first version of the format had none, and no ids that mean something.
    First,
    NoDigest,
    BadDigest(&'static str),
    Digest {
        expected: String,
        actual: String,
    },
    /// The id is not the one of what the step says.
    Step {
        id: String,
        actual: String,
    },
    /// The same, of a step that something was blacked out of after it had its id.
    Redacted {
        id: String,
    },
}

impl Finding {
    /// Whether it speaks against the artifact.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        !matches!(self, Self::First | Self::Redacted { .. })
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |id: &str| id.chars().take(12).collect::<String>();
        match self {
            Self::First => write!(
                f,
                "the first version of the format has no digest: there is nothing to check it by"
            ),
            Self::NoDigest => write!(f, "it has no digest"),
            Self::BadDigest(why) => write!(f, "its digest can't be checked: {why}"),
            Self::Digest { expected, actual } => {
                write!(f, "its digest is {}, and has to be {}", short(actual), short(expected))
            }
            Self::Step { id, actual } => {
                write!(f, "step {}: what it says has the id {}", short(id), short(actual))
            }
            Self::Redacted { id } => write!(
                f,
                "step {}: something was blacked out of it after it had its id, which can't be checked",
                short(id)
            ),
        }
    }
}

/// The mark in the place of what was blacked out.
const BLACKED_OUT: &str = "[REDACTED]";

impl Artifact {
    pub fn open(path: &Path) -> Result<Self, BadArtifact> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(BadArtifact::Shape("it is not a regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        file.take(wrap::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Self::read(bytes)
    }

    pub fn read(bytes: Vec<u8>) -> Result<Self, BadArtifact> {
        match Value::read(&wrap::unwrap(bytes)?)? {
            Value::Map(source) => Self::of(source),
            _ => Err(BadArtifact::Shape("it is not an object".to_owned())),
        }
    }

    /// The one that [`Artifact::document`] is of.
    pub(crate) fn read_document(document: &str) -> Result<Self, BadArtifact> {
        match Value::read_compact(document.as_bytes())? {
            Value::Map(source) => Self::of(source),
            _ => Err(BadArtifact::Shape("it is not an object".to_owned())),
        }
    }

    /// All that the file says, in the one form that means it.
    pub(crate) fn document(&self) -> String {
        canonical(&Value::Map(self.source.clone()))
    }

    /// The artifact of a document, brought to the present version and checked.
    pub(crate) fn of(source: Map) -> Result<Self, BadArtifact> {
        let version = version(&source)?;
        let mut run = match version {
            0 => shape::from_list(&source),
            _ => source.clone(),
        };
        if version < VERSION {
            run.insert("format_version".to_owned(), VERSION.into());
        }
        shape::check(&run).map_err(BadArtifact::Shape)?;
        Ok(Self { source, run, version })
    }

    /// A new one: its digest is put in.
    pub(crate) fn new(mut run: Map) -> Result<Self, BadArtifact> {
        let digest = Value::Text(digest_of(&run));
        let integrity = map([("algorithm", "sha256".into()), ("digest", digest)]);
        if let Some(Value::Map(metadata)) = run.get_mut("metadata") {
            metadata.insert("integrity".to_owned(), integrity.into());
        }
        Self::of(run)
    }

    /// The same as others read it who no longer read the first version.
    pub(crate) fn current(self) -> Result<Self, BadArtifact> {
        match self.version {
            0 => Self::new(self.run),
            _ => Ok(self),
        }
    }

    /// The bytes of a file.
    #[must_use]
    pub fn to_bytes(&self, codec: Codec) -> Vec<u8> {
        wrap::wrap(pretty(&Value::Map(self.source.clone())).as_bytes(), codec)
    }

    /// The bytes of a file that every reader takes. One that none takes is not written.
    pub(crate) fn file(&self, codec: Codec, most: usize) -> Result<Vec<u8>, BadArtifact> {
        let content = pretty(&Value::Map(self.source.clone()));
        can_be_read(content.as_bytes(), most)?;
        Ok(wrap::wrap(content.as_bytes(), codec))
    }

    #[must_use]
    pub fn run_id(&self) -> &str {
        self.run.get("run_id").and_then(Value::text).unwrap_or_default()
    }

    #[must_use]
    pub fn status(&self) -> &str {
        self.run.get("status").and_then(Value::text).unwrap_or_default()
    }

    /// Whether its manifest lets somebody go on with it.
    #[must_use]
    pub fn can_be_resumed(&self) -> bool {
        self.section("manifest").get("resume").is_some_and(Value::is_true)
    }

    /// Whether it is a copy that was made while the run was under way.
    #[must_use]
    pub fn is_draft(&self) -> bool {
        self.run.get("draft").is_some_and(Value::is_true)
    }

    /// The digest of the file's document, computed.
    #[must_use]
    pub fn digest(&self) -> String {
        digest_of(&self.source)
    }

    /// Its steps in their order.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &Map)> {
        let graph = self.section("graph");
        let order = graph.get("order").and_then(Value::list).unwrap_or_default();
        let steps = graph.get("steps").and_then(Value::map);
        order.iter().filter_map(move |id| Some((id.text()?, steps?.get(id.text()?)?.map()?)))
    }

    pub(crate) fn section(&self, name: &str) -> &Map {
        const NONE: &Map = &Map::new();
        self.run.get(name).and_then(Value::map).unwrap_or(NONE)
    }

    /// Everything that is wrong with it, signatures apart.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.check_digest();
        for (id, step) in self.steps() {
            let actual = step_id(step);
            if actual != id {
                findings.push(match blacked_out(step.values()) {
                    true => Finding::Redacted { id: id.to_owned() },
                    false => Finding::Step { id: id.to_owned(), actual },
                });
            }
        }
        findings
    }

    fn check_digest(&self) -> Vec<Finding> {
        if self.version == 0 {
            return vec![Finding::First];
        }
        let integrity = self.source.get("metadata").and_then(|data| data.get("integrity"));
        let Some(integrity) = integrity.and_then(Value::map) else {
            return vec![Finding::NoDigest];
        };
        if integrity.get("algorithm").and_then(Value::text) != Some("sha256") {
            return vec![Finding::BadDigest("its algorithm is not known")];
        }
        let expected = integrity.get("digest").and_then(Value::text).unwrap_or_default();
        if expected.len() != 64 || !expected.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return vec![Finding::BadDigest("it is no SHA-256")];
        }
        let actual = self.digest();
        match actual == expected {
            true => Vec::new(),
            false => vec![Finding::Digest { expected: expected.to_owned(), actual }],
        }
    }
}

/// The bounds that every reader has.
pub(crate) fn can_be_read(content: &[u8], most: usize) -> Result<(), BadArtifact> {
    if content.len() > most {
        return Err(BadWrap::TooLarge.into());
    }
    Ok(Value::can_be_read(content)?)
}

fn version(source: &Map) -> Result<u64, BadArtifact> {
    match source.get("format_version") {
        None if shape::is_list(source) => Ok(0),
        None => Err(BadArtifact::Version("(none)".to_owned())),
        Some(Value::Int(digits)) if digits == "1" || digits == "2" => {
            Ok(digits.parse().unwrap_or(VERSION))
        }
        Some(other) => Err(BadArtifact::Version(canonical(other).chars().take(20).collect())),
    }
}

fn digest_of(run: &Map) -> String {
    let body = run.iter().filter(|(key, _)| *key != "metadata");
    sha256(&body.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The id of a step, from what it says.
#[must_use]
pub fn step_id(step: &Map) -> String {
    // What is null, absent or empty is the same there.
    let object = |key: &str| step.get(key).filter(|value| value.map().is_some()).cloned();
    let object = |key| object(key).unwrap_or_else(|| Map::new().into());
    let parents = match (step.get("parent_ids"), step.get("parent_id")) {
        (Some(Value::List(parents)), _) => parents.clone(),
        (_, Some(Value::Text(parent))) if !parent.is_empty() => vec![parent.as_str().into()],
        _ => Vec::new(),
    };
    let said = |key: &str| step.get(key).cloned().unwrap_or_else(|| "".into());
    sha256(&map([
        ("error", object("error")),
        ("inputs", object("inputs")),
        ("kind", said("kind")),
        ("model_info", said("model_info")),
        ("outputs", object("outputs")),
        ("parent_ids", Value::List(parents)),
        ("tool_info", object("tool_info")),
    ]))
}

fn sha256(value: &Map) -> String {
    hex(digest(&SHA256, canonical(&Value::Map(value.clone())).as_bytes()).as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn blacked_out<'a>(values: impl Iterator<Item = &'a Value>) -> bool {
    let mut values: Vec<&Value> = values.collect();
    while let Some(value) = values.pop() {
        match value {
            Value::Text(text) if text.contains(BLACKED_OUT) => return true,
            Value::List(list) => values.extend(list),
            Value::Map(map) => values.extend(map.values()),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_reader_takes_is_not_written() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(can_be_read(deep(512).as_bytes(), 2000).is_ok());
        assert!(matches!(can_be_read(deep(513).as_bytes(), 2000), Err(BadArtifact::Json(_))));
        assert!(matches!(can_be_read(b"[]", 1), Err(BadArtifact::Wrap(BadWrap::TooLarge))));
        // A quarter of a million of them in as many bytes.
        let dense = "[".to_owned() + &"[],".repeat(80_000) + "[]]";
        assert!(matches!(can_be_read(dense.as_bytes(), 1 << 20), Err(BadArtifact::Json(_))));
        assert!(can_be_read("[],".repeat(60_000).as_bytes(), 1 << 20).is_ok());
    }
}
