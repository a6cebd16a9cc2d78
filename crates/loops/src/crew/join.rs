//! Who is in the crew: everybody of the roster joins, whoever is in it no more leaves, and each gets
//! its place.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use segue_agents::{
    terminal,
    vendor::{self, World, quoted},
};
use segue_core::{
    crew::{Place, Spec, template},
    event::{
        CrewRaised, Doing, MemberEnded, MemberJoined, MemberSeen, Outcome, Reason, SessionResumed,
        SessionStarted, WorktreePlanned,
    },
    identity::LoopKind,
    state::{Crew, CrewMember as Member, Phase},
};
use segue_journal::{Durability, LockedSession, Session, home::NewSession};
use segue_runner::{Halt, Interrupt, Supervisor, supervisor::stop, tmux::seat::Room};
use segue_workspace::{
    identify,
    worktree::{self, WorktreeError},
};

use super::{
    At, MEMBERS, Silent, Watcher,
    bench::Bench,
    chair::Chair,
    headless::Headless,
    lives, mail, program,
    scope::Scope,
    why,
    words::{first_words, vars},
};
use crate::{
    launch::{LaunchError, Worker},
    worktree::ensure,
};

/// How everybody would come back, each with its name, as far as that can be told now.
#[must_use]
pub fn plan(
    session: &Session,
    raised: &CrewRaised,
    room: Option<&Room>,
    world: &World,
) -> Vec<(String, String)> {
    let Some(crew) = &session.state().crew else { return Vec::new() };
    let seats = room.and_then(|room| room.seats().ok()).unwrap_or_default();
    let there = |member: &Member| seats.iter().any(|seat| seat.part == member.name && !seat.dead);
    let places = raised.roster.places();
    let way = |spec: &Spec, member: &Member| way_back(session, raised, spec, member, world);
    let mut ways: Vec<(String, String)> = Vec::new();
    for member in &crew.members {
        let spec = raised.roster.spec(&member.role);
        let how = match spec.filter(|_| keeps(&places, member)) {
            None => "no longer in segue.toml: leaves",
            Some(_) if there(member) && member.doing != Doing::Degraded => {
                "still there: adopted as it is"
            }
            Some(_) if program::runs(session, member) => "runs out of reach: left alone",
            Some(spec) => way(spec, member),
        };
        ways.push((member.name.clone(), how.to_owned()));
    }
    for place in places.iter().filter(|place| crew.member(&place.member).is_none()) {
        let before = crew.former(&place.member).zip(raised.roster.spec(&place.spec));
        let how = match before.filter(|(member, _)| has_begun(session, member)) {
            Some((member, spec)) => format!("back in the crew: {}", way(spec, member)),
            None => "new in segue.toml".to_owned(),
        };
        ways.push((place.member.clone(), how));
    }
    ways
}

/// How one comes back that is not there.
fn way_back(
    session: &Session,
    raised: &CrewRaised,
    spec: &Spec,
    member: &Member,
    world: &World,
) -> &'static str {
    match () {
        () if remembers(spec, member, world) => match was_cut_off(session, member) {
            true => "by its vendor's own resume, and told to go on",
            false => "by its vendor's own resume",
        },
        () if !has_begun(session, member) => "new",
        () if !sits(raised, spec) => "goes on where it was",
        () => "its conversation is gone: told what is known of it",
    }
}

/// Whether a member of a role that is in the roster stays: whoever was added by hand is in no group.
fn keeps(places: &[Place], member: &Member) -> bool {
    member.group.is_none() || places.iter().any(|place| place.member == member.name)
}

/// Whether it has a terminal.
fn sits(raised: &CrewRaised, spec: &Spec) -> bool {
    let known = spec.agent.as_deref().is_none_or(|agent| terminal::find(agent).is_some());
    !raised.headless && known
}

