//! `checkpoint`: where the work stands, for whoever goes on with it.

use segue_core::event::ProgressReported;

use super::{Outcome, ToolSpec};
use crate::report;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: report::TOOL,
        description: report::DESCRIPTION,
        input_schema: report::schema(),
    }
}

pub(super) fn run(report: &ProgressReported) -> Outcome {
    Outcome::text(report::noted(report))
}
