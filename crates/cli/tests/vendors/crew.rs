//! A crew of real programs at real terminals, against the scripted model: up, a turn each,
//! everything killed, brought back; each answers from its own earlier conversation.

use std::{
    collections::BTreeSet,
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use segue_testkit::{
    env::Output,
    model_server::{Api, Fault, Reply, When},
    vendors::{Cli, Lab, interactive},
};
use serde_json::{Value, json};

use crate::{checkpoint::our_tool, support::bodies};

/// Eight of five vendors in one directory: two each of those whose ids are chosen by us, found at the
/// process, and found by what was said.
const CREW: [(&str, &str); 8] = [
    ("ada", "claude"),
    ("abe", "claude"),
    ("cleo", "codex"),
    ("carl", "codex"),
    ("gus", "gemini"),
    ("otto", "opencode"),
    ("olga", "opencode"),
    ("coco", "copilot"),
];

/// Those of one group sit side by side, each in half of the columns.
const GROUPS: &str = "[[groups]]\nid = \"cc\"\nagents = [\"ada\", \"cleo\"]\n\
                      [[groups]]\nid = \"go\"\nagents = [\"gus\", \"otto\"]\n";

/// What is said to one whose program ended in the middle of a turn.
const CUT_OFF: &str = "ended in the middle of your work";

/// What a packet ends with.
const GONE: &str = "Your earlier conversation is gone";

/// Starting six programs on a busy machine takes its time.
fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < limit, "{what}: it did not come");
        thread::sleep(Duration::from_millis(200));
    }
}

/// A crew, in a tmux that only this test knows, ended with it.
struct Crew {
    lab: Lab,
}

impl Crew {
    fn prepare(&self, mut command: Command) -> Command {
        let vars = [("TERM", "xterm-256color"), ("SEGUE_TMUX_SOCKET", "crew")];
        command.envs(vars).env("TMUX_TMPDIR", self.lab.path("t"));
        command
    }

    fn try_segue(&self, args: &[&str]) -> Output {
        let mut command = self.lab.command(env!("CARGO_BIN_EXE_segue"));
        command.args(args);
        self.lab.run(self.prepare(command))
    }

    fn segue(&self, args: &[&str]) -> Output {
        let output = self.try_segue(args);
        assert_eq!(output.status, 0, "{args:?}: {}\n{}", output.stdout, output.stderr);
        output
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = self.lab.command("tmux");
        command.args(["-L", "crew"]).args(args);
        Output::of(&mut self.prepare(command)).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.segue(&["crew", "status", "all", "--json"]).stdout).unwrap()
    }

    fn member(&self, name: &str) -> Value {
        let all = self.status();
        let members = all["members"].as_array().unwrap();
        members.iter().find(|one| one["agent_id"] == name).unwrap().clone()
    }

    /// How often a model was asked with a text as the last that a person said.
    fn asked(&self, text: &str) -> usize {
        let turns = self.lab.turns();
        let last = |request: &segue_testkit::model_server::Request| {
            request.texts().iter().rev().take(3).any(|said| said.contains(text))
        };
        turns.iter().filter(|request| last(request)).count()
    }

    fn settle(&self) {
        until("everybody is idle", Duration::from_secs(90), || {
            let all = self.status();
            let members = all["members"].as_array().unwrap();
            members.iter().all(|one| one["state"] == "idle")
                && members.iter().all(|one| one["vendor_session"].is_string())
                && members.iter().all(|one| one["waiting_messages"] == 0)
        });
    }

    fn ids(&self) -> Vec<String> {
        let all = self.status();
        let members = all["members"].as_array().unwrap();
        members.iter().map(|one| one["vendor_session"].as_str().unwrap().to_owned()).collect()
    }

    fn watcher(&self) -> Pid {
        let shown = self.segue(&["show", "all", "--json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        Pid::from_raw(i32::try_from(shown["holder"]["pid"].as_i64().unwrap()).unwrap()).unwrap()
    }

    /// Everything, with no time to say anything: the watcher, the server of tmux, all agents.
    fn kill_everything(&self) {
        kill_process(self.watcher(), Signal::KILL).unwrap();
        let all = self.status_without_watcher();
        let server = self.tmux(&["display-message", "-p", "#{pid}"]).stdout;
        let server: i32 = server.trim().parse().unwrap();
        kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
        for pid in all {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        thread::sleep(Duration::from_millis(300));
    }

    fn status_without_watcher(&self) -> Vec<i32> {
        let panes = self.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]).stdout;
        panes.lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if thread::panicking() {
            let panes = self.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{@segue_part}"]).stdout;
            for line in panes.lines() {
                let pane = line.split(' ').next().unwrap();
                eprintln!("── {line}\n{}", self.tmux(&["capture-pane", "-p", "-t", pane]).stdout);
            }
            let log = fs::read_to_string(self.lab.segue_home().join("logs/1.log"));
            eprintln!("{}", log.unwrap_or_default());
        }
        self.try_segue(&["crew", "down", "all"]);
        self.tmux(&["kill-server"]);
    }
}

