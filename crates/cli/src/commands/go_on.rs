//! Going on with a session, however it was asked for: `resume`, `run --resume`, `rewind … PROMPT`.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use segue_core::{
    Exit, Permission,
    caps::Caps,
    decide,
    event::{AgentChanged, Reason, RewindStarted},
    state::Phase,
};
use segue_journal::{Session, session::Mended};
use segue_loops::{
    keep::Keeper,
    launch::{self, Asked, Resume},
    place::Place,
    rewind,
};
use segue_runner::Interrupt;
use segue_view::{
    plan::{self, Plan},
    select::Found,
    style::{self, Paint},
};

use crate::{
    commands::{
        attach::{self, Start},
        edited, letters,
        limited::limited,
        place, prompt, relist, resume,
        rewind::{rewind_error, rewind_lines},
        run::{Manner, surroundings},
        substitute::{Substitute, change},
        worker::{Wishes, hire, known_agent, no_such_agent, terms},
    },
    config::Config,
    context::{Context, say},
    error::{CommandError, CommandResult},
    observe::{Watcher, conclude},
};

/// How wide the labels of a plan are, with the blanks around them.
const PLAN_LABEL: usize = 12;

/// How the session is to go on.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) prompt: Option<String>,
    /// Who goes on, where that is somebody else.
    pub(crate) with: Option<String>,
    /// Why, in the user's own words.
    pub(crate) reason: Option<String>,
    /// The work goes back to the agent that began.
    pub(crate) give_back: bool,
    /// Go back to the end of a turn first.
    pub(crate) rewind: Option<Back>,
    pub(crate) dry_run: bool,
    pub(crate) wait: bool,
    /// Try although the limit has not reset.
    pub(crate) now: bool,
    pub(crate) model: Option<String>,
    pub(crate) permission: Option<Permission>,
    pub(crate) fresh: bool,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) files: place::Wish,
    pub(crate) caps: Caps,
    /// In the background, shown in tmux.
    pub(crate) tmux: bool,
    /// In this terminal, also where the session was begun in tmux.
    pub(crate) here: bool,
}

impl Request {
    /// Nothing is asked for that whoever works on the session already does not do.
    fn only_goes_on(&self) -> bool {
        self.prompt.is_none() && self.with.is_none() && !self.give_back && self.rewind.is_none()
    }
}

/// What to go back to.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    pub(crate) to: Where,
    pub(crate) scope: rewind::Scope,
}

#[derive(Clone, Debug)]
pub(crate) enum Where {
    Turn(u32),
    Step(String),
}

/// Goes on with a session that was found.
pub(crate) fn go_on(context: &Context, found: &Found, mut asked: Request) -> CommandResult {
    let selector = found.selector();
    let about = |error: CommandError| error.about(&selector);
    if asked.prompt.as_deref() == Some("-") {
        asked.prompt = Some(prompt::from_stdin()?);
    }
    if asked.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CommandError::usage("the prompt is empty"));
    }
    if let Some(word) = &asked.with {
        known_agent(word).ok_or_else(|| no_such_agent(word))?;
    }
    let session = found.open(&context.home)?;
    session.check_whole().map_err(|error| about(error.into()))?;
    check_whole(&session)?;
    check_resumable(&session, &selector)?;
    let shown = session.state().terms().is_some_and(|terms| terms.tmux);
    asked.tmux |= shown && !asked.here;
    if asked.tmux && !asked.dry_run {
        attach::check(context)?;
    }
    if let Some(holder) = session.held_by()? {
        if asked.tmux && asked.only_goes_on() {
            return attach::show(context, found, Start::Already(holder));
        }
        let error = segue_journal::Error::Busy { dir: found.dir.clone(), holder };
        return Err(about(error.into()));
    }
    if asked.rewind.is_some() {
        check_no_list(&session, "rewound")?;
    }
    if let Some(packet) = session.edited_packet().map_err(|error| edited::broken(&error))? {
        check_no_list(&session, "begun anew from an edited packet")?;
        return edited::start(context, &session, &selector, packet, &asked);
    }
    let list = relist::Relist::of(context, &session, asked.prompt.is_some())?;
    let more = list.as_ref().is_some_and(relist::Relist::has_more);
    if nothing_to_do(&session, &asked) && !more {
        return say_nothing_to_do(context, &session, &selector);
    }
    if list.is_some() {
        asked.caps = context.config()?.set_task_caps().and_then(asked.caps);
    }
    planned(context, found, session, asked, list)
}

