//! Crews in a real tmux, of agents that do what their flags say: up, killed, brought back, spoken to.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use segue_testkit::env::{Output, TestEnv};
use serde_json::{Value, json as made};

use crate::support::{data, files_below, git, json, scripted_in_git, until, until_within};

/// A member that ends again and again is given up after half a minute.
const PATIENCE: Duration = Duration::from_secs(200);

/// A crew in a tmux that only this test knows, ended with it.
pub(crate) struct Lab {
    pub(crate) env: TestEnv,
    /// What else is in the environment of everything.
    pub(crate) vars: Vec<(&'static str, OsString)>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let (env, _) = scripted_in_git("");
        fs::create_dir(env.path("t")).unwrap();
        fs::create_dir_all(env.repo().join("prompts")).unwrap();
        Self { env, vars: Vec::new() }
    }

    pub(crate) fn prepare(&self, mut command: Command) -> Command {
        let vars = [("TERM", "xterm-256color"), ("SEGUE_TMUX_SOCKET", "crew")];
        command.envs(vars).env("TMUX_TMPDIR", self.env.path("t")).env_remove("SEGUE_CLOCK");
        command.envs(self.vars.iter().cloned());
        command
    }

    pub(crate) fn try_segue(&self, args: &[&str]) -> Output {
        Output::of(&mut self.prepare(self.env.command(args))).unwrap()
    }

    pub(crate) fn segue(&self, args: &[&str]) -> Output {
        let output = self.try_segue(args);
        assert_eq!(output.status, 0, "{args:?}: {}\n{}", output.stdout, output.stderr);
        output
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> Output {
        let mut command = self.prepare(self.env.any("tmux"));
        Output::of(command.args(["-L", "crew"]).args(args)).unwrap()
    }

    /// An entry for an agent that keeps a transcript.
    pub(crate) fn agent(&self, id: &str, more: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_segue")).with_file_name("tui-agent");
        assert!(program.exists(), "cargo build --workspace makes {}", program.display());
        let transcript = self.env.path("{{agent}}.jsonl");
        fs::write(self.env.repo().join(format!("prompts/{id}.md")), "You are {{agent}}.\n")
            .unwrap();
        let (program, transcript) = (program.display(), transcript.display());
        format!(
            "[[agents]]\nid = \"{id}\"\ncommand = \"{program} --transcript {transcript} --gap-ms 30 {more}\"\n\
             ready = \"READY>\"\nbusy = \"WORKING\"\nwaiting = \"ALLOW THIS?\"\n\
             transcript = \"{transcript}\"\nprompt = \"prompts/{id}.md\"\n"
        )
    }

    pub(crate) fn roster(&self, text: &str) {
        fs::write(self.env.repo().join("segue.toml"), text).unwrap();
    }

    pub(crate) fn status(&self) -> Value {
        json(&self.segue(&["crew", "status", "--json"]).stdout)
    }

    pub(crate) fn member(&self, name: &str) -> Value {
        let all = self.status();
        let members = all["members"].as_array().unwrap();
        members.iter().find(|one| one["agent_id"] == name).cloned().unwrap_or_default()
    }

    /// Everything that an agent was ever told.
    pub(crate) fn told(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.env.path(&format!("{name}.jsonl"))).unwrap_or_default();
        let lines = text.lines().map(json);
        lines.filter_map(|line| line["prompt"].as_str().map(str::to_owned)).collect()
    }

    pub(crate) fn heard(&self, name: &str, text: &str) -> usize {
        self.told(name).iter().map(|prompt| prompt.matches(text).count()).sum()
    }

