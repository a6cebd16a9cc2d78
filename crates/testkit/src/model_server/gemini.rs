//! The Gemini API.

use serde_json::{Value, json};

use super::conversation::{Content, Conversation, Role, field, list, text_of};
use super::dialect::{Call, Dialect, Failure, Frame, Refusal, Until, pieces};
use super::scenario::{Reply, Stop, Usage};

#[derive(Debug)]
pub(super) struct Gemini;

impl Dialect for Gemini {
    fn conversation(&self, body: &Value, _prior: &[Value]) -> Conversation {
        let mut all = Conversation::default();
        let system = body.get("systemInstruction").or_else(|| body.get("system_instruction"));
        all.system.extend(system.and_then(|s| s.get("parts")).map(text_of));
        for content in list(body, "contents") {
            let model = content.get("role").and_then(Value::as_str) == Some("model");
            let role = if model { Role::Assistant } else { Role::User };
            list(content, "parts").iter().for_each(|p| part(&mut all, role, p));
        }
        all
    }

    fn whole(&self, reply: &Reply, call: &Call<'_>) -> Value {
        let mut parts = Vec::new();
        if !reply.thinking.is_empty() {
            parts.push(json!({ "text": reply.thinking, "thought": true }));
        }
        if !reply.text.is_empty() {
            parts.push(json!({ "text": reply.text }));
        }
        parts.extend(reply.tools.iter().map(function_call));
        chunk(&parts, Some(finish(reply)), reply.usage, call)
    }

    fn stream(&self, reply: &Reply, call: &Call<'_>) -> Vec<Frame> {
        let thought = |t| json!({ "text": t, "thought": true });
        let mut parts: Vec<Value> = pieces(&reply.thinking).into_iter().map(thought).collect();
        parts.extend(pieces(&reply.text).into_iter().map(|t| json!({ "text": t })));
        parts.extend(reply.tools.iter().map(function_call));
        // The end comes with the last part: clients take an empty part for a broken answer.
        let last = parts.pop();
        let mut frames: Vec<Frame> = parts
            .into_iter()
            .map(|part| Frame::plain(chunk(&[part], None, reply.usage, call)))
            .collect();
        let last: Vec<Value> = last.into_iter().collect();
        frames.push(Frame::plain(chunk(&last, Some(finish(reply)), reply.usage, call)));
        frames
    }

    fn refuse(&self, failure: &Failure, call: &Call<'_>) -> Refusal {
        let (code, status, message) = match failure {
            Failure::RateLimit(_) | Failure::UsageLimit(_) => (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            Failure::ServerError => (500, "INTERNAL", "An internal error has occurred."),
            Failure::Overloaded => {
                (503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
            }
            Failure::ContextExhausted => (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed \
                 (1048576).",
            ),
            Failure::Unauthorized => (
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials. Expected OAuth 2 access token, \
                 login cookie or other valid authentication credential.",
            ),
            Failure::NotFound(what) => (404, "NOT_FOUND", what.as_str()),
        };
        let mut error = json!({ "code": code, "message": message, "status": status });
        if let Failure::RateLimit(until) | Failure::UsageLimit(until) = failure {
            let per_day = matches!(failure, Failure::UsageLimit(_));
            error["details"] = limit_details(per_day, *until, call);
        }
        Refusal { status: code, headers: Vec::new(), body: json!({ "error": error }) }
    }

    fn error_frame(&self, refusal: &Refusal, _call: &Call<'_>) -> Frame {
        Frame::plain(&refusal.body)
    }
}

fn part(all: &mut Conversation, role: Role, part: &Value) {
    if let Some(call) = part.get("functionCall") {
        let content = Content::ToolCall {
            id: field(call, "id"),
            name: field(call, "name"),
            input: call.get("args").cloned().unwrap_or_default(),
        };
        all.push(Role::Assistant, content);
    } else if let Some(result) = part.get("functionResponse") {
        let given = field(result, "id");
        let id = if given.is_empty() { field(result, "name") } else { given };
        let response = result.get("response").unwrap_or(&Value::Null);
        let error = response.get("error");
        let shown = error.or_else(|| response.get("output")).or_else(|| response.get("result"));
        // The response is free-form: what has none of the usual keys is shown as it is.
        let output = match shown.unwrap_or(response) {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        all.push(Role::Tool, Content::ToolResult { id, output, is_error: error.is_some() });
    } else if let Some(Value::String(text)) = part.get("text") {
        let thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
        let text = text.clone();
        all.push(role, if thought { Content::Thinking(text) } else { Content::Text(text) });
    }
}

fn chunk(parts: &[Value], finish: Option<&str>, usage: Usage, call: &Call<'_>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.all_input(),
            "cachedContentTokenCount": usage.cache_read,
            "candidatesTokenCount": usage.output,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.all_input() + usage.all_output(),
        },
        "modelVersion": call.model,
        "responseId": call.tag,
    })
}

fn function_call(tool: &super::scenario::ToolCall) -> Value {
    let mut call = json!({ "name": tool.name, "args": tool.input });
    // Gemini usually gives none, and its client then makes up its own.
    if let Some(id) = &tool.id {
        call["id"] = json!(id);
    }
    json!({ "functionCall": call })
}

fn finish(reply: &Reply) -> &'static str {
    match reply.stop_reason() {
        Stop::EndTurn | Stop::ToolUse => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    }
}

fn limit_details(per_day: bool, until: Option<Until>, call: &Call<'_>) -> Value {
    let quota = if per_day {
        "GenerateRequestsPerDayPerProjectPerModel"
    } else {
        "GenerateRequestsPerMinutePerProjectPerModel"
    };
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{
            "quotaMetric": "generativelanguage.googleapis.com/generate_requests_per_model",
            "quotaId": quota,
            "quotaDimensions": { "location": "global", "model": call.model },
            "quotaValue": "250",
        }],
    })];
    // The daily quota says when it ends only if the scenario does.
    let until = until.or_else(|| (!per_day).then(|| Until::from_now(1, call.seconds())));
    if let Some(until) = until {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", until.seconds),
        }));
    }
    Value::Array(details)
}
