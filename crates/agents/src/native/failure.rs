//! What a failed answer means: from status, error type and headers to a [`ModelError`].
//!
//! Only structured fields decide. The one exception is Anthropic's "prompt is too long", which
//! comes as a plain `invalid_request_error` with nothing else to know it by; it is matched as the
//! exact start of the vendor's message, and does not decide about limits.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;
use ureq::http::HeaderMap;

use super::model::ModelError;
use super::settings::Provider;

/// The most of an error body that is passed on.
const MAX_MESSAGE: usize = 2048;

/// The fields that vendors put into an error.
#[derive(Debug, Default)]
struct Fields {
    kind: String,
    code: String,
    message: String,
    status: Option<u16>,
    resets_at: Option<Timestamp>,
    resets_in: Option<Duration>,
}

/// When the vendor lets us in again.
#[derive(Debug, Default)]
struct Wait {
    resets_at: Option<Timestamp>,
    retry_after: Option<Duration>,
}

/// An HTTP answer that is no success.
pub(super) fn from_response(
    provider: Provider,
    status: u16,
    headers: &HeaderMap,
    body: &str,
    now: Timestamp,
) -> ModelError {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let mut fields = parsed.as_ref().map(read_fields).unwrap_or_default();
    if fields.message.is_empty() {
        let text = body.trim();
        fields.message = if text.is_empty() { format!("HTTP {status}") } else { text.to_owned() };
    }
    let wait = wait(&fields, Some(headers), now);
    classify(provider, status, fields, wait)
}

/// An error event inside a stream that began well.
pub(super) fn from_event(provider: Provider, event: &Value, now: Timestamp) -> ModelError {
    let mut fields = read_fields(event);
    if fields.message.is_empty() {
        fields.message = event.to_string();
    }
    let status = fields.status.unwrap_or_else(|| stands_for(&fields));
    let wait = wait(&fields, None, now);
    classify(provider, status, fields, wait)
}

/// Shortens to [`MAX_MESSAGE`] bytes, at a character's boundary.
pub(super) fn shorten(text: &str) -> String {
    let cut = text.floor_char_boundary(MAX_MESSAGE);
    if cut == text.len() { text.to_owned() } else { format!("{}…", &text[..cut]) }
}

fn read_fields(value: &Value) -> Fields {
    // Gemini's compatible endpoint wraps its errors into an array.
    let value = value.get(0).unwrap_or(value);
    let error = match value.get("error") {
        Some(Value::Null) | None => value,
        Some(error) => error,
    };
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = match error {
        Value::String(message) => message.clone(),
        _ => text("message"),
    };
    let number = |name: &str| error.get(name).and_then(Value::as_u64);
    let status = number("code").or_else(|| number("status"));
    Fields {
        kind: text("type"),
        code: text("code"),
        message,
        status: status.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n)),
        resets_at: error
            .get("resets_at")
            .and_then(Value::as_i64)
            .and_then(|seconds| Timestamp::from_second(seconds).ok()),
        resets_in: error.get("resets_in_seconds").and_then(Value::as_f64).and_then(seconds),
    }
}

/// The HTTP status that an error type has when it comes before the stream.
fn stands_for(fields: &Fields) -> u16 {
    let named = |name: &str| fields.kind == name || fields.code == name;
    if ["invalid_request_error", "not_found_error", "invalid_prompt"].into_iter().any(named) {
        return 400;
    }
    500
}

const SPENT: &[&str] = &["insufficient_quota", "billing_hard_limit_reached", "billing_error"];
const LIMIT: &[&str] = &["rate_limit_error", "rate_limit_exceeded", "usage_limit_reached"];
const OVERLOAD: &[&str] = &["overloaded_error", "server_is_overloaded", "slow_down"];
const KEY: &[&str] = &["authentication_error", "permission_error", "invalid_api_key"];
const TOO_LONG: &[&str] = &["context_length_exceeded", "request_too_large"];