    pub(crate) fn watcher(&self) -> Pid {
        let dir = self.env.session_dir(1).unwrap();
        let lock = fs::read_to_string(dir.join("lock")).unwrap();
        let pid = json(&lock)["pid"].as_i64().unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    pub(crate) fn is_watched(&self) -> bool {
        let shown = self.segue(&["show", "1", "--json"]);
        !json(&shown.stdout)["holder"].is_null()
    }

    pub(crate) fn kill_watcher(&self) {
        kill_process(self.watcher(), Signal::KILL).unwrap();
        until("the lock is free", || !self.is_watched());
    }

    pub(crate) fn inbox(&self, name: &str) -> PathBuf {
        self.env.session_dir(1).unwrap().join("inbox").join(name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let log = self.env.home().join("logs/1.log");
        let log = fs::read_to_string(log).unwrap_or_default();
        let output = self.try_segue(&["crew", "down"]);
        self.tmux(&["kill-server"]);
        if std::thread::panicking() {
            eprintln!("{}", output.stderr);
            let from = log.len().saturating_sub(6000);
            eprintln!("{}", log.get(from..).unwrap_or_default());
        }
    }
}

/// One request, answered.
fn received(hook: &TcpListener) -> String {
    let (mut stream, _) = hook.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(got @ 1..) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..got]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn everybody_is_told_once_and_comes_back_after_everything_was_killed() {
    let lab = Lab::new();
    lab.roster(&format!("{}{}", lab.agent("coder", "--start-ms 300"), lab.agent("tester", "")));
    let up = lab.segue(&["crew", "up", "--session", "duo"]);
    assert!(up.stdout.contains("segue crew attach duo"), "{}", up.stdout);
    for name in ["coder", "tester"] {
        until("the first prompt", || lab.heard(name, &format!("You are {name}.")) == 1);
    }
    lab.segue(&["crew", "send", "duo", "coder", "Mind the gap"]);
    until("the message", || lab.heard("coder", "Mind the gap") == 1);
    let before = lab.member("coder");
    assert!(before["pane"].as_str().unwrap().starts_with('%'), "{before}");
    assert!(before["pid"].as_u64().is_some() && before["spawned_at"].is_string(), "{before}");

    lab.kill_watcher();
    lab.tmux(&["kill-server"]);
    let output = lab.segue(&["crew", "up", "--resume", "duo"]);
    assert!(output.stderr.contains("coder  its conversation is gone"), "{}", output.stderr);
    until("the packet", || lab.heard("coder", "Your earlier conversation is gone") == 1);
    let packet = lab.told("coder").pop().unwrap();
    assert!(packet.contains("Mind the gap"), "{packet}");
    // Told in the packet, and not typed in again as a prompt of its own.
    let again = lab.told("coder").iter().filter(|told| told.starts_with("You are coder.")).count();
    assert_eq!(again, 1);
    assert_ne!(lab.member("coder")["pid"], before["pid"]);
    lab.segue(&["crew", "down", "duo"]);
    assert!(lab.tmux(&["list-sessions"]).stdout.is_empty());
    assert_eq!(json(&lab.segue(&["show", "1", "--json"]).stdout)["status"], "interrupted");
}

#[test]
fn whoever_is_still_there_is_adopted_and_never_ended() {
    let lab = Lab::new();
    lab.roster(&format!("{}{}", lab.agent("coder", "--work-ms 2500"), lab.agent("coder-2", "")));
    lab.segue(&["crew", "up", "--session", "duo"]);
    until("both are told", || lab.told("coder").len() == 1 && lab.told("coder-2").len() == 1);
    let pids = || ["coder", "coder-2"].map(|name| lab.member(name)["pid"].clone());
    let before = pids();
    lab.segue(&["crew", "send", "duo", "coder", "A long one"]);
    until("it works", || lab.heard("coder", "A long one") == 1);
    lab.kill_watcher();
    lab.segue(&["bridge", "1", "send", "coder", "While nobody watched"]);
    let output = lab.segue(&["crew", "status", "duo"]);
    assert!(output.stderr.contains("nobody watched over duo"), "{}", output.stderr);
    assert_eq!(pids(), before);
    until("the message", || lab.heard("coder", "While nobody watched") == 1);
    assert_eq!(lab.told("coder-2").len(), 1, "a name that begins alike");

    // By hand, as a person would.
    lab.kill_watcher();
    let output = lab.segue(&["resume", "duo"]);
    assert!(output.stderr.contains("coder  still there"), "{}", output.stderr);
    assert_eq!(pids(), before);
}

#[test]
fn a_dead_pane_comes_back_and_one_that_dies_again_and_again_is_given_up() {
    let lab = Lab::new();
    // Of one of them nobody sees what it was told.
    let deaf = lab.agent("deaf", "").replace("\ntranscript = \"", "\ntranscript = \"nowhere");
    lab.roster(&format!("{}{}{deaf}", lab.agent("coder", ""), lab.agent("broken", "--crash")));
    lab.tmux(&["-f", "/dev/null", "new-session", "-d", "-s", "mine", "sleep 100"]);
    lab.tmux(&["set-option", "-g", "base-index", "1"]);
    lab.tmux(&["set-option", "-g", "pane-base-index", "1"]);
    lab.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    lab.tmux(&["set-option", "-g", "default-shell", "/bin/false"]);
    lab.segue(&["crew", "up", "--session", "duo", "--wait", "0s"]);
    until("it is told", || lab.told("coder").len() == 1);
    let first = lab.member("coder");
    let pid = i32::try_from(first["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until("another process", || {
        let now = lab.member("coder");
        now["state"] == "idle" && now["pid"] != first["pid"]
    });
    until("the end is said", || data(&lab.env, 1, "member.ended").len() >= 2);
    until_within(PATIENCE, "it is given up", || lab.member("broken")["state"] == "degraded");
    let ends = data(&lab.env, 1, "member.ended");
    let broken: Vec<&Value> = ends.iter().filter(|end| end["member"] == "broken").collect();
    assert_eq!(broken.len(), 6, "{broken:?}");
    assert_eq!(broken.last().unwrap()["degraded"], true);
    until_within(PATIENCE, "a dead letter", || {
        let letter = lab.status()["dead_letters"][0].clone();
        letter["reason"] == "typed in 3 times, and never seen in its conversation"
    });
    assert_eq!(lab.heard("deaf", "You are deaf."), 3);
    assert!(lab.tmux(&["has-session", "-t", "=mine"]).status == 0, "somebody else's session");
}

#[test]
fn nothing_is_typed_while_an_agent_asks_and_the_person_is_shown_who() {
    let lab = Lab::new();
    let hook = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/secret", hook.local_addr().unwrap());
    let roster = lab.agent("coder", "--ask-at 2");
    lab.roster(&format!("{roster}[notify]\nwebhook_env = \"HOOK\"\n"));
    let mut up = lab.prepare(lab.env.command(["crew", "up", "--session", "one"]));
    assert_eq!(Output::of(up.env("HOOK", &address)).unwrap().status, 0);
    until("it is told", || lab.told("coder").len() == 1);
    lab.segue(&["crew", "send", "one", "coder", "May you?"]);
    until("it asks", || lab.member("coder")["state"] == "waiting");
    let posted = received(&hook);
    assert!(posted.starts_with("POST /secret HTTP/1.1\r\n"), "{posted}");
    let body: Value = json(posted.split("\r\n\r\n").nth(1).unwrap());
    assert_eq!(body["text"], "Segue: one: coder waits: ALLOW THIS? [y/N]");
    for file in files_below(&lab.env.home()) {
        let text = fs::read(&file).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("/secret"), "{}", file.display());
    }
    lab.segue(&["crew", "send", "one", "coder", "Later"]);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(lab.heard("coder", "Later"), 0);
    let windows = lab.tmux(&["list-windows", "-a", "-F", "#{window_name}"]).stdout;
    assert!(windows.contains("!coder"), "{windows}");
    let pane = lab.member("coder")["pane"].as_str().unwrap().to_owned();
    lab.tmux(&["send-keys", "-t", &pane, "y"]);
    until("the rest", || lab.heard("coder", "Later") == 1);
    let transcript = fs::read_to_string(lab.env.path("coder.jsonl")).unwrap();
    assert!(!transcript.contains("denied"), "{transcript}");
    let windows = lab.tmux(&["list-windows", "-a", "-F", "#{window_name}"]).stdout;
    assert!(!windows.contains("!coder"), "{windows}");
}

#[test]
fn members_come_and_go_and_files_are_messages() {
    let lab = Lab::new();
    let files = lab.agent("filer", "").replace("prompt =", "mail = \"files\"\nprompt =");
    let group =
        "[[groups]]\nid = \"pair\"\nagents = [\"coder\", \"tester\"]\nlayout = \"vertical\"\n";
    let roster = [lab.agent("coder", ""), lab.agent("tester", ""), files, group.to_owned()];
    lab.roster(&roster.concat());
    lab.segue(&["crew", "up", "--session", "trio"]);
    until("both are told", || lab.told("coder").len() == 1 && lab.told("tester").len() == 1);
    let windows = lab.tmux(&["list-panes", "-a", "-F", "#{window_name} #{@segue_part}"]).stdout;
    assert!(windows.contains("pair coder\n") && windows.contains("pair tester\n"), "{windows}");

    lab.segue(&["crew", "add", "trio", "coder"]);
    until("one more", || lab.heard("coder-2", "You are coder-2.") == 1);
    lab.segue(&["crew", "remove", "trio", "tester"]);
    assert_eq!(lab.member("tester"), Value::Null);
    // Whoever comes back is told what it knew, each time, and its prompt no more.
    let told = |is: fn(&String) -> bool| lab.told("coder-2").iter().filter(|one| is(one)).count();
    for times in 1..3 {
        lab.segue(&["crew", "remove", "trio", "coder-2"]);
        lab.segue(&["crew", "add", "trio", "coder"]);
        let is_packet = |told: &String| told.contains("Your earlier conversation is gone");
        until("the packet", || told(is_packet) == times);
    }
    assert_eq!(told(|told| told.starts_with("You are coder-2.")), 1);
    assert_eq!(lab.member("coder-2")["generation"], 3);

    // Written under another name, and renamed; one to nobody; one that is an order.
    let put = |to: &str, name: &str, text: &str| {
        let dir = lab.inbox(to);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!(".{name}")), text).unwrap();
        fs::rename(dir.join(format!(".{name}")), dir.join(name)).unwrap();
    };
    put("coder", "1__from-filer__topic-x.md", "By a file");
    put("nobody", "x.md", "Is there anybody?");
    until("the file", || lab.heard("coder", "By a file") == 1);
    assert_eq!(lab.heard("coder", "from filer:"), 1);
    until("the dead letter", || {
        lab.status()["dead_letters"][0]["reason"] == "there is no member nobody"
    });
    let before = lab.member("coder")["pid"].clone();
    put("coder", "2__from-person__topic-_RESTART.md", "");
    until("a restart", || {
        let now = lab.member("coder");
        now["state"] == "idle" && now["pid"] != before
    });
    lab.segue(&["crew", "send", "trio", "filer", "Read this"]);
    let mail = lab.env.session_dir(1).unwrap().join("mail/filer");
    until("the mail", || fs::read_dir(&mail).is_ok_and(|all| all.count() == 2));
    assert!(lab.told("filer").is_empty());

    lab.segue(&["crew", "down", "trio"]);
    let plan = json(&lab.segue(&["crew", "up", "--resume", "trio", "--dry-run", "--json"]).stdout);
    let ways = plan["plan"].as_array().unwrap();
    let tester = ways.iter().find(|one| one["member"] == "tester").unwrap();
    let gone = "back in the crew: its conversation is gone: told what is known of it";
    assert_eq!((&plan["name"], &tester["how"]), (&made!("trio"), &made!(gone)));
}

