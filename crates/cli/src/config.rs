//! Settings: what can be set, where each comes from, and what holds now.
//!
//! One list ([`KEYS`]) drives reading, checking, `segue config` and the documentation. A setting
//! comes from the command line, else from its environment variable, else from `config.toml` in the
//! home, else from its default.

mod keys;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    time::Duration,
};

use segue_agents::native::{Effort, ModelSpec, Provider, Secret, Settings};
use segue_core::{
    caps::Caps,
    usage::{Micros, Price},
};

use segue_loops::keep::Checkpoints;

pub(crate) use keys::{KEYS, Kind};

use crate::error::CommandError;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File,
    Environment(&'static str),
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("config.toml"),
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// What holds now.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
    pub(crate) values: BTreeMap<&'static str, (String, Source)>,
    /// As the file has them, whole or in part.
    pub(crate) prices: HashMap<String, Dollars>,
}

/// Dollars per million tokens of one model. They are set one by one, so some may be missing.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Dollars {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

pub(crate) const PRICE_FIELDS: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

impl Dollars {
    /// What is set, in the order of [`PRICE_FIELDS`].
    pub(crate) fn fields(self) -> impl Iterator<Item = (&'static str, f64)> {
        let values = [self.input, self.output, self.cache_read, self.cache_write];
        PRICE_FIELDS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
    }

    /// A price, once both ways are known: half a price would be a wrong one.
    fn price(self) -> Option<Price> {
        Some(Price {
            input: self.input?,
            output: self.output?,
            cache_read: self.cache_read.unwrap_or_default(),
            cache_write: self.cache_write.unwrap_or_default(),
        })
    }
}

/// Reads an environment variable; one that is empty is not set.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Config {
    pub(crate) fn load(home: &Path, env: Env<'_>) -> Result<Self, CommandError> {
        let path = home.join("config.toml");
        let (mut file, prices) = read_file(&path)?;
        let mut values = BTreeMap::new();
        for key in KEYS {
            let from_env = key.env.and_then(|name| {
                let value = env(name).filter(|value| !value.trim().is_empty())?;
                Some((value, Source::Environment(name)))
            });
            let from_file = file.remove(key.name).map(|value| (value, Source::File));
            let default = key.default.map(|value| (value.to_owned(), Source::Default));
            let Some((value, source)) = from_env.or(from_file).or(default) else { continue };
            check(key.kind, &value).map_err(|why| {
                let at = match &source {
                    Source::Environment(name) => (*name).to_owned(),
                    _ => format!("{}: {}", path.display(), key.name),
                };
                CommandError::usage(format!("{at}: {why}"))
            })?;
            values.insert(key.name, (value, source));
        }
        if let Some(name) = file.keys().next() {
            return Err(unknown_key(&path, name));
        }
        Ok(Self { path, values, prices })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|text| parse_count(text).ok())
    }

    pub(crate) fn duration(&self, name: &str) -> Option<Duration> {
        self.get(name).and_then(|text| parse_duration(text).ok())
    }

    pub(crate) fn caps(&self) -> Caps {
        let small = |name| self.count(name).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Caps {
            turns: small("caps.turns"),
            iterations: small("pair.max_iterations").filter(|most| *most > 0),
            reviews: small("caps.reviews").filter(|most| *most > 0),
            steps: small("caps.steps"),
            wall_clock_secs: self.duration("caps.time").map(|time| time.as_secs().max(1)),
            tokens: self.count("caps.tokens"),
            cost_micros: self.get("caps.cost").and_then(|text| parse_money(text).ok()),
        }
    }

    /// The caps of a list of tasks: attempts are counted for each task, and turns only where somebody
    /// has said how many.
    pub(crate) fn task_caps(&self) -> Caps {
        let most = self.count("tasks.max_iterations").filter(|most| *most > 0);
        let iterations = most.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        let all = self.caps();
        Caps { turns: all.turns.filter(|_| self.is_set("caps.turns")), iterations, ..all }
    }

    /// Whether somebody has set it, in the file or in the environment.
    fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, source)| *source != Source::Default)
    }

    /// Those of them that somebody has set, in the file or in the environment: they hold for a
    /// resume, too. There, 0 lifts a cap.
    pub(crate) fn set_task_caps(&self) -> Caps {
        let all = self.task_caps();
        let or_none = |cap: Option<u32>, name| self.is_set(name).then(|| cap.unwrap_or(u32::MAX));
        Caps {
            turns: all.turns,
            iterations: or_none(all.iterations, "tasks.max_iterations"),
            reviews: or_none(all.reviews, "caps.reviews"),
            steps: all.steps.filter(|_| self.is_set("caps.steps")),
            wall_clock_secs: all.wall_clock_secs.filter(|_| self.is_set("caps.time")),
            tokens: all.tokens.filter(|_| self.is_set("caps.tokens")),
            cost_micros: all.cost_micros.filter(|_| self.is_set("caps.cost")),
        }
    }

    /// The models whose price a person has set.
    pub(crate) fn prices(&self) -> HashMap<String, Price> {
        let known = self.prices.iter();
        known.filter_map(|(model, dollars)| Some((model.clone(), dollars.price()?))).collect()
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.tries("native.attempts").unwrap_or(5)
    }

    pub(crate) fn agent_attempts(&self) -> u32 {
        self.tries("agents.attempts").unwrap_or(2)
    }

    /// Where the workspace is kept.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        match self.get("checkpoints") {
            Some("off") => Checkpoints::Off,
            Some("always") => Checkpoints::Always,
            _ => Checkpoints::Git,
        }
    }

    /// The agents of a list in the order that they are tried.
    pub(crate) fn fallback(&self) -> Vec<String> {
        self.get("fallback").map(words).unwrap_or_default()
    }

    fn tries(&self, name: &str) -> Option<u32> {
        self.count(name).and_then(|n| u32::try_from(n).ok())
    }

    /// How to reach a provider's API. A server for Chat Completions may be named by the OpenAI
    /// variables too, since most of them ask for that.
    pub(crate) fn model_settings(&self, provider: Provider, env: Env<'_>) -> Settings {
        let word = provider.word();
        let known = Settings::from_env(provider, env);
        let get = |what: &str| self.get(&format!("{word}.{what}")).map(str::to_owned);
        Settings {
            base_url: get("base_url").or(known.base_url),
            key: get("key").map(Secret::new).or(known.key),
            idle_timeout: self.duration("native.idle_timeout").unwrap_or(known.idle_timeout),
            effort: self.get("native.effort").and_then(parse_effort),
            context_tokens: self.count("native.context_tokens"),
            ..Settings::from_env(provider, env)
        }
    }
}

