//! Prompts with variables: `{{agent}}` becomes the name of the agent that is told.
//!
//! Every `{{…}}` has to be a variable, so that no agent is ever told `{{agnet}}`; `\{{` stands for
//! `{{` itself. What a variable becomes is not looked at again.

use std::path::Path;

use crate::wrong::{Wrong, repeated};

/// What can be said of one agent of a crew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vars {
    /// Its name in the crew.
    pub agent: String,
    /// The id of its spec.
    pub role: String,
    /// The name of the crew.
    pub crew: String,
    /// Which of its kind it is, from 1 on.
    pub instance: u32,
    /// How many of its kind there are.
    pub count: u32,
    /// Empty for an agent in no group.
    pub group: String,
    /// The names of all others.
    pub peers: Vec<String>,
    /// Its working directory.
    pub root: String,
    /// The directory of the `segue.toml`.
    pub project: String,
    /// The path of its own worktree, or empty.
    pub worktree: String,
    /// The branch of its own worktree, or empty.
    pub branch: String,
    /// The directory that gets the messages for it.
    pub inbox: String,
    /// The directory in which messages lie for an agent that is told by files.
    pub mail: String,
    /// The names of all others, each with the directory that gets its messages.
    pub inboxes: Vec<(String, String)>,
}

/// The names of all variables.
pub const NAMES: [&str; 15] = [
    "agent", "role", "crew", "instance", "count", "group", "peers", "root", "project", "worktree",
    "branch", "inbox", "mail", "inboxes", "send",
];

/// How a message is sent, for an agent that may or may not have our tools.
const SEND: &str = "To send a message to another agent, use the tool `send_to_agent`. If you do not \
    have it, write the message into a file in the inbox directory of the recipient: first under a \
    name that begins with a dot, then rename it to a name that ends in `.md`.";

impl Vars {
    /// What a variable stands for, also by its older names.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "agent" | "agent_id" => self.agent.clone(),
            "role" => self.role.clone(),
            "crew" => self.crew.clone(),
            "instance" | "instance_index" => self.instance.to_string(),
            "count" | "group_count" => self.count.to_string(),
            "group" => self.group.clone(),
            "peers" | "peer_ids" => self.peers.join(", "),
            "root" => self.root.clone(),
            "project" | "project_root" => self.project.clone(),
            "worktree" | "worktree_root" => self.worktree.clone(),
            "branch" | "my_branch" => self.branch.clone(),
            "inbox" => self.inbox.clone(),
            "mail" => self.mail.clone(),
            "inboxes" | "peer_inboxes" => {
                let lines = self.inboxes.iter().map(|(peer, dir)| format!("- {peer}: {dir}"));
                lines.collect::<Vec<_>>().join("\n")
            }
            "messages_dir" => {
                let parent = Path::new(&self.inbox).parent().unwrap_or(Path::new(""));
                parent.display().to_string()
            }
            "send" => SEND.to_owned(),
            _ => return None,
        })
    }
}

/// Replaces the variables of a text. Errors name `file`.
pub fn render(file: &str, text: &str, vars: &Vars) -> Result<String, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut rendered = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let told = |what: String| Wrong::new(file, number, what);
        render_line(line, vars, &mut rendered, &mut |what| wrong.push(told(what)));
    }
    if wrong.is_empty() { Ok(rendered) } else { Err(wrong) }
}

/// What is wrong with a template, whoever is told.
pub(super) fn mistakes(text: &str) -> Vec<String> {
    let mut mistakes = Vec::new();
    let vars = Vars::default();
    render_line(text, &vars, &mut String::new(), &mut |what| mistakes.push(what));
    mistakes
}

