//! What a reviewer says of somebody's work: by the tool `submit_verdict`, or by the block that
//! closes its answer. A word in a sentence is never a verdict.

use segue_core::{
    event::{Concern, Verdict, VerdictSubmitted, Via},
    review::UNREADABLE,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    closing::{ANY_JSON, closing},
    report::is_said,
};

/// The tool's name.
pub const TOOL: &str = "submit_verdict";

/// What the model is told of the tool.
pub const DESCRIPTION: &str = "Give your verdict on the work that you review: pass, or fail with \
    what is wrong, where you see it, and what to do about it. It changes no files. What you say \
    last counts.";

/// What an agent that has the tool is asked.
pub const ASK_TOOL: &str = "\
When you have looked at the work that you review, give your verdict with the tool `submit_verdict` of \
the server `segue`: pass, or fail with what is wrong, where you see it, and what to do about it.";

/// More concerns than these are left out.
const MOST_CONCERNS: usize = 16;

/// A longer text is cut, in characters.
const LONGEST: usize = 4000;

const SHAPE: &str = "it takes verdict: pass or fail; with fail also category, concern, evidence \
                     and next_step, or concerns: [{category, concern, evidence, next_step}]";

/// The tool's input, as JSON Schema.
#[must_use]
pub fn schema() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let fields = || {
        json!({
            "category": text("One word: correctness, incomplete, tests, security, regression, …"),
            "concern": text("What is wrong."),
            "evidence": text("Where you see it: file and line, output."),
            "next_step": text("What the worker is to do about it."),
            "again": text("The name of the earlier concern that this is again, such as C3."),
        })
    };
    let mut all = fields();
    if let Some(all) = all.as_object_mut() {
        let verdict = json!({ "type": "string", "enum": ["pass", "fail", "accept", "reject"] });
        all.insert("verdict".to_owned(), verdict);
        all.insert("summary".to_owned(), text("What you have to say besides, in short."));
        all.insert(
            "concerns".to_owned(),
            json!({
                "type": "array",
                "description": "With more than one concern: all of them.",
                "items": {
                    "type": "object",
                    "properties": fields(),
                    "required": ["category", "concern", "evidence", "next_step"],
                },
            }),
        );
    }
    json!({ "type": "object", "properties": all, "required": ["verdict"] })
}

/// Reads the tool's input, as the model sent it.
///
/// # Errors
/// What is wrong with it, for the model.
pub fn from_tool_input(input: &str) -> Result<VerdictSubmitted, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the arguments of {TOOL} cannot be read: {error}; {SHAPE}")
    };
    let told: Told = serde_json::from_str(input).map_err(|error| wrong(&error))?;
    told.verdict(Via::Tool).map_err(|error| wrong(&error))
}

/// The verdict at the end of a reviewer's text, in a block of ours or of plain JSON.
#[must_use]
pub fn closing_block(text: &str) -> Option<VerdictSubmitted> {
    closing(text, &ANY_JSON, from_block)
}

pub(crate) fn from_block(body: &str) -> Option<VerdictSubmitted> {
    let told: Told = serde_json::from_str(body).ok()?;
    told.verdict(Via::Block).ok()
}

/// What the caller of the tool is told.
#[must_use]
pub fn noted(said: &VerdictSubmitted) -> String {
    match said.verdict {
        Verdict::Pass => "noted: pass".to_owned(),
        _ if said.concerns.len() == 1 => "noted: fail, 1 concern".to_owned(),
        _ => format!("noted: fail, {} concerns", said.concerns.len()),
    }
}

/// What counts where a reviewer has given no verdict that can be read.
#[must_use]
pub fn unreadable(text: &str) -> VerdictSubmitted {
    let said = match text.trim() {
        "" => "it said nothing".to_owned(),
        text => cut(text),
    };
    let concern = Concern {
        category: UNREADABLE.to_owned(),
        concern: "The reviewer gave no verdict that can be read, also when asked again.".to_owned(),
        evidence: said,
        next_step: "See whether what it says is right, and mend that.".to_owned(),
        ..Concern::default()
    };
    let (verdict, via) = (Verdict::Fail, Via::Block);
    VerdictSubmitted { verdict, concerns: vec![concern], summary: None, via }
}

/// What was said, as it was said. `null` is what some models send for what they leave out.
#[derive(Debug, Deserialize)]
struct Told {
    verdict: String,
    #[serde(default)]
    summary: Option<String>,
    #[serde(flatten)]
    one: One,
    #[serde(default)]
    concerns: Option<Vec<One>>,
}

#[derive(Debug, Default, Deserialize)]
struct One {
    #[serde(default, alias = "rejection_category")]
    category: Option<String>,
    #[serde(default)]
    concern: Option<String>,
    #[serde(default)]
    evidence: Option<String>,
    #[serde(default)]
    next_step: Option<String>,
    #[serde(default)]
    again: Option<String>,
}