#[test]
fn writes_out_of_bounds_are_told_and_undone() {
    let lab = Lab::new();
    fs::create_dir_all(lab.env.repo().join("src")).unwrap();
    let script = lab.env.path("writes.sh");
    // Reads a prompt up to its last line, writes, and says that it is ready again.
    fs::write(
        &script,
        "#!/bin/sh\nprintf 'READY>'\nwhile read line; do case \"$line\" in *GO*) clear; printf 'WORKING'; \
         echo in > src/in.txt; echo out > out.txt; rm kept.txt; sleep 1; clear; printf 'READY>';; esac; done\n",
    )
    .unwrap();
    lab.env.write("kept.txt", "base\n").unwrap();
    git(&lab.env, &["add", "."]);
    git(&lab.env, &["commit", "-qm", "base"]);
    lab.roster(&format!(
        "[[agents]]\nid = \"writer\"\ncommand = \"sh {}\"\nready = \"READY>\"\nbusy = \"WORKING\"\n\
         write = [\"src\"]\nenforce = true\n",
        script.display()
    ));
    lab.segue(&["crew", "up", "--session", "one"]);
    lab.segue(&["crew", "send", "one", "writer", "GO"]);
    until("it is told", || !data(&lab.env, 1, "scope.broken").is_empty());
    let broken = data(&lab.env, 1, "scope.broken");
    assert_eq!(broken[0]["paths"], serde_json::json!(["kept.txt", "out.txt"]), "{broken:?}");
    assert_eq!(
        (&broken[0]["undone"], &broken[0]["members"][0]),
        (&Value::Bool(true), &Value::from("writer"))
    );
    until("undone", || !lab.env.repo().join("out.txt").exists());
    assert_eq!(fs::read_to_string(lab.env.repo().join("kept.txt")).unwrap(), "base\n");
    assert_eq!(fs::read_to_string(lab.env.repo().join("src/in.txt")).unwrap(), "in\n");
    let kept = broken[0]["kept_in"].as_str().unwrap();
    assert_eq!(git(&lab.env, &["show", &format!("{kept}:out.txt")]), "out\n");
}

