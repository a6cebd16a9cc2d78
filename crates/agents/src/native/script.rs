//! The scripted model: answers from a TOML file, in process, without a network.
//!
//! Which reply is given is the number of assistant messages in the request. So the model has no
//! state, and a conversation that was picked up again goes on at exactly the right reply.
//!
//! ```toml
//! [[reply]]
//! thinking = "…"                         # optional
//! text = "I run the test first."
//! delay_ms = 300                         # optional: the answer takes this long
//! tools = [ { name = "shell", input = { command = "sh test.sh" } } ]
//! usage = { input = 900, output = 40 }   # optional; else estimated from the length
//!
//! [[reply]]
//! limit = { secs = 7200, file = "busy" } # in place of an answer: a limit that resets in two hours;
//!                                        # with a file, only as long as that file is there
//! text = "Back again."
//!
//! [[reply]]
//! when = ["T-002", "round 1."]           # only in conversations whose first message has all of these
//! silent = true                          # an answer with nothing in it
//!
//! [[reply]]
//! text = "I would rather not."
//! refuses = true                         # the model would not do it
//!
//! [[reply]]
//! text = "Done."
//! repeat = true                          # only on the last: answers every further call
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use segue_core::usage::Usage;
use serde::Deserialize;

use super::message::{Block, Reply, Role, StopReason};
use super::model::{Delta, Model, ModelError, OnDelta, Request, emit};

const BUILT_IN: &str = include_str!("script_default.toml");
const BUILT_IN_NAME: &str = "built-in script";
/// A sleeping model looks this often whether it is cancelled.
const TICK: Duration = Duration::from_millis(10);
/// Roughly what one token is, for estimates.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    reply: Vec<toml::Spanned<Scripted>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scripted {
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    tools: Vec<Tool>,
    usage: Option<ScriptedUsage>,
    limit: Option<ScriptedLimit>,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    when: Vec<String>,
    #[serde(default)]
    silent: bool,
    #[serde(default)]
    refuses: bool,
}

impl Scripted {
    /// Whether it belongs to a conversation that began like this.
    fn fits(&self, first: &str) -> bool {
        self.when.iter().all(|words| first.contains(words))
    }
}

/// A limit in place of an answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedLimit {
    secs: u64,
    /// Beside the script: the limit is over when it is gone.
    file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    #[serde(default)]
    input: serde_json::Map<String, serde_json::Value>,
}

/// Like `Usage`, but a misspelt bucket is an error.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptedUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

/// A model that answers from a script.
#[derive(Debug)]
pub struct Script {
    name: String,
    file: PathBuf,
    replies: Vec<Scripted>,
}

impl Script {
    /// Reads a script; without a file, the built-in one.
    ///
    /// # Errors
    /// `Script`, with file, line and column where it does not parse.
    pub fn open(file: Option<&Path>) -> Result<Self, ModelError> {
        let Some(file) = file else {
            return Self::parse("script", Path::new(BUILT_IN_NAME), BUILT_IN);
        };
        let text = std::fs::read_to_string(file).map_err(|error| ModelError::Script {
            file: file.to_owned(),
            message: format!("cannot read it: {error}"),
        })?;
        Self::parse(&format!("script:{}", file.display()), file, &text)
    }

    fn parse(name: &str, file: &Path, text: &str) -> Result<Self, ModelError> {
        let fail = |at: Option<usize>, message: &str| {
            let place = at.map(|at| place(text, at)).unwrap_or_default();
            let message = format!("{place}{message}");
            ModelError::Script { file: file.to_owned(), message }
        };
        let parsed: File = toml::from_str(text)
            .map_err(|error| fail(error.span().map(|span| span.start), error.message()))?;
        let count = parsed.reply.len();
        if count == 0 {
            return Err(fail(None, "it has no [[reply]]"));
        }
        for (index, reply) in parsed.reply.iter().enumerate() {
            let at = Some(reply.span().start);
            let scripted = reply.as_ref();
            if scripted.repeat && scripted.when.is_empty() && index + 1 < count {
                return Err(fail(at, "repeat = true may only stand on the last [[reply]]"));
            }
            let empty = scripted.text.is_empty() && scripted.tools.is_empty();
            if empty && scripted.limit.is_none() && !scripted.silent && !scripted.refuses {
                return Err(fail(at, "a [[reply]] needs text or tools"));
            }
            if scripted.refuses && !scripted.tools.is_empty() {
                return Err(fail(at, "a [[reply]] that refuses calls no tools"));
            }
        }
        let replies = parsed.reply.into_iter().map(toml::Spanned::into_inner).collect();
        Ok(Self { name: name.to_owned(), file: file.to_owned(), replies })
    }

    fn is_in_force(&self, limit: &ScriptedLimit) -> bool {
        let beside = self.file.parent().unwrap_or(Path::new("."));
        limit.file.as_ref().is_none_or(|file| beside.join(file).exists())
    }

