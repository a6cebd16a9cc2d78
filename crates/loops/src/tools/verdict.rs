//! `submit_verdict`: what a reviewer says of the work.

use segue_agents::verdict;
use segue_core::inbox::Message;
use serde_json::Value;

use super::{Desk, Tool};

pub(super) struct SubmitVerdict;

impl Tool for SubmitVerdict {
    fn name(&self) -> &'static str {
        verdict::TOOL
    }

    fn description(&self) -> &'static str {
        verdict::DESCRIPTION
    }

    fn schema(&self) -> Value {
        verdict::schema()
    }

    fn call(&self, desk: &Desk, input: &Value) -> Result<String, String> {
        let said = verdict::from_tool_input(&input.to_string())?;
        let done = verdict::noted(&said);
        let (turn, agent) = (desk.turn, desk.agent.clone());
        desk.put_last(&desk.dir, &Message::Verdict { turn, agent, said })?;
        Ok(done)
    }

    fn repeatable(&self) -> bool {
        true
    }
}
