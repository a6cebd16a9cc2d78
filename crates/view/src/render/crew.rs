//! How a crew looks: who joins and leaves, what each does, what becomes of messages.

use std::time::Duration;

use segue_core::{
    Body,
    event::{
        CrewRaised, Doing, MemberEnded, MemberJoined, MemberRestarted, MemberSeen, MemberStarted,
        MemberStarting, MessageFailed, MessagePosted, ScopeBroken, Start, TimerFired,
    },
};

use super::{Out, count};
use crate::style::{Paint, duration, sanitize};

/// How many paths of a list are named.
const MOST_NAMED: usize = 5;

impl Out<'_> {
    /// What happens to a crew and to those in it.
    pub(super) fn crew(&mut self, body: &Body) {
        match body {
            Body::CrewRaised(raised) => self.raised(raised),
            Body::CrewEnding(_) => {
                self.one(0, (Paint::Dim, "■"), Paint::Plain, "crew is taken down");
            }
            Body::MemberJoined(joined) => self.joined(joined),
            Body::MemberLeft(left) => {
                self.member("–", Paint::Dim, &left.member, "left", &left.reason);
            }
            Body::MemberStarting(starting) => self.starting(starting),
            Body::MemberStarted(started) => self.started(started),
            Body::MemberIdentified(found) => {
                let id = format!("its vendor calls it {}", found.vendor_session);
                self.member("·", Paint::Dim, &found.member, "", &id);
            }
            Body::MemberSeen(seen) => self.seen(seen),
            Body::MemberEnded(ended) => self.ended(ended),
            Body::MemberRestarted(one) => self.restarted(one),
            Body::MessagePosted(posted) => self.posted(posted),
            Body::MessageFailed(failed) => self.failed(failed),
            Body::TimerFired(fired) => self.fired(fired),
            Body::ScopeOpened(_) | Body::ScopeClosed(_) => {}
            Body::ScopeBroken(broken) => self.scope_broken(broken),
            // A kind of which nobody has said yet how it looks.
            other => self.one(2, (Paint::Dim, "·"), Paint::Dim, other.kind()),
        }
    }

    /// A line about one of the crew: its name, what it does, and more about that.
    fn member(&mut self, sign: &str, paint: Paint, name: &str, verb: &str, more: &str) {
        let verb = if verb.is_empty() { String::new() } else { format!(" {verb}") };
        let more = sanitize(more.trim());
        let more = if more.is_empty() { String::new() } else { format!(" · {more}") };
        if self.live() {
            let text = format!("{}{verb}{more}", sanitize(name));
            return self.one(0, (paint, sign), paint, &text);
        }
        let text =
            [(Paint::Bold, sanitize(name).into_owned()), (paint, verb), (Paint::Plain, more)];
        self.line(0, (paint, sign), &text);
    }

    fn raised(&mut self, raised: &CrewRaised) {
        let agents = count(raised.roster.places().len() as u64, "agent");
        let mut text = format!("crew raised · {agents}");
        if raised.headless {
            text.push_str(" · without terminals");
        }
        if raised.worktrees {
            text.push_str(" · a worktree for each");
        }
        let project = raised.project.display().to_string();
        let text = format!("{text} · {}", sanitize(&project));
        self.one(0, (Paint::Cyan, "●"), Paint::Plain, &text);
    }

    fn joined(&mut self, joined: &MemberJoined) {
        let mut parts = Vec::new();
        if joined.role != joined.member {
            parts.push(joined.role.clone());
        }
        if let Some(group) = &joined.group {
            parts.push(format!("group {group}"));
        }
        parts.push(format!("in {}", joined.cwd.display()));
        if let Some(branch) = &joined.branch {
            parts.push(format!("branch {branch}"));
        }
        self.member("+", Paint::Dim, &joined.member, "joined", &parts.join(" · "));
    }

    fn starting(&mut self, starting: &MemberStarting) {
        let verb = match starting.how {
            Start::Resumed => "comes back",
            Start::Packet => "begins anew, told what happened before",
            Start::New | Start::Unknown => "starts",
        };
        self.member("▸", Paint::Cyan, &starting.member, verb, &starting.command);
    }

    fn started(&mut self, started: &MemberStarted) {
        let pane = started.pane.as_ref().map(|pane| format!("pane {pane}"));
        let pid = started.pid.map(|pid| format!("process {pid}"));
        let parts: Vec<String> = pane.into_iter().chain(pid).collect();
        self.member("·", Paint::Dim, &started.member, "runs", &parts.join(" · "));
    }

    fn seen(&mut self, seen: &MemberSeen) {
        let what = seen.what.as_deref().unwrap_or_default();
        let (sign, paint, verb) = match seen.doing {
            Doing::Waiting => ("⏸", Paint::Yellow, "waits for you"),
            Doing::Degraded => ("✘", Paint::Red, "is given up"),
            Doing::Unreachable => ("✘", Paint::Red, "can't be reached"),
            Doing::Busy => ("▸", Paint::Cyan, "is busy"),
            Doing::Idle => ("·", Paint::Dim, "is idle"),
            Doing::Starting => ("·", Paint::Dim, "is starting"),
            Doing::Down => ("■", Paint::Dim, "is down"),
            Doing::Unknown => ("?", Paint::Dim, "does something unknown"),
        };
        self.member(sign, paint, &seen.member, verb, what);
    }

    fn ended(&mut self, ended: &MemberEnded) {
        let (sign, paint, verb, then) = match ended.again_in_ms {
            _ if ended.degraded => {
                ("✘", Paint::Red, "ended too often", " · is given up".to_owned())
            }
            Some(ms) => {
                let then = format!(" · again in {}", duration(Duration::from_millis(ms)));
                ("■", Paint::Yellow, "ended", then)
            }
            None => ("■", Paint::Dim, "ended", String::new()),
        };
        let more = format!("{}{then}", ended.why.trim());
        self.member(sign, paint, &ended.member, verb, &more);
    }

    /// That it has ended is told already.
    fn restarted(&mut self, one: &MemberRestarted) {
        if one.fresh {
            let what = "is to begin anew, from its first prompt on";
            self.member("▸", Paint::Cyan, &one.member, what, "");
        }
    }

    /// The first time is part of every delivery; that it took more is news.
    fn posted(&mut self, posted: &MessagePosted) {
        if posted.attempt < 2 && !self.full() {
            return;
        }
        let number = count(posted.messages.len() as u64, "message");
        let again = match posted.attempt {
            0 | 1 => String::new(),
            n => format!("attempt {n}"),
        };
        self.member("·", Paint::Dim, &posted.to, &format!("gets {number}"), &again);
    }

    fn failed(&mut self, failed: &MessageFailed) {
        let number = count(failed.messages.len() as u64, "message");
        let verb = format!("does not get {number}");
        self.member("✘", Paint::Red, &failed.to, &verb, &failed.reason);
    }

    fn fired(&mut self, fired: &TimerFired) {
        let mut text = format!("timer {}", sanitize(&fired.timer));
        if !fired.to.is_empty() {
            text = format!("{text} → {}", sanitize(&fired.to.join(", ")));
        }
        if !fired.passed_over.is_empty() {
            let busy = fired.passed_over.join(", ");
            text = format!("{text} · not yet done with the last one: {}", sanitize(&busy));
        }
        self.one(0, (Paint::Cyan, "◷"), Paint::Plain, &text);
    }

    fn scope_broken(&mut self, broken: &ScopeBroken) {
        let mut paths: Vec<String> = broken.paths.iter().take(MOST_NAMED).cloned().collect();
        if broken.paths.len() > MOST_NAMED {
            paths.push(format!("and {} more", broken.paths.len() - MOST_NAMED));
        }
        // First what is done about it: of many paths the end is cut off.
        let undone = if broken.undone { " · undone" } else { "" };
        let kept = broken.kept_in.as_deref().map(|commit| commit.get(..10).unwrap_or(commit));
        let kept = kept.map(|commit| format!(" · kept in {commit}")).unwrap_or_default();
        let (who, paths) = (broken.members.join(" or "), paths.join(", "));
        let text = format!("{who} wrote where it may not{undone}{kept}: {paths}");
        self.warning(0, &sanitize(&text));
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use segue_core::{
        Event, SessionId,
        crew::{Roster, Spec},
        event::{MemberIdentified, MemberLeft},
    };

    use super::super::{Detail, event_line};
    use super::*;
    use crate::style::Style;

    fn name() -> String {
        "coder".to_owned()
    }

    fn bodies() -> Vec<Body> {
        [coming(), doing(), mail()].into_iter().flatten().collect()
    }

    fn coming() -> Vec<Body> {
        let spec = Spec { id: name(), ..Spec::default() };
        vec![
            CrewRaised {
                roster: Roster { agents: vec![spec], ..Roster::default() },
                project: "/src/app".into(),
                headless: true,
                worktrees: true,
                branch: None,
                ..CrewRaised::default()
            }
            .into(),
            MemberJoined {
                member: "coder-2".to_owned(),
                role: name(),
                group: Some("build".to_owned()),
                instance: 2,
                session: SessionId::from_parts(1, 1),
                cwd: "/src/app-2".into(),
                worktree: None,
                branch: Some("segue/app-2".to_owned()),
            }
            .into(),
            MemberStarting {
                member: name(),
                how: Start::Resumed,
                generation: 2,
                vendor_session: None,
                command: "claude --resume 5f1e".to_owned(),
                cwd: "/src/app".into(),
            }
            .into(),
            MemberStarted {
                member: name(),
                pane: Some("%3".to_owned()),
                pid: Some(4711),
                began: None,
            }
            .into(),
            MemberIdentified { member: name(), vendor_session: "5f1e-77".to_owned() }.into(),
        ]
    }

    fn doing() -> Vec<Body> {
        let ended = |again_in_ms, degraded| MemberEnded {
            member: name(),
            why: "exit 1".to_owned(),
            again_in_ms,
            degraded,
        };
        let seen = |doing, what: Option<&str>| MemberSeen {
            member: name(),
            doing,
            what: what.map(str::to_owned),
        };
        vec![
            seen(Doing::Busy, None).into(),
            seen(Doing::Waiting, Some("Allow \x1b[2Jrm -rf?\nyes / no")).into(),
            ended(Some(2000), false).into(),
            ended(None, true).into(),
            MemberRestarted { member: name(), fresh: true }.into(),
            ended(None, false).into(),
        ]
    }

    fn mail() -> Vec<Body> {
        vec![
            MessagePosted { to: name(), messages: vec!["a".to_owned()], attempt: 1 }.into(),
            MessagePosted { to: name(), messages: vec!["a".to_owned()], attempt: 2 }.into(),
            MessageFailed { to: name(), messages: vec!["a".to_owned()], reason: "gone".to_owned() }
                .into(),
            TimerFired {
                timer: "standup".to_owned(),
                to: vec![name()],
                passed_over: vec!["tester".to_owned()],
            }
            .into(),
            ScopeBroken {
                members: vec![name(), "tester".to_owned()],
                turn_of: name(),
                paths: (1..=7).map(|n| format!("src/{n}.rs")).collect(),
                undone: true,
                kept_in: Some("0123456789abcdef".to_owned()),
            }
            .into(),
            MemberLeft { member: name(), reason: "removed".to_owned() }.into(),
        ]
    }

    fn shown(width: usize, detail: Detail) -> String {
        let at = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let event = |body| Event { seq: 1, at, turn: None, agent: None, id: None, body };
        let lines = bodies().into_iter().filter_map(|body| {
            let line = event_line(&event(body), &Style::plain(width), detail)?;
            assert!(line.chars().all(|c| c == '\n' || !c.is_control()), "{line:?}");
            assert!(line.lines().all(|line| crate::style::width(line) <= width), "{line}");
            Some(line)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_is_one_line() {
        assert_snapshot!(shown(100, Detail::Short), @"
        ● crew raised · 1 agent · without terminals · a worktree for each · /src/app
        + coder-2 joined · coder · group build · in /src/app-2 · branch segue/app-2
        ▸ coder comes back · claude --resume 5f1e
        · coder runs · pane %3 · process 4711
        · coder · its vendor calls it 5f1e-77
        ▸ coder is busy
        ⏸ coder waits for you · Allow rm -rf? yes / no
        ■ coder ended · exit 1 · again in 2 s
        ✘ coder ended too often · exit 1 · is given up
        ▸ coder is to begin anew, from its first prompt on
        ■ coder ended · exit 1
        · coder gets 1 message · attempt 2
        ✘ coder does not get 1 message · gone
        ◷ timer standup → coder · not yet done with the last one: tester
        ⚠ coder or tester wrote where it may not · undone · kept in 0123456789: src/1.rs, src/2.rs, src/3.r…
        – coder left · removed
        ");
    }

    #[test]
    fn in_full_every_one_has_its_time() {
        let text = shown(100, Detail::Full);
        assert_eq!(text.lines().count(), bodies().len());
        assert!(text.contains("coder gets 1 message\n"), "{text}");
    }

    #[test]
    fn in_a_narrow_pane_they_are_broken_and_not_cut() {
        let text = shown(40, Detail::Live);
        assert!(!text.contains('…') && text.contains("removed"), "{text}");
    }
}