fn classify(provider: Provider, status: u16, fields: Fields, wait: Wait) -> ModelError {
    let is = |names: &[&str]| names.iter().any(|name| fields.kind == *name || fields.code == *name);
    let message = shorten(&fields.message);
    let Wait { resets_at, retry_after } = wait;
    let quota = status == 402 || is(SPENT);
    if quota || status == 429 || is(LIMIT) {
        return ModelError::Limit { message, resets_at, retry_after, quota };
    }
    if matches!(status, 503 | 529) || is(OVERLOAD) {
        return ModelError::Overloaded { message, retry_after };
    }
    if matches!(status, 401 | 403) || is(KEY) {
        return ModelError::NotSignedIn { message, fix: provider.fix() };
    }
    let anthropic_too_long = provider == Provider::Anthropic
        && fields.kind == "invalid_request_error"
        && fields.message.starts_with("prompt is too long");
    if status == 413 || is(TOO_LONG) || anthropic_too_long {
        return ModelError::ContextExhausted(message);
    }
    match status {
        // 408 and 409 are the vendors' "try that again".
        408 | 409 | 500.. => ModelError::Server { status, message },
        _ => ModelError::BadRequest { status, message },
    }
}

/// The body's own fields first: they speak of the very limit that was hit.
fn wait(fields: &Fields, headers: Option<&HeaderMap>, now: Timestamp) -> Wait {
    let mut wait = Wait { resets_at: fields.resets_at, retry_after: fields.resets_in };
    if let Some(headers) = headers {
        wait.retry_after = wait.retry_after.or_else(|| retry_after(headers, now));
        wait.resets_at = wait.resets_at.or_else(|| reset_header(headers, now));
    }
    if wait.retry_after.is_none() {
        wait.retry_after = wait.resets_at.map(|at| until(now, at));
    }
    if wait.resets_at.is_none() {
        wait.resets_at = wait.retry_after.and_then(|wait| now.checked_add(wait).ok());
    }
    wait
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    if let Some(millis) = header(headers, "retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = header(headers, "retry-after")?;
    if let Ok(number) = text.parse::<f64>() {
        return seconds(number);
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(until(now, date))
}

/// When the limit ends that is used up. The unified one is of a plan; the others are per minute,
/// and only those with nothing remaining matter.
fn reset_header(headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    let unified = header(headers, "anthropic-ratelimit-unified-reset");
    if let Some(at) = unified.and_then(moment) {
        return Some(at);
    }
    let used_up = |prefix: &str, infix: &str, kind: &str| {
        let name = |what: &str| match infix {
            "" => format!("{prefix}-{kind}-{what}"),
            _ => format!("{prefix}-{what}-{kind}"),
        };
        let remaining = header(headers, &name("remaining"));
        let reset = header(headers, &name("reset"))?;
        if remaining.is_some_and(|left| left != "0") {
            return None;
        }
        moment(reset).or_else(|| now.checked_add(span(reset)?).ok())
    };
    let anthropic = ["requests", "tokens", "input-tokens", "output-tokens"]
        .into_iter()
        .filter_map(|kind| used_up("anthropic-ratelimit", "", kind));
    let openai = ["requests", "tokens"]
        .into_iter()
        .filter_map(|kind| used_up("x-ratelimit", "openai", kind));
    anthropic.chain(openai).max()
}

/// Seconds since 1970, or RFC 3339.
fn moment(text: &str) -> Option<Timestamp> {
    match text.parse::<i64>() {
        // Smaller numbers are spans, not times.
        Ok(number) if number > 1_000_000_000 => Timestamp::from_second(number).ok(),
        Ok(_) => None,
        Err(_) => text.parse().ok(),
    }
}

/// A span as OpenAI writes it: `1s`, `6m0s`, `1h2m3.5s`, `20ms`, or a plain number of seconds.
fn span(text: &str) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        return seconds(number);
    }
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match &rest[..unit] {
                "d" => 86_400.0,
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    seconds(total)
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::{HeaderName, HeaderValue};

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    fn limited(pairs: &[(&str, &str)], body: &str) -> (Option<i64>, Option<u64>, bool) {
        match from_response(Provider::OpenAi, 429, &headers(pairs), body, now()) {
            ModelError::Limit { resets_at, retry_after, quota, .. } => (
                resets_at.map(|at| at.as_second() - 1_800_000_000),
                retry_after.map(|wait| wait.as_secs()),
                quota,
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_reset_time_comes_from_wherever_it_is() {
        assert_eq!(limited(&[], ""), (None, None, false));
        assert_eq!(limited(&[("retry-after", "30")], ""), (Some(30), Some(30), false));
        assert_eq!(limited(&[("retry-after-ms", "1500")], ""), (Some(1), Some(1), false));
        let date = ("retry-after", "Fri, 15 Jan 2027 08:01:00 GMT");
        assert_eq!(limited(&[date], ""), (Some(60), Some(60), false));
        let unified = ("anthropic-ratelimit-unified-reset", "1800003600");
        assert_eq!(limited(&[unified], ""), (Some(3600), Some(3600), false));
        assert_eq!(limited(&[unified, ("retry-after", "5")], ""), (Some(3600), Some(5), false));
        let openai =
            [("x-ratelimit-reset-requests", "1m30.5s"), ("x-ratelimit-reset-tokens", "6ms")];
        assert_eq!(limited(&openai, ""), (Some(90), Some(90), false));
        let left = [
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1h"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(limited(&left, ""), (Some(360), Some(360), false));
        let tokens = [
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2027-01-15T08:02:00Z"),
        ];
        assert_eq!(limited(&tokens, ""), (Some(120), Some(120), false));
        let body = r#"{"error":{"type":"usage_limit_reached","resets_in_seconds":7200}}"#;
        assert_eq!(limited(&[], body), (Some(7200), Some(7200), false));
        let body = r#"{"error":{"type":"usage_limit_reached","resets_at":1800000100}}"#;
        assert_eq!(limited(&[], body), (Some(100), Some(100), false));
        // A time that has passed is no wait.
        let body = r#"{"error":{"resets_at":1799999999}}"#;
        assert_eq!(limited(&[], body), (Some(-1), Some(0), false));
    }

    #[test]
    fn a_spent_quota_is_told_apart() {
        let body = r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#;
        assert_eq!(limited(&[], body), (None, None, true));
    }

    #[test]
    fn words_in_a_message_decide_nothing() {
        let body =
            r#"{"error":{"type":"invalid_request_error","message":"429 rate limit overloaded"}}"#;
        let error = from_response(Provider::OpenAi, 400, &HeaderMap::new(), body, now());
        assert!(matches!(error, ModelError::BadRequest { status: 400, .. }), "{error:?}");
    }

    #[test]
    fn statuses_and_types_are_mapped() {
        let of = |status, body: &str| {
            from_response(Provider::Anthropic, status, &HeaderMap::new(), body, now())
        };
        assert!(matches!(of(529, ""), ModelError::Overloaded { .. }));
        assert!(matches!(of(503, "<html>"), ModelError::Overloaded { .. }));
        assert!(matches!(of(500, ""), ModelError::Server { status: 500, .. }));
        assert!(matches!(of(413, ""), ModelError::ContextExhausted(_)));
        assert!(matches!(of(404, ""), ModelError::BadRequest { status: 404, .. }));
        assert!(matches!(of(402, ""), ModelError::Limit { quota: true, .. }));
        let body = r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#;
        assert_eq!(of(400, body), ModelError::ContextExhausted("m".into()));
        let body =
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#;
        assert!(matches!(of(400, body), ModelError::ContextExhausted(_)));
        let ModelError::NotSignedIn { message, fix } = of(401, r#"{"error":"no key"}"#) else {
            panic!()
        };
        assert_eq!((message.as_str(), fix.contains("ANTHROPIC_API_KEY")), ("no key", true));
    }

    #[test]
    fn errors_inside_a_stream_are_mapped_by_type() {
        let of =
            |body: &str| from_event(Provider::Chat, &serde_json::from_str(body).unwrap(), now());
        assert!(matches!(
            of(r#"{"error":{"type":"overloaded_error"}}"#),
            ModelError::Overloaded { .. }
        ));
        assert!(matches!(
            of(r#"{"error":{"type":"api_error"}}"#),
            ModelError::Server { status: 500, .. }
        ));
        assert!(matches!(
            of(r#"{"type":"error","code":"rate_limit_exceeded"}"#),
            ModelError::Limit { .. }
        ));
        assert!(matches!(
            of(r#"{"error":{"code":502,"message":"x"}}"#),
            ModelError::Server { status: 502, .. }
        ));
        assert!(matches!(of(r#"{"error":{"code":429}}"#), ModelError::Limit { .. }));
    }

    #[test]
    fn long_bodies_are_cut_between_characters() {
        let body = "ü".repeat(3000);
        let error = from_response(Provider::Chat, 400, &HeaderMap::new(), &body, now());
        let ModelError::BadRequest { message, .. } = error else { panic!() };
        assert_eq!(message.len(), 2048 + '…'.len_utf8());
    }
}
