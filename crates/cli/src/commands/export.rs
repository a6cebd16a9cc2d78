//! `segue export`: a session as one file, with everything that going on elsewhere needs.

use std::path::{Path, PathBuf};

use segue_core::Exit;
use segue_journal::Session;
use segue_share::{
    ExportOptions, GitPart, History, Progress, Stage, export,
    foreign::{self, Format},
};
use segue_view::style::{self, Paint};
use serde_json::json;

use crate::{
    commands::{carry, go_on::check_whole, keys::SignFlags},
    context::{Context, say},
    error::{CommandError, CommandResult},
};

/// Put a session into one file, to go on with it elsewhere
///
/// Journal, long texts, the vendors' own output, the git objects that its checkpoints need, and the
/// vendors' own session files where they can be carried. The file holds what the agents saw and
/// said: treat it like the repository itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue export 7 -o refactoring.segue
  segue export 7 -o x.segue --full-history    with every commit, for a place without the repository
  segue export 7 -o run.tine                  a portable artifact
  segue export 7 -o run.tine --sign-with ed25519 --key-file key
  segue export 7 --format otel -o spans.json  OpenTelemetry")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, or @latest
    session: Option<String>,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long, short)]
    force: bool,
    /// Bring every commit along that the checkpoints build on, also those that a remote has
    #[arg(long)]
    full_history: bool,
    /// Leave the git objects out
    #[arg(long, conflicts_with = "full_history")]
    no_git: bool,
    /// In which format [default: by the ending of the file, else segue]
    #[arg(long, value_name = "FORMAT")]
    format: Option<As>,
    #[command(flatten)]
    sign: SignFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum As {
    /// Everything that going on elsewhere needs
    Segue,
    /// A portable artifact, which opentine reads too
    Tine,
    /// OpenTelemetry spans, as JSON
    Otel,
}

impl Args {
    fn format(&self) -> Format {
        match (self.format, &self.output) {
            (Some(As::Segue), _) => Format::Bundle,
            (Some(As::Tine), _) => Format::Tine,
            (Some(As::Otel), _) => Format::Otel,
            (None, Some(out)) => Format::of_path(out).unwrap_or(Format::Bundle),
            (None, None) => Format::Bundle,
        }
    }
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    let found = context.find(args.session.as_deref())?;
    let selector = found.selector();
    let session = found.open(&context.home)?;
    check_whole(&session)?;
    let name = session.state().name.clone().unwrap_or_else(|| format!("session-{selector}"));
    let name = name.replace(['/', ' '], "-");
    let out = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.{}", args.format().ending())));
    if out.as_os_str() == "-" {
        return Err(CommandError::usage("a bundle is written to a file, whole or not at all")
            .hint("name one: -o x.segue"));
    }
    let out = context.cwd.join(out);
    if args.format() != Format::Bundle {
        return foreign_file(context, args, &session, &selector, &out);
    }
    if args.sign.sign_with.is_some() {
        return Err(
            CommandError::usage("only a .tine file can be signed").hint("name one: -o x.tine")
        );
    }
    let history = if args.full_history { History::Full } else { History::Thin };
    let workspace = session.state().workspace().map(PathBuf::from).unwrap_or_default();
    let git = match args.no_git || session.state().checkpoint.is_none() {
        true => None,
        false => match GitPart::discover(&workspace, history) {
            Ok(part) => Some(part),
            Err(error) => {
                say(&format!("note: without the files of its checkpoints: {error}"));
                None
            }
        },
    };
    let options = ExportOptions {
        force: args.force,
        number: found.number,
        home: std::env::var_os("HOME").map(PathBuf::from),
        segue: env!("CARGO_PKG_VERSION").to_owned(),
        now: context.now(),
        vendor_files: carry::pack(&session),
    };
    let carried = options.vendor_files.len();
    let mut shown = Shown::new(context);
    let done = export(&session, git.as_ref(), &out, &options, &mut |progress| shown.show(progress))
        .map_err(|error| share_error(&error));
    shown.wipe();
    let done = done?;
    if context.json {
        context.print_json(&json!({
            "session": selector, "file": done.path, "bytes": done.bytes,
            "files": done.manifest.files.len(), "git": done.manifest.git,
            "vendor_files": carried,
        }))?;
        return Ok(Exit::Done);
    }
    let sign = context.err().paint(Paint::Green, "✓");
    let size = style::bytes(done.bytes);
    say(&format!("{sign} session {selector} is in {} · {size}", done.path.display()));
    for part in done.manifest.git.iter().filter(|part| !part.needs.is_empty()) {
        let needs = style::count(part.needs.len() as u64, "commit");
        say(&format!("  it needs {needs} that the repository over there has to have"));
    }
    say(&format!("segue import {}", done.path.display()));
    Ok(Exit::Done)
}

