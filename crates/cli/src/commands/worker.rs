//! From an agent's name to someone who can work.

use std::time::Duration;

use segue::hire::{HireError, Terms, Wanted};
use segue_agents::{
    native::{ModelError, retry::Policy},
    vendor,
};
use segue_core::{Exit, Permission};
use segue_loops::launch::Worker;
use segue_runner::vendor::Watch;

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
    let ours = || config.get("model").filter(|_| agent == NATIVE);
    let wanted = Wanted {
        agent,
        model: wishes.model.or_else(ours),
        permission: wishes.permission,
        fresh: wishes.fresh,
        cwd: context.cwd.clone(),
    };
    let env = |name: &str| std::env::var(name).ok();
    let terms = Terms {
        settings: &|provider| config.model_settings(provider, &env),
        prices: config.prices(),
        calls: Policy { attempts: config.attempts(), ..Policy::default() },
        starts: Policy { attempts: config.agent_attempts(), ..Policy::default() },
        watch: Watch {
            silence: config.duration("agents.silence").unwrap_or(Duration::from_secs(600)),
            tool_silence: config
                .duration("agents.tool_silence")
                .unwrap_or(Duration::from_secs(3600)),
            ..Watch::default()
        },
        tools: config.get("agents.tools") != Some("off"),
        segue: std::env::current_exe().unwrap_or_else(|_| "segue".into()),
    };
    Ok(segue::hire::hire(&wanted, terms)?)
}

impl From<HireError> for CommandError {
    fn from(error: HireError) -> Self {
        let message = error.to_string();
        match error {
            HireError::NoSuchAgent(word) => no_such_agent(&word),
            HireError::NotInstalled { install: "", .. } => Self::new(Exit::AgentMissing, message),
            HireError::NotInstalled { install, .. } => {
                Self::new(Exit::AgentMissing, message).hint(format!("install it: {install}"))
            }
            HireError::NotSignedIn { sign_in, .. } => {
                Self::failed(message).hint(sign_in).hint("segue agents shows who is")
            }
            HireError::Unbound(_) => Self::usage(message).hint("--permission full says so"),
            HireError::NoSuchModel(_) => Self::usage(message)
                .hint("name the model: --model anthropic/…, openai/…, chat/… or script:FILE"),
            HireError::NoModel {
                provider: Some(provider),
                error: ModelError::NotSignedIn { message, fix },
            } => Self::failed(format!("not signed in: {message}")).hint(fix).hint(format!(
                "or keep it in the settings: segue config set {}.key - < key.txt",
                provider.word()
            )),
            _ => Self::failed(message),
        }
    }
}
