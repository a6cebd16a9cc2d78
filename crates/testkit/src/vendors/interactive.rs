//! What the agents need besides [their settings](super::settings) to start at a terminal without a
//! question: that they were introduced to their user, and that they may work in a directory.
//!
//! The rest of a file that is there already is kept.

use std::{fs, io, path::Path};

use serde_json::{Value, json};

use super::settings::put;

/// Writes it into the agents' files below `home`, for these working directories. To be called after
/// [`Lab::start`](super::Lab::start), which writes the settings.
///
/// # Errors
/// When a file can't be read or written.
pub fn interactive(home: &Path, cwds: &[&Path]) -> io::Result<()> {
    change(&home.join(".claude.json"), |settings| {
        settings["hasCompletedOnboarding"] = json!(true);
        // The end of the key, at most twenty characters, as it remembers those it may use.
        settings["customApiKeyResponses"] = json!({ "approved": [super::KEY], "rejected": [] });
        for cwd in cwds {
            let cwd = cwd.to_string_lossy();
            settings["projects"][&*cwd]["hasTrustDialogAccepted"] = json!(true);
        }
    })?;
    change(&home.join(".copilot/config.json"), |settings| {
        settings["trustedFolders"] = json!(cwds);
    })?;
    let config = home.join(".codex/config.toml");
    let mut text = read(&config)?;
    for cwd in cwds {
        let table = format!("[projects.{}]", json!(cwd));
        if !text.contains(&table) {
            text.push_str(&format!("\n{table}\ntrust_level = \"trusted\"\n"));
        }
    }
    put(&config, &text)
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) -> io::Result<()> {
    let text = read(path)?;
    let mut settings = match text.trim() {
        "" => json!({}),
        text => serde_json::from_str(text)?,
    };
    change(&mut settings);
    put(path, &format!("{settings:#}\n"))
}

/// Nothing where there is no file.
fn read(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}
