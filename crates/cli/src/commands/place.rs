//! Where a session goes on, and what is asked about its files.

use std::path::Path;

use segue_journal::Session;
use segue_loops::{
    keep::Keeper,
    place::{Difference, Place, PlaceError},
};
use segue_view::style;
use segue_workspace::Status;

use crate::{
    commands::{ask, run::workspace},
    context::{Context, say},
    error::CommandError,
};

/// What is to become of files that differ from the checkpoint, where that was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wish {
    #[default]
    Ask,
    Keep,
    Restore,
}

pub(crate) fn find(
    context: &Context,
    session: &Session,
    named: Option<&Path>,
) -> Result<Place, CommandError> {
    let named = named.map(|dir| workspace(&context.cwd, Some(dir))).transpose()?;
    let host = context.me().host;
    Place::find(session, &host, named.as_deref(), &context.cwd).map_err(|error| match error {
        PlaceError::Gone(_) => CommandError::failed(error.to_string())
            .hint("the workspace has moved or is gone: name its new place with --dir")
            .hint("or call this from the same repository's directory on this machine"),
        error => CommandError::failed(error.to_string()),
    })
}

/// How the files stand, for the plan.
pub(crate) struct Note {
    pub(crate) text: String,
    difference: Difference,
}

pub(crate) fn note(place: &Place, session: &Session, keeper: &Keeper) -> Note {
    if place.rebuild {
        let text = "which is gone: built again from the last checkpoint".to_owned();
        return Note { text, difference: Difference::Same };
    }
    let difference = place.difference(session, keeper);
    let text = match &difference {
        Difference::Unknown | Difference::Same => String::new(),
        Difference::Missing(commit) => {
            let short = commit.get(..12).unwrap_or(commit);
            format!("without the checkpoint {short}, which is not in this repository")
        }
        Difference::Files { total, .. } => {
            let files = style::count(*total as u64, "file");
            format!("{files} changed since the checkpoint: kept")
        }
    };
    Note { text, difference }
}

/// On another machine, or in another place, files that differ are asked about. Says whether the
/// checkpoint is to be brought back.
pub(crate) fn decide(
    place: &Place,
    note: &Note,
    selector: &str,
    wish: Wish,
) -> Result<bool, CommandError> {
    let (changes, total) = match &note.difference {
        Difference::Files { changes, total } if place.elsewhere || wish == Wish::Restore => {
            (changes, *total)
        }
        Difference::Missing(commit) if wish == Wish::Restore => {
            return Err(CommandError::failed(format!(
                "the checkpoint {commit} is not in this repository"
            ))
            .hint("bring it along: segue export on the other machine, segue import here"));
        }
        _ => return Ok(false),
    };
    Ok(match wish {
        Wish::Keep => false,
        Wish::Restore => true,
        Wish::Ask => {
            for change in changes {
                let path = change.path.display().to_string();
                let sign = match change.status {
                    Status::Added => '+',
                    Status::Deleted => '-',
                    _ => '~',
                };
                say(&format!("            {sign} {}", style::sanitize(&path)));
            }
            if total > changes.len() {
                say(&format!("            and {} more", total - changes.len()));
            }
            let answer = ask::choose(
                "These files differ from the checkpoint.",
                &[("k", "keep them"), ("r", "bring the checkpoint back"), ("c", "cancel")],
            );
            match answer {
                Some("k") => false,
                Some("r") => true,
                Some(_) => return Err(CommandError::usage("cancelled: nothing was changed")),
                None => {
                    let differ = if total == 1 { "differs" } else { "differ" };
                    return Err(CommandError::usage(format!(
                        "{} {differ} from the checkpoint, and there is no terminal to ask on",
                        style::count(total as u64, "file")
                    ))
                    .hint(format!("keep them: segue resume {selector} --keep-files"))
                    .hint(format!(
                        "bring the checkpoint back: segue resume {selector} --restore-files"
                    )));
                }
            }
        }
    })
}