fn render_line(line: &str, vars: &Vars, rendered: &mut String, wrong: &mut dyn FnMut(String)) {
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{") {
        if let Some(before) = before.strip_suffix('\\') {
            rendered.push_str(before);
            rendered.push_str("{{");
            rest = after;
            continue;
        }
        rendered.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            wrong("`{{` is not closed on this line: `\\{{` stands for itself".to_owned());
            return;
        };
        let name = name.trim();
        match vars.get(name) {
            Some(value) => rendered.push_str(&value),
            None => {
                let (name, names) = (repeated(name), NAMES.join(", "));
                let what = format!("`{{{{{name}}}}}` is no variable: there is {names}");
                wrong(what);
            }
        }
        rest = after;
    }
    rendered.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars() -> Vars {
        let text = str::to_owned;
        Vars {
            agent: text("coder-2"),
            role: text("coder"),
            crew: text("shop"),
            instance: 2,
            count: 3,
            group: text("pair"),
            peers: vec![text("coder-1"), text("tester")],
            root: text("/w"),
            project: text("/p"),
            worktree: text("/w"),
            branch: text("crew/coder-2"),
            inbox: text("/m/coder-2"),
            mail: text("/mail/coder-2"),
            inboxes: vec![
                (text("coder-1"), text("/m/coder-1")),
                (text("tester"), text("/m/tester")),
            ],
        }
    }

    fn good(text: &str) -> String {
        render("p.md", text, &vars()).unwrap()
    }

    fn wrong(text: &str) -> Vec<String> {
        render("p.md", text, &vars()).unwrap_err().iter().map(Wrong::to_string).collect()
    }

    #[test]
    fn each_variable_has_a_value() {
        let table = [
            ("agent", "coder-2"),
            ("role", "coder"),
            ("crew", "shop"),
            ("instance", "2"),
            ("count", "3"),
            ("group", "pair"),
            ("peers", "coder-1, tester"),
            ("root", "/w"),
            ("project", "/p"),
            ("worktree", "/w"),
            ("branch", "crew/coder-2"),
            ("inbox", "/m/coder-2"),
            ("mail", "/mail/coder-2"),
            ("inboxes", "- coder-1: /m/coder-1\n- tester: /m/tester"),
            ("send", SEND),
        ];
        assert_eq!(table.map(|(name, _)| name), NAMES);
        for (name, expected) in table {
            assert_eq!(good(&format!("<{{{{{name}}}}}>")), format!("<{expected}>"));
        }
        assert!(NAMES.iter().all(|name| Vars::default().get(name).is_some()));
    }

    #[test]
    fn older_names_are_understood() {
        let table = [
            ("project_root", "project"),
            ("agent_id", "agent"),
            ("instance_index", "instance"),
            ("group_count", "count"),
            ("peer_ids", "peers"),
            ("peer_inboxes", "inboxes"),
            ("my_branch", "branch"),
            ("worktree_root", "worktree"),
        ];
        for (old, name) in table {
            assert_eq!(vars().get(old), vars().get(name), "{old}");
        }
        assert_eq!(vars().get("messages_dir").unwrap(), "/m");
        assert_eq!(Vars::default().get("messages_dir").unwrap(), "");
    }

    #[test]
    fn only_variables_change() {
        let table = [
            ("", ""),
            ("{{ agent }}{{role}}\r\n", "coder-2coder\r\n"),
            ("{agent} } }} {\n\n", "{agent} } }} {\n\n"),
            ("\\{{agent}} \\\\{{ \\n", "{{agent}} \\{{ \\n"),
            ("ä{{count}}ö", "ä3ö"),
        ];
        for (text, expected) in table {
            assert_eq!(good(text), expected);
        }
        // What comes out is not a template again.
        let vars = Vars { crew: "{{agent}}{{no}}".into(), ..Vars::default() };
        assert_eq!(render("p.md", "{{crew}}", &vars).unwrap(), "{{agent}}{{no}}");
    }

    #[test]
    fn what_is_no_variable_is_told_with_its_line() {
        let names = NAMES.join(", ");
        assert_eq!(
            wrong("{{agnet}}\n{{agent}}\r\n {{a b}} {{}}\n{{{{x}}\n{{agent\n}}"),
            [
                format!("p.md:1: `{{{{agnet}}}}` is no variable: there is {names}"),
                format!("p.md:3: `{{{{a b}}}}` is no variable: there is {names}"),
                format!("p.md:3: `{{{{}}}}` is no variable: there is {names}"),
                format!("p.md:4: `{{{{{{{{x}}}}` is no variable: there is {names}"),
                "p.md:5: `{{` is not closed on this line: `\\{{` stands for itself".to_owned(),
            ]
        );
        let found = wrong(&format!("{{{{\u{1b}[2J{}}}}}", "x".repeat(1 << 20)));
        assert!(found[0].starts_with("p.md:1: `{{\\u{1b}[2Jxxx") && found[0].len() < 400);
    }

    #[test]
    fn a_prompt_can_be_as_long_as_it_likes() {
        let many = 1 << 18;
        assert_eq!(good(&"{{count}}".repeat(many)), "3".repeat(many));
        assert_eq!(good(&"}}".repeat(many)).len(), 2 * many);
        assert_eq!(wrong(&"{{".repeat(many)).len(), 1);
        assert_eq!(good(&"\\{{".repeat(many)), "{{".repeat(many));
    }
}
