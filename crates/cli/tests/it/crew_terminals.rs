//! A crew's terminals when they are elsewhere, in somebody else's hands, or break: whoever runs is
//! left alone and found again, and nothing is typed where it does not belong.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use segue_testkit::env::Output;
use serde_json::Value;

use crate::{
    crew::Lab,
    support::{data, json, until},
};

impl Lab {
    fn pid(&self, name: &str) -> Pid {
        let pid = self.member(name)["pid"].as_i64().unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }

    fn is(&self, name: &str, state: &str) -> bool {
        self.member(name)["state"] == state
    }

    fn windows(&self) -> String {
        self.tmux(&["list-windows", "-a", "-F", "#{session_name} #{window_name}"]).stdout
    }

    /// What is recorded in a member's own journal.
    fn own(&self, name: &str, kind: &str) -> Vec<Value> {
        let dir = self.env.session_dir(1).unwrap().join("members").join(name);
        let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
        let lines = text.lines().map(json).filter(|line| line["kind"] == kind);
        lines.map(|line| line["data"].clone()).collect()
    }

    fn of(&self, name: &str, kind: &str) -> Vec<Value> {
        data(&self.env, 1, kind).into_iter().filter(|one| one["member"] == name).collect()
    }

    /// A program that is found before all others.
    fn program(&self, name: &str, text: &str) {
        let path = self.env.path("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn with_programs(&self, args: &[&str]) -> Output {
        let mut command = self.prepare(self.env.command(args));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.env.path("bin").display()));
        let output = Output::of(&mut command).unwrap();
        assert_eq!(output.status, 0, "{args:?}: {}\n{}", output.stdout, output.stderr);
        output
    }
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

#[test]
fn whoever_looks_from_another_tmux_finds_everybody_where_they_are() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", ""));
    lab.segue(&["crew", "up", "--session", "one"]);
    until("it is told", || lab.told("coder").len() == 1);
    let pid = lab.pid("coder");
    lab.kill_watcher();
    let elsewhere = |args: &[&str]| {
        let mut command = lab.prepare(lab.env.command(args));
        command.env_remove("SEGUE_TMUX_SOCKET").env("TMUX_TMPDIR", lab.env.path("user"));
        let output = Output::of(&mut command).unwrap();
        assert_eq!(output.status, 0, "{}", output.stderr);
        output
    };
    elsewhere(&["crew", "status"]);
    elsewhere(&["crew", "send", "one", "coder", "From elsewhere"]);
    until("the message", || lab.heard("coder", "From elsewhere") == 1);
    assert_eq!(lab.pid("coder"), pid);
    let words = json(&elsewhere(&["crew", "attach", "--json"]).stdout);
    let words = words["tmux"]["attach"].as_str().unwrap().to_owned();
    assert!(words.contains("-S ") && words.contains("/crew attach -t =segue-one"), "{words}");

    // Without tmux nobody can watch over it, and it is not down for that.
    lab.kill_watcher();
    let (git, bin) = (lab.env.path("only-git"), std::env::var_os("PATH").unwrap());
    fs::create_dir(&git).unwrap();
    let found = std::env::split_paths(&bin).map(|dir| dir.join("git")).find(|path| path.exists());
    std::os::unix::fs::symlink(found.unwrap(), git.join("git")).unwrap();
    let mut command = lab.prepare(lab.env.command(["crew", "status"]));
    let output = Output::of(command.env("PATH", &git)).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
    let why = "nobody watches over one: tmux is not installed, or not in PATH";
    assert!(output.stderr.contains(why) && output.stdout.contains("coder"), "{output:?}");
    assert!(data(&lab.env, 1, "session.stopped").is_empty());
    let output = lab.segue(&["crew", "attach", "one"]);
    let said = "nobody watched over one: somebody does again";
    assert!(output.stderr.contains(said), "{}", output.stderr);
    assert_eq!(lab.pid("coder"), pid);

    // Its server can't be asked any more, and goes on.
    let said = lab.tmux(&["display-message", "-p", "#{pid} #{socket_path}"]).stdout;
    let (server, socket) = said.trim().split_once(' ').unwrap();
    fs::remove_file(socket).unwrap();
    until("nobody gets there", || lab.is("coder", "unreachable"));
    lab.kill_watcher();
    lab.segue(&["crew", "status"]);
    lab.segue(&["crew", "send", "one", "coder", "Are you there?"]);
    assert!(is_alive(pid) && lab.is("coder", "unreachable"));
    let plan = lab.segue(&["crew", "up", "--resume", "one", "--dry-run"]);
    assert!(plan.stdout.contains("unreachable"), "{}{}", plan.stdout, plan.stderr);
    // With this signal tmux makes its socket again.
    kill_process(Pid::from_raw(server.parse().unwrap()).unwrap(), Signal::USR1).unwrap();
    until("the message", || lab.heard("coder", "Are you there?") == 1);
    assert_eq!((lab.pid("coder"), lab.of("coder", "member.ended").len()), (pid, 0));
}