/// Says what will be done, and does it.
fn planned(
    context: &Context,
    found: &Found,
    session: Session,
    mut asked: Request,
    list: Option<relist::Relist>,
) -> CommandResult {
    let selector = found.selector();
    let config = context.config()?;
    let substitute = Substitute::of(context, &config, &session, &selector, &asked)?;
    if substitute.is_some() {
        // They are for the reviewer: the worker is who it was.
        (asked.with, asked.model) = (None, None);
    }
    let change = change(context, &config, &session, &selector, &asked)?;
    let place = place::find(context, &session, asked.dir.as_deref())?;
    let keeper = Keeper::new(&session, &place.dir, config.checkpoints());
    let back = asked.rewind.as_ref().map(|back| back_to(&session, &keeper, back)).transpose()?;
    let agent =
        change.as_ref().map_or_else(|| session.state().agent().to_owned(), |c| c.to.clone());
    let note = place::note(&place, &session, &keeper);
    let with = change.as_ref().map(|change| change.to.as_str());
    let going = Going {
        selector: &selector,
        asked: &asked,
        place: &place,
        note: &note,
        list: list.as_ref(),
        substitute: substitute.as_ref(),
    };
    let plan = going.plan(&session, with, back.as_ref(), context.now());
    if asked.dry_run && context.json {
        context.print_json(&plan)?;
        return Ok(Exit::Done);
    }
    if asked.dry_run || !context.json {
        say_plan(context, &plan.lines);
    }
    if asked.dry_run {
        return Ok(Exit::Done);
    }
    let interrupt = Interrupt::install()?;
    let waits = substitute.is_none();
    let exit = waits.then(|| limited(context, &session, &selector, &asked, &agent, &interrupt));
    if let Some(exit) = exit.transpose()?.flatten() {
        return Ok(exit);
    }
    let restores = back.is_none() && place::decide(&place, &note, &selector, asked.files)?;
    if asked.tmux {
        let files = match restores {
            true => place::Wish::Restore,
            false if place.elsewhere => place::Wish::Keep,
            false => place::Wish::Ask,
        };
        let (with, model) = match substitute {
            Some(substitute) => (Some(substitute.to), substitute.model),
            None => (asked.with, asked.model),
        };
        let args = resume::args_for(&selector, &Request { files, with, model, ..asked });
        return attach::show(context, found, Start::Background(args));
    }
    let back = match back {
        Some(back) => Some(back.started),
        None if restores => rewind::to_checkpoint(&session),
        None => None,
    };
    launch_resume(
        context,
        &config,
        session,
        &selector,
        found.number,
        asked,
        Ready { change, substitute, agent, place, back, plan, interrupt, list },
    )
}

/// A list of tasks is on its branch, task by task: there is no turn to go back to, and no half of it
/// to go on with elsewhere.
pub(crate) fn check_no_list(session: &Session, what: &str) -> Result<(), CommandError> {
    let Some(tasks) = &session.state().tasks else { return Ok(()) };
    let message = format!("a session over a list of tasks can't be {what}");
    Err(CommandError::usage(message)
        .hint("each task is a commit on its branch: taken off the branch, it is worked on again")
        .hint(format!("begin anew: segue tasks run {} --new", tasks.source.display())))
}

/// What was made to be looked at is not gone on with: its manifest says `resume: false`.
pub(crate) fn check_resumable(session: &Session, selector: &str) -> Result<(), CommandError> {
    match session.state().identity.as_ref().is_some_and(|identity| identity.sealed) {
        false => Ok(()),
        true => Err(CommandError::usage(format!(
            "session {selector} can't be gone on with: its manifest says `resume: false`"
        ))
        .hint(format!("begin another one with what it knows: segue fork {selector} \"…\""))
        .hint(format!("look at it: segue replay {selector} --inspect"))),
    }
}

