//! What an agent may do, answered in place of a person.

use std::path::{Component, Path, PathBuf};

use agent_client_protocol_schema::v1::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, SelectedPermissionOutcome,
    ToolCall, ToolKind,
};
use segue_core::Permission;

use super::tools::paths;
use crate::report::OUR_TOOLS;

/// Whether a call may be made.
pub(super) fn allows(permission: Permission, call: &ToolCall, cwd: &Path) -> bool {
    let looks =
        matches!(call.kind, ToolKind::Read | ToolKind::Search | ToolKind::Fetch | ToolKind::Think);
    let edits = matches!(call.kind, ToolKind::Edit | ToolKind::Move | ToolKind::Delete);
    match permission {
        Permission::Full => true,
        Permission::ReadOnly => looks,
        Permission::Edit => looks || edits && all_inside(call, cwd),
    }
}

/// Whether it is a call of our own tools, which may always be made. The kind and the title are the
/// program's own words, not the model's; these are the ones that Claude's and Gemini's have, and
/// the others do not ask.
pub(super) fn is_ours(call: &ToolCall) -> bool {
    let titled = |tool: &&str| {
        let titles = [format!("mcp__segue__{tool}"), format!("{tool} (segue MCP Server)")];
        titles.contains(&call.title)
    };
    call.kind == ToolKind::Other && OUR_TOOLS.iter().any(titled)
}

/// A call that does not say what it changes is not taken to stay inside.
fn all_inside(call: &ToolCall, cwd: &Path) -> bool {
    let paths = paths(call);
    let cwd = settled(cwd);
    !paths.is_empty() && paths.iter().all(|path| settled(&cwd.join(path)).starts_with(&cwd))
}

/// The path without links, as far as it exists, and without `..`.
fn settled(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                // What is above a link is not what is above its name.
                plain = std::fs::canonicalize(&plain).unwrap_or(plain);
                plain.pop();
            }
            Component::CurDir => {}
            _ => plain.push(part),
        }
    }
    let existing =
        plain.ancestors().find_map(|part| Some((std::fs::canonicalize(part).ok()?, part)));
    let Some((real, part)) = existing else { return plain };
    match plain.strip_prefix(part) {
        Ok(rest) if rest.as_os_str().is_empty() => real,
        Ok(rest) => real.join(rest),
        Err(_) => plain,
    }
}

/// The answer, out of those that the agent offers: for this once where it can be had.
pub(super) fn answer(allowed: bool, options: &[PermissionOption]) -> RequestPermissionOutcome {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let kinds = if allowed { [AllowOnce, AllowAlways] } else { [RejectOnce, RejectAlways] };
    let chosen = kinds.iter().find_map(|kind| options.iter().find(|option| option.kind == *kind));
    chosen.map_or(RequestPermissionOutcome::Cancelled, |option| {
        let id = option.option_id.clone();
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
    })
}

/// Of an agent's modes the one that suits: one in which it asks, or one in which it need not.
/// There is no standard for their names; these are the ones that agents have. Where none is known
/// the agent keeps its own.
pub(super) fn mode<'a>(permission: Permission, offered: &[&'a str]) -> Option<&'a str> {
    let names: &[&str] = match permission {
        Permission::ReadOnly | Permission::Edit => &["read-only", "default"],
        Permission::Full => &["bypassPermissions", "yolo", "agent-full-access", "full-access"],
    };
    names.iter().find_map(|name| offered.iter().copied().find(|mode| mode == name))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::ToolCallLocation;

    use super::*;

    fn call(kind: ToolKind, paths: &[&Path]) -> ToolCall {
        let locations = paths.iter().map(|&path| ToolCallLocation::new(path)).collect();
        ToolCall::new("1", "t").kind(kind).locations(locations)
    }

    #[test]
    fn edits_stay_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("w");
        std::fs::create_dir_all(cwd.join("sub")).unwrap();
        std::fs::create_dir_all(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink("../other", cwd.join("link")).unwrap();
        std::os::unix::fs::symlink(&cwd, dir.path().join("alias")).unwrap();
        let inside = |path: &str| {
            let path = dir.path().join(path);
            allows(Permission::Edit, &call(ToolKind::Edit, &[&path]), &cwd)
        };
        assert!(inside("w/new.txt") && inside("w/sub/../new") && inside("w/no/such/dir/file"));
        assert!(inside("alias/new.txt"));
        assert!(!inside("other/x") && !inside("w/../other/x") && !inside("w/link/x"));
        assert!(!inside("w/link/../x") && !inside("w-twin/x"));
        let relative = call(ToolKind::Edit, &[Path::new("sub/x")]);
        assert!(allows(Permission::Edit, &relative, &cwd));
        assert!(!allows(Permission::Edit, &call(ToolKind::Edit, &[]), &cwd));
        let (good, bad) = (cwd.join("a"), dir.path().join("other/a"));
        assert!(!allows(Permission::Edit, &call(ToolKind::Move, &[&good, &bad]), &cwd));
    }

    #[test]
    fn each_permission_lets_its_kinds_through() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let may = |permission, kind| allows(permission, &call(kind, &[&file]), dir.path());
        use ToolKind::{
            Delete, Edit, Execute, Fetch, Move, Other, Read, Search, SwitchMode, Think,
        };
        for kind in [Read, Search, Fetch, Think] {
            assert!(Permission::ALL.iter().all(|&one| may(one, kind)));
        }
        for kind in [Edit, Move, Delete] {
            assert!(!may(Permission::ReadOnly, kind));
            assert!(may(Permission::Edit, kind) && may(Permission::Full, kind));
        }
        for kind in [Execute, Other, SwitchMode] {
            assert!(!may(Permission::ReadOnly, kind) && !may(Permission::Edit, kind));
            assert!(may(Permission::Full, kind));
        }
    }

    #[test]
    fn our_own_tools_are_known_by_what_the_program_calls_them() {
        let titled = |title: &str, kind| is_ours(&ToolCall::new("1", title).kind(kind));
        for tool in OUR_TOOLS {
            assert!(titled(&format!("mcp__segue__{tool}"), ToolKind::Other));
            assert!(titled(&format!("{tool} (segue MCP Server)"), ToolKind::Other));
        }
        assert!(!titled("mcp__segue__shell", ToolKind::Other), "none of ours");
        assert!(!titled("mcp__segue__checkpoint", ToolKind::Execute), "a command of that name");
        assert!(!titled("mcp__other__checkpoint", ToolKind::Other));
        assert!(!titled("mcp__segue__checkpoint; rm -rf .", ToolKind::Other));
    }

    #[test]
    fn the_mode_in_which_an_agent_asks() {
        let codex = ["read-only", "workspace-write", "agent", "agent-full-access"];
        let qwen = ["plan", "default", "auto-edit", "auto", "yolo"];
        assert_eq!(mode(Permission::Edit, &codex), Some("read-only"));
        assert_eq!(mode(Permission::Full, &codex), Some("agent-full-access"));
        assert_eq!(mode(Permission::ReadOnly, &qwen), Some("default"));
        assert_eq!(mode(Permission::Full, &qwen), Some("yolo"));
        assert_eq!(mode(Permission::Full, &["default", "plan"]), None);
        assert_eq!(mode(Permission::Edit, &["build", "plan"]), None);
    }
}
