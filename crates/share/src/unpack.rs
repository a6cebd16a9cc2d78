//! A bundle's entries, one after the other, from a file that anyone may have made.
//!
//! Read by hand and not by a tar library, because what such a library forgives is what an attacker
//! needs: links, devices, sizes that are said twice, names that are said twice. Here an entry is a
//! regular file with one name and one size, and all else is refused. The only extension that is
//! known is GNU's long name. Nothing is written here.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use tar::{EntryType, Header};
use zstd::stream::read::Decoder;

use crate::{
    error::{At, Error, Result, Why},
    manifest::{MANIFEST, MAX_MANIFEST, Manifest},
    names,
};

const BLOCK: usize = 512;
const CHUNK: usize = 128 * 1024;
/// 128 MiB of memory: what `zstd -d` allows without being asked.
const MAX_WINDOW_LOG: u32 = 27;
const MAX_NAME: u64 = 4096;
/// So much may come out of however little: a short session of long repetitions is no attack.
const FREE: u64 = 64 << 20;

/// How much a bundle may bring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    pub(crate) ratio: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
}

pub(crate) struct Unpack {
    path: PathBuf,
    decoder: Decoder<'static, BufReader<Counted<File>>>,
    limits: Limits,
    unpacked: u64,
}

impl Unpack {
    /// Opens a bundle and reads its manifest.
    pub(crate) fn open(path: &Path, limits: Limits) -> Result<(Self, Manifest)> {
        let file = File::open(path).at(path)?;
        if !file.metadata().at(path)?.is_file() {
            return Err(Error::NotABundle { path: path.to_owned(), why: Why::Kind });
        }
        let counted = Counted { inner: file, count: 0 };
        let mut decoder = Decoder::with_buffer(BufReader::new(counted)).at(path)?.single_frame();
        decoder.window_log_max(MAX_WINDOW_LOG).at(path)?;
        let mut unpack = Self { path: path.to_owned(), decoder, limits, unpacked: 0 };
        let bytes = unpack.manifest()?;
        let manifest = Manifest::parse(path, &bytes, limits.bytes)?;
        Ok((unpack, manifest))
    }

    fn manifest(&mut self) -> Result<Vec<u8>> {
        let not = |path: &Path, why| Error::NotABundle { path: path.to_owned(), why };
        let entry = match self.next() {
            Ok(Some(entry)) if entry.name == MANIFEST => entry,
            Ok(_) => return Err(not(&self.path, Why::NoManifest)),
            // Before there was an entry, there is none to name.
            Err(Error::Refused { entry, why, .. }) if entry == HEADER => {
                return Err(not(&self.path, why));
            }
            Err(error) => return Err(error),
        };
        if entry.size > MAX_MANIFEST {
            return Err(self.refuse(MANIFEST, Why::TooLarge(MAX_MANIFEST)));
        }
        let mut bytes = Vec::new();
        self.body(&entry, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// The next entry, whose body has to be read before the one after it; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let Some(header) = self.header(HEADER)? else {
            self.end()?;
            return Ok(None);
        };
        if header.entry_type() != EntryType::GNULongName {
            let name = short_name(&header).ok_or_else(|| self.refuse(HEADER, Why::Path))?;
            return self.regular(&header, name).map(Some);
        }
        let size = header.entry_size().unwrap_or(u64::MAX);
        if size > MAX_NAME {
            return Err(self.refuse("a long name", Why::TooLarge(MAX_NAME)));
        }
        let mut name = Vec::new();
        self.body(&Entry { name: "a long name".to_owned(), size }, |chunk| {
            name.extend_from_slice(chunk);
            Ok(())
        })?;
        // It ends in one NUL.
        if name.pop() != Some(0) {
            return Err(self.refuse("a long name", Why::Header));
        }
        match self.header("a long name")? {
            Some(header) => self.regular(&header, name).map(Some),
            None => Err(self.refuse("a long name", Why::Header)),
        }
    }

    fn regular(&self, header: &Header, name: Vec<u8>) -> Result<Entry> {
        let shown = String::from_utf8_lossy(&name).escape_debug().to_string();
        // The name first, so that a link with a bad one is told by its name.
        let name = String::from_utf8(name).map_err(|_| self.refuse(&shown, Why::Path))?;
        if !names::is_plain_path(&name) {
            return Err(self.refuse(&shown, Why::Path));
        }
        if header.as_bytes()[156] != b'0' || header.link_name_bytes().is_some() {
            return Err(self.refuse(&shown, Why::Kind));
        }
        let size = header.entry_size().map_err(|_| self.refuse(&shown, Why::Header))?;
        Ok(Entry { name, size })
    }

