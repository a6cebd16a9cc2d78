//! Segue as a person or a script meets it: every command, every error, every table.

// Said once more than needed, so that lints know the helpers for tests too.
#[cfg(test)]
mod again;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod agents_catch_up;
#[cfg(test)]
mod agents_faults;
#[cfg(test)]
mod carry;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod crew;
#[cfg(test)]
mod crew_orders;
#[cfg(test)]
mod crew_pages;
#[cfg(test)]
mod crew_terminals;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod handoff;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod left;
#[cfg(test)]
mod look;
#[cfg(test)]
mod native;
#[cfg(test)]
mod offer;
#[cfg(test)]
mod packet;
#[cfg(test)]
mod pair;
#[cfg(test)]
mod pair_rounds;
#[cfg(test)]
mod picker;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod replay_page;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod rewind;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod selectors;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod stand_ins;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod support;
#[cfg(test)]
mod task_branch;
#[cfg(test)]
mod task_damage;
#[cfg(test)]
mod task_people;
#[cfg(test)]
mod task_requests;
#[cfg(test)]
mod task_runs;
#[cfg(test)]
mod task_stops;
#[cfg(test)]
mod tasks;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tmux;
#[cfg(test)]
mod worktree;
