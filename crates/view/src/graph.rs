//! `segue show --graph`: the steps of a session as a graph, from the first to the last.
//!
//! ```text
//! ● 0 5d1c40e8aa prompt (turn 1) Write a.txt
//! ● 1 91be7702cd reply I write it.
//! ├─● 2 0cc2d1a6f3 tool ✓ write_file  a.txt
//! └─● 3 7720b1c6aa tool ✗ shell  cat a.txt
//! ● 4 d01f6e33b7 reply (fork/9 other-way) Done.
//! ├─╮
//! │ ○ 5 88a1f0c2de prompt (turn 2) Now the docs
//! │ ○ 6 b2b7aa90c4 reply They are written.
//! ● 7 1f0e9d8c7b prompt (turn 3) Rather the tests
//! ● 8 6a5b4c3d2e reply (main) They pass.
//! ```

mod lanes;

use std::collections::HashMap;

use segue_core::{
    Identity, SessionId,
    identity::{How, Mode},
    steps::{Branches, Path, Step, StepId, StepKind},
};
use segue_journal::{Home, Session, base::begun_from, home::Located, session::read_identity};
use serde::Serialize;

use crate::{
    error::Result,
    select::Found,
    steps::{self, StepJson, kind_paint, outcome_sign},
    style::{Line, Paint, Style, count, sanitize},
};

use lanes::Lanes;

/// A session as a graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub title: String,
    /// What it begins with, if that is a part of another session.
    pub begins: Option<Begins>,
    pub nodes: Vec<StepJson>,
    /// Places in `nodes`: from what a step follows, and that step.
    pub edges: Vec<(usize, usize)>,
    pub refs: Vec<Ref>,
    pub path: Path,
    /// How many answers of one reply there are up to each step.
    batches: Vec<u32>,
}

/// The part of another session that a session begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Begins {
    pub from: SessionId,
    /// How people call that session: `#7 other-way`.
    pub name: String,
    pub how: How,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    pub steps: u64,
}

/// A name for a step. `main`, `base` and `fork/9` will do wherever a step is to be named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ref {
    pub name: String,
    /// What the fork is called, where somebody has given it a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    pub kind: RefKind,
    pub index: u64,
    pub step: StepId,
    /// Of a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefKind {
    /// The last step of the conversation after which nothing is under way.
    Main,
    /// Where a turn begins.
    Turn,
    /// Another session goes on from here.
    Fork,
    /// The last step that another session tells.
    Base,
    /// Where the session's own part begins.
    Own,
}

/// A session that begins with a part of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    pub id: SessionId,
    pub number: Option<u64>,
    /// What it is called.
    pub name: Option<String>,
    pub how: How,
    pub mode: Option<Mode>,
    /// How many steps of the other one it begins with.
    pub steps: u64,
}

impl Fork {
    /// The name of the step at which it left: `fork/9`, `replay/9`, `rerun/9`.
    #[must_use]
    pub fn step_name(&self) -> String {
        let how = match self.how {
            How::Replayed if self.mode == Some(Mode::Rerun) => "rerun",
            How::Replayed => "replay",
            _ => "fork",
        };
        match self.number {
            Some(number) => format!("{how}/{number}"),
            None => format!("{how}/{}", self.id),
        }
    }

    /// The place of that step.
    #[must_use]
    pub fn index(&self) -> Option<u64> {
        self.steps.checked_sub(1)
    }
}

/// The step that is meant by the name of a fork, by its number; none where it is no such name.
pub fn step_of_fork(home: &Home, session: &Session, word: &str) -> Result<Option<u64>> {
    if !word.contains('/') {
        return Ok(None);
    }
    let forks = forks(home, session)?;
    Ok(forks.iter().find(|fork| fork.step_name() == word).and_then(Fork::index))
}

fn number_of(numbers: &[(u64, Located)], at: &Located) -> Option<u64> {
    numbers.iter().find(|(_, one)| one == at).map(|(number, _)| *number)
}

fn name_of(home: &Home, at: &Located) -> Option<String> {
    let name = home.open(at).ok().and_then(|session| session.state().name.clone())?;
    Some(sanitize(&name).into_owned())
}

/// What people call a session: `#9 other-way`.
fn called(home: &Home, at: &Located) -> Result<String> {
    let number = number_of(&home.numbers()?, at);
    let number = number.map_or_else(|| at.id.to_string(), |number| format!("#{number}"));
    Ok(match name_of(home, at) {
        Some(name) => format!("{number} {name}"),
        None => number,
    })
}

