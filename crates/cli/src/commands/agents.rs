//! `segue agents`: who can work here.

use std::{
    collections::HashMap,
    io::Read,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use segue_agents::{
    native::{ModelSpec, Provider},
    vendor::{self, Card, Program, SignIn, Vendor, World},
};
use segue_core::{
    Exit,
    event::{KnownLimit, QuotaTold},
};
use segue_view::{index::Filter, style, table::plain_table};
use serde_json::json;

use crate::{
    commands::worker::{NATIVE, NATIVE_ALIAS},
    config::Config,
    context::{Context, print, say, view_error},
    error::{CommandError, CommandResult},
};

/// How many sessions are looked at for what a vendor told of its allowance.
const RECENT: usize = 200;

/// How long a program may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// List the agents: which are installed, signed in, and what they can do
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue agents
  segue agents --json | jq -r '.[] | select(.installed) | .agent'")]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _: &Args) -> CommandResult {
    let config = context.config()?;
    let world = World::here();
    let looks: Vec<Look> = thread::scope(|scope| {
        let started: Vec<_> =
            vendor::ALL.iter().map(|vendor| scope.spawn(|| Look::at(*vendor, &world))).collect();
        started.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let quotas = quotas(context)?;
    let models = models(&config);
    let current = config.get("model").unwrap_or("script");
    if context.json {
        let limits = context.home.limits(context.now());
        let mut agents: Vec<_> = looks.iter().map(|look| look.json(&quotas, &limits)).collect();
        agents.push(json!({
            "agent": NATIVE, "alias": NATIVE_ALIAS, "installed": true, "resume": true,
            "model": current, "providers": models,
        }));
        context.print_json(&agents)?;
        return Ok(Exit::Done);
    }
    let head = ["AGENT", "VERSION", "SIGNED IN", "RESUME", "FORK", "OWN ID", "ACP", "QUOTA"];
    let mut table = vec![head.map(str::to_owned)];
    table.extend(looks.iter().map(|look| look.row(context, &quotas)));
    let rest = ["yes", "", "yes", ""].map(str::to_owned);
    let [resume, fork, id, acp] = rest;
    let native = format!("{NATIVE} ({NATIVE_ALIAS})");
    let version = env!("CARGO_PKG_VERSION").to_owned();
    table.push([native, version, format!("model {current}"), resume, fork, id, acp, String::new()]);
    print(plain_table(&table, &context.out()).trim_end());
    for look in &looks {
        look.remark();
    }
    let missing = looks.iter().filter(|look| look.program.is_none());
    let missing: Vec<&str> = missing.map(|look| look.card.name.as_str()).collect();
    if !missing.is_empty() {
        say(&format!("not installed: {}; segue run NAME tells how to get one", missing.join(", ")));
    }
    print("");
    let mut table = vec![["NATIVE'S MODELS", "READY", "HOW"].map(str::to_owned)];
    for model in &models {
        let mark = if model.chosen { " ←" } else { "" };
        let ready = if model.ready { "yes" } else { "no" };
        table.push([format!("{}{mark}", model.provider), ready.to_owned(), model.how.clone()]);
    }
    print(plain_table(&table, &context.out()).trim_end());
    say("any other: acp:<command> for what speaks the Agent Client Protocol, exec:<command>");
    Ok(Exit::Done)
}

/// What can be seen of one vendor's program.
struct Look {
    card: Card,
    program: Option<Program>,
    version: Option<String>,
    signed_in: SignIn,
}

impl Look {
    fn at(vendor: &dyn Vendor, world: &World) -> Self {
        let card = vendor.card();
        let program = vendor::look_up(world, card.programs).map(|found| vendor.behind(found));
        let version =
            program.as_ref().and_then(|found| found.version.clone().or_else(|| ask(found)));
        Self { signed_in: vendor.signed_in(world), card, program, version }
    }

    fn is_newer(&self) -> bool {
        match (&self.version, self.card.tested) {
            (Some(found), Some(tested)) => numbers(found) > numbers(tested),
            _ => false,
        }
    }

    fn row(&self, context: &Context, quotas: &Quotas) -> [String; 8] {
        let card = &self.card;
        let alias = card.alias.map(|alias| format!(" ({alias})")).unwrap_or_default();
        let name = format!("{}{alias}", card.name);
        let yes = |can: bool| if can { "yes".to_owned() } else { String::new() };
        let can = card.can;
        let abilities = [yes(can.resume), yes(can.fork), yes(can.own_id), yes(can.acp)];
        let [resume, fork, own_id, acp] = abilities;
        let (version, signed_in) = match &self.program {
            None => ("–".to_owned(), "not installed".to_owned()),
            Some(_) => {
                let mark = if self.is_newer() { "*" } else { "" };
                let version = self.version.clone().unwrap_or_else(|| "?".to_owned());
                (
                    format!("{version}{mark}"),
                    match &self.signed_in {
                        SignIn::Yes(how) => how.clone(),
                        SignIn::No => "no".to_owned(),
                        SignIn::Unknown => "?".to_owned(),
                    },
                )
            }
        };
        let told = quotas.get(&card.name).map(Vec::as_slice).unwrap_or_default();
        let told = told.iter().map(|quota| {
            let used = quota.used_percent.map(|percent| format!(" {percent} % used"));
            let reset = quota.resets_at.filter(|at| *at > context.now());
            let reset = reset.map(|at| format!(", resets {}", style::relative(at, context.now())));
            format!("{}{}{}", quota.window, used.unwrap_or_default(), reset.unwrap_or_default())
        });
        let limit = context.home.limit_of(&card.name, context.now());
        let limit = limit.map(|limit| match limit.resets_at {
            Some(at) => format!("limited, resets {}", style::relative(at, context.now())),
            None => format!("limited, hit {}", style::relative(limit.hit_at, context.now())),
        });
        let quota = limit.into_iter().chain(told).collect::<Vec<_>>().join("; ");
        [name, version, signed_in, resume, fork, own_id, acp, quota]
    }

    /// What would help, and what to know.
    fn remark(&self) {
        let Card { name, sign_in, tested, .. } = &self.card;
        if self.program.is_some() && self.signed_in == SignIn::No {
            say(&format!("{name}: sign in with {sign_in}"));
        }
        if self.is_newer()
            && let Some(tested) = tested
        {
            say(&format!(
                "* {name}: newer than the tested version {tested}, and used all the same"
            ));
        }
    }

    fn json(&self, quotas: &Quotas, limits: &[KnownLimit]) -> serde_json::Value {
        let card = &self.card;
        let (signed_in, by) = match &self.signed_in {
            SignIn::Yes(how) => (Some(true), Some(how)),
            SignIn::No => (Some(false), None),
            SignIn::Unknown => (None, None),
        };
        json!({
            "agent": card.name, "alias": card.alias, "title": card.title,
            "limit": limits.iter().find(|limit| limit.agent == card.name),
            "installed": self.program.is_some(),
            "program": self.program.as_ref().map(|found| &found.path),
            "version": self.version, "tested": card.tested, "newer_than_tested": self.is_newer(),
            "signed_in": signed_in, "signed_in_by": by,
            "resume": card.can.resume, "fork": card.can.fork, "own_id": card.can.own_id,
            "acp": card.can.acp, "install": card.install, "sign_in": card.sign_in,
            "quota": quotas.get(&card.name).map(Vec::as_slice).unwrap_or_default(),
        })
    }
}

/// The numbers of a version, so that 0.10 comes after 0.9.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// Asks a program for its version.
fn ask(program: &Program) -> Option<String> {
    let mut child = Command::new(&program.path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + VERSION_LIMIT;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    let mut text = String::new();
    child.stdout?.take(4096).read_to_string(&mut text).ok()?;
    let words = text.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    let version =
        |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    words.into_iter().find(version).map(|word| word.trim_start_matches('v').to_owned())
}

type Quotas = HashMap<String, Vec<QuotaTold>>;

/// What each vendor told last of its allowance, in any session.
fn quotas(context: &Context) -> Result<Quotas, CommandError> {
    let mut found = Quotas::new();
    let recent = Filter { limit: Some(RECENT), ..Filter::default() };
    for row in context.index()?.query(&recent).map_err(view_error)?.rows {
        if found.contains_key(&row.agent) || row.agent == NATIVE {
            continue;
        }
        if let Ok(session) = context.home.open(&row.at)
            && !session.state().quotas.is_empty()
        {
            // After its reset, what was told of a window means nothing.
            let holds = |quota: &&QuotaTold| quota.resets_at.is_none_or(|at| at > context.now());
            let told = session.state().quotas.iter().filter(holds).cloned().collect();
            found.insert(row.agent, told);
        }
    }
    Ok(found)
}

#[derive(serde::Serialize)]
struct ModelLine {
    provider: &'static str,
    ready: bool,
    how: String,
    #[serde(skip)]
    chosen: bool,
}

/// The models that the native agent can use.
fn models(config: &Config) -> Vec<ModelLine> {
    let env = |name: &str| std::env::var(name).ok();
    let chosen = ModelSpec::parse(config.get("model").unwrap_or("script")).ok();
    let how = "built in: answers from a file, no account".to_owned();
    let script = matches!(chosen, Some(ModelSpec::Script(_)));
    let mut models = vec![ModelLine { provider: "script", ready: true, how, chosen: script }];
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Chat] {
        let settings = config.model_settings(provider, &env);
        let ready = settings.key.is_some() || settings.base_url.is_some();
        let how = match (&settings.base_url, ready) {
            (Some(url), _) => format!("at {url}"),
            (None, true) => "signed in".to_owned(),
            (None, false) if provider == Provider::Chat => {
                "segue config set chat.base_url http://…".to_owned()
            }
            (None, false) => provider.fix(),
        };
        let chosen = chosen.as_ref().and_then(ModelSpec::provider) == Some(provider);
        models.push(ModelLine { provider: provider.word(), ready, how, chosen });
    }
    models
}
