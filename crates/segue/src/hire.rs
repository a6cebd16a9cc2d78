//! From an agent's name to someone who can work: what the program `segue` and [`crate::Agent`] share.

use std::{collections::HashMap, path::PathBuf};

use segue_agents::{
    native::{ModelError, ModelSpec, Provider, Settings, build, retry::Policy},
    vendor::{self, Program, SignIn, Vendor, World},
};
use segue_core::{Permission, usage::Price};
use segue_loops::launch::Worker;
use segue_runner::{
    NATIVE,
    native::NativeConfig,
    vendor::{VendorConfig, Watch},
};

/// What is asked of the one who is to work.
pub struct Wanted<'a> {
    /// Its name: `native`, or a vendor's.
    pub agent: &'a str,
    /// As the vendor calls it; for Segue's own agent `anthropic/…`, `openai/…`, `chat/…`,
    /// `script:FILE`.
    pub model: Option<&'a str>,
    /// What it may do, where that was said.
    pub permission: Option<Permission>,
    /// Begin a new conversation, whatever the vendor remembers.
    pub fresh: bool,
    /// Where a script's path is looked for.
    pub cwd: PathBuf,
}

/// What is known besides: prices, patience, keys.
pub struct Terms<'a> {
    /// The key and the address of a provider.
    pub settings: &'a dyn Fn(Provider) -> Settings,
    /// What models cost, besides those that are known.
    pub prices: HashMap<String, Price>,
    /// How often a call of Segue's own agent is tried.
    pub calls: Policy,
    /// How often a vendor's program is started again.
    pub starts: Policy,
    /// How long a vendor's program may be silent.
    pub watch: Watch,
    /// Give vendors' programs Segue's tools.
    pub tools: bool,
    /// The program that serves these tools.
    pub segue: PathBuf,
}

impl std::fmt::Debug for Terms<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terms").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted").field("agent", &self.agent).finish_non_exhaustive()
    }
}

/// Why nobody can work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HireError {
    /// No agent has that name.
    #[error("there is no agent `{0}` here")]
    NoSuchAgent(String),
    /// The vendor's program is not there.
    #[error("{title} is not installed: there is no {programs} in PATH")]
    NotInstalled {
        /// What people call the agent.
        title: String,
        /// The programs that were looked for.
        programs: String,
        /// The command that installs it; empty where there is none.
        install: &'static str,
    },
    /// The vendor's program has nobody's account.
    #[error("{title} is not signed in")]
    NotSignedIn {
        /// What people call the agent.
        title: String,
        /// How to sign in.
        sign_in: &'static str,
    },
    /// A permission was asked for that this agent can't be held to.
    #[error("{0} can't be held to a permission: it runs with all that you may do")]
    Unbound(String),
    /// The model's name means nothing.
    #[error("{0}")]
    NoSuchModel(String),
    /// The model can't be called: no key, no such script.
    #[error("{error}")]
    NoModel {
        /// Whose model it is.
        provider: Option<Provider>,
        /// What is missing.
        error: ModelError,
    },
}

/// Someone to do the work, and the model's full name where it is ours to say.
///
/// # Errors
/// Why that one can't work.
pub fn hire(wanted: &Wanted<'_>, terms: Terms<'_>) -> Result<(Option<String>, Worker), HireError> {
    if wanted.agent == NATIVE {
        let (model, native) = native(wanted, terms)?;
        return Ok((Some(model), Worker::Native(native)));
    }
    let Some(vendor) = vendor::find(wanted.agent) else {
        return Err(HireError::NoSuchAgent(wanted.agent.to_owned()));
    };
    let world = World::here();
    let program = installed(&*vendor, &world)?;
    let card = vendor.card();
    if vendor.signed_in(&world) == SignIn::No {
        let (title, sign_in) = (card.title.to_owned(), card.sign_in);
        return Err(HireError::NotSignedIn { title, sign_in });
    }
    let held = |asked: Permission| asked != Permission::Full;
    if !card.can.permission && wanted.permission.is_some_and(held) {
        return Err(HireError::Unbound(wanted.agent.to_owned()));
    }
    let model = wanted.model.map(str::to_owned);
    let worker = VendorConfig {
        vendor,
        program,
        world,
        model: model.clone(),
        prices: terms.prices,
        policy: terms.starts,
        watch: terms.watch,
        fresh: wanted.fresh,
        tools: terms.tools,
        segue: terms.segue,
    };
    Ok((model, Worker::Vendor(worker)))
}

/// The vendor's program.
fn installed(vendor: &dyn Vendor, world: &World) -> Result<Program, HireError> {
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
    match vendor::look_up(world, card.programs).filter(|_| found(&names)) {
        Some(program) => Ok(vendor.behind(program)),
        None => Err(HireError::NotInstalled {
            title: card.title.to_owned(),
            programs: names.join(" or "),
            install: card.install,
        }),
    }
}

/// The model by its full name, and the agent's parts around it.
fn native(wanted: &Wanted<'_>, terms: Terms<'_>) -> Result<(String, NativeConfig), HireError> {
    let text = wanted.model.unwrap_or("script");
    let spec = ModelSpec::parse(text).map_err(|error| HireError::NoSuchModel(error.to_string()))?;
    // A session is resumed from any directory: its script has to be found from there.
    let spec = match spec {
        ModelSpec::Script(Some(file)) => {
            let file = wanted.cwd.join(&file);
            ModelSpec::Script(Some(std::fs::canonicalize(&file).unwrap_or(file)))
        }
        api => api,
    };
    let settings = spec.provider().map(terms.settings).unwrap_or_default();
    let model = build(&spec, &settings)
        .map_err(|error| HireError::NoModel { provider: spec.provider(), error })?;
    Ok((spec.to_string(), NativeConfig { model, prices: terms.prices, policy: terms.calls }))
}