/// The words of a list with commas.
pub(crate) fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

type FileValues = (BTreeMap<String, String>, HashMap<String, Dollars>);

/// The file as dotted names and texts. A file that is not there is empty.
fn read_file(path: &Path) -> Result<FileValues, CommandError> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => {
            read.map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?
        }
    };
    let bad = |why: String| CommandError::usage(format!("{}: {why}", path.display()));
    let mut table: toml::Table = toml::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let prices = match table.remove("prices") {
        None => HashMap::new(),
        Some(prices) => read_prices(prices).map_err(bad)?,
    };
    let mut values = BTreeMap::new();
    flatten("", &toml::Value::Table(table), &mut values);
    Ok((values, prices))
}

fn read_prices(prices: toml::Value) -> Result<HashMap<String, Dollars>, String> {
    let toml::Value::Table(models) = prices else {
        return Err("`prices` is not a table".to_owned());
    };
    let read = |(model, value): (String, toml::Value)| match value.try_into() {
        Ok(dollars) => Ok((model, dollars)),
        Err(error) => {
            let error: toml::de::Error = error;
            Err(format!("prices.{model}: {}", error.message()))
        }
    };
    models.into_iter().map(read).collect()
}

fn flatten(prefix: &str, value: &toml::Value, into: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let dotted =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&dotted, value, into);
            }
        }
        toml::Value::String(text) => drop(into.insert(prefix.to_owned(), text.clone())),
        other => drop(into.insert(prefix.to_owned(), other.to_string())),
    }
}

pub(crate) fn unknown_key(path: &Path, name: &str) -> CommandError {
    let close = KEYS.iter().map(|key| key.name).find(|known| {
        known.split('.').next_back() == name.split('.').next_back() || known.starts_with(name)
    });
    let error = CommandError::usage(format!("{}: there is no setting `{name}`", path.display()));
    match close {
        Some(known) => error.hint(format!("did you mean `{known}`?")),
        None if name.starts_with("prices.") => {
            error.hint(format!("a price has {}", PRICE_FIELDS.join(", ")))
        }
        None => error.hint("segue config lists them all"),
    }
}