/// A session in another format than our own.
fn foreign_file(
    context: &Context,
    args: &Args,
    session: &Session,
    selector: &str,
    out: &Path,
) -> CommandResult {
    let format = args.format();
    if args.full_history || args.no_git {
        return Err(CommandError::usage("there are no git objects in a file of this format"));
    }
    if format != Format::Tine && args.sign.sign_with.is_some() {
        return Err(CommandError::usage("only a .tine file can be signed"));
    }
    let signing = args.sign.signing(context)?;
    let bytes = foreign::write(session, out, format, args.force, signing.as_ref())
        .map_err(|error| share_error(&error))?;
    if context.json {
        context.print_json(&json!({
            "session": selector, "file": out, "bytes": bytes, "signed": signing.is_some(),
        }))?;
        return Ok(Exit::Done);
    }
    let sign = context.err().paint(Paint::Green, "✓");
    say(&format!("{sign} session {selector} is in {} · {}", out.display(), style::bytes(bytes)));
    Ok(Exit::Done)
}

/// Writes a session into a file, by its ending, and says no more of it.
pub(crate) fn to_file(
    context: &Context,
    session: &str,
    out: &Path,
    force: bool,
) -> Result<(), CommandError> {
    let found = context.find(Some(session))?;
    let session = found.open(&context.home)?;
    if let Some(format @ (Format::Tine | Format::Otel)) = Format::of_path(out) {
        foreign::write(&session, out, format, force, None).map_err(|error| share_error(&error))?;
        return Ok(());
    }
    let options = ExportOptions {
        force,
        number: found.number,
        home: std::env::var_os("HOME").map(PathBuf::from),
        segue: env!("CARGO_PKG_VERSION").to_owned(),
        now: context.now(),
        vendor_files: Vec::new(),
    };
    export(&session, None, out, &options, &mut |_| {}).map_err(|error| share_error(&error))?;
    Ok(())
}

/// One line at the bottom of a terminal while it takes long.
pub(crate) struct Shown {
    look: Option<style::Style>,
    drawn: bool,
}

impl Shown {
    pub(crate) fn new(context: &Context) -> Self {
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Self { look: (terminal && !context.json).then(|| context.err()), drawn: false }
    }

    pub(crate) fn show(&mut self, progress: Progress) {
        let Some(look) = &self.look else { return };
        let what = match progress.stage {
            Stage::Git => "git objects",
            Stage::Hashing => "reading",
            Stage::Writing => "writing",
            Stage::Unpacking => "unpacking",
            Stage::Verifying => "checking",
            Stage::Placing => "placing",
        };
        let done = match progress.total {
            0 => String::new(),
            total => format!(" {} of {}", style::bytes(progress.done), style::bytes(total)),
        };
        let line = look.paint(Paint::Dim, &format!("  {what}{done}"));
        self.drawn = true;
        eprint!("\r\x1b[2K{line}");
    }

    pub(crate) fn wipe(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint!("\r\x1b[2K");
        }
    }
}

pub(crate) fn share_error(error: &segue_share::Error) -> CommandError {
    use segue_share::Error as E;
    let message = error.to_string();
    match error {
        E::Exists { .. } => CommandError::usage(message).hint("replace it: --force"),
        E::NotABundle { .. } | E::Newer { .. } | E::Refused { .. } => CommandError::failed(message)
            .hint("nothing of it was kept; make it again with `segue export`"),
        E::BadArtifact { .. } | E::Unsound { .. } | E::Unsigned { .. } => {
            CommandError::failed(message).hint("nothing of it was kept; see `segue verify FILE`")
        }
        E::TooMuch { .. } => {
            CommandError::failed(message).hint("a bundle holds it: segue export SESSION -o x.segue")
        }
        E::CantSign(_) => CommandError::usage(message),
        E::InUse { .. } => CommandError::new(Exit::Busy, message),
        E::AheadOfOurs { .. } | E::Older { .. } | E::Diverged { .. } => {
            CommandError::usage(message)
        }
        _ => CommandError::failed(message),
    }
}
