//! The JSON Schemas of what lies on disk, made from the types that write it.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::{event, identity::Identity, packet::Packet, state::State};

/// Each schema under the name of its file in `docs/schemas/`.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("journal-line.schema.json", journal_line()),
        ("packet.schema.json", root::<Packet>("resume.json: what the next agent has to know")),
        ("session.schema.json", root::<Identity>("session.json: who a session is")),
        ("state.schema.json", root::<State>("The fold inside state.json")),
    ]
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

fn root<T: JsonSchema>(title: &str) -> Value {
    let mut schema = generator().into_root_schema_for::<T>().to_value();
    schema["title"] = json!(title);
    schema
}

/// Written by hand around the generated parts, since the line's own frame is not one type: a kind
/// decides the shape of its data, and an unknown kind may have any.
fn journal_line() -> Value {
    let mut generator = generator();
    let kinds: Vec<Value> = event::Body::schemas(&mut generator)
        .into_iter()
        .map(|(kind, data)| {
            json!({
                "if": { "properties": { "kind": { "const": kind } } },
                "then": { "properties": { "data": data.to_value() } }
            })
        })
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of journal.jsonl",
        "type": "object",
        "properties": {
            "v": { "type": "integer", "minimum": 1, "description": "Version of the line format." },
            "seq": { "type": "integer", "minimum": 1, "description": "1, 2, 3 … without holes." },
            "at": { "type": "string", "format": "date-time" },
            "synced": { "type": "integer", "minimum": 0, "description": "The last event that was known to be on disk when this line was written: tells damage from a torn tail." },
            "turn": { "type": "integer", "minimum": 1 },
            "agent": { "type": "string" },
            "kind": { "type": "string", "pattern": "^[a-z]+\\.[a-z_]+$" },
            "id": { "type": "string" },
            "data": { "type": "object" },
            "prev": { "type": "string", "pattern": "^[0-9a-f]{16}$", "description": "BLAKE3 of the line before, without its newline; of the session's id in the first line." },
            "crc": { "type": "string", "pattern": "^[0-9a-f]{8}$", "description": "CRC-32C of every byte of the line before `,\"crc\":`." }
        },
        "required": ["v", "seq", "at", "synced", "kind", "data", "prev", "crc"],
        "allOf": kinds,
        "$defs": generator.take_definitions(true)
    })
}
