//! Vendors' agents under Segue: what a turn costs more than without it, and how fast a stream is
//! read. The agents are real, their model is scripted; those that are not installed are skipped.
//!
//! `cargo bench -p segue-cli --bench agents`; with `SEGUE_BENCH_STRICT=1` a missed goal is a failure.

use std::{
    collections::BTreeMap,
    error::Error,
    fs::{self, File},
    io::{BufWriter, Read, Write},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use segue_agents::vendor::{self, Conversation, Heard, Job, Lines, Vendor, World, look_up};
use segue_core::Permission;
use segue_testkit::{
    model_server::Reply,
    vendors::{Cli, Lab},
};
use serde_json::Value;

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// Measures, prints, and counts the goals that it missed.
type Bench = fn(&mut u32) -> Done;

const SEGUE: &str = env!("CARGO_BIN_EXE_segue");

/// Counted runs of each of the two, after one that is not.
const RUNS: usize = 7;
const PROMPT: &str = "What is this repository about?";
const ANSWER: &str = "It is a repository with one file, a readme whose only line is a heading. \
    There is no code in it yet, no licence, and nothing that would tell what it is going to be. ";

const MB: u64 = 1_000_000;
/// What this program is called with to be the one who reads a stream.
const READ: &str = "--read-stream";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(file) = args.iter().position(|arg| arg == READ).and_then(|at| args.get(at + 1)) {
        return finished(READ, read_stream(Path::new(file)));
    }
    let mut missed = 0;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {} (of others; what is measured suffers from it)", load.trim());
    let benches: [(&str, Bench); 2] = [("streams", streams), ("overhead", overhead)];
    for (name, bench) in benches {
        println!("── {name}");
        let done = bench(&mut missed);
        if done.is_err() {
            return finished(name, done);
        }
    }
    let strict = std::env::var_os("SEGUE_BENCH_STRICT").is_some();
    ExitCode::from(u8::from(strict && missed > 0))
}

