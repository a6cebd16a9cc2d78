//! Reads a `segue.toml`: a whole [`Roster`], or everything that is wrong with the file.
//!
//! ```text
//! name = "shop"
//! [[agents]]
//! id = "coder"
//! agent = "claude"
//! ```

use std::collections::BTreeMap;

use toml_edit::Document;

use super::{
    FILE, Group, LONGEST_ID, Layout, MOST_INSTANCES, Mail, Notify, Occasion, Roster, Spec, Timer,
    fields::{At, Kind, Names, Section, Sheet, unknown},
    numbered, template,
};
use crate::{
    bridge,
    wrong::{Wrong, repeated},
};

/// How much of what the TOML parser says is repeated.
const MOST_TOLD: usize = 200;

const ROOT: [&str; 5] = ["name", "agents", "groups", "timers", "notify"];
const AGENT: [&str; 14] = [
    "id",
    "agent",
    "command",
    "model",
    "args",
    "prompt",
    "write",
    "enforce",
    "worktree",
    "ready",
    "busy",
    "waiting",
    "transcript",
    "mail",
];
const GROUP: [&str; 4] = ["id", "agents", "layout", "count"];
const TIMER: [&str; 7] = ["id", "minutes", "to", "prompt", "text", "status", "interrupt"];
const NOTIFY: [&str; 3] = ["desktop", "webhook_env", "on"];

const MAILS: [(&str, Mail); 2] = [("terminal", Mail::Terminal), ("files", Mail::Files)];
const LAYOUTS: [(&str, Layout); 3] =
    [("horizontal", Layout::Horizontal), ("vertical", Layout::Vertical), ("tiled", Layout::Tiled)];
const OCCASIONS: [(&str, Occasion); 6] = [
    ("waiting", Occasion::Waiting),
    ("degraded", Occasion::Degraded),
    ("attention", Occasion::Attention),
    ("exited", Occasion::Exited),
    ("scope", Occasion::Scope),
    ("message_dead", Occasion::MessageDead),
];

/// What is said of those who have an id.
const AN_AGENT: &str = "an agent";
const A_GROUP: &str = "a group";
const A_TIMER: &str = "a timer";
const AN_INSTANCE: &str = "an instance";

/// Reads the text of a `segue.toml`. `known_agents` are the kinds of agents that Segue knows, and
/// `exists` says whether there is such a file, by its path relative to the directory of the
/// `segue.toml`.
pub fn read(
    text: &str,
    known_agents: &[&str],
    exists: &dyn Fn(&str) -> bool,
) -> Result<Roster, Vec<Wrong>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let sheet = Sheet::new(text);
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map(|span| sheet.line_at(span.start));
        let told: String = error.message().chars().take(MOST_TOLD).collect();
        let told = told.lines().collect::<Vec<_>>().join(", ").escape_debug().to_string();
        vec![Wrong::new(FILE, line, format!("this is no TOML: {}", told.replace("\\'", "'")))]
    })?;
    let mut reader = Reader {
        sheet,
        known_agents,
        exists,
        names: Names::default(),
        timers: Names::default(),
        grouped: BTreeMap::new(),
    };
    let roster = reader.roster(document.as_table());
    let wrong = reader.sheet.finish();
    if wrong.is_empty() { Ok(roster) } else { Err(wrong) }
}

struct Reader<'a> {
    sheet: Sheet,
    known_agents: &'a [&'a str],
    exists: &'a dyn Fn(&str) -> bool,
    /// The ids of agents, groups and instances: whatever a message can be sent to.
    names: Names,
    timers: Names,
    /// In which group an agent is, and where that stands.
    grouped: BTreeMap<String, At<String>>,
}

