//! A member's program as the system knows it: whether it is there, whatever tmux says, and its end.

use segue_core::{
    event::{Doing, MemberSeen},
    state::CrewMember as Member,
};
use segue_journal::Session;
use segue_runner::{
    Halt, Supervisor, process,
    tmux::seat::{Room, Seat},
};

use super::{chair::SWEEP_LIMIT, join::own_session, mark_of};

/// Ends a member's program, also one whose terminal nobody gets to: it was asked for. `own`: its own
/// session, where that can be read.
pub(super) fn end_program(room: &Room, member: &Member, own: Option<&Session>, keep_pane: bool) {
    let seats = room.seats().unwrap_or_default();
    let seat = seats.iter().find(|seat| seat.part == member.name);
    let pid = seat.filter(|seat| !seat.dead).and_then(|seat| seat.pid);
    if let Some(pid) = pid.or(member.pid.filter(|_| is_there(member))) {
        process::end_gently(pid, SWEEP_LIMIT);
    }
    if let Some(seat) = seat.filter(|_| !keep_pane) {
        let _ = room.clear(&seat.pane);
    }
    if let Some(own) = own {
        process::end_leftovers(&mark_of(own), SWEEP_LIMIT);
    }
}

/// Whether the process that was started for a member is still there, whatever tmux says.
pub(super) fn is_there(member: &Member) -> bool {
    member.pid.zip(member.began).is_some_and(|(pid, began)| process::is_there(pid, began))
}

/// The same, also where its watcher died before it could see which process that is.
pub(super) fn runs(session: &Session, member: &Member) -> bool {
    let marked = || own_session(session, member).is_some_and(|own| is_marked(&own));
    is_there(member) || (member.starting && marked())
}

/// Whether anything runs that bears the mark of a member.
pub(super) fn is_marked(own: &Session) -> bool {
    !process::leftovers(&mark_of(own)).is_empty()
}

/// Whether somebody else sits in its pane than the one that was started.
pub(super) fn is_another(member: &Member, seat: &Seat) -> bool {
    seat.pid != member.pid || Some(&seat.pane) != member.pane.as_ref()
}

/// It runs, and is left alone: what can't be seen is not to be ended.
pub(super) fn out_of_reach(all: &mut Supervisor<'_>, member: &Member) -> Result<(), Halt> {
    if member.doing == Doing::Unreachable {
        return Ok(());
    }
    let which = member.pid.map_or_else(|| "its program".to_owned(), |pid| format!("process {pid}"));
    let crew = all.state().crew.as_ref();
    let server = crew.and_then(|crew| crew.raised.tmux.clone()).unwrap_or_default();
    let what = format!("{which} runs, but its pane is not in the tmux at {}", server.display());
    let (member, doing) = (member.name.clone(), Doing::Unreachable);
    all.commit(MemberSeen { member, doing, what: Some(what) }).map(drop)
}