fn finished(name: &str, done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn goal(missed: &mut u32, what: &str, value: f64, most: f64, unit: &str) {
    let word = if value <= most { "met" } else { "MISSED" };
    *missed += u32::from(value > most);
    println!("{what:<44} {value:>9.3}{unit}  (goal: at most {most}{unit}, {word})");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Runs a command to its end with a text to read, and takes all that it says.
fn timed(command: &mut Command, input: &str) -> Done<(Duration, String)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take()
        && !input.is_empty()
    {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let time = start.elapsed();
    match output.status.success() {
        true => Ok((time, String::from_utf8(output.stdout)?)),
        false => Err(format!("{command:?}: {}", output.status).into()),
    }
}

/// How far the slowest of some runs is from the fastest.
fn spread(times: &[Duration]) -> f64 {
    let ends = times.iter().max().zip(times.iter().min());
    ends.map_or(0.0, |(most, least)| most.div_duration_f64(*least) - 1.0)
}

/// The most memory that a process has had so far, in MiB.
fn high_water(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    found.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib / 1024.0)
}

// ── overhead ─────────────────────────────────────────────────────────────────────────────────────

fn overhead(missed: &mut u32) -> Done {
    println!("one tool call and one answer, streamed; median of {RUNS} runs each, taking turns");
    println!(
        "spread: how much longer than the fastest the slowest direct run took, by other causes"
    );
    println!("agent      direct     segue    ratio  difference   spread   segue, guardian   cpu");
    let mut seen = Vec::new();
    for (cli, word) in [(Cli::Claude, "claude"), (Cli::Gemini, "gemini"), (Cli::Codex, "codex")] {
        if let Some(lab) = Lab::open(cli) {
            seen.push((word, agent(lab, word)?));
        }
    }
    println!("codex: Segue speaks with `codex app-server`, direct is `codex exec`; no goal");
    for (word, (ratio, mib)) in seen {
        if word != "codex" {
            goal(missed, &format!("{word}: wall time, segue / direct"), ratio, 1.03, "");
        }
        goal(missed, &format!("{word}: memory of segue and guardian"), mib, 40.0, " MiB");
    }
    Ok(())
}

/// One agent with and without Segue: the ratio of the times, and what Segue takes in memory.
fn agent(mut lab: Lab, word: &str) -> Done<(f64, f64)> {
    let vendor = vendor::find(word).ok_or("no such vendor")?;
    let slow =
        |reply: Reply| reply.delay(Duration::from_millis(600)).slow(Duration::from_millis(25));
    let mut scenario = lab.scenario();
    for _ in 0..2 * (1 + RUNS) {
        let call = Reply { text: "I look at what is there.".into(), ..lab.shell("cat README.md") };
        scenario = scenario.reply(slow(call)).reply(slow(Reply::text(ANSWER.repeat(6))));
    }
    lab.start(scenario);

    let took = watched(&mut under_segue(&lab, word))?;
    same_call(&lab, &*vendor)?;
    timed(&mut direct(&lab, &*vendor, &uuid()?)?.0, PROMPT)?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for run in 0..2 * RUNS {
        // Each is first as often as the other.
        let said = if matches!(run % 4, 0 | 3) {
            let (time, said) = timed(&mut direct(&lab, &*vendor, &uuid()?)?.0, PROMPT)?;
            theirs.push(time);
            said
        } else {
            let (time, said) = timed(&mut under_segue(&lab, word), "")?;
            ours.push(time);
            said
        };
        if !said.contains("heading") {
            return Err(format!("{word} did not say what its model said: {said}").into());
        }
    }
    let turns = lab.turns().len();
    if turns != 4 * (1 + RUNS) {
        return Err(format!("{word} asked its model {turns} times").into());
    }
    let spread = spread(&theirs) * 100.0;
    let (theirs, ours) = (median(theirs), median(ours));
    let ratio = ours.div_duration_f64(theirs);
    let (theirs, ours) = (theirs.as_secs_f64(), ours.as_secs_f64());
    let more = (ours - theirs) * 1e3;
    let Took { segue, guardian, cpu_ms } = took;
    println!(
        "{word:<8} {theirs:>7.3} s {ours:>7.3} s {ratio:>8.3} {more:>+8.0} ms {spread:>6.0} % \
         {segue:>6.1} + {guardian:.1} MiB {cpu_ms:>4.0} ms"
    );
    Ok((ratio, segue + guardian))
}

fn under_segue(lab: &Lab, word: &str) -> Command {
    let mut command = lab.command(SEGUE);
    command.args(["run", word, PROMPT, "--permission", "full"]);
    command
}

/// The agent as Segue would start it, and how the journal would put it. Codex, whose server Segue
/// speaks with, is called as a person would.
fn direct(lab: &Lab, vendor: &dyn Vendor, id: &str) -> Done<(Command, String)> {
    let set = lab.command(SEGUE);
    let text = |word: &std::ffi::OsStr| word.to_str().map(str::to_owned);
    let env = set.get_envs().filter_map(|(name, value)| Some((text(name)?, text(value?)?)));
    let world = World {
        home: lab.home(),
        env: env.collect::<BTreeMap<_, _>>(),
        root: rustix::process::geteuid().is_root(),
    };
    let found = look_up(&world, vendor.card().programs).ok_or("the agent is not in PATH")?;
    let program = vendor.behind(found);
    let mut command = lab.command(&program.path);
    if lab.cli() == Cli::Codex {
        command.args(Cli::Codex.headless("-"));
        return Ok((command, String::new()));
    }
    let call = vendor.call(&Job {
        tools: None,
        prompt: PROMPT,
        cwd: &lab.work(),
        conversation: Conversation::New { id },
        permission: Permission::Full,
        model: None,
        extra: &[],
        world: &world,
        files: &lab.work(),
    });
    command.args(&call.args);
    for variable in &call.env {
        if !(variable.keep && world.get(variable.name).is_some()) {
            command.env(variable.name, &variable.value);
        }
    }
    Ok((command, format!("{} {}", program.path.display(), call.shown())))
}

/// Whether the agent is called in the same way with and without Segue.
fn same_call(lab: &Lab, vendor: &dyn Vendor) -> Done {
    let (_, log) = timed(lab.command(SEGUE).args(["log", "1", "--json"]), "")?;
    let events = log.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let started = events.iter().find(|event| event["kind"] == "agent.started");
    let started = &started.ok_or("the journal has no agent.started")?["data"];
    let id = started["vendor_session"].as_str().unwrap_or_default();
    let (_, ours) = direct(lab, vendor, id)?;
    match ours.is_empty() || started["command"] == *ours {
        true => Ok(()),
        false => Err(format!("Segue calls {}, and this bench {ours}", started["command"]).into()),
    }
}

/// A new id for a session.
fn uuid() -> Done<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// What Segue and its guardian took: the most memory, and the processor, in steps of 10 ms.
#[derive(Default)]
struct Took {
    segue: f64,
    guardian: f64,
    cpu_ms: f64,
}

fn watched(command: &mut Command) -> Done<Took> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut took = Took::default();
    while child.try_wait()?.is_none() {
        let guardians = guardians(child.id());
        took.segue = took.segue.max(high_water(child.id()).unwrap_or_default());
        let below = guardians.iter().copied().filter_map(high_water);
        took.guardian = below.fold(took.guardian, f64::max);
        let all = guardians.into_iter().chain([child.id()]);
        took.cpu_ms = took.cpu_ms.max(all.filter_map(cpu_ms).sum());
        std::thread::sleep(Duration::from_millis(5));
    }
    let exit = child.wait()?;
    match exit.success() && took.guardian > 0.0 {
        true => Ok(took),
        false => Err(format!("{command:?}: {exit}, a guardian of {} MiB", took.guardian).into()),
    }
}