/// Whether the vendor still has a member's conversation.
fn remembers(spec: &Spec, member: &Member, world: &World) -> bool {
    let vendor = spec.agent.as_deref().and_then(vendor::find);
    let (Some(vendor), Some(id)) = (vendor, &member.vendor_session) else { return false };
    !matches!(vendor.history(world, &member.cwd, id), Ok(None))
}

fn has_begun(session: &Session, member: &Member) -> bool {
    own_session(session, member).is_some_and(|own| own.state().turn.number > 0)
}

/// Whether its program ended, or will be found to have ended, in the middle of a turn.
fn was_cut_off(session: &Session, member: &Member) -> bool {
    own_session(session, member).is_some_and(|own| match own.state().turn.open {
        true => member.doing != Doing::Idle,
        false => own.state().turn.outcome == Some(Outcome::CutOff),
    })
}

pub(super) fn own_session(session: &Session, member: &Member) -> Option<Session> {
    let dir = session.dir().join(MEMBERS).join(&member.name);
    Session::open(Arc::clone(session.disk()), &dir).ok()
}

impl Watcher<'_, '_> {
    /// Makes the crew what the roster says.
    pub(super) fn join_all(&mut self) -> Result<(), Halt> {
        let Some(crew) = self.crew() else { return Ok(()) };
        let places = crew.roster().places();
        for place in &places {
            let left = crew.left.contains(&place.member);
            if crew.member(&place.member).is_some() || left {
                continue;
            }
            match self.join(&crew, place) {
                // Whoever is at work is not left alone for that.
                Err(Halt::Stop(stop)) if self.somebody_lives() => self.all.warn(stop.message)?,
                joined => joined?,
            }
        }
        let gone = |one: &&Member| crew.roster().spec(&one.role).is_none() || !keeps(&places, one);
        for member in crew.members.iter().filter(gone) {
            self.members.insert(member.name.clone(), At::Nowhere);
            self.remove(&crew, &member.name)?;
        }
        let Some(crew) = self.crew() else { return Ok(()) };
        let dir = self.all.session().session().dir().to_owned();
        mail::prepare(&dir, &crew.members)
            .map_err(|source| segue_journal::Error::Io { path: dir, source })?;
        for member in &crew.members {
            // Whoever was given up has another chance.
            if member.doing == Doing::Degraded {
                let (member, why) = (member.name.clone(), "raised again".to_owned());
                let ended = MemberEnded { member, why, again_in_ms: None, degraded: false };
                self.all.commit(ended)?;
            }
            let at = self.place(&crew, member)?;
            self.members.insert(member.name.clone(), at);
        }
        Ok(())
    }

    fn somebody_lives(&self) -> bool {
        let cwd = self.all.state().workspace().map(PathBuf::from).unwrap_or_default();
        lives(self.all.session().session(), &self.around.name, &cwd)
    }

    /// One more of a role, while the crew is at work.
    pub(super) fn add(&mut self, crew: &Crew, name: &str, role: &str) -> Result<(), Halt> {
        let Some(spec) = crew.roster().spec(role) else { return Ok(()) };
        if crew.member(name).is_some() {
            return Ok(());
        }
        let same = crew.members.iter().filter(|one| one.role == role).map(|one| one.instance);
        let instance = same.max().unwrap_or_default() + 1;
        let place = Place {
            member: name.to_owned(),
            spec: spec.id.clone(),
            group: None,
            instance,
            of: instance,
        };
        self.join(crew, &place)?;
        let Some(crew) = self.crew() else { return Ok(()) };
        let dir = self.all.session().session().dir().to_owned();
        mail::prepare(&dir, &crew.members)
            .map_err(|source| segue_journal::Error::Io { path: dir, source })?;
        let Some(member) = crew.member(name).cloned() else { return Ok(()) };
        let at = self.place(&crew, &member)?;
        self.members.insert(name.to_owned(), at);
        Ok(())
    }

