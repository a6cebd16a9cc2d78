//! What reviewers and worker are told.
//!
//! A reviewer sees the task, what was done, what the proof said, what the worker says of it, and
//! what was said in the rounds before: never how the worker came to it.

use std::fmt::Write;

use super::{Consensus, Entry, Ledger};
use crate::{
    event::{Verdict, VerdictSubmitted},
    packet::shortened,
};

/// How much of a proof's output, of a statement, and of one settled concern (or of a request, where
/// there is no room for more) is told.
const MOST_PROOF: usize = 16 << 10;
const MOST_STATEMENT: usize = 16 << 10;
const MOST_SETTLED: usize = 200;

/// What the reviewers judge by.
#[derive(Clone, Debug, Default)]
pub struct Case<'a> {
    pub iteration: u32,
    pub task: &'a str,
    /// What a person asked for since.
    pub requests: &'a [String],
    /// The diff as text, and whether there is more of it.
    pub diff: Option<(&'a str, bool)>,
    /// All files that changed, where the diff does not show them all.
    pub files: &'a [String],
    /// The command, its exit status and its output.
    pub proof: Option<Proof<'a>>,
    pub statement: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    pub command: &'a str,
    pub exit: Option<i32>,
    pub output: &'a str,
}

/// How a verdict is given; the same words for the tool and for the block.
pub const ASK_VERDICT: &str = "\
Give your verdict with the tool `submit_verdict` of the server `segue`. If you do not have that \
tool, end your answer with exactly one block of this form, as its very last thing:
```segue
{\"verdict\":\"pass\"}
```
or
```segue
{\"verdict\":\"fail\",\"category\":\"…\",\"concern\":\"…\",\"evidence\":\"…\",\"next_step\":\"…\"}
```
- pass: the task is done as it was asked for, and you would put your name to it.
- fail: say what is wrong (concern), where you see it (evidence: file and line, output), and what \
the worker is to do about it (next_step); category is one word, such as correctness, incomplete, \
tests, security, regression. If there is more than one thing, put {\"concerns\":[{…},{…}]} with \
the same four fields for each in place of the single ones. If it is a concern of an earlier round, \
add \"again\":\"C3\" with its name.
Nothing else in your answer counts: a word like PASS in a sentence is no verdict.";

/// The question to a reviewer.
#[must_use]
pub fn question(
    case: &Case<'_>,
    me: &str,
    ledger: &Ledger,
    messages: &str,
    budget: usize,
) -> String {
    let mut text = format!(
        "You review the work of another agent. You change no files and run nothing that does; \
         look at the files in the working directory as you need. This is round {}.\n",
        case.iteration
    );
    section(&mut text, "The task, as it was given to the worker", case.task);
    if !case.requests.is_empty() {
        let asked = requests(case.requests, budget / 2);
        section(&mut text, "What was asked for since", &asked);
    }
    if let Some(proof) = case.proof {
        let how = match proof.exit {
            Some(0) => "It passed (exit status 0).".to_owned(),
            Some(code) => format!("It failed with exit status {code}."),
            None => "It did not end by itself.".to_owned(),
        };
        let output = shortened(proof.output, MOST_PROOF);
        let body = format!("`{}`\n{how} Its output:\n{output}", proof.command);
        section(&mut text, "The proof command, run by Segue after the work", &body);
    }
    let statement = match case.statement.trim() {
        "" => "(it says nothing)".to_owned(),
        said => shortened(said, MOST_STATEMENT),
    };
    section(&mut text, "What the worker says of its work", &statement);
    rounds_section(&mut text, ledger, case.iteration);
    ledger_section(&mut text, ledger, me);
    if !messages.is_empty() {
        section(&mut text, "Messages for you", messages);
    }
    let left = budget.saturating_sub(text.len() + ASK_VERDICT.len()).max(4 << 10);
    section(&mut text, "The diff since the last point that was accepted", &diff(case, left));
    section(&mut text, "Your verdict", ASK_VERDICT);
    text
}

/// What was asked for last is told whole, where it fits; of what was asked for before, what there is
/// room for.
fn requests(all: &[String], most: usize) -> String {
    let mut left = most;
    let mut told: Vec<String> = Vec::new();
    for asked in all.iter().rev() {
        let part = shortened(asked, left.max(MOST_SETTLED));
        left = left.saturating_sub(part.len());
        told.push(part);
    }
    told.reverse();
    told.join("\n\n")
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "\n## {title}\n\n{}\n", body.trim_end());
}

