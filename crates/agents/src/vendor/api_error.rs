//! An API's error as some vendors' programs pass it on: as one text, made of a status, the body or
//! only its message.
//!
//! The shapes are those that programs print, never a model's: `429: {…}`, `429 message` and `{…}`.
//! Errors that never had a status are known by the exact words of the library that made them.

use serde_json::Value;

use super::{Trouble, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiError {
    pub status: Option<u16>,
    /// The API's own words for the kind of error.
    words: Vec<String>,
    pub message: String,
}

const SPENT: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_error",
    "usage_limit_reached",
    "GoUsageLimitError",
    "FreeUsageLimitError",
];
const LIMIT: &[&str] = &["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"];
const OVERLOAD: &[&str] = &["overloaded_error", "server_is_overloaded", "slow_down", "UNAVAILABLE"];
const KEY: &[&str] = &["authentication_error", "permission_error", "invalid_api_key"];
const TOO_LONG: &[&str] = &["context_length_exceeded", "request_too_large"];

/// How the vendors' messages about that begin, where a program drops the word or there never was
/// one.
const TOO_LONG_MESSAGES: &[&str] = &[
    "This model's maximum context length is ",
    "The input token count ",
    "prompt is too long",
    "Context is too large to send safely after automatic compression.",
];

impl ApiError {
    pub(super) fn read(text: &str) -> Self {
        let (status, rest) = leading_status(text);
        let parsed: Option<Value> =
            if rest.starts_with('{') { serde_json::from_str(rest).ok() } else { None };
        let Some(body) = parsed else {
            return Self { status, words: Vec::new(), message: rest.to_owned() };
        };
        let error = body.get("error").filter(|error| error.is_object()).unwrap_or(&body);
        let told = json::number(error, &["code"]).and_then(|code| u16::try_from(code).ok());
        let words = ["type", "code", "status"];
        let words = words.into_iter().filter_map(|name| json::text(error, &[name]));
        Self {
            status: status.or_else(|| told.filter(is_error)),
            words: words.map(str::to_owned).collect(),
            message: json::text(error, &["message"]).unwrap_or(rest).to_owned(),
        }
    }

    /// What it means; `None` where nothing structured tells.
    pub(super) fn trouble(&self, sign_in: &str) -> Option<Trouble> {
        let is = |names: &[&str]| self.words.iter().any(|word| names.contains(&word.as_str()));
        let message = self.message.clone();
        let limit =
            |message, quota| Trouble::Limit { message, resets_at: None, retry_after: None, quota };
        if is(SPENT) || self.status == Some(402) {
            return Some(limit(message, true));
        }
        let refused = self.status.is_none_or(|status| status == 400);
        let too_long = TOO_LONG_MESSAGES.iter().any(|start| message.starts_with(start));
        if is(TOO_LONG) || self.status == Some(413) || refused && too_long {
            return Some(Trouble::ContextExhausted(message));
        }
        let by_words = match self.status {
            Some(_) => None,
            None if is(LIMIT) => Some(429),
            None if is(OVERLOAD) => Some(503),
            None if is(KEY) => Some(401),
            None => None,
        };
        match self.status.or(by_words) {
            Some(429) => Some(limit(message, false)),
            Some(status) => Some(from_status(status, message, sign_in)),
            None => transport(message),
        }
    }
}

/// The error inside of `[API Error: …]`, which Gemini CLI and its descendants put around it. A hint
/// for people may follow under it.
pub(super) fn unwrapped(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("[API Error: ") else { return message };
    let end = rest.rfind("]\n").or_else(|| rest.rfind(']')).unwrap_or(rest.len());
    &rest[..end]
}

/// What a status means that is not about a limit.
fn from_status(status: u16, message: String, sign_in: &str) -> Trouble {
    match status {
        401 | 403 => Trouble::NotSignedIn { message, fix: sign_in.to_owned() },
        503 | 529 => Trouble::Overloaded { message, retry_after: None },
        // 408 and 409 are the vendors' "try that again".
        408 | 409 | 500.. => Trouble::Server { status, message },
        _ => Trouble::BadRequest { status, message },
    }
}

