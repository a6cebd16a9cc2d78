//! Segue is killed while a program prints: what the stream file has, and the journal not yet, is
//! told by the next resume. No step is lost, and none is there twice.

use std::{fs, path::PathBuf, thread, time::Duration};

use segue_testkit::env::TestEnv;
use serde_json::{Value, json};

use crate::{
    stand_ins::{
        bin, calls, claude, command, done, init, lives, pid, piece, program, returns, segue,
        status, text, texts,
    },
    support::{data, env, kinds, start, until},
};

/// The first time it prints its lines slowly, some of them in two parts, and stays; the second time
/// it is done at once. It remembers its first prompt, and nothing else.
const SLOW: &str = r#"
echo $$ > claude.pid
echo "$*" >> starts
for word; do
    [ "$before" = --session-id ] && id=$word
    before=$word
done
if [ -e told.1 ]; then
    cat > told.2
    cat "$0.again"
    exit
fi
cat > told.1
mkdir -p "$HOME/.claude/projects/x"
echo '{"type":"user","message":{"content":"Take your time"}}' > "$HOME/.claude/projects/x/$id.jsonl"
n=0
while IFS= read -r line; do
    n=$((n + 1))
    case $((n % 4)) in
        0) rest=${line#????????????????????}
           printf %s "${line%"$rest"}"
           sleep 0.01
           printf '%s\n' "$rest" ;;
        *) printf '%s\n' "$line" ;;
    esac
done < "$0.said"
sleep 600
"#;

/// Texts with their pieces before them, and calls with their results after them.
fn long_stream() -> Vec<Value> {
    let mut lines = vec![init()];
    for n in 0..40 {
        let whole = format!("This is text {n} of many.");
        let (start, end) = whole.split_at(9);
        let id = format!("t{n}");
        lines.extend([piece(start), piece(end), text(&whole)]);
        lines.push(calls(&id, "Bash", &json!({ "command": format!("make {n}") })));
        lines.push(returns(&id, &format!("made {n}")));
    }
    lines.push(done());
    lines
}

fn slow_claude() -> TestEnv {
    let env = env();
    let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    fs::write(bin(&env).join("claude.said"), lines(&long_stream())).unwrap();
    fs::write(bin(&env).join("claude.again"), lines(&[text("I went on."), done()])).unwrap();
    program(&env, "claude", SLOW);
    env
}

/// A step in few words: what it was, and of what.
type Step = (String, String);

/// The steps that a stream has, up to where it was cut.
fn steps_of(stream: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut begun = String::new();
    let mut open = None;
    for line in stream.split(|&byte| byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let block = &line["message"]["content"][0];
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match (word(&line["type"]).as_str(), word(&block["type"]).as_str()) {
            ("stream_event", _) => begun.push_str(&word(&line["event"]["delta"]["text"])),
            (_, "text") => {
                begun.clear();
                steps.push(("text".to_owned(), word(&block["text"])));
            }
            (_, "tool_use") => {
                open = Some(word(&block["id"]));
                steps.push(("call".to_owned(), word(&block["id"])));
            }
            (_, "tool_result") => {
                open = None;
                steps.push(("done".to_owned(), word(&block["tool_use_id"])));
            }
            _ => {}
        }
    }
    if !begun.is_empty() {
        steps.push(("partial".to_owned(), begun));
    }
    steps.extend(open.map(|id| ("may_have_run".to_owned(), id)));
    steps
}

/// The steps of the first run that the journal has.
fn steps_in_journal(env: &TestEnv) -> Vec<Step> {
    let events = env.journal(1).unwrap();
    let mut starts = 0;
    let first_run = events.iter().take_while(|event| {
        starts += u32::from(event["kind"] == "agent.started");
        starts < 2
    });
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    first_run
        .filter_map(|event| {
            let (data, id) = (&event["data"], word(&event["id"]));
            Some(match event["kind"].as_str()? {
                "text.written" if data["partial"] == true => {
                    ("partial".to_owned(), word(&data["text"]["text"]))
                }
                "text.written" => ("text".to_owned(), word(&data["text"]["text"])),
                "tool.called" => ("call".to_owned(), id),
                "tool.returned" => (word(&data["status"]), id),
                _ => return None,
            })
        })
        .collect()
}

fn stream_file(env: &TestEnv) -> PathBuf {
    env.session_dir(1).unwrap_or_default().join("streams/0001-claude.jsonl")
}

