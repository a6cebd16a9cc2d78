//! Two journals of one session: which one goes further.

use std::{cmp::Ordering, path::Path};

use segue_journal::{
    Disk, Session,
    scan::{Ending, Position, Scanner},
    session::JOURNAL,
};

use crate::error::{At, Error, Result};

const CHUNK: usize = 256 * 1024;

/// Nothing where both say the same; else the error that says what to do.
pub(crate) fn compare(ours: &Session, theirs: &Session) -> Result<()> {
    let (id, dir) = (ours.id(), ours.dir().to_owned());
    let (a, b) = (ours.position(), theirs.position());
    let common = common_bytes(ours, theirs, a.offset.min(b.offset))?;
    if common < a.offset.min(b.offset) {
        let common = lines_before(&**ours.disk(), ours, common)?;
        return Err(Error::Diverged { id, dir, common });
    }
    match a.seq.cmp(&b.seq) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(Error::Older { id, dir, ours: a.seq, theirs: b.seq }),
        Ordering::Less => match ours.held_by()? {
            Some(holder) => Err(Error::InUse { id, dir, holder }),
            // Damage of ours is not mended by an import either.
            None => match ours.ending() {
                Ending::Damaged(damage) => Err(segue_journal::Error::Damaged {
                    path: dir.join(JOURNAL),
                    damage: damage.clone(),
                }
                .into()),
                _ => Err(Error::AheadOfOurs { id, dir, ours: a.seq, theirs: b.seq }),
            },
        },
    }
}

/// How many bytes from the start are the same, up to `end`.
fn common_bytes(ours: &Session, theirs: &Session, end: u64) -> Result<u64> {
    let (ours_path, theirs_path) = (ours.dir().join(JOURNAL), theirs.dir().join(JOURNAL));
    let a = ours.disk().open(&ours_path).at(&ours_path)?;
    let b = theirs.disk().open(&theirs_path).at(&theirs_path)?;
    let (mut left, mut right) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < end {
        let want = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let n = a.read_full(&mut left[..want], at).at(&ours_path)?;
        let m = b.read_full(&mut right[..want], at).at(&theirs_path)?;
        let n = n.min(m);
        let same = left[..n].iter().zip(&right[..n]).take_while(|(a, b)| a == b).count();
        at += same as u64;
        if same < want {
            break;
        }
    }
    Ok(at)
}

/// The last event that ends at or before a byte.
fn lines_before(disk: &dyn Disk, session: &Session, end: u64) -> Result<u64> {
    let path: &Path = &session.dir().join(JOURNAL);
    let file = disk.open(path).at(path)?;
    let mut scanner = Scanner::new(&*file, Position::start(session.id()));
    let mut last = 0;
    while scanner.next_event().at(path)?.is_some() && scanner.position().offset <= end {
        last = scanner.position().seq;
    }
    Ok(last)
}