fn diff(case: &Case<'_>, most: usize) -> String {
    let Some((whole, more)) = case.diff else {
        return "There is none: the files could not be kept. Look at them yourself.".to_owned();
    };
    if whole.is_empty() {
        return "There is none: no file has changed. If the task needed no change, the files have \
                to show that: look at them."
            .to_owned();
    }
    let cut = shortened(whole, most);
    let mut text = fenced(&cut);
    if more || cut.len() < whole.len() {
        text.push_str("\nThis is not all of it. All files that changed:\n");
        for file in case.files {
            let _ = writeln!(text, "- {file}");
        }
        text.push_str("Read those that are not shown.");
    }
    text
}

/// A fence that nothing within can close.
fn fenced(body: &str) -> String {
    let longest = body.lines().map(|line| line.chars().take_while(|c| *c == '`').count()).max();
    // A line of a diff begins with a sign, so a fence inside of it stands one column in.
    let inside = body
        .lines()
        .map(|line| line.get(1..).unwrap_or_default().chars().take_while(|c| *c == '`').count());
    let longest = longest.unwrap_or(0).max(inside.max().unwrap_or(0)).max(2);
    let fence = "`".repeat(longest + 1);
    format!("{fence}diff\n{}\n{fence}", body.trim_end())
}

/// Who let it pass in the rounds before this one. What others say in this one is theirs.
fn rounds_section(text: &mut String, ledger: &Ledger, now: u32) {
    let mut lines: Vec<(u32, Vec<String>)> = Vec::new();
    for said in ledger.verdicts.iter().filter(|said| said.iteration < now) {
        let word = if said.verdict == Verdict::Pass { "pass" } else { "fail" };
        let word = format!("{} {word}", said.reviewer);
        match lines.last_mut().filter(|(round, _)| *round == said.iteration) {
            Some((_, words)) => words.push(word),
            None => lines.push((said.iteration, vec![word])),
        }
    }
    let lines = lines.iter().map(|(round, words)| format!("- round {round}: {}", words.join(", ")));
    let body = lines.collect::<Vec<_>>().join("\n");
    if !body.is_empty() {
        section(text, "The rounds before", &body);
    }
}

/// The same for both sides: what is open, how often it was raised, and what is settled.
fn ledger_section(text: &mut String, ledger: &Ledger, me: &str) {
    let open = ledger.open();
    if !open.is_empty() {
        let mut body = String::new();
        for entry in open {
            let whose = if entry.reviewer == me { "you" } else { &entry.reviewer };
            let _ = writeln!(body, "{}", concern(entry, whose));
        }
        body.push_str(
            "See first whether these are met now. One that is met is settled by not raising it; \
             one that is not, raise it again under its name.",
        );
        section(text, "Concerns that are open", &body);
    }
    let mut settled = ledger.settled();
    // What was settled for another task may be a concern anew in this one.
    settled.retain(|entry| ledger.is_settled(entry));
    settled_section(
        text,
        &settled,
        "Do not raise them again, unless the diff breaks them anew: then \
                                   show where, with evidence that was not there before.",
    );
}

