//! `glob`: files by name.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::path::Root;
use super::walk::{self, Sight};
use super::{Outcome, ToolSpec};

const MAX_RESULTS: usize = 1000;

/// The arguments of `glob`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GlobCall {
    pub pattern: String,
    /// The directory to look in.
    pub path: Option<String>,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "glob",
        description: "Find files by name, e.g. \"**/*.rs\" or \"src/{a,b}/*.ts\"; \"*.md\" alone \
                      looks in one directory only. Files that git ignores are left out, hidden \
                      ones too unless the pattern names them. Sorted by path, at most 1,000.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "Relative to path." },
                "path": {
                    "type": "string",
                    "description": "The directory to look in. Default: the workspace.",
                },
            },
            "required": ["pattern"],
        }),
    }
}

pub(super) fn run(root: &Root, call: &GlobCall) -> Result<Outcome, String> {
    let given = call.path.as_deref().unwrap_or(".");
    let (base, is_dir) = root.locate(given)?;
    if !is_dir {
        return Err(format!("{given} is not a directory"));
    }
    // Models like to give whole paths.
    let whole = Path::new(&call.pattern).strip_prefix(root.path().join(&base));
    let pattern = whole.ok().and_then(Path::to_str).unwrap_or(&call.pattern);
    let matcher = walk::matcher(pattern)?;
    let sight = Sight::of(&[pattern, &base.to_string_lossy()]);
    let mut found = walk::files(root, &base, sight)
        .filter(|path| path.strip_prefix(&base).is_ok_and(|inside| matcher.is_match(inside)));
    let mut output = String::new();
    let mut count = 0;
    for path in found.by_ref().take(MAX_RESULTS) {
        output.push_str(&path.to_string_lossy());
        output.push('\n');
        count += 1;
    }
    if count == 0 {
        return Ok(Outcome::text(format!("no file matches {pattern}")));
    }
    if found.next().is_some() {
        output.push_str("(the first 1,000 files; there are more: narrow the pattern)\n");
    }
    Ok(Outcome::text(output))
}
