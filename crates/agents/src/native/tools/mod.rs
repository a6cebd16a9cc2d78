//! The agent's seven tools: what the model is told about them, and all of them but the shell.
//!
//! File tools are confined to the workspace: no path, link or race leads out of it (see
//! `path.rs`). What goes wrong is told to the model as a result, never a panic and never silence.
//! The shell is only parsed here: processes are the caller's, which feeds their output to
//! [`Capture`] for the result. And `checkpoint` does nothing at all: what it was called with is the
//! caller's to record.
//!
//! All results are bounded in size, and say so when something was left out.

mod checkpoint;
mod edit;
mod glob;
mod grep;
mod lines;
mod path;
mod read;
mod shell;
mod walk;
mod write;

use std::io;
use std::path::Path;

use segue_core::event::ProgressReported;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use edit::EditCall;
pub use glob::GlobCall;
pub use grep::GrepCall;
pub use read::ReadCall;
pub use shell::{Capture, Ended, ShellCall};
pub use write::WriteCall;

use crate::report;

/// What a model is told about a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema.
    pub input_schema: Value,
}

/// All tools, always in this order: vendors cache what does not change.
#[must_use]
pub fn specs() -> Vec<ToolSpec> {
    vec![
        read::spec(),
        write::spec(),
        edit::spec(),
        glob::spec(),
        grep::spec(),
        shell::spec(),
        checkpoint::spec(),
    ]
}

/// Those of them that leave everything as it is.
#[must_use]
pub fn reading_specs() -> Vec<ToolSpec> {
    vec![read::spec(), glob::spec(), grep::spec(), checkpoint::spec()]
}

/// What a tool did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the model is told.
    pub output: String,
    pub is_error: bool,
    /// The shell's exit status.
    pub status: Option<i32>,
    /// The files that were written, relative to the workspace.
    pub touched: Vec<String>,
}

impl Outcome {
    /// A result that is nothing but text.
    pub fn text(output: impl Into<String>) -> Self {
        Self { output: output.into(), ..Self::default() }
    }

    /// A failure, with what the model can do about it.
    pub fn error(output: impl Into<String>) -> Self {
        Self { output: output.into(), is_error: true, ..Self::default() }
    }
}

/// A tool call whose arguments are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Read(ReadCall),
    Write(WriteCall),
    Edit(EditCall),
    Glob(GlobCall),
    Grep(GrepCall),
    Shell(ShellCall),
    Checkpoint(ProgressReported),
}

impl Call {
    /// Whether it leaves everything as it is.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Glob(_) | Self::Grep(_) | Self::Checkpoint(_))
    }

    /// The tool's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Read(_) => "read_file",
            Self::Write(_) => "write_file",
            Self::Edit(_) => "edit_file",
            Self::Glob(_) => "glob",
            Self::Grep(_) => "grep",
            Self::Shell(_) => "shell",
            Self::Checkpoint(_) => report::TOOL,
        }
    }
}

/// Reads a tool call as the model sent it.
///
/// # Errors
/// What is wrong with it, to be told to the model as an error result.
pub fn parse(name: &str, input_json: &str) -> Result<Call, String> {
    match name {
        "read_file" => arguments(name, input_json).map(Call::Read),
        "write_file" => arguments(name, input_json).map(Call::Write),
        "edit_file" => arguments(name, input_json).map(Call::Edit),
        "glob" => arguments(name, input_json).map(Call::Glob),
        "grep" => arguments(name, input_json).map(Call::Grep),
        "shell" => arguments::<shell::Arguments>(name, input_json)?.check().map(Call::Shell),
        report::TOOL => report::from_tool_input(input_json).map(Call::Checkpoint),
        _ => {
            let known: Vec<_> = specs().into_iter().map(|spec| spec.name).collect();
            Err(format!("there is no tool \"{name}\"; the tools are {}", known.join(", ")))
        }
    }
}

fn arguments<T: DeserializeOwned>(name: &str, input: &str) -> Result<T, String> {
    let input = if input.trim().is_empty() { "{}" } else { input };
    serde_json::from_str(input)
        .map_err(|error| format!("the arguments of {name} cannot be read: {error}"))
}

/// `null` is what some models send for an argument that they leave out.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The directory that the file tools see.
#[derive(Debug)]
pub struct Workspace {
    root: path::Root,
}

impl Workspace {
    /// # Errors
    /// When `root` is no directory that can be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: path::Root::open(root)? })
    }

    /// The directory, without links in its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Runs any call but a shell's, which is the caller's to run.
    #[must_use]
    pub fn run(&self, call: &Call) -> Outcome {
        let result = match call {
            Call::Read(call) => read::run(&self.root, call),
            Call::Write(call) => write::run(&self.root, call),
            Call::Edit(call) => edit::run(&self.root, call),
            Call::Glob(call) => glob::run(&self.root, call),
            Call::Grep(call) => grep::run(&self.root, call),
            Call::Shell(_) => Err("the shell is not run here".to_owned()),
            Call::Checkpoint(report) => Ok(checkpoint::run(report)),
        };
        result.unwrap_or_else(Outcome::error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_stable_and_every_schema_is_an_object() {
        let specs = specs();
        let names: Vec<_> = specs.iter().map(|spec| spec.name).collect();
        assert_eq!(
            names,
            ["read_file", "write_file", "edit_file", "glob", "grep", "shell", "checkpoint"]
        );
        for spec in specs {
            assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
            let required = spec.input_schema["required"].as_array().unwrap();
            for name in required {
                let property = &spec.input_schema["properties"][name.as_str().unwrap()];
                assert!(property["type"].is_string(), "{}: {name}", spec.name);
            }
        }
    }

    #[test]
    fn bad_calls_say_what_is_wrong() {
        let error = |name, input| parse(name, input).unwrap_err();
        assert!(error("rm", "{}").contains("the tools are read_file, write_file"));
        assert!(error("read_file", "").contains("missing field `path`"));
        assert!(error("read_file", "{\"path\":").contains("arguments of read_file"));
        assert!(error("shell", r#"{"command":"  "}"#).contains("empty"));
        assert!(error("edit_file", r#"{"path":"a","old_string":1}"#).contains("expected a string"));
    }

    #[test]
    fn null_stands_for_a_default() {
        let call = parse("grep", r#"{"pattern":"x","glob":null,"case_insensitive":null}"#);
        let Ok(Call::Grep(call)) = call else { panic!("{call:?}") };
        assert!(!call.case_insensitive);
    }
}
