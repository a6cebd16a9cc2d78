//! Kills Segue, guardians and commands in every way, and looks at `/proc` for what is left.
//!
//! Every test marks its processes with a session of its own, so that they can run side by side.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use segue_runner::guardian::{Ended, Exit, Guarded, SpawnError, Spec, Stdin};
use segue_runner::process;

/// Generous: the machine may be busy with other tests.
const LIMIT: Duration = Duration::from_secs(30);

fn helper() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target directory");
    let path = profile.join("examples/guard");
    assert!(path.exists(), "{} is missing: cargo build --examples", path.display());
    path
}

fn session() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}", std::process::id())
}

fn spec(session: &str, script: &str) -> Spec {
    Spec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: std::env::temp_dir(),
        env: vec![(process::SESSION_VAR.into(), session.into())],
        env_remove: Vec::new(),
        stdin: Stdin::Null,
        guardian: helper(),
    }
}

fn start(session: &str, script: &str) -> Guarded {
    Guarded::spawn(spec(session, script)).expect("spawned")
}

/// Every living process with the session's mark, guardians and all; also under another name than
/// Segue looks for.
fn marked(session: &str) -> Vec<String> {
    let mark = format!("={session}");
    let mut found = Vec::new();
    for pid in fs::read_dir("/proc").expect("proc").flatten() {
        let environ = fs::read(pid.path().join("environ")).unwrap_or_default();
        if environ.split(|&b| b == 0).any(|one| one.ends_with(mark.as_bytes())) {
            let line = fs::read(pid.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            found.push(line);
        }
    }
    found
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn sleepers(session: &str) -> usize {
    marked(session).iter().filter(|line| line.starts_with("sleep 1000")).count()
}

fn assert_gone(session: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = marked(session);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left behind: {left:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("pid");
    kill_process(pid, Signal::KILL).expect("killed");
}

fn wait(guarded: &mut Guarded) -> Exit {
    guarded.wait_timeout(LIMIT).expect("waited").expect("ended in time")
}

#[test]
fn exit_codes_and_signals_are_reported() {
    let id = session();
    for code in [0, 1, 42, 255] {
        let mut guarded = start(&id, &format!("exit {code}"));
        assert_eq!(wait(&mut guarded), Exit::Code(code));
        assert_eq!(guarded.try_wait().expect("again"), Some(Exit::Code(code)));
        assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
    }
    for signal in [6, 9, 15] {
        let mut guarded = start(&id, &format!("kill -{signal} $$"));
        assert_eq!(wait(&mut guarded), Exit::Signal(signal));
    }
    assert_gone(&id);
}

#[test]
fn waiting_keeps_its_limit() {
    let id = session();
    let mut guarded = start(&id, "sleep 1000");
    assert_eq!(guarded.try_wait().expect("try"), None);
    let begun = Instant::now();
    assert_eq!(guarded.wait_timeout(Duration::from_millis(50)).expect("wait"), None);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
    assert!(marked(&id).is_empty(), "kill_tree returns when nothing is left");
}

#[test]
fn what_cannot_start_says_why() {
    let id = session();
    let mut missing = spec(&id, "");
    missing.program = "segue-no-such-program".into();
    let error = Guarded::spawn(missing).expect_err("not found");
    assert!(matches!(&error, SpawnError::NotFound(name) if name == "segue-no-such-program"));

    let mut nowhere = spec(&id, "");
    nowhere.cwd = "/no/such/directory".into();
    assert!(matches!(Guarded::spawn(nowhere), Err(SpawnError::NoDirectory(_))));

    let mut forbidden = spec(&id, "");
    forbidden.program = "/etc/passwd".into();
    let error = Guarded::spawn(forbidden).expect_err("not executable");
    assert!(matches!(error, SpawnError::Io { .. }), "{error}");

    let mut alone = spec(&id, "");
    alone.guardian = "/no/such/guardian".into();
    let error = Guarded::spawn(alone).expect_err("no guardian");
    assert!(error.to_string().contains("/no/such/guardian"), "{error}");

    let mut wrong = spec(&id, "");
    wrong.guardian = "/bin/true".into();
    assert!(matches!(Guarded::spawn(wrong), Err(SpawnError::Io { .. })));
    assert_gone(&id);
}

#[test]
fn output_is_read_while_another_thread_waits() {
    let id = session();
    let mut spec = spec(&id, "pwd; echo \"$NEW\" \"${HOME-unset}\"; seq 50000; echo problem >&2");
    spec.cwd = "/usr".into();
    spec.env.push(("NEW".into(), "a b".into()));
    spec.env_remove.push("HOME".into());
    let mut guarded = Guarded::spawn(spec).expect("spawned");
    let mut stdout = guarded.take_stdout().expect("stdout");
    let mut stderr = guarded.take_stderr().expect("stderr");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("read");
        text
    });
    assert_eq!(wait(&mut guarded), Exit::Code(0));
    let text = reader.join().expect("joined");
    assert!(text.starts_with("/usr\na b unset\n1\n2\n"), "{}", &text[..40]);
    assert!(text.ends_with("\n50000\n"));
    let mut problem = String::new();
    stderr.read_to_string(&mut problem).expect("read");
    assert_eq!(problem, "problem\n");
}

#[test]
fn much_output_fits_before_anybody_reads_it() {
    let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").expect("the system's limit");
    if most.trim().parse::<usize>().expect("a number") < 1 << 20 {
        return;
    }
    let id = session();
    let mut guarded = start(&id, "head -c 1000000 /dev/zero");
    assert_eq!(wait(&mut guarded), Exit::Code(0));
    let mut bytes = Vec::new();
    guarded.take_stdout().expect("stdout").read_to_end(&mut bytes).expect("read");
    assert_eq!(bytes.len(), 1_000_000);
}

#[test]
fn the_command_has_a_stdin_of_its_own() {
    let id = session();
    let mut piped = spec(&id, "cat; echo end");
    piped.stdin = Stdin::Piped;
    let mut guarded = Guarded::spawn(piped).expect("spawned");
    guarded.take_stdin().expect("stdin").write_all(b"hello\n").expect("written");
    let mut text = String::new();
    guarded.take_stdout().expect("stdout").read_to_string(&mut text).expect("read");
    assert_eq!(text, "hello\nend\n");
    assert_eq!(wait(&mut guarded), Exit::Code(0));

    let mut file = spec(&id, "cat");
    file.stdin = Stdin::File(fs::File::open("/proc/self/comm").expect("file"));
    let mut guarded = Guarded::spawn(file).expect("spawned");
    let mut text = String::new();
    guarded.take_stdout().expect("stdout").read_to_string(&mut text).expect("read");
    assert!(!text.is_empty());

    let mut guarded = start(&id, "cat");
    assert_eq!(wait(&mut guarded), Exit::Code(0), "no stdin is an empty one");
}

#[test]
fn the_command_inherits_no_more_than_without_a_guardian() {
    let id = session();
    let script = "ls /proc/self/fd; grep -E 'SigIgn|SigBlk' /proc/self/status";
    let plain = Command::new("sh").args(["-c", script]).output().expect("output");
    let mut guarded = start(&id, script);
    let mut text = Vec::new();
    guarded.take_stdout().expect("stdout").read_to_end(&mut text).expect("read");
    assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&plain.stdout));
}

