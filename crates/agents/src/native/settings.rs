//! Which model, where it is, and with which key.
//!
//! A model is named `anthropic/<model>`, `openai/<model>` (the Responses API), `chat/<model>`
//! (Chat Completions, as spoken by most other servers), `script:<file>` or `script`. Keys never
//! leave [`Secret`] but into a request header: not into errors, logs or `Debug` output.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::api::Api;
use super::model::{Model, ModelError};
use super::{anthropic, chat, responses, script};

/// A key. It cannot be printed or serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Surrounding white space, as left by `$(cat file)` and copy-paste, is not part of a key.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Which API is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    OpenAi,
    /// Chat Completions, by anyone.
    Chat,
}

impl Provider {
    /// The word before the slash.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Chat => "chat",
        }
    }

    /// The environment variable that holds the key.
    #[must_use]
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi | Self::Chat => "OPENAI_API_KEY",
        }
    }

    /// The environment variable that says where the API is.
    #[must_use]
    pub fn base_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::OpenAi | Self::Chat => "OPENAI_BASE_URL",
        }
    }

    /// What a person can do about a missing or refused key.
    #[must_use]
    pub fn fix(self) -> String {
        format!("set {} to a valid key", self.key_variable())
    }

    fn default_base(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi | Self::Chat => "https://api.openai.com/v1",
        }
    }

    /// The address of one endpoint. For Anthropic a base never needs `/v1`; for the others it is
    /// added only to a bare host, because some compatible servers have theirs under another path.
    pub(super) fn endpoint(self, base: Option<&str>, path: &str) -> String {
        let base = base.unwrap_or(self.default_base()).trim().trim_end_matches('/');
        let bare = base.split_once("://").is_none_or(|(_, rest)| !rest.contains('/'));
        let add = match self {
            Self::Anthropic => !base.ends_with("/v1"),
            Self::OpenAi | Self::Chat => bare,
        };
        format!("{base}{}{path}", if add { "/v1" } else { "" })
    }
}

/// How hard the model should think, where it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    Low,
    Medium,
    High,
}

impl Effort {
    /// As the vendors spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Everything about a model's API that is not its name.
#[derive(Clone, Debug)]
pub struct Settings {
    /// With or without `/v1`.
    pub base_url: Option<String>,
    pub key: Option<Secret>,
    pub connect_timeout: Duration,
    /// How long a call may stay silent before it counts as cut.
    pub idle_timeout: Duration,
    /// Without it the vendor's default holds, and nothing about thinking is sent.
    pub effort: Option<Effort>,
    /// Overrides what is known of the model.
    pub context_tokens: Option<u64>,
    /// Root certificates (PEM) to trust instead of the built-in ones.
    pub ca_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_url: None,
            key: None,
            connect_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(120),
            effort: None,
            context_tokens: None,
            ca_file: None,
        }
    }
}

impl Settings {
    /// Reads the provider's variables. One that is empty counts as not set.
    pub fn from_env(provider: Provider, get: &dyn Fn(&str) -> Option<String>) -> Self {
        let var = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        Self {
            base_url: var(provider.base_variable()),
            key: var(provider.key_variable()).map(Secret::new),
            ca_file: var("SSL_CERT_FILE").map(PathBuf::from),
            ..Self::default()
        }
    }
}

/// A model's name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSpec {
    Api {
        provider: Provider,
        model: String,
    },
    /// Without a file, the built-in script.
    Script(Option<PathBuf>),
}

/// A model's name that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{given}\" names no model: {hint}")]
pub struct SpecError {
    pub given: String,
    pub hint: String,
}

impl ModelSpec {
    /// Takes a name apart.
    ///
    /// # Errors
    /// When it has none of the known forms; the error says what would.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.trim();
        let fail = |hint: String| Err(SpecError { given: text.to_owned(), hint });
        if text == "script" {
            return Ok(Self::Script(None));
        }
        if let Some(file) = text.strip_prefix("script:") {
            if file.is_empty() {
                return fail("write script:<file>, or script alone for the built-in one".into());
            }
            return Ok(Self::Script(Some(PathBuf::from(file))));
        }
        let known = [Provider::Anthropic, Provider::OpenAi, Provider::Chat];
        let Some((word, model)) = text.split_once('/') else {
            let hint = match text {
                name if name.starts_with("claude") => format!("write anthropic/{name}"),
                name if name.starts_with("gpt") => format!("write openai/{name}"),
                _ => "write anthropic/…, openai/…, chat/… or script:<file>".to_owned(),
            };
            return fail(hint);
        };
        match known.into_iter().find(|provider| provider.word() == word) {
            Some(_) if model.is_empty() => fail(format!("write {word}/<model>")),
            Some(provider) => Ok(Self::Api { provider, model: model.to_owned() }),
            None => fail(format!(
                "{word} is no provider; write anthropic/…, openai/… or, for any server that \
                 speaks Chat Completions, chat/… with OPENAI_BASE_URL"
            )),
        }
    }

    /// The provider, where there is one.
    #[must_use]
    pub fn provider(&self) -> Option<Provider> {
        match self {
            Self::Api { provider, .. } => Some(*provider),
            Self::Script(_) => None,
        }
    }

    /// The script's file, where there is one.
    #[must_use]
    pub fn script_file(&self) -> Option<&Path> {
        match self {
            Self::Script(file) => file.as_deref(),
            Self::Api { .. } => None,
        }
    }
}