const SIX: [&str; 6] = ["ada", "bob", "cyd", "dan", "eve", "fay"];

/// Who said what to whom, in the order in which it was said.
type Said = BTreeMap<(String, String), Vec<usize>>;

fn note(said: &mut Said, from: &str, to: &str, round: usize) -> String {
    said.entry((from.to_owned(), to.to_owned())).or_default().push(round);
    format!("<{from}>{to}:{round}>")
}

/// What everybody was told, as a whole: what a packet repeats is not told anew.
fn all_told(lab: &Lab) -> Said {
    let mut found = Said::new();
    for to in SIX {
        let told = lab.told(to).into_iter();
        for prompt in told.filter(|prompt| !prompt.contains("Your earlier conversation is gone")) {
            for from in SIX.iter().chain(&["person", "agent"]) {
                for part in prompt.split(&format!("<{from}>{to}:")).skip(1) {
                    let round = part.split('>').next().unwrap().parse().unwrap();
                    note(&mut found, from, to, round);
                }
            }
        }
    }
    found
}

/// Says something to each by a command of its own, all at once, while something else happens. Whoever is
/// told to try again later does so.
fn send_all(lab: &Lab, how: &[&str], texts: &[(&str, String)], meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        for (to, text) in texts {
            scope.spawn(move || {
                until("it is said", || {
                    let output = lab.try_segue(&[how, &[to, text]].concat());
                    let later = output.stderr.contains("try again later");
                    assert!(output.status == 0 || later, "{}", output.stderr);
                    output.status == 0
                });
            });
        }
        meanwhile();
    });
}

