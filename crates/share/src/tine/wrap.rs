//! The wrapper around a compressed file.
//!
//! ```text
//! "TINEZ1\0"  codec (0 as it is, 1 zlib, 2 zstd)  length of the content (LEB128, minimal)  frame
//! ```
//!
//! What is not wrapped is the content itself. Digests and signatures are taken of the content.

use std::io::{Read, Write};

use flate2::{Compression, Decompress, FlushDecompress, Status, write::ZlibEncoder};

/// What a file, and what is in it, may have at most.
pub const MAX_BYTES: usize = 256 << 20;
const MAGIC: &[u8] = b"TINEZ1\0";
/// How many bytes may come out of one.
const MAX_RATIO: usize = 1000;
const MIN_BYTES: usize = 512;
const MAX_LENGTH_BYTES: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Plain JSON, for every reader there ever was.
    Plain,
    #[default]
    Zlib,
    Zstd,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadWrap {
    #[error("it ends too early")]
    Truncated,
    #[error("its length is not written as it has to be")]
    Length,
    #[error("more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("it unpacks to more than {MAX_RATIO} times its size")]
    Bomb,
    #[error("a compression of the kind {0} is not known here")]
    Codec(u8),
    #[error("its compression is broken, or something follows it")]
    Broken,
    #[error("a wrapper within a wrapper")]
    Nested,
}

#[must_use]
pub fn is_wrapped(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The content of a file.
pub fn unwrap(bytes: Vec<u8>) -> Result<Vec<u8>, BadWrap> {
    if bytes.len() > MAX_BYTES {
        return Err(BadWrap::TooLarge);
    }
    if !is_wrapped(&bytes) {
        return Ok(bytes);
    }
    let codec = *bytes.get(MAGIC.len()).ok_or(BadWrap::Truncated)?;
    let (size, from) = length(&bytes, MAGIC.len() + 1)?;
    let frame = &bytes[from..];
    if size > MAX_BYTES {
        return Err(BadWrap::TooLarge);
    }
    if size > frame.len().max(1).saturating_mul(MAX_RATIO) {
        return Err(BadWrap::Bomb);
    }
    let content = match codec {
        0 => frame.to_vec(),
        1 => inflate(frame, size)?,
        2 => unzstd(frame, size)?,
        other => return Err(BadWrap::Codec(other)),
    };
    if content.len() != size {
        return Err(BadWrap::Broken);
    }
    if is_wrapped(&content) {
        return Err(BadWrap::Nested);
    }
    Ok(content)
}

fn length(bytes: &[u8], from: usize) -> Result<(usize, usize), BadWrap> {
    let mut size = 0u128;
    for (at, byte) in bytes.iter().enumerate().skip(from).take(MAX_LENGTH_BYTES) {
        size |= u128::from(byte & 0x7f) << (7 * (at - from));
        if byte & 0x80 == 0 {
            if *byte == 0 && at > from {
                return Err(BadWrap::Length);
            }
            return Ok((usize::try_from(size).map_err(|_| BadWrap::TooLarge)?, at + 1));
        }
    }
    Err(BadWrap::Length)
}

fn inflate(frame: &[u8], size: usize) -> Result<Vec<u8>, BadWrap> {
    let mut engine = Decompress::new(true);
    // One more, so that a longer one is seen to be longer.
    let mut content = Vec::with_capacity(size + 1);
    let status = engine.decompress_vec(frame, &mut content, FlushDecompress::Finish);
    let whole = engine.total_in() == frame.len() as u64;
    match status {
        Ok(Status::StreamEnd) if whole => Ok(content),
        _ => Err(BadWrap::Broken),
    }
}

fn unzstd(frame: &[u8], size: usize) -> Result<Vec<u8>, BadWrap> {
    let mut rest = frame;
    let mut content = Vec::with_capacity(size + 1);
    let mut reader = zstd::stream::read::Decoder::with_buffer(&mut rest)
        .map_err(|_| BadWrap::Broken)?
        .single_frame();
    let read = (&mut reader).take(size as u64 + 1).read_to_end(&mut content);
    drop(reader);
    match read {
        Ok(_) if rest.is_empty() => Ok(content),
        _ => Err(BadWrap::Broken),
    }
}

/// A content as it stands in a file: wrapped where that makes it smaller.
#[must_use]
pub fn wrap(content: &[u8], codec: Codec) -> Vec<u8> {
    let packed = match codec {
        _ if content.len() < MIN_BYTES => None,
        Codec::Plain => None,
        Codec::Zlib => deflate(content).map(|frame| (1, frame)),
        Codec::Zstd => squeeze(content).ok().map(|frame| (2, frame)),
    };
    let packed = packed.filter(|(_, frame)| content.len() <= frame.len() * MAX_RATIO);
    let Some((codec, frame)) = packed else { return content.to_vec() };
    let mut file = MAGIC.to_vec();
    file.push(codec);
    let mut left = content.len();
    while left >= 0x80 {
        file.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    file.push((left & 0x7f) as u8);
    file.extend_from_slice(&frame);
    if file.len() < content.len() { file } else { content.to_vec() }
}

/// With a checksum, which zlib has anyway.
fn squeeze(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    compressor.include_checksum(true)?;
    compressor.compress(content)
}

fn deflate(content: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(content).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrapped_comes_out_again() {
        let content = b"{\"a\": 1}\n".repeat(200);
        for codec in [Codec::Plain, Codec::Zlib, Codec::Zstd] {
            let file = wrap(&content, codec);
            assert_eq!(is_wrapped(&file), codec != Codec::Plain);
            assert_eq!(unwrap(file).unwrap(), content);
        }
        assert_eq!(unwrap(wrap(b"short", Codec::Zlib)).unwrap(), b"short");
    }

    #[test]
    fn hostile_wrappers_are_refused() {
        let content: Vec<u8> = (0..2000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for codec in [Codec::Zlib, Codec::Zstd] {
            let file = wrap(&content, codec);
            for end in 8..file.len() {
                assert!(unwrap(file[..end].to_vec()).is_err(), "{codec:?} {end}");
            }
            let mut longer = file.clone();
            longer.push(0);
            assert_eq!(unwrap(longer), Err(BadWrap::Broken));
        }
        let wrapped = |codec: u8, rest: &[u8]| unwrap([MAGIC, &[codec], rest].concat());
        assert_eq!(wrapped(0, &[0x80, 0x00]), Err(BadWrap::Length));
        assert_eq!(wrapped(0, &[0x80; 12]), Err(BadWrap::Length));
        assert_eq!(wrapped(1, &[0xff, 0xff, 0xff, 0xff, 0x7f]), Err(BadWrap::TooLarge));
        assert_eq!(wrapped(1, &[0xff, 0xff, 0x7f, 1, 2]), Err(BadWrap::Bomb));
        assert_eq!(wrapped(3, &[1, 1]), Err(BadWrap::Codec(3)));
        assert_eq!(wrapped(0, &[7, b'T', b'I', b'N', b'E', b'Z', b'1', 0]), Err(BadWrap::Nested));
    }
}