fn raise(names: &[(&str, &str)], groups: &str) -> Option<Crew> {
    let mut lab = Lab::open(Cli::OpenCode)?;
    let answer = |name: &str, what: &str| {
        Reply::text(format!("{name} heard {what}."))
            .when(When::last_user(format!("{name}: {what}")))
    };
    // Before all others: a packet repeats what was asked before.
    let gone = Reply::text("I know what I did.").when(When::last_user(GONE)).sticky();
    let mut scenario = lab.scenario().reply(gone);
    for (name, _) in names {
        for what in ["who you are", "the second", "the third", "the fourth"] {
            scenario = scenario.reply(answer(name, what).sticky());
        }
    }
    let message = json!({ "to": "cleo", "message": "cleo: from ada" });
    let tell = our_tool(Cli::Claude, "send_to_agent", message);
    scenario = scenario
        .reply(tell.when(When { api: Some(Api::Anthropic), ..When::last_user("ada: tell cleo") }))
        .reply(Reply::text("It is told.").when(When::last_user("ada: tell cleo")))
        .reply(Reply::text("Cleo has it.").when(When::last_user("cleo: from ada")))
        .reply(Reply::text("I go on.").when(When::last_user(CUT_OFF)))
        .reply(
            Reply::text("It took long.")
                .until(lab.path("released"))
                .when(When::last_user("a long one"))
                .sticky(),
        )
        .reply(Reply::fault(Fault::hang()).when(When::last_user("take your time")))
        .reply(
            Cli::Claude
                .shell("python3 -c 'print(1)'")
                .when(When { api: Some(Api::Anthropic), ..When::last_user("ada: which python") }),
        )
        .reply(Reply::text("That one.").when(When::last_user("ada: which python")));
    lab.start(scenario);
    let work = fs::canonicalize(lab.work()).unwrap();
    interactive(&lab.home(), &[&work]).unwrap();
    fs::create_dir(lab.path("t")).unwrap();
    let mut roster = String::new();
    for (name, agent) in names {
        // As some editors write it; what is typed in has no such line ends.
        let prompt = "{{agent}}: who you are\r\nand no more\r\n";
        fs::write(work.join(format!("{name}.md")), prompt).unwrap();
        roster.push_str(&format!(
            "[[agents]]\nid = \"{name}\"\nagent = \"{agent}\"\nprompt = \"{name}.md\"\n"
        ));
        if *agent == "gemini" {
            roster.push_str("model = \"gemini-2.5-flash\"\n");
        }
    }
    fs::write(work.join("segue.toml"), format!("{roster}{groups}")).unwrap();
    let crew = Crew { lab };
    crew.segue(&["crew", "up", "--session", "all", "--wait", "80s"]);
    Some(crew)
}

#[test]
fn a_crew_of_eight_comes_back_with_all_that_each_knew() {
    let Some(crew) = raise(&CREW, GROUPS) else { return };
    for (name, _) in CREW {
        until(name, Duration::from_secs(90), || crew.asked(&format!("{name}: who you are")) >= 1);
    }
    crew.settle();
    let ids = crew.ids();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), CREW.len(), "{ids:?}");

    // One is in the middle of a turn.
    crew.segue(&["crew", "send", "all", "abe", "abe: take your time"]);
    until("it works", Duration::from_secs(60), || {
        crew.asked("take your time") == 1 && crew.member("abe")["waiting_messages"] == 0
    });
    until("that is seen", Duration::from_secs(60), || crew.member("abe")["state"] == "busy");
    crew.kill_everything();
    let output = crew.segue(&["crew", "up", "--resume", "all", "--wait", "80s"]);
    assert!(output.stderr.contains("abe  by its vendor's own resume, and told to go on"));
    until("it goes on", Duration::from_secs(60), || crew.asked(CUT_OFF) == 1);
    for (name, _) in CREW {
        let plan = format!("{name}  by its vendor's own resume");
        assert!(output.stderr.contains(&plan), "{}", output.stderr);
        crew.segue(&["crew", "send", "all", name, &format!("{name}: the second")]);
    }
    for (name, _) in CREW {
        until(name, Duration::from_secs(90), || crew.asked(&format!("{name}: the second")) >= 1);
    }
    crew.settle();
    assert_eq!(crew.ids(), ids);
    let turns = crew.lab.turns();
    for (name, agent) in CREW {
        let second = format!("{name}: the second");
        let request = turns.iter().rev().find(|one| one.texts().join("\n").contains(&second));
        let told = request.unwrap().texts().join("\n");
        // Its own, once; and nothing of anybody else's.
        assert!(told.contains(&format!("{name} heard who you are.")), "{name} {agent}: {told}");
        assert_eq!(told.matches(&format!("{name}: who you are")).count(), 1, "{name}: {told}");
        for (other, _) in CREW.iter().filter(|(other, _)| *other != name) {
            assert!(!told.contains(&format!("{other} heard")), "{name}: {told}");
        }
        for text in [CUT_OFF, "take your time"] {
            let once = usize::from(name == "abe");
            assert_eq!(told.matches(text).count(), once, "{name}: {text}: {told}");
        }
        // What they said is in their own journals.
        let log = crew.segue(&["crew", "log", "all", name]).stdout;
        for text in ["who you are", "the second", &format!("{name} heard the second.")] {
            assert!(log.contains(text), "{name}: {text}: {log}");
        }
    }
}

