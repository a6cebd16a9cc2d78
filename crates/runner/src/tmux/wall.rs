//! A session of tmux that shows parts of something: some side by side, one below them.
//!
//! Nothing lives in it that matters, so it is made again at any time: what is missing is added, what
//! has ended is started again, what is there stays as the person has arranged it.

use std::ffi::{OsStr, OsString};

use super::{Pane, Result, Tmux, TmuxError, plain_name, word};

/// How high the part below is.
const BELOW: &str = "8";

/// One program in one pane.
#[derive(Clone, Debug)]
pub struct Part {
    /// By which it is found again.
    pub key: String,
    pub title: String,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

/// What the session is to show.
#[derive(Clone, Debug)]
pub struct Wall {
    /// As it should be called, if nobody else is.
    pub name: String,
    /// Whose it is: another session by that name is somebody else's.
    pub owner: String,
    /// Columns and lines, as long as no terminal shows it.
    pub size: (u16, u16),
    pub beside: Vec<Part>,
    pub below: Part,
}

/// What has come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    pub name: String,
    /// Nothing of it was there before.
    pub new: bool,
}

impl Wall {
    /// Makes it, or makes it whole again.
    pub fn build(&self, tmux: &Tmux) -> Result<Built> {
        let panes = tmux.panes()?;
        let name = self.free_name(&panes);
        let is_ours = |pane: &Pane| pane.session == name && pane.owner == self.owner;
        let mut there: Vec<Pane> = panes.into_iter().filter(is_ours).collect();
        let (new, mut changed) = (there.is_empty(), false);
        for part in self.beside.iter().chain([&self.below]) {
            match there.iter().find(|pane| pane.part == part.key) {
                Some(pane) if pane.dead => respawn(tmux, pane, part)?,
                Some(_) => {}
                None => {
                    self.add(tmux, &name, part, &there)?;
                    there = tmux.panes()?.into_iter().filter(is_ours).collect();
                    changed = true;
                }
            }
        }
        if changed {
            self.arrange(tmux, &there);
        }
        Ok(Built { name, new })
    }

    /// The name, with some of the owner's own behind it where it is taken.
    fn free_name(&self, panes: &[Pane]) -> String {
        let taken = |pane: &Pane| pane.session == self.name && pane.owner != self.owner;
        match panes.iter().any(taken) {
            false => self.name.clone(),
            true => {
                let from = self.owner.len().saturating_sub(6);
                format!("{}-{}", self.name, plain_name(self.owner.get(from..).unwrap_or_default()))
            }
        }
    }

    fn add(&self, tmux: &Tmux, name: &str, part: &Part, there: &[Pane]) -> Result<()> {
        if there.is_empty() {
            return self.create(tmux, name, part);
        }
        let split = self.place(part, there).map(|(pane, how)| {
            let target = ["split-window", "-d", "-P", "-F", "#{pane_id}", "-t", &pane.id];
            tmux.run(with_program(&[&target, how].concat(), part))
        });
        let made = match split {
            Some(Err(TmuxError::Refused { .. })) | None => {
                // There is no room left: it gets a window of its own.
                let target = format!("={name}:");
                let args = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", &target];
                let made = tmux.run(with_program(&args, part))?;
                dress(tmux, made.trim())?;
                made
            }
            Some(made) => made?,
        };
        label(tmux, made.trim(), part)
    }

