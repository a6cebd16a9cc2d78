//! The server with our own tools, as the vendors' programs are told of it for one run.
//!
//! It is always added to what the user has, never put into the user's own settings, and a run goes
//! on without it where it can't be started. The server speaks MCP on its standard streams and
//! learns from its arguments whose run it belongs to: the vendors' programs pass on little of the
//! environment. Nothing in here is secret: all of it may be seen in a list of processes.

use std::path::Path;

use serde_json::{Value, json};

/// What to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolServer<'a> {
    /// An absolute path.
    pub program: &'a Path,
    pub args: &'a [String],
}

impl ToolServer<'_> {
    /// What the vendors' programs call the server, and begin the names of its tools with.
    pub const NAME: &'static str = "segue";

    /// `{"mcpServers": …}`, as most take it. `more` goes into the entry.
    pub(crate) fn json(&self, more: &Value) -> Value {
        let mut entry = json!({ "command": self.program, "args": self.args });
        if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
            entry.extend(more.clone());
        }
        json!({ "mcpServers": { Self::NAME: entry } })
    }

    /// A setting of Codex. It is not `required`: it would be waited for, but a server that fails
    /// would end the user's turn. Without that, it has one second until the model is asked, and
    /// needs some milliseconds.
    pub(crate) fn toml(&self) -> String {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let args: Vec<String> = self.args.iter().map(|arg| text(arg)).collect();
        format!(
            "mcp_servers.{}={{command={},args=[{}],default_tools_approval_mode=\"approve\"}}",
            Self::NAME,
            text(&self.program.to_string_lossy()),
            args.join(",")
        )
    }

    /// Settings of OpenCode over those that the user has in the same variable; `None` where those
    /// can't be read, and stay as they are.
    pub(crate) fn opencode(&self, users: Option<&str>) -> Option<String> {
        let mut settings: Value = serde_json::from_str(users.unwrap_or("{}")).ok()?;
        let servers = settings.as_object_mut()?.entry("mcp").or_insert_with(|| json!({}));
        let mut command = vec![self.program.to_string_lossy().into_owned()];
        command.extend_from_slice(self.args);
        let entry = json!({ "type": "local", "command": command, "enabled": true });
        servers.as_object_mut()?.insert(Self::NAME.to_owned(), entry);
        Some(settings.to_string())
    }
}
