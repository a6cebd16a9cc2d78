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
    bounds,
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
        if !root.has("agents") || root.is_empty_list("agents") {
            let line = root.has("agents").then(|| self.sheet.line_of(&root, "agents"));
            self.sheet.wrong(line, "there is no agent: `[[agents]]` begins each");
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
            if self.check_path("write", path)
                && let Err(what) = bounds::check(&path.value)
            {
                self.sheet.wrong(path.line, what);
            }
        }
        let enforce = self.sheet.flag(section, "enforce").unwrap_or_default();
        if enforce && !section.has("write") {
            let line = self.sheet.line_of(section, "enforce");
            let what = "`enforce` needs `write`: without it, an agent may write anywhere";
            self.sheet.wrong(line, what);
        }
        let args = self.sheet.strings(section, "args", Kind::Text);
        // What Segue knows is given its arguments as they are.
        if section.has("command") {
            args.iter().for_each(|arg| self.check_template(arg));
        }
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
                Some(Ok(words)) => words.into_iter().map(|value| At { value, line }).collect(),
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
            words
        };
        let is_empty = words.first().is_none_or(|program| program.value.trim().is_empty());
        if section.has("command") && is_empty {
            self.sheet.wrong(line, "`command` is empty: a program, and its arguments");
        }
        words.iter().for_each(|word| self.check_template(word));
        words.into_iter().map(|word| word.value).collect()
    }

    fn check_template(&mut self, text: &At<String>) {
        for what in template::mistakes(&text.value) {
            self.sheet.wrong(text.line, what);
        }
    }

    fn transcript(&mut self, section: &Section<'_>) -> Option<String> {
        let transcript = self.sheet.string(section, "transcript", Kind::Line)?;
        self.check_template(&transcript);
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
        } else if key == "id"
            && [bridge::ALL, bridge::PERSON, bridge::CREW].contains(&text.as_str())
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KNOWN: [&str; 3] = ["claude", "codex", "gemini"];

    fn try_read(text: &str) -> Result<Roster, Vec<Wrong>> {
        read(text, &KNOWN, &|path| path.starts_with("prompts/"))
    }

    /// What a good file says, as JSON.
    fn good(text: &str) -> Value {
        match try_read(text) {
            Ok(roster) => serde_json::to_value(roster).unwrap(),
            Err(wrong) => panic!("{text}\n{wrong:#?}"),
        }
    }

    /// What is wrong with a file, without its name.
    fn wrong(text: &str) -> Vec<String> {
        let strip = |one: &Wrong| one.to_string().strip_prefix("segue.toml:").unwrap().to_owned();
        try_read(text).unwrap_err().iter().map(strip).collect()
    }

    /// Checks that exactly this is told, by how it begins.
    fn told(text: &str, expected: &[&str]) {
        let found = wrong(text);
        assert_eq!(found.len(), expected.len(), "{text}\n{found:#?} is not {expected:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{text}\n{found} is not {expected}");
        }
    }

    /// A file with two agents, on lines 1 to 6, and then this.
    fn with_two(rest: &str) -> String {
        format!("[[agents]]\nid='a'\nagent='claude'\n[[agents]]\nid='b'\nagent='codex'\n{rest}")
    }

    #[test]
    fn the_smallest_file() {
        let roster = good("[[agents]]\nid = 'a'\nagent = 'claude'\n");
        assert_eq!(roster, json!({ "agents": [{ "id": "a", "agent": "claude" }] }));
        // From any editor.
        assert_eq!(good("\u{feff}[[agents]]\r\nid = 'a'\r\nagent = 'claude'\r\n"), roster);
        assert_eq!(good("agents = [{ id = 'a', agent = 'claude' }]"), roster);
    }

    #[test]
    fn everything_that_can_be_said() {
        let text = r#"
            name = "shop"
            [[agents]]
            id = "0_a-b"
            agent = "claude"
            model = "opus"
            args = ["--x", "", "two\nlines"]
            prompt = "prompts/a.md"
            write = ["src/**", "docs/", "a..b"]
            enforce = true
            worktree = true
            mail = "files"
            [[agents]]
            id = "other"
            command = ["run me", "-v"]
            ready = ">"
            busy = "Thinking"
            waiting = "[y/N]"
            transcript = "{{root}}/log"
            [[groups]]
            id = "g"
            agents = ["other"]
            layout = "tiled"
            count = 16
            [[timers]]
            minutes = 1
            to = ["g", "0_a-b", "other-16"]
            text = "a\nb"
            [[timers]]
            id = "t"
            minutes = 4294967295
            prompt = "prompts/t.md"
            status = true
            interrupt = true
            [notify]
            desktop = false
            webhook_env = "_HOOK_1"
            on = ["exited", "scope", "message_dead"]
        "#;
        let expected = json!({
            "name": "shop",
            "agents": [
                {
                    "id": "0_a-b", "agent": "claude", "model": "opus",
                    "args": ["--x", "", "two\nlines"], "prompt": "prompts/a.md",
                    "write": ["src/**", "docs/", "a..b"], "enforce": true, "worktree": true,
                    "mail": "files",
                },
                {
                    "id": "other", "command": ["run me", "-v"], "ready": ">", "busy": "Thinking",
                    "waiting": "[y/N]", "transcript": "{{root}}/log",
                },
            ],
            "groups": [{ "id": "g", "agents": ["other"], "layout": "tiled", "count": 16 }],
            "timers": [
                { "id": "timer-1", "minutes": 1, "to": ["g", "0_a-b", "other-16"], "text": "a\nb" },
                {
                    "id": "t", "minutes": u32::MAX, "prompt": "prompts/t.md", "status": true,
                    "interrupt": true,
                },
            ],
            "notify": {
                "desktop": false, "webhook_env": "_HOOK_1",
                "on": ["exited", "scope", "message_dead"],
            },
        });
        let found = good(text);
        assert_eq!(found, expected);
        let back: Roster = serde_json::from_value(found).unwrap();
        assert_eq!(back, try_read(text).unwrap());
    }

    #[test]
    fn a_command_is_words_or_a_line() {
        let table: [(&str, &[&str]); 6] = [
            ("a", &["a"]),
            ("  a\t-b  c ", &["a", "-b", "c"]),
            ("a 'b c' \"d 'e'\"", &["a", "b c", "d 'e'"]),
            ("a --x='b c'd ''", &["a", "--x=b cd", ""]),
            (r"a\ b \'c d'", &["a\\", "b", "\\c d"]),
            ("", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        assert_eq!((words("a 'b"), words("a \"b'")), (Err('\''), Err('"')));
        let roster = good("[[agents]]\nid='a'\ncommand='''run \"x y\"'''");
        assert_eq!(roster["agents"][0]["command"], json!(["run", "x y"]));
        let agent = |command: &str| format!("[[agents]]\nid='a'\ncommand={command}");
        let empty = "3: `command` is empty";
        let table = [
            ("''", empty),
            ("' '", empty),
            ("\"''\"", empty),
            ("[]", empty),
            ("['', 'a']", empty),
            ("\"a 'b\"", "3: `command` has a ' that is not closed"),
            ("1", "3: `command` is a list of strings"),
            ("[1]", "3: `command` is a list of strings, not an integer"),
            ("\"a\\u0000b\"", "3: `command` has a control character, \\0"),
        ];
        for (command, expected) in table {
            told(&agent(command), &[expected]);
        }
    }

    #[test]
    fn what_is_no_toml_has_a_line() {
        for (text, line) in [("a = ", "1: "), ("\n\n[[agents]\n", "3: "), ("\r\n\u{1b}[2J", "2: ")]
        {
            let found = wrong(text);
            assert_eq!(found.len(), 1);
            assert!(found[0].starts_with(&format!("{line}this is no TOML: ")), "{found:?}");
            assert!(!found[0].chars().any(char::is_control), "{found:?}");
        }
        told("[[agents]]\nid='a'\nid='b'", &["3: this is no TOML: duplicate key"]);
    }

    #[test]
    fn a_file_needs_agents() {
        let found = |text: &str| try_read(text).unwrap_err()[0].to_string();
        let none = "segue.toml: there is no agent: `[[agents]]` begins each";
        assert_eq!(found(""), none);
        assert_eq!(found("name = 'x'\n# [[agents]]"), none);
        assert_eq!(
            found("agents = []"),
            "segue.toml:1: there is no agent: `[[agents]]` begins each"
        );
        told("\n[agents]\nid='a'", &["2: `agents` is a table, and has to be a list of tables"]);
        told("agents = 1", &["1: `agents` is an integer, and has to be"]);
        told("agents = [1]", &["1: `agents` is a list of tables, not an integer"]);
        told(&with_two("[[notify]]"), &["7: `notify` is a table: `[notify]`, not an array of"]);
    }

    #[test]
    fn unknown_keys() {
        let text =
            with_two("modle='x'\nID='c'\npromt='x'\nzzz=1\n[[grups]]\n[timer]\n[notify]\ndesk=1");
        told(
            &text,
            &[
                "7: unknown key `modle`: did you mean `model`?",
                "8: unknown key `ID`: did you mean `id`?",
                "9: unknown key `promt`: did you mean `prompt`?",
                "10: unknown key `zzz`: an agent has id, agent, command, ",
                "11: unknown key `grups`: did you mean `groups`?",
                "12: unknown key `timer`: did you mean `timers`?",
                "14: unknown key `desk`: did you mean `desktop`?",
            ],
        );
        told(&with_two("\"\\u001b[2J\\n\"=1"), &["7: unknown key `\\u{1b}[2J\\n`: an agent has"]);
    }

    #[test]
    fn ids() {
        for id in ["A", "a b", "-a", "_a", "ä", "a.b", &"a".repeat(33)] {
            let found = wrong(&format!("[[agents]]\nagent='claude'\nid='{id}'"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("3: `{}", &id[..1.max(id.len().min(2))])));
            assert!(found[0].contains("is no id: a small letter or digit"), "{found:?}");
        }
        good(&format!("[[agents]]\nagent='claude'\nid='{}'", "a".repeat(32)));
        let agent = |id: &str| format!("[[agents]]\nagent='claude'\n{id}");
        told(&agent(""), &["1: this agent has no `id`"]);
        told(&agent("id=1"), &["3: `id` is a string, not an integer"]);
        told(&agent("id=''"), &["3: `id` is empty"]);
        told(&agent("id='all'"), &["3: `all` cannot be an id"]);
        told(&agent("id=\"a\\n\""), &["3: `id` has a control character, \\n"]);
        told(&format!("name='A'\n{}", agent("id='a'")), &["1: `A` is no name: a small"]);
        let text = with_two("[[agents]]\nid='a'\nagent='codex'\n[[groups]]\nid='b'\nagents=['b']");
        told(
            &text,
            &[
                "8: `a` is already the id of an agent on line 2",
                "11: `b` is already the id of an agent on line 5",
            ],
        );
        let text = with_two("[[groups]]\nid='g'\nagents=['a']\n[[groups]]\nid='g'\nagents=['b']");
        told(&text, &["11: `g` is already the id of a group on line 8"]);
    }

    #[test]
    fn an_agent_is_a_kind_or_a_command() {
        let agent = |rest: &str| format!("[[agents]]\nid='a'\n{rest}");
        told(&agent(""), &["1: this agent has neither `agent` nor `command`"]);
        told(&agent("agent='codex'\ncommand='x'"), &["4: an agent has `agent` or `command`"]);
        told(
            &agent("agent='cloude'"),
            &[
                "3: `cloude` is no agent that Segue knows: did you mean `claude`? there is claude, codex, gemini; any other",
            ],
        );
        told(&agent("agent='x'"), &["3: `x` is no agent that Segue knows: there is claude, "]);
        told(&agent("agent='exec:'"), &["3: `exec:` is no agent"]);
        good(&agent("agent='exec:x'"));
        good(&agent("agent='acp:x y'"));
        let screen = "ready='a'\nbusy='b'\nwaiting='c'\ntranscript='d'";
        good(&agent(&format!("command='x'\n{screen}")));
        told(
            &agent(&format!("agent='claude'\n{screen}")),
            &[
                "4: `ready` goes with `command`",
                "5: `busy` goes with `command`",
                "6: `waiting` goes with `command`",
                "7: `transcript` goes with `command`",
            ],
        );
        told(&agent("command='x'\nmodel='y'"), &["4: `model` goes with `agent`"]);
        told(
            &agent("command='x'\ntranscript='{{rot}}/{{agent_id}}'"),
            &["4: `{{rot}}` is no variable: there is agent, "],
        );
        told(&agent("command='x {{nope}}'"), &["3: `{{nope}}` is no variable: "]);
        told(
            &agent("command=['x',\n'{{agent}}', '{{a b}}']\nargs=['ok',\n'{{nope}}', '{{x']"),
            &["4: `{{a b}}` is no", "6: `{{nope}}` is no variable: ", "6: `{{` is not closed"],
        );
        // An agent that Segue knows gets its arguments as they are.
        good(&agent("agent='claude'\nargs=['{{nope}}']"));
        assert!(read("[[agents]]\nid='a'\nagent='b'", &[], &|_| true).is_err());
    }

    #[test]
    fn paths_stay_inside() {
        let agent = |rest: &str| format!("[[agents]]\nid='a'\nagent='codex'\n{rest}");
        told(&agent("prompt='/etc/x'"), &["4: `prompt` has the absolute path `/etc/x`"]);
        told(&agent("prompt='prompts/../../x'"), &["4: `prompt` has the path `prompts/../../x`"]);
        told(&agent("prompt='nowhere.md'"), &["4: `prompt`: there is no file `nowhere.md`"]);
        told(&agent("prompt='prompts/a\u{7f}'"), &["4: this is no TOML"]);
        told(&agent("prompt=\"prompts/a\\u007f\""), &["4: `prompt` has a control character"]);
        told(
            &agent("write=[\n'src',\n'..',\n'~/x', '',\n'/',\n'a[b']\nenforce=true"),
            &[
                "6: `write` has the path `..`",
                "7: `write` is empty",
                "7: `write` has the absolute path `~/x`",
                "8: `write` has the absolute path `/`",
                "9: `write`: `a[b` is no glob: ",
            ],
        );
        told(&agent("enforce=true"), &["4: `enforce` needs `write`"]);
        told(
            &agent("write='src'"),
            &["4: `write` is a list of strings, such as `write = [\"…\"]`"],
        );
        good(&agent("enforce=false\nwrite=['src/..x/*', '.', './']"));
    }

    #[test]
    fn wrong_types() {
        let agent = |rest: &str| format!("[[agents]]\nid='a'\nagent='codex'\n{rest}");
        told(
            &agent("model=1.5\nworktree='yes'\nargs=['a', 1979-05-27]\nmail='post'"),
            &[
                "4: `model` is a string, not a float",
                "5: `worktree` is true or false, not a string",
                "6: `args` is a list of strings, not a datetime",
                "7: `post` is no value for `mail`: there is terminal, files",
            ],
        );
        told(&agent("mail='file'"), &["4: `file` is no value for `mail`: did you mean `files`?"]);
    }

    #[test]
    fn groups() {
        let group = |rest: &str| with_two(&format!("[[groups]]\nid='g'\n{rest}"));
        told(&group(""), &["7: this group has no `agents`"]);
        told(&group("agents=[]"), &["9: this group has no `agents`"]);
        told(
            &group("agents=['a', 'c', 'g']"),
            &[
                "9: `c` is no agent of this file: there is a, b",
                "9: `g` is no agent of this file: ",
            ],
        );
        told(&group("agents=['a',\n'a']"), &["10: `a` is already in the group `g`, on line 9"]);
        told(
            &group("agents=['a']\n[[groups]]\nid='h'\nagents=['b', 'a']"),
            &["12: `a` is already in the group `g`, on line 9"],
        );
        for count in ["0", "17", "-1", "9223372036854775807"] {
            let expected = format!("10: `count` is from 1 to 16, not {count}");
            told(&group(&format!("agents=['a']\ncount={count}")), &[&expected]);
        }
        told(&group("agents=['a']\ncount=2.0"), &["10: `count` is a whole number, not a float"]);
        told(
            &group("agents=['a']\nlayout='tile'"),
            &["10: `tile` is no value for `layout`: did you mean `tiled`?"],
        );
        told(&with_two("[[groups]]\nagents=['a']"), &["7: this group has no `id`"]);
    }

    #[test]
    fn no_instance_has_the_name_of_another() {
        let text = with_two(
            "[[agents]]\nid='a-2'\nagent='claude'\n[[groups]]\nid='a-3'\nagents=['a', 'b']\ncount=3",
        );
        told(
            &text,
            &[
                "13: `a-2` is already the id of an agent on line 8, and one of 3 `a`",
                "13: `a-3` is already the id of a group on line 11, and one of 3 `a`",
            ],
        );
        good(&text.replace("count=3", "count=1"));
        // A group that comes later is no better.
        let text = with_two(
            "[[groups]]\nid='g'\nagents=['a']\ncount=2\n[[groups]]\nid='a-1'\nagents=['b']",
        );
        told(&text, &["12: `a-1` is already the id of an instance on line 10"]);
        let text = with_two(
            "[[groups]]\nid='g'\nagents=['a']\ncount=2\n[[groups]]\nid='h'\nagents=['a-1']",
        );
        told(&text, &["13: `a-1` is no agent of this file"]);
    }

    #[test]
    fn timers() {
        let timer = |rest: &str| with_two(&format!("[[timers]]\n{rest}"));
        told(&timer("text='x'"), &["7: this timer has no `minutes`"]);
        told(&timer("text='x'\nminutes=0"), &["9: `minutes` is at least 1, not 0"]);
        told(&timer("text='x'\nminutes='5'"), &["9: `minutes` is a whole number, not a string"]);
        told(&timer("minutes=1"), &["7: this timer says nothing"]);
        told(&timer("minutes=1\nstatus=false"), &["7: this timer says nothing"]);
        told(&timer("minutes=1\ntext=\" \\n\""), &["9: `text` is empty"]);
        told(&timer("minutes=1\nprompt='x'"), &["9: `prompt`: there is no file `x`"]);
        good(&timer("minutes=1\nstatus=true"));
        told(
            &timer("minutes=1\nstatus=true\nto=['a', 'z']"),
            &["10: `z` is no agent or group of this file: there is a, b"],
        );
        told(&timer("minutes=1\nstatus=true\nto='a'"), &["10: `to` is a list of strings"]);
        let second = "minutes=1\nstatus=true\nid='timer-2'\n[[timers]]\nminutes=1\nstatus=true";
        told(&timer(second), &["11: `timer-2` is already the id of a timer on line 10"]);
        // Nobody sends anything to a timer.
        good(&timer("id='a'\nminutes=1\nstatus=true"));
    }

    #[test]
    fn an_address_does_not_stand_in_the_file() {
        let secret = "https://hooks.example/T0/secret";
        for line in [format!("webhook='{secret}'"), format!("webhook_env='{secret}'")] {
            let found = wrong(&with_two(&format!("[notify]\n{line}")));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("8: `webhook"), "{found:?}");
            assert!(found[0].contains("environment variable"), "{found:?}");
            assert!(!found[0].contains("hooks.example"), "{found:?}");
        }
        told(
            &with_two("[notify]\non=['exit', 'scope', 'x']"),
            &[
                "8: `exit` is no value for `on`: did you mean `exited`?",
                "8: `x` is no value for `on`: there is waiting, ",
            ],
        );
        let roster = try_read(&with_two("[notify]\non=[]")).unwrap();
        assert_eq!(roster.notify, Notify { on: Vec::new(), ..Notify::default() });
        let back: Roster = serde_json::from_value(serde_json::to_value(&roster).unwrap()).unwrap();
        assert_eq!(back, roster);
    }

    #[test]
    fn everything_wrong_is_told_at_once_from_the_top() {
        let text = "nme='x'\n[[agents]]\nagent='x'\n[[agents]]\nid='A'\n[[groups]]\nid='g'\n\
            agents=['x']\ncount=0\n[[timers]]\nminutes=0\n[notify]\nwebhook=1";
        told(
            text,
            &[
                "1: unknown key `nme`: did you mean `name`?",
                "2: this agent has no `id`",
                "3: `x` is no agent that",
                "4: this agent has neither",
                "5: `A` is no id",
                "8: `x` is no agent of this file",
                "9: `count` is from 1",
                "10: this timer says nothing",
                "11: `minutes` is at least 1",
                "13: `webhook` cannot stand here",
            ],
        );
    }

    #[test]
    fn a_file_can_be_as_odd_as_it_likes() {
        let long = "x".repeat(1 << 20);
        for text in [
            format!("[[agents]]\nagent='claude'\nid='{long}'"),
            format!("[[agents]]\nid='a'\nagent='{long}'"),
            format!("{long}=1"),
            format!("'''{long}"),
            long.clone(),
            "[".repeat(1 << 20),
            format!("a={}", "[".repeat(1 << 20)),
            format!("a={}", "{a=".repeat(1 << 19)),
            format!("a{}=1", ".a".repeat(1 << 19)),
            "\0".repeat(1 << 20),
        ] {
            let found = wrong_all(&text);
            assert!(!found.is_empty() && found.iter().all(|one| one.what.len() < 500));
        }
        // As many mistakes as fit: still quick, and still not too much to keep.
        let many: String =
            (0..20_000).map(|n| format!("[[agents]]\nid='A{n}'\nx{n}=1\n")).collect();
        let names: Vec<String> = (0..50_000).map(|n| format!("'y{n}'")).collect();
        let text = format!("{many}[[groups]]\nid='g'\nagents=[{}]", names.join(","));
        let found = wrong_all(&text);
        assert_eq!(found.len(), 3 * 20_000 + 50_000);
        assert!(found.iter().all(|one| one.what.len() < 500));
    }

    fn wrong_all(text: &str) -> Vec<Wrong> {
        try_read(text).unwrap_err()
    }
}
