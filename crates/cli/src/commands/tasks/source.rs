//! Reads a list of tasks from the disk: a directory of pages, or a `prd.json`.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use segue_core::tasks::{self, List, OVERVIEW, PRD, Wrong};
use segue_view::style::count;

use crate::error::CommandError;

/// A page or a `prd.json` of a person is far from this.
const MOST_BYTES: u64 = 1 << 20;
const MOST_TASKS: usize = 10_000;

/// A file that is part of a list.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Reads the list in a directory, or in a file of JSON.
pub(crate) fn read(path: &Path) -> Result<List, CommandError> {
    let cannot = |error: io::Error| CommandError::usage(format!("{}: {error}", path.display()));
    let found = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(template_hint(cannot(error), path));
        }
        found => found.map_err(cannot)?,
    };
    if found.is_dir() {
        return directory(path, parts(path).map_err(cannot)?);
    }
    if !is_json(path) {
        let message = format!("{}: neither a directory nor a {PRD}", path.display());
        return Err(CommandError::usage(message)
            .hint(format!("name the directory: segue tasks check {}", folder(path).display())));
    }
    file(path, path)
}

/// The files of a directory that are part of a list, the overview first.
pub(super) fn parts(dir: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == PRD || tasks::is_page(&name) {
            parts.push(Part { name, path: entry.path() });
        }
    }
    parts.sort_by(|a, b| (a.name != OVERVIEW, &a.name).cmp(&(b.name != OVERVIEW, &b.name)));
    Ok(parts)
}

fn directory(dir: &Path, parts: Vec<Part>) -> Result<List, CommandError> {
    let (prd, pages): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|one| one.name == PRD);
    match (prd.first(), pages.first()) {
        (Some(prd), Some(page)) => Err(CommandError::usage(format!(
            "two lists in one directory: {} and {}",
            prd.path.display(),
            page.path.display()
        ))
        .hint("keep one of them, and move the other elsewhere")),
        (Some(prd), None) => file(&prd.path, dir),
        (None, Some(_)) => from_pages(dir, &pages),
        (None, None) => {
            let message = format!("{}: there is no list of tasks here", dir.display());
            Err(template_hint(CommandError::usage(message), dir))
        }
    }
}

fn from_pages(dir: &Path, pages: &[Part]) -> Result<List, CommandError> {
    // Before any of them is read.
    check_count(dir, pages.iter().filter(|page| page.name != OVERVIEW).count())?;
    let (mut texts, mut unreadable) = (Vec::new(), Vec::new());
    for page in pages {
        match text(&page.path) {
            Ok(text) => texts.push((page.name.clone(), text)),
            Err(wrong) => unreadable.push(wrong),
        }
    }
    // A page that can't be read would be missing in what is said of the others.
    if !unreadable.is_empty() {
        return Err(mistakes(dir, unreadable));
    }
    tasks::from_pages(&texts).map_err(|wrong| {
        let placed = |one: Wrong| Wrong { file: dir.join(&one.file).display().to_string(), ..one };
        mistakes(dir, wrong.into_iter().map(placed).collect())
    })
}

/// Reads a `prd.json`; `named` is what the person called the list.
fn file(path: &Path, named: &Path) -> Result<List, CommandError> {
    let text = text(path).map_err(|wrong| mistakes(named, vec![wrong]))?;
    let list = tasks::from_json(&path.display().to_string(), &text)
        .map_err(|wrong| mistakes(named, wrong))?;
    check_count(named, list.tasks.len())?;
    Ok(list)
}

fn check_count(named: &Path, count: usize) -> Result<(), CommandError> {
    match count {
        0..=MOST_TASKS => Ok(()),
        _ => Err(CommandError::usage(format!(
            "{}: {count} tasks; a list has at most {MOST_TASKS}",
            named.display()
        ))),
    }
}

fn text(path: &Path) -> Result<String, Wrong> {
    let wrong = |line, what: String| Wrong::new(path.display().to_string(), line, what);
    let failed = |error: io::Error| wrong(None, error.to_string());
    // Before it is opened: a pipe that nobody writes to would hold us forever.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(wrong(None, "not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(failed)?;
    opened.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(None, "larger than 1 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|&&byte| byte == b'\n').count();
        wrong(Some(line), "not UTF-8".to_owned())
    })
}

fn mistakes(named: &Path, wrong: Vec<Wrong>) -> CommandError {
    let count = count(wrong.len() as u64, "mistake");
    let named = named.display();
    CommandError::usage(format!("{named}: {count} in the list of tasks"))
        .problems(wrong)
        .hint(format!("once mended, check it again: segue tasks check {named}"))
}

fn template_hint(error: CommandError, path: &Path) -> CommandError {
    // The template is pages: a directory of the file's name would help nobody.
    let dir = if is_json(path) { folder(path) } else { path };
    error.hint(format!("a template to begin with: segue tasks new {}", dir.display()))
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

fn folder(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}