fn starts(env: &TestEnv) -> Vec<String> {
    let text = fs::read_to_string(env.repo().join("starts")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Runs until the stream has so many bytes and a little longer, kills Segue, and goes on. Returns
/// what the stream had then. So many events more are taken off the journal, as if the kill had come
/// before they were written: the stream is always first.
fn killed_at(env: &TestEnv, bytes: usize, later: Duration, behind: usize) -> Vec<u8> {
    let mut child = start(&mut command(env, &["run", "claude", "Take your time"]));
    let long = || fs::metadata(stream_file(env)).is_ok_and(|found| found.len() >= bytes as u64);
    until("the stream", long);
    thread::sleep(later);
    child.kill().unwrap();
    child.wait().unwrap();
    let stream = fs::read(stream_file(env)).unwrap();
    forget_events(env, behind);
    let output = segue(env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert!(!lives(pid(env, "claude.pid")));
    stream
}

/// Takes events off the journal's end, but not the one that the program was started with.
fn forget_events(env: &TestEnv, count: usize) {
    let dir = env.session_dir(1).unwrap();
    let journal = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let started = lines.iter().position(|line| line.contains("\"kind\":\"agent.started\""));
    let kept = (lines.len() - count.min(lines.len())).max(started.unwrap() + 1);
    fs::write(dir.join("journal.jsonl"), lines[..kept].concat()).unwrap();
    if count > 0 {
        let _ = fs::remove_file(dir.join("state.json"));
    }
}

/// Kills at moments that are spread over the stream; `part` of 3.
fn at_many_moments(part: usize) {
    let whole = long_stream().iter().map(|line| line.to_string().len() + 1).sum::<usize>();
    for moment in (0..15).skip(part).step_by(3) {
        let env = slow_claude();
        // Up to 12 ms later, at any place between two lines or within one.
        let later = Duration::from_micros((moment as u64 * 7919 + 1301) % 12_000);
        let behind = [0, 1, 2, 5, 11][moment / 3];
        let stream = killed_at(&env, whole * moment / 15 + 1, later, behind);
        let wanted = steps_of(&stream);
        let at = format!("moment {moment}, {} bytes, {behind} events behind", stream.len());
        assert_eq!(steps_in_journal(&env), wanted, "{at}");
        assert_eq!(status(&env), "completed", "{at}");
        assert_eq!(data(&env, 1, "turn.started").len(), 1, "{at}");
        let starts = starts(&env);
        assert_eq!(starts.len(), 2, "{at}");
        let id = data(&env, 1, "agent.started")[0]["vendor_session"].as_str().unwrap().to_owned();
        assert!(starts[1].contains(&format!("--resume {id}")), "{at}: {}", starts[1]);
        // It has forgotten all but its prompt, and is told.
        let told = fs::read_to_string(env.repo().join("told.2")).unwrap();
        for (kind, what) in wanted.iter().filter(|(kind, _)| kind == "text" || kind == "partial") {
            assert!(
                told.contains(&format!("You had written: {what}\n")) || told.ends_with(what),
                "{at}: {kind} {what}: {told}"
            );
        }
        assert_eq!(segue(&env, &["verify", "1"]).status, 0, "{at}");
    }
}

#[test]
fn no_step_is_lost_and_none_is_there_twice_1() {
    at_many_moments(0);
}

#[test]
fn no_step_is_lost_and_none_is_there_twice_2() {
    at_many_moments(1);
}

#[test]
fn no_step_is_lost_and_none_is_there_twice_3() {
    at_many_moments(2);
}

#[test]
fn one_that_had_spoken_its_last_word_is_not_asked_again() {
    let env = slow_claude();
    let whole = long_stream().iter().map(|line| line.to_string().len() + 1).sum::<usize>();
    let stream = killed_at(&env, whole, Duration::ZERO, 3);
    assert!(stream.len() == whole);
    assert_eq!(steps_in_journal(&env), steps_of(&stream));
    assert_eq!(status(&env), "completed");
    assert_eq!(starts(&env).len(), 1);
    assert_eq!(data(&env, 1, "turn.ended")[0]["outcome"], "finished");
}

#[test]
fn a_text_that_was_half_written_is_kept() {
    let env = slow_claude();
    let lines = [init(), text("First."), piece("And th"), piece("en I")];
    let said: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(bin(&env).join("claude.said"), &said).unwrap();
    killed_at(&env, said.len(), Duration::ZERO, 1);
    assert_eq!(texts(&env), ["First.", "And then I", "I went on."]);
    assert_eq!(data(&env, 1, "text.written")[1]["partial"], true);
}

/// Segue died after the program's end was recorded, and before it was said what that means.
#[test]
fn one_whose_end_is_recorded_is_not_asked_again() {
    let env = env();
    let script = "echo start >> starts; say";
    claude(&env, &[init(), text("All done."), piece("Sti"), done()], script);
    assert_eq!(segue(&env, &["run", "claude", "Go"]).status, 0);
    let kinds = kinds(&env, 1);
    let exited = kinds.iter().position(|kind| kind == "agent.exited").unwrap();
    forget_events(&env, kinds.len() - exited - 1);

    let output = segue(&env, &["resume", "1"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(status(&env), "completed");
    assert_eq!(starts(&env).len(), 1, "it was asked again");
    assert_eq!(data(&env, 1, "agent.exited").len(), 1);
    assert_eq!(texts(&env), ["All done.", "Sti"]);
}

/// What a resumed agent was told once it knows.
#[test]
fn what_was_lost_is_told_once() {
    let env = slow_claude();
    let whole = long_stream().iter().map(|line| line.to_string().len() + 1).sum::<usize>();
    killed_at(&env, whole / 2, Duration::ZERO, 0);
    let read = || fs::read_to_string(env.repo().join("told.2")).unwrap();
    let told = read();
    assert!(told.contains("This is text 0 of many."), "{told}");
    // As its own program would have kept it.
    let id = data(&env, 1, "agent.started")[0]["vendor_session"].as_str().unwrap().to_owned();
    let file = env.path("user/.claude/projects/x").join(id + ".jsonl");
    let prompt = json!({ "type": "user", "message": { "content": told } });
    let lines = format!("{}{prompt}\n{}\n", fs::read_to_string(&file).unwrap(), text("I went on."));
    fs::write(&file, lines).unwrap();
    let output = segue(&env, &["resume", "1", "And now?"]);
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(read(), "And now?");
}
