//! A reviewer whose own session is broken begins anew: it is asked what it was asked, and what there was of
//! it is kept beside. No file of a reviewer is in the way of the session that it reviews.

use segue_core::review::Seat;
use segue_journal::{Session, repair, scan::Ending};
use segue_runner::{Halt, Supervisor};

use super::{dir_of, open};
use crate::shift::Shift;

/// Sets a reviewer's own session aside that can't be gone on with.
pub(super) fn make_room(
    supervisor: &mut Supervisor<'_>,
    shift: &Shift<'_>,
    seat: &Seat,
) -> Result<(), Halt> {
    let session = supervisor.session().session();
    let Some(why) = broken(session, seat)? else { return Ok(()) };
    let aside = shift.home.set_aside_within(&dir_of(session, seat))?;
    supervisor.warn(format!(
        "the reviewer {} begins anew: {why}; what there was is kept in {}",
        seat.name,
        aside.display()
    ))
}

/// Why a reviewer's own session can't be gone on with. Where each question is a conversation of its own,
/// that is whenever it is damaged; else only where nothing of it is left that could be repaired.
fn broken(session: &Session, seat: &Seat) -> segue_journal::Result<Option<String>> {
    use segue_journal::Error::{Damaged, NotASession};
    if !session.disk().exists(&dir_of(session, seat)) {
        return Ok(None);
    }
    let theirs = match open(session, seat) {
        Err(error @ (NotASession { .. } | Damaged { .. })) => return Ok(Some(error.to_string())),
        opened => opened?,
    };
    let fresh = session.state().terms().is_some_and(|terms| terms.case);
    Ok(match theirs.ending() {
        Ending::Damaged(damage) if fresh || theirs.position().seq == 0 => {
            Some(format!("its journal, line {}: {}", damage.line, damage.finding))
        }
        // What it was asked is asked again.
        _ if fresh && theirs.state().turn.open => {
            repair::check_last_turn(&theirs).err().map(|error| error.to_string())
        }
        _ => None,
    })
}
