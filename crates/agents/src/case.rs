//! What a worker has to show for a task: by the tool `submit_case`, or by the block that closes its
//! answer.

use segue_core::event::{CaseSubmitted, Met, Via};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    closing::{ANY_JSON, closing},
    report::is_said,
};

/// The tool's name.
pub const TOOL: &str = "submit_case";

/// What the model is told of the tool.
pub const DESCRIPTION: &str = "Say that the task is done, and how each of its acceptance criteria \
    is met. After this it is evaluated. It changes no files. What you say last counts.";

/// More points than these are left out.
const MOST_POINTS: usize = 64;

/// A longer text is cut, in characters.
const LONGEST: usize = 2000;

const SHAPE: &str = "it takes summary, criteria: [{criterion, met_by, evidence}], work_arounds: \
                     [text] and doubts: [text]";

/// The tool's input, as JSON Schema.
#[must_use]
pub fn schema() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let texts = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "description": about });
    json!({
        "type": "object",
        "properties": {
            "summary": text("What you did, in a few sentences."),
            "criteria": {
                "type": "array",
                "description": "Each acceptance criterion, and where it is met.",
                "items": {
                    "type": "object",
                    "properties": {
                        "criterion": text("The criterion, in its own words."),
                        "met_by": text("Where it is met: file and function, or line."),
                        "evidence": text("What shows it: a test, a command and its output."),
                    },
                    "required": ["criterion", "met_by"],
                },
            },
            "work_arounds": texts("What is not as it should be, and why."),
            "doubts": texts("What you are not sure of."),
        },
        "required": ["summary", "criteria"],
    })
}

/// Reads the tool's input, as the model sent it.
///
/// # Errors
/// What is wrong with it, for the model.
pub fn from_tool_input(input: &str) -> Result<CaseSubmitted, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the arguments of {TOOL} cannot be read: {error}; {SHAPE}")
    };
    let told: Told = serde_json::from_str(input).map_err(|error| wrong(&error))?;
    told.case(Via::Tool).map_err(|error| wrong(&error))
}

/// The case at the end of a worker's text, in a block of ours or of plain JSON.
#[must_use]
pub fn closing_block(text: &str) -> Option<CaseSubmitted> {
    closing(text, &ANY_JSON, from_block)
}

pub(crate) fn from_block(body: &str) -> Option<CaseSubmitted> {
    let told: Told = serde_json::from_str(body).ok()?;
    told.case(Via::Block).ok()
}

/// What the caller of the tool is told.
#[must_use]
pub fn noted(case: &CaseSubmitted) -> String {
    match case.criteria.len() {
        1 => "noted: 1 criterion; end your turn now".to_owned(),
        n => format!("noted: {n} criteria; end your turn now"),
    }
}

/// What was said, as it was said. `null` is what some models send for what they leave out.
#[derive(Debug, Deserialize)]
struct Told {
    summary: String,
    criteria: Vec<One>,
    #[serde(default)]
    work_arounds: Option<Vec<String>>,
    #[serde(default, alias = "uncertainties")]
    doubts: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct One {
    criterion: String,
    #[serde(alias = "addressed_by")]
    met_by: String,
    #[serde(default)]
    evidence: Option<String>,
}

impl Told {
    fn case(self, via: Via) -> Result<CaseSubmitted, String> {
        let summary = cut(&self.summary);
        // Dots stand for words in the example that a worker was shown.
        if !is_said(&summary) {
            return Err("a case needs a summary".to_owned());
        }
        let read = |one: One| {
            let (criterion, met_by) = (cut(&one.criterion), cut(&one.met_by));
            match is_said(&criterion) && is_said(&met_by) {
                true => {
                    let evidence = one.evidence.map(|text| cut(&text)).filter(|text| is_said(text));
                    Ok(Met { criterion, met_by, evidence })
                }
                false => Err("each criterion needs its words and what it is met by".to_owned()),
            }
        };
        let criteria = self.criteria.into_iter().take(MOST_POINTS).map(read);
        let criteria = criteria.collect::<Result<Vec<_>, String>>()?;
        if criteria.is_empty() {
            return Err("a case says how each criterion is met: there is none".to_owned());
        }
        let (work_arounds, doubts) = (points(self.work_arounds), points(self.doubts));
        Ok(CaseSubmitted { summary, criteria, work_arounds, doubts, via })
    }
}

fn points(told: Option<Vec<String>>) -> Vec<String> {
    let all = told.unwrap_or_default().into_iter().take(MOST_POINTS).map(|text| cut(&text));
    all.filter(|text| is_said(text)).collect()
}

fn cut(text: &str) -> String {
    crate::report::cut(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"{"summary":"Wrote it.","criteria":[
        {"criterion":"it works","met_by":"a.rs:main","evidence":null}],"doubts":["big files",""]}"#;

    #[test]
    fn a_tool_call_is_read_and_what_is_wrong_is_told() {
        let case = from_tool_input(CASE).unwrap();
        assert_eq!((case.criteria.len(), case.via), (1, Via::Tool));
        assert_eq!(case.doubts, ["big files"]);
        assert_eq!(noted(&case), "noted: 1 criterion; end your turn now");
        let error = |input: &str| from_tool_input(input).unwrap_err();
        assert!(error("{}").contains("missing field `summary`"));
        assert!(error(&CASE.replace("Wrote it.", " ")).contains("needs a summary"));
        assert!(error(&CASE.replace("a.rs:main", "…")).contains("what it is met by"));
        assert!(error(r#"{"summary":"x","criteria":[]}"#).contains("there is none"));
    }

    #[test]
    fn the_words_of_tilth_are_understood() {
        let theirs = CASE.replace("met_by", "addressed_by").replace("doubts", "uncertainties");
        assert_ne!(theirs, CASE);
        assert_eq!(from_tool_input(&theirs), from_tool_input(CASE));
    }

    #[test]
    fn only_the_closing_block_counts_and_the_example_is_none() {
        let block = format!("All done.\n```segue\n{CASE}\n```");
        assert_eq!(closing_block(&block).map(|case| case.via), Some(Via::Block));
        assert_eq!(closing_block(&format!("{block}\nNo, wait.")), None);
        let example = segue_core::tasks::prompt::ASK_CASE;
        let example = example.split("\n- summary").next().unwrap();
        assert_eq!(closing_block(example), None, "{example}");
    }
}