/// A reviewer goes on with the session that it is a part of.
pub(crate) fn check_whole(session: &Session) -> Result<(), CommandError> {
    if !session.state().is_part() {
        return Ok(());
    }
    let whole = session.dir().parent().and_then(Path::parent).unwrap_or(session.dir());
    Err(CommandError::usage("this is the session of a reviewer, which goes on with its pair")
        .hint(format!("segue resume {}", whole.display())))
}

/// What the plan is made from.
struct Going<'a> {
    selector: &'a str,
    asked: &'a Request,
    place: &'a Place,
    note: &'a place::Note,
    list: Option<&'a relist::Relist>,
    substitute: Option<&'a Substitute>,
}

impl Going<'_> {
    fn plan(
        &self,
        session: &Session,
        with: Option<&str>,
        back: Option<&rewind::Plan>,
        now: Timestamp,
    ) -> Plan {
        let (asked, state) = (self.asked, session.state());
        let permission = asked.permission.unwrap_or_else(|| state.permission());
        let permission = terms(with.unwrap_or(state.agent()), permission);
        let mut notes = back.map(rewind_lines).unwrap_or_default();
        notes.extend(self.list.map(relist::Relist::notes).unwrap_or_default());
        notes.extend(self.substitute.map(Substitute::note));
        let more = asked.prompt.is_some()
            || with.is_some()
            || self.list.is_some_and(relist::Relist::has_more);
        notes.extend(letters::note(session, more));
        if state.rewind.under_way.is_some() && !state.has_begun() {
            notes.insert(0, ("rewind", "the files that it begins with come first".to_owned()));
        } else if let Some(begun) = &state.rewind.under_way {
            let turn = begun.to_turn;
            let text =
                format!("to the end of turn {turn}, broken off before: it is finished first");
            notes.insert(0, ("rewind", text));
            notes.insert(1, ("kept", format!("what is there now, beside {}", begun.safety)));
        }
        plan::resume(
            session,
            &plan::Going {
                selector: self.selector,
                prompt: asked.prompt.as_deref(),
                model: asked.model.as_deref(),
                workspace: Some(&self.place.dir),
                permission: permission.as_deref(),
                fresh: asked.fresh || is_full(session),
                with,
                relieved: self.substitute.is_some(),
                rewinds: back.is_some() || state.rewind.under_way.is_some(),
                workspace_note: &self.note.text,
                notes: &notes,
                tasks: self.list.map(|list| &list.then),
                caps: state.caps.overridden_by(asked.caps),
                now,
            },
        )
    }
}

/// Everything that was decided before the session is taken over.
struct Ready {
    change: Option<AgentChanged>,
    substitute: Option<Substitute>,
    agent: String,
    place: Place,
    back: Option<RewindStarted>,
    plan: Plan,
    interrupt: Interrupt,
    list: Option<relist::Relist>,
}

fn launch_resume(
    context: &Context,
    config: &Config,
    session: Session,
    selector: &str,
    number: Option<u64>,
    mut asked: Request,
    ready: Ready,
) -> CommandResult {
    let state = session.state();
    // Of another agent the model is its own affair, unless it is the one that began.
    let before = match &ready.change {
        Some(change) => state.first_model(&change.to),
        None => state.model(),
    };
    let wishes = Wishes {
        model: asked.model.as_deref().or(before),
        // Another agent is held to what the first was held to, or not called.
        permission: asked.permission.or_else(|| {
            let held = state.permission() == Permission::ReadOnly;
            (held && ready.change.is_some()).then_some(Permission::ReadOnly)
        }),
        fresh: asked.fresh || is_full(&session),
    };
    let (model, worker) = hire(context, config, &ready.agent, wishes)?;
    if let Some(substitute) = &ready.substitute {
        substitute.sit_down(context, config, &ready.interrupt)?;
    }
    let named = model.filter(|_| asked.model.is_some());
    let change = ready.change.map(|change| AgentChanged { model: named.clone(), ..change });
    if ready.list.is_some()
        && let Some(text) = asked.prompt.take()
    {
        // The prompt of a task is the task: what a person says besides is said to its worker.
        relist::tell_worker(&session, &text)?;
    }
    let how = Resume {
        prompt: asked.prompt.map(Asked::by_a_person),
        tasks: ready.list.map(|list| list.source),
        caps: asked.caps,
        model: if change.is_some() { None } else { named },
        workspace: Some(ready.place.dir).filter(|dir| Some(dir.as_path()) != state.workspace()),
        permission: asked.permission,
        change,
        rewind: ready.back,
        plan: ready.plan.lines,
    };
    let dir = session.dir().to_owned();
    let mut watcher = Watcher::new(context);
    watcher.looks_at(&dir);
    let manner = Manner { number, wait: asked.wait, give_back: asked.give_back, tmux: false };
    let around = surroundings(context, config, &mut watcher, ready.interrupt, manner);
    let stop = launch::resume(session, how, worker, around, say_mended)
        .map_err(|error| CommandError::from(error).about(selector))?;
    conclude(context, watcher, selector, &dir, &stop)
}

