//! `segue.toml`: found, read, and checked against what is installed.

use std::path::{Path, PathBuf};

use segue_agents::{
    native::ModelSpec,
    vendor::{self, World},
};
use segue_core::{
    Exit, Wrong,
    crew::{self, FILE, Roster, Spec, template},
};

use crate::{
    commands::{
        run::workspace,
        worker::{NATIVE, Wishes, hire},
    },
    config::Config,
    context::Context,
    error::CommandError,
};

/// A roster, and the directory that its file is in.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) roster: Roster,
    pub(super) project: PathBuf,
    /// What the file is called, where it is called otherwise.
    pub(super) file: Option<String>,
    /// Where it says what is started for each agent.
    lines: Vec<usize>,
}

/// Reads the file that was named, or the nearest one above.
pub(super) fn read(context: &Context, named: Option<&Path>) -> Result<Sheet, CommandError> {
    let path = match named {
        Some(path) => {
            let path = context.cwd.join(path);
            if path.is_dir() { path.join(FILE) } else { path }
        }
        None => context
            .cwd
            .ancestors()
            .map(|dir| dir.join(FILE))
            .find(|path| path.is_file())
            .ok_or_else(missing)?,
    };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        CommandError::usage(format!("{}: {error}", path.display()))
            .hint("segue crew init writes one")
    })?;
    let project = workspace(&context.cwd, path.parent())?;
    let names: Vec<String> = vendor::ALL.iter().map(|vendor| vendor.card().name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain([NATIVE]).collect();
    let exists = |file: &str| project.join(file).is_file();
    let called = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut roster = crew::read(&text, &names, &exists).map_err(|wrong| {
        let named = |one: Wrong| Wrong { file: called.clone(), ..one };
        let wrong = wrong.into_iter().map(named).collect();
        CommandError::usage(format!("{} can't be used", path.display())).problems(wrong)
    })?;
    check_prompts(&roster, &project)?;
    for model in roster.agents.iter_mut().filter_map(|spec| spec.model.as_mut()) {
        // Whoever brings the crew back may be somewhere else.
        if let Ok(ModelSpec::Script(Some(script))) = ModelSpec::parse(model) {
            *model = ModelSpec::Script(Some(project.join(script))).to_string();
        }
    }
    let file = (called != FILE).then_some(called);
    Ok(Sheet { roster, project, file, lines: crew::program_lines(&text) })
}

fn missing() -> CommandError {
    CommandError::new(Exit::Usage, format!("there is no {FILE} here, nor above"))
        .hint("segue crew init writes one, with explanations")
}

/// Finds out now which prompt has a variable that nobody knows, and not when it is sent.
fn check_prompts(roster: &Roster, project: &Path) -> Result<(), CommandError> {
    let files = roster.agents.iter().filter_map(|spec| spec.prompt.as_deref());
    let files = files.chain(roster.timers.iter().filter_map(|timer| timer.prompt.as_deref()));
    let mut problems = Vec::new();
    for file in files {
        let path = project.join(file);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
        let found = template::render(file, &text, &template::Vars::default());
        problems.extend(found.err().unwrap_or_default());
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(CommandError::usage("the prompts can't be used").problems(problems)),
    }
}

/// Finds out now who can't work, and not when everybody else has been started.
pub(super) fn check_agents(context: &Context, sheet: &Sheet) -> Result<(), CommandError> {
    let config = context.config()?;
    let file = sheet.file.as_deref().unwrap_or(FILE);
    let mut exit = None;
    let (mut problems, mut hints) = (Vec::new(), Vec::new());
    for (at, spec) in sheet.roster.agents.iter().enumerate() {
        let Err(error) = check_agent(context, &config, spec, &sheet.project) else { continue };
        let what = format!("{}: {}", spec.id, error.message());
        problems.push(Wrong::new(file, sheet.lines.get(at).copied(), what));
        exit.get_or_insert(error.exit);
        for hint in error.hints() {
            if !hints.contains(hint) {
                hints.push(hint.clone());
            }
        }
    }
    let Some(exit) = exit else { return Ok(()) };
    let error = CommandError::new(exit, "not everybody could be started").problems(problems);
    Err(hints.into_iter().fold(error, CommandError::hint))
}

fn check_agent(
    context: &Context,
    config: &Config,
    spec: &Spec,
    project: &Path,
) -> Result<(), CommandError> {
    if let Some(program) = spec.command.first().filter(|word| !word.contains("{{")) {
        let there = match program.contains('/') {
            true => project.join(program).is_file(),
            false => vendor::look_up(&World::here(), &[program]).is_some(),
        };
        if !there {
            let message = format!("there is no program {program}");
            return Err(CommandError::new(Exit::AgentMissing, message));
        }
    }
    if let Some(agent) = &spec.agent {
        let wishes = Wishes { model: spec.model.as_deref(), ..Wishes::default() };
        hire(context, config, agent, wishes)?;
    }
    Ok(())
}
