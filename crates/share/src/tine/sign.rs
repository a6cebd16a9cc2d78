//! Signatures: HMAC-SHA256 with a shared secret, or Ed25519. `tine-sig/2` covers the document and
//! all of its metadata; `tine-sig/1`, which is only checked, a few fields of the metadata.
//!
//! Only `verified` and `verified-tofu` are good. Each other verdict says why it is not.

#[cfg(test)]
mod tests;

use std::fmt;

use ring::{
    hmac,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};

use super::{
    artifact::{Artifact, hex},
    json::{Map, Value, map},
    write::canonical,
};

const PREFIX: &[u8] = b"opentine.signature.v1:";
const FIRST: &str = "tine-sig/1";
const SECOND: &str = "tine-sig/2";
/// What the first scheme signs of the metadata.
const FIRST_METADATA: [&str; 11] = [
    "model_info",
    "system_prompt",
    "user_prompt",
    "forked_from",
    "fork_point",
    "warnings",
    "replay",
    "context",
    "next_harness",
    "migration",
    "fork",
];
const HEADER: [&str; 5] = ["alg", "key_id", "scheme", "signed_at", "signer"];
const MIN_SECRET: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Hmac,
    Ed25519,
}

impl Algorithm {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hmac => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// What a signature is checked against. Never shown.
#[derive(Clone)]
pub enum Trust {
    Secret(Vec<u8>),
    /// 32 bytes, or 64 hex digits.
    Public(Vec<u8>),
    /// The key that the signature itself brings.
    Embedded,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret(…)",
            Self::Public(_) => "Public(…)",
            Self::Embedded => "Embedded",
        })
    }
}

/// Who signs, with what.
#[derive(Clone)]
pub struct Signing {
    pub algorithm: Algorithm,
    /// A secret of at least 16 bytes; for Ed25519 a seed of 32 bytes, or of 64 hex digits.
    pub key: Vec<u8>,
    pub key_id: Option<String>,
    pub signer: Option<String>,
    pub signed_at: Option<String>,
}

impl fmt::Debug for Signing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signing").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CantSign {
    #[error("a run that is not completed or failed can't be signed")]
    Unfinished,
    #[error("the secret has fewer than {MIN_SECRET} bytes")]
    Short,
    #[error("an Ed25519 key is 32 bytes, or 64 hex digits")]
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Verified,
    /// By the key that came with it: whoever has that one has signed.
    Tofu,
    Unsigned,
    NoKey,
    Mismatch,
    Error,
}

impl State {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Tofu => "verified-tofu",
            Self::Unsigned => "unsigned",
            Self::NoKey => "no-key",
            Self::Mismatch => "mismatch",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub state: State,
    pub reason: &'static str,
    pub algorithm: Option<String>,
    pub key_id: Option<String>,
    pub signer: Option<String>,
    pub signed_at: Option<String>,
}

impl Verdict {
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.state, State::Verified | State::Tofu)
    }
}

impl Artifact {
    /// Signs it: nothing else of it is changed.
    pub fn sign(&mut self, with: &Signing) -> Result<(), CantSign> {
        if !matches!(self.status(), "completed" | "failed") || self.is_draft() {
            return Err(CantSign::Unfinished);
        }
        let optional = |value: &Option<String>| value.clone().map_or(Value::Null, Value::Text);
        let mut block = map([
            ("alg", with.algorithm.name().into()),
            ("key_id", optional(&with.key_id)),
            ("scheme", SECOND.into()),
            ("signed_at", optional(&with.signed_at)),
            ("signer", optional(&with.signer)),
        ]);
        let message = message(&self.source, &block);
        // What is absent is signed as absent, and left out.
        block.retain(|_, value| *value != Value::Null);
        match with.algorithm {
            Algorithm::Hmac if with.key.len() < MIN_SECRET => return Err(CantSign::Short),
            Algorithm::Hmac => {
                let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &with.key), &message);
                block.insert("value".to_owned(), hex(tag.as_ref()).into());
            }
            Algorithm::Ed25519 => {
                let seed = thirty_two(&with.key).ok_or(CantSign::Key)?;
                let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| CantSign::Key)?;
                block.insert("value".to_owned(), hex(pair.sign(&message).as_ref()).into());
                block.insert("public_key".to_owned(), hex(pair.public_key().as_ref()).into());
            }
        }
        for root in [&mut self.source, &mut self.run] {
            if let Some(Value::Map(metadata)) = root.get_mut("metadata")
                && let Some(Value::Map(integrity)) = metadata.get_mut("integrity")
            {
                integrity.insert("signature".to_owned(), block.clone().into());
            }
        }
        Ok(())
    }

    /// What its signature is worth.
    #[must_use]
    pub fn signature(&self, trust: Option<&Trust>) -> Verdict {
        let integrity = self.source.get("metadata").and_then(|data| data.get("integrity"));
        let block = integrity.and_then(|integrity| integrity.get("signature"));
        let said = |key: &str| block?.get(key)?.text().map(str::to_owned);
        let (state, reason) = match block {
            None | Some(Value::Null) => (State::Unsigned, "there is no signature"),
            Some(Value::Map(block)) => verify(&self.source, block, trust),
            Some(_) => (State::Error, "the signature is not an object"),
        };
        Verdict {
            state,
            reason,
            algorithm: said("alg"),
            key_id: said("key_id"),
            signer: said("signer"),
            signed_at: said("signed_at"),
        }
    }
}

