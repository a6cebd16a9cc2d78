//! The files were signed by the other implementation.

use super::*;

const SECRET: &[u8] = b"a secret of enough bytes, for tests";
/// What `11…11` is the private half of.
const PUBLIC: &str = "d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737";

macro_rules! file {
    ($name:literal) => {
        Artifact::read(include_bytes!(concat!("../../../tests/share/files/", $name)).to_vec())
            .unwrap()
    };
}

fn secret() -> Trust {
    Trust::Secret(SECRET.to_vec())
}

fn public() -> Trust {
    Trust::Public(PUBLIC.as_bytes().to_vec())
}

/// Every scheme with both algorithms, each with the key that it has to be checked by.
fn all() -> [(Artifact, Trust); 4] {
    [
        (file!("sig1-hmac.tine"), secret()),
        (file!("sig2-hmac.tine"), secret()),
        (file!("sig1-ed25519.tine"), public()),
        (file!("sig2-ed25519.tine"), public()),
    ]
}

/// The same with something changed in a section of it.
fn with(artifact: &Artifact, section: &str, change: impl FnOnce(&mut Map)) -> Artifact {
    let mut source = artifact.source.clone();
    let Some(Value::Map(found)) = source.get_mut(section) else { panic!("no {section}") };
    change(found);
    Artifact::of(source).unwrap()
}

fn block(metadata: &mut Map) -> &mut Map {
    let Some(Value::Map(integrity)) = metadata.get_mut("integrity") else { panic!("no digest") };
    let Some(Value::Map(block)) = integrity.get_mut("signature") else { panic!("not signed") };
    block
}

fn with_block(artifact: &Artifact, change: impl FnOnce(&mut Map)) -> Artifact {
    with(artifact, "metadata", |metadata| change(block(metadata)))
}

fn state(artifact: &Artifact, trust: &Trust) -> State {
    artifact.signature(Some(trust)).state
}

#[test]
fn what_the_other_implementation_signed_is_verified() {
    for (artifact, trust) in all() {
        let verdict = artifact.signature(Some(&trust));
        assert_eq!((verdict.state, verdict.reason), (State::Verified, "ok"));
        assert_eq!((verdict.key_id.as_deref(), verdict.signer.as_deref()), (Some("k"), Some("s")));
        assert_eq!(artifact.signature(None).state, State::NoKey);
        // The one does not do for the other.
        let other = if matches!(trust, Trust::Secret(_)) { public() } else { secret() };
        assert_eq!(state(&artifact, &other), State::NoKey);
    }
    assert_eq!(file!("v1.tine").signature(Some(&secret())).state, State::Unsigned);
    assert_eq!(state(&file!("sig2-ed25519.tine"), &Trust::Embedded), State::Tofu);
    assert_eq!(state(&file!("sig2-hmac.tine"), &Trust::Embedded), State::NoKey);
}

#[test]
fn another_key_is_not_the_key() {
    let other = Trust::Secret(b"another secret of enough bytes".to_vec());
    assert_eq!(state(&file!("sig2-hmac.tine"), &other), State::Mismatch);
    assert_eq!(state(&file!("sig2-hmac.tine"), &Trust::Secret(b"short".to_vec())), State::Error);
    let pair = Ed25519KeyPair::from_seed_unchecked(&[0x22; 32]).unwrap();
    let other = pair.public_key().as_ref().to_vec();
    let signed = file!("sig2-ed25519.tine");
    assert_eq!(state(&signed, &Trust::Public(other.clone())), State::Mismatch);
    assert_eq!(state(&signed, &Trust::Public(b"no key".to_vec())), State::Error);
    // Whoever puts a key of their own in has to sign with it.
    let swapped = with_block(&signed, |block| {
        block.insert("public_key".to_owned(), hex(&other).into());
    });
    assert_eq!(state(&swapped, &public()), State::Mismatch);
    assert_eq!(state(&swapped, &Trust::Embedded), State::Mismatch);
}

