//! Runs as files: `.tine`, `.segue`, and OpenTelemetry spans as `.json`.

use std::path::Path;

use jiff::Timestamp;
use segue_core::identity::RepoRef;
use segue_journal::Session;
use segue_share::{
    ExportOptions, ImportOptions,
    foreign::{self, Format},
    tine::Into,
};

use crate::{
    Run, Runs,
    error::{Error, Result},
};

/// Whether a path is a file that says of itself that a run is in it.
pub(crate) fn is_named(path: &Path) -> bool {
    Format::of_path(path).is_some() && path.is_file()
}

/// The run of a file, by what is in it: the one that it was saved from, where that is here and has
/// not gone on, else one that is made of it. Loading the same file again gives the same run, as long as
/// nobody has gone on with that.
pub(crate) fn load(runs: &Runs, path: &Path) -> Result<Run> {
    let wrong = |error: segue_share::Error| unfit(path, error.to_string());
    let (at, number) = match foreign::sniff(path).map_err(wrong)? {
        Format::Bundle => {
            let options = ImportOptions::default();
            let done = segue_share::import(path, runs.home(), &options, &mut |_| {});
            let done = done.map_err(wrong)?;
            (done.at.clone(), done.number)
        }
        format => {
            let workspace =
                std::env::current_dir().map_err(|error| unfit(path, error.to_string()))?;
            let repo = segue_workspace::identify(&workspace)
                .map_err(|error| Error::Other(error.to_string()))?;
            let segue_workspace::Repo { id, identity, head, branch, .. } = repo;
            let into = Into { repo: RepoRef { id, identity, head, branch }, workspace };
            let done = foreign::load(path, format, runs.home(), into).map_err(wrong)?;
            (done.at, done.number)
        }
    };
    runs.open(&runs.home().session_dir(&at), Some(number))
}

/// Writes a run by the ending of the file, which is replaced where it is there.
pub(crate) fn save(session: &Session, path: &Path, now: Timestamp) -> Result<()> {
    let wrong = |error: segue_share::Error| unfit(path, error.to_string());
    match Format::of_path(path) {
        None => Err(unfit(path, "a run is saved as .tine, .segue or .json".to_owned())),
        Some(Format::Bundle) => {
            let options = ExportOptions {
                force: true,
                number: None,
                home: std::env::var_os("HOME").map(std::path::PathBuf::from),
                segue: env!("CARGO_PKG_VERSION").to_owned(),
                now,
                vendor_files: Vec::new(),
            };
            segue_share::export(session, None, path, &options, &mut |_| {}).map_err(wrong)?;
            Ok(())
        }
        Some(format) => {
            foreign::write(session, path, format, true, None).map_err(wrong)?;
            Ok(())
        }
    }
}

fn unfit(path: &Path, message: String) -> Error {
    Error::File { path: path.to_owned(), message }
}
