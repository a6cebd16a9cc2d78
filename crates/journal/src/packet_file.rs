//! `resume.json` as text: a packet with a checksum as its last field, so that a file which a person
//! has edited is known by itself, wherever it was copied to.

use segue_core::Packet;

const FIELD: &str = ",\n  \"checksum\": \"";

/// The file's text, and its checksum.
pub(crate) fn write(packet: &Packet) -> serde_json::Result<(String, String)> {
    let mut text = serde_json::to_string_pretty(packet)?;
    text.truncate(text.trim_end_matches(['}', '\n']).len());
    let checksum = blake3::hash(text.as_bytes()).to_hex().to_string();
    text.push_str(&format!("{FIELD}{checksum}\"\n}}\n"));
    Ok((text, checksum))
}

/// Whether the file is as it was written.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Some(at) = text.rfind(FIELD) else { return false };
    let checksum = blake3::hash(&text.as_bytes()[..at]).to_hex();
    let rest = text[at + FIELD.len()..].trim_end();
    // Nothing may follow it but the end.
    rest.strip_prefix(checksum.as_str()) == Some("\"\n}")
}
