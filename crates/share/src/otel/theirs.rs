//! A run of the spans that somebody else wrote. Nobody knows how to go on with it.
//!
//! ```text
//! invoke_agent            no step: what it was asked, and whether it failed
//! ├── chat                a reply; what a person has said since the last one is asked before it
//! ├── execute_tool        what a call gave; where there is no such span, what the next call was told
//! └── …                   what says nothing of a conversation is no step
//! ```
//!
//! Spans that the other implementation wrote have its steps word for word, and become these.

use std::collections::{HashMap, HashSet};

use super::{
    messages::{self, Message, Side, words},
    spans::Span,
    steps::{common, earlier, is, message, recorded, tool},
};
use crate::tine::{
    artifact::step_id,
    json::{Map, Value, map},
};

/// How far above a span another one is looked for.
const MAX_DEPTH: usize = 64;
const AGENTS: [&str; 3] = ["invoke_agent", "create_agent", "invoke_workflow"];

/// What a span is in a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A step of the other implementation, word for word.
    Recorded,
    Model,
    Tool,
    Agent,
    Nothing,
}

impl Part {
    fn of(span: &Span) -> Self {
        let first = || span.name.split(' ').next();
        let operation = span.text("gen_ai.operation.name").or_else(first).unwrap_or_default();
        let told = || span.events.iter().any(|(name, _)| name.starts_with("gen_ai."));
        match operation {
            _ if span.speaks("opentine.") => Self::Recorded,
            _ if operation == "execute_tool" || span.speaks("gen_ai.tool.name") => Self::Tool,
            _ if AGENTS.contains(&operation) => Self::Agent,
            _ if span.speaks("gen_ai.") || told() => Self::Model,
            _ => Self::Nothing,
        }
    }
}

/// The run of some spans.
pub(super) fn run(spans: &[Span]) -> Result<Map, String> {
    let mut sorted: Vec<&Span> = spans.iter().collect();
    sorted.sort_by(|a, b| a.from.total_cmp(&b.from));
    let mut taker = Taker::of(&sorted);
    // What an agent says for itself, it says in the end.
    let ends = sorted.iter().filter(|span| taker.speaks_last(span)).map(|span| (span.to, *span));
    let starts = sorted.iter().map(|span| (span.from, *span));
    let mut moments: Vec<(f64, bool, &Span)> = starts.map(|(at, span)| (at, false, span)).collect();
    moments.extend(ends.map(|(at, span)| (at, true, span)));
    moments.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, ends, span) in moments {
        match ends {
            false => taker.begin(span),
            true => taker.end(span),
        }
    }
    let first = sorted.first();
    let trace = first.map_or("", |span| &span.trace);
    let created = first.map_or(0.0, |span| span.from);
    let failed = sorted.iter().find(|span| taker.is_first(span) && span.failed.is_some());
    taker.finish(trace, created, failed.copied())
}

#[derive(Default)]
struct Taker<'a> {
    spans: HashMap<&'a str, &'a Span>,
    /// Those that somebody worked below of.
    busy: HashSet<&'a str>,
    /// The calls whose answer is a span, by their ids, and by their names where there is no id.
    answered: HashSet<&'a str>,
    /// What the steps of spans are called.
    ids: HashMap<&'a str, String>,
    order: Vec<String>,
    steps: Map,
    transcript: Vec<Value>,
    /// How often a person has said what.
    asked: HashMap<String, usize>,
    /// Calls without an answer: what they are called, what they were made with.
    calls: HashMap<String, (Value, Value)>,
    prompt: Option<String>,
    system: Option<String>,
    agent: Option<String>,
    model: String,
    recorded: bool,
    failed: bool,
}