/// Whether something waits for the worker that is reason enough to go on.
fn gets_messages(session: &Session) -> bool {
    let (count, reach) = letters::waiting(session, false);
    count > 0 && reach == letters::Reach::NextTurn
}

fn nothing_to_do(session: &Session, asked: &Request) -> bool {
    let state = session.state();
    let stopped = state.phase == Phase::Stopped && !decide::is_resumable(state);
    stopped
        && !gets_messages(session)
        && asked.prompt.is_none()
        && asked.rewind.is_none()
        // The files of a fork are brought back when it is gone on with.
        && (state.rewind.under_way.is_none() || !state.has_begun())
}

fn say_nothing_to_do(context: &Context, session: &Session, selector: &str) -> CommandResult {
    let state = session.state();
    let rewound = state.stop.as_ref().is_some_and(|stop| stop.reason == Reason::Rewound);
    if context.json {
        context.print_json(&serde_json::json!({ "session": selector, "nothing_to_do": true }))?;
    } else if rewound {
        let how = if state.has_begun() { "rewound" } else { "forked" };
        say(&format!("session {selector} was {how}, and waits for what to do instead"));
        say(&format!("segue resume {selector} \"…\""));
    } else if let Some(tasks) = &state.tasks {
        say(&format!("session {selector} is completed: {} tasks are done", tasks.done()));
        say(&format!("ask for more: add a task to {}", tasks.source.display()));
    } else {
        say(&format!("session {selector} is completed: nothing to do"));
        if let Some((what, text)) = letters::note(session, false) {
            say(&format!("{what}: {text}"));
        }
        say(&format!("ask for more: segue resume {selector} \"…\""));
    }
    Ok(Exit::Done)
}

/// The old conversation would be too long again.
fn is_full(session: &Session) -> bool {
    let state = session.state();
    let full = state.stop.as_ref().is_some_and(|stop| stop.reason == Reason::ContextExhausted);
    full && !state.vendors.is_empty()
}

fn back_to(session: &Session, keeper: &Keeper, back: &Back) -> Result<rewind::Plan, CommandError> {
    let turn = match &back.to {
        Where::Turn(turn) => *turn,
        Where::Step(id) => rewind::turn_of_step(session, id).map_err(rewind_error)?,
    };
    rewind::plan(session, keeper, turn, back.scope).map_err(rewind_error)
}

/// The headline stands out, the labels stand back.
pub(crate) fn say_plan(context: &Context, lines: &[String]) {
    let look = context.err();
    for (n, line) in lines.iter().enumerate() {
        match line.split_at_checked(PLAN_LABEL) {
            _ if n == 0 => say(&look.paint(Paint::Bold, line)),
            Some((label, text)) => {
                let mut label = look.paint(Paint::Dim, label);
                // A path that is broken in two can't be copied out of a file.
                let room = match std::io::stderr().is_terminal() {
                    true => look.width.saturating_sub(PLAN_LABEL).max(20),
                    false => usize::MAX,
                };
                for part in style::wrap(text, room) {
                    say(&format!("{label}{part}"));
                    label = " ".repeat(PLAN_LABEL);
                }
            }
            None => say(line),
        }
    }
}

pub(crate) fn say_mended(mended: &[Mended]) {
    for what in mended {
        say(&match what {
            Mended::TornTail { bytes, kept_in } => format!(
                "  mended    {bytes} bytes of an unfinished write were set aside in {kept_in}"
            ),
            Mended::Identity => {
                "  mended    session.json was broken: written again from the journal".to_owned()
            }
        });
    }
}
