//! From an agent's name to someone who can work.

use std::time::Duration;

use segue_agents::{
    native::{ModelError, ModelSpec, build, retry::Policy},
    vendor::{self, Program, SignIn, Vendor, World},
};
use segue_core::{Exit, Permission};
use segue_loops::launch::Worker;
use segue_runner::{
    native::NativeConfig,
    vendor::{VendorConfig, Watch},
};

use crate::{config::Config, context::Context, error::CommandError};

/// Segue's own agent, and its one-letter name.
pub(crate) const NATIVE: &str = "native";
pub(crate) const NATIVE_ALIAS: &str = "n";

/// The agent that a word means, by its full name.
pub(crate) fn known_agent(word: &str) -> Option<String> {
    match word {
        NATIVE | NATIVE_ALIAS => Some(NATIVE.to_owned()),
        word => vendor::find(word).map(|vendor| vendor.card().name),
    }
}

/// What the limits of an agent are known by, where it works with this model.
pub(crate) fn limit_key(agent: &str, model: Option<&str>) -> String {
    match model.filter(|_| agent == NATIVE) {
        None => agent.to_owned(),
        // The provider is no part of the model's own name; a script's path is.
        Some(model) if model.starts_with("script") => format!("{NATIVE} {model}"),
        Some(model) => {
            let name = model.split_once('/').map_or(model, |(_, name)| name);
            format!("{NATIVE} {name}")
        }
    }
}

/// A name that no agent has.
pub(crate) fn no_such_agent(word: &str) -> CommandError {
    let error = CommandError::new(Exit::AgentMissing, format!("there is no agent `{word}` here"));
    let names = vendor::ALL.iter().map(|vendor| vendor.card().name).chain([NATIVE.to_owned()]);
    let near = |name: &String| strsim::damerau_levenshtein(name, word) <= 2;
    let error = match names.into_iter().find(near) {
        Some(name) => error.hint(format!("did you mean {name}?")),
        None => error,
    };
    error.hint(format!("the agents are: {} (segue agents)", agent_names()))
}

/// All names, for people.
pub(crate) fn agent_names() -> String {
    let vendors = vendor::ALL.iter().map(|vendor| vendor.card().name);
    let mut names: Vec<String> = vendors.collect();
    names.extend([NATIVE, "acp:<command>", "exec:<command>"].map(str::to_owned));
    names.join(", ")
}

/// What an agent may do, by the word and in its vendor's terms; nothing for the native one.
pub(crate) fn terms(agent: &str, permission: Permission) -> Option<String> {
    let vendor = vendor::find(agent)?;
    Some(match vendor.card().can.permission {
        true => format!("{permission}: {}", vendor.terms(permission)),
        false => vendor.terms(permission).to_owned(),
    })
}

/// How the agent is to work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wishes<'a> {
    pub(crate) model: Option<&'a str>,
    pub(crate) permission: Option<Permission>,
    /// Begin a new conversation, whatever the vendor remembers.
    pub(crate) fresh: bool,
}

/// Someone to do the work, and the model's full name where it is ours to say.
pub(crate) fn hire(
    context: &Context,
    config: &Config,
    agent: &str,
    wishes: Wishes<'_>,
) -> Result<(Option<String>, Worker), CommandError> {
    if agent == NATIVE {
        let (model, native) = native_config(context, config, wishes.model)?;
        return Ok((Some(model), Worker::Native(native)));
    }
    let Some(vendor) = vendor::find(agent) else { return Err(no_such_agent(agent)) };
    let world = World::here();
    let program = installed(&*vendor, &world)?;
    let card = vendor.card();
    if vendor.signed_in(&world) == SignIn::No {
        return Err(CommandError::failed(format!("{} is not signed in", card.title))
            .hint(card.sign_in)
            .hint("segue agents shows who is"));
    }
    if !card.can.permission && wishes.permission.is_some_and(|asked| asked != Permission::Full) {
        return Err(CommandError::usage(format!(
            "{agent} can't be held to a permission: it runs with all that you may do"
        ))
        .hint("--permission full says so"));
    }
    let policy = Policy { attempts: config.agent_attempts(), ..Policy::default() };
    let watch = Watch {
        silence: config.duration("agents.silence").unwrap_or(Duration::from_secs(600)),
        tool_silence: config.duration("agents.tool_silence").unwrap_or(Duration::from_secs(3600)),
        ..Watch::default()
    };
    let model = wishes.model.map(str::to_owned);
    let fresh = wishes.fresh;
    let prices = config.prices();
    let worker = VendorConfig {
        vendor,
        program,
        world,
        model: model.clone(),
        prices,
        policy,
        watch,
        fresh,
        tools: config.get("agents.tools") != Some("off"),
        segue: std::env::current_exe().unwrap_or_else(|_| "segue".into()),
    };
    Ok((model, Worker::Vendor(worker)))
}

/// The vendor's program, or how to get it.
fn installed(vendor: &dyn Vendor, world: &World) -> Result<Program, CommandError> {
    let card = vendor.card();
    let wanted = vendor.looks_for();
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    // A path is the shell's to find, from the directory that the agent works in.
    let found = |names: &[&str]| {
        let by_path = |name: &&str| {
            let path = std::path::Path::new(name);
            name.contains('/') && (path.is_relative() || path.exists())
        };
        names.iter().any(by_path) || vendor::look_up(world, names).is_some()
    };
    if let Some(program) = vendor::look_up(world, card.programs).filter(|_| found(&names)) {
        return Ok(vendor.behind(program));
    }
    let names = names.join(" or ");
    let error = CommandError::new(
        Exit::AgentMissing,
        format!("{} is not installed: there is no {names} in PATH", card.title),
    );
    Err(match card.install {
        "" => error,
        install => error.hint(format!("install it: {install}")),
    })
}

/// The model by its full name, and the agent's parts around it.
pub(crate) fn native_config(
    context: &Context,
    config: &Config,
    model: Option<&str>,
) -> Result<(String, NativeConfig), CommandError> {
    let text = model.unwrap_or_else(|| config.get("model").unwrap_or("script"));
    let spec = ModelSpec::parse(text).map_err(|error| CommandError::usage(error.to_string()))?;
    // A session is resumed from any directory: its script has to be found from there.
    let spec = match spec {
        ModelSpec::Script(Some(file)) => {
            let file = context.cwd.join(&file);
            ModelSpec::Script(Some(std::fs::canonicalize(&file).unwrap_or(file)))
        }
        api => api,
    };
    let env = |name: &str| std::env::var(name).ok();
    let settings =
        spec.provider().map(|provider| config.model_settings(provider, &env)).unwrap_or_default();
    let model = build(&spec, &settings).map_err(|error| no_model(&spec, error))?;
    let policy = Policy { attempts: config.attempts(), ..Policy::default() };
    Ok((spec.to_string(), NativeConfig { model, prices: config.prices(), policy }))
}

fn no_model(spec: &ModelSpec, error: ModelError) -> CommandError {
    match (error, spec.provider()) {
        (ModelError::NotSignedIn { message, fix }, Some(provider)) => {
            let word = provider.word();
            CommandError::failed(format!("not signed in: {message}")).hint(fix).hint(format!(
                "or keep it in the settings: segue config set {word}.key - < key.txt"
            ))
        }
        (error, _) => CommandError::failed(error.to_string()),
    }
}