    /// The reply of this number among those that belong to the conversation.
    fn pick(&self, first: &str, index: usize) -> Result<&Scripted, ModelError> {
        let all: Vec<&Scripted> = self.replies.iter().filter(|reply| reply.fits(first)).collect();
        // What is said again and again ends the list.
        let end = all.iter().position(|reply| reply.repeat).unwrap_or(index);
        all.get(index.min(end)).copied().ok_or_else(|| ModelError::Script {
            file: self.file.clone(),
            message: format!(
                "call {} has no answer: the script has {}; add a [[reply]], or repeat = true to \
                 the last one",
                index + 1,
                match all.len() {
                    1 => "1 reply".to_owned(),
                    count => format!("{count} replies"),
                }
            ),
        })
    }
}

impl Model for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_tokens(&self) -> u64 {
        200_000
    }

    fn call(&mut self, request: &Request<'_>, on: &mut OnDelta<'_>) -> Result<Reply, ModelError> {
        let said = request.messages.iter().filter(|message| message.role == Role::Assistant);
        let earlier = usize::try_from(request.earlier_replies).unwrap_or(usize::MAX);
        let index = said.count().saturating_add(earlier);
        let scripted = self.pick(&first(request), index)?;
        if let Some(limit) = scripted.limit.as_ref().filter(|limit| self.is_in_force(limit)) {
            return Err(ModelError::Limit {
                message: "the script says so".to_owned(),
                resets_at: None,
                retry_after: Some(Duration::from_secs(limit.secs)),
                quota: true,
            });
        }
        let mut pace = Pace::new(scripted);
        pace.tell(&scripted.thinking, on, &|part| Delta::Thinking(part))?;
        pace.tell(&scripted.text, on, &|part| Delta::Text(part))?;
        let mut blocks = Vec::new();
        if !scripted.thinking.is_empty() {
            blocks.push(Block::Thinking { text: scripted.thinking.clone(), signature: None });
        }
        if !scripted.text.is_empty() {
            blocks.push(Block::Text { text: scripted.text.clone() });
        }
        for (number, tool) in scripted.tools.iter().enumerate() {
            let id = format!("call-{index}-{number}");
            let input = serde_json::Value::Object(tool.input.clone()).to_string();
            emit(on, Delta::ToolInput { id: &id, name: &tool.name, json: &input })?;
            blocks.push(Block::ToolUse { id, name: tool.name.clone(), input });
        }
        pace.rest(on)?;
        let uses_tools = !scripted.tools.is_empty();
        let usage = scripted.usage.map_or_else(|| estimate(request, &blocks), Usage::from);
        Ok(Reply {
            blocks,
            stop: match uses_tools {
                _ if scripted.refuses => StopReason::Refusal,
                true => StopReason::ToolUse,
                false => StopReason::EndTurn,
            },
            usage,
            model: "script".to_owned(),
            id: Some(format!("reply-{index}")),
        })
    }
}

/// What the conversation began with.
fn first(request: &Request<'_>) -> String {
    let mut text = String::new();
    for block in request.messages.first().into_iter().flat_map(|message| &message.blocks) {
        if let Block::Text { text: more } = block {
            text.push_str(more);
        }
    }
    text
}

impl From<ScriptedUsage> for Usage {
    fn from(usage: ScriptedUsage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
        }
    }
}

/// Spreads an answer's words over its delay.
struct Pace {
    started: Instant,
    delay: Duration,
    parts: u32,
    told: u32,
}

impl Pace {
    fn new(scripted: &Scripted) -> Self {
        let words = |text: &str| text.split_inclusive(' ').count();
        let parts = words(&scripted.text) + words(&scripted.thinking);
        Self {
            started: Instant::now(),
            delay: Duration::from_millis(scripted.delay_ms),
            parts: u32::try_from(parts).unwrap_or(u32::MAX).max(1),
            told: 0,
        }
    }

    fn tell(
        &mut self,
        text: &str,
        on: &mut OnDelta<'_>,
        delta: &dyn for<'a> Fn(&'a str) -> Delta<'a>,
    ) -> Result<(), ModelError> {
        for part in text.split_inclusive(' ') {
            self.told = self.told.saturating_add(1);
            self.wait(self.told, on)?;
            emit(on, delta(part))?;
        }
        Ok(())
    }

    fn rest(&mut self, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        self.wait(self.parts, on)
    }

    fn wait(&self, part: u32, on: &mut OnDelta<'_>) -> Result<(), ModelError> {
        let due = self.delay.mul_f64(f64::from(part) / f64::from(self.parts));
        loop {
            let left = due.saturating_sub(self.started.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            emit(on, Delta::Idle)?;
            std::thread::sleep(left.min(TICK));
        }
    }
}

fn estimate(request: &Request<'_>, blocks: &[Block]) -> Usage {
    let length = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse { name, input, .. } => name.len() + input.len(),
        Block::ToolResult { output, .. } => output.len(),
    };
    let tokens = |bytes: usize| bytes.div_ceil(BYTES_PER_TOKEN) as u64;
    let heard = request.messages.iter().flat_map(|message| &message.blocks).map(length);
    Usage {
        input: tokens(request.system.len() + heard.sum::<usize>()),
        output: tokens(blocks.iter().map(length).sum()),
        ..Usage::default()
    }
}

/// `line 3, column 5: `, counted in characters from 1.
fn place(text: &str, at: usize) -> String {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: ")
}
