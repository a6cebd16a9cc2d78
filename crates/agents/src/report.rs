//! What an agent itself says of its work: decisions, what is in the way, what is left to do, what
//! comes next.
//!
//! An agent that has our tools calls `checkpoint`. One that has none ends its answer with a block
//!
//! ````text
//! ```segue
//! {"decisions":[{"summary":"…","why":"…"}],"remaining":["…"],"next_task":"…"}
//! ```
//! ````
//!
//! A tool's caller is told what is wrong with its input, and can call again. Nobody can be told of
//! a block: there, what is of another form is left alone. Both are said to a size that a packet can
//! hold.

use segue_core::event::{Blocker, Decision, ProgressReported, Via};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::closing::closing;

/// The tool's name.
pub const TOOL: &str = "checkpoint";

/// What the model is told of the tool.
pub const DESCRIPTION: &str = "Note down where the work stands, for whoever goes on with it if \
    you are interrupted: decisions made since the last note and why, what is in the way, what is \
    left to do, and what to do next. It changes no files.";

/// What an agent that has the tool is asked.
pub const ASK_TOOL: &str = "\
Whenever you have settled something that matters, and before you finish, call the tool \
`checkpoint` of the server `segue`: the decisions that you made and why, what is in the way, what \
is left to do, and the next task. Whoever goes on with this work after you reads it.";

/// What one is asked that has no tools of ours.
pub const ASK_BLOCK: &str = "\
Whoever goes on with this work after you reads how you left it. So end your last answer with a \
block of exactly this form, leaving out what does not apply:
```segue
{\"decisions\":[{\"summary\":\"…\",\"why\":\"…\"}],\"blockers\":[{\"summary\":\"…\",\"evidence\":\"…\"}],\
\"remaining\":[\"…\"],\"next_task\":\"…\"}
```";

/// More entries of a kind than these are left out.
const MOST_ENTRIES: usize = 64;

/// A longer text is said, in characters.
const LONGEST: usize = 2000;

const SHAPE: &str = "it takes decisions: [{summary, why?}], blockers: [{summary, evidence?}], \
                     remaining: [text], next_task: text";

/// The tool's input, as JSON Schema.
#[must_use]
pub fn schema() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let entries = |about: &str, summary: &str, more: &str, about_more: &str| {
        json!({
            "type": "array",
            "description": about,
            "items": {
                "type": "object",
                "properties": { "summary": text(summary), more: text(about_more) },
                "required": ["summary"],
                "additionalProperties": false,
            },
        })
    };
    json!({
        "type": "object",
        "properties": {
            "decisions": entries(
                "Decisions since the last checkpoint.", "What was decided.", "why", "And why.",
            ),
            "blockers": entries(
                "All that is in the way now; an empty list if nothing is.",
                "What is in the way.", "evidence", "How that is known: an error, a file.",
            ),
            "remaining": {
                "type": "array",
                "description": "All that is left to do now; an empty list if nothing is.",
                "items": { "type": "string" },
            },
            "next_task": text("What to do next."),
        },
        "required": [],
        "additionalProperties": false,
    })
}

/// Reads the tool's input, as the model sent it.
///
/// # Errors
/// What is wrong with it, for the model.
pub fn from_tool_input(input: &str) -> Result<ProgressReported, String> {
    let input = if input.trim().is_empty() { "{}" } else { input };
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the arguments of {TOOL} cannot be read: {error}; {SHAPE}")
    };
    let value: Value = serde_json::from_str(input).map_err(|error| wrong(&error))?;
    if let Some(name) = strange(&value) {
        return Err(wrong(&format_args!("there is no `{name}`")));
    }
    let told: Told = serde_json::from_value(value).map_err(|error| wrong(&error))?;
    told.report(Via::Tool).ok_or_else(|| wrong(&"nothing is said in it"))
}

/// What the caller of the tool is told.
#[must_use]
pub fn noted(report: &ProgressReported) -> String {
    let mut parts = Vec::new();
    let mut count = |n: usize, one: &str, many: &str| {
        if n > 0 {
            parts.push(format!("{n} {}", if n == 1 { one } else { many }));
        }
    };
    count(report.decisions.len(), "decision", "decisions");
    count(report.blockers.as_ref().map_or(0, Vec::len), "blocker", "blockers");
    count(report.remaining.as_ref().map_or(0, Vec::len), "task left", "tasks left");
    count(usize::from(report.next_task.is_some()), "next task", "");
    match parts.is_empty() {
        true => "noted".to_owned(),
        false => format!("noted: {}", parts.join(", ")),
    }
}