/// What is signed.
fn message(source: &Map, header: &Map) -> Vec<u8> {
    let body: Map = source
        .iter()
        .filter(|(key, _)| *key != "metadata")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let header: Map = HEADER
        .iter()
        .map(|key| ((*key).to_owned(), header.get(*key).cloned().unwrap_or(Value::Null)))
        .collect();
    let second = header.get("scheme").and_then(Value::text) == Some(SECOND);
    let mut metadata = source.get("metadata").and_then(Value::map).cloned().unwrap_or_default();
    metadata.retain(|key, _| match second {
        true => key != "integrity",
        false => FIRST_METADATA.contains(&key.as_str()),
    });
    let view =
        map([("body", body.into()), ("header", header.into()), ("metadata", metadata.into())]);
    [PREFIX, canonical(&Value::Map(view)).as_bytes()].concat()
}

fn verify(source: &Map, block: &Map, trust: Option<&Trust>) -> (State, &'static str) {
    let malformed = (State::Error, "the signature's header is not what it has to be");
    let said = |key: &str| block.get(key).and_then(Value::text);
    if !said("scheme").is_some_and(|scheme| [FIRST, SECOND].contains(&scheme)) {
        return (State::Error, "the scheme is not known here");
    }
    let algorithm = match said("alg") {
        Some("hmac-sha256") => Algorithm::Hmac,
        Some("ed25519") => Algorithm::Ed25519,
        Some(_) => return (State::Error, "the algorithm is not known here"),
        None => return malformed,
    };
    let allowed = |key: &str| {
        HEADER.contains(&key)
            || key == "value"
            || (key == "public_key" && algorithm == Algorithm::Ed25519)
    };
    if block.iter().any(|(key, value)| !allowed(key) || value.text().is_none()) {
        return malformed;
    }
    let length = if algorithm == Algorithm::Hmac { 64 } else { 128 };
    let Some(value) = said("value").and_then(|value| unhex(value, length)) else {
        return (State::Error, "the signature's value is not what it has to be");
    };
    let message = message(source, block);
    match algorithm {
        Algorithm::Hmac => verify_hmac(&message, &value, trust),
        Algorithm::Ed25519 => verify_ed25519(&message, &value, said("public_key"), trust),
    }
}

fn verify_hmac(message: &[u8], value: &[u8], trust: Option<&Trust>) -> (State, &'static str) {
    let Some(Trust::Secret(secret)) = trust else {
        return (State::NoKey, "it is signed with a shared secret, and none was given");
    };
    if secret.len() < MIN_SECRET {
        return (State::Error, "the secret is too short");
    }
    match hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), message, value) {
        Ok(()) => (State::Verified, "ok"),
        Err(_) => (State::Mismatch, "the signature is not the one of this document"),
    }
}

fn verify_ed25519(
    message: &[u8],
    value: &[u8],
    embedded: Option<&str>,
    trust: Option<&Trust>,
) -> (State, &'static str) {
    let malformed = (State::Error, "the public key is not one");
    let weak = (State::Error, "the public key is one that anybody can sign for");
    let Some(embedded) = embedded.and_then(|key| unhex(key, 64)) else { return malformed };
    let good = match trust {
        Some(Trust::Public(key)) => match thirty_two(key) {
            Some(key) if is_weak(&key) => return weak,
            Some(key) if key[..] != embedded[..] => {
                return (State::Mismatch, "it was signed with another key than the trusted one");
            }
            Some(_) => State::Verified,
            None => return malformed,
        },
        Some(Trust::Embedded) => State::Tofu,
        _ => return (State::NoKey, "it is signed with a key, and no public key was given"),
    };
    if is_weak(&embedded) {
        return weak;
    }
    match UnparsedPublicKey::new(&ED25519, &embedded).verify(message, value) {
        Ok(()) => (good, "ok"),
        Err(_) => (State::Mismatch, "the signature is not the one of this document"),
    }
}

/// Lower case only: one signature has one spelling.
fn unhex(text: &str, length: usize) -> Option<Vec<u8>> {
    let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != length || !plain {
        return None;
    }
    (0..length / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

/// A key as bytes, perhaps with a line end after them, or as hex digits with space around them.
fn thirty_two(key: &[u8]) -> Option<[u8; 32]> {
    // A byte of the key may be a line end as well.
    let line = key.strip_suffix(b"\n").filter(|line| line.len() == 32);
    if let Ok(bytes) = line.unwrap_or(key).try_into() {
        return Some(bytes);
    }
    let text = std::str::from_utf8(key).ok()?.trim().to_ascii_lowercase();
    unhex(&text, 64)?.try_into().ok()
}

/// Points of small order, whose signature holds for every message, and second spellings.
fn is_weak(key: &[u8]) -> bool {
    const SMALL: [&str; 5] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    let mut key = key.to_vec();
    // The sign of a coordinate makes no difference here.
    if let Some(last) = key.last_mut() {
        *last &= 0x7f;
    }
    let beyond = key.first().is_some_and(|first| *first >= 0xed)
        && key.last() == Some(&0x7f)
        && key.iter().skip(1).take(30).all(|byte| *byte == 0xff);
    beyond || key.len() != 32 || SMALL.contains(&hex(&key).as_str())
}
