//! The server of our own tools, for the agents of the vendors: MCP on standard streams.
//!
//! The agent's program starts it for one run (`segue mcp --dir … --turn … --agent …`). Whatever a
//! tool has to note is on the disk before the call is answered, because some programs end their
//! servers without a word.
//!
//! A line is a message of JSON-RPC 2.0, and so is all that it prints. What it does not know is
//! refused at once: some programs ask for a newer protocol first, and wait for that.

use std::io::{self, BufRead, Read, Write};

use segue_agents::{report, vendor::ToolServer, verdict};
use serde_json::{Value, json};

use crate::tools::{Desk, Tool};

/// A longer line is no message of ours. A report is cut to much less.
const LONGEST_LINE: u64 = 16 << 20;

/// The version of the protocol where the other side names none.
const VERSION: &str = "2025-06-18";

const NOT_JSON: i64 = -32700;
const NO_REQUEST: i64 = -32600;
const NO_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;

/// Answers until there is nothing more to read.
///
/// # Errors
/// When the streams break.
pub fn serve(desk: &Desk, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if read as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            input.skip_until(b'\n')?;
            line.truncate(1);
        }
        if let Some(answer) = answer(desk, &line) {
            let mut bytes = serde_json::to_vec(&answer)?;
            bytes.push(b'\n');
            output.write_all(&bytes)?;
            output.flush()?;
        }
    }
}

/// What is said to a line; nothing to notices, to answers and to empty lines.
fn answer(desk: &Desk, line: &[u8]) -> Option<Value> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return Some(refusal(&Value::Null, NOT_JSON, "this is no line of JSON"));
    };
    if !message.is_object() {
        return Some(refusal(&Value::Null, NO_REQUEST, "this is no request"));
    }
    let id = message.get("id").filter(|id| !id.is_null())?;
    let method = message.get("method")?.as_str().unwrap_or_default();
    let params = message.get("params").unwrap_or(&Value::Null);
    let result = match method {
        "initialize" => {
            desk.was_found();
            greeting(desk, params)
        }
        "ping" => json!({}),
        "tools/list" => {
            json!({ "tools": desk.tools().map(shown).collect::<Vec<_>>() })
        }
        "tools/call" => match called(desk, params) {
            Ok(result) => result,
            Err(message) => return Some(refusal(id, BAD_PARAMS, &message)),
        },
        _ => return Some(refusal(id, NO_METHOD, "there is no such method")),
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn greeting(desk: &Desk, params: &Value) -> Value {
    // A reviewer is asked for one thing.
    let instructions = match desk.tool(verdict::TOOL) {
        Some(_) => verdict::ASK_TOOL,
        None => report::ASK_TOOL,
    };
    // It is the same to us whichever it is: nothing that we use differs between them.
    let version = params.get("protocolVersion").and_then(Value::as_str).unwrap_or(VERSION);
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": ToolServer::NAME, "version": env!("CARGO_PKG_VERSION") },
        "instructions": instructions,
    })
}