/// The names of all tools that we serve to the vendors' programs.
pub const OUR_TOOLS: [&str; 6] = [
    TOOL,
    crate::verdict::TOOL,
    crate::case::TOOL,
    "send_to_agent",
    "receive_messages",
    "bridge_status",
];

/// Which of our tools this is, whatever the vendor has made of its name.
#[must_use]
pub fn our_tool(name: &str) -> Option<&'static str> {
    // As Gemini CLI has it over the Agent Client Protocol.
    let name = name.strip_suffix(" (segue MCP Server)").unwrap_or(name);
    let is = |tool: &&&str| name == **tool || name.ends_with(**tool) && name.contains("segue");
    OUR_TOOLS.iter().find(is).copied()
}

/// Whether a tool is ours, whatever the vendor has made of its name.
#[must_use]
pub fn is_our_tool(name: &str) -> bool {
    our_tool(name).is_some()
}

/// The report at the end of an agent's text.
#[must_use]
pub fn closing_block(text: &str) -> Option<ProgressReported> {
    closing(text, &["segue"], from_block)
}

fn from_block(body: &str) -> Option<ProgressReported> {
    let told: Told = serde_json::from_str(body).ok()?;
    told.report(Via::Block)
}

/// Whether it is a report, and no verdict that can't be read.
pub(crate) fn is_report(body: &str) -> bool {
    let value: Option<Value> = serde_json::from_str(body).ok();
    value.is_some_and(|value| value.get("verdict").is_none()) && from_block(body).is_some()
}

/// A field that there is not.
fn strange(value: &Value) -> Option<&String> {
    fn unknown<'a>(value: &'a Value, known: &[&str]) -> Option<&'a String> {
        value.as_object()?.keys().find(|name| !known.contains(&name.as_str()))
    }
    let inside = |list: &str, known: [&str; 2]| {
        let entries = value.get(list).and_then(Value::as_array).into_iter().flatten();
        entries.into_iter().find_map(|entry| unknown(entry, &known))
    };
    unknown(value, &["decisions", "blockers", "remaining", "next_task"])
        .or_else(|| inside("decisions", ["summary", "why"]))
        .or_else(|| inside("blockers", ["summary", "evidence"]))
}

/// What was said, as it was said. `null` is what some models send for what they leave out.
#[derive(Debug, Deserialize)]
struct Told {
    #[serde(default)]
    decisions: Option<Vec<Decision>>,
    #[serde(default)]
    blockers: Option<Vec<Blocker>>,
    #[serde(default)]
    remaining: Option<Vec<String>>,
    #[serde(default)]
    next_task: Option<String>,
}

impl Told {
    /// The report, without what is empty; `None` where nothing is left. An empty list of what is
    /// in the way, or left to do, says something.
    fn report(self, via: Via) -> Option<ProgressReported> {
        let decisions = self.decisions.unwrap_or_default().into_iter().filter_map(|told| {
            Some(Decision { summary: said(told.summary)?, why: told.why.and_then(said) })
        });
        let blockers = self.blockers.map(|told| {
            let all = told.into_iter().filter_map(|told| {
                let evidence = told.evidence.and_then(said);
                Some(Blocker { summary: said(told.summary)?, evidence })
            });
            all.take(MOST_ENTRIES).collect()
        });
        let remaining = self
            .remaining
            .map(|told| told.into_iter().filter_map(said).take(MOST_ENTRIES).collect());
        let report = ProgressReported {
            decisions: decisions.take(MOST_ENTRIES).collect(),
            blockers,
            remaining,
            next_task: self.next_task.and_then(said),
            via,
        };
        let silent = ProgressReported { via, ..ProgressReported::default() };
        (report != silent).then_some(report)
    }
}

/// The text, not longer than it may be; nothing where there is none.
fn said(text: String) -> Option<String> {
    Some(cut(&text, LONGEST)).filter(|text| is_said(text))
}