impl Crew {
    fn typed(&self, name: &str, text: &str) {
        let pane = self.member(name)["pane"].as_str().unwrap().to_owned();
        self.tmux(&["send-keys", "-t", &pane, "-l", text]);
        thread::sleep(Duration::from_millis(300));
        self.tmux(&["send-keys", "-t", &pane, "Enter"]);
    }
}

/// A person begins another conversation at the terminal: what is said then is found there.
fn another_conversation(crew: &Crew) {
    let before = crew.member("ada")["vendor_session"].clone();
    crew.typed("ada", "/clear");
    until("another one", Duration::from_secs(60), || {
        crew.member("ada")["vendor_session"] != before
    });
    crew.segue(&["crew", "send", "all", "ada", "ada: the fourth"]);
    until("it is asked", Duration::from_secs(60), || crew.asked("ada: the fourth") >= 1);
    crew.settle();
    assert_eq!(crew.asked("ada: the fourth"), 1);
    let posted = bodies(&crew.lab, "message.posted");
    assert!(posted.iter().all(|one| one["attempt"] == 1), "{posted:?}");
    assert_eq!(crew.status()["messages"]["dead"], 0);
    let log = crew.segue(&["crew", "log", "all", "ada"]).stdout;
    assert!(log.contains("ada heard the fourth."), "{log}");
}

/// It asks whether it may: that is seen, and nothing is typed until a person has answered.
fn a_question(crew: &Crew) {
    crew.segue(&["crew", "send", "all", "ada", "ada: which python"]);
    until("it asks", Duration::from_secs(60), || crew.member("ada")["state"] == "waiting");
    for name in ["ada", "cleo"] {
        crew.segue(&["crew", "send", "all", name, &format!("{name}: the fourth, again")]);
    }
    until("the other one", Duration::from_secs(60), || crew.asked("cleo: the fourth, again") >= 1);
    let ada = crew.member("ada");
    assert_eq!((&ada["state"], &ada["waiting_messages"]), (&"waiting".into(), &1.into()), "{ada}");
    assert_eq!(crew.asked("ada: the fourth, again"), 0);
    let pane = ada["pane"].as_str().unwrap();
    crew.tmux(&["send-keys", "-t", pane, "Enter"]);
    until("the rest", Duration::from_secs(60), || crew.asked("ada: the fourth, again") >= 1);
    crew.settle();
}

/// The watcher is killed while they work, and they have finished by the time that the next one comes.
fn at_work_without_a_watcher(crew: &Crew, names: &[(&str, &str)]) {
    for (name, _) in names {
        crew.segue(&["crew", "send", "all", name, &format!("{name}: a long one")]);
        until("it works", Duration::from_secs(60), || {
            let member = crew.member(name);
            member["state"] == "busy" && member["waiting_messages"] == 0
        });
    }
    kill_process(crew.watcher(), Signal::KILL).unwrap();
    fs::write(crew.lab.path("released"), "").unwrap();
    until("they have answered", Duration::from_secs(60), || {
        let panes = crew.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]).stdout;
        panes.lines().all(|pane| {
            let shown = crew.tmux(&["capture-pane", "-p", "-t", pane]).stdout;
            shown.contains("It took long.")
        })
    });
    crew.segue(&["crew", "status", "all"]);
    crew.settle();
    for (name, _) in names {
        // What it answered is of its last turn, and that is over.
        let over = || {
            let text = crew.segue(&["crew", "log", "all", name, "--json"]).stdout;
            let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let events: Vec<Value> = events.collect();
            let at = events.iter().rposition(|event| event["kind"] == "turn.started")?;
            events[at..].iter().find(|event| event["kind"] == "turn.ended").cloned()
        };
        until("its turn is over", Duration::from_secs(60), || over().is_some());
        let last = over().unwrap();
        assert_eq!(last["data"]["outcome"], "finished", "{name}: {last}");
        let log = crew.segue(&["crew", "log", "all", name]).stdout;
        assert_eq!(log.matches("It took long.").count(), 1, "{name}: {log}");
    }
}

