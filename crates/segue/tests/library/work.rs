//! Agents at work: waited for, awaited, followed, stopped, dropped.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, future::join};
use segue::{
    Agent, At, Body, Error, Event, Events, Reason, Run, Status, StepKind, Work, hire::HireError,
};

use crate::support::{Place, SLOW, WRITER};

const LIMIT: Duration = Duration::from_secs(60);

/// The journal's, in so far as they can be compared.
fn events_of(run: &Run) -> Vec<String> {
    let mut events = Vec::new();
    run.each_event(|event| events.push(told(&event))).unwrap();
    events
}

fn told(event: &Event) -> String {
    format!("{event:?}")
}

#[test]
fn everything_can_be_sent_between_threads() {
    fn both<T: Send + Sync + 'static>() {}
    both::<Error>();
    both::<Run>();
    both::<Work>();
    both::<Agent>();
    both::<segue::Runs>();
    fn sent<T: Send + 'static>() {}
    sent::<Events>();
}

#[test]
fn a_run_is_recorded() {
    let place = Place::new();
    let run = place.agent(WRITER).run("Write.").wait().unwrap();
    assert_eq!(run.number(), Some(1));
    assert_eq!(run.status().unwrap(), Status::Completed);
    assert_eq!(run.prompt().unwrap(), "Write.");
    let steps = run.steps().unwrap();
    let kinds: Vec<StepKind> = steps.iter().map(|step| step.kind).collect();
    use StepKind::{Prompt, Reply, Tool};
    assert_eq!(kinds, [Prompt, Reply, Tool, Tool, Reply]);
    assert_eq!(run.refs().unwrap().get("main"), Some(&steps[4].id));
    assert!(run.manifest().unwrap().resume);
    assert_eq!(std::fs::read_to_string(place.repo().join("b.txt")).unwrap(), "b\n");
    // The same by its number, by its id, and in the list.
    for word in ["1".to_owned(), run.id().to_string()] {
        assert_eq!(place.runs().load(word).unwrap().id(), run.id());
    }
    assert_eq!(place.runs().all().unwrap()[0].number(), Some(1));
}

#[test]
fn events_are_complete_and_in_order_whenever_one_begins_to_follow() {
    let place = Place::new();
    let work = place.agent(WRITER).run("Write.");
    let mut first = work.events().into_iter();
    let seen: Vec<Event> = first.by_ref().collect();
    // Somebody who comes late, and somebody else beside.
    let late: Vec<Event> = work.events().into_iter().collect();
    let run = work.wait().unwrap();
    let seen_told: Vec<String> = seen.iter().map(told).collect();
    assert_eq!(seen_told, events_of(&run));
    assert_eq!(late.iter().map(told).collect::<Vec<_>>(), seen_told);
    assert!(first.next().is_none());
    assert!(matches!(seen[0].body, Body::SessionCreated(_)));
    assert!(matches!(seen[seen.len() - 1].body, Body::SessionStopped(_)));
}

#[test]
fn two_futures_and_a_stream_need_no_runtime() {
    let (place, beside) = (Place::new(), Place::new());
    let work = place.agent(WRITER).run("Write.");
    let events = work.events().map(|event| told(&event)).collect::<Vec<_>>();
    let both = join(join(events, work), beside.agent(WRITER).run("Write too."));
    let ((events, run), other) = futures_executor::block_on(both);
    assert_eq!(events, events_of(&run.unwrap()));
    assert_eq!(other.unwrap().steps().unwrap().len(), 5);
}

#[test]
fn whoever_is_stopped_can_be_resumed() {
    let place = Place::new();
    let work = place.agent(SLOW).run("Write.");
    let mut events = work.events().into_iter();
    assert!(events.any(|event| matches!(event.body, Body::ModelCalled(_))));
    assert_eq!(work.so_far().unwrap().status().unwrap(), Status::Running);
    work.stop();
    let Err(Error::Stopped { run, reason, message }) = work.wait() else { panic!("it went on") };
    assert_eq!(reason, Reason::Interrupted);
    assert_eq!(run.status().unwrap(), Status::Interrupted);
    assert_eq!(run.stopped().unwrap().message, message);
    // What is recorded of it goes on with somebody who answers.
    let resumed = place.agent(WRITER).resume(&run, At::Last, "Go on.").wait().unwrap();
    assert_eq!(resumed.status().unwrap(), Status::Completed);
    assert_eq!(run.diff(&resumed).unwrap().shared, run.steps().unwrap().len());
}

#[test]
fn work_that_is_dropped_goes_on() {
    let place = Place::new();
    drop(place.agent(WRITER).run("Write."));
    let since = Instant::now();
    loop {
        let runs = place.runs().all().unwrap_or_default();
        if runs.first().is_some_and(|run| run.status().unwrap() == Status::Completed) {
            break;
        }
        assert!(since.elapsed() < LIMIT, "{runs:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn many_threads_have_runs_of_their_own() {
    let place = Place::new();
    let agent = place.agent(WRITER);
    let numbers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| agent.run("Write.").wait().unwrap().number().unwrap()))
            .collect();
        let mut numbers: Vec<u64> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    });
    assert_eq!(numbers, [1, 2, 3, 4]);
}

#[test]
fn nobody_works_without_a_guardian() {
    let place = Place::new();
    let agent = place.agent(WRITER).tools_from("/nowhere/segue");
    assert!(matches!(agent.run("Write.").wait(), Err(Error::NoGuardian)));
    assert!(place.runs().all().unwrap().is_empty());
}

#[test]
fn who_can_not_work_is_told_apart() {
    let place = Place::new();
    let why = |agent: Agent| match place.here(agent).run("Write.").wait() {
        Err(Error::Hire(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(why(Agent::vendor("nobody")), HireError::NoSuchAgent(name) if name == "nobody")
    );
    assert!(matches!(why(Agent::new("nothing")), HireError::NoSuchModel(_)));
    assert!(matches!(why(Agent::new("script:/nowhere.toml")), HireError::NoModel { .. }));
    let missing = place.here(Agent::new("script")).in_dir(place.path("nowhere"));
    assert!(matches!(missing.run("Write.").wait(), Err(Error::File { .. })));
    assert!(place.runs().all().unwrap().is_empty());
}