    /// Makes a member's own session and its worktree, and says what it is told first.
    fn join(&mut self, crew: &Crew, place: &Place) -> Result<(), Halt> {
        let Some(spec) = crew.roster().spec(&place.spec) else { return Ok(()) };
        let dir = self.all.session().session().dir().join(MEMBERS).join(&place.member);
        let new = self.new_session(crew, spec, place);
        let Some(new) = new else { return Ok(()) };
        self.around.home.create_within(&dir, new, &self.around.clock)?;
        let wrong = |error: LaunchError| {
            let what = match error {
                LaunchError::Worktree(what) => format!("the worktree of {}: {what}", place.member),
                error => format!("{}: {error}", place.member),
            };
            Halt::from(stop(Reason::Failed, what))
        };
        let own = Session::open(Arc::clone(self.around.home.disk()), &dir);
        let own = own.and_then(|own| own.lock(&self.around.me, Arc::clone(&self.around.clock)));
        let (mut own, _) = own.map_err(|error| wrong(error.into()))?;
        let tree = self.worktree(crew, &mut own, &place.member).map_err(wrong)?;
        let joined = MemberJoined {
            member: place.member.clone(),
            role: place.spec.clone(),
            group: place.group.clone(),
            instance: place.instance,
            session: own.session().id(),
            cwd: tree.clone().unwrap_or_else(|| crew.raised.project.clone()),
            worktree: own.state().worktree.as_ref().map(|tree| tree.plan.path.clone()),
            branch: own.state().worktree.as_ref().map(|tree| tree.plan.branch.clone()),
        };
        drop(own);
        self.all.commit(joined).map(drop)
    }

    fn new_session(&self, crew: &Crew, spec: &Spec, place: &Place) -> Option<NewSession> {
        let identity = self.all.state().identity.clone()?;
        let whole = crew.raised.worktrees || spec.worktree;
        Some(NewSession {
            loop_kind: LoopKind::Member,
            model: spec.model.clone(),
            vendor_args: spec.args.clone(),
            worktree: whole,
            segue: self.around.segue.clone(),
            ..NewSession::new(
                identity.repo,
                crew.raised.project.clone(),
                agent_of(spec),
                format!("{} of the crew {}", place.member, self.around.name),
            )
        })
    }

    /// Plans a worktree under the crew's own branch names, and makes it. A name that other work has
    /// gets a number.
    fn worktree(
        &self,
        crew: &Crew,
        own: &mut LockedSession,
        member: &str,
    ) -> Result<Option<PathBuf>, LaunchError> {
        let wrong = |what: String| LaunchError::Worktree(what);
        let git = |error: WorktreeError| LaunchError::Worktree(error.to_string());
        let wished = own.state().identity.as_ref().is_some_and(|found| found.worktree);
        let project = &crew.raised.project;
        if wished && own.state().worktree.is_none() {
            let repo = identify(project).map_err(|error| wrong(error.to_string()))?;
            let none = || wrong("the repository has no commit yet".to_owned());
            let base = repo.head.clone().ok_or_else(none)?;
            let number = self.around.number.unwrap_or_default();
            let path = worktree::path_of(&repo.root, number, member).map_err(git)?;
            let above =
                crew.raised.branch.clone().unwrap_or_else(|| {
                    format!("segue/{number}-{}", worktree::slug(&self.around.name))
                });
            let branch = worktree::free_branch(&repo.root, &format!("{above}/{member}"));
            let plan =
                WorktreePlanned { path, branch: branch.map_err(git)?, base, repo: repo.root };
            own.append(plan, Durability::Synced)?;
        }
        ensure(own, project, self.around.number)
    }

    /// Somebody for a member's place: at a terminal, or without one.
    pub(super) fn place(&mut self, crew: &Crew, member: &Member) -> Result<At, Halt> {
        let Some(spec) = crew.spec(member).cloned() else {
            return Ok(At::Nowhere);
        };
        first_words(&mut self.all, &self.around, crew, member, None)?;
        let at = match self.find_place(crew, member, &spec) {
            Ok(at) => at,
            Err(why) => {
                self.unplaced(member, why)?;
                return Ok(At::Nowhere);
            }
        };
        if at.is_blind() {
            let what = format!(
                "{}: what it writes can't be watched: {} is no git repository with a commit",
                member.name,
                member.cwd.display()
            );
            self.all.warn(what)?;
        }
        Ok(at)
    }