/// The words of Node's fetch and of the vendors' libraries for a connection that broke, or that
/// there was none. Qwen adds the cause.
fn transport(message: String) -> Option<Trouble> {
    let word = message.split(" (cause: ").next().unwrap_or_default();
    match word {
        "terminated" | "Premature close" | "Stream ended without finish_reason" => {
            Some(Trouble::StreamCut(message))
        }
        "Connection error."
        | "Request timed out."
        | "fetch failed"
        | "exception TypeError: fetch failed sending request" => Some(Trouble::Network(message)),
        _ => None,
    }
}

fn is_error(status: &u16) -> bool {
    (400..600).contains(status)
}

/// Splits off a status in front: `429: …` or `429 …`.
fn leading_status(text: &str) -> (Option<u16>, &str) {
    let split = text.get(..3).zip(text.get(3..));
    let Some((digits, rest)) = split else { return (None, text) };
    let Some(rest) = rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' ')) else {
        return (None, text);
    };
    match digits.parse::<u16>().ok().filter(is_error) {
        Some(status) => (Some(status), rest),
        None => (None, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(text: &str) -> Option<Trouble> {
        ApiError::read(text).trouble("sign in")
    }

    fn limit(message: &str, quota: bool) -> Option<Trouble> {
        let message = message.to_owned();
        Some(Trouble::Limit { message, resets_at: None, retry_after: None, quota })
    }

    #[test]
    fn the_word_comes_before_the_status() {
        let body =
            r#"429: {"message":"m","type":"insufficient_quota","code":"insufficient_quota"}"#;
        assert_eq!(trouble(body), limit("m", true));
        let body = r#"429: {"message":"m","type":"requests","code":"rate_limit_exceeded"}"#;
        assert_eq!(trouble(body), limit("m", false));
        let body = r#"400: {"message":"m","code":"context_length_exceeded"}"#;
        assert_eq!(trouble(body), Some(Trouble::ContextExhausted("m".to_owned())));
    }

    #[test]
    fn a_status_stands_in_front_or_in_the_body() {
        let message = "An internal error has occurred.".to_owned();
        let server = Some(Trouble::Server { status: 500, message });
        let body = r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#;
        assert_eq!(trouble(body), server);
        assert_eq!(trouble("500 An internal error has occurred."), server);
        let message = "Incorrect API key provided.".to_owned();
        let fix = "sign in".to_owned();
        assert_eq!(
            trouble("401 Incorrect API key provided."),
            Some(Trouble::NotSignedIn { message, fix })
        );
        assert_eq!(
            trouble(r#"{"error":{"message":"m","type":"overloaded_error"}}"#),
            Some(Trouble::Overloaded { message: "m".to_owned(), retry_after: None })
        );
    }

    #[test]
    fn connections_are_known_by_the_exact_words_of_the_library() {
        let cut = "terminated (cause: UND_ERR_SOCKET: other side closed)";
        assert_eq!(trouble(cut), Some(Trouble::StreamCut(cut.to_owned())));
        let none = "Connection error. (cause: fetch failed)";
        assert_eq!(trouble(none), Some(Trouble::Network(none.to_owned())));
        assert_eq!(trouble("The plan was terminated"), None);
    }

    #[test]
    fn the_brackets_around_an_error_come_off() {
        for (text, inner) in [
            ("[API Error: 429 wait [3 of 3]]\nTry later.", "429 wait [3 of 3]"),
            ("[API Error: terminated]", "terminated"),
            ("[API Error: torn", "torn"),
            ("[Else]", "[Else]"),
        ] {
            assert_eq!(unwrapped(text), inner);
        }
    }

    #[test]
    fn numbers_that_are_no_status_are_text() {
        for text in ["777 things", "40", "4294967296: {}", "ünï", "{not json"] {
            let read = ApiError::read(text);
            assert_eq!((read.status, read.message.as_str()), (None, text));
            assert_eq!(read.trouble("sign in"), None);
        }
    }
}
