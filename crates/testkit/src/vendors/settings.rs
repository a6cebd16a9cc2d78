//! What each agent has to be told to talk to the model server, and to nobody else.
//!
//! The settings suffice without any flag: a provider, a model, a key that is none, no telemetry, no
//! updates, and few retries, as far as an agent lets that be said.

use std::{fs, io, path::Path};

use serde_json::{Value, json};

const MODEL: &str = "scripted-model";

const CODEX_KEY: &str = "LAB_KEY";

/// The variables, for a server at `url`.
pub(super) fn environment(url: &str) -> Vec<(&'static str, String)> {
    let quiet = [
        ("NO_COLOR", "1"),
        // Claude Code. It refuses to skip permissions as root outside of a sandbox.
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("IS_SANDBOX", "1"),
        // Gemini CLI: otherwise it is two processes, and signals do not get through.
        ("GEMINI_CLI_NO_RELAUNCH", "true"),
        // Copilot
        ("COPILOT_AUTO_UPDATE", "false"),
        ("COPILOT_OFFLINE", "true"),
        // A model that they do not know would get a context too small for long prompts.
        ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "8000000"),
        // OpenCode. It looks for a plugin of its own in npm's registry, and goes on without.
        ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
        ("npm_config_registry", super::NOWHERE),
        ("npm_config_fetch_retries", "0"),
        // pi
        ("PI_OFFLINE", "1"),
        ("PI_TELEMETRY", "0"),
    ];
    let keys = [
        "ANTHROPIC_API_KEY",
        "COPILOT_PROVIDER_API_KEY",
        "GEMINI_API_KEY",
        "OPENAI_API_KEY",
        CODEX_KEY,
    ];
    let servers = ["ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"];
    let versioned = ["COPILOT_PROVIDER_BASE_URL", "OPENAI_BASE_URL"];
    let models = ["COPILOT_MODEL", "OPENAI_MODEL"];
    let mut all: Vec<_> = quiet.map(|(name, value)| (name, value.to_owned())).into();
    all.extend(keys.map(|name| (name, super::KEY.to_owned())));
    all.extend(servers.map(|name| (name, url.to_owned())));
    all.extend(versioned.map(|name| (name, format!("{url}/v1"))));
    all.extend(models.map(|name| (name, MODEL.to_owned())));
    all
}

/// Writes the files of all agents.
pub(super) fn write(home: &Path, url: &str) -> io::Result<()> {
    let json = |name: &str, value: &Value| put(&home.join(name), &format!("{value:#}\n"));
    put(&home.join(".codex/config.toml"), &codex(url))?;
    json(".gemini/settings.json", &gemini())?;
    json(".config/opencode/opencode.json", &opencode(url))?;
    json(".qwen/settings.json", &qwen())?;
    json(".pi/agent/models.json", &pi_models(url))?;
    json(".pi/agent/settings.json", &pi())
}

pub(super) fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, text)
}

/// Its plugins cost five seconds without a network, and by default it waits for one without end.
fn codex(url: &str) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "lab"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false
unbounded_connection_retries = false

[model_providers.lab]
name = "lab"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "{CODEX_KEY}"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 20000
"#
    )
}

/// Session retention deletes sessions by the first eight characters of their id: off.
fn gemini() -> Value {
    json!({
        "security": {
            "auth": { "selectedType": "gemini-api-key" },
            "folderTrust": { "enabled": false },
        },
        "privacy": { "usageStatisticsEnabled": false },
        "general": {
            "enableAutoUpdate": false,
            "enableAutoUpdateNotification": false,
            "maxAttempts": 2,
            "sessionRetention": { "enabled": false },
        },
        // The default lets another model choose the model first.
        "model": { "name": super::cli::GEMINI_MODEL },
    })
}

fn opencode(url: &str) -> Value {
    json!({
        "provider": { "lab": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "lab",
            "options": { "baseURL": format!("{url}/v1"), "apiKey": "dummy" },
            "models": { MODEL: {
                "name": MODEL, "tool_call": true,
                "limit": { "context": 200_000, "output": 8_000 },
            } },
        } },
        "enabled_providers": ["lab"],
        "model": format!("lab/{MODEL}"),
        "small_model": format!("lab/{MODEL}"),
        "autoupdate": false,
        "share": "disabled",
    })
}

fn qwen() -> Value {
    json!({
        "security": { "auth": { "selectedType": "openai" }, "folderTrust": { "enabled": false } },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false },
        "ui": { "enableFollowupSuggestions": false },
        "model": { "name": MODEL, "generationConfig": {
            "maxRetries": 1, "contextWindowSize": 8_000_000,
        } },
    })
}

fn pi_models(url: &str) -> Value {
    json!({ "providers": { "lab": {
        "baseUrl": format!("{url}/v1"),
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{ "id": MODEL, "contextWindow": 200_000, "maxTokens": 8_000 }],
    } } })
}

fn pi() -> Value {
    json!({
        "defaultProvider": "lab",
        "defaultModel": MODEL,
        "quietStartup": true,
        "retry": { "maxRetries": 1, "baseDelayMs": 200 },
    })
}