impl Reader<'_> {
    fn roster(&mut self, table: &toml_edit::Table) -> Roster {
        let root = self.sheet.root(table);
        self.sheet.only(&root, &ROOT);
        let name = self.sheet.string(&root, "name", Kind::Line);
        if let Some(name) = &name {
            self.check_id("name", name);
        }
        // Each kind may name those before it.
        let agents = self.sheet.sections(&root, "agents", AN_AGENT);
        if agents.is_empty() && !root.has("agents") {
            self.sheet.wrong(None, "there is no agent: `[[agents]]` begins each");
        }
        let agents = agents.iter().map(|one| self.agent(one)).collect();
        let groups = self.sheet.sections(&root, "groups", A_GROUP);
        let groups = groups.iter().map(|one| self.group(one)).collect();
        let timers = self.sheet.sections(&root, "timers", A_TIMER);
        let timers = (1..).zip(&timers).map(|(number, one)| self.timer(number, one)).collect();
        let notify = self.sheet.section(&root, "notify", "`[notify]`");
        let notify = notify.map(|one| self.notify(&one)).unwrap_or_default();
        Roster { name: name.map(|name| name.value), agents, groups, timers, notify }
    }

    fn agent(&mut self, section: &Section<'_>) -> Spec {
        self.sheet.only(section, &AGENT);
        let id = self.id(section);
        if let Some(id) = &id
            && let Err(what) = self.names.take(id, AN_AGENT)
        {
            self.sheet.wrong(id.line, what);
        }
        let (agent, command) = self.program(section);
        let write = self.sheet.strings(section, "write", Kind::Line);
        for path in &write {
            self.check_path("write", path);
        }
        let enforce = self.sheet.flag(section, "enforce").unwrap_or_default();
        if enforce && !section.has("write") {
            let line = self.sheet.line_of(section, "enforce");
            let what = "`enforce` needs `write`: without it, an agent may write anywhere";
            self.sheet.wrong(line, what);
        }
        let args = self.sheet.strings(section, "args", Kind::Text);
        Spec {
            id: value(id).unwrap_or_default(),
            agent,
            command,
            model: value(self.sheet.string(section, "model", Kind::Line)),
            args: args.into_iter().map(|arg| arg.value).collect(),
            prompt: self.file(section, "prompt"),
            write: write.into_iter().map(|path| path.value).collect(),
            enforce,
            worktree: self.sheet.flag(section, "worktree").unwrap_or_default(),
            ready: value(self.sheet.string(section, "ready", Kind::Line)),
            busy: value(self.sheet.string(section, "busy", Kind::Line)),
            waiting: value(self.sheet.string(section, "waiting", Kind::Line)),
            transcript: self.transcript(section),
            mail: self.word(section, "mail", &MAILS),
        }
    }

    /// What is started: a kind of agent, or the words of a command. Also checks what goes with one
    /// of them only.
    fn program(&mut self, section: &Section<'_>) -> (Option<String>, Vec<String>) {
        let agent = self.sheet.string(section, "agent", Kind::Line);
        let command = self.command(section);
        let wrong_with = |reader: &mut Self, key: &str, what: String| {
            let line = reader.sheet.line_of(section, key);
            reader.sheet.wrong(line, what);
        };
        match (section.has("agent"), section.has("command")) {
            (true, true) => {
                let what = "an agent has `agent` or `command`, not both";
                wrong_with(self, "command", what.to_owned());
            }
            (false, false) => {
                let what = "this agent has neither `agent` nor `command`: what is to be started?";
                self.sheet.wrong(section.line, what);
            }
            (true, false) => {
                for key in ["ready", "busy", "waiting", "transcript"] {
                    if section.has(key) {
                        let what =
                            format!("`{key}` goes with `command`: Segue knows it of `agent`");
                        wrong_with(self, key, what);
                    }
                }
            }
            (false, true) if section.has("model") => {
                let what = "`model` goes with `agent`: name it in the `command`";
                wrong_with(self, "model", what.to_owned());
            }
            (false, true) => {}
        }
        if let Some(At { value: kind, line }) = &agent {
            let free = |prefix| kind.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
            if !self.known_agents.contains(&kind.as_str()) && !free("exec:") && !free("acp:") {
                let what = unknown(kind, "no agent that Segue knows", self.known_agents);
                let what = format!("{what}; any other program is a `command`");
                self.sheet.wrong(*line, what);
            }
        }
        (value(agent), command)
    }

    fn command(&mut self, section: &Section<'_>) -> Vec<String> {
        let line = self.sheet.line_of(section, "command");
        let words = if section.is_string("command") {
            let text = self.sheet.string(section, "command", Kind::Text);
            match text.map(|text| words(&text.value)) {
                Some(Ok(words)) => words,
                Some(Err(quote)) => {
                    self.sheet.wrong(line, format!("`command` has a {quote} that is not closed"));
                    return Vec::new();
                }
                None => return Vec::new(),
            }
        } else {
            let words = self.sheet.strings(section, "command", Kind::Text);
            if words.is_empty() && !section.is_empty_list("command") {
                return Vec::new();
            }
            words.into_iter().map(|word| word.value).collect()
        };
        if section.has("command") && words.first().is_none_or(|program| program.trim().is_empty()) {
            self.sheet.wrong(line, "`command` is empty: a program, and its arguments");
        }
        words
    }

    fn transcript(&mut self, section: &Section<'_>) -> Option<String> {
        let transcript = self.sheet.string(section, "transcript", Kind::Line)?;
        for what in template::mistakes(&transcript.value) {
            self.sheet.wrong(transcript.line, what);
        }
        Some(transcript.value)
    }

    fn group(&mut self, section: &Section<'_>) -> Group {
        self.sheet.only(section, &GROUP);
        let id = self.id(section);
        if let Some(id) = &id
            && let Err(what) = self.names.take(id, A_GROUP)
        {
            self.sheet.wrong(id.line, what);
        }
        let id = value(id).unwrap_or_default();
        let named = self.sheet.strings(section, "agents", Kind::Line);
        if named.is_empty() && (!section.has("agents") || section.is_empty_list("agents")) {
            let line = self.sheet.line_of(section, "agents");
            self.sheet.wrong(line, "this group has no `agents`, such as `agents = [\"coder\"]`");
        }
        let mut agents = Vec::new();
        for agent in named {
            if self.join(&id, &agent) {
                agents.push(agent.value);
            }
        }
        let range = 1..=MOST_INSTANCES;
        let count = self.sheet.number(section, "count", range).unwrap_or(1);
        if count > 1 {
            let line = self.sheet.line_of(section, "count");
            self.take_instances(&agents, count, line);
        }
        Group { id, agents, layout: self.word(section, "layout", &LAYOUTS), count }
    }

    /// Whether there is such an agent, and it is in no other group.
    fn join(&mut self, group: &str, agent: &At<String>) -> bool {
        if !self.names.has(&agent.value, AN_AGENT) {
            let known = self.names.all(AN_AGENT);
            let what = unknown(&agent.value, "no agent of this file", &known);
            self.sheet.wrong(agent.line, what);
            return false;
        }
        if let Some(At { value: other, line }) = self.grouped.get(&agent.value) {
            let (agent_id, other) = (repeated(&agent.value), repeated(other));
            let what = format!("`{agent_id}` is already in the group `{other}`, on line {line}");
            self.sheet.wrong(agent.line, what);
            return false;
        }
        let place = At { value: group.to_owned(), line: agent.line };
        self.grouped.insert(agent.value.clone(), place);
        true
    }

    fn take_instances(&mut self, agents: &[String], count: u32, line: usize) {
        for agent in agents {
            for instance in 1..=count {
                let id = At { value: numbered(agent, instance), line };
                if let Err(what) = self.names.take(&id, AN_INSTANCE) {
                    let what = format!("{what}, and one of {count} `{}`", repeated(agent));
                    self.sheet.wrong(line, what);
                }
            }
        }
    }

    fn timer(&mut self, number: usize, section: &Section<'_>) -> Timer {
        self.sheet.only(section, &TIMER);
        let id = if section.has("id") {
            self.id(section)
        } else {
            Some(At { value: format!("timer-{number}"), line: section.line })
        };
        if let Some(id) = &id
            && let Err(what) = self.timers.take(id, A_TIMER)
        {
            self.sheet.wrong(id.line, what);
        }
        let minutes = self.sheet.number(section, "minutes", 1..=u32::MAX);
        if !section.has("minutes") {
            self.sheet.wrong(section.line, "this timer has no `minutes`, such as `minutes = 30`");
        }
        let to = self.sheet.strings(section, "to", Kind::Line);
        for one in to.iter().filter(|one| self.names.owner(&one.value).is_none()) {
            let known = [self.names.all(AN_AGENT), self.names.all(A_GROUP)].concat();
            let what = unknown(&one.value, "no agent or group of this file", &known);
            self.sheet.wrong(one.line, what);
        }
        let status = self.sheet.flag(section, "status").unwrap_or_default();
        if !status && !section.has("prompt") && !section.has("text") {
            let what = "this timer says nothing: it needs `text`, `prompt` or `status = true`";
            self.sheet.wrong(section.line, what);
        }
        Timer {
            id: value(id).unwrap_or_default(),
            minutes: minutes.unwrap_or_default(),
            to: to.into_iter().map(|one| one.value).collect(),
            prompt: self.file(section, "prompt"),
            text: self.text(section, "text"),
            status,
            interrupt: self.sheet.flag(section, "interrupt").unwrap_or_default(),
        }
    }

    fn notify(&mut self, section: &Section<'_>) -> Notify {
        self.sheet.only(section, &[&NOTIFY[..], &["webhook"]].concat());
        if section.has("webhook") {
            let line = self.sheet.line_of(section, "webhook");
            let what = "`webhook` cannot stand here: its address is a secret, and this file is part \
                of the repository. `webhook_env` has the name of the environment variable with it";
            self.sheet.wrong(line, what);
        }
        let default = Notify::default();
        let on = self.sheet.strings(section, "on", Kind::Line);
        let on: Vec<Occasion> =
            on.iter().filter_map(|one| self.sheet.choice("on", one, &OCCASIONS)).collect();
        let webhook_env = self.sheet.string(section, "webhook_env", Kind::Line);
        if let Some(At { value, line }) = &webhook_env
            && !is_variable(value)
        {
            // It may be the address itself: that must not be repeated anywhere.
            let what = "`webhook_env` is the name of an environment variable, such as \
                SEGUE_WEBHOOK, and not what it has";
            self.sheet.wrong(*line, what);
        }
        Notify {
            desktop: self.sheet.flag(section, "desktop").unwrap_or(default.desktop),
            webhook_env: value(webhook_env),
            on: if section.has("on") { on } else { default.on },
        }
    }

    fn id(&mut self, section: &Section<'_>) -> Option<At<String>> {
        if !section.has("id") {
            self.sheet.wrong(section.line, format!("{} has no `id`", this(section.what)));
        }
        let id = self.sheet.string(section, "id", Kind::Line)?;
        self.check_id("id", &id);
        Some(id)
    }

    fn check_id(&mut self, key: &str, id: &At<String>) {
        let text = &id.value;
        if !is_id(text) {
            let what = format!(
                "`{}` is no {key}: a small letter or digit, then small letters, digits, `_` or `-`, \
                 {LONGEST_ID} at most",
                repeated(text)
            );
            self.sheet.wrong(id.line, what);
        } else if key == "id" && [bridge::ALL, bridge::PERSON].contains(&text.as_str()) {
            let what = format!("`{text}` cannot be an id: messages are sent to that name already");
            self.sheet.wrong(id.line, what);
        }
    }

    fn check_path(&mut self, key: &str, path: &At<String>) -> bool {
        let text = repeated(&path.value);
        let what = if path.value.starts_with('/') || path.value.starts_with("~/") {
            format!("`{key}` has the absolute path `{text}`: paths are relative")
        } else if path.value.split('/').any(|part| part == "..") {
            format!("`{key}` has the path `{text}`: no path may lead out with `..`")
        } else {
            return true;
        };
        self.sheet.wrong(path.line, what);
        false
    }

    /// The path of a file that has to be there.
    fn file(&mut self, section: &Section<'_>, key: &str) -> Option<String> {
        let path = self.sheet.string(section, key, Kind::Line)?;
        if self.check_path(key, &path) && !(self.exists)(&path.value) {
            let what = format!("`{key}`: there is no file `{}`", repeated(&path.value));
            self.sheet.wrong(path.line, what);
        }
        Some(path.value)
    }

    /// A text that can have more than one line.
    fn text(&mut self, section: &Section<'_>, key: &str) -> Option<String> {
        let text = self.sheet.string(section, key, Kind::Text)?;
        if text.value.trim().is_empty() {
            self.sheet.wrong(text.line, format!("`{key}` is empty"));
        }
        Some(text.value)
    }

    fn word<T: Copy + Default>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> T {
        let word = self.sheet.string(section, key, Kind::Line);
        word.and_then(|word| self.sheet.choice(key, &word, words)).unwrap_or_default()
    }
}