/// The sessions of a home that begin with steps of this one.
pub fn forks(home: &Home, session: &Session) -> Result<Vec<Fork>> {
    // What this one shares with the sessions that it begins with was forked there.
    let layers = session.layers()?;
    let mut told = vec![(session.id(), u64::MAX)];
    told.extend(layers.windows(2).map(|pair| (pair[1].id, pair[0].steps)));
    let numbers = home.numbers()?;
    let mut found = Vec::new();
    for at in home.sessions()? {
        // One that can't be read has no lineage that could be shown.
        let Ok(identity) = read_identity(&**home.disk(), &home.session_dir(&at)) else { continue };
        let (how, mode) = manner(&identity);
        let Some((from, base)) = begun_from(&identity) else { continue };
        let shares = |(id, most): &(SessionId, u64)| *id == from && base.steps <= *most;
        if told.iter().any(shares) && at.id != session.id() {
            let (number, name) = (number_of(&numbers, &at), name_of(home, &at));
            found.push(Fork { id: at.id, number, name, how, mode, steps: base.steps });
        }
    }
    found.sort_by_key(|fork| (fork.steps, fork.id));
    Ok(found)
}

fn manner(identity: &Identity) -> (How, Option<Mode>) {
    identity.lineage.as_ref().map_or((How::Unknown, None), |from| (from.how, from.mode))
}

/// What a session begins with.
pub fn begins(home: &Home, session: &Session) -> Result<Option<Begins>> {
    let identity = session.state().identity.as_ref();
    let Some((from, base)) = identity.and_then(begun_from) else { return Ok(None) };
    let (how, mode) = identity.map_or((How::Unknown, None), manner);
    let at = home.sessions()?.into_iter().find(|at| at.id == from);
    let name = match at {
        Some(at) => called(home, &at)?,
        None => from.to_string(),
    };
    Ok(Some(Begins { from, name, how, mode, steps: base.steps }))
}

impl Graph {
    /// Looks at all steps of a session.
    pub fn of(home: &Home, session: &Session, found: &Found) -> Result<Self> {
        let title = steps::label(found.number, session.id(), session.state().name.as_deref());
        let (mut steps, state) = (Vec::new(), session.state());
        session.told(|step, mark| steps.push((lighter(step), state.on_path(mark.turn))))?;
        let main = session.landmarks()?.main(state)?.map(|mark| mark.index);
        let begins = begins(home, session)?;
        let forks = forks(home, session)?;
        Ok(Self::new(title, &steps, main, begins, &forks))
    }

    /// The graph of these steps, each with whether the conversation still has it, and with the names
    /// that some of them have.
    #[must_use]
    pub fn new(
        title: String,
        steps: &[(Step, bool)],
        main: Option<u64>,
        begins: Option<Begins>,
        forks: &[Fork],
    ) -> Self {
        let mut branches = Branches::default();
        let (mut places, mut edges) = (HashMap::new(), Vec::new());
        for (at, (step, kept)) in steps.iter().enumerate() {
            branches.offer(step, *kept);
            edges.extend(step.parents.iter().filter_map(|id| Some((*places.get(id)?, at))));
            places.insert(step.id, at);
        }
        let path = branches.finish(main);
        let nodes: Vec<StepJson> =
            steps.iter().map(|(step, kept)| StepJson::of(step, !kept)).collect();
        let batches = steps.iter().map(|(step, _)| step.batch).collect();
        let refs = refs(&nodes, &path, begins.as_ref(), forks);
        Self { title, begins, nodes, edges, refs, path, batches }
    }

    /// Whether a step is one of several answers to one reply, and whether it is the last of them.
    fn answer(&self, at: usize) -> Option<bool> {
        let more = self.batches.get(at + 1).is_some_and(|batch| *batch > 1);
        let one_of_several = self.batches.get(at).is_some_and(|batch| *batch > 1) || more;
        (self.nodes[at].kind == StepKind::Tool && one_of_several).then_some(!more)
    }
}

/// A step without what a graph has no use for.
fn lighter(mut step: Step) -> Step {
    use segue_core::steps::Said;
    for said in &mut step.said {
        if let Said::Result { output, .. } = said {
            *output = segue_core::Payload::default();
        }
    }
    step.said.retain(|said| !matches!(said, Said::Thinking { .. }));
    step
}

