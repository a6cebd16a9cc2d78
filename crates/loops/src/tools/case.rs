//! `submit_case`: what a worker has to show for its task.

use segue_agents::case;
use segue_core::inbox::Message;
use serde_json::Value;

use super::{Desk, Tool};

pub(super) struct SubmitCase;

impl Tool for SubmitCase {
    fn name(&self) -> &'static str {
        case::TOOL
    }

    fn description(&self) -> &'static str {
        case::DESCRIPTION
    }

    fn schema(&self) -> Value {
        case::schema()
    }

    fn call(&self, desk: &Desk, input: &Value) -> Result<String, String> {
        let case = case::from_tool_input(&input.to_string())?;
        let done = case::noted(&case);
        let (turn, agent) = (desk.turn, desk.agent.clone());
        desk.put_last(&desk.dir, &Message::Case { turn, agent, case })?;
        Ok(done)
    }

    fn repeatable(&self) -> bool {
        true
    }
}