fn value(found: Option<At<String>>) -> Option<String> {
    found.map(|found| found.value)
}

/// `this agent` for `an agent`.
fn this(what: &str) -> String {
    let noun = what.split_once(' ').map_or(what, |(_, noun)| noun);
    format!("this {noun}")
}

fn is_id(text: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_next = |byte: u8| is_first(byte) || byte == b'_' || byte == b'-';
    text.len() <= LONGEST_ID
        && text.bytes().next().is_some_and(is_first)
        && text.bytes().all(is_next)
}

fn is_variable(text: &str) -> bool {
    let is_next = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(is_next) && !text.bytes().next().is_none_or(|byte| byte.is_ascii_digit())
}

/// The words of a command line: split at white space, but for what stands in quotes. An error is a
/// quote that is not closed.
fn words(text: &str) -> Result<Vec<String>, char> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut open = None;
    for sign in text.chars() {
        match open {
            Some(quote) if sign == quote => open = None,
            Some(_) => word.get_or_insert_default().push(sign),
            None if sign == '"' || sign == '\'' => {
                // An empty pair of quotes is a word too.
                word.get_or_insert_default();
                open = Some(sign);
            }
            None if sign.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(sign),
        }
    }
    words.extend(word);
    open.map_or(Ok(words), Err)
}
