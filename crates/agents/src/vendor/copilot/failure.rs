//! What goes wrong between Copilot and the model, by the codes that its events carry.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde_json::Value;

use super::{SIGN_IN, words};
use crate::vendor::{Heard, Signal, Trouble, json};

/// A call of the model that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure {
    status: Option<u16>,
    code: Option<String>,
    kind: Option<String>,
    /// Not an answer of the server: the way to it broke.
    transport: bool,
    answering: bool,
    message: String,
    resets_at: Option<Timestamp>,
}

impl Failure {
    pub(super) fn new(data: &Value, answering: bool) -> Self {
        Self {
            status: status(data),
            code: words(data, "errorCode"),
            kind: words(data, "errorType"),
            transport: json::text(data, &["failureKind"]) == Some("transport"),
            answering,
            message: plain(json::text(data, &["errorMessage"]).unwrap_or_default()),
            resets_at: spent(data),
        }
    }

    /// With what the session's own error says beyond it.
    pub(super) fn finally(mut self, error: &Value) -> Trouble {
        self.status = status(error).or(self.status);
        self.code = words(error, "errorCode").or(self.code);
        self.message = words(error, "message").unwrap_or(self.message);
        let word = json::text(error, &["errorType"]);
        // It counts the tokens itself before it asks, and then has no code for the outcome.
        match self.message.starts_with("Request exceeds the model's prompt budget") {
            true => Trouble::ContextExhausted(self.message),
            false => self.trouble(word),
        }
    }

    /// The codes decide, then the program's own word for it, then the status.
    pub(super) fn trouble(&self, word: Option<&str>) -> Trouble {
        let message = match (self.message.is_empty(), self.status) {
            (false, _) => self.message.clone(),
            (true, Some(status)) => format!("HTTP {status}"),
            (true, None) => "no answer from the server".to_owned(),
        };
        let limit = |quota| Trouble::Limit {
            message: message.clone(),
            resets_at: self.resets_at,
            retry_after: None,
            quota,
        };
        match self.code.as_deref().or(self.kind.as_deref()).unwrap_or_default() {
            "insufficient_quota"
            | "quota_exceeded"
            | "session_quota_exceeded"
            | "billing_not_configured"
            | "user_weekly_rate_limited"
            | "user_global_rate_limited" => return limit(true),
            "context_length_exceeded" | "model_max_prompt_tokens_exceeded" => {
                return Trouble::ContextExhausted(message);
            }
            "server_is_overloaded" | "model_overloaded" | "overloaded_error" => {
                return Trouble::Overloaded { message, retry_after: None };
            }
            _ => {}
        }
        match (word.unwrap_or_default(), self.status) {
            ("quota", _) | (_, Some(402)) => limit(true),
            ("rate_limit", _) | (_, Some(429)) => limit(false),
            ("context_limit", _) | (_, Some(413)) => Trouble::ContextExhausted(message),
            ("authentication" | "authorization", _) | (_, Some(401 | 403)) => {
                Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() }
            }
            (_, Some(503 | 529)) => Trouble::Overloaded { message, retry_after: None },
            (_, Some(status @ 500..)) => Trouble::Server { status, message },
            (_, Some(status)) => Trouble::BadRequest { status, message },
            (_, None) if self.transport && self.answering => Trouble::StreamCut(message),
            (_, None) if self.transport => Trouble::Network(message),
            (_, None) => Trouble::BadRequest { status: 0, message },
        }
    }
}

fn status(data: &Value) -> Option<u16> {
    json::number(data, &["statusCode"]).and_then(|status| u16::try_from(status).ok())
}

/// The message inside of what is JSON once more: an error of the API, or a text.
fn plain(message: &str) -> String {
    match serde_json::from_str::<Value>(message) {
        Ok(Value::String(text)) => text,
        Ok(value) => json::text(&value, &["message"]).unwrap_or(message).to_owned(),
        Err(_) => message.to_owned(),
    }
}

/// How much of each allowance is left, where GitHub tells.
pub(super) fn quotas(data: &Value, heard: &mut Heard) {
    for (window, told) in snapshots(data) {
        let left = told.get("remainingPercentage").and_then(Value::as_f64);
        heard.push(Signal::Quota {
            window: window.clone(),
            used_percent: left.map(used),
            resets_at: reset(told),
        });
    }
}

/// When the one ends that has nothing left.
fn spent(data: &Value) -> Option<Timestamp> {
    let empty = |told: &Value| told.get("hasQuota").and_then(Value::as_bool) == Some(false);
    snapshots(data).find(|(_, told)| empty(told)).and_then(|(_, told)| reset(told))
}

fn snapshots(data: &Value) -> impl Iterator<Item = (&String, &Value)> {
    data.get("quotaSnapshots").and_then(Value::as_object).into_iter().flatten()
}

fn reset(told: &Value) -> Option<Timestamp> {
    let text = json::text(told, &["resetDate"])?;
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| day().map(|day| day.timestamp()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and a hundred"
)]
fn used(left: f64) -> u32 {
    (100.0 - left.clamp(0.0, 100.0)).round() as u32
}