impl<'a> Taker<'a> {
    fn of(sorted: &[&'a Span]) -> Self {
        let mut taker = Self::default();
        taker.spans.extend(sorted.iter().map(|span| (span.id.as_str(), *span)));
        // The one that nothing is above; a colon is in the names of commands, which it has not said.
        let names = sorted.iter().filter_map(|span| span.text("gen_ai.agent.name"));
        taker.agent = names.map(str::trim).find(|name| !name.contains(':')).map(str::to_owned);
        for span in sorted {
            let part = Part::of(span);
            taker.recorded |= part == Part::Recorded;
            if part == Part::Tool {
                let key = span.text("gen_ai.tool.call.id").or(span.text("gen_ai.tool.name"));
                taker.answered.extend(key);
            }
            if matches!(part, Part::Model | Part::Recorded) {
                let mut at = span.parent.as_deref();
                // Not twice: where it leads on is known then, and a circle ends.
                while let Some(id) = at.filter(|id| taker.busy.insert(id)) {
                    at = taker.spans.get(id).and_then(|above| above.parent.as_deref());
                }
            }
        }
        taker
    }

    /// Whether nothing here is above it.
    fn is_first(&self, span: &Span) -> bool {
        span.parent.as_deref().is_none_or(|above| !self.spans.contains_key(above))
    }

    /// An agent whose models nobody watched.
    fn speaks_last(&self, span: &Span) -> bool {
        Part::of(span) == Part::Agent && !self.busy.contains(span.id.as_str())
    }

    fn begin(&mut self, span: &'a Span) {
        let part = Part::of(span);
        let (asked, written) = match part {
            Part::Model | Part::Agent => messages::of(span, Side::Asked),
            _ => (Vec::new(), None),
        };
        if self.system.is_none() {
            self.system = messages::system(span, &asked);
        }
        self.hear(span, asked);
        let step = match part {
            Part::Recorded => recorded(span),
            Part::Tool => tool(span),
            Part::Model => self.reply(span, written),
            Part::Agent | Part::Nothing => return,
        };
        let call = span.text("gen_ai.tool.call.id").filter(|_| part == Part::Tool);
        let id = self.push(span, step, call);
        self.ids.insert(&span.id, id);
    }

    fn end(&mut self, span: &Span) {
        if messages::of(span, Side::Said).0.iter().any(|said| !said.is_silent()) {
            let step = self.reply(span, None);
            self.push(span, step, None);
        }
    }

    /// What is new in what a model was told: prompts, and answers to calls that no span has. What was
    /// said before all spans is told first.
    fn hear(&mut self, span: &'a Span, asked: Vec<Message>) {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let before_all = self.order.is_empty();
        for message in &asked {
            for (id, answer) in &message.results {
                self.answer(span, id, answer);
            }
            let said = !message.text.trim().is_empty();
            if message.role == "user" && said {
                let times = seen.entry(&message.text).or_default();
                *times += 1;
                let known = self.asked.entry(message.text.clone()).or_default();
                if *times > *known {
                    *known = *times;
                    self.ask(&message.text);
                }
            } else if message.role == "assistant" && before_all && !message.is_silent() {
                let step = self.told(earlier(span), message, Map::new());
                self.push(span, step, None);
            }
        }
    }

    fn ask(&mut self, text: &str) {
        self.prompt.get_or_insert_with(|| text.to_owned());
        self.transcript.push(map([("role", "user".into()), ("content", text.into())]).into());
    }

    fn answer(&mut self, span: &'a Span, id: &str, answer: &str) {
        let Some((name, arguments)) = self.calls.get(id).cloned() else { return };
        if self.answered.contains(id) || self.answered.contains(words(&name).as_str()) {
            return;
        }
        let mut step = earlier(span);
        step.insert("kind".to_owned(), "tool".into());
        let inputs = map([("name", name.clone()), ("arguments", arguments)]);
        step.insert("inputs".to_owned(), inputs.into());
        step.insert("outputs".to_owned(), map([("result", answer.into())]).into());
        step.insert("tool_info".to_owned(), map([("name", name)]).into());
        self.push(span, step, Some(id));
        self.calls.remove(id);
    }

    /// What a model, or an agent whose models nobody watched, has said.
    fn reply(&mut self, span: &Span, written: Option<Value>) -> Map {
        let (said, raw) = messages::of(span, Side::Said);
        let mut whole = Message::default();
        for message in said {
            if !whole.text.is_empty() && !message.text.is_empty() {
                whole.text.push('\n');
            }
            whole.text.push_str(&message.text);
            whole.thinking.push_str(&message.thinking);
            whole.calls.extend(message.calls);
        }
        let mut inputs = Map::new();
        inputs.extend(written.map(|written| ("messages".to_owned(), written)));
        let mut step = self.told(common(span), &whole, inputs);
        if let Some(Value::Map(outputs)) = step.get_mut("outputs") {
            outputs.extend(raw.map(|raw| ("messages".to_owned(), raw)));
        }
        if let Some(why) = span.failed.as_ref().filter(|_| whole.is_silent()) {
            step.insert("kind".to_owned(), "error".into());
            step.insert("error".to_owned(), map([("message", why.as_str().into())]).into());
        }
        step
    }

    /// A step that is a message.
    fn told(&mut self, mut step: Map, message: &Message, inputs: Map) -> Map {
        let mut outputs = map([("text", message.text.as_str().into())]);
        if !message.thinking.is_empty() {
            outputs.insert("thinking".to_owned(), message.thinking.as_str().into());
        }
        if !message.calls.is_empty() {
            outputs.insert("tool_calls".to_owned(), message.calls.clone().into());
        }
        for call in &message.calls {
            let said = |key: &str| call.get(key).cloned().unwrap_or(Value::Null);
            self.calls.insert(words(&said("id")), (said("name"), said("arguments")));
        }
        step.insert("inputs".to_owned(), inputs.into());
        step.insert("outputs".to_owned(), outputs.into());
        step
    }

    fn push(&mut self, span: &Span, mut step: Map, call: Option<&str>) -> String {
        let parent = self.above(span).or(self.order.last()).cloned();
        let parents = parent.into_iter().map(Value::Text).collect();
        step.insert("parent_ids".to_owned(), Value::List(parents));
        let mut id = step_id(&step);
        if self.steps.contains_key(&id)
            && let Some(Value::Map(inputs)) = step.get_mut("inputs")
        {
            // Two that say the same from the same place are still two.
            inputs.insert("span".to_owned(), (self.order.len() as u64).into());
            id = step_id(&step);
        }
        step.insert("id".to_owned(), id.as_str().into());
        if self.model.is_empty() {
            self.model = step.get("model_info").map(words).unwrap_or_default();
        }
        self.failed |= is(&step, "error");
        self.transcript.push(message(&step, &id, call).into());
        self.order.push(id.clone());
        self.steps.insert(id.clone(), step.into());
        id
    }

    /// The step of the nearest span above one.
    fn above(&self, span: &Span) -> Option<&String> {
        let mut at = span.parent.as_deref();
        for _ in 0..MAX_DEPTH {
            let id = at?;
            if let Some(step) = self.ids.get(id) {
                return Some(step);
            }
            at = self.spans.get(id)?.parent.as_deref();
        }
        None
    }

    fn finish(
        mut self,
        trace: &str,
        created: f64,
        failed: Option<&'a Span>,
    ) -> Result<Map, String> {
        let why = failed.and_then(|span| Some((span, span.failed.as_ref()?)));
        if let Some((span, why)) = why.filter(|_| !self.failed) {
            let mut step = common(span);
            step.insert("kind".to_owned(), "error".into());
            step.insert("error".to_owned(), map([("message", why.as_str().into())]).into());
            step.insert("model_info".to_owned(), "".into());
            step.remove("usage");
            self.push(span, step, None);
        }
        // The other implementation tells steps alone, and not what they were asked for.
        if self.prompt.is_none() && !self.recorded {
            return Err("it does not say what was asked: no message of a user is in it".to_owned());
        }
        let asked = |item: &Value| item.get("role").and_then(Value::text) == Some("user");
        if let Some(at) = self.transcript.iter().position(asked) {
            // Whatever came before it was done for it.
            let first = self.transcript.remove(at);
            self.transcript.insert(0, first);
        }
        let prompt = self.prompt.unwrap_or_default();
        let metadata = map([
            ("model_info", self.model.into()),
            ("system_prompt", self.system.unwrap_or_default().into()),
            ("user_prompt", prompt.into()),
            ("otel_trace_id", trace.into()),
        ]);
        let agent = self.agent.filter(|name| !name.is_empty());
        let manifest = map([
            ("kind", "otel".into()),
            ("agent", agent.as_deref().unwrap_or("otel").into()),
            ("replay", vec!["cache"].into()),
            ("resume", false.into()),
        ]);
        let main = self.order.last().cloned().unwrap_or_default();
        let graph = map([("order", self.order.into()), ("steps", self.steps.into())]);
        Ok(map([
            ("cache", Map::new().into()),
            ("created_at", created.into()),
            ("format_version", 2u64.into()),
            ("refs", map([("main", main.into())]).into()),
            ("graph", graph.into()),
            ("manifest", manifest.into()),
            ("metadata", metadata.into()),
            ("policies", Map::new().into()),
            ("run_id", format!("otel-{trace}").into()),
            ("status", if failed.is_some() { "failed" } else { "completed" }.into()),
            ("transcript", Value::List(self.transcript)),
        ]))
    }
}