#[test]
fn a_thousand_messages_arrive_once_and_in_order_whoever_is_killed_meanwhile() {
    let lab = Lab::new();
    let roster: String = SIX.iter().map(|name| lab.agent(name, "--work-ms 10")).collect();
    lab.roster(&roster);
    lab.segue(&["crew", "up", "--session", "six"]);
    let mut said = Said::new();
    let mut number = 0;
    // With what is said by commands, it is more than a thousand.
    for round in 0..32 {
        for from in SIX {
            for to in SIX.into_iter().filter(|to| *to != from) {
                let name = format!("{number:06}__from-{from}.md");
                let (dir, text) = (lab.inbox(to), note(&mut said, from, to, round));
                fs::write(dir.join(format!(".{name}")), text).unwrap();
                fs::rename(dir.join(format!(".{name}")), dir.join(name)).unwrap();
                number += 1;
            }
        }
        if round % 3 != 2 {
            continue;
        }
        let texts = SIX.map(|to| (to, note(&mut said, "person", to, round)));
        number += texts.len();
        if round % 6 == 2 {
            // Each of these may be the one that starts another watcher.
            kill_process(lab.watcher(), Signal::KILL).unwrap();
            send_all(&lab, &["crew", "send", "six"], &texts, || {});
            continue;
        }
        let pid = lab.member(SIX[1 + round % 4])["pid"].as_i64().unwrap_or_default();
        // By an agent who is asked to. One that comes back is told again what it was asked for: so
        // only after that.
        if round > 17 {
            let (inbox, text) = (lab.inbox("dan"), note(&mut said, "agent", "dan", round));
            let order = format!("SEND dan {} {text}", inbox.display());
            send_all(&lab, &["crew", "send", "six"], &[("fay", order)], || {});
        }
        send_all(&lab, &["bridge", "1", "send"], &texts, || {
            lab.kill_watcher();
            match (round == 17, Pid::from_raw(i32::try_from(pid).unwrap())) {
                (true, _) => drop(lab.tmux(&["kill-server"])),
                (false, Some(pid)) => drop(kill_process(pid, Signal::KILL)),
                (false, None) => {}
            }
            lab.segue(&["crew", "status"]);
        });
    }
    assert!(number >= 1000);
    let sum = |said: &Said| said.values().map(Vec::len).sum::<usize>();
    until_within(PATIENCE, "all of them", || sum(&all_told(&lab)) >= sum(&said));
    // Once more when nothing is under way any more: what came twice would have come by then.
    until("everybody is done", || {
        let all = lab.status();
        let members = all["members"].as_array().unwrap();
        all["messages"]["waiting"] == 0 && members.iter().all(|one| one["state"] == "idle")
    });
    let told = all_told(&lab);
    for (pair, rounds) in &said {
        assert_eq!(told.get(pair), Some(rounds), "{pair:?}");
    }
    assert_eq!(sum(&told), sum(&said));
    assert_eq!(lab.status()["messages"]["dead"], 0);
}

