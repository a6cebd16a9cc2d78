//! `checkpoint`: where the work stands, for whoever goes on with it.

use segue_agents::report;
use segue_core::inbox::Message;
use serde_json::Value;

use super::{Desk, Tool};

pub(super) struct Checkpoint;

impl Tool for Checkpoint {
    fn name(&self) -> &'static str {
        report::TOOL
    }

    fn description(&self) -> &'static str {
        report::DESCRIPTION
    }

    fn schema(&self) -> Value {
        report::schema()
    }

    fn call(&self, desk: &Desk, input: &Value) -> Result<String, String> {
        let report = report::from_tool_input(&input.to_string())?;
        let done = report::noted(&report);
        let (turn, agent) = (desk.turn, desk.agent.clone());
        desk.put(&desk.dir, &Message::Report { turn, agent, report })?;
        Ok(done)
    }
}
