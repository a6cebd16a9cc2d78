//! Crews: several coding agents under one name, each at a terminal of its own.
//!
//! Who is in a crew stands in a `segue.toml` ([`read`]). What is wrong with one is told at once, each
//! with its line. The prompts of the agents are templates ([`template::render()`]).
//!
//! A [`Spec`] says what kind of agent there is; a [`Place`] is one that is to be started. An agent
//! that is started once has the name of its spec, and one of several has a number after it, so
//! `coder` or `coder-1` and `coder-2`. No name ever means two of them: [`read`] sees to that.

pub mod bounds;
mod fields;
mod roster;
pub mod template;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{fields::program_lines, roster::read};

/// The name of the file that says who is in a crew.
pub const FILE: &str = "segue.toml";

/// How often the same group can be there.
pub const MOST_INSTANCES: u32 = 16;

/// The longest id of an agent, a group or a timer.
pub const LONGEST_ID: usize = 32;

/// Everything that a `segue.toml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Roster {
    /// What the crew is called where nobody says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<Spec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<Timer>,
    #[serde(skip_serializing_if = "is_default")]
    pub notify: Notify,
}

/// A kind of agent: what is started, with what, and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spec {
    /// A letter or digit, then letters, digits, `_` and `-`: all of them small.
    pub id: String,
    /// A kind of agent that Segue knows. Either this or `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Any program, as words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// More arguments for the agent's program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The file with what it is told first, relative to the directory of the `segue.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Paths or globs that it may write to, relative to its working directory; empty: anywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether writes to anywhere else are undone.
    #[serde(skip_serializing_if = "is_default")]
    pub enforce: bool,
    /// Whether it works in a worktree of its own.
    #[serde(skip_serializing_if = "is_default")]
    pub worktree: bool,
    /// What the screen of a `command` shows when it can be given something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// What the screen of a `command` shows while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// What the screen of a `command` shows when it asks something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// A file in which what a `command` was told can be read; it may have template variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub mail: Mail,
}

/// How messages reach an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mail {
    /// They are typed into its terminal.
    #[default]
    Terminal,
    /// They lie in a directory of its own, and it looks there by itself.
    Files,
    #[serde(other)]
    Unknown,
}

/// Agents that belong together, side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Group {
    pub id: String,
    pub agents: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub layout: Layout,
    /// How often the whole group is there.
    pub count: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self { id: String::new(), agents: Vec::new(), layout: Layout::default(), count: 1 }
    }
}

/// How the panes of a group are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    #[default]
    Horizontal,
    Vertical,
    Tiled,
    #[serde(other)]
    Unknown,
}

/// Something that is said again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Timer {
    /// `timer-` and its number in the file where none is given.
    pub id: String,
    /// How long it takes from one time to the next; at least 1.
    pub minutes: u32,
    /// Agents, instances or groups; empty: everybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The file with what is said, relative to the directory of the `segue.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether it also says how everybody stands.
    #[serde(skip_serializing_if = "is_default")]
    pub status: bool,
    /// Whether an agent is told even while it works.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupt: bool,
}

/// Who is told when something needs a person, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Notify {
    pub desktop: bool,
    /// The name of the environment variable that has the address: an address is a secret, and the
    /// file is part of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_env: Option<String>,
    pub on: Vec<Occasion>,
}

impl Default for Notify {
    fn default() -> Self {
        let on = vec![Occasion::Waiting, Occasion::Degraded, Occasion::Attention];
        Self { desktop: true, webhook_env: None, on }
    }
}

/// What somebody can be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// An agent asks something.
    Waiting,
    /// An agent ended too often, and is given up.
    Degraded,
    /// Somebody has to look.
    Attention,
    /// An agent has ended.
    Exited,
    /// An agent wrote to where it may not.
    Scope,
    /// A message could not be delivered.
    MessageDead,
    #[serde(other)]
    Unknown,
}

