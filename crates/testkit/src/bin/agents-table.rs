//! `agents-table NOTES PAGE [--write]`: puts what the tests saw of the real agents into the table of a
//! page, or says where the page tells something else.

use std::{fs, io, path::Path, process::ExitCode};

use segue_testkit::vendors::matrix;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [notes, page] => check(Path::new(notes), Path::new(page)),
        [notes, page, "--write"] => write(Path::new(notes), Path::new(page)),
        _ => Err(io::Error::other("usage: agents-table NOTES PAGE [--write]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agents-table: {error}");
            ExitCode::FAILURE
        }
    }
}

fn made(notes: &Path, page: &Path) -> io::Result<(String, String)> {
    let old = fs::read_to_string(page)?;
    let new = matrix::placed(&old, &matrix::table(notes)?)?;
    Ok((old, new))
}

fn check(notes: &Path, page: &Path) -> io::Result<()> {
    let (old, new) = made(notes, page)?;
    if old == new {
        return Ok(());
    }
    for (old, new) in old.lines().zip(new.lines()).filter(|(old, new)| old != new) {
        eprintln!("- {old}\n+ {new}");
    }
    Err(io::Error::other(format!("{} tells something else than the tests saw", page.display())))
}

fn write(notes: &Path, page: &Path) -> io::Result<()> {
    let (old, new) = made(notes, page)?;
    if old != new {
        fs::write(page, new)?;
    }
    Ok(())
}