fn settled_section(text: &mut String, settled: &[&Entry], advice: &str) {
    if settled.is_empty() {
        return;
    }
    let mut body = String::new();
    for entry in settled {
        let what = shortened(&entry.what.concern, MOST_SETTLED);
        let _ = writeln!(body, "- {} ({}): {what}", entry.what.id, entry.what.category);
    }
    body.push_str(advice);
    section(text, "Concerns that are settled", &body);
}

fn concern(entry: &Entry, whose: &str) -> String {
    let Entry { what, iterations, .. } = entry;
    let rounds: Vec<String> = iterations.iter().map(u32::to_string).collect();
    let plural = if rounds.len() == 1 { "round" } else { "rounds" };
    let mut text = format!(
        "### {} · {} · raised by {whose} in {plural} {}\n{}\nEvidence: {}\nNext step: {}\n",
        what.id,
        what.category,
        rounds.join(", "),
        what.concern,
        what.evidence,
        what.next_step
    );
    if entry.is_escalated() {
        let _ = writeln!(
            text,
            "ESCALATED: raised {} times. It was not met by what was done so far.",
            rounds.len()
        );
    }
    text
}

/// What is asked of a reviewer whose answer could not be read.
#[must_use]
pub fn once_more() -> String {
    format!(
        "Your answer has no verdict that can be read, and without one it counts as a fail. You \
         need not review again: say only what you found.\n\n{ASK_VERDICT}"
    )
}

/// What is asked of a reviewer who comes back to something settled.
#[must_use]
pub fn settled_already(entry: &Entry) -> String {
    let settled = entry.settled.unwrap_or_default();
    format!(
        "You raise {} again ({}). It was settled in round {settled}, and your evidence is the same \
         as then. Judge the rest of the work, or show what is new about it: what you say now \
         counts, and what is settled counts only with evidence that was not there \
         before.\n\n{ASK_VERDICT}",
        entry.what.id,
        shortened(&entry.what.concern, MOST_SETTLED)
    )
}

/// What was raised, for a worker that was not there; empty where nothing was.
#[must_use]
pub fn ledger_for_worker(ledger: &Ledger) -> String {
    let mut text = String::new();
    for entry in ledger.open() {
        let _ = writeln!(text, "{}", concern(entry, &entry.reviewer));
    }
    settled_section(&mut text, &ledger.settled(), "They are met: do not undo what meets them.");
    text
}

/// What the worker is told of a round that did not pass.
#[must_use]
pub fn feedback(
    iteration: u32,
    verdicts: &[(String, Verdict)],
    consensus: Consensus,
    ledger: &Ledger,
) -> String {
    let passes = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Pass).count();
    let wanted = match consensus {
        Consensus::All | Consensus::Unknown => "all of them have to",
        Consensus::Any => "one of them has to",
        Consensus::Majority => "more than half of them have to",
    };
    let mut text = format!(
        "Your work was reviewed (round {iteration}) and does not pass yet: {passes} of {} reviewers \
         let it pass, and {wanted}. Mend what they raise. If you are sure that a concern is wrong, \
         say why at the end of your answer: the reviewers read that, and nothing else that you \
         say.\n",
        verdicts.len()
    );
    let mut open = ledger.open();
    // What was raised again and again comes first.
    open.sort_by_key(|entry| std::cmp::Reverse(entry.turns.len()));
    for entry in open {
        let _ = write!(text, "\n{}", concern(entry, &entry.reviewer));
        if entry.is_escalated() {
            text.push_str("Do this first, and in another way than before.\n");
        }
    }
    settled_section(&mut text, &ledger.settled(), "They are met: do not undo what meets them.");
    text
}

/// What the worker is told when nothing has changed.
#[must_use]
pub fn nothing_changed(iteration: u32, ledger: &Ledger) -> String {
    let mut text = format!(
        "Nothing was reviewed (round {iteration}): no file has changed since the last point that \
         was accepted, and without a change nothing can pass. Do the task.\n"
    );
    for entry in ledger.open() {
        let _ = write!(text, "\n{}", concern(entry, &entry.reviewer));
    }
    text
}