/// What a process has taken of the processor, without its children.
fn cpu_ms(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    // A hundred to a second, on every Linux.
    Some(ticks.sum::<Result<f64, _>>().ok()? * 10.0)
}

/// The guardians that a process has started, from whichever thread.
fn guardians(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>())
        .flatten()
        .collect();
    let guards = |pid: &u32| {
        let args = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        args.split(|&byte| byte == 0).nth(1) == Some(b"__guardian")
    };
    children.into_iter().filter(guards).collect()
}

// ── streams ──────────────────────────────────────────────────────────────────────────────────────

/// Reads a stream of Claude Code as the driver does, in a process of its own, against `cat`.
fn streams(missed: &mut u32) -> Done {
    let temp = tempfile::tempdir()?;
    let mut peaks = Vec::new();
    println!("  size     lines   signals       cat      read       MB/s   read/cat   peak memory");
    for size in [25 * MB, 250 * MB] {
        let file = temp.path().join("stream.jsonl");
        write_stream(&file, size)?;
        let (mut theirs, mut ours, mut told) = (Vec::new(), Vec::new(), String::new());
        for run in 0..=RUNS {
            let mut cat = Command::new("sh");
            let (cat, _) = timed(cat.args(["-c", "exec cat \"$0\" > /dev/null"]).arg(&file), "")?;
            let (read, said) =
                timed(Command::new(std::env::current_exe()?).arg(READ).arg(&file), "")?;
            // The first has the file read into memory.
            if run > 0 {
                theirs.push(cat);
                ours.push(read);
            }
            told = said;
        }
        let told: Vec<f64> = told.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [lines, signals, peak] = told[..] else { return Err("no report".into()) };
        let (theirs, ours) = (median(theirs), median(ours));
        let ratio = ours.div_duration_f64(theirs);
        println!(
            "{:>3} MB {lines:>9} {signals:>9} {:>6.0} ms {:>6.0} ms {:>10.0} {ratio:>10.1} \
             {peak:>9.1} MiB",
            size / MB,
            theirs.as_secs_f64() * 1e3,
            ours.as_secs_f64() * 1e3,
            (size / MB) as f64 / ours.as_secs_f64(),
        );
        peaks.push(peak);
    }
    let [short, long] = peaks[..] else { return Err("no two sizes".into()) };
    goal(missed, "peak memory, 250 MB / 25 MB", long / short, 1.1, "");
    Ok(())
}

/// What the driver does with a program's bytes, up to the signals. Prints how many lines and
/// signals there were, and the most memory that it took.
fn read_stream(file: &Path) -> Done {
    let world = World::default();
    let nowhere = Path::new("/");
    let mut dialogue = vendor::claude::Claude.dialogue(&Job {
        tools: None,
        prompt: PROMPT,
        cwd: nowhere,
        conversation: Conversation::New { id: "" },
        permission: Permission::Full,
        model: None,
        extra: &[],
        world: &world,
        files: nowhere,
    });
    dialogue.open();
    let (mut lines, mut heard) = (Lines::default(), Heard::default());
    let (mut count, mut unread, mut signals) = (0u64, 0u64, 0u64);
    let mut each = |line: Option<&[u8]>| {
        count += 1;
        let read = line.is_some_and(|line| dialogue.line(line, &mut heard).is_ok());
        unread += u64::from(!read);
        signals += std::mem::take(&mut heard.signals).len() as u64;
    };
    let mut file = File::open(file)?;
    let mut buffer = vec![0; 64 << 10];
    while let got @ 1.. = file.read(&mut buffer)? {
        lines.push(&buffer[..got], &mut each);
    }
    lines.finish(each);
    if unread > 0 {
        return Err(format!("{unread} of {count} lines could not be read").into());
    }
    println!("{count} {signals} {}", high_water(std::process::id()).unwrap_or_default());
    Ok(())
}

/// Repeats what Claude Code 2.1 prints for a model call with thinking, text, a tool call and its
/// result. Half of it are pieces, a third are results, which its lines have twice.
fn write_stream(file: &Path, size: u64) -> Done {
    let mut out = BufWriter::new(File::create(file)?);
    let step = step()?;
    let init = format!(
        r#"{{"type":"system","subtype":"init","cwd":"/work","session_id":"{SESSION}","tools":["Task","Bash","Edit","Read","Write"],"mcp_servers":[],"model":"{MODEL}","permissionMode":"acceptEdits","claude_code_version":"2.1.325","uuid":"{UUID}"}}"#
    );
    writeln!(out, "{init}")?;
    for _ in 0..size / step.len() as u64 {
        out.write_all(step.as_bytes())?;
    }
    Ok(out.into_inner()?.sync_all()?)
}