/// One agent that is to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Its name in the crew: `coder`, or `coder-2`.
    pub member: String,
    /// The id of its [`Spec`].
    pub spec: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Which of its kind it is, from 1 on.
    pub instance: u32,
    /// How many of its kind there are.
    pub of: u32,
}

impl Roster {
    /// Everybody that is to be started: group by group, each instance of a group as a whole; then
    /// those in no group.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for group in &self.groups {
            let of = group.count;
            for instance in 1..=of {
                places.extend(group.agents.iter().map(|spec| Place {
                    member: if of == 1 { spec.clone() } else { numbered(spec, instance) },
                    spec: spec.clone(),
                    group: Some(group.id.clone()),
                    instance,
                    of,
                }));
            }
        }
        let grouped: BTreeSet<&String> =
            self.groups.iter().flat_map(|group| &group.agents).collect();
        let alone = self.agents.iter().map(|spec| &spec.id).filter(|id| !grouped.contains(id));
        places.extend(alone.map(|id| Place {
            member: id.clone(),
            spec: id.clone(),
            group: None,
            instance: 1,
            of: 1,
        }));
        places
    }

    #[must_use]
    pub fn spec(&self, id: &str) -> Option<&Spec> {
        self.agents.iter().find(|spec| spec.id == id)
    }

    #[must_use]
    pub fn group(&self, id: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.id == id)
    }

    /// The name of one more agent of a kind: the first of `coder-2`, `coder-3` and so on that nobody
    /// has, and that the file gives to nobody.
    #[must_use]
    pub fn next_instance(&self, spec_id: &str, taken: &[String]) -> String {
        let places = self.places();
        let used: BTreeSet<&str> = places
            .iter()
            .map(|place| &place.member)
            .chain(self.agents.iter().map(|spec| &spec.id))
            .chain(self.groups.iter().map(|group| &group.id))
            .chain(taken)
            .map(String::as_str)
            .collect();
        let mut number = 2;
        loop {
            let name = numbered(spec_id, number);
            if !used.contains(name.as_str()) {
                return name;
            }
            number += 1;
        }
    }
}

/// A commented `segue.toml` to begin with.
#[must_use]
pub fn template() -> &'static str {
    include_str!("crew/template/segue.toml")
}

/// The prompts that [`template()`] names: where each belongs, and its text.
#[must_use]
pub fn prompts() -> &'static [(&'static str, &'static str)] {
    &[
        ("prompts/coder.md", include_str!("crew/template/coder.md")),
        ("prompts/tester.md", include_str!("crew/template/tester.md")),
        ("prompts/reviewer.md", include_str!("crew/template/reviewer.md")),
    ]
}