impl FromStr for ModelSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api { provider, model } => write!(f, "{}/{model}", provider.word()),
            Self::Script(Some(file)) => write!(f, "script:{}", file.display()),
            Self::Script(None) => f.write_str("script"),
        }
    }
}

/// Makes the model that `spec` names. No request is sent yet.
///
/// # Errors
/// `NotSignedIn` when a key is needed and missing, `Script` for a script that does not parse,
/// `BadRequest` for an address or a certificate file that cannot be used.
pub fn build(spec: &ModelSpec, settings: &Settings) -> Result<Box<dyn Model>, ModelError> {
    let (provider, model) = match spec {
        ModelSpec::Script(file) => return Ok(Box::new(script::Script::open(file.as_deref())?)),
        ModelSpec::Api { provider, model } => (*provider, model.as_str()),
    };
    // A server of one's own may want no key; the vendors' own always do.
    if settings.key.is_none() && settings.base_url.is_none() {
        return Err(ModelError::NotSignedIn {
            message: format!("{spec} needs an API key"),
            fix: provider.fix(),
        });
    }
    Ok(match provider {
        Provider::Anthropic => Box::new(Api::<anthropic::Anthropic>::new(model, settings)?),
        Provider::OpenAi => Box::new(Api::<responses::Responses>::new(model, settings)?),
        Provider::Chat => Box::new(Api::<chat::Chat>::new(model, settings)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_put_together() {
        for text in [
            "anthropic/claude-sonnet-4-5",
            "openai/gpt-5.1",
            "chat/meta-llama/llama-3",
            "script:a b/c.toml",
            "script",
        ] {
            assert_eq!(ModelSpec::parse(text).unwrap().to_string(), text);
        }
        let spec = ModelSpec::parse("chat/meta-llama/llama-3").unwrap();
        let model = "meta-llama/llama-3".to_owned();
        assert_eq!(spec, ModelSpec::Api { provider: Provider::Chat, model });
    }

    #[test]
    fn bad_names_are_told_the_right_one() {
        let hint = |text| ModelSpec::parse(text).unwrap_err().to_string();
        assert_eq!(hint("claude-x"), "\"claude-x\" names no model: write anthropic/claude-x");
        assert!(hint("gemini/pro").contains("gemini is no provider"));
        assert!(hint("openai/").contains("openai/<model>"));
        assert!(hint("script:").contains("script:<file>"));
        assert!(hint("").contains("anthropic/"));
    }

    #[test]
    fn bases_with_and_without_a_version() {
        let messages = |base| Provider::Anthropic.endpoint(base, "/messages");
        assert_eq!(messages(None), "https://api.anthropic.com/v1/messages");
        assert_eq!(messages(Some("http://h:1/")), "http://h:1/v1/messages");
        assert_eq!(messages(Some("http://h/v1/")), "http://h/v1/messages");
        assert_eq!(messages(Some("http://h/proxy")), "http://h/proxy/v1/messages");
        let chat = |base| Provider::Chat.endpoint(base, "/chat/completions");
        assert_eq!(chat(Some("http://h:1")), "http://h:1/v1/chat/completions");
        assert_eq!(chat(Some("http://h/v1")), "http://h/v1/chat/completions");
        assert_eq!(chat(Some("http://h/beta/openai/")), "http://h/beta/openai/chat/completions");
    }

    #[test]
    fn keys_are_not_printed() {
        let get = |name: &str| match name {
            "OPENAI_API_KEY" => Some(" sk-very-secret\n".to_owned()),
            "OPENAI_BASE_URL" => Some(String::new()),
            _ => None,
        };
        let settings = Settings::from_env(Provider::OpenAi, &get);
        assert_eq!(settings.key.as_ref().unwrap().expose(), "sk-very-secret");
        assert_eq!(settings.base_url, None);
        assert!(!format!("{settings:?}").contains("very-secret"));
        let spec = ModelSpec::parse("openai/gpt-5").unwrap();
        let model = build(&spec, &settings).unwrap();
        assert!(!format!("{model:?}").contains("very-secret"));
    }

    #[test]
    fn a_missing_key_names_its_variable() {
        let spec = ModelSpec::parse("anthropic/claude-sonnet-4-5").unwrap();
        let error = build(&spec, &Settings::default()).unwrap_err();
        let ModelError::NotSignedIn { fix, .. } = error else { panic!("{error}") };
        assert_eq!(fix, "set ANTHROPIC_API_KEY to a valid key");
    }
}