#[test]
fn a_child_in_the_background_outlives_the_command_and_not_the_owner() {
    let id = session();
    let mut guarded = start(&id, "sleep 1000 >/dev/null 2>&1 &");
    let mut text = String::new();
    guarded.take_stdout().expect("stdout").read_to_string(&mut text).expect("read");
    assert_eq!(wait(&mut guarded), Exit::Code(0));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(sleepers(&id), 1);
    assert!(process::leftovers(&id).is_empty(), "a guarded process is no leftover");
    drop(guarded);
    assert_gone(&id);
}

#[test]
fn the_guardian_ends_when_nothing_is_left() {
    let id = session();
    let mut guarded = start(&id, "sleep 0.2 &");
    assert_eq!(wait(&mut guarded), Exit::Code(0));
    wait_for("the end of the guardian", || marked(&id).is_empty());
    guarded.end(Signal::TERM, Duration::ZERO);
    assert_eq!(guarded.try_wait().expect("try"), Some(Exit::Code(0)));
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
}

/// Away from the session, from the group and from the parent, deaf to what is polite.
const ESCAPE: &str = "(trap '' TERM HUP INT; setsid nohup sh -c 'setsid sleep 1000 & setsid sleep 1000 & \
                      env -i HIDDEN=$SEGUE_SESSION sleep 1000' >/dev/null 2>&1 &) & sleep 1000";

#[test]
fn who_ran_from_session_group_and_parent_ends_too() {
    let id = session();
    let guarded = start(&id, ESCAPE);
    wait_for("the runaways", || sleepers(&id) >= 4);
    drop(guarded);
    assert_gone(&id);
}

#[test]
fn a_killed_segue_takes_everything_along() {
    let id = session();
    let mut owner = Command::new(helper())
        .args(["sh", "-c", ESCAPE])
        .env(process::SESSION_VAR, &id)
        .spawn()
        .expect("owner");
    wait_for("the runaways", || sleepers(&id) >= 4);
    owner.kill().expect("killed");
    assert_eq!(owner.wait().expect("status").signal(), Some(9));
    assert_gone(&id);
}

#[test]
fn the_guardian_is_deaf_to_signals() {
    let id = session();
    let mut guarded = start(&id, "sleep 1000");
    let guardian = Pid::from_raw(guarded.guardian_pid().cast_signed()).expect("pid");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::PIPE] {
        kill_process(guardian, signal).expect("sent");
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(guarded.try_wait().expect("try"), None);
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
}

