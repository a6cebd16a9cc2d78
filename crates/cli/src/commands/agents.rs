//! `segue agents`: who can work here.

use segue_agents::native::{ModelSpec, Provider};
use segue_core::Exit;
use segue_view::table::plain_table;
use serde_json::json;

use crate::{
    commands::run::AGENTS,
    context::{Context, print, say},
    error::CommandResult,
};

/// List the agents and the models that they can use
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue agents
  segue agents --json | jq '.[].providers[] | select(.ready)'")]
pub(crate) struct Args {}

pub(crate) fn run(context: &Context, _: &Args) -> CommandResult {
    let config = context.config()?;
    let env = |name: &str| std::env::var(name).ok();
    let current = config.get("model").unwrap_or("script");
    let chosen = ModelSpec::parse(current).ok();
    let mut models = vec![("script", true, "built in: answers from a file, no account".to_owned())];
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
        models.push((provider.word(), ready, how));
    }
    let is_chosen = |word: &str| match &chosen {
        Some(ModelSpec::Script(_)) => word == "script",
        Some(spec) => spec.provider().is_some_and(|provider| provider.word() == word),
        None => false,
    };
    if context.json {
        let agents: Vec<_> = AGENTS
            .iter()
            .map(|(name, alias)| {
                let models: Vec<_> = models
                    .iter()
                    .map(|(word, ready, how)| json!({ "provider": word, "ready": ready, "how": how }))
                    .collect();
                json!({ "agent": name, "alias": alias, "installed": true, "resume": true,
                        "model": current, "providers": models })
            })
            .collect();
        context.print_json(&agents)?;
        return Ok(Exit::Done);
    }
    let mut table = vec![["AGENT", "MODEL", "READY", "HOW"].map(str::to_owned)];
    for (index, (word, ready, how)) in models.iter().enumerate() {
        let agent = if index == 0 { "native (n)" } else { "" };
        let mark = if is_chosen(word) { format!("{word} ←") } else { (*word).to_owned() };
        let ready = if *ready { "yes" } else { "no" };
        table.push([agent.to_owned(), mark, ready.to_owned(), how.clone()]);
    }
    print(plain_table(&table, &context.out()).trim_end());
    say(&format!("model in use: {current} (segue config set model …)"));
    Ok(Exit::Done)
}