fn refs(nodes: &[StepJson], path: &Path, begins: Option<&Begins>, forks: &[Fork]) -> Vec<Ref> {
    let mut refs = Vec::new();
    let mut add = |index: u64, kind: RefKind, name: String, fork: Option<&Fork>| {
        let place = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(node) = nodes.get(place) {
            let called = fork.and_then(|fork| fork.name.clone());
            let session = fork.map(|fork| fork.id);
            refs.push(Ref { name, called, kind, index, step: node.id, session });
        }
    };
    if let Some(begins) = begins {
        add(begins.steps, RefKind::Own, "its own part begins".to_owned(), None);
        if let Some(last) = begins.steps.checked_sub(1) {
            add(last, RefKind::Base, "base".to_owned(), None);
        }
    }
    let mut last = 0;
    for node in nodes.iter().filter(|node| node.turn > 0) {
        if node.turn != last {
            last = node.turn;
            add(node.index, RefKind::Turn, format!("turn {last}"), None);
        }
    }
    if let Some(tip) = path.tip {
        add(tip, RefKind::Main, "main".to_owned(), None);
    }
    for fork in forks {
        if let Some(index) = fork.index() {
            add(index, RefKind::Fork, fork.step_name(), Some(fork));
        }
    }
    refs.sort_by_key(|one| one.index);
    refs
}

/// The graph for people, without a line break at its end.
#[must_use]
pub fn graph_text(graph: &Graph, style: &Style) -> String {
    let mut lines = head(graph, style);
    let mut lanes = Lanes::new(&graph.path);
    for (at, node) in graph.nodes.iter().enumerate() {
        let (before, after) = lanes.node(node.index, graph.answer(at));
        let (paint, sign) = match node.left_behind {
            true => (Paint::Dim, "○"),
            false => (Paint::Green, "●"),
        };
        let mut line = Line::new().with(Paint::Dim, before).with(paint, sign);
        line = line.with(Paint::Dim, format!("{after} {} {} ", node.index, node.id.short()));
        line = line.plain(format!("{} ", node.kind.word()));
        let names = graph.refs.iter().filter(|one| one.index == node.index);
        let names: Vec<String> = names
            .map(|one| match &one.called {
                Some(called) => format!("{} {called}", one.name),
                None => one.name.clone(),
            })
            .collect();
        if !names.is_empty() {
            line = line.with(Paint::Yellow, format!("({}) ", names.join(", ")));
        }
        let went = node.tool.as_ref().map(|tool| outcome_sign(tool.status, tool.exit));
        let paint = match (node.left_behind, went) {
            (true, _) => Paint::Dim,
            (_, Some((paint @ (Paint::Red | Paint::Yellow), ..))) => paint,
            _ => kind_paint(node.kind),
        };
        let how = went.map(|(_, sign, _)| format!("{sign} "));
        line = line.with(paint, how.unwrap_or_default() + &node.title);
        lines.push(line.render(style));
        let joints = lanes.after(node.index);
        lines.extend(joints.into_iter().map(|joint| style.paint(Paint::Dim, &joint)));
    }
    lines.join("\n")
}

fn head(graph: &Graph, style: &Style) -> Vec<String> {
    let mut line = Line::new().with(Paint::Bold, graph.title.clone());
    line = line.plain(format!("  {}", count(graph.nodes.len() as u64, "step")));
    let left = graph.nodes.iter().filter(|node| node.left_behind).count();
    if left > 0 {
        line = line.with(Paint::Dim, format!(" · {left} left behind (○)"));
    }
    let mut lines = vec![line.render(style)];
    if let Some(begins) = &graph.begins {
        let how = match begins.how {
            How::Replayed if begins.mode == Some(Mode::Rerun) => "was told of",
            How::Replayed => "replays",
            _ => "begins with",
        };
        let text = format!("{how} the first {} of {}", count(begins.steps, "step"), begins.name);
        let own = (graph.nodes.len() as u64).saturating_sub(begins.steps);
        let own = if own == 0 { "; nothing of its own yet" } else { "" };
        lines.push(Line::new().with(Paint::Cyan, text + own).render(style));
    }
    lines
}

/// `segue show --graph --json`.
#[derive(Debug, Serialize)]
pub struct GraphJson<'a> {
    pub id: SessionId,
    pub number: Option<u64>,
    pub name: Option<&'a str>,
    pub begins_with: Option<&'a Begins>,
    pub nodes: &'a [StepJson],
    /// Indexes of steps.
    pub edges: Vec<EdgeJson>,
    pub refs: &'a [Ref],
}

/// A step, and one that follows from it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EdgeJson {
    pub from: u64,
    pub to: u64,
}

impl<'a> GraphJson<'a> {
    #[must_use]
    pub fn of(graph: &'a Graph, session: &'a Session, number: Option<u64>) -> Self {
        let index = |at: usize| graph.nodes.get(at).map_or(0, |node| node.index);
        let edges = graph.edges.iter();
        Self {
            id: session.id(),
            number,
            name: session.state().name.as_deref(),
            begins_with: graph.begins.as_ref(),
            nodes: &graph.nodes,
            edges: edges.map(|&(from, to)| EdgeJson { from: index(from), to: index(to) }).collect(),
            refs: &graph.refs,
        }
    }
}

#[cfg(test)]
mod tests;
