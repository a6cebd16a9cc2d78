//! `segue verify`: read everything again, and say what is wrong.

mod file;

use std::sync::Arc;

use segue_core::Exit;
use segue_journal::{
    Session,
    repair::{self, Problem, Report},
};
use segue_loops::tasks::{self, Source, ledger};
use segue_view::style;
use serde_json::json;

use crate::{
    commands::{keys::TrustFlags, tasks::source},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Check a session from its first byte to its last
///
/// Every line, every link between lines, every blob. Changes nothing, unless --repair is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue verify                      the latest session of this repository
  segue verify --all                every session of this home
  segue verify 7 --repair           go on with what is certain; the rest is kept aside
  segue verify run.tine             a file: its digest, its steps, its signature")]
pub(crate) struct Args {
    /// A number, a name, an id or the start of one, a path, @latest, or a .tine file
    session: Option<String>,
    /// Every session of this home
    #[arg(long, conflicts_with_all = ["session", "repair"])]
    all: bool,
    /// Cut a damaged journal back to what is certain, keeping the whole of it beside
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    trust: TrustFlags,
}

pub(crate) fn run(context: &Context, args: &Args) -> CommandResult {
    if let Some(file) = args.session.as_ref().map(|word| context.cwd.join(word))
        && file.is_file()
    {
        return file::run(context, &file, args);
    }
    if args.trust.given() {
        return Err(CommandError::usage("a session has no signature; a .tine file may have one"));
    }
    let mut reports = Vec::new();
    if args.all {
        let mut all = context.home.sessions()?;
        all.sort();
        for at in all {
            let name = at.id.to_string();
            match context.home.open(&at).and_then(|session| with_parts(&name, &session)) {
                Ok(all) => reports.extend(all),
                Err(error) => reports.push((name, unreadable(error))),
            }
        }
    } else {
        let found = context.find(args.session.as_deref())?;
        let selector = found.selector();
        let about = |error: CommandError| error.about(&selector);
        let open = || found.open(&context.home).map_err(|error| about(error.into()));
        if args.repair {
            repaired(context, &open()?).map_err(about)?;
        }
        reports.extend(with_parts(&selector, &open()?).map_err(|error| about(error.into()))?);
    }
    report(context, &reports)
}

/// Puts right what a person has to ask for, and says what that was.
fn repaired(context: &Context, session: &Session) -> Result<(), CommandError> {
    let cut = repair::cut_back(session, &context.me(), Arc::clone(&context.clock))?;
    if let Some(kept) = &cut {
        say(&format!("cut back to what is certain; all of it is kept in {kept}"));
    }
    let session = Session::open(Arc::clone(session.disk()), session.dir())?;
    ledger::mend_all(&session)?;
    let listed = mend_list(&session)?;
    if listed {
        say("the text of the list is written again from where it was read");
    }
    if cut.is_none() && !listed {
        say("nothing is damaged: there is nothing to repair");
    }
    Ok(())
}

/// The text of a list of tasks can be had again from where it was read, as long as it is the same there.
fn mend_list(session: &Session) -> Result<bool, CommandError> {
    match &session.state().tasks {
        Some(known) if tasks::list(session).is_err() => {
            let (path, list) = (known.source.clone(), source::read(&known.source)?);
            Ok(Source { path, list }.mend(session)?)
        }
        _ => Ok(false),
    }
}

/// A session and those within it.
fn with_parts(name: &str, session: &Session) -> segue_journal::Result<Vec<(String, Report)>> {
    let mut report = repair::verify(session)?;
    let ledgers = ledger::check(session)?.into_iter();
    report.problems.extend(ledgers.map(|file| Problem::Derived { file }));
    if tasks::list(session).is_err() {
        report.problems.push(Problem::Derived { file: "the text of the list".to_owned() });
    }
    let mut reports = vec![(name.to_owned(), report)];
    for place in session.places()? {
        // By its path it can be named, and mended.
        let dir = session.dir().join(place);
        let part = Session::open(Arc::clone(session.disk()), &dir);
        let report = part.and_then(|part| repair::verify(&part)).unwrap_or_else(unreadable);
        reports.push((dir.display().to_string(), report));
    }
    Ok(reports)
}

/// A session that can't even be opened, as a report of its own.
fn unreadable(error: segue_journal::Error) -> Report {
    let problems = vec![Problem::Unreadable { error }];
    Report { problems, ..Report::default() }
}

fn report(context: &Context, reports: &[(String, Report)]) -> CommandResult {
    let losses = reports.iter().flat_map(|(_, report)| &report.problems);
    let lost = losses.filter(|problem| problem.is_loss()).count();
    if context.json {
        let rows: Vec<_> = reports
            .iter()
            .map(|(session, report)| {
                let problems: Vec<String> = report.problems.iter().map(describe).collect();
                json!({
                    "session": session, "events": report.events, "bytes": report.bytes,
                    "blobs": report.blobs, "problems": problems,
                    "ok": !report.problems.iter().any(Problem::is_loss),
                })
            })
            .collect();
        context.print_json(&rows)?;
    } else {
        for (session, report) in reports {
            let sign = if report.problems.is_empty() { "✓" } else { "✗" };
            print(&format!(
                "{sign} {session}: {} events, {}, {} blobs",
                report.events,
                style::bytes(report.bytes),
                report.blobs
            ));
            for problem in &report.problems {
                print(&format!("    {}", style::sanitize(&describe(problem))));
            }
        }
    }
    match lost {
        0 => Ok(Exit::Done),
        _ if context.json => Ok(Exit::Failed),
        _ => {
            let error = CommandError::failed("something that had been recorded is damaged");
            let mends =
                |(_, report): &&(String, Report)| report.problems.iter().any(Problem::can_be_cut);
            Err(match reports.iter().find(mends) {
                Some((first, _)) => error.hint(format!(
                    "go on with what is certain, keeping the rest aside: segue verify {first} --repair"
                )),
                None => error,
            })
        }
    }
}

/// What is wrong, for people.
pub(crate) fn describe(problem: &Problem) -> String {
    match problem {
        Problem::TornTail { bytes } => format!(
            "journal.jsonl: {bytes} bytes of an unfinished write at the end, which the next resume sets aside; nothing that was reported is lost"
        ),
        Problem::Damaged(damage) => {
            format!("journal.jsonl, line {}: {}", damage.line, damage.finding)
        }
        Problem::Base { error } | Problem::Unreadable { error } => error.to_string(),
        Problem::Blob { line, error } => format!("journal.jsonl, line {line}: {error}"),
        Problem::Identity { error: Some(error) } => error.to_string(),
        Problem::Identity { error: None } => {
            "session.json says something else than the journal, which the next resume mends"
                .to_owned()
        }
        Problem::Derived { file } => {
            format!("{file} says something else than the journal: --repair writes it again")
        }
        Problem::Snapshot => {
            "state.json says something else than the journal: it is a cache, and is made anew"
                .to_owned()
        }
    }
}
