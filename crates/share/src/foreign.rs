//! Sessions in other formats than our own: which one a file has, and both directions.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

use segue_journal::{Home, Session};

use crate::{
    error::{At, Error, Result},
    otel,
    target::{Temporary, check_target},
    tine::{
        self, Artifact, BadArtifact, Codec, Into, Signing, Taken, Trust, Verdict,
        artifact::can_be_read, json::Value, wrap,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own: everything that going on elsewhere needs.
    Bundle,
    /// A portable artifact, shared with another implementation.
    Tine,
    /// OpenTelemetry spans with the conventions for generative AI, as JSON.
    Otel,
}

impl Format {
    /// The format that a name ends in.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "segue" => Some(Self::Bundle),
            "tine" => Some(Self::Tine),
            "json" | "jsonl" => Some(Self::Otel),
            _ => None,
        }
    }

    /// What a name in this format ends in.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Bundle => "segue",
            Self::Tine => "tine",
            Self::Otel => "otel.json",
        }
    }
}

/// The format of a file, by what is in it. What is neither of the others is what its name says, or
/// counts as a bundle: the reader of that says what is wrong.
pub fn sniff(path: &Path) -> Result<Format> {
    let mut head = Vec::new();
    File::open(path).at(path)?.take(4096).read_to_end(&mut head).at(path)?;
    if wrap::is_wrapped(&head) {
        return Ok(Format::Tine);
    }
    let named = Format::of_path(path);
    let text = String::from_utf8_lossy(&head);
    match text.trim_start_matches('\u{feff}').trim_start().chars().next() {
        Some('{' | '[') => {}
        _ if named == Some(Format::Tine) => return Ok(Format::Tine),
        _ => return Ok(Format::Bundle),
    }
    if named == Some(Format::Tine) {
        return Ok(Format::Tine);
    }
    let bytes = read(path)?;
    match Value::read(&bytes) {
        Ok(value) if value.get("graph").is_some() || value.get("steps").is_some() => {
            Ok(Format::Tine)
        }
        _ => Ok(Format::Otel),
    }
}

/// What is demanded of a file before it counts.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    pub trust: Option<Trust>,
    /// A file without a good signature is refused.
    pub signed: bool,
}

/// Reads an artifact, also one that is told as spans. Nothing of it has been checked but its shape.
pub fn open(path: &Path, format: Format) -> Result<Artifact> {
    match format {
        Format::Otel => otel::artifact(&read(path)?)
            .map_err(|why| Error::BadArtifact { path: path.to_owned(), why }),
        Format::Tine | Format::Bundle => tine::open(path),
    }
}

/// Brings the run of a file into a home, once everything in it has been checked.
pub fn import(
    path: &Path,
    format: Format,
    home: &Home,
    into: Into,
    demand: &Demand,
) -> Result<(Taken, Verdict)> {
    let (artifact, verdict) = checked(path, format, demand)?;
    Ok((tine::place(&artifact, home, into)?, verdict))
}

/// The session that is meant by a file: the one that it was written from, where that is here and
/// tells the same; else one that is made of it.
pub fn load(path: &Path, format: Format, home: &Home, into: Into) -> Result<Taken> {
    let (artifact, _) = checked(path, format, &Demand::default())?;
    match tine::written_from(&artifact, home)? {
        Some(here) => Ok(here),
        None => tine::place(&artifact, home, into),
    }
}

fn checked(path: &Path, format: Format, demand: &Demand) -> Result<(Artifact, Verdict)> {
    let artifact = open(path, format)?;
    let wrong = artifact.findings().into_iter().filter(|finding| finding.is_wrong());
    let wrong: Vec<String> = wrong.map(|finding| finding.to_string()).collect();
    if !wrong.is_empty() {
        return Err(Error::Unsound { path: path.to_owned(), findings: wrong });
    }
    let verdict = artifact.signature(demand.trust.as_ref());
    if (demand.signed || demand.trust.is_some()) && !verdict.is_good() {
        let why = format!("signature {}: {}", verdict.state.word(), verdict.reason);
        return Err(Error::Unsigned { path: path.to_owned(), why });
    }
    Ok((artifact, verdict))
}

/// Writes a session into a file: there whole, or not at all.
pub fn write(
    session: &Session,
    path: &Path,
    format: Format,
    force: bool,
    signing: Option<&Signing>,
) -> Result<u64> {
    write_within(wrap::MAX_BYTES, session, path, format, force, signing)
}

/// What would be more than so many bytes is not written.
fn write_within(
    most: usize,
    session: &Session,
    path: &Path,
    format: Format,
    force: bool,
    signing: Option<&Signing>,
) -> Result<u64> {
    check_target(path, force)?;
    let mut artifact = tine::tell(session)?;
    if let Some(signing) = signing {
        artifact.sign(signing)?;
    }
    let unreadable =
        |error: BadArtifact| Error::TooMuch { path: path.to_owned(), why: error.to_string() };
    let bytes = match format {
        Format::Otel => {
            let document = otel::document(&artifact).into_bytes();
            can_be_read(&document, most).map_err(unreadable)?;
            document
        }
        Format::Tine | Format::Bundle => {
            artifact.file(Codec::default(), most).map_err(unreadable)?
        }
    };
    let mut temporary = Temporary::beside(path)?;
    temporary.file.write_all(&bytes).at(path)?;
    temporary.publish(path, force)?;
    Ok(bytes.len() as u64)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).at(path)?;
    file.take(wrap::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).at(path)?;
    match bytes.len() > wrap::MAX_BYTES {
        true => {
            Err(Error::BadArtifact { path: path.to_owned(), why: "it is too large".to_owned() })
        }
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use segue_core::identity::RepoRef;
    use segue_journal::{Home, RealDisk, home::NewSession, lock::Holder, system_clock};

    use super::*;

    #[test]
    fn what_nobody_could_read_is_not_exported() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(Arc::new(RealDisk), dir.path().join("home"));
        let repo = RepoRef { id: "app".into(), identity: "app".into(), head: None, branch: None };
        let new = NewSession::new(repo, dir.path().into(), "native".into(), "Mend it".into());
        let me = Holder { pid: 1, host: "box".into(), since: jiff::Timestamp::UNIX_EPOCH };
        let made = home.create(new, &me, &system_clock()).unwrap().0;
        let path = dir.path().join("x.tine");
        let within = |most: usize, format: Format, force: bool| {
            write_within(most, made.session(), &path, format, force, None)
        };
        for format in [Format::Tine, Format::Otel] {
            let error = within(300, format, false).unwrap_err();
            assert!(matches!(&error, Error::TooMuch { path: at, .. } if *at == path), "{error}");
            assert!(!path.exists());
            within(100_000, format, false).unwrap();
            // What was there stays.
            let before = fs::read(&path).unwrap();
            assert!(matches!(within(300, format, true), Err(Error::TooMuch { .. })));
            assert_eq!(fs::read(&path).unwrap(), before);
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }
}
