//! What an item of a turn means: a text, a thought, or a tool at work.

use serde_json::{Value, json};

use crate::vendor::{
    Heard, Signal, ToolEnd,
    json::{mcp_text, text},
};

/// What a tool is called and asked; nothing for items that are no tools.
pub(super) fn tool(item: &Value) -> Option<(String, Value)> {
    let kind = text(item, &["type"])?;
    Some(match kind {
        "commandExecution" => ("shell".to_owned(), json!({ "command": item["command"] })),
        "fileChange" => {
            let files: Vec<&Value> = changes(item).map(|change| &change["path"]).collect();
            ("apply_patch".to_owned(), json!({ "files": files }))
        }
        "mcpToolCall" => {
            let server = text(item, &["server"]).unwrap_or_default();
            let name = text(item, &["tool"]).unwrap_or_default();
            (format!("{server}.{name}"), item["arguments"].clone())
        }
        "dynamicToolCall" => {
            (text(item, &["tool"]).unwrap_or(kind).to_owned(), item["arguments"].clone())
        }
        "webSearch" => ("web_search".to_owned(), json!({ "query": item["query"] })),
        "collabAgentToolCall" => {
            (text(item, &["tool"]).unwrap_or(kind).to_owned(), json!({ "prompt": item["prompt"] }))
        }
        _ => return None,
    })
}

pub(super) fn changes(item: &Value) -> impl Iterator<Item = &Value> {
    item["changes"].as_array().into_iter().flatten()
}

pub(super) fn started(item: &Value, heard: &mut Heard) {
    if let (Some((name, input)), Some(id)) = (tool(item), text(item, &["id"])) {
        heard.push(Signal::ToolCalled { id: id.to_owned(), name, input: input.to_string() });
    }
}

pub(super) fn completed(item: &Value, heard: &mut Heard) {
    match text(item, &["type"]) {
        Some("agentMessage") => {
            heard.push(Signal::Text(text(item, &["text"]).unwrap_or_default().to_owned()));
        }
        Some("reasoning") => {
            let parts = ["summary", "content"].into_iter().flat_map(|name| {
                item[name].as_array().into_iter().flatten().filter_map(Value::as_str)
            });
            heard.push(Signal::Thought(parts.collect::<Vec<_>>().join("\n")));
        }
        _ if tool(item).is_some() => returned(item, heard),
        _ => {}
    }
}

pub(super) fn returned(item: &Value, heard: &mut Heard) {
    let id = text(item, &["id"]).unwrap_or_default();
    let done = !matches!(text(item, &["status"]), Some("failed" | "declined"));
    let output = match text(item, &["aggregatedOutput"]) {
        Some(output) => output.to_owned(),
        None => ["error", "result", "contentItems"]
            .iter()
            .filter_map(|name| item.get(name).filter(|value| !value.is_null()))
            .map(|value| match (text(value, &["message"]), mcp_text(value)) {
                (Some(message), _) => message.to_owned(),
                (None, Some(said)) => said,
                (None, None) => value.to_string(),
            })
            .next()
            .unwrap_or_default(),
    };
    let mut end = ToolEnd::new(id, done, output);
    end.exit = item["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
    if done {
        let paths = changes(item).filter_map(|change| text(change, &["path"]));
        end.touched = paths.map(str::to_owned).collect();
    }
    heard.push(Signal::ToolReturned(end));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_of_a_server_says_is_text_and_not_its_wrapping() {
        let told = |fields: Value| {
            let mut item = json!({
                "type": "mcpToolCall", "id": "call_1", "server": "segue", "tool": "receive_messages",
                "status": "completed", "arguments": {}, "result": null, "error": null,
            });
            item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let mut heard = Heard::default();
            completed(&item, &mut heard);
            let Some(Signal::ToolReturned(end)) = heard.signals.pop() else { panic!("{item}") };
            end.output
        };
        let part = |text: &str| json!({ "type": "text", "text": text });
        let said =
            json!({ "content": [part("[message 1] from person:\n  Hello"), part("And more")] });
        assert_eq!(told(json!({ "result": said })), "[message 1] from person:\n  Hello\nAnd more");
        let failed = json!({ "error": { "message": "Transport closed" }, "status": "failed" });
        assert_eq!(told(failed), "Transport closed");
        // What is no text stays what it is.
        let picture = json!({ "content": [{ "type": "image", "data": "x" }] });
        assert_eq!(told(json!({ "result": picture })), picture.to_string());
    }
}