    /// Beside which pane a part belongs, and how.
    fn place<'a>(
        &self,
        part: &Part,
        there: &'a [Pane],
    ) -> Option<(&'a Pane, &'static [&'static str])> {
        let find = |key: &str| there.iter().find(|pane| pane.part == key);
        let Some(at) = self.beside.iter().position(|one| one.key == part.key) else {
            return there.first().map(|pane| (pane, &["-v", "-f", "-l", BELOW][..]));
        };
        let (before, after) = self.beside.split_at(at);
        let left = before.iter().rev().find_map(|one| find(&one.key));
        let right = || after.iter().find_map(|one| find(&one.key));
        left.map(|pane| (pane, &["-h"][..]))
            .or_else(|| right().map(|pane| (pane, &["-h", "-b"][..])))
            .or_else(|| find(&self.below.key).map(|pane| (pane, &["-v", "-b"][..])))
            .or_else(|| there.first().map(|pane| (pane, &["-v"][..])))
    }

    /// In one go, so that no program can end before the session is told to keep its pane.
    fn create(&self, tmux: &Tmux, name: &str, part: &Part) -> Result<()> {
        let (columns, lines) = (self.size.0.max(20).to_string(), self.size.1.max(20).to_string());
        let target = format!("={name}:");
        let args = [
            "new-session",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-s",
            name,
            "-x",
            &columns,
            "-y",
            &lines,
        ];
        let mut words = with_program(&args, part);
        for option in [
            &["-w", "-t", &target, "remain-on-exit", "on"][..],
            &["-t", &target, "@segue_owner", &self.owner],
            &["-t", &target, "destroy-unattached", "off"],
        ] {
            words.extend([";", "set-option"].iter().chain(option).map(OsString::from));
        }
        let pane = tmux.run(words)?;
        dress(tmux, pane.trim())?;
        label(tmux, pane.trim(), part)
    }

    /// Gives those side by side the same width, and keeps the one below at its height. What can't be
    /// had stays as it is: it is only the look.
    fn arrange(&self, tmux: &Tmux, there: &[Pane]) {
        let find = |key: &str| there.iter().find(|pane| pane.part == key);
        let Some(below) = find(&self.below.key) else { return };
        let row: Vec<&Pane> = self
            .beside
            .iter()
            .filter_map(|part| find(&part.key))
            .filter(|pane| pane.window_id == below.window_id)
            .collect();
        let width = tmux.run(["display-message", "-p", "-t", &below.id, "#{window_width}"]);
        let width: usize = width.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        for (n, pane) in row.iter().enumerate().rev().skip(1).rev() {
            let each = (width + 1).saturating_sub(row.len() - n) / row.len();
            let _ = tmux.run(["resize-pane", "-t", &pane.id, "-x", &each.to_string()]);
        }
        let keep = format!("resize-pane -t {} -y {BELOW}", below.id);
        let _ = tmux.run(["resize-pane", "-t", &below.id, "-y", BELOW]);
        let _ = tmux.run(["set-hook", "-w", "-t", &below.window_id, "window-resized", &keep]);
    }
}

/// How the window of a pane looks.
fn dress(tmux: &Tmux, pane: &str) -> Result<()> {
    let options = [
        ("remain-on-exit", "on"),
        ("pane-border-status", "top"),
        ("pane-border-format", " #{pane_title} "),
        ("automatic-rename", "off"),
        ("allow-rename", "off"),
    ];
    for (name, value) in options {
        tmux.run(["set-option", "-w", "-t", pane, name, value])?;
    }
    tmux.run(["rename-window", "-t", pane, "segue"]).map(drop)
}

fn label(tmux: &Tmux, pane: &str, part: &Part) -> Result<()> {
    tmux.run(["set-option", "-p", "-t", pane, "@segue_part", &part.key])?;
    tmux.run(["select-pane", "-t", pane, "-T", &plain_name(&part.title)]).map(drop)
}

fn respawn(tmux: &Tmux, pane: &Pane, part: &Part) -> Result<()> {
    tmux.run(with_program(&["respawn-pane", "-t", &pane.id], part))?;
    label(tmux, &pane.id, part)
}

fn with_program(args: &[&str], part: &Part) -> Vec<OsString> {
    let args = args.iter().copied().chain(["--"]).map(OsString::from);
    args.chain(part.argv.iter().map(|one| word(OsStr::new(one)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(key: &str) -> Part {
        Part { key: key.to_owned(), title: key.to_owned(), argv: Vec::new() }
    }

    fn pane(session: &str, owner: &str, part: &str) -> Pane {
        Pane {
            session: session.to_owned(),
            session_id: "$1".to_owned(),
            window_id: "@1".to_owned(),
            id: format!("%{part}"),
            dead: false,
            owner: owner.to_owned(),
            part: part.to_owned(),
        }
    }

    fn wall() -> Wall {
        Wall {
            name: "segue-app-7".to_owned(),
            owner: "01ABCDEF".to_owned(),
            size: (80, 24),
            beside: vec![part("worker"), part("one"), part("two")],
            below: part("status"),
        }
    }

    #[test]
    fn a_name_that_somebody_else_has_is_left_to_them() {
        let name = |panes: &[Pane]| wall().free_name(panes);
        assert_eq!(name(&[pane("segue-app-77", "other", "")]), "segue-app-7");
        assert_eq!(name(&[pane("segue-app-7", "01ABCDEF", "")]), "segue-app-7");
        assert_eq!(name(&[pane("segue-app-7", "", "")]), "segue-app-7-ABCDEF");
    }

    #[test]
    fn every_part_has_its_place() {
        let at = |key: &str, there: &[&str]| {
            let there: Vec<Pane> = there.iter().map(|key| pane("s", "o", key)).collect();
            let (pane, how) = wall().place(&part(key), &there)?;
            Some(format!("{} {}", pane.id, how.join(" ")))
        };
        assert_eq!(at("one", &["worker", "status"]).unwrap(), "%worker -h");
        assert_eq!(at("two", &["worker", "one"]).unwrap(), "%one -h");
        assert_eq!(at("worker", &["one", "status"]).unwrap(), "%one -h -b");
        assert_eq!(at("worker", &["status"]).unwrap(), "%status -v -b");
        assert_eq!(at("status", &["worker"]).unwrap(), "%worker -v -f -l 8");
        assert_eq!(at("worker", &[]), None);
    }
}
