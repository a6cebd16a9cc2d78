//! The agents: what they are called with, and the tools that their models have.

use std::path::Path;

use serde_json::json;

use crate::model_server::{Reply, When};

/// With one that is named, Gemini CLI does not ask a router first.
pub(super) const GEMINI_MODEL: &str = "gemini-2.5-flash";

/// An agent, and the way that it is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cli {
    Claude,
    Codex,
    Gemini,
    Copilot,
    OpenCode,
    Qwen,
    Pi,
    /// Claude Code behind an adapter.
    ClaudeAcp,
    /// Codex behind an adapter.
    CodexAcp,
    GeminiAcp,
    CopilotAcp,
    OpenCodeAcp,
    QwenAcp,
}

impl Cli {
    /// Those that are run once per prompt.
    pub const HEADLESS: [Self; 7] = [
        Self::Claude,
        Self::Codex,
        Self::Gemini,
        Self::Copilot,
        Self::OpenCode,
        Self::Qwen,
        Self::Pi,
    ];

    /// Those that speak the Agent Client Protocol.
    pub const ACP: [Self; 6] = [
        Self::ClaudeAcp,
        Self::CodexAcp,
        Self::GeminiAcp,
        Self::CopilotAcp,
        Self::OpenCodeAcp,
        Self::QwenAcp,
    ];

    /// The name of its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini | Self::GeminiAcp => "gemini",
            Self::Copilot | Self::CopilotAcp => "copilot",
            Self::OpenCode | Self::OpenCodeAcp => "opencode",
            Self::Qwen | Self::QwenAcp => "qwen",
            Self::Pi => "pi",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::CodexAcp => "codex-acp",
        }
    }

    /// The agent that works, whichever way it is spoken to.
    #[must_use]
    pub fn agent(self) -> Self {
        match self {
            Self::ClaudeAcp => Self::Claude,
            Self::CodexAcp => Self::Codex,
            Self::GeminiAcp => Self::Gemini,
            Self::CopilotAcp => Self::Copilot,
            Self::OpenCodeAcp => Self::OpenCode,
            Self::QwenAcp => Self::Qwen,
            other => other,
        }
    }

    /// The arguments that make its program speak the Agent Client Protocol.
    #[must_use]
    pub fn acp(self) -> &'static [&'static str] {
        match self {
            Self::GeminiAcp | Self::CopilotAcp | Self::QwenAcp => &["--acp"],
            Self::OpenCodeAcp => &["acp"],
            _ => &[],
        }
    }

    /// The arguments of one prompt in a new session.
    #[must_use]
    pub fn headless(self, prompt: &str) -> Vec<String> {
        let args: &[&str] = match self.agent() {
            // The list of tools would take the prompt for one more.
            Self::Claude => &[
                "-p",
                "--allowedTools",
                "Bash,Write,Edit",
                "--permission-mode",
                "acceptEdits",
                "--output-format",
                "stream-json",
                "--verbose",
            ],
            Self::Codex => &[
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
            ],
            Self::Gemini => &[
                "-m",
                GEMINI_MODEL,
                "--output-format",
                "stream-json",
                "--approval-mode",
                "yolo",
                "--skip-trust",
                "-p",
            ],
            Self::Copilot => &[
                "--output-format",
                "json",
                "--allow-all",
                "--no-color",
                "--no-auto-update",
                "--disable-builtin-mcps",
                "--no-ask-user",
                "-p",
            ],
            Self::OpenCode => &["run", "--format", "json", "--auto"],
            Self::Qwen => &[
                "--auth-type",
                "openai",
                "--output-format",
                "stream-json",
                "--approval-mode",
                "yolo",
            ],
            _ => &["-p", "--mode", "json"],
        };
        args.iter().copied().chain([prompt]).map(str::to_owned).collect()
    }

    /// The model writes a file. `path` is absolute.
    #[must_use]
    pub fn write_file(self, path: &Path, content: &str) -> Reply {
        let path = path.display().to_string();
        match self.agent() {
            Self::Claude => Reply::tool("Write", json!({ "file_path": path, "content": content })),
            Self::Codex => self.shell(&patch(&path, content)),
            Self::Copilot => Reply::tool("create", json!({ "path": path, "file_text": content })),
            Self::OpenCode => Reply::tool("write", json!({ "filePath": path, "content": content })),
            Self::Pi => Reply::tool("write", json!({ "path": path, "content": content })),
            _ => Reply::tool("write_file", json!({ "file_path": path, "content": content })),
        }
    }

    /// The model runs a command.
    #[must_use]
    pub fn shell(self, command: &str) -> Reply {
        let what = "What the script says";
        match self.agent() {
            Self::Claude => Reply::tool("Bash", json!({ "command": command, "description": what })),
            Self::Codex => Reply::tool("exec_command", json!({ "cmd": command })),
            Self::Copilot | Self::OpenCode => {
                Reply::tool("bash", json!({ "command": command, "description": what }))
            }
            Self::Pi => Reply::tool("bash", json!({ "command": command })),
            _ => Reply::tool(
                "run_shell_command",
                json!({ "command": command, "description": what, "is_background": false }),
            ),
        }
    }
}

/// A command that writes a file. Codex takes `apply_patch` for its own tool and reports a change of a
/// file; a patch has whole lines only, so a text that ends within one is printed instead.
fn patch(path: &str, content: &str) -> String {
    if !content.ends_with('\n') {
        return format!("printf %s {} > {}", quoted(content), quoted(path));
    }
    let lines: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n\
         END_OF_PATCH\n"
    )
}

/// A word of a shell command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The answers to what agents ask beside the conversation.
pub(super) fn side_replies() -> Vec<Reply> {
    let side = |when, text: &str| Reply::text(text).when(when).sticky();
    let router = When { tools: Some(false), ..When::model("flash-lite") };
    let routed = r#"{"complexity_reasoning":"Short.","complexity_score":1}"#;
    vec![
        // Gemini CLI, when the model is left to it: it asks again unless the answer fits the schema.
        side(router, routed),
        // Qwen Code offers tools for these too: whether a call is harmless, and what to remember.
        Reply::tool("respond_in_schema", json!({ "shouldBlock": false }))
            .when(When::body("security classifier for an AI coding agent"))
            .sticky(),
        side(When::body("managed memory extraction subagent"), "Nothing to remember."),
        // After the turn, at its leisure: what the user might type next.
        side(When::body("[SUGGESTION MODE: "), "Nothing."),
        // Titles and summaries.
        side(When::no_tools(), "A title"),
    ]
}