#[test]
fn a_file_that_was_recorded_and_not_moved_counts_once_however_many_come_before_it() {
    let lab = Lab::new();
    lab.roster(&format!("{}{}", lab.agent("ada", "--work-ms 10"), lab.agent("dan", "")));
    lab.segue(&["crew", "up", "--session", "two"]);
    fs::write(lab.inbox("dan").join("first.md"), "<only once>").unwrap();
    until("it arrives", || lab.heard("dan", "<only once>") == 1);
    lab.kill_watcher();
    // As a watcher leaves it that dies between the two.
    let taken = lab.inbox("dan").join(".taken/first.md");
    fs::rename(taken, lab.inbox("dan").join("first.md")).unwrap();
    for number in 0..100 {
        fs::write(lab.inbox("ada").join(format!("{number:03}.md")), format!("<{number}>")).unwrap();
        // What is said by commands and tools is taken in before files are.
        let said = made!({ "kind": "said", "from": "person", "to": "ada", "text": "by hand",
            "occasion": number });
        let name = format!("../{number:013}-{number:016x}.json");
        fs::write(lab.inbox("ada").join(name), said.to_string()).unwrap();
    }
    lab.segue(&["crew", "status"]);
    until_within(PATIENCE, "all of them", || lab.heard("ada", "<99>") == 1);
    fs::write(lab.inbox("dan").join("last.md"), "<the last>").unwrap();
    until("the last one", || lab.heard("dan", "<the last>") == 1);
    assert_eq!(lab.heard("dan", "<only once>"), 1);
}

