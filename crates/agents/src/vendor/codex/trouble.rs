//! What its errors mean: by its own word for them, and the HTTP status in it where it has one.

use jiff::Timestamp;
use serde_json::Value;

use super::SIGN_IN;
use crate::vendor::{Trouble, json::text};

/// `resets_at` is when the account's used-up window begins anew. `cut`: the last that was heard is
/// that the answer broke off, for which its final word is `other`.
pub(super) fn trouble(error: &Value, resets_at: Option<Timestamp>, cut: bool) -> Trouble {
    let said = text(error, &["additionalDetails"]).or(text(error, &["message"]));
    let message = said.unwrap_or("no reason given").to_owned();
    let info = &error["codexErrorInfo"];
    match info.as_str() {
        Some("usageLimitExceeded" | "sessionBudgetExceeded") => limit(message, true, resets_at),
        Some("rateLimitExceeded") => limit(message, false, None),
        Some("serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable") => {
            Trouble::Overloaded { message, retry_after: None }
        }
        Some("internalServerError") => Trouble::Server { status: 500, message },
        Some("contextWindowExceeded") => Trouble::ContextExhausted(message),
        Some("unauthorized") => not_signed_in(message),
        Some("other") if cut => Trouble::StreamCut(message),
        Some(_) | None => match info.as_object().and_then(|info| info.iter().next()) {
            Some((kind, detail)) => by_status(kind, status(detail), message, cut),
            None => Trouble::BadRequest { status: 0, message },
        },
    }
}

fn by_status(kind: &str, status: Option<u16>, message: String, cut: bool) -> Trouble {
    match (kind, status) {
        (_, Some(429)) => limit(message, false, None),
        (_, Some(401 | 403)) => not_signed_in(message),
        (_, Some(503)) => Trouble::Overloaded { message, retry_after: None },
        (_, Some(status @ 500..)) => Trouble::Server { status, message },
        (_, Some(status)) => Trouble::BadRequest { status, message },
        ("responseStreamDisconnected", None) => Trouble::StreamCut(message),
        ("httpConnectionFailed" | "responseStreamConnectionFailed", None) => {
            Trouble::Network(message)
        }
        (_, None) if cut => Trouble::StreamCut(message),
        (_, None) => Trouble::Server { status: 0, message },
    }
}

fn limit(message: String, quota: bool, resets_at: Option<Timestamp>) -> Trouble {
    Trouble::Limit { message, resets_at, retry_after: None, quota }
}

fn not_signed_in(message: String) -> Trouble {
    Trouble::NotSignedIn { message, fix: SIGN_IN.to_owned() }
}

pub(super) fn status(detail: &Value) -> Option<u16> {
    detail.get("httpStatusCode")?.as_u64().and_then(|status| u16::try_from(status).ok())
}
