//! Choosing a session from a list, on a terminal.

use segue_view::{
    index::{Filter, StatusFilter},
    select::Found,
};

use crate::{
    commands::ask,
    context::{Context, view_error},
    error::CommandError,
};

/// Whether a list is shown without having been asked for: on a terminal, where several sessions of
/// this repository could be meant.
pub(crate) fn is_wanted(context: &Context, prompt: bool) -> Result<bool, CommandError> {
    Ok(ask::can() && !context.json && rows(context, prompt)?.len() > 1)
}

fn rows(context: &Context, completed_too: bool) -> Result<Vec<segue_view::row::Row>, CommandError> {
    let mut index = context.index()?;
    let status = if completed_too { Vec::new() } else { vec![StatusFilter::resumable()] };
    let filter = Filter { repo: Some(context.repo()?.id), status, limit: Some(500) };
    Ok(index.query(&filter).map_err(view_error)?.rows)
}

/// Lets the user choose. `None` where they would rather not.
pub(crate) fn session(context: &Context) -> Result<Option<Found>, CommandError> {
    if !ask::can() {
        return Err(CommandError::usage("there is no terminal to choose on")
            .hint("name the session: segue resume 7 (segue list shows them)"));
    }
    let rows = rows(context, true)?;
    if rows.is_empty() {
        return Err(CommandError::new(
            segue_core::Exit::NoSuchSession,
            "there is no session of this repository",
        )
        .hint("segue list --all shows the others"));
    }
    let Some(at) = segue_view::picker::pick(&rows, context.now(), &context.err())
        .map_err(|error| CommandError::failed(error.to_string()))?
    else {
        return Ok(None);
    };
    context.find(Some(&rows[at].selector())).map(Some)
}