#[test]
fn without_terminals_every_message_is_a_turn() {
    let (env, model) = scripted_in_git("[[reply]]\ntext = \"I am here.\"\nrepeat = true\n");
    let lab = Lab { env, vars: Vec::new() };
    fs::create_dir(lab.env.path("t")).unwrap();
    lab.roster(&format!("[[agents]]\nid = \"coder\"\nagent = \"native\"\nmodel = \"{model}\"\n"));
    lab.segue(&["crew", "up", "--session", "quiet", "--headless"]);
    lab.segue(&["crew", "send", "quiet", "coder", "Are you there?"]);
    let own = lab.env.session_dir(1).unwrap().join("members/coder/journal.jsonl");
    let answered = || fs::read_to_string(&own).unwrap_or_default().contains("I am here.");
    until("an answer", answered);
    lab.kill_watcher();
    lab.segue(&["crew", "send", "quiet", "coder", "And now?"]);
    until("two turns", || {
        fs::read_to_string(&own).unwrap_or_default().matches("\"turn.ended\"").count() == 2
    });
    let log = lab.segue(&["crew", "log", "quiet", "coder"]);
    assert!(log.stdout.contains("And now?"), "{}", log.stdout);
    lab.segue(&["crew", "restart", "quiet", "coder"]);
}

#[test]
fn a_crew_that_can_not_be_raised_says_why_and_can_be_removed() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", ""));
    // git can't have a branch below another one.
    git(&lab.env, &["branch", "taken"]);
    let up = ["crew", "up", "--session", "wt", "--worktree", "--branch", "taken"];
    let plan = lab.segue(&[&up[..], &["--dry-run", "--json"]].concat());
    let new = made!({ "name": "wt", "plan": [{ "member": "coder", "how": "new" }] });
    assert_eq!(json(&plan.stdout), new);
    let output = lab.try_segue(&up);
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("the worktree of coder"), "{}", output.stderr);
    lab.segue(&["crew", "down", "wt"]);
    lab.segue(&["rm", "wt", "--force"]);
}

#[test]
fn a_roster_with_mistakes_starts_nobody() {
    let lab = Lab::new();
    lab.roster("[[agents]]\nid = \"a\"\nagent = \"claud\"\nprompt = \"none.md\"\nbranch = 1\n");
    let output = lab.try_segue(&["crew", "up"]);
    assert_eq!(output.status, 2);
    for line in ["segue.toml:3: ", "segue.toml:4: ", "segue.toml:5: "] {
        assert!(output.stderr.contains(line), "{line}: {}", output.stderr);
    }
    assert!(!lab.env.home().join("numbers").exists());
    // In another file, with what only a member's own values could show.
    let other = "[[agents]]\nid = \"a\"\ncommand = \"sh\"\nargs = [\"{{nope}}\"]\n";
    fs::write(lab.env.repo().join("other.toml"), other).unwrap();
    let output = lab.try_segue(&["crew", "check", "other.toml"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("other.toml:4: `{{nope}}`"), "{}", output.stderr);
    // Who can't be started is all of them too.
    let other = "[[agents]]\nid = \"a\"\nagent = \"codex\"\n\n[[agents]]\nid = \"b\"\n\
        command = \"no-such-program --flag\"\n";
    fs::write(lab.env.repo().join("other.toml"), other).unwrap();
    let mut check = lab.prepare(lab.env.command(["crew", "check", "other.toml"]));
    let output = Output::of(check.env("PATH", lab.env.path("none"))).unwrap();
    assert_eq!(output.status, 127, "{}", output.stderr);
    for line in ["other.toml:3: a: ", "other.toml:7: b: there is no program no-such-program"] {
        assert!(output.stderr.contains(line), "{line}: {}", output.stderr);
    }
    // What it names is beside it, from wherever it is looked at.
    let roster = "[[agents]]\nid = \"a\"\nagent = \"native\"\nmodel = \"script:its-model.toml\"\n";
    lab.roster(roster);
    fs::write(lab.env.repo().join("its-model.toml"), crate::support::DONE).unwrap();
    let mut check = lab.prepare(lab.env.command(["crew", "check"]));
    check.arg(lab.env.repo().join("segue.toml")).current_dir(lab.env.path(""));
    let output = Output::of(&mut check).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
    fs::remove_file(lab.env.repo().join("segue.toml")).unwrap();
    lab.segue(&["crew", "init"]);
    let again = lab.try_segue(&["crew", "init"]);
    assert_eq!(again.status, 2);
    assert!(again.stderr.contains("/repo/segue.toml is there already"), "{}", again.stderr);
    assert!(lab.env.repo().join("prompts/coder.md").exists());
}