    /// The same, or why there is none: that is nobody's trouble but its own.
    fn find_place(&mut self, crew: &Crew, member: &Member, spec: &Spec) -> Result<At, String> {
        let dir = self.all.session().session().dir().join(MEMBERS).join(&member.name);
        let scope = |own: &Session| Scope::new(spec, &member.cwd, &own.id().to_string());
        if !sits(&crew.raised, spec) {
            let filled = self.with_variables(crew, member, spec);
            let agent = agent_of(filled.as_ref().unwrap_or(spec));
            let own = Session::open(Arc::clone(self.around.home.disk()), &dir);
            let scope = scope(&own.map_err(|error| error.to_string())?);
            return Ok(At::Loop(Box::new(Headless::new(dir, agent, spec.model.clone(), scope))));
        }
        let bench = self.bench(crew, member, spec)?;
        let own = self.own(&dir, &crew.raised.project)?;
        let scope = scope(own.session().session());
        Ok(At::Terminal(Box::new(Chair::new(bench, own, scope))))
    }

    /// Nobody can watch over it. One that runs all the same is left alone.
    fn unplaced(&mut self, member: &Member, why: String) -> Result<(), Halt> {
        let seats = self.room.as_ref().and_then(|room| room.seats().ok()).unwrap_or_default();
        let lives = seats.iter().any(|seat| seat.part == member.name && !seat.dead);
        if !lives && !program::runs(self.all.session().session(), member) {
            return self.give_up(&member.name, why);
        }
        let what = Some(format!("it runs, but can't be watched over: {why}"));
        if member.doing == Doing::Unreachable && member.what == what {
            return Ok(());
        }
        let (member, doing) = (member.name.clone(), Doing::Unreachable);
        self.all.commit(MemberSeen { member, doing, what }).map(drop)
    }

    pub(super) fn give_up(&mut self, member: &str, why: String) -> Result<(), Halt> {
        let member = member.to_owned();
        let ended = MemberEnded { member, why, again_in_ms: None, degraded: true };
        self.all.commit(ended).map(drop)
    }

    fn bench(&mut self, crew: &Crew, member: &Member, spec: &Spec) -> Result<Bench, String> {
        if !spec.command.is_empty() {
            let filled = |text: &str| self.filled(crew, member, text);
            let transcript = spec.transcript.as_deref().map(filled).transpose()?;
            let spec = self.with_variables(crew, member, spec)?;
            let transcript = transcript.map(|path| member.cwd.join(path));
            return Ok(Bench::command(&spec, transcript, self.around.world.clone()));
        }
        let agent = agent_of(spec);
        let terminal = terminal::find(&agent).ok_or("it has no terminal")?;
        match (self.around.hire)(&agent, spec.model.as_deref())? {
            Worker::Vendor(config) => Ok(Bench::Vendor { config: Box::new(config), terminal }),
            Worker::Native(_) => Err("it has no terminal".to_owned()),
        }
    }

    /// A text of the roster with what its variables stand for.
    fn filled(&self, crew: &Crew, member: &Member, text: &str) -> Result<String, String> {
        let session = self.all.session().session().dir();
        let vars = vars(crew, &self.around.name, member, session);
        template::render(segue_core::crew::FILE, text, &vars)
            .map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
    }

    /// A command of the user's own may have variables in it.
    fn with_variables(&self, crew: &Crew, member: &Member, spec: &Spec) -> Result<Spec, String> {
        let fill = |words: &[String]| {
            words.iter().map(|word| self.filled(crew, member, word)).collect::<Result<_, _>>()
        };
        match spec.command.is_empty() {
            true => Ok(spec.clone()),
            false => {
                let (command, args) = (fill(&spec.command)?, fill(&spec.args)?);
                Ok(Spec { command, args, ..spec.clone() })
            }
        }
    }