/// What its vendor kept is gone: it is told what is known of it, in a new conversation.
fn by_packet(crew: &Crew) {
    let id = crew.member("ada")["vendor_session"].as_str().unwrap().to_owned();
    crew.segue(&["crew", "down", "all"]);
    let projects = fs::read_dir(crew.lab.home().join(".claude/projects")).unwrap().flatten();
    let files = projects.map(|dir| dir.path().join(format!("{id}.jsonl")));
    let file = files.into_iter().find(|path| path.exists()).unwrap();
    fs::remove_file(file).unwrap();
    let output = crew.segue(&["crew", "up", "--resume", "all", "--wait", "80s"]);
    let plan = "ada  its conversation is gone: told what is known of it";
    assert!(output.stderr.contains(plan), "{}", output.stderr);
    until("the packet", Duration::from_secs(90), || crew.asked(GONE) >= 1);
    crew.settle();
    assert_ne!(crew.member("ada")["vendor_session"], id);
    let turns = crew.lab.turns();
    let told = turns.iter().rev().map(|one| one.texts().join("\n")).find(|one| one.contains(GONE));
    // Of the conversation that it had open last.
    assert!(told.unwrap().contains("ada heard the fourth."));
    let log = crew.segue(&["crew", "log", "all", "ada"]).stdout;
    assert!(log.contains("I know what I did."), "{log}");
}

#[test]
fn agents_go_on_without_a_watcher_and_the_next_command_adopts_them() {
    let names = [("ada", "claude"), ("cleo", "codex")];
    let Some(crew) = raise(&names, "") else { return };
    crew.settle();
    let before: Vec<Value> =
        names.iter().map(|(name, _)| crew.member(name)["pid"].clone()).collect();
    kill_process(crew.watcher(), Signal::KILL).unwrap();
    // By hand, while nobody watches.
    for (name, _) in names {
        let panes = crew.tmux(&["list-panes", "-a", "-F", "#{@segue_part} #{pane_id}"]).stdout;
        let start = format!("{name} ");
        let pane = panes.lines().find_map(|line| line.strip_prefix(&start)).unwrap().to_owned();
        crew.tmux(&["send-keys", "-t", &pane, "-l", &format!("{name}: the third")]);
        thread::sleep(Duration::from_millis(300));
        crew.tmux(&["send-keys", "-t", &pane, "Enter"]);
        until(name, Duration::from_secs(60), || crew.asked(&format!("{name}: the third")) >= 1);
    }
    let output = crew.segue(&["crew", "status", "all"]);
    assert!(output.stderr.contains("nobody watched over all"), "{}", output.stderr);
    crew.settle();
    at_work_without_a_watcher(&crew, &names);
    let after: Vec<Value> =
        names.iter().map(|(name, _)| crew.member(name)["pid"].clone()).collect();
    assert_eq!(after, before);
    for (name, _) in names {
        crew.segue(&["crew", "send", "all", name, &format!("{name}: the second")]);
        until(name, Duration::from_secs(60), || crew.asked(&format!("{name}: the second")) >= 1);
    }
    crew.settle();
    another_conversation(&crew);
    a_question(&crew);
    // By the tool, from one to the other.
    crew.segue(&["crew", "send", "all", "ada", "ada: tell cleo"]);
    until("the tool", Duration::from_secs(60), || crew.asked("cleo: from ada") >= 1);
    crew.settle();
    let sent = bodies(&crew.lab, "message.sent");
    let sent = sent.iter().find(|one| one["from"] == "ada").unwrap();
    assert_eq!(sent["to"], "cleo", "{sent}");
    for (name, _) in names {
        let log = crew.segue(&["crew", "log", "all", name]).stdout;
        let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{name}: {text}: {log}"));
        assert!(at(": the third") < at(": the second"), "{log}");
    }
    by_packet(&crew);
}
