//! `segue replay --mode rerun`: an agent does the work again, told what was recorded.

use segue_core::{event::SessionStopped, identity::How};
use segue_journal::Session;
use segue_loops::{
    branch::{self, With},
    keep::Keeper,
};
use segue_view::select::Found;

use super::{
    Args,
    save::{self, Save},
};
use crate::{
    commands::{
        fork::{branch_error, can_have_worktree},
        go_on::say_plan,
        place,
        run::{Begin, Manner, check_free, launch_new},
        worker::{Wishes, hire, known_agent, no_such_agent},
    },
    context::Context,
    error::{CommandError, CommandResult},
};

/// What the agent is told besides: what it reads about is not there.
const FROM_THE_START: &str = "The files are as they were before any of the work that was told above: \
     nothing of it is there.";
