//! The vendors' own session files, on their way to another machine.

use std::path::Path;

use segue_agents::vendor::{self, World};
use segue_journal::Session;
use segue_share::{Imported, VendorContent, VendorFile};

/// What the vendors have of a session and of its reviewers', as far as they let it travel.
pub(crate) fn pack(session: &Session) -> Vec<VendorFile> {
    let world = World::here();
    let mut files = Vec::new();
    let parts = session.parts().unwrap_or_default();
    let parts = parts.iter().flat_map(|(_, part)| &part.state().vendors);
    for known in session.state().vendors.iter().chain(parts) {
        let (Some(id), Some(vendor)) = (&known.id, vendor::find(&known.agent)) else { continue };
        let Ok(Some(found)) = vendor.history(&world, &known.cwd, id) else { continue };
        let name = found.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(bytes) = std::fs::read(&found.path) else { continue };
        if vendor.home_of(&world, &known.cwd, id, &name, &bytes).is_none() {
            continue;
        }
        files.push(VendorFile {
            agent: known.agent.clone(),
            id: id.clone(),
            name,
            content: VendorContent::Bytes(bytes),
        });
    }
    files
}

/// Puts the vendors' files where their programs look for them here. Returns whose could be placed.
pub(crate) fn unpack(done: &Imported, here: &Path) -> Vec<String> {
    let world = World::here();
    let mut placed: Vec<String> = Vec::new();
    for staged in &done.vendors {
        let entry = &staged.entry;
        let Some(vendor) = vendor::find(&entry.agent) else { continue };
        let Ok(bytes) = std::fs::read(&staged.file) else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !entry.id.chars().all(plain) || entry.name.contains('/') {
            continue;
        }
        let home = vendor.home_of(&world, here, &entry.id, &entry.name, &bytes);
        let Some(path) = home else { continue };
        // A session that is there already is the vendor's own, and may know more.
        if write_new(&path, &bytes).is_ok() && !placed.contains(&entry.agent) {
            placed.push(entry.agent.clone());
        }
    }
    placed
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
