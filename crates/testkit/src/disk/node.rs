//! Files and directories: what a reader sees, what is durable, and what lies between.
//!
//! A file's unsynced bytes are kept per sector, because that is what a disk writes whole: after a
//! power cut each sector is as it was after some number of its writes, whatever the others are.
//! The file's length is metadata: a cut survives or not, with everything that was written after
//! it, and a length may survive where the bytes did not (they are zeros then).

use std::collections::{BTreeMap, BTreeSet};

const SECTOR: usize = 512;

pub(super) type Ino = u64;

/// SplitMix64: small, and the same everywhere.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `most`, both included.
    fn up_to(&mut self, most: usize) -> usize {
        let most = u64::try_from(most).unwrap_or(u64::MAX - 1);
        usize::try_from(self.next() % (most + 1)).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(File),
    Directory(Directory),
}

impl Node {
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        match self {
            Self::File(file) => file.crash(rng),
            Self::Directory(directory) => directory.crash(rng),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// What a reader sees.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Writes that are not durable, oldest first.
    pieces: Vec<Piece>,
    /// Lengths that were set and are not durable, oldest first.
    cuts: Vec<usize>,
}

/// A write within one sector.
#[derive(Clone, Debug)]
struct Piece {
    /// How many of the cuts came before it.
    after_cuts: usize,
    offset: usize,
    bytes: Vec<u8>,
    /// A failed sync has called it written: no later sync cares for it.
    clean: bool,
}

impl Piece {
    fn sector(&self) -> usize {
        self.offset / SECTOR
    }
}

impl File {
    pub(super) fn durable(bytes: &[u8]) -> Self {
        Self { seen: bytes.to_vec(), durable: bytes.to_vec(), ..Self::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.seen
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        let start = self.seen.len();
        self.seen.extend_from_slice(bytes);
        self.dirty(start);
    }

    /// Marks the bytes from `start` to the end as written now.
    fn dirty(&mut self, start: usize) {
        let mut offset = start;
        while offset < self.seen.len() {
            let end = ((offset / SECTOR + 1) * SECTOR).min(self.seen.len());
            let bytes = self.seen[offset..end].to_vec();
            let after_cuts = self.cuts.len();
            self.pieces.push(Piece { after_cuts, offset, bytes, clean: false });
            offset = end;
        }
    }

    pub(super) fn write_again(&mut self, from: usize) {
        self.dirty(from);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.seen.resize(len, 0);
        self.cuts.push(len);
    }

    /// Writes every dirty sector out as it is seen now, and the length.
    pub(super) fn sync(&mut self) {
        let dirty: BTreeSet<usize> =
            self.pieces.iter().filter(|piece| !piece.clean).map(Piece::sector).collect();
        if let Some(&shortest) = self.cuts.iter().min() {
            self.durable.truncate(shortest);
        }
        self.cuts.clear();
        let len = self.seen.len();
        self.durable.resize(len, 0);
        for sector in &dirty {
            let range = (sector * SECTOR).min(len)..((sector + 1) * SECTOR).min(len);
            self.durable[range.clone()].copy_from_slice(&self.seen[range]);
        }
        self.pieces.retain(|piece| piece.clean && !dirty.contains(&piece.sector()));
        for piece in &mut self.pieces {
            piece.after_cuts = 0;
            piece.bytes.truncate(len.saturating_sub(piece.offset));
        }
    }

    pub(super) fn sync_failed(&mut self) {
        for piece in &mut self.pieces {
            piece.clean = true;
        }
    }

    fn crash(&mut self, rng: &mut Rng) {
        // Often all or nothing: the states in between are many, these two are the classics.
        let luck = rng.up_to(7);
        let mut survivors = |most| match luck {
            0 | 1 => 0,
            2 => most,
            _ => rng.up_to(most),
        };
        let cuts = survivors(self.cuts.len());
        let mut image = std::mem::take(&mut self.durable);
        for epoch in 0..=cuts {
            let mut sectors: BTreeMap<usize, Vec<&Piece>> = BTreeMap::new();
            for piece in self.pieces.iter().filter(|piece| piece.after_cuts == epoch) {
                sectors.entry(piece.sector()).or_default().push(piece);
            }
            for writes in sectors.values() {
                for piece in &writes[..survivors(writes.len())] {
                    let end = piece.offset + piece.bytes.len();
                    image.resize(image.len().max(end), 0);
                    image[piece.offset..end].copy_from_slice(&piece.bytes);
                }
            }
            if epoch < cuts {
                image.resize(self.cuts[epoch], 0);
            }
        }
        if cuts == self.cuts.len() && image.len() < self.seen.len() && survivors(3) == 3 {
            image.resize(self.seen.len(), 0);
        }
        *self = Self::durable(&image);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    seen: BTreeMap<String, Ino>,
    durable: BTreeMap<String, Ino>,
    pending: Vec<NameOp>,
}

#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Set(String, Ino),
    Unset(String),
    Rename(String, String),
}

impl NameOp {
    fn apply(&self, names: &mut BTreeMap<String, Ino>) {
        match self {
            Self::Set(name, ino) => {
                names.insert(name.clone(), *ino);
            }
            Self::Unset(name) => {
                names.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(ino) = names.remove(from) {
                    names.insert(to.clone(), ino);
                }
            }
        }
    }
}

impl Directory {
    pub(super) fn get(&self, name: &str) -> Option<Ino> {
        self.seen.get(name).copied()
    }

    pub(super) fn entries(&self) -> std::vec::IntoIter<(String, Ino)> {
        let entries: Vec<_> = self.seen.iter().map(|(name, ino)| (name.clone(), *ino)).collect();
        entries.into_iter()
    }

    pub(super) fn apply(&mut self, op: NameOp) {
        op.apply(&mut self.seen);
        self.pending.push(op);
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.seen);
        self.pending.clear();
    }

    fn crash(&mut self, rng: &mut Rng) {
        let survivors = match rng.up_to(3) {
            0 => 0,
            _ => rng.up_to(self.pending.len()),
        };
        for op in &self.pending[..survivors] {
            op.apply(&mut self.durable);
        }
        self.seen.clone_from(&self.durable);
        self.pending.clear();
    }
}