fn numbered(spec: &str, instance: u32) -> String {
    format!("{spec}-{instance}")
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &str) -> Spec {
        Spec { id: id.into(), ..Spec::default() }
    }

    fn group(id: &str, agents: &[&str], count: u32) -> Group {
        let agents = agents.iter().map(|&id| id.to_owned()).collect();
        Group { id: id.into(), agents, count, ..Group::default() }
    }

    fn roster() -> Roster {
        Roster {
            agents: ["lead", "coder", "tester", "docs"].map(spec).into(),
            groups: vec![group("pair", &["tester", "coder"], 2), group("one", &["docs"], 1)],
            ..Roster::default()
        }
    }

    #[test]
    fn everybody_has_a_place() {
        let places = roster().places();
        let found: Vec<_> = places
            .iter()
            .map(|at| (&*at.member, &*at.spec, at.group.as_deref(), at.instance, at.of))
            .collect();
        let expected = [
            ("tester-1", "tester", Some("pair"), 1, 2),
            ("coder-1", "coder", Some("pair"), 1, 2),
            ("tester-2", "tester", Some("pair"), 2, 2),
            ("coder-2", "coder", Some("pair"), 2, 2),
            ("docs", "docs", Some("one"), 1, 1),
            ("lead", "lead", None, 1, 1),
        ];
        assert_eq!(found, expected);
        assert!(places.iter().all(|place| roster().spec(&place.spec).is_some()));
        assert_eq!(Roster::default().places(), []);
    }

    #[test]
    fn one_more_gets_a_name_that_nobody_has() {
        let mut roster = roster();
        let next = |roster: &Roster, id: &str, taken: &[&str]| {
            let taken: Vec<String> = taken.iter().map(|&name| name.to_owned()).collect();
            roster.next_instance(id, &taken)
        };
        assert_eq!(next(&roster, "lead", &[]), "lead-2");
        assert_eq!(next(&roster, "lead", &["lead", "lead-2", "lead-4"]), "lead-3");
        // The file gives these to others, running or not.
        assert_eq!(next(&roster, "coder", &[]), "coder-3");
        roster.agents.push(spec("lead-2"));
        roster.groups.push(group("lead-3", &[], 1));
        assert_eq!(next(&roster, "lead", &["lead-4"]), "lead-5");
    }

    #[test]
    fn the_template_is_a_roster() {
        let known = ["claude", "codex", "gemini"];
        let exists = |path: &str| prompts().iter().any(|(name, _)| *name == path);
        let roster = read(template(), &known, &exists).unwrap();
        let ids: Vec<&str> = roster.agents.iter().map(|spec| spec.id.as_str()).collect();
        assert_eq!(ids, ["coder", "tester", "reviewer"]);
        let used: Vec<_> = roster.agents.iter().filter_map(|spec| spec.prompt.as_deref()).collect();
        assert_eq!(used, prompts().iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!((roster.groups.len(), roster.timers.len()), (1, 1));
        assert_eq!(roster.notify, Notify::default());
        for (name, text) in prompts() {
            template::render(name, text, &template::Vars::default()).unwrap();
        }
    }

    /// What is commented out has to be right too, or it is wrong as soon as somebody needs it.
    #[test]
    fn the_examples_of_the_template_are_right() {
        let is_setting = |line: &str| {
            let key = line.split(" = ").next().unwrap_or_default();
            let is_key =
                |key: &str| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            line.starts_with("[[") || (line.contains(" = ") && is_key(key))
        };
        let switched_on = |line: &str| match line.strip_prefix("# ") {
            Some(example) if is_setting(example) => example.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = template().lines().map(switched_on).collect();
        let roster = read(&text.join("\n"), &["claude", "codex", "gemini"], &|_| true).unwrap();
        assert_eq!(roster.name.as_deref(), Some("shop"));
        assert_eq!(roster.agents.len(), 4);
        let (coder, helper) = (&roster.agents[0], &roster.agents[3]);
        assert!(coder.enforce && coder.worktree && coder.model.is_some() && coder.args.len() == 1);
        assert!(helper.transcript.is_some() && helper.command.len() == 2);
        assert_eq!(roster.places().len(), 6);
        assert!(roster.timers[0].interrupt && roster.notify.webhook_env.is_some());
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let written = |roster: &Roster| serde_json::to_string(roster).unwrap();
        assert_eq!(written(&Roster::default()), "{}");
        let roster = Roster { agents: vec![spec("a")], ..Roster::default() };
        assert_eq!(written(&roster), r#"{"agents":[{"id":"a"}]}"#);
    }

    #[test]
    fn what_a_later_version_says_is_kept_apart() {
        let text = r#"{"agents":[{"id":"a","mail":"pigeon","later":1}],
            "groups":[{"id":"g","layout":"spiral"}],"notify":{"on":["storm"]}}"#;
        let roster: Roster = serde_json::from_str(text).unwrap();
        assert_eq!(roster.agents[0].mail, Mail::Unknown);
        assert_eq!((roster.groups[0].layout, roster.groups[0].count), (Layout::Unknown, 1));
        assert_eq!((roster.notify.desktop, &*roster.notify.on), (true, &[Occasion::Unknown][..]));
    }
}