const SESSION: &str = "e2df18b0-7f74-4c83-9ef8-f8c4b96b931c";
const UUID: &str = "74a3f373-095d-490c-9600-9a775bfe0d35";
const MODEL: &str = "claude-opus-4-5";
const MESSAGE: &str = "msg_01XFDUDYJgAACzvnptvVoYEL";
const CALL: &str = "toolu_01A09q90qw90lq917835lq9";
const TOKENS: &str = r#"{"input_tokens":100,"cache_read_input_tokens":12000,"cache_creation_input_tokens":400,"output_tokens":20,"service_tier":"standard"}"#;

fn step() -> Done<String> {
    let thought = "I should look at the file first, and only then say what it is that it holds. ";
    let answer = "The driver starts the program, reads its lines and records what they mean. ";
    let source = "    let \"this\" = line.of_some(source_code)?;\t// as a file would have it\n";
    let input = r#"{"command":"cat crates/runner/src/vendor/play.rs","description":"Look"}"#;
    let (thought, answer) = (thought.repeat(4), answer.repeat(12));
    let thinking =
        format!(r#"{{"type":"thinking","thinking":"{thought}","signature":"c2lnbmF0dXJl"}}"#);
    let text = format!(r#"{{"type":"text","text":"{answer}"}}"#);
    let call = format!(r#"{{"type":"tool_use","id":"{CALL}","name":"Bash","input":{input}}}"#);

    let mut lines = vec![format!(
        r#"{{"type":"system","subtype":"status","status":"requesting","session_id":"{SESSION}","uuid":"{UUID}"}}"#
    )];
    lines.push(event(&format!(
        r#"{{"type":"message_start","message":{{"id":"{MESSAGE}","type":"message","role":"assistant","model":"{MODEL}","content":[],"stop_reason":null,"stop_sequence":null,"usage":{TOKENS}}}}}"#
    )));
    let blocks = [
        (r#"{"type":"thinking","thinking":"","signature":""}"#, "thinking", thought, thinking),
        (r#"{"type":"text","text":""}"#, "text", answer, text),
        (
            r#"{"type":"tool_use","id":"toolu","name":"Bash","input":{}}"#,
            "partial_json",
            input.to_owned(),
            call,
        ),
    ];
    for (index, (start, field, whole, block)) in blocks.into_iter().enumerate() {
        block_lines(&mut lines, index, start, field, &whole, &block)?;
    }
    lines.push(event(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"tool_use","stop_sequence":null}},"usage":{TOKENS}}}"#
    )));
    lines.push(event(r#"{"type":"message_stop"}"#));
    let output = serde_json::to_string(&source.repeat(100))?;
    lines.push(format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{CALL}","type":"tool_result","content":{output},"is_error":false}}]}},"parent_tool_use_id":null,"session_id":"{SESSION}","uuid":"{UUID}","timestamp":"2026-11-16T01:32:16.474Z","tool_use_result":{{"stdout":{output},"stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}}}}"#
    ));
    Ok(lines.join("\n") + "\n")
}

/// A block of a message: its pieces, and then all of it.
fn block_lines(
    lines: &mut Vec<String>,
    index: usize,
    start: &str,
    field: &str,
    whole: &str,
    block: &str,
) -> Done {
    let kind = if field == "partial_json" { "input_json" } else { field };
    lines.push(event(&format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#
    )));
    for piece in whole.as_bytes().chunks(18) {
        let piece = serde_json::to_string(std::str::from_utf8(piece)?)?;
        lines.push(event(&format!(
            r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}_delta","{field}":{piece}}}}}"#
        )));
    }
    lines.push(format!(
        r#"{{"type":"assistant","message":{{"id":"{MESSAGE}","type":"message","role":"assistant","model":"{MODEL}","content":[{block}],"stop_reason":null,"stop_sequence":null,"usage":{TOKENS},"context_management":null}},"parent_tool_use_id":null,"session_id":"{SESSION}","uuid":"{UUID}","timestamp":"2026-11-16T01:32:16.305Z"}}"#
    ));
    lines.push(event(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#)));
    Ok(())
}

/// An event of the model's API, passed on.
fn event(event: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{event},"session_id":"{SESSION}","parent_tool_use_id":null,"uuid":"{UUID}","api_message_id":"{MESSAGE}"}}"#
    )
}