    /// One header that is well formed; `None` where a block of zeros stands in its place.
    fn header(&mut self, near: &str) -> Result<Option<Header>> {
        let mut block = [0; BLOCK];
        self.exact(&mut block, near)?;
        if block == [0; BLOCK] {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        let magic = &block[257..265];
        let known = magic == b"ustar\x0000" || magic == b"ustar  \0";
        let sum: u32 = block[..148].iter().chain(&block[156..]).map(|b| u32::from(*b)).sum();
        if !known || header.cksum().ok() != Some(sum + 8 * u32::from(b' ')) {
            return Err(self.refuse(near, Why::Header));
        }
        Ok(Some(header.clone()))
    }

    /// Hands over an entry's bytes, exactly as many as its header says.
    pub(crate) fn body(
        &mut self,
        entry: &Entry,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut left = entry.size;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            self.exact(&mut buffer[..want], &entry.name)?;
            each(&buffer[..want])?;
            left -= want as u64;
        }
        let used = usize::try_from(entry.size % BLOCK as u64).unwrap_or_default();
        let mut padding = [0; BLOCK];
        let padding = &mut padding[..(BLOCK - used) % BLOCK];
        self.exact(padding, &entry.name)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(self.refuse(&entry.name, Why::Padding));
        }
        Ok(())
    }

    /// After the first block of zeros there is a second one, and then nothing: not in the frame,
    /// and not after it.
    fn end(&mut self) -> Result<()> {
        let mut block = [0; BLOCK];
        self.exact(&mut block, END)?;
        let mut more = [0; 1];
        if block != [0; BLOCK] || self.some(&mut more, END)? > 0 {
            return Err(self.refuse(END, Why::TrailingBytes));
        }
        let path = &self.path;
        if !self.decoder.get_mut().fill_buf().at(path)?.is_empty() {
            return Err(self.refuse(END, Why::TrailingBytes));
        }
        Ok(())
    }

    fn exact(&mut self, buffer: &mut [u8], near: &str) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.some(&mut buffer[filled..], near)? {
                0 => return Err(self.refuse(near, Why::Truncated)),
                n => filled += n,
            }
        }
        Ok(())
    }

    fn some(&mut self, buffer: &mut [u8], near: &str) -> Result<usize> {
        let read = loop {
            match self.decoder.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done,
            }
        };
        let n = match read {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.refuse(near, Why::Truncated));
            }
            // A disk's error has a number, the decoder's has none.
            Err(source) if source.raw_os_error().is_some() => {
                return Err(Error::Io { path: self.path.clone(), source });
            }
            Err(error) => return Err(self.refuse(near, Why::Compression(error.to_string()))),
        };
        self.unpacked += n as u64;
        let packed = self.decoder.get_ref().get_ref().count;
        if self.unpacked > FREE.saturating_add(packed.saturating_mul(self.limits.ratio)) {
            return Err(self.refuse(near, Why::Bomb(self.limits.ratio)));
        }
        Ok(n)
    }

    pub(crate) fn refuse(&self, entry: &str, why: Why) -> Error {
        Error::Refused { path: self.path.clone(), entry: entry.to_owned(), why }
    }
}

/// Where there is no entry to name.
const HEADER: &str = "an entry";
const END: &str = "the end";

/// The name in a header; `None` where something stands behind its end.
fn short_name(header: &Header) -> Option<Vec<u8>> {
    fn field(bytes: &[u8]) -> Option<&[u8]> {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        bytes[end..].iter().all(|b| *b == 0).then(|| &bytes[..end])
    }
    let name = field(&header.as_old().name)?;
    match header.as_ustar().map(|ustar| field(&ustar.prefix)) {
        Some(None) => None,
        Some(Some(prefix)) if !prefix.is_empty() => Some([prefix, b"/", name].concat()),
        _ => Some(name.to_owned()),
    }
}

/// Counts what was read of the compressed file.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count += n as u64;
        Ok(n)
    }
}
