//! What is wanted of a crew at work, by commands and by files; where everybody sits; who is told.

use std::{ffi::OsString, fs, path::Path};

use serde_json::{Value, json as made};

use crate::{
    crew::Lab,
    stand_ins,
    support::{data, git, json, scripted_in_git, until, until_within},
};

/// A desktop that writes down what it is told.
fn with_desktop(lab: &mut Lab) {
    let told = lab.env.path("notified");
    stand_ins::program(
        &lab.env,
        "notify-send",
        &format!("echo \"$3: $4\" >> '{}'", told.display()),
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = [stand_ins::bin(&lab.env)].into_iter().chain(std::env::split_paths(&path));
    lab.vars.push(("PATH", std::env::join_paths(all).unwrap()));
    lab.vars.push(("DISPLAY", OsString::from(":9")));
    lab.vars.push(("ANTHROPIC_API_KEY", OsString::from("dummy")));
}

fn notified(lab: &Lab) -> Vec<String> {
    let text = fs::read_to_string(lab.env.path("notified")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn put(lab: &Lab, to: &str, name: &str, text: &str) {
    let (draft, path) = (lab.inbox(to).join(format!(".{name}")), lab.inbox(to).join(name));
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

/// The last event of a kind.
fn last(lab: &Lab, kind: &str) -> Value {
    let events = lab.env.journal(1).unwrap();
    events.into_iter().rfind(|line| line["kind"] == kind).unwrap_or_default()
}

#[test]
fn what_one_does_is_broken_off_by_a_command_and_by_a_file() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", "--work-ms 600000"));
    lab.segue(&["crew", "up", "--session", "one"]);
    let is = |state: &str| lab.member("coder")["state"] == state;
    until("it works", || is("busy"));
    lab.segue(&["crew", "interrupt", "one", "coder"]);
    until("it is broken off", || is("idle"));
    lab.segue(&["crew", "send", "one", "coder", "A long one"]);
    until("it works again", || lab.heard("coder", "A long one") == 1 && is("busy"));
    put(&lab, "coder", "x__from-tester__topic-_INTERRUPT.md", "This first");
    until("it is told what comes first", || lab.heard("coder", "This first") == 1);
    assert_eq!(lab.told("coder").len(), 3);

    // Everybody is called by name, and what is hidden does not count.
    let log = lab.segue(&["crew", "log", "one", "coder"]).stdout;
    assert!(log.contains("turn 1 · coder · ") && log.contains("turn 2 · coder · "), "{log}");
    let few = lab.segue(&["crew", "log", "one", "-n", "2"]).stdout;
    assert_eq!(few.lines().count(), 2, "{few}");
    let attach = lab.segue(&["crew", "attach", "one"]).stdout;
    assert!(attach.contains("tmux -L crew attach") && attach.contains("segue-one"), "{attach}");
}

#[test]
fn a_timer_that_interrupts_is_heard_by_one_who_works() {
    let lab = Lab::new();
    let timer = "[[timers]]\nminutes = 1\ntext = \"How far are you?\"\ninterrupt = true\n";
    lab.roster(&format!("{}{timer}", lab.agent("coder", "--work-ms 600000")));
    lab.segue(&["crew", "up", "--session", "one"]);
    until("it works", || lab.member("coder")["state"] == "busy");
    let patience = std::time::Duration::from_secs(120);
    until_within(patience, "a minute is over", || lab.heard("coder", "How far are you?") == 1);
    assert_eq!((lab.told("coder").len(), lab.heard("coder", "from timer timer-1:")), (2, 1));
}

#[test]
fn an_order_that_was_done_is_not_done_again_by_who_comes_after() {
    let mut lab = Lab::new();
    with_desktop(&mut lab);
    lab.roster(&lab.agent("coder", ""));
    lab.segue(&["crew", "up", "--session", "one"]);
    let prompts = || lab.told("coder").iter().filter(|told| told.starts_with("You are")).count();
    until("the first prompt", || prompts() == 1);
    put(&lab, "coder", "a__from-coder__topic-_ATTENTION.md", "Look here");
    until("the person is told", || notified(&lab) == ["Segue: one: coder: Look here"]);
    lab.segue(&["crew", "restart", "one", "coder", "--fresh"]);
    until("its first prompt again", || prompts() == 2);
    until("it is ready", || lab.member("coder")["state"] == "idle");
    assert_eq!(lab.member("coder")["how"], "new");
    let pid = lab.member("coder")["pid"].clone();

    // As a watcher leaves both that dies before they are out of the way.
    lab.kill_watcher();
    let id = last(&lab, "member.restarted")["id"].as_str().unwrap().to_owned();
    let order = made!({ "what": "restart", "member": "coder", "fresh": true });
    let order = made!({ "kind": "crew", "order": order });
    let dir = lab.env.session_dir(1).unwrap().join("inbox");
    fs::write(dir.join(format!("{id}.json")), order.to_string()).unwrap();
    let name = "a__from-coder__topic-_ATTENTION.md";
    fs::rename(lab.inbox("coder").join(".taken").join(name), lab.inbox("coder").join(name))
        .unwrap();
    // More than a journal's fold remembers, and taken in before any order is looked at.
    for number in 0..70 {
        let said = made!({ "kind": "said", "from": "person", "to": "coder",
            "text": format!("<{number}>"), "occasion": number });
        fs::write(dir.join(format!("{number:013}-{number:016x}.json")), said.to_string()).unwrap();
    }
    lab.segue(&["crew", "status", "one"]);
    until("both are out of the way", || {
        !dir.join(format!("{id}.json")).exists() && !lab.inbox("coder").join(name).exists()
    });
    lab.segue(&["crew", "send", "one", "coder", "Afterwards"]);
    until("what was said afterwards", || lab.heard("coder", "Afterwards") == 1);
    assert_eq!((prompts(), lab.member("coder")["pid"].clone()), (2, pid));
    assert_eq!(notified(&lab).len(), 1);
}

#[test]
fn who_can_not_be_started_is_told_on_the_desktop() {
    let mut lab = Lab::new();
    with_desktop(&mut lab);
    stand_ins::program(&lab.env, "claude", "sleep 600");
    lab.roster("[[agents]]\nid = \"coder\"\nagent = \"claude\"\n");
    lab.segue(&["crew", "up", "--session", "one", "--wait", "0s"]);
    until("it runs", || lab.member("coder")["pid"].is_u64());
    lab.kill_watcher();
    lab.tmux(&["kill-server"]);
    fs::remove_file(stand_ins::bin(&lab.env).join("claude")).unwrap();
    lab.segue(&["crew", "status", "one"]);
    until("it is given up", || lab.member("coder")["state"] == "degraded");
    until("the person is told", || {
        notified(&lab).iter().any(|line| line.starts_with("Segue: one: coder is given up: "))
    });
}

#[test]
fn groups_stand_in_order_each_in_a_worktree_that_comes_back() {
    let lab = Lab::new();
    let agents = ["zed", "abe", "mia"].map(|id| lab.agent(id, "")).concat();
    let group = "[[groups]]\nid = \"trio\"\nagents = [\"zed\", \"abe\", \"mia\"]\n\
        layout = \"vertical\"\ncount = 2\n";
    lab.roster(&format!("{agents}{group}"));
    git(&lab.env, &["add", "."]);
    git(&lab.env, &["commit", "-qm", "crew"]);
    // Other work has a branch and a directory of these names.
    git(&lab.env, &["branch", "work/mia-2"]);
    git(&lab.env, &["commit", "-q", "--allow-empty", "-m", "later"]);
    let taken = lab.env.repo().with_file_name("repo-segue-1-mia-1");
    fs::create_dir(&taken).unwrap();
    lab.segue(&["crew", "up", "--session", "all", "--worktree", "--branch", "work"]);
    let shape = "#{window_name} #{@segue_part} #{pane_left}";
    let panes = || lab.tmux(&["list-panes", "-s", "-t", "=segue-all:", "-F", shape]).stdout;
    let expected = "trio zed-1 0\ntrio abe-1 0\ntrio mia-1 0\n\
        trio-2 zed-2 0\ntrio-2 abe-2 0\ntrio-2 mia-2 0\n";
    assert_eq!(panes(), expected);
    let before = lab.member("abe-2");
    assert_eq!((&before["branch"], &before["instance"]), (&made!("work/abe-2"), &made!(2)));
    let tree = before["cwd"].as_str().unwrap().to_owned();
    assert!(tree.ends_with("-abe-2") && before["worktree"] == before["cwd"], "{before}");
    assert!(Path::new(&tree).join("prompts/abe.md").exists());
    until("it is told", || lab.heard("abe-2", "You are abe-2.") == 1);
    let mia = lab.member("mia-2");
    assert_eq!(mia["branch"], "work/mia-2-2");
    let trees = ["rev-parse", "HEAD", "work/mia-2-2"];
    let trees = git(&lab.env, &trees);
    let (head, its) = trees.trim().split_once('\n').unwrap();
    assert_eq!(head, its, "{trees}");
    assert!(lab.member("mia-1")["cwd"].as_str().unwrap().ends_with("-mia-1-2"));

    one_more_that_can_not_join(&lab);

    lab.kill_watcher();
    lab.tmux(&["kill-server"]);
    // One of them can't be entered again: that is nobody else's trouble.
    let kept = lab.env.path("kept");
    fs::rename(&tree, &kept).unwrap();
    fs::create_dir(&tree).unwrap();
    let up = lab.segue(&["crew", "up", "--resume", "all"]);
    assert!(up.stdout.contains("is there already"), "{}", up.stdout);
    let states = |state: &str| {
        let all = lab.status();
        let members = all["members"].as_array().unwrap();
        members.iter().filter(|one| one["state"] == state).count()
    };
    assert_eq!((states("idle"), states("degraded")), (6, 1));
    fs::remove_dir(&tree).unwrap();
    fs::rename(&kept, &tree).unwrap();
    lab.segue(&["crew", "restart", "all", "abe-2"]);
    until("it is back", || states("idle") == 7);
    let after = lab.member("abe-2");
    for key in ["branch", "cwd", "worktree", "session"] {
        assert_eq!(after[key], before[key], "{key}");
    }
}

/// That is said to whoever wants it, and it is no trouble of those who are at work.
fn one_more_that_can_not_join(lab: &Lab) {
    let (dir, away) = (lab.env.repo().join(".git"), lab.env.path("away.git"));
    let watcher = lab.watcher();
    fs::rename(&dir, &away).unwrap();
    let output = lab.try_segue(&["crew", "add", "all", "abe"]);
    fs::rename(&away, &dir).unwrap();
    assert_eq!(output.status, 1, "{}", output.stderr);
    assert!(output.stderr.contains("the worktree of abe-3: "), "{}", output.stderr);
    assert_eq!(lab.member("abe-3"), Value::Null);
    lab.segue(&["crew", "add", "all", "abe"]);
    assert_eq!(lab.member("abe-3")["branch"], "work/abe-3");
    assert_eq!(lab.watcher(), watcher);
}

#[test]
fn without_terminals_writes_out_of_bounds_are_undone_too() {
    let (env, model) = scripted_in_git(
        "[[reply]]\ntext = \"I write.\"\ntools = [\n\
         { name = \"write_file\", input = { path = \"src/in.txt\", content = \"in\" } },\n\
         { name = \"write_file\", input = { path = \"out.txt\", content = \"out\" } },\n]\n\
         [[reply]]\ntext = \"Done.\"\nrepeat = true\n",
    );
    let lab = Lab { env, vars: Vec::new() };
    fs::create_dir(lab.env.path("t")).unwrap();
    lab.roster(&format!(
        "[[agents]]\nid = \"coder\"\nagent = \"native\"\nmodel = \"{model}\"\n\
         write = [\"src\"]\nenforce = true\n"
    ));
    lab.segue(&["crew", "up", "--session", "quiet", "--headless"]);
    lab.segue(&["crew", "send", "quiet", "coder", "Write"]);
    until("it is told", || !data(&lab.env, 1, "scope.broken").is_empty());
    let broken = &data(&lab.env, 1, "scope.broken")[0];
    assert_eq!((&broken["paths"], &broken["undone"]), (&made!(["out.txt"]), &made!(true)));
    assert!(!lab.env.repo().join("out.txt").exists());
    assert!(lab.env.repo().join("src/in.txt").exists());
    let kept = format!("{}:out.txt", broken["kept_in"].as_str().unwrap());
    assert_eq!(git(&lab.env, &["show", &kept]), "out");
}

/// Ends the crew of another repository, whatever happens.
struct Other<'a>(&'a Lab);

impl Drop for Other<'_> {
    fn drop(&mut self) {
        self.0.try_segue(&["crew", "down", "repo-2"]);
    }
}

#[test]
fn directories_of_one_name_have_crews_of_different_names() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", ""));
    lab.segue(&["crew", "up"]);
    let there = lab.env.path("elsewhere/repo");
    fs::create_dir_all(there.join("prompts")).unwrap();
    for file in ["segue.toml", "prompts/coder.md"] {
        fs::copy(lab.env.repo().join(file), there.join(file)).unwrap();
    }
    let up = |args: &[&str]| {
        let mut command = lab.prepare(lab.env.command(["crew", "up", "--json"]));
        segue_testkit::env::Output::of(command.args(args).current_dir(&there)).unwrap()
    };
    let taken = up(&["--session", "repo"]);
    assert_eq!(taken.status, 2, "{}", taken.stdout);
    assert!(taken.stderr.contains("there is a crew repo already, in "), "{}", taken.stderr);
    // Nothing could be put back where there is no git, and nobody has asked for a worktree.
    let text = fs::read_to_string(there.join("segue.toml")).unwrap();
    fs::write(there.join("bound.toml"), format!("{text}write = [\"src\"]\nenforce = true\n"))
        .unwrap();
    let bound = up(&["--session", "bound", "--file", "bound.toml", "--dry-run"]);
    assert_eq!(bound.status, 2, "{}", bound.stdout);
    let why = "is in no git repository: what is written out of bounds could not be undone";
    assert!(bound.stderr.contains(why), "{}", bound.stderr);
    let _down = Other(&lab);
    for _ in 0..2 {
        let output = up(&[]);
        let told = json(&output.stdout);
        let here = fs::canonicalize(&there).unwrap();
        assert_eq!((&told["name"], &told["project"]), (&made!("repo-2"), &made!(here)));
    }
    assert_eq!(lab.status()["name"], "repo");
}

#[test]
fn of_two_who_raise_a_crew_under_one_name_at_once_one_is_told_that_it_is_taken() {
    let lab = Lab::new();
    lab.roster(&lab.agent("coder", ""));
    lab.segue(&["crew", "up", "--session", "first", "--headless", "--wait", "0s"]);
    let names = fs::File::open(lab.env.home().join("names.lock")).unwrap();
    names.lock().unwrap();
    let up = || {
        let args = ["crew", "up", "--session", "par", "--headless", "--wait", "0s"];
        let mut command = lab.prepare(lab.env.command(args));
        std::thread::spawn(move || segue_testkit::env::Output::of(&mut command).unwrap())
    };
    let both = [up(), up()];
    // Both have found the name free by then.
    std::thread::sleep(std::time::Duration::from_millis(500));
    names.unlock().unwrap();
    let both = both.map(|one| one.join().unwrap());
    let mut statuses = both.each_ref().map(|one| one.status);
    statuses.sort_unstable();
    assert_eq!(statuses, [0, 2], "{both:?}");
    assert!(both.iter().any(|one| one.stderr.contains("`par` is taken by session 2")), "{both:?}");
    lab.segue(&["crew", "down", "par"]);
    lab.segue(&["crew", "down", "first"]);
}
