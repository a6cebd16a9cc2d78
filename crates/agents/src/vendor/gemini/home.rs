//! A home for one run, in which there is one thing more than in the user's own: our tools.
//!
//! It has no flag for a server of tools, only settings; but it has a variable for its home. This one
//! is a directory of links: whatever it reads and writes is the user's own file, sessions included.
//! Our server is an extension, so that no setting of the user's (there may be keys among them) has
//! to be copied.
//!
//! What it writes, it writes through a link, also through one whose file is not there yet. It puts
//! a new file in the place of the old one in two cases only. The folders that are trusted have a
//! variable of their own. `projects.json`, with the names of working directories, then misses a
//! directory that is new; but each of them also has its path in `tmp/<name>/.project_root`, which
//! decides, and from which it finds the name again.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{config_dir, real_home};
use crate::vendor::{Call, Job};

const HOME: &str = "gemini-home";
const EXTENSION: &str = "gemini-home/.gemini/extensions/segue-run/gemini-extension.json";
const ORIGIN: &str = "gemini-home/.gemini/extensions/segue-run/.gemini-extension-install.json";

/// What it may write for the first time in this run.
const FILES: [&str; 9] = [
    "GEMINI.md",
    "a2a-oauth-tokens.json",
    "gemini-credentials.json",
    "google_accounts.json",
    "installation_id",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
    "settings.json",
    "state.json",
];
const DIRS: [&str; 2] = ["history", "tmp"];

/// Rules that let the model use our tools, whatever else it may do.
pub(crate) const POLICY: &str = "
[[rule]]
mcpName = \"segue\"
toolName = \"*\"
decision = \"allow\"
priority = 998
";

/// Moves the run into such a home. Not where that would change anything else: then there are no
/// tools.
pub(crate) fn attach(call: &mut Call, job: &Job<'_>) -> bool {
    let Some(server) = job.tools.filter(|_| fits(job)) else { return false };
    let users = config_dir(job.world);
    let gemini = Path::new(HOME).join(".gemini");
    for name in DIRS {
        call.link_dir(gemini.join(name), users.join(name));
    }
    for name in FILES {
        call.link(gemini.join(name), users.join(name));
    }
    let rest = names(&users).into_iter().filter(|name| {
        let known = DIRS.iter().chain(&FILES).any(|known| name == Path::new(known));
        !known && name != Path::new("extensions")
    });
    for name in rest {
        call.link(gemini.join(&name), users.join(&name));
    }
    for name in names(&users.join("extensions")) {
        let place = Path::new("extensions").join(name);
        call.link(gemini.join(&place), users.join(&place));
    }
    for name in [".env", ".agents"] {
        let users = real_home(job.world).join(name);
        if users.exists() {
            call.link(Path::new(HOME).join(name), users);
        }
    }
    let mut extension = server.json(&json!({}));
    extension["name"] = "segue-run".into();
    extension["version"] = env!("CARGO_PKG_VERSION").into();
    call.file(EXTENSION, extension.to_string());
    // Where only some extensions are allowed, one without an origin is an error, not a refusal.
    let origin = json!({ "source": server.program, "type": "local" });
    call.file(ORIGIN, origin.to_string());
    call.env("GEMINI_CLI_HOME", job.files.join(HOME).to_string_lossy());
    let trusted = users.join("trustedFolders.json");
    call.default_env("GEMINI_CLI_TRUSTED_FOLDERS_PATH", trusted.to_string_lossy());
    true
}

/// Not in a container, which has no such links; not where a path of the settings begins at the
/// home; and not where the home is the workspace, whose settings it would read twice.
fn fits(job: &Job<'_>) -> bool {
    let home = real_home(job.world);
    let boxed = |text: &str| !matches!(text, "" | "0" | "false");
    let settings = std::fs::read_to_string(config_dir(job.world).join("settings.json"));
    let settings = settings.unwrap_or_default();
    let flag = |arg: &String| arg == "-s" || arg.starts_with("--sandbox");
    !job.world.get("GEMINI_SANDBOX").is_some_and(boxed)
        && !job.extra.iter().any(flag)
        && !["\"sandbox\"", "\"~"].iter().any(|word| settings.contains(word))
        && job.files.is_absolute()
        && job.cwd != home
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.file_name().into()).collect();
    names.sort();
    names
}