#[test]
fn ending_is_polite_first() {
    let id = session();
    let mut guarded = start(&id, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
    let mut ready = [0; 6];
    guarded.take_stdout().expect("stdout").read_exact(&mut ready).expect("ready");
    guarded.end(Signal::TERM, LIMIT);
    assert_eq!(wait(&mut guarded), Exit::Code(7));
}

#[test]
fn who_ignores_the_signal_is_killed_after_the_grace() {
    let id = session();
    let mut guarded = start(&id, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    let mut stdout = guarded.take_stdout().expect("stdout");
    stdout.read_exact(&mut [0; 6]).expect("ready");
    let begun = Instant::now();
    guarded.end(Signal::TERM, Duration::from_millis(200));
    assert_eq!(wait(&mut guarded), Exit::Signal(9));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_gone(&id);
}

#[test]
fn ending_reaches_what_the_command_left_behind() {
    let id = session();
    let mut guarded = start(&id, "setsid sleep 1000 >/dev/null 2>&1 & sleep 0.05");
    assert_eq!(wait(&mut guarded), Exit::Code(0));
    assert_eq!(sleepers(&id), 1);
    guarded.end(Signal::TERM, LIMIT);
    assert_gone(&id);
}

#[test]
fn a_storm_of_forks_ends() {
    let id = session();
    // Three layers of loops; bounded, so that a failing test does not take the machine along.
    let storm = "for i in 1 2 3 4; do (for j in $(seq 60); do (setsid sleep 1000 & sleep 1000) & \
                 sleep 0.005; done) & done; wait";
    let guarded = start(&id, storm);
    wait_for("the storm", || sleepers(&id) >= 40);
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
    assert!(marked(&id).is_empty(), "{:#?}", marked(&id));
}

#[test]
fn a_chain_that_forks_and_dies_is_caught() {
    let id = session();
    // Each link starts the next one and is gone: no look at the processes sees it twice. Bounded,
    // like the storm.
    let link = "echo $1 >\"$0.count\"; [ $1 -gt 5000 ] || { setsid sh \"$0\" $(($1+1)) & }";
    let file = std::env::temp_dir().join(&id);
    let counter = std::env::temp_dir().join(format!("{id}.count"));
    fs::write(&file, link).expect("written");
    let guarded = start(&id, &format!("sh '{}' 0", file.display()));
    let number = || -> u32 {
        let text = fs::read_to_string(&counter).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    };
    wait_for("the chain", || number() > 20);
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::Clean);
    let last = fs::read_to_string(&counter).expect("counter");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(fs::read_to_string(&counter).expect("counter"), last);
    assert!(number() < 5000, "it did not end by itself");
    assert!(marked(&id).is_empty(), "{:#?}", marked(&id));
    fs::remove_file(file).expect("removed");
    fs::remove_file(counter).expect("removed");
}

#[test]
fn a_lost_guardian_is_noticed_and_its_tree_is_found() {
    let id = session();
    let mut guarded = start(&id, ESCAPE);
    wait_for("the runaways", || sleepers(&id) >= 4);
    kill(guarded.guardian_pid());
    assert_eq!(wait(&mut guarded), Exit::GuardianLost);
    guarded.end(Signal::TERM, Duration::ZERO);
    assert_eq!(guarded.kill_tree().expect("kill"), Ended::GuardianLost);

    let left = process::leftovers(&id);
    assert!(left.len() >= 5, "{left:?}");
    assert!(left.iter().any(|one| one.command == "sleep 1000"));
    let sweep = process::end_leftovers(&id, LIMIT);
    assert!(sweep.found.len() >= 5 && sweep.alive.is_empty(), "{sweep:?}");
    assert_gone(&id);
    assert_eq!(process::end_leftovers(&id, LIMIT), process::Sweep::default());
}

#[test]
fn a_sweep_spares_other_sessions() {
    let (mine, other) = (session(), session());
    let mut guarded = start(&other, "sleep 1000");
    assert!(process::end_leftovers(&mine, LIMIT).found.is_empty());
    assert!(process::end_leftovers(&other, LIMIT).found.is_empty(), "it has a guardian");
    assert_eq!(guarded.try_wait().expect("try"), None);
}

#[test]
fn killing_segue_at_any_moment_leaves_nothing() {
    let id = session();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut owner = Command::new(helper())
            .args(["sh", "-c", "setsid sleep 1000 & (setsid nohup sleep 1000 &) & sleep 1000"])
            .env(process::SESSION_VAR, &id)
            .stdout(Stdio::null())
            .spawn()
            .expect("owner");
        thread::sleep(Duration::from_micros((random >> 33) % 10_000));
        owner.kill().expect("killed");
        owner.wait().expect("status");
    }
    assert_gone(&id);
}
