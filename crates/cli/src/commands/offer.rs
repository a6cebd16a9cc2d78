//! What `segue run` offers where a session of this repository could be resumed.

use std::path::Path;

use segue_core::identity::LoopKind;
use segue_view::{
    index::{Filter, StatusFilter},
    row::Row,
    select::Found,
    style,
};

use crate::{
    commands::{ask, run::workspace},
    config::Config,
    context::{Context, say, view_error},
    error::CommandError,
};

pub(crate) enum Offer {
    New,
    Resume(Box<Found>),
}

/// Looks, and asks where there is something to ask. The look changes nothing.
pub(crate) fn ask(
    context: &Context,
    config: &Config,
    dir: Option<&Path>,
    new: bool,
) -> Result<Offer, CommandError> {
    if new || config.get("offer") == Some("never") {
        return Ok(Offer::New);
    }
    let Some(row) = resumable(context, dir)? else { return Ok(Offer::New) };
    let selector = row.number.map_or_else(|| row.at.id.to_string(), |number| number.to_string());
    let title = row.name.as_deref().unwrap_or(&row.prompt);
    let title = style::sanitize(title);
    let what = format!(
        "session {selector} of this repository can be resumed: \"{}\" · {} · {}",
        style::shorten(&title, 50),
        row.status(),
        style::relative(row.updated_at, context.now()),
    );
    if !ask::can() {
        return Err(CommandError::usage(what)
            .hint(format!("resume it: segue resume {selector}"))
            .hint("start anew: segue run --new …")
            .hint("never ask: segue config set offer never"));
    }
    say(&what);
    let answers = [("r", "resume it with this prompt"), ("n", "start anew"), ("c", "cancel")];
    match ask::choose("", &answers) {
        Some("n") => Ok(Offer::New),
        Some("r") => Ok(Offer::Resume(Box::new(context.find(Some(&selector))?))),
        _ => Err(CommandError::usage("cancelled: nothing was changed")),
    }
}

/// The latest session of the repository that has something left to do.
fn resumable(context: &Context, dir: Option<&Path>) -> Result<Option<Row>, CommandError> {
    let dir = workspace(&context.cwd, dir)?;
    let repo =
        segue_workspace::identify(&dir).map_err(|error| CommandError::failed(error.to_string()))?;
    let mut index = context.index()?;
    let filter =
        Filter { repo: Some(repo.id), status: vec![StatusFilter::resumable()], limit: Some(20) };
    let listing = index.query(&filter).map_err(view_error)?;
    // A crew that is down is at rest: nobody wants to be asked about it.
    Ok(listing.rows.into_iter().find(|row| row.loop_kind != LoopKind::Crew))
}