/// The tools of this server touch nothing but the session's own notes: those who ask before
/// anything else need not ask for them.
fn shown(tool: &dyn Tool) -> Value {
    json!({
        "name": tool.name(),
        "description": tool.description(),
        "inputSchema": tool.schema(),
        "annotations": {
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    })
}

/// What goes wrong in a tool is a result, which the model sees; not so a tool that there is not.
fn called(desk: &Desk, params: &Value) -> Result<Value, String> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(tool) = desk.tool(name) else {
        return Err(format!("there is no tool `{name}`"));
    };
    let nothing = json!({});
    let input = params.get("arguments").filter(|input| !input.is_null()).unwrap_or(&nothing);
    let done = tool.call(desk, input);
    let is_error = done.is_err();
    let text = done.unwrap_or_else(|error| error);
    Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use segue_core::{event::Via, inbox::Message};
    use segue_journal::{RealDisk, inbox, session::JOURNAL};

    use super::*;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(JOURNAL), "").unwrap();
            Self { dir }
        }

        fn say(&self, lines: &str) -> Vec<Value> {
            let dir = self.dir.path().to_owned();
            let desk = Desk::new(Arc::new(RealDisk), dir, 3, "claude".to_owned());
            let mut said = Vec::new();
            serve(&desk, lines.as_bytes(), &mut said).unwrap();
            let said = String::from_utf8(said).unwrap();
            said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        }

        fn call(&self, input: &Value) -> (bool, String) {
            let params = json!({ "name": "checkpoint", "arguments": input });
            let line =
                json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
            let said = self.say(&line.to_string());
            assert_eq!(said[0]["id"], 7);
            let result = &said[0]["result"];
            let text = result["content"][0]["text"].as_str().unwrap().to_owned();
            (result["isError"].as_bool().unwrap(), text)
        }

        fn waiting(&self) -> Vec<inbox::Waiting> {
            inbox::waiting(&RealDisk, self.dir.path()).unwrap()
        }
    }

    #[test]
    fn it_greets_lists_and_refuses_at_once() {
        let said = Place::new().say(
            r#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}

{"jsonrpc":"2.0","id":3,"method":"ping"}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}
{"jsonrpc":"2.0","id":4,"result":{}}
{"jsonrpc":"2.0","id":5,"method":"resources/list"}
{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"rm"}}
{"jsonrpc":
[]"#,
        );
        assert_eq!(said.len(), 8, "{said:#?}");
        assert_eq!((&said[0]["id"], &said[0]["error"]["code"]), (&json!("a"), &json!(NO_METHOD)));
        assert_eq!(said[1]["id"], 0);
        assert_eq!(said[1]["result"]["protocolVersion"], "2025-11-25");
        assert!(said[1]["result"]["instructions"].as_str().unwrap().contains("`checkpoint`"));
        let tool = &said[2]["result"]["tools"][0];
        assert_eq!(tool["name"], "checkpoint");
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["annotations"]["readOnlyHint"], true);
        assert_eq!(said[3]["result"], json!({}));
        assert_eq!(said[4]["error"]["code"], NO_METHOD);
        assert_eq!(said[5]["error"]["message"], "there is no tool `rm`");
        assert_eq!((&said[6]["id"], &said[6]["error"]["code"]), (&Value::Null, &json!(NOT_JSON)));
        assert_eq!(said[7]["error"]["code"], NO_REQUEST);
    }

    #[test]
    fn who_asks_for_the_tools_is_known_until_the_turn_is_over() {
        let place = Place::new();
        let found = |turn| inbox::take_contact(&RealDisk, place.dir.path(), turn);
        place.say(r#"{"id":1,"method":"ping"}"#);
        assert!(!found(3));
        for _ in 0..2 {
            place.say(r#"{"id":1,"method":"initialize"}"#);
        }
        assert!(place.waiting().is_empty());
        assert_eq!([found(2), found(3), found(3)], [false, true, false]);
    }

    #[test]
    fn what_is_reported_waits_in_the_inbox_once() {
        let place = Place::new();
        let input =
            json!({ "decisions": [{ "summary": "TOML", "why": "short" }], "remaining": [] });
        assert_eq!(place.call(&input), (false, "noted: 1 decision".to_owned()));
        assert_eq!(place.call(&input), (false, "noted: 1 decision".to_owned()));
        std::thread::sleep(std::time::Duration::from_millis(2));
        let next = json!({ "next_task": "write it" });
        assert_eq!(place.call(&next), (false, "noted: 1 next task".to_owned()));
        let waiting = place.waiting();
        assert_eq!(waiting.len(), 2, "{waiting:?}");
        let Message::Report { turn, agent, report } = &waiting[0].message else { panic!() };
        assert_eq!((*turn, agent.as_str(), report.via), (3, "claude", Via::Tool));
        assert_eq!(report.decisions[0].why.as_deref(), Some("short"));
        assert_eq!(report.remaining, Some(vec![]));
        let Message::Report { report, .. } = &waiting[1].message else { panic!() };
        assert_eq!(report.next_task.as_deref(), Some("write it"));
        assert_eq!(waiting[0].id.len(), 13 + 1 + 16);
    }

    #[test]
    fn what_is_wrong_is_told_and_nothing_is_noted() {
        let place = Place::new();
        for (input, wrong) in [
            (json!({ "decisions": "many" }), "invalid type"),
            (json!({ "todo": [] }), "there is no `todo`"),
            (json!({}), "nothing is said"),
            (Value::Null, "nothing is said"),
            (json!("text"), "cannot be read"),
        ] {
            let (is_error, text) = place.call(&input);
            assert!(is_error && text.contains(wrong), "{text}");
        }
        assert!(place.waiting().is_empty());
        std::fs::remove_file(place.dir.path().join(JOURNAL)).unwrap();
        let (is_error, text) = place.call(&json!({ "next_task": "x" }));
        assert!(is_error && text.contains("the session is gone"), "{text}");
        assert!(!place.dir.path().join("inbox").exists());
    }

    #[test]
    fn a_line_without_end_is_given_up_and_the_next_one_is_read() {
        let long = "x".repeat(usize::try_from(LONGEST_LINE).unwrap() + 10);
        let said = Place::new().say(&format!("{long}\n{}\n", r#"{"id":1,"method":"ping"}"#));
        assert_eq!(said[0]["error"]["code"], NOT_JSON);
        assert_eq!((said.len(), &said[1]["result"]), (2, &json!({})));
    }

    #[test]
    fn everybody_has_the_tools_of_their_place() {
        let said = |kind: &str, method: &str| -> Value {
            let place = Place::new();
            let identity = json!({
                "v": 1, "id": segue_core::SessionId::from_parts(1, 1),
                "created_at": "2026-01-01T00:00:00Z", "repo": {"id": "r", "identity": "r"},
                "workspace": "w", "loop": kind, "agent": "claude", "prompt": {"text": "go"},
                "segue": "0",
            });
            let path = place.dir.path().join("session.json");
            std::fs::write(path, identity.to_string()).unwrap();
            let line = json!({ "jsonrpc": "2.0", "id": 2, "method": method });
            place.say(&line.to_string())[0]["result"].clone()
        };
        let names = |kind: &str| -> Vec<String> {
            let tools = said(kind, "tools/list")["tools"].as_array().unwrap().clone();
            tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("solo"), ["checkpoint"]);
        let pair = ["checkpoint", "send_to_agent", "receive_messages", "bridge_status"];
        assert_eq!(names("pair"), pair);
        let review = [&pair[..], &["submit_verdict"]].concat();
        assert_eq!(names("review"), review);
        for (kind, asked, not) in [
            ("pair", "`checkpoint`", "`submit_verdict`"),
            ("review", "`submit_verdict`", "`checkpoint`"),
        ] {
            let told = said(kind, "initialize")["instructions"].as_str().unwrap().to_owned();
            assert!(told.contains(asked) && !told.contains(not), "{kind}: {told}");
        }
    }
}
