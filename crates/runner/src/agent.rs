//! What a loop asks of an agent, whoever it is.

use crate::supervisor::{Halt, Supervisor};

/// Something that takes a prompt and yields steps.
pub trait Agent {
    /// Goes on with the open turn, from wherever the journal says it is, until it ends.
    fn turn(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt>;

    /// Answers what the open turn has left unanswered, so that another prompt can follow it.
    fn settle(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt>;
}
