//! `grep`: lines by regular expression.

use std::collections::VecDeque;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::json;

use super::lines::{Line, Lines};
use super::path::Root;
use super::walk::{self, Sight};
use super::{Outcome, ToolSpec, or_default};

const MAX_OUTPUT: usize = 30_000;
const DEFAULT_RESULTS: usize = 200;
const MAX_RESULTS: usize = 1000;
const MAX_CONTEXT: usize = 20;
/// So much of a line is searched.
const MAX_LINE: usize = 64 * 1024;
/// So much of a line is shown.
const MAX_SHOWN: usize = 500;
/// So much is searched in all: a call must end.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// The arguments of `grep`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GrepCall {
    pub pattern: String,
    /// The file or directory to search.
    pub path: Option<String>,
    /// Only files that match this.
    pub glob: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub case_insensitive: bool,
    /// Lines to show around each match.
    #[serde(default, deserialize_with = "or_default")]
    pub context: usize,
    pub max_results: Option<usize>,
}

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "grep",
        description: "Search file contents line by line with a regular expression (Rust syntax). \
                      Gives path:line:text. Files that git ignores, hidden files and binary files \
                      are left out.",
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "description": "A regular expression." },
                "path": {
                    "type": "string",
                    "description": "The file or directory to search. Default: the workspace.",
                },
                "glob": {
                    "type": "string",
                    "description": "Only files like this, e.g. \"*.rs\" or \"src/**/*.ts\".",
                },
                "case_insensitive": { "type": "boolean", "description": "Default: false." },
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 20,
                    "description": "Lines to show before and after each match. Default: 0.",
                },
                "max_results": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 1000,
                    "description": "How many matching lines. Default: 200.",
                },
            },
            "required": ["pattern"],
        }),
    }
}

pub(super) fn run(root: &Root, call: &GrepCall) -> Result<Outcome, String> {
    let regex = RegexBuilder::new(&call.pattern)
        .case_insensitive(call.case_insensitive)
        .build()
        .map_err(|error| format!("the regular expression cannot be read: {error}"))?;
    // A glob without a directory means the file's name, wherever it is.
    let glob = call.glob.as_deref().map(|glob| match glob.contains('/') {
        true => glob.to_owned(),
        false => format!("**/{glob}"),
    });
    let glob = glob.as_deref().map(|glob| walk::matcher(glob).map(|it| (glob, it))).transpose()?;
    let (base, is_dir) = root.locate(call.path.as_deref().unwrap_or("."))?;
    let mut search = Search::new(regex, call);
    if is_dir {
        let sight = Sight::of(&[glob.as_ref().map_or("", |it| it.0), &base.to_string_lossy()]);
        for path in walk::files(root, &base, sight) {
            let inside = path.strip_prefix(&base).unwrap_or(&path);
            if glob.as_ref().is_none_or(|(_, glob)| glob.is_match(inside)) {
                search.file(root, &path);
            }
            if search.stopped.is_some() {
                break;
            }
        }
    } else {
        search.file(root, &base);
    }
    Ok(Outcome::text(search.finish()))
}

struct Search {
    regex: Regex,
    context: usize,
    most: usize,
    found: usize,
    bytes: u64,
    output: String,
    /// Why there may be more than was found.
    stopped: Option<&'static str>,
}

impl Search {
    fn new(regex: Regex, call: &GrepCall) -> Self {
        Self {
            regex,
            context: call.context.min(MAX_CONTEXT),
            most: call.max_results.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS),
            found: 0,
            bytes: 0,
            output: String::new(),
            stopped: None,
        }
    }

    /// Files that cannot be read (links that lead out, no permission) are not searched.
    fn file(&mut self, root: &Root, path: &Path) {
        let Ok(file) = root.read_relative(path) else {
            return;
        };
        let mut lines = Lines::new(file, MAX_LINE);
        if !matches!(lines.is_binary(), Ok(false)) {
            return;
        }
        let name = path.to_string_lossy();
        let mut before: VecDeque<(u64, Line)> = VecDeque::new();
        let mut after = 0;
        let mut shown = 0;
        let mut number = 0;
        while let Ok(Some(line)) = lines.next() {
            number += 1;
            self.bytes = self.bytes.saturating_add(line.size);
            if self.regex.is_match(&line.kept) {
                if self.found >= self.most {
                    self.stopped = Some("the wanted number of lines is reached");
                    return;
                }
                self.found += 1;
                let first = before.front().map_or(number, |(number, _)| *number);
                if self.context > 0 && first != shown + 1 && !self.output.is_empty() {
                    self.output.push_str("--\n");
                }
                for (number, line) in before.drain(..) {
                    self.show(&name, number, '-', &line);
                }
                self.show(&name, number, ':', &line);
                (shown, after) = (number, self.context);
            } else if after > 0 {
                self.show(&name, number, '-', &line);
                (shown, after) = (number, after - 1);
            } else if self.context > 0 {
                if before.len() == self.context {
                    before.pop_front();
                }
                before.push_back((number, line));
            }
            if self.bytes > MAX_BYTES {
                self.stopped = Some("there is too much to search");
            }
            if self.stopped.is_some() {
                return;
            }
        }
    }

    fn show(&mut self, name: &str, number: u64, mark: char, line: &Line) {
        let whole = line.show();
        let cut = whole.floor_char_boundary(MAX_SHOWN);
        let dots = if cut < whole.len() { "…" } else { "" };
        let text = format!("{name}{mark}{number}{mark}{}{dots}\n", &whole[..cut]);
        if self.output.len() + text.len() > MAX_OUTPUT {
            self.stopped = Some("the result is too long");
        } else if self.stopped.is_none() {
            self.output.push_str(&text);
        }
    }

    fn finish(mut self) -> String {
        if self.found == 0 && self.stopped.is_none() {
            return "no line matches".to_owned();
        }
        if let Some(why) = self.stopped {
            self.output.push_str("(there may be more: ");
            self.output.push_str(why);
            self.output.push_str("; narrow the search)\n");
        }
        self.output
    }
}