    /// A member's own session, ready to be written.
    fn own(&self, dir: &Path, project: &Path) -> Result<Supervisor<'static>, String> {
        let wrong = |error: segue_journal::Error| error.to_string();
        let session = Session::open(Arc::clone(self.around.home.disk()), dir).map_err(wrong)?;
        let clock = Arc::clone(&self.around.clock);
        let (mut session, _) = session.lock(&self.around.me, Arc::clone(&clock)).map_err(wrong)?;
        if session.state().worktree.is_some() {
            ensure(&mut session, project, self.around.number).map_err(|error| error.to_string())?;
        }
        let (by, caps) = (self.around.process(), session.state().caps);
        let phase = session.state().phase;
        // Of no size: nothing is lost by never giving it back.
        let silent: &'static mut Silent = Box::leak(Box::new(Silent));
        let mut own = Supervisor::new(session, clock, Interrupt::default(), silent);
        let begun = match phase {
            Phase::Created => own.commit(SessionStarted { by, caps }),
            phase => own.commit(SessionResumed {
                by,
                caps,
                plan: Vec::new(),
                crashed: phase == Phase::Running,
                model: None,
                workspace: None,
                permission: None,
                leftovers_ended: Vec::new(),
            }),
        };
        begun.map(|_| own).map_err(why)
    }
}

/// The name of the agent that a spec is for.
fn agent_of(spec: &Spec) -> String {
    match &spec.agent {
        Some(agent) => agent.clone(),
        None => {
            let words = spec.command.iter().chain(&spec.args).map(|word| quoted(word));
            format!("exec:{}", words.collect::<Vec<_>>().join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use segue_core::event::{MemberLeft, MemberStarted};
    use segue_runner::process::began;

    use super::*;
    use crate::crew::{tell::Told, testing::Scene};

    /// One of them needs a worktree, where there is no git.
    const TWO: &str = "[[agents]]\nid = \"ada\"\nagent = \"claude\"\n\
        [[agents]]\nid = \"bob\"\nagent = \"claude\"\nworktree = true\n";

    /// What comes of it when bob is to be back, and whether ada is at work.
    fn raised(ada_lives: bool) -> (Result<(), Halt>, Crew) {
        let mut scene = Scene::new(TWO);
        let left = MemberLeft { member: "bob".to_owned(), reason: "removed".to_owned() };
        scene.all.commit(left).unwrap();
        if ada_lives {
            let pid = std::process::id();
            let (member, pane) = ("ada".to_owned(), Some("%1".to_owned()));
            let started = MemberStarted { member, pane, pid: Some(pid), began: began(pid) };
            scene.all.commit(started).unwrap();
        }
        let again = scene.all.state().crew.as_ref().unwrap().raised.clone();
        scene.all.commit(again).unwrap();
        let (around, room) = (scene.around(), Some(scene.room()));
        let (members, told) = (BTreeMap::new(), Told::default());
        let mut watcher = Watcher { all: scene.all, around, room, members, told };
        let joined = watcher.join_all();
        (joined, watcher.crew().unwrap())
    }

    #[test]
    fn who_can_not_join_keeps_nobody_from_being_watched_who_is_at_work() {
        let (joined, crew) = raised(true);
        assert!(joined.is_ok(), "{joined:?}");
        assert!(crew.member("bob").is_none());
        // Nobody can be hired here, and what runs is not ended for that.
        assert_eq!(crew.member("ada").unwrap().doing, Doing::Unreachable);

        let (joined, _) = raised(false);
        let Err(Halt::Stop(stop)) = joined else { panic!("{joined:?}") };
        assert!(stop.message.starts_with("the worktree of bob: "), "{}", stop.message);
    }
}
