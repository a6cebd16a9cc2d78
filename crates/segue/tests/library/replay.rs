//! Replays, reruns, forks, and what a model is really told when it goes on.

use std::fs;

use segue::{Agent, At, Caps, Error, How, Mode, Run, Secret, Settings, Status};
use segue_testkit::model_server::{ModelServer, Request, Scenario};

use crate::support::{Place, WRITER};

fn ids(run: &Run) -> Vec<String> {
    run.steps().unwrap().iter().map(|step| step.id.to_string()).collect()
}

fn journal(run: &Run) -> Vec<u8> {
    fs::read(run.journal().dir().join("journal.jsonl")).unwrap()
}

/// A model behind an API, which records what it is asked.
pub(crate) fn behind(place: &Place, server: &ModelServer) -> Agent {
    let settings = Settings {
        base_url: Some(server.url()),
        key: Some(Secret::new("sk-test")),
        ..Settings::default()
    };
    place.here(Agent::new("anthropic/claude-sonnet-4-5")).settings(settings)
}

pub(crate) fn asked(server: &ModelServer) -> Request {
    server.turns().last().unwrap().clone()
}

#[test]
fn a_replay_calls_nobody_and_is_the_same_every_time() {
    let place = Place::new();
    let agent = place.agent(WRITER);
    let run = agent.run("Write.").wait().unwrap();
    let before = journal(&run);
    // From here on every call would fail: no script, no workspace, no key, no such server.
    for entry in fs::read_dir(place.path("")).unwrap().flatten() {
        if entry.path().extension().is_some_and(|end| end == "toml") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    fs::remove_dir_all(place.repo()).unwrap();
    let nobody = Agent::new("anthropic/none")
        .settings(Settings { base_url: Some("http://127.0.0.1:1".into()), ..Settings::default() });
    let (one, two) =
        (run.replay(At::Last).unwrap(), nobody.replay(&run, Mode::Cache).wait().unwrap());
    for replayed in [&one, &two] {
        assert_eq!(ids(replayed), ids(&run));
        assert_eq!(replayed.status().unwrap(), Status::Completed);
        assert_eq!(replayed.lineage().unwrap().how, How::Replayed);
        assert!(replayed.verify().unwrap().reproduces());
        assert_eq!(replayed.prompt().unwrap(), "Write.");
    }
    assert_ne!(one.id(), two.id());
    // A part of it, and a replay of a replay.
    let part = run.replay(3).unwrap();
    assert_eq!(ids(&part), ids(&run)[..4]);
    assert_eq!(ids(&one.replay(At::Last).unwrap()), ids(&run));
    assert_eq!(journal(&run), before);
    assert!(!place.repo().exists());
}

#[test]
fn a_tampered_run_is_found() {
    let place = Place::new();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    let replayed = run.replay(At::Last).unwrap();
    let text = String::from_utf8(journal(&run)).unwrap();
    assert!(text.contains("I write."));
    fs::write(run.journal().dir().join("journal.jsonl"), text.replacen("I write.", "I wrote.", 1))
        .unwrap();
    assert!(!replayed.verify().unwrap().reproduces());
}

#[test]
fn whoever_resumes_from_an_earlier_step_knows_nothing_of_later_ones() {
    let place = Place::with_git();
    let server =
        ModelServer::start(Scenario::new().text("ALPHA").text("BETA").text("GAMMA").text("DELTA"))
            .unwrap();
    let agent = behind(&place, &server);
    let run = agent.run("first question").wait().unwrap();
    let run = agent.resume(&run, At::Last, "second question").wait().unwrap();
    let all = asked(&server).texts().join("\n");
    for word in ["first question", "ALPHA", "second question"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    // Step 1 is the answer to the first question.
    let before = journal(&run);
    let other = agent.resume(&run, 1, "another question").wait().unwrap();
    let told = asked(&server).texts().join("\n");
    for word in ["first question", "ALPHA", "another question"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    for word in ["second question", "BETA"] {
        assert!(!told.contains(word), "{word}: {told}");
    }
    assert_eq!(run.diff(&other).unwrap().shared, 2);
    assert_eq!(journal(&run), before);
    // By its id, and by its name.
    let step = run.steps().unwrap()[1].id;
    let named = agent.resume(&run, step, "once more").wait().unwrap();
    assert_eq!(ids(&named)[..2], ids(&run)[..2]);
}

#[test]
fn a_rerun_gets_the_recorded_context_and_the_files_of_the_start() {
    let place = Place::with_git();
    let run = place.agent(WRITER).run("Write the letters.").wait().unwrap();
    let server =
        ModelServer::start(Scenario::new().text("Done again.").text("And again.")).unwrap();
    let agent = behind(&place, &server);
    let rerun = agent.replay(&run, Mode::Rerun).wait().unwrap();
    let told = asked(&server).texts().join("\n");
    for word in ["Write the letters.", "I write.", "nothing of what is told about it is there"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(rerun.lineage().unwrap().how, How::Replayed);
    let tree = rerun.workspace().unwrap();
    assert_ne!(tree, place.repo());
    assert!(tree.join("first.txt").exists() && !tree.join("a.txt").exists());
    assert!(place.repo().join("a.txt").exists());
    assert!(run.diff(&rerun).unwrap().differences() > 0);
    // With another task, told a part of it.
    let part = agent.rerun(&run, 3, Some("Write numbers.")).wait().unwrap();
    let told = asked(&server).texts().join("\n");
    assert!(told.contains("Write numbers.") && !told.contains("Written."), "{told}");
    assert_eq!(part.status().unwrap(), Status::Completed);
}

#[test]
fn what_is_only_to_be_looked_at_is_done_again_by_somebody() {
    let place = Place::with_git();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    let branch = run.leave(At::Last, How::Replayed).unwrap();
    let (repo, permission) = (place.repo(), run.permission());
    let like = segue::branch::With {
        agent: "native".into(),
        model: None,
        permission,
        prompt: "Write.".into(),
        workspace: repo,
        worktree: false,
        caps: Default::default(),
        proof: None,
        name: None,
        sealed: true,
        segue: "test".into(),
    };
    let sealed = run.fork_with(branch, like).unwrap();
    assert!(!sealed.manifest().unwrap().resume);
    // What comes of it is that one's work, and can be gone on with.
    let rerun = place.agent(WRITER).replay(&sealed, Mode::Rerun).wait().unwrap();
    assert!(rerun.manifest().unwrap().resume);
    place.runs().load(rerun.selector()).unwrap().hold().unwrap();
}

#[test]
fn nobody_is_asked_nothing() {
    let place = Place::with_git();
    let agent = place.agent(WRITER);
    let run = agent.run("Write.").wait().unwrap();
    for work in [
        agent.run(" \n"),
        agent.resume(&run, At::Last, ""),
        agent.resume(&run, 3, "  "),
        agent.rerun(&run, At::Last, Some("\t")),
    ] {
        let error = work.wait().unwrap_err();
        assert!(matches!(error, Error::NoPrompt), "{error}");
    }
    assert_eq!(place.runs().all().unwrap().len(), 1);
}

#[test]
fn steps_have_names() {
    let place = Place::with_git();
    let agent = place.agent(WRITER);
    let run = agent.run("Write.").wait().unwrap();
    let steps = ids(&run);
    let fork = run.fork(3).unwrap();
    run.replay(4).unwrap();
    let rerun = agent.replay(&run, Mode::Rerun).wait().unwrap();
    let named = |run: &Run| {
        let refs = run.refs().unwrap().into_iter();
        refs.map(|(name, id)| (name, id.to_string())).collect::<Vec<_>>()
    };
    let at = |name: &str, step: usize| (name.to_owned(), steps[step].clone());
    let expected = [at("fork/2", 3), at("main", 4), at("replay/3", 4), at("rerun/4", 4)];
    assert_eq!(named(&run), expected);
    // And where another one's part ends.
    assert_eq!(named(&fork), [at("base", 3), at("main", 3)]);
    assert_eq!(named(&rerun)[0], at("base", 4));
    // Each of them will do where a step is asked for.
    assert_eq!(ids(&run.replay("fork/2").unwrap()), steps[..4]);
    assert_eq!(ids(&rerun.replay("base").unwrap()), steps);
    assert_eq!(ids(&fork.fork("main").unwrap()), steps[..4]);
    for word in ["base", "fork/9", "fork/", "/2", "fork/2/"] {
        let error = run.replay(word).unwrap_err();
        assert!(matches!(error, Error::NoStep(_)), "{word}: {error}");
    }
}

#[test]
fn where_there_can_be_no_worktree_nothing_is_left_of_a_rerun() {
    let place = Place::new();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    assert!(place.agent(WRITER).replay(&run, Mode::Rerun).wait().is_err());
    assert_eq!(place.runs().all().unwrap().len(), 1);
}

#[test]
fn a_fork_costs_the_same_however_long_the_run_is() {
    let place = Place::new();
    let replies: String = (0..60)
        .map(|at| {
            format!(
                "[[reply]]\ntext = \"On.\"\n\
                 tools = [ {{ name = \"glob\", input = {{ pattern = \"{at}*\" }} }} ]\n"
            )
        })
        .collect();
    let long = format!("{replies}[[reply]]\ntext = \"Done.\"\n");
    let short = place.agent(WRITER).run("Write.").wait().unwrap();
    let long = place.agent(&long).run("Write.").wait().unwrap();
    assert!(long.steps().unwrap().len() > 100);
    let before = journal(&long);
    let (one, other) = (short.fork(At::Last).unwrap(), long.fork(At::Last).unwrap());
    let (one, size) = (journal(&one).len(), journal(&other).len());
    assert!(size < one + 500, "{size} and {one} bytes");
    assert_eq!(ids(&other), ids(&long));
    assert_eq!(journal(&long), before);
    // It waits, and whoever goes on has all of it.
    assert_eq!(other.status().unwrap(), Status::Rewound);
}

#[test]
fn an_agents_own_proof_goes_with_it_wherever_it_works() {
    let place = Place::with_git();
    let run = place.agent(WRITER).proof("test -f first.txt").run("Write.").wait().unwrap();
    let proof = |run: &Run| run.state().identity.as_ref().unwrap().proof.clone();
    let own = place.agent(WRITER).proof("test -d .");
    let none = place.agent(WRITER);
    for (agent, expected) in [(&own, "test -d ."), (&none, "test -f first.txt")] {
        let made = [
            agent.resume(&run, At::Last, "Go on."),
            agent.rerun(&run, At::Last, None),
            agent.replay(&run, Mode::Rerun),
            agent.replay(&run, Mode::Continue),
        ];
        for work in made {
            assert_eq!(proof(&work.wait().unwrap()).as_deref(), Some(expected));
        }
    }
}

#[test]
fn only_what_the_native_agent_did_alone_is_answered_from_its_recording() {
    let place = Place::with_git();
    let agent = place.agent(WRITER);
    let run = agent.run("Write.").wait().unwrap();
    assert_eq!(run.manifest().unwrap().replay, [Mode::Cache, Mode::Rerun, Mode::Continue]);
    let other = place.here(Agent::vendor("exec:echo Done.")).run("Write.").wait().unwrap();
    assert_eq!(other.manifest().unwrap().replay, [Mode::Cache, Mode::Rerun]);
    let count = place.runs().all().unwrap().len();
    let by = |work: segue::Work| match work.wait() {
        Err(Error::Unanswerable { by }) => by,
        other => panic!("{other:?}"),
    };
    assert_eq!(by(agent.replay(&other, Mode::Continue)), "exec:echo Done.");
    let vendor = place.here(Agent::vendor("codex"));
    assert_eq!(by(vendor.replay(&run, Mode::Continue)), "codex");
    assert_eq!(place.runs().all().unwrap().len(), count, "nothing was made");
}

/// Asks twice for the same, and gets the same twice: two steps with one id.
const TWICE: &str = r#"
[[reply]]
text = "I look twice."
tools = [
    { name = "read_file", input = { path = "first.txt" } },
    { name = "read_file", input = { path = "first.txt" } },
]

[[reply]]
text = "As you say."
repeat = true
"#;

#[test]
fn a_run_that_ends_after_two_answers_that_are_the_same_is_resumed_by_its_refs() {
    let place = Place::with_git();
    let one_step = Caps { steps: Some(1), ..Caps::default() };
    let run = match place.agent(TWICE).caps(one_step).run("Look.").wait() {
        Err(Error::Stopped { run, .. }) => *run,
        other => panic!("{other:?}"),
    };
    let all = ids(&run);
    assert_eq!((all.len(), &all[2]), (4, &all[3]));
    let refs = run.refs().unwrap();
    let resumed = place.agent(WRITER).resume(&run, refs.get("main"), "Go on.").wait().unwrap();
    assert_eq!(ids(&resumed)[..4], all);
}