/// One line of what a verdict says, for lists.
#[must_use]
pub fn line(said: &VerdictSubmitted) -> String {
    match said.verdict {
        Verdict::Pass => said.summary.clone().unwrap_or_default(),
        _ => {
            let all = said.concerns.iter().map(|one| format!("{} {}", one.id, one.concern));
            all.map(|text| text.trim().to_owned()).collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Concern, review::Said};

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let concern = |id: &str, text: &str| Concern {
            id: id.into(),
            category: "tests".into(),
            concern: text.into(),
            evidence: "a.rs:3".into(),
            next_step: "write one".into(),
            again: None,
        };
        let words = [(1, "claude"), (1, "codex"), (2, "claude"), (3, "codex")];
        for (round, who) in words {
            let verdict = if who == "codex" { Verdict::Pass } else { Verdict::Fail };
            let (reviewer, iteration) = (who.to_owned(), round);
            ledger.note(Said { turn: round, iteration, reviewer, verdict });
        }
        ledger.raise("claude", 1, 1, &concern("C1", "no test"));
        ledger.raise("claude", 1, 1, &concern("C2", "no docs"));
        ledger.raise("claude", 2, 2, &concern("C1", "still no test"));
        ledger.settle("claude", 2, 2);
        ledger
    }

    #[test]
    fn a_reviewer_sees_the_case_and_the_ledger() {
        let case = Case {
            iteration: 3,
            task: "Add a login",
            requests: &["And a logout".to_owned()],
            diff: Some(("+```\n+password = \"PASS\"", false)),
            files: &[],
            proof: Some(Proof { command: "make test", exit: Some(0), output: "ok" }),
            statement: "I added both.",
        };
        let text = question(&case, "claude", &ledger(), "", 100_000);
        for part in [
            "This is round 3.",
            "Add a login",
            "And a logout",
            "`make test`\nIt passed (exit status 0). Its output:\nok",
            "I added both.",
            "### C1 · tests · raised by you in rounds 1, 2\nstill no test\nEvidence: a.rs:3",
            "ESCALATED: raised 2 times",
            "- C2 (tests): no docs",
            "## The rounds before\n\n- round 1: claude fail, codex pass\n- round 2: claude fail\n\n",
            "````diff\n+```\n",
            "submit_verdict",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn what_was_asked_for_last_is_told_whole() {
        let requests = ["one, ".repeat(200), "two, ".repeat(1000), "six, ".repeat(1000)];
        let case = Case { requests: &requests, ..Case::default() };
        let text = question(&case, "codex", &Ledger::default(), "", 16_000);
        let told = |word: &str| text.matches(word).count();
        assert_eq!((told("one, "), told("two, "), told("six,")), (40, 600, 1000));
    }

    #[test]
    fn a_long_diff_is_cut_and_its_files_are_named() {
        let long = "+x\n".repeat(50_000);
        let files = ["a.rs".to_owned(), "b.rs".to_owned()];
        let case = Case { diff: Some((&long, true)), files: &files, ..Case::default() };
        let text = question(&case, "codex", &Ledger::default(), "", 20_000);
        assert!(text.len() < 22_000, "{}", text.len());
        assert!(text.contains("- a.rs\n- b.rs\nRead those"));
        assert!(text.ends_with("no verdict.\n"));
    }

    #[test]
    fn the_worker_gets_what_is_open_first_what_came_back() {
        let verdicts = [("claude".to_owned(), Verdict::Fail), ("codex".to_owned(), Verdict::Pass)];
        let text = feedback(2, &verdicts, Consensus::All, &ledger());
        assert!(text.contains("1 of 2 reviewers let it pass, and all of them have to"));
        assert!(text.contains("### C1 · tests · raised by claude in rounds 1, 2"));
        assert!(text.contains("in another way than before"));
        assert!(text.contains("- C2 (tests): no docs\nThey are met"));
    }
}