/// A text with no more than so many characters.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Dots stand for words in the examples that an agent was shown.
pub(crate) fn is_said(text: &str) -> bool {
    !matches!(text, "" | "…" | "...")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(summary: &str, why: Option<&str>) -> Decision {
        Decision { summary: summary.to_owned(), why: why.map(str::to_owned) }
    }

    #[test]
    fn a_tool_call_is_read_and_what_is_wrong_is_told() {
        let report = from_tool_input(
            r#"{"decisions":[{"summary":" use TOML ","why":null}],"blockers":[],
                "remaining":["docs",""],"next_task":null}"#,
        );
        let report = report.unwrap();
        assert_eq!(report.decisions, [decision("use TOML", None)]);
        assert_eq!(report.blockers, Some(vec![]));
        assert_eq!(report.remaining, Some(vec!["docs".to_owned()]));
        assert_eq!((report.next_task, report.via), (None, Via::Tool));

        let error = |input| from_tool_input(input).unwrap_err();
        assert!(error("").contains("nothing is said"));
        assert!(error(r#"{"decisions":[{"summary":"  "}]}"#).contains("nothing is said"));
        assert!(error(r#"{"next":"x"}"#).contains("there is no `next`"));
        assert!(error(r#"{"decisions":[{"summary":"x","reason":"y"}]}"#).contains("`reason`"));
        assert!(error(r#"{"decisions":["x"]}"#).contains("invalid type: string"));
        assert!(error(r#"{"blockers":[{"evidence":"x"}]}"#).contains("missing field `summary`"));
        assert!(error(r#"{"remaining":"all"}"#).contains("it takes decisions: [{summary, why?}]"));
        assert!(error("[1,").contains("cannot be read"));
        assert!(error("[]").contains("cannot be read") || error("[]").contains("nothing"));
    }

    #[test]
    fn it_is_cut_to_size() {
        let entries: Vec<Value> = (0..100).map(|n| json!({ "summary": n.to_string() })).collect();
        let all = json!({ "decisions": entries, "next_task": "ä".repeat(LONGEST + 1) });
        let report = from_tool_input(&all.to_string()).unwrap();
        assert_eq!(report.decisions.len(), MOST_ENTRIES);
        assert_eq!(report.next_task.unwrap().chars().count(), LONGEST + 1);
        let whole = json!({ "next_task": "ä".repeat(LONGEST) });
        let report = from_tool_input(&whole.to_string()).unwrap();
        assert!(report.next_task.unwrap().ends_with('ä'));
    }

    #[test]
    fn the_last_block_counts_and_only_at_the_end() {
        let block = |json: &str| format!("```segue\n{json}\n```");
        let (one, two) = (block(r#"{"next_task":"one"}"#), block("{\n\"next_task\": \"two\"\n}"));
        let next = |text: &str| closing_block(text)?.next_task;
        assert_eq!(next(&one).as_deref(), Some("one"));
        assert_eq!(next(&format!("Done.\n\n{one}\n{two}\n \n")).as_deref(), Some("two"));
        assert_eq!(
            next(&format!("Done.\r\n{}\r\n", one.replace('\n', "\r\n"))).as_deref(),
            Some("one")
        );
        assert_eq!(closing_block(&one).unwrap().via, Via::Block);
        let unknown = block(r#"{"next_task":"x","mood":"good"}"#);
        assert_eq!(next(&unknown).as_deref(), Some("x"));
        for text in [
            String::new(),
            "```".to_owned(),
            "```segue".to_owned(),
            "```segue\n```".to_owned(),
            format!("{one}\nAnd so on."),
            block("Next I would do this."),
            block(r#"{"next_task":"x"} and more"#),
            block("{}"),
            block(r#"{"decisions":"none"}"#),
            format!("{one}\n```json\n{{}}\n```"),
            "```segue\n{\"next_task\":\"x\"}".to_owned(),
            "```segues\n{\"next_task\":\"x\"}\n```".to_owned(),
        ] {
            assert_eq!(closing_block(&text), None, "{text}");
        }
        // A block inside of a text is a fence within a line, not at its start.
        let quoted = block(r#"{"next_task":"write ```segue blocks"}"#);
        assert!(next(&quoted).is_some());
        assert!(closing_block(&ASK_BLOCK.replace('…', "x")).is_some());
    }
}