#[test]
fn each_scheme_covers_what_it_covers() {
    for (artifact, trust) in all() {
        let first = block(&mut artifact.source["metadata"].map().unwrap().clone())["scheme"]
            == Value::from(FIRST);
        let metadata = |key: &str| {
            let changed = with(&artifact, "metadata", |metadata| {
                metadata.insert(key.to_owned(), "other".into());
            });
            state(&changed, &trust)
        };
        for key in ["user_prompt", "system_prompt", "model_info", "replay", "forked_from"] {
            assert_eq!(metadata(key), State::Mismatch, "{key}");
        }
        // The first scheme left these out.
        let left_out = if first { State::Verified } else { State::Mismatch };
        for key in ["fork_reason", "anything"] {
            assert_eq!(metadata(key), left_out, "{key}");
        }
        for section in ["cache", "policies", "manifest"] {
            let changed = with(&artifact, section, |section| {
                section.insert("x".to_owned(), Value::Null);
            });
            assert_eq!(state(&changed, &trust), State::Mismatch, "{section}");
        }
        for key in ["key_id", "signer", "signed_at"] {
            let renamed = with_block(&artifact, |block| {
                block.insert(key.to_owned(), "other".into());
            });
            let absent = with_block(&artifact, |block| drop(block.remove(key)));
            assert_eq!(state(&renamed, &trust), State::Mismatch, "{key}");
            assert_eq!(state(&absent, &trust), State::Mismatch, "{key}");
        }
        let scheme = if first { SECOND } else { FIRST };
        let swapped = with_block(&artifact, |block| {
            block.insert("scheme".to_owned(), scheme.into());
        });
        assert_eq!(state(&swapped, &trust), State::Mismatch);
    }
}

#[test]
fn a_signature_has_one_spelling() {
    for (artifact, trust) in all() {
        let set = |key: &str, value: Value| {
            let changed = with_block(&artifact, |block| drop(block.insert(key.to_owned(), value)));
            state(&changed, &trust)
        };
        let said = |key: &str| {
            let metadata = artifact.source["metadata"].map().unwrap().clone();
            block(&mut metadata.clone()).get(key).and_then(Value::text).unwrap_or("00").to_owned()
        };
        for (key, value) in [
            ("value", said("value").to_uppercase().into()),
            ("value", format!("{}00", said("value")).into()),
            ("value", said("value")[2..].into()),
            ("value", Value::Null),
            ("public_key", said("public_key").to_uppercase().into()),
            ("scheme", "tine-sig/3".into()),
            ("alg", "hmac-md5".into()),
            ("alg", Value::Null),
            ("signer", Value::Null),
            ("signer", 1u64.into()),
            ("other", "x".into()),
        ] {
            assert_eq!(set(key, value.clone()), State::Error, "{key} {value:?}");
        }
        for value in ["x".into(), Value::List(Vec::new()), true.into()] {
            let changed = with(&artifact, "metadata", |metadata| {
                let Some(Value::Map(integrity)) = metadata.get_mut("integrity") else { return };
                integrity.insert("signature".to_owned(), value);
            });
            assert_eq!(state(&changed, &trust), State::Error);
        }
    }
    let bare = with_block(&file!("sig2-ed25519.tine"), |block| drop(block.remove("public_key")));
    assert_eq!(state(&bare, &public()), State::Error);
}

#[test]
fn ours_is_the_same_as_theirs() {
    for (signed, algorithm, key) in [
        (file!("sig2-hmac.tine"), Algorithm::Hmac, SECRET.to_vec()),
        (file!("sig2-ed25519.tine"), Algorithm::Ed25519, "11".repeat(32).into_bytes()),
    ] {
        let mut ours = with(&signed, "metadata", |metadata| {
            let Some(Value::Map(integrity)) = metadata.get_mut("integrity") else { return };
            integrity.remove("signature");
        });
        let some = |text: &str| Some(text.to_owned());
        let (key_id, signer, signed_at) = (some("k"), some("s"), some("2026-06-01T00:00:00Z"));
        ours.sign(&Signing { algorithm, key, key_id, signer, signed_at }).unwrap();
        assert_eq!(ours, signed);
    }
}

