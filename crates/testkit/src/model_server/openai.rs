//! What OpenAI's two APIs share: how they refuse.

use serde_json::{Value, json};

use super::dialect::{Call, Failure, Refusal, Until};

/// The refusals that look the same in both APIs. Usage limits and exhausted contexts do not.
pub(super) fn refuse(failure: &Failure, call: &Call<'_>) -> Refusal {
    let mut headers = Vec::new();
    let (status, kind, code, message) = match failure {
        Failure::RateLimit(until) | Failure::UsageLimit(until) => {
            let until = until.unwrap_or(Until::from_now(1, call.seconds()));
            headers = rate_headers(until);
            let message = format!(
                "Rate limit reached for {} on requests per min (RPM): Limit 3, Used 3, Requested 1. \
                 Please try again in {}s.",
                call.model, until.seconds
            );
            (429, "requests", Some("rate_limit_exceeded"), message)
        }
        Failure::ServerError => (
            500,
            "server_error",
            None,
            "The server had an error while processing your request. Sorry about that!".to_owned(),
        ),
        Failure::Overloaded => (
            503,
            "service_unavailable_error",
            Some("server_is_overloaded"),
            "Our servers are currently overloaded. Please try again later.".to_owned(),
        ),
        Failure::Unauthorized => (
            401,
            "invalid_request_error",
            Some("invalid_api_key"),
            "Incorrect API key provided. You can find your API key at \
             https://platform.openai.com/account/api-keys."
                .to_owned(),
        ),
        Failure::ContextExhausted => (
            400,
            "invalid_request_error",
            Some("context_length_exceeded"),
            "Your input exceeds the context window of this model. Please adjust your input and try \
             again."
                .to_owned(),
        ),
        Failure::NotFound(what) => (404, "invalid_request_error", None, what.clone()),
    };
    headers.push(("x-request-id", format!("req_{}", call.tag)));
    let body = error(&message, kind, code, None);
    Refusal { status, headers, body }
}

pub(super) fn error(message: &str, kind: &str, code: Option<&str>, param: Option<&str>) -> Value {
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
}

fn rate_headers(until: Until) -> Vec<(&'static str, String)> {
    vec![
        ("retry-after", until.seconds.to_string()),
        ("retry-after-ms", (until.seconds * 1000).to_string()),
        ("x-ratelimit-limit-requests", "3".to_owned()),
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", format!("{}s", until.seconds)),
    ]
}
