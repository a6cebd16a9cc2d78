//! What the screen is about at a moment, and what keys make of it. Nothing here touches a terminal,
//! a file or a process: what is wanted of those is returned as a [`Wish`].

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use segue_core::status::Status;

use crate::{
    row::Row,
    tui::keys::{edit, harmless, step, with_control},
};

use super::{Action, Order, follow::Follow, rows::Rows};

/// What the keys are for just now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Look,
    /// A filter is typed.
    Filter,
    /// The agent for a hand-off is typed.
    Agent(String),
    /// Asked whether it is meant. The order stands, wherever the selection goes meanwhile.
    Sure(Order),
    Help,
}

/// What is wanted of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    /// Follow the selected one.
    Follow,
    Do(Order),
}

#[derive(Debug)]
pub(super) struct Board {
    pub(super) rows: Rows,
    pub(super) mode: Mode,
    pub(super) follow: Option<Follow>,
    /// Stands until the next key.
    pub(super) message: String,
    /// There is something to draw.
    pub(super) changed: bool,
}

impl Board {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            rows: Rows::new(now),
            mode: Mode::Look,
            follow: None,
            message: String::new(),
            changed: true,
        }
    }

    pub(super) fn say(&mut self, message: impl Into<String>) {
        self.message = message.into();
        self.changed = true;
    }

    /// The session that keys are about: the one that is followed, else the selected one.
    pub(super) fn subject(&self) -> Option<&Row> {
        match &self.follow {
            Some(follow) => self.rows.all().iter().find(|row| row.at == follow.at),
            None => self.rows.selected(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        self.changed = true;
        self.message.clear();
        if key.code == KeyCode::Char('c') && with_control(key) {
            return Some(Wish::Quit);
        }
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => self.look_key(key),
            Mode::Filter => {
                self.filter_key(key);
                None
            }
            Mode::Agent(agent) => {
                self.agent_key(agent, key);
                None
            }
            Mode::Sure(order) => match key.code {
                KeyCode::Char('y' | 'Y') => Some(Wish::Do(order)),
                _ => {
                    self.say("nothing was done");
                    None
                }
            },
            // Whatever key it is, it ends the help.
            Mode::Help => None,
        }
    }

    /// What is pasted is for a line that is typed, and for nothing else: it must not press keys.
    pub(super) fn paste(&mut self, text: &str) {
        let text = text.chars().map(harmless);
        match &mut self.mode {
            Mode::Filter => self.rows.narrow(|rows| rows.filter.extend(text)),
            Mode::Agent(agent) => agent.extend(text),
            _ => return,
        }
        self.changed = true;
    }

    fn look_key(&mut self, key: KeyEvent) -> Option<Wish> {
        let page = self.follow.as_ref().map_or_else(|| self.rows.page(), Follow::page);
        let letter = match key.code {
            KeyCode::Char(c) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => Some(c),
            _ => None,
        };
        let by = match letter {
            Some('j') => Some(1),
            Some('k') => Some(-1),
            _ => step(key, page),
        };
        match (by, &mut self.follow) {
            (Some(by), Some(follow)) => follow.step(by),
            (Some(by), None) => self.rows.step(by),
            (None, _) => return self.command_key(key.code, letter),
        }
        None
    }

    fn command_key(&mut self, code: KeyCode, letter: Option<char>) -> Option<Wish> {
        match (code, letter) {
            (KeyCode::Esc, _) if self.follow.is_some() => self.follow = None,
            (KeyCode::Esc, _) => self.rows.narrow(|rows| rows.filter.clear()),
            (KeyCode::Enter, _) if self.follow.is_none() => {
                return self.subject().map(|_| Wish::Follow);
            }
            (_, Some('q')) => return Some(Wish::Quit),
            (_, Some('?')) => self.mode = Mode::Help,
            (_, Some('/')) if self.follow.is_none() => self.mode = Mode::Filter,
            (_, Some('a')) if self.follow.is_none() => {
                self.rows.narrow(|rows| rows.active_only = !rows.active_only);
            }
            (_, Some('r')) => return self.resume(),
            (_, Some('s')) => self.ask_stop(),
            (_, Some('h')) if self.subject().is_some() => self.mode = Mode::Agent(String::new()),
            (_, Some('o')) => return self.order(Action::Open).map(Wish::Do),
            _ => {}
        }
        None
    }

    fn order(&self, action: Action) -> Option<Order> {
        let row = self.subject()?;
        let running = row.status() == Status::Running;
        Some(Order { at: row.at.clone(), selector: row.selector(), running, action })
    }

    fn resume(&mut self) -> Option<Wish> {
        let order = self.order(Action::Resume)?;
        if order.running {
            self.say(format!("session {} runs already", order.selector));
            return None;
        }
        Some(Wish::Do(order))
    }

    fn ask_stop(&mut self) {
        match self.order(Action::Stop) {
            Some(order) if order.running => self.mode = Mode::Sure(order),
            Some(order) => self.say(format!("session {} does not run", order.selector)),
            None => {}
        }
    }

    fn filter_key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => return,
            KeyCode::Esc => return self.rows.narrow(|rows| rows.filter.clear()),
            _ => self.mode = Mode::Filter,
        }
        if let Some(by) = step(key, self.rows.page()) {
            self.rows.step(by);
        } else if let Some(change) = edit(key) {
            self.rows.narrow(|rows| change(&mut rows.filter));
        }
    }

    fn agent_key(&mut self, mut agent: String, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => return,
            KeyCode::Enter if agent.trim().is_empty() => return,
            KeyCode::Enter => {
                let to = agent.trim().to_owned();
                match self.order(Action::HandOff { to }) {
                    Some(order) => self.mode = Mode::Sure(order),
                    None => self.say("that session is gone"),
                }
                return;
            }
            _ => {}
        }
        if let Some(change) = edit(key) {
            change(&mut agent);
        }
        self.mode = Mode::Agent(agent);
    }
}