#[test]
fn who_was_left_behind_by_a_crew_that_is_down_is_ended() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", ""));
    lab.segue(&["crew", "up", "--session", "one"]);
    let seat = ["list-panes", "-a", "-F", "#{@segue_seat}"];
    let owner = lab.tmux(&seat).stdout.trim().to_owned();
    lab.segue(&["crew", "down", "one"]);
    assert!(lab.segue(&["crew", "down", "one"]).stderr.contains("one is down already"));
    lab.tmux(&["new-session", "-d", "-s", "left", "sleep 600"]);
    lab.tmux(&["set-option", "-p", "-t", "=left:", "@segue_seat", &owner]);
    lab.tmux(&["set-option", "-p", "-t", "=left:", "@segue_part", "coder"]);
    let pid = lab.tmux(&["list-panes", "-t", "=left:", "-F", "#{pane_pid}"]).stdout;
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let output = lab.segue(&["crew", "down", "one"]);
    assert!(output.stderr.contains("one is down: "), "{}", output.stderr);
    until("it is ended", || !is_alive(pid));
    assert_eq!(lab.of("coder", "member.starting").len(), 1, "nobody was started for it");
}

#[test]
fn a_terminal_may_be_taken_along_and_looked_through() {
    let lab = Lab::new();
    lab.roster(&format!("{}{}", lab.agent("coder", ""), lab.agent("tester", "")));
    lab.segue(&["crew", "up", "--session", "duo"]);
    until("both are told", || lab.told("coder").len() == 1 && lab.told("tester").len() == 1);
    let (pid, pane) = (lab.pid("coder"), lab.member("coder")["pane"].clone());
    let pane = pane.as_str().unwrap();

    // Keys would go to what the person looks at.
    lab.tmux(&["copy-mode", "-t", pane]);
    lab.segue(&["crew", "send", "duo", "all", "While you look"]);
    until("the other one", || lab.heard("tester", "While you look") == 1);
    lab.segue(&["crew", "send", "duo", "tester", "Once more"]);
    until("it was looked again", || lab.heard("tester", "Once more") == 1);
    let posted = || {
        let all = data(&lab.env, 1, "message.posted");
        all.into_iter().filter(|one| one["to"] == "coder").count()
    };
    assert_eq!((posted(), lab.heard("coder", "While you look")), (1, 0));
    lab.tmux(&["copy-mode", "-q", "-t", pane]);
    until("the message", || lab.heard("coder", "While you look") == 1);

    // A window of one's own for both, and the crew's other one is left behind.
    lab.tmux(&["new-session", "-d", "-s", "mine", "-n", "notes", "sleep 100"]);
    lab.tmux(&["join-pane", "-s", pane, "-t", "=mine:"]);
    lab.segue(&["crew", "send", "duo", "coder", "Where are you?"]);
    until("the message", || lab.heard("coder", "Where are you?") == 1);
    assert_eq!((lab.pid("coder"), posted()), (pid, 3));
    lab.kill_watcher();
    lab.segue(&["crew", "status"]);
    lab.segue(&["crew", "send", "duo", "coder", "Still?"]);
    until("the message", || lab.heard("coder", "Still?") == 1);
    assert_eq!((lab.pid("coder"), lab.of("coder", "member.ended").len()), (pid, 0));
    lab.segue(&["crew", "down", "duo"]);
    assert_eq!(lab.windows(), "mine notes\n", "the person's own");
}