/// Says why a value is not one of this kind.
pub(crate) fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Text if value.is_empty() => Err("must not be empty".to_owned()),
        Kind::Text | Kind::Secret => Ok(()),
        Kind::Model => ModelSpec::parse(value).map(drop).map_err(|error| error.to_string()),
        Kind::Count => parse_count(value).map(drop),
        Kind::Duration => parse_duration(value).map(drop),
        Kind::Money => parse_money(value).map(drop),
        Kind::Effort => parse_effort(value)
            .map(drop)
            .ok_or_else(|| format!("`{value}` is not low, medium or high")),
        Kind::OneOf(words) if words.contains(&value) => Ok(()),
        Kind::OneOf(words) => Err(format!("`{value}` is none of {}", words.join(", "))),
        Kind::Url if value.starts_with("http://") || value.starts_with("https://") => Ok(()),
        Kind::Url => Err(format!("`{value}` does not begin with http:// or https://")),
    }
}

fn parse_effort(text: &str) -> Option<Effort> {
    [Effort::Low, Effort::Medium, Effort::High].into_iter().find(|effort| effort.word() == text)
}

/// `1500`, `400k` or `2M`.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not a number such as 1500, 400k or 2M");
    let text = text.trim().replace('_', "");
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text.as_str(), 1),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(bad)
}

/// `90s`, `15m`, `2h` or `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a time such as 90s, 15m or 2h");
    let parsed: jiff::SignedDuration = text.trim().parse().map_err(|_| bad())?;
    Duration::try_from(parsed).map_err(|_| bad())
}

/// `5`, `2.50` or `$2.50`.
pub(crate) fn parse_money(text: &str) -> Result<Micros, String> {
    let bad = || format!("`{text}` is not a sum in dollars such as 2.50");
    let dollars: f64 = text.trim().trim_start_matches('$').parse().map_err(|_| bad())?;
    if dollars.is_finite() && dollars >= 0.0 {
        Ok(Micros::from_dollars(dollars))
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        let get = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::load(dir.path(), &get)
            .map_err(|error| error.to_string().replace(&dir.path().display().to_string(), "HOME"))
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
        let config = load(
            "model = 'openai/gpt-5'\n[caps]\nturns = 7\ntime = '1h30m'\ntokens = '2M'\ncost = 2.5\n",
            &[("SEGUE_MAX_TURNS", "9"), ("SEGUE_MODEL", "")],
        )
        .unwrap();
        assert_eq!(config.get("model"), Some("openai/gpt-5"));
        assert_eq!(config.get("agent"), Some("native"));
        let caps = config.caps();
        assert_eq!(caps.turns, Some(9));
        assert_eq!(caps.wall_clock_secs, Some(5400));
        assert_eq!(caps.tokens, Some(2_000_000));
        assert_eq!(caps.cost_micros, Some(Micros(2_500_000)));
        assert_eq!(config.values["caps.turns"].1, Source::Environment("SEGUE_MAX_TURNS"));
    }

    #[test]
    fn mistakes_name_the_file_and_the_place() {
        assert_eq!(
            load("[caps]\nturns = 'many'\n", &[]).unwrap_err(),
            "error: HOME/config.toml: caps.turns: `many` is not a number such as 1500, 400k or 2M"
        );
        assert!(load("model = [", &[]).unwrap_err().contains("line 1, column"));
        assert!(load("max_turns = 1", &[]).unwrap_err().contains("no setting `max_turns`"));
        assert!(load("turns = 1", &[]).unwrap_err().contains("did you mean `caps.turns`"));
        let error = load("", &[("SEGUE_MAX_COST", "lots")]).unwrap_err();
        assert!(error.starts_with("error: SEGUE_MAX_COST: `lots`"), "{error}");
    }

    #[test]
    fn prices_are_read_by_model() {
        let config = load("[prices.'chat/llama']\ninput = 1\noutput = 2.5\n", &[]).unwrap();
        assert_eq!(config.prices()["chat/llama"].output, 2.5);
        let half = load("[prices.'chat/llama']\ninput = 1\n", &[]).unwrap();
        assert!(half.prices().is_empty());
        let error = load("[prices.'chat/llama']\ninputs = 1\n", &[]).unwrap_err();
        assert!(error.contains("config.toml: prices.chat/llama: unknown field"), "{error}");
    }
}
