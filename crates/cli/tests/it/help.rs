//! Every command's help.

use insta::assert_snapshot;
use segue_testkit::env::{Output, TestEnv};

use crate::support::{at_width, env};

#[test]
fn the_help_of_segue() {
    let env = env();
    assert_snapshot!(at_width(&env, 100, &["--help"]), @"
    status 0
    ── stdout
    Run coding agents so that no run is ever lost

    Every turn is on disk while it happens. Kill it, lose the connection, close the lid: `segue resume`
    goes on at exactly that point.

    Usage: segue [OPTIONS] <COMMAND>

    Commands:
      run          Start an agent on a prompt
      pair         One agent works, others review, until they agree
      tasks        Work through a list of tasks, each until an evaluator accepts it
      crew         Several agents under one name, each at a terminal of its own
      resume       Go on where a session stopped
      handoff      Write the packet for whoever goes on, or hand a running session to another agent
      rewind       Go back to the end of an earlier turn
      fork         Begin a new session with what another one knows, at any of its steps
      replay       Tell a session again from its recording, or have it done again
      compare      Give the same task to several agents, each in a worktree of its own
      accept       Take over what a session made in a worktree of its own
      export       Put a session into one file, to go on with it elsewhere
      import       Bring a session in that was exported elsewhere
      list         List sessions, the latest first [alias: ls]
      show         Show all that is known of a session
      log          Show what happened, event by event
      diff         Compare two sessions: what they came to, what was said and done, and the files
      watch        Follow a session live, from another terminal
      bridge       What the participants of a pair say to each other
      attach       Show a session in tmux
      stop         Stop a session that is at work, so that it can be resumed
      dashboard    See all sessions at a glance, live
      verify       Check a session from its first byte to its last
      rm           Remove sessions for good
      gc           Clear away what no session needs any more
      config       Show or change settings
      agents       List the agents: which are installed, signed in, and what they can do
      doctor       Check that all is in place that the promises rest on
      demo         See it happen: runs are killed, resumed, handed over, rewound, reviewed and replayed,
                   and a list is worked on
      completions  Print completions for a shell
      man          Write man pages into a directory

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --home <DIR>
              Where Segue keeps its sessions [default: the nearest .segue above, else ~/.segue]

              [env: SEGUE_HOME]

          --json
              Print the result as JSON

          --color <WHEN>
              When to use colour

              [possible values: auto, always, never]

    Try it: segue demo   (under a minute, no account, no network)
    ── stderr
    ");
}

/// A command's help, without the part that all of them share.
fn help(env: &TestEnv, command: &str) -> String {
    let output = Output::of(&mut env.command([command, "--help"])).unwrap();
    assert_eq!((output.status, output.stderr.as_str()), (0, ""));
    let text: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    let text = text.join("\n");
    let (own, rest) = text.split_once("\nEverywhere:\n").unwrap();
    let shared = |line: &&str| line.is_empty() || line.starts_with(' ');
    let everywhere: Vec<&str> = rest.lines().take_while(shared).collect();
    for option in ["--home <DIR>", "--json", "--color <WHEN>"] {
        assert!(everywhere.join("\n").contains(option), "{option} in {text}");
    }
    let after: Vec<&str> = rest.lines().skip_while(shared).collect();
    format!("{own}\n{}", after.join("\n"))
}

#[test]
fn the_help_of_run_and_resume() {
    let env = env();
    assert_snapshot!(help(&env, "run"), @r#"
    Start an agent on a prompt

    The prompt is an argument, or comes from --prompt-file, or from standard input. What the agent says
    goes to standard output, all else to standard error.

    Usage: segue run [OPTIONS] [AGENT] PROMPT [-- FLAGS…]

    Arguments:
      [AGENT]
              Who works: claude, codex, gemini, copilot, cursor, opencode, … native, acp:COMMAND or
              exec:COMMAND; the configured one where only a prompt is given

      [PROMPT]
              What on; `-` reads it from standard input

      [FLAGS]...
              Flags for the vendor's program, passed on as they are

    Options:
          --prompt-file <FILE>
              Read the prompt from this file

      -m, --model <MODEL>
              The model: as the vendor's program calls it; for native anthropic/…, openai/…, chat/…,
              script:FILE

          --permission <WHAT>
              What the agent may do: read-only, edit (files in the workspace, and nothing more) or full
              [default: edit]

          --name <NAME>
              A name for the session

          --dir <DIR>
              Where the agent works [default: the working directory]

          --proof <COMMAND>
              The work is done when this command succeeds; its output is the next prompt until then

          --proof-time <TIME>
              The longest that the proof may take: 90s, 15m, 2h [default: 30m]

          --worktree
              Work in a worktree of the session's own, on its own branch

          --tmux
              Work in the background, and show it in tmux: closing that, or the terminal, stops nothing

      -h, --help
              Print help (see a summary with '-h')

    Limits and hand-offs:
          --fallback <AGENTS>
              Who goes on when the agent runs into its limit, in this order: codex,gemini,native

          --wait
              Where a limit stops the work and nobody else can go on, wait until it has reset

          --return
              Give the work back to the first agent once its limit has reset

          --resume
              Go on with the latest session of this repository, with this agent

          --from <SESSION>
              Go on with this session, with this agent

          --new
              Start anew, also where a session of this repository could be resumed

    Caps:
          --max-turns <N>
              Stop after so many turns; `none` lifts a cap, also of those below

          --max-iterations <N>
              Stop after so many attempts of the worker of a pair, or at one task of a list

          --max-reviews <N>
              Stop after so many reviews of a pair's work, or of one task of a list

          --max-steps <N>
              Stop after so many model calls in one turn

          --max-time <TIME>
              Stop after this time: 90s, 15m, 2h

          --max-tokens <N>
              Stop after so many tokens: 400k, 2M

          --max-cost <DOLLARS>
              Stop after so many dollars

    Examples:
      segue run "Fix the failing test"
      segue run claude "Fix the failing test"
      segue run codex "Explain this code" --permission read-only
      segue run acp:"opencode acp" "Fix the failing test"
      segue run native "Fix the failing test" --model anthropic/claude-sonnet-4-5
      segue run claude "Fix the failing test" --fallback codex,native
      segue run x --resume "Continue from the current state"
      segue run "Make it pass" --proof "cargo test" --max-turns 10 --max-time 2h
      segue run "Fix the failing test" --tmux
      git diff | segue run --model script:review.toml -
    "#);
    assert_snapshot!(help(&env, "resume"), @r#"
    Go on where a session stopped

    Prints its plan first. Without a SESSION, the latest of this repository that has something left to
    do.

    Usage: segue resume [OPTIONS] [SESSION] [PROMPT]

    Arguments:
      [SESSION]
              A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest

      [PROMPT]
              What to do next, `-` reads it from standard input; without it, the session goes on where
              it was

    Options:
          --prompt <PROMPT>
              The same, where no SESSION is named

          --dry-run
              Print the plan and stop

          --with <AGENT>
              Who goes on, where that is somebody else: a hand-off; where it stopped at a reviewer, who
              reviews in its place

          --reason <TEXT>
              Why, for the journal and for the one who takes over

          --return
              Give the work back to the agent that began, told what happened meanwhile

          --turn <N>
              Go back to the end of this turn first; 0 is the start

          --step <ID>
              Go back to just after this step: to the end of its turn where it was the last, else of the
              turn before

          --wait
              Where a limit has not reset yet, wait until it has

          --now
              Where a limit has not reset yet, try all the same

          --pick
              Choose from a list, also where one session is the obvious one

      -m, --model <MODEL>
              Another model for the agent

          --permission <WHAT>
              What the agent may do from now on: read-only, edit or full

          --fresh
              Go on in a new conversation of the vendor's, with a packet of what was done

          --dir <DIR>
              The workspace's new place, if it has moved

          --keep-files
              On another machine: keep files that differ from the checkpoint

          --restore-files
              Bring the files of the last checkpoint back, after a checkpoint of what is there

          --tmux
              Go on in the background, and show it in tmux

          --here
              Go on in this terminal, also where the session was begun with --tmux

      -h, --help
              Print help (see a summary with '-h')

    Caps:
          --max-turns <N>
              Stop after so many turns; `none` lifts a cap, also of those below

          --max-iterations <N>
              Stop after so many attempts of the worker of a pair, or at one task of a list

          --max-reviews <N>
              Stop after so many reviews of a pair's work, or of one task of a list

          --max-steps <N>
              Stop after so many model calls in one turn

          --max-time <TIME>
              Stop after this time: 90s, 15m, 2h

          --max-tokens <N>
              Stop after so many tokens: 400k, 2M

          --max-cost <DOLLARS>
              Stop after so many dollars

    Examples:
      segue resume                      the latest one of this repository
      segue resume 7                    by its number, from any directory
      segue resume refactor "Now the tests"
      segue resume 7 --dry-run          only the plan
      segue resume 7 --wait             after a limit, as soon as it has reset
      segue resume 7 --with codex       hand it to another agent
      segue resume 7 --return           give it back to the agent that began
      segue resume 7 --tmux             in the background, shown in tmux
      segue resume 7 --turn 8 "Another way"   go back to the end of turn 8 first
    "#);
}

#[test]
fn the_help_of_what_looks() {
    let env = env();
    assert_snapshot!(help(&env, "list"), @"
    List sessions, the latest first

    Usage: segue list [OPTIONS]

    Options:
      -a, --all              Of every repository, not only this one
          --status <STATUS>  Only these: running, crashed, completed, resumable, …
      -n, --limit <N>        At most so many; 0 for all [default: 20]
      -h, --help             Print help

    Examples:
      segue list                        of this repository
      segue list --all --status crashed
      segue list --all --limit 0 --json | jq '.[].id'
    ");
    assert_snapshot!(help(&env, "show"), @"
    Show all that is known of a session

    Usage: segue show [OPTIONS] [SESSION]

    Arguments:
      [SESSION]  A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest

    Options:
          --graph  Draw its steps as a graph: rewound branches, forks, where each turn begins
      -h, --help   Print help

    Examples:
      segue show                        the latest one of this repository
      segue show 7 --json | jq .usage
      segue show 7 --graph              its steps, with branches and forks
    ");
    assert_snapshot!(help(&env, "log"), @r#"
    Show what happened, event by event

    Usage: segue log [OPTIONS] [SESSION]

    Arguments:
      [SESSION]  A number, a name, an id or the start of one, a path, a .tine or .segue file, or @latest

    Options:
      -n, --last <N>      Only the last so many events, or steps
      -v, --verbose       With times, and with the events that only matter to Segue
          --steps         Step by step: each prompt, reply, tool answer and proof, with its id and what
                          it cost
          --up-to <STEP>  With --steps: only those that lead to this one, without what a rewind left
                          behind
      -h, --help          Print help

    Examples:
      segue log                         the latest session of this repository
      segue log 7 -n 20                 its last 20 events
      segue log 7 --steps               its steps: what was asked, answered, done, and what it cost
      segue log 7 --steps --up-to main  only what the conversation consists of
      segue log 7 --json | jq -c 'select(.kind == "tool.called")'
    "#);
    assert_snapshot!(help(&env, "dashboard"), @r#"
    See all sessions at a glance, live

    Those that run come first, then those that wait for a limit, a server or a resume. Enter follows one
    live; keys resume, stop and hand off; ? shows all of them. Without a terminal, the table is printed
    once.

    Usage: segue dashboard [OPTIONS]

    Options:
          --here
              Only the sessions of this repository

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue dashboard
      segue dashboard --here            only of this repository
      segue dashboard --json | jq '.[] | select(.status == "running") | .number'
    "#);
    assert_snapshot!(help(&env, "watch"), @"
    Follow a session live, from another terminal

    Ends when the session stops. Ctrl-C ends the watching, not the session.

    Usage: segue watch [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              A number, a name, an id or the start of one, a path, or @latest

    Options:
      -n, --last <N>
              How many events from before are shown first [default: 10, with --stay 200]

          --stay
              Go on after a stop, and wait for a directory that is not there yet

          --status
              Show how the session stands instead of what happens

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue watch                       the latest session of this repository
      segue watch 7 --json
      segue watch 7 --status            how it stands, in a few lines
      segue watch 7 --stay              across stops and resumes, until Ctrl-C
    ");
}

#[test]
fn the_help_of_what_keeps_house() {
    let env = env();
    assert_snapshot!(help(&env, "attach"), @"
    Show a session in tmux

    One pane for each agent, and one for how it stands. The panes only show: closing them, tmux or the
    terminal stops nothing. Without a terminal, prints how to attach.

    Usage: segue attach [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              A number, a name, an id or the start of one, a path, or @latest

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue attach                      the latest session of this repository
      segue attach 7                    from any directory; leave with Ctrl-B D
      segue stop 7                      stops the work, which closing does not
    ");
    assert_snapshot!(help(&env, "stop"), @"
    Stop a session that is at work, so that it can be resumed

    Whoever works on it is asked as Ctrl-C would: it records where it stands, and ends.

    Usage: segue stop [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              A number, a name, an id or the start of one, a path, or @latest

    Options:
          --wait <TIME>
              How long it may take

              [default: 60s]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue stop                        the latest session of this repository
      segue stop 7 --wait 5m
    ");
    assert_snapshot!(help(&env, "verify"), @"
    Check a session from its first byte to its last

    Every line, every link between lines, every blob. Changes nothing, unless --repair is given.

    Usage: segue verify [OPTIONS] [SESSION]

    Arguments:
      [SESSION]
              A number, a name, an id or the start of one, a path, @latest, or a .tine file

    Options:
          --all
              Every session of this home

          --repair
              Cut a damaged journal back to what is certain, keeping the whole of it beside

          --key-file <FILE>
              The file with the shared secret that a .tine file is signed with

          --key-env <NAME>
              The variable with it

          --pubkey <FILE>
              The file with the public key that a .tine file is signed with

          --require-signature
              Refuse a .tine file without a good signature

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue verify                      the latest session of this repository
      segue verify --all                every session of this home
      segue verify 7 --repair           go on with what is certain; the rest is kept aside
      segue verify run.tine             a file: its digest, its steps, its signature
    ");
    assert_snapshot!(help(&env, "rm"), @r"
    Remove sessions for good

    Their numbers are not given again. Files in the workspace are not touched; a worktree of the
    session's own goes with it, unless it holds work that is nowhere else.

    Usage: segue rm [OPTIONS] <SESSION>...

    Arguments:
      <SESSION>...
              Numbers, names, ids or starts of ids

    Options:
      -f, --force
              Do not ask, also where work is lost that is nowhere else

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue rm 7
      segue rm 7 8 refactor --force
    ");
    assert_snapshot!(help(&env, "config"), @"
    Show or change settings

    A setting comes from a flag, else from its environment variable, else from config.toml in the home,
    else from its default.

    Usage: segue config [OPTIONS] [COMMAND]

    Commands:
      get    Print one value
      set    Change one value; `-` reads it from standard input
      unset  Go back to the default
      path   Print where config.toml is

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue config
      segue config set model anthropic/claude-sonnet-4-5
      segue config set caps.time 2h
      segue config set anthropic.key -  < key.txt
      segue config set 'prices.chat/llama3.input' 0.2
    ");
    assert_snapshot!(help(&env, "agents"), @"
    List the agents: which are installed, signed in, and what they can do

    Usage: segue agents [OPTIONS]

    Options:
      -h, --help  Print help

    Examples:
      segue agents
      segue agents --json | jq -r '.[] | select(.installed) | .agent'
    ");
    assert_snapshot!(help(&env, "doctor"), @"
    Check that all is in place that the promises rest on

    Usage: segue doctor [OPTIONS]

    Options:
      -h, --help  Print help

    Examples:
      segue doctor
      segue doctor --home /mnt/other    would this place do?
    ");
}

#[test]
fn the_help_of_the_rest() {
    let env = env();
    assert_snapshot!(help(&env, "tasks"), @r#"
    Work through a list of tasks, each until an evaluator accepts it

    Each task is a commit on the session's own branch, which is never merged. A list is a directory with
    an overview.md and a page such as T-001-find-notes.md for each task, or a prd.json.

    Usage: segue tasks [OPTIONS] <COMMAND>

    Commands:
      new     Write a small list of tasks that says itself what goes where
      check   Check a list of tasks, and show what is in it
      prep    Prepare a session over a list, and start nothing
      run     Work through a list: start, or pick up what was prepared
      status  Where a list stands: each task with its state, rounds, spend and commit
      push    Push the branch with what was accepted
      pr      Push the branch, and open a pull request or say where to

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue tasks new plan              a small list that says what goes where
      segue tasks check plan            everything that is wrong with it
      segue tasks run plan --worker claude --evaluator codex --proof "cargo test"
      segue tasks status                what is done, what each task has cost
      segue resume                      after a stop: says its plan first
      segue tasks push                  the branch, for others to see
    "#);
    assert_snapshot!(help(&env, "demo"), @"
    See it happen: runs are killed, resumed, handed over, rewound, reviewed and replayed, and a list is
    worked on

    In a scratch repository, on the embedded model: no account, no network, under a minute.

    Usage: segue demo [OPTIONS]

    Options:
          --dir <DIR>
              Where to play it [default: a new directory for temporary files]

      -h, --help
              Print help (see a summary with '-h')

    Examples:
      segue demo
      segue demo --dir /tmp/see-it      keep it where it is easy to find
    ");
    assert_snapshot!(help(&env, "completions"), @"
    Print completions for a shell

    Usage: segue completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  Which shell [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help  Print help

    Example:
      segue completions bash > ~/.local/share/bash-completion/completions/segue
    ");
    assert_snapshot!(help(&env, "man"), @"
    Write man pages into a directory

    Usage: segue man [OPTIONS] <DIR>

    Arguments:
      <DIR>  Where to; made if it is not there

    Options:
      -h, --help  Print help

    Example:
      segue man ~/.local/share/man/man1
    ");
}

#[test]
fn help_needs_no_home() {
    let env = env();
    for args in [["run", "--help"], ["config", "-h"]] {
        let output = Output::of(env.command(args).env_remove("SEGUE_HOME").env_remove("HOME"));
        assert_eq!(output.unwrap().status, 0);
    }
    assert!(!env.home().exists());
}
