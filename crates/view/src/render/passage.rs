//! How hand-offs, reports, checkpoints and rewinds look.

use segue_core::{
    Body, Event,
    event::{
        AgentChanged, CheckpointTaken, Mark, ProgressReported, ReplayEnd, ReplayEnded,
        RewindStarted,
    },
};

use super::{Out, count};
use crate::style::{Paint, money, sanitize, tokens};

impl Out<'_> {
    /// What passes between agents, and between turns.
    pub(super) fn passage(&mut self, event: &Event) {
        let dim = (Paint::Dim, "·");
        match &event.body {
            Body::AgentChanged(changed) => self.agent_changed(changed),
            Body::ProgressReported(report) => self.reported(report),
            Body::PacketWritten(written) if self.full() => {
                let text = format!("packet written: {}", sanitize(&written.reason));
                self.one(0, dim, Paint::Dim, &text);
            }
            Body::CheckpointTaken(taken) => self.checkpoint(taken),
            Body::CheckpointSkipped(skipped) if self.full() => {
                let text = format!("no checkpoint: {}", sanitize(&skipped.why));
                self.one(0, dim, Paint::Dim, &text);
            }
            Body::RewindStarted(started) => self.rewinding(started),
            Body::RewindFinished(done) => {
                let text = match done.begins {
                    true => "the files that it begins with are there".to_owned(),
                    false => format!("back at the end of turn {}", done.to_turn),
                };
                let files = format!(" · {}", count(done.files, "file"));
                self.line(0, (Paint::Cyan, "⟲"), &[(Paint::Bold, text), (Paint::Dim, files)]);
            }
            Body::ReplayEnded(ended) => self.replay_ended(ended),
            Body::WorktreeMade(made) => {
                let text = format!("worktree {}", sanitize(&made.path.display().to_string()));
                self.one(0, (Paint::Cyan, "⑂"), Paint::Plain, &text);
            }
            Body::WorktreePlanned(plan) if self.full() => {
                let text = format!("making a worktree on {}", sanitize(&plan.branch));
                self.one(0, dim, Paint::Dim, &text);
            }
            Body::PacketWritten(_) | Body::CheckpointSkipped(_) | Body::WorktreePlanned(_) => {}
            other => self.crew(other),
        }
    }

    fn replay_ended(&mut self, ended: &ReplayEnded) {
        // What differs has lines of its own: of all words these must not be cut off.
        let head = ReplayEnded { differs: None, ..ended.clone() }.to_string();
        self.one(0, (Paint::Cyan, "⟳"), Paint::Bold, &head);
        if let Some(differs) = &ended.differs {
            self.wrapped(2, Paint::Plain, &sanitize(differs));
        }
        let spent = ended.reused;
        let mut text = format!(
            "reused {} · {} tokens",
            count(ended.replies, "recorded reply").replace("replys", "replies"),
            tokens(spent.usage.total())
        );
        if spent.cost_micros.0 > 0 {
            text = format!("{text} · {}", money(spent.cost_micros, 0));
        }
        self.one(2, (Paint::Dim, ""), Paint::Dim, &format!("{text} · not spent again"));
        if ended.why != ReplayEnd::Complete || ended.told.is_some() {
            let files = format!("files {}", sanitize(&ended.files));
            self.one(2, (Paint::Dim, ""), Paint::Dim, &files);
        }
    }

    fn agent_changed(&mut self, changed: &AgentChanged) {
        let who = format!("{} → {}", sanitize(&changed.from), sanitize(&changed.to));
        let why = format!(" · {}", sanitize(&changed.reason));
        self.line(0, (Paint::Cyan, "⇄"), &[(Paint::Bold, who), (Paint::Plain, why)]);
        for other in &changed.passed_over {
            let text = format!("not {}: {}", sanitize(&other.agent), sanitize(&other.why));
            self.one(2, (Paint::Dim, ""), Paint::Dim, &text);
        }
    }

    fn reported(&mut self, report: &ProgressReported) {
        for decision in &report.decisions {
            let why = decision.why.as_deref().map(|why| format!(" · {}", sanitize(why)));
            let text = [
                (Paint::Bold, "decided".to_owned()),
                (Paint::Plain, format!("  {}", sanitize(&decision.summary))),
                (Paint::Dim, why.unwrap_or_default()),
            ];
            self.line(2, (Paint::Cyan, "◆"), &text);
        }
        for blocker in report.blockers.iter().flatten() {
            let why = blocker.evidence.as_deref().map(|why| format!(" · {}", sanitize(why)));
            let text = [
                (Paint::Bold, "blocked".to_owned()),
                (Paint::Plain, format!("  {}", sanitize(&blocker.summary))),
                (Paint::Dim, why.unwrap_or_default()),
            ];
            self.line(2, (Paint::Yellow, "◆"), &text);
        }
        for left in report.remaining.iter().flatten() {
            let text =
                [(Paint::Bold, "left".to_owned()), (Paint::Plain, format!("  {}", sanitize(left)))];
            self.line(2, (Paint::Dim, "◆"), &text);
        }
        if let Some(next) = &report.next_task {
            let text =
                [(Paint::Bold, "next".to_owned()), (Paint::Plain, format!("  {}", sanitize(next)))];
            self.line(2, (Paint::Cyan, "◆"), &text);
        }
    }

    fn checkpoint(&mut self, taken: &CheckpointTaken) {
        // Between turns it is a matter of course.
        if !self.full() {
            return;
        }
        let what = match taken.mark {
            Mark::Start => "checkpoint of the start",
            Mark::Safety => "checkpoint of what was there",
            _ => "checkpoint",
        };
        let short = taken.commit.get(..12).unwrap_or(&taken.commit);
        let changed = count(taken.changed_total, "file");
        let text = format!("{what} {} · {changed} changed", sanitize(short));
        self.one(0, (Paint::Dim, "⚑"), Paint::Dim, &text);
    }

    fn rewinding(&mut self, started: &RewindStarted) {
        let verb = if started.undo { "taking the rewind back" } else { "rewinding" };
        let what = match (&started.files, &started.path) {
            (Some(_), Some(_)) => "files and conversation",
            (Some(_), None) => "files",
            _ => "conversation",
        };
        let text = format!("{verb} to the end of turn {}", started.to_turn);
        self.line(
            0,
            (Paint::Cyan, "⟲"),
            &[(Paint::Bold, text), (Paint::Plain, format!(" · {what}"))],
        );
    }
}