impl Told {
    fn verdict(self, via: Via) -> Result<VerdictSubmitted, String> {
        let said = |text: Option<String>| text.map(|text| cut(&text)).filter(|text| is_said(text));
        let summary = said(self.summary);
        // Exactly these two words: "passed with remarks" is neither.
        let verdict = match self.verdict.trim() {
            "pass" | "PASS" | "Pass" | "accept" => Verdict::Pass,
            "fail" | "FAIL" | "Fail" | "reject" => Verdict::Fail,
            other => return Err(format!("the verdict `{}` is neither pass nor fail", cut(other))),
        };
        if verdict == Verdict::Pass {
            return Ok(VerdictSubmitted { verdict, concerns: Vec::new(), summary, via });
        }
        let all = match self.concerns {
            Some(several) if !several.is_empty() => several,
            _ => vec![self.one],
        };
        let read = |one: One| {
            let need = |text: Option<String>, name: &str| {
                said(text).ok_or_else(|| format!("a fail needs {name}"))
            };
            Ok(Concern {
                id: String::new(),
                category: need(one.category, "a category")?,
                concern: need(one.concern, "a concern")?,
                evidence: need(one.evidence, "evidence")?,
                next_step: need(one.next_step, "a next_step")?,
                again: said(one.again),
            })
        };
        let concerns = all.into_iter().take(MOST_CONCERNS).map(read);
        let concerns = concerns.collect::<Result<Vec<_>, String>>()?;
        Ok(VerdictSubmitted { verdict, concerns, summary, via })
    }
}

fn cut(text: &str) -> String {
    crate::report::cut(text, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIL: &str = r#"{"verdict":"fail","category":"tests","concern":"none","evidence":"a.rs","next_step":"write one"}"#;

    #[test]
    fn the_words_of_tilth_are_understood() {
        let theirs = FAIL.replace("category", "rejection_category").replace("fail", "reject");
        assert_ne!(theirs, FAIL);
        assert_eq!(from_tool_input(&theirs), from_tool_input(FAIL));
        assert_eq!(from_tool_input(FAIL).unwrap().concerns[0].category, "tests");
    }

    #[test]
    fn a_tool_call_is_read_and_what_is_wrong_is_told() {
        let pass = from_tool_input(r#"{"verdict":"pass","summary":"fine","concern":null}"#);
        let pass = pass.unwrap();
        assert_eq!((pass.verdict, pass.summary.as_deref()), (Verdict::Pass, Some("fine")));
        assert_eq!(noted(&pass), "noted: pass");
        let fail = from_tool_input(FAIL).unwrap();
        assert_eq!((fail.verdict, fail.via), (Verdict::Fail, Via::Tool));
        assert_eq!(fail.concerns[0].next_step, "write one");
        let two = r#"{"verdict":"fail","concerns":[
            {"category":"a","concern":"b","evidence":"c","next_step":"d","again":"C1"},
            {"category":"a","concern":"b","evidence":"c","next_step":"d"}]}"#;
        let two = from_tool_input(two).unwrap();
        assert_eq!(two.concerns[0].again.as_deref(), Some("C1"));
        assert_eq!(noted(&two), "noted: fail, 2 concerns");

        let error = |input: &str| from_tool_input(input).unwrap_err();
        assert!(error("{}").contains("missing field `verdict`"));
        assert!(error(r#"{"verdict":"passed"}"#).contains("neither pass nor fail"));
        assert!(error(r#"{"verdict":"fail"}"#).contains("a fail needs a category"));
        assert!(error(&FAIL.replace("a.rs", "…")).contains("a fail needs evidence"));
        assert!(error("PASS").contains("it takes verdict"));
    }

    #[test]
    fn only_the_closing_block_counts() {
        let block = |language: &str, json: &str| format!("```{language}\n{json}\n```");
        let said = |text: &str| closing_block(text).map(|said| said.verdict);
        let pass = block("segue", r#"{"verdict":"pass"}"#);
        assert_eq!(said(&format!("FAIL FAIL FAIL\n{pass}")), Some(Verdict::Pass));
        assert_eq!(said(&format!("I let it PASS.\n{}", block("json", FAIL))), Some(Verdict::Fail));
        assert_eq!(said(&format!("{pass}\n{}\n", block("", FAIL))), Some(Verdict::Fail));
        for text in [
            "PASS".to_owned(),
            "LGTM, all tests pass. The password check is APPROVED.".to_owned(),
            r#"{"verdict":"pass"}"#.to_owned(),
            format!("{pass}\nNo, wait."),
            block("rust", r#"{"verdict":"pass"}"#),
            block("segue", r#"{"verdict":"pass or fail"}"#),
            block("segue", r#"{"verdict":"fail","concern":"…"}"#),
            block("segue", r#"{"next_task":"x"}"#),
        ] {
            assert_eq!(said(&text), None, "{text}");
        }
        // The examples in the question are no verdict: dots are not words.
        let example = segue_core::review::render::ASK_VERDICT;
        let fail = example.split("or\n").nth(1).unwrap().split("\n- pass").next().unwrap();
        assert_eq!(said(fail), None, "{fail}");
    }

    #[test]
    fn what_cannot_be_read_is_a_fail_with_its_words() {
        let fail = unreadable("PASS, I think");
        assert_eq!(
            (fail.verdict, fail.concerns[0].evidence.as_str()),
            (Verdict::Fail, "PASS, I think")
        );
    }
}
