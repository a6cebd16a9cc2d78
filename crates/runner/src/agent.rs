//! What a loop asks of an agent, whoever it is.

use segue_journal::Session;

use crate::{
    native,
    supervisor::{Halt, Supervisor},
    vendor,
};

/// What Segue's own agent is called.
pub const NATIVE: &str = "native";

/// Something that takes a prompt and yields steps.
pub trait Agent {
    /// Reads what the agent will need of a session that it goes on with. Damage is found here,
    /// before anything is added.
    fn recall(&mut self, _session: &Session) -> segue_journal::Result<()> {
        Ok(())
    }

    /// The conversation begins anew: nothing of what was said before belongs to it.
    fn forget(&mut self) {}

    /// Goes on with the open turn, from wherever the journal says it is, until it ends.
    fn turn(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt>;

    /// Answers what the open turn has left unanswered, so that another prompt can follow it.
    fn settle(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Halt>;

    /// What its limits are known by: each model of the native agent has its own.
    fn limit_key(&self) -> String;

    /// How much its model can take in at once.
    fn context_tokens(&self) -> u64;
}

/// Answers what an open turn has left unanswered, for an agent that is not there any more.
pub fn let_go(supervisor: &mut Supervisor<'_>) -> Result<(), Halt> {
    match supervisor.state().turn.agent.as_str() {
        NATIVE => native::settle(supervisor),
        _ => vendor::let_go(supervisor),
    }
}
