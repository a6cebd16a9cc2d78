//! A changed byte is found, wherever it is; and what is not found changes nothing, or only what the
//! format leaves open.

use segue_share::tine::{Algorithm, Artifact, Codec, State, Trust};

use crate::artifacts::{SECRET, document, plain, run, signing, within};

const SEED: [u8; 32] = [0x11; 32];
const PUBLIC: &str = "d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737";

/// Long enough to be compressed, with letters that have two spellings.
fn small() -> Artifact {
    Artifact::read(plain(&run("Größe?", &["é"]))).unwrap()
}

fn signed(algorithm: Algorithm) -> (Artifact, Trust) {
    let mut artifact = small();
    let (key, trust) = match algorithm {
        Algorithm::Hmac => (SECRET, Trust::Secret(SECRET.to_vec())),
        Algorithm::Ed25519 => (&SEED[..], Trust::Public(PUBLIC.into())),
    };
    artifact.sign(&signing(algorithm, key)).unwrap();
    (artifact, trust)
}

/// Every file that comes of changing one bit, or one byte to white space.
fn changed(file: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let others = |byte: u8| (0..8).map(move |bit| byte ^ (1 << bit)).chain([b' ']);
    (0..file.len()).flat_map(move |at| {
        let other = others(file[at]).filter(move |other| *other != file[at]);
        other.map(move |other| {
            let mut bytes = file.to_vec();
            bytes[at] = other;
            (at, bytes)
        })
    })
}

/// What of a file nobody complains of.
fn accepted(bytes: Vec<u8>, trust: Option<&Trust>) -> Option<Artifact> {
    let artifact = Artifact::read(bytes).ok()?;
    let sound = !artifact.findings().iter().any(|finding| finding.is_wrong());
    let signed = trust.is_none() || artifact.signature(trust).state == State::Verified;
    (sound && signed).then_some(artifact)
}

#[test]
fn every_changed_byte_of_a_signed_file_is_found() {
    use Codec::{Plain, Zlib, Zstd};
    let each = [(Algorithm::Hmac, &[Plain][..]), (Algorithm::Ed25519, &[Plain, Zlib, Zstd])];
    for (algorithm, codecs) in each {
        let (artifact, trust) = signed(algorithm);
        for codec in codecs.iter().copied() {
            let file = artifact.to_bytes(codec);
            assert_eq!(accepted(file.clone(), Some(&trust)), Some(artifact.clone()));
            let mut same = 0;
            for (at, bytes) in changed(&file) {
                let found = accepted(bytes, Some(&trust));
                // Another spelling of the same is no other document.
                assert!(found.as_ref().is_none_or(|found| *found == artifact), "{codec:?} {at}");
                same += usize::from(found.is_some());
            }
            assert!(codec != Plain || same > 0, "there is white space");
        }
    }
}

#[test]
fn what_no_digest_covers_is_the_metadata_and_nothing_else() {
    let artifact = small();
    for codec in [Codec::Plain, Codec::Zlib, Codec::Zstd] {
        let file = artifact.to_bytes(codec);
        assert!(accepted(file.clone(), None).is_some());
        let mut open = 0;
        for (at, bytes) in changed(&file) {
            let Some(found) = accepted(bytes, None).filter(|found| *found != artifact) else {
                continue;
            };
            open += 1;
            let (mut before, mut after) = (document(&artifact), document(&found));
            for run in [&mut before, &mut after] {
                within(run, "metadata").clear();
            }
            assert_eq!(before, after, "{codec:?} {at}");
        }
        // A compressed file has a checksum over all of it.
        assert_eq!(open > 0, codec == Codec::Plain, "{codec:?}");
    }
}