#[test]
fn a_crew_that_is_half_way_down_goes_down() {
    let lab = Lab::new();
    let script = lab.env.path("stubborn.sh");
    fs::write(&script, "trap '' TERM HUP\nprintf 'READY>'\nwhile :; do sleep 0.1; done\n").unwrap();
    let entry = |id: &str| {
        let script = script.display();
        format!("[[agents]]\nid = \"{id}\"\ncommand = \"sh {script}\"\nready = \"READY>\"\n")
    };
    lab.roster(&["ada", "bob", "cyd"].map(entry).concat());
    lab.segue(&["crew", "up", "--session", "three"]);
    let pids = ["ada", "bob", "cyd"].map(|name| lab.pid(name));
    let mut down = lab.prepare(lab.env.command(["crew", "down", "three"])).spawn().unwrap();
    until("it is said", || !data(&lab.env, 1, "crew.ending").is_empty());
    lab.kill_watcher();
    let ended = || data(&lab.env, 1, "session.stopped").len();
    assert_eq!(ended(), 0, "each takes two seconds");
    lab.segue(&["crew", "status"]);
    until("it is down", || ended() == 1);
    assert!(down.wait().unwrap().success());
    until("all are gone", || !pids.into_iter().any(is_alive));
    assert_eq!(data(&lab.env, 1, "member.starting").len(), 3, "nobody was started again");

    // As it is where one dies between the two: the order was recorded, and lies there.
    let order = data(&lab.env, 1, "crew.ending")[0]["order"].as_str().unwrap().to_owned();
    let inbox = lab.env.session_dir(1).unwrap().join("inbox");
    let text = r#"{"kind":"crew","order":{"what":"down"}}"#;
    fs::write(inbox.join(format!("{order}.json")), text).unwrap();
    lab.segue(&["crew", "up", "--resume", "three"]);
    until("it is taken away", || !inbox.join(format!("{order}.json")).exists());
    assert!(lab.is("ada", "idle"));
    // It was killed over it once, and came down well in the end.
    let back = lab.own("ada", "session.resumed");
    let crashed: Vec<bool> = back.iter().map(|one| one["crashed"] == true).collect();
    assert_eq!(crashed, [true, false]);
    let out = lab.segue(&["crew", "down", "three"]);
    assert!(out.stderr.contains("three is down"), "{}", out.stderr);
}

#[test]
fn a_turn_that_was_cut_off_is_not_finished_and_no_mark_stays() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", "--ask-at 2"));
    lab.segue(&["crew", "up", "--session", "one"]);
    until("it is told", || lab.told("coder").len() == 1);
    until("its turn is over", || lab.own("coder", "turn.ended").len() == 1);
    lab.segue(&["crew", "send", "one", "coder", "May you?"]);
    until("it asks", || lab.windows().contains("!coder"));
    kill_process(lab.pid("coder"), Signal::KILL).unwrap();
    until("it is back", || lab.heard("coder", "Your earlier conversation is gone") == 1);
    let outcomes = lab.own("coder", "turn.ended");
    let outcomes: Vec<&str> = outcomes.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes[..2], ["finished", "cut_off"]);
    until("it is idle", || lab.is("coder", "idle"));
    until("no mark", || !lab.windows().contains('!'));
    let pane = lab.member("coder")["pane"].as_str().unwrap().to_owned();
    let border = lab.tmux(&["display-message", "-p", "-t", &pane, "<#{@segue_mark}>"]).stdout;
    assert_eq!(border, "<>\n");
}

#[test]
fn what_tmux_did_not_take_is_typed_again_and_not_called_delivered() {
    let lab = Lab::new();
    let tmux = lab.env.path("refuse");
    lab.program(
        "tmux",
        &format!(
            "#!/bin/sh\ncase \"$*\" in *load-buffer*) if rm {} 2>/dev/null; then exit 1; fi;; esac\n\
             PATH=${{PATH#*:}} exec tmux \"$@\"\n",
            tmux.display()
        ),
    );
    // Nobody can tell what it was told.
    let roster = lab.agent("coder", "");
    let mut lines: Vec<&str> = roster.lines().collect();
    lines.retain(|line| !line.starts_with("transcript"));
    lab.roster(&lines.join("\n"));
    fs::write(&tmux, "").unwrap();
    lab.with_programs(&["crew", "up", "--session", "one"]);
    until("it is told", || lab.told("coder").len() == 1);
    until("that is recorded", || !data(&lab.env, 1, "message.delivered").is_empty());
    assert!(!tmux.exists());
    let posted = data(&lab.env, 1, "message.posted");
    let attempts: Vec<&Value> = posted.iter().map(|one| &one["attempt"]).collect();
    assert_eq!(attempts, [1, 2]);
    assert!(data(&lab.env, 1, "message.failed").is_empty());
}

