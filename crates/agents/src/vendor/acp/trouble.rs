//! What an agent's errors stand for.
//!
//! The protocol has codes for few things, and agents put the rest where they like: an HTTP status
//! in place of the code (Gemini CLI), a word in `data` (the adapters of Claude and Codex), or a
//! status in front of a text that their HTTP library made (Qwen Code).

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use serde_json::Value;

use crate::vendor::{
    Trouble,
    json::{at, text},
};

/// An error in answer to a request.
pub(super) fn trouble(error: &Error, sign_in: &str) -> Trouble {
    let data = error.data.as_ref().unwrap_or(&Value::Null);
    let told = text(data, &["message"]).or_else(|| text(data, &["details"]));
    let message = told.unwrap_or(&error.message).to_owned();
    if let Some(info) = data.get("codexErrorInfo").or_else(|| data.get("codex_error_info")) {
        return codex(info, message, sign_in);
    }
    if let Some(trouble) = text(data, &["errorKind"]).and_then(|word| claude(word, &message)) {
        return trouble;
    }
    let status = ["statusCode", "httpStatusCode", "status"];
    let status = status.iter().find_map(|name| data.get(name)?.as_u64());
    let code = i32::from(error.code);
    if let Some(status) = status
        .or_else(|| u64::try_from(code).ok())
        .and_then(http)
        // `401 Incorrect API key provided`: made by the OpenAI library, which agents pass on.
        .or_else(|| text(data, &["details"]).and_then(leading_status))
    {
        return by_status(status, message, sign_in);
    }
    match (error.code, text(data, &["errorName"])) {
        (ErrorCode::AuthRequired, _) | (_, Some("ProviderAuthError")) => {
            Trouble::NotSignedIn { message, fix: sign_in.to_owned() }
        }
        (_, Some("ContextOverflowError")) => Trouble::ContextExhausted(message),
        // The agent failed, not the request.
        (ErrorCode::InternalError, _) => Trouble::Server { status: 500, message },
        _ => Trouble::BadRequest { status: 0, message },
    }
}

fn http(status: u64) -> Option<u16> {
    u16::try_from(status).ok().filter(|status| (400..600).contains(status))
}

/// The status in a text of the shape `429 Too Many Requests`.
pub(super) fn leading_status(text: &str) -> Option<u16> {
    let (status, _) = text.split_once(' ')?;
    (status.len() == 3).then(|| status.parse().ok()).flatten().and_then(http)
}

pub(super) fn by_status(status: u16, message: String, sign_in: &str) -> Trouble {
    match status {
        429 => limit(message, false),
        529 | 503 => Trouble::Overloaded { message, retry_after: None },
        401 | 403 => Trouble::NotSignedIn { message, fix: sign_in.to_owned() },
        413 => Trouble::ContextExhausted(message),
        500.. => Trouble::Server { status, message },
        _ => Trouble::BadRequest { status, message },
    }
}

fn limit(message: String, quota: bool) -> Trouble {
    Trouble::Limit { message, resets_at: None, retry_after: None, quota }
}

/// The words of Claude's adapter. A usage limit of the subscription is a `rate_limit` there too.
fn claude(word: &str, message: &str) -> Option<Trouble> {
    let message = message.to_owned();
    Some(match word {
        "rate_limit" => limit(message, false),
        "billing_error" | "account_on_hold" => limit(message, true),
        "overloaded" => Trouble::Overloaded { message, retry_after: None },
        "server_error" => Trouble::Server { status: 500, message },
        "transport_lost" | "worker_shutdown" | "no_result" => Trouble::StreamCut(message),
        "invalid_request" => Trouble::BadRequest { status: 400, message },
        "model_not_found" => Trouble::BadRequest { status: 404, message },
        _ => return None,
    })
}

/// What Codex calls its errors: a word, or a word with the HTTP status below it. The older adapter
/// writes them with underscores.
pub(super) fn codex(info: &Value, message: String, sign_in: &str) -> Trouble {
    let (word, below) = match info {
        Value::String(word) => (word.as_str(), None),
        Value::Object(map) => map.iter().next().map_or(("", None), |(k, v)| (k.as_str(), Some(v))),
        _ => ("", None),
    };
    let status = below.and_then(|below| {
        let told = at(below, &["httpStatusCode"]).or_else(|| at(below, &["http_status_code"]));
        http(told?.as_u64()?)
    });
    if let Some(status) = status {
        return by_status(status, message, sign_in);
    }
    match word.replace('_', "").to_ascii_lowercase().as_str() {
        "usagelimitexceeded" | "sessionbudgetexceeded" => limit(message, true),
        "ratelimitexceeded" => limit(message, false),
        "contextwindowexceeded" => Trouble::ContextExhausted(message),
        "serveroverloaded" | "flexunavailable" => {
            Trouble::Overloaded { message, retry_after: None }
        }
        "internalservererror" => Trouble::Server { status: 500, message },
        "unauthorized" => Trouble::NotSignedIn { message, fix: sign_in.to_owned() },
        "responsestreamdisconnected" => Trouble::StreamCut(message),
        "httpconnectionfailed" | "responsestreamconnectionfailed" => Trouble::Network(message),
        "responsetoomanyfailedattempts" => Trouble::Server { status: 500, message },
        _ => Trouble::BadRequest { status: 0, message },
    }
}

/// The same trouble, in the words in which it was told later.
pub(super) fn because(trouble: Trouble, message: &str) -> Trouble {
    let message = message.to_owned();
    match trouble {
        Trouble::Limit { resets_at, retry_after, quota, .. } => {
            Trouble::Limit { message, resets_at, retry_after, quota }
        }
        Trouble::Overloaded { retry_after, .. } => Trouble::Overloaded { message, retry_after },
        Trouble::Server { status, .. } => Trouble::Server { status, message },
        Trouble::Network(_) => Trouble::Network(message),
        Trouble::StreamCut(_) => Trouble::StreamCut(message),
        Trouble::ContextExhausted(_) => Trouble::ContextExhausted(message),
        Trouble::NotSignedIn { fix, .. } => Trouble::NotSignedIn { message, fix },
        Trouble::BadRequest { status, .. } => Trouble::BadRequest { status, message },
        other => other,
    }
}