#[test]
fn what_can_not_be_signed_is_refused() {
    let finished = file!("v1.tine");
    let sign = |run: &Artifact, algorithm, key: &[u8]| {
        let with =
            Signing { algorithm, key: key.to_vec(), key_id: None, signer: None, signed_at: None };
        run.clone().sign(&with)
    };
    assert_eq!(sign(&finished, Algorithm::Hmac, SECRET), Ok(()));
    assert_eq!(sign(&finished, Algorithm::Hmac, b"fifteen bytes!!"), Err(CantSign::Short));
    assert_eq!(sign(&finished, Algorithm::Ed25519, &[7; 31]), Err(CantSign::Key));
    for change in
        [("status", "running".into()), ("status", "paused".into()), ("draft", true.into())]
    {
        let mut source = finished.source.clone();
        source.insert(change.0.to_owned(), change.1);
        let run = Artifact::of(source).unwrap();
        assert_eq!(sign(&run, Algorithm::Hmac, SECRET), Err(CantSign::Unfinished));
    }
}

/// All eight points of small order, the second spellings of two of them, and others beyond the
/// field.
fn weak_keys() -> Vec<[u8; 32]> {
    let ends = |first: u8, middle: u8, last: u8| {
        let mut key = [middle; 32];
        (key[0], key[31]) = (first, last);
        key
    };
    let mut keys = vec![ends(0, 0, 0), ends(0, 0, 0x80), ends(1, 0, 0), ends(1, 0, 0x80)];
    keys.extend([ends(0xec, 0xff, 0x7f), ends(0xec, 0xff, 0xff)]);
    for odd in [
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ] {
        let mut key = thirty_two(odd.as_bytes()).unwrap();
        keys.push(key);
        key[31] |= 0x80;
        keys.push(key);
    }
    for first in 0xed..=0xff {
        keys.extend([ends(first, 0xff, 0x7f), ends(first, 0xff, 0xff)]);
    }
    keys
}

#[test]
fn a_key_that_anybody_can_sign_for_is_no_key() {
    let signed = file!("sig2-ed25519.tine");
    // The neutral point, and nothing: it holds for every message, where nobody looks at the key.
    let mut forged = [0; 64];
    forged[0] = 1;
    let mut neutral = [0; 32];
    neutral[0] = 1;
    UnparsedPublicKey::new(&ED25519, &neutral).verify(b"anything", &forged).unwrap();
    for key in weak_keys() {
        let forged = with_block(&signed, |block| {
            block.insert("public_key".to_owned(), hex(&key).into());
            block.insert("value".to_owned(), hex(&forged).into());
        });
        assert_eq!(state(&forged, &Trust::Embedded), State::Error, "{}", hex(&key));
        assert_eq!(state(&forged, &Trust::Public(key.to_vec())), State::Error, "{}", hex(&key));
        // Whoever trusts one trusts nobody, whatever a file was signed with.
        assert_eq!(state(&signed, &Trust::Public(key.to_vec())), State::Error, "{}", hex(&key));
    }
    assert!(!is_weak(&thirty_two(PUBLIC.as_bytes()).unwrap()));
}

#[test]
fn a_key_is_bytes_or_digits() {
    let mut raw = [7; 32];
    raw[31] = b'\n';
    assert_eq!(thirty_two(&raw), Some(raw));
    assert_eq!(thirty_two(&[&raw[..], b"\n"].concat()), Some(raw));
    let digits = hex(&raw);
    for text in
        [digits.clone(), format!("{digits}\n"), format!(" {digits} "), digits.to_uppercase()]
    {
        assert_eq!(thirty_two(text.as_bytes()), Some(raw), "{text:?}");
    }
    for bad in [&raw[..31], &[7; 33], &digits.as_bytes()[2..], &[b'x'; 64], b""] {
        assert_eq!(thirty_two(bad), None);
    }
}