/// Cursor at a terminal, as its documentation has it: `create-chat`, `--resume`, and the words of its
/// screen. It is not Cursor's program.
fn cursor(lab: &Lab) {
    let agent = Path::new(env!("CARGO_BIN_EXE_segue")).with_file_name("tui-agent");
    let (agent, dir) = (agent.display(), lab.env.path("chats"));
    fs::create_dir(&dir).unwrap();
    let dir = dir.display();
    lab.program(
        "cursor-agent",
        &format!(
            "#!/bin/sh\ncd {dir} || exit 1\nif [ \"$1\" = create-chat ]; then\n  [ -e no-chats ] && exit 1\n  \
             n=$(($(ls | grep -c new-) + 1)); echo > new-$n; echo chat-0000-$n; exit\nfi\n\
             chat=none\nif [ \"$1\" = --resume ]; then chat=$2; fi\n\
             if [ -e breaks ]; then rm breaks; exit 1; fi\n\
             exec {agent} --transcript {dir}/$chat.jsonl --resume $chat --ready '/ commands' --busy Generating\n"
        ),
    );
}

#[test]
fn cursor_comes_back_to_its_own_chat() {
    let lab = Lab::new();
    cursor(&lab);
    let entry = |id: &str| format!("[[agents]]\nid = \"{id}\"\nagent = \"cursor\"\n");
    lab.roster(&["ada", "bob"].map(entry).concat());
    let told = |chat: &str, text: &str| {
        let file = lab.env.path("chats").join(format!("{chat}.jsonl"));
        fs::read_to_string(file).unwrap_or_default().matches(text).count()
    };
    lab.with_programs(&["crew", "up", "--session", "two"]);
    let ids = ["ada", "bob"].map(|name| lab.member(name)["vendor_session"].clone());
    assert_eq!(ids, ["chat-0000-1", "chat-0000-2"]);
    lab.with_programs(&["crew", "send", "two", "ada", "Remember the gap"]);
    until("the message", || told("chat-0000-1", "Remember the gap") == 1);

    lab.kill_watcher();
    lab.tmux(&["kill-server"]);
    // One start that comes to nothing is no reason to leave a chat.
    fs::write(lab.env.path("chats/breaks"), "").unwrap();
    let output = lab.with_programs(&["crew", "up", "--resume", "two"]);
    assert!(output.stderr.contains("ada  by its vendor's own resume"), "{}", output.stderr);
    let again = ["ada", "bob"].map(|name| lab.member(name)["vendor_session"].clone());
    assert_eq!(again, ids);
    lab.with_programs(&["crew", "send", "two", "ada", "Is it there?"]);
    until("in the same chat", || told("chat-0000-1", "Is it there?") == 1);
    assert_eq!(told("chat-0000-1", "Remember the gap"), 1, "not typed again");
    let starts = data(&lab.env, 1, "member.starting");
    let how: Vec<&str> = starts.iter().map(|one| one["how"].as_str().unwrap()).collect();
    assert_eq!(how, ["new", "new", "resumed", "resumed", "resumed"]);

    // Without its program nobody can be watched over, and nobody is ended for that.
    let pid = lab.pid("ada");
    lab.kill_watcher();
    lab.segue(&["crew", "status"]);
    until("it is said", || lab.is("ada", "unreachable"));
    lab.kill_watcher();
    lab.with_programs(&["crew", "status"]);
    until("it is seen again", || lab.is("ada", "idle"));
    assert_eq!(lab.pid("ada"), pid);

    // Unless it is asked for.
    lab.kill_watcher();
    lab.segue(&["crew", "status"]);
    until("it is said", || lab.is("ada", "unreachable"));
    lab.segue(&["crew", "restart", "two", "ada"]);
    until("it is ended", || !is_alive(pid));
    until("it can't be started", || lab.is("ada", "degraded"));
    let other = lab.pid("bob");
    lab.segue(&["crew", "down", "two"]);
    until("all are gone", || !is_alive(other));
    lab.with_programs(&["crew", "up", "--resume", "two"]);
    let again = ["ada", "bob"].map(|name| lab.member(name)["vendor_session"].clone());
    assert_eq!(again, ids);

    // And where no chat can be made, it is spoken to all the same.
    fs::write(lab.env.path("chats/no-chats"), "").unwrap();
    lab.with_programs(&["crew", "restart", "two", "bob", "--fresh"]);
    lab.with_programs(&["crew", "send", "two", "bob", "Hello"]);
    until("the message", || told("none", "Hello") == 1);
    until("it is recorded", || lab.member("bob")["waiting_messages"] == 0);
    let warnings = data(&lab.env, 1, "warning.raised");
    assert!(warnings.iter().any(|one| one["message"].as_str().unwrap().contains("made no chat")));
}
