//! What a command checks, by its words: only commands that really ran say how the work stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    Tests,
    Lint,
    Typecheck,
    Build,
    #[serde(other)]
    Unknown,
}

/// The words that a command begins with, by what it checks. The longest that fits counts.
const COMMANDS: &[(&str, Check)] = &[
    ("cargo test", Check::Tests),
    ("cargo nextest", Check::Tests),
    ("pytest", Check::Tests),
    ("python -m pytest", Check::Tests),
    ("python3 -m pytest", Check::Tests),
    ("python -m unittest", Check::Tests),
    ("python3 -m unittest", Check::Tests),
    ("tox", Check::Tests),
    ("npm test", Check::Tests),
    ("npm t", Check::Tests),
    ("npm run test", Check::Tests),
    ("pnpm test", Check::Tests),
    ("yarn test", Check::Tests),
    ("bun test", Check::Tests),
    ("jest", Check::Tests),
    ("npx jest", Check::Tests),
    ("vitest", Check::Tests),
    ("npx vitest", Check::Tests),
    ("node --test", Check::Tests),
    ("go test", Check::Tests),
    ("make test", Check::Tests),
    ("make check", Check::Tests),
    ("mvn test", Check::Tests),
    ("gradle test", Check::Tests),
    ("./gradlew test", Check::Tests),
    ("dotnet test", Check::Tests),
    ("ctest", Check::Tests),
    ("rspec", Check::Tests),
    ("bundle exec rspec", Check::Tests),
    ("sh test.sh", Check::Tests),
    ("./test.sh", Check::Tests),
    ("cargo clippy", Check::Lint),
    ("cargo fmt --check", Check::Lint),
    ("eslint", Check::Lint),
    ("npx eslint", Check::Lint),
    ("npm run lint", Check::Lint),
    ("pnpm lint", Check::Lint),
    ("yarn lint", Check::Lint),
    ("ruff", Check::Lint),
    ("flake8", Check::Lint),
    ("pylint", Check::Lint),
    ("golangci-lint", Check::Lint),
    ("go vet", Check::Lint),
    ("make lint", Check::Lint),
    ("shellcheck", Check::Lint),
    ("cargo check", Check::Typecheck),
    ("tsc", Check::Typecheck),
    ("npx tsc", Check::Typecheck),
    ("npm run typecheck", Check::Typecheck),
    ("mypy", Check::Typecheck),
    ("python -m mypy", Check::Typecheck),
    ("pyright", Check::Typecheck),
    ("npx pyright", Check::Typecheck),
    ("cargo build", Check::Build),
    ("npm run build", Check::Build),
    ("pnpm build", Check::Build),
    ("yarn build", Check::Build),
    ("go build", Check::Build),
    ("make", Check::Build),
    ("cmake --build", Check::Build),
    ("mvn package", Check::Build),
    ("gradle build", Check::Build),
    ("./gradlew build", Check::Build),
    ("dotnet build", Check::Build),
];

/// The most of a command that is kept.
const MOST_COMMAND: usize = 200;

/// The command in a tool call's input, whatever the vendor calls the field.
#[must_use]
pub fn command_of(input: &str) -> Option<String> {
    let value: Value = serde_json::from_str(input).ok()?;
    let found = ["command", "cmd", "script"].iter().find_map(|name| value.get(name))?;
    let text = match found {
        Value::String(text) => text.clone(),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let words = words?;
            match words[..] {
                // A shell and its script: the script is what was meant.
                [_, "-c" | "-lc", script] => script.to_owned(),
                _ => words.join(" "),
            }
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What a command checks, if it is one of those that everybody knows. In a line of several, the
/// last one decides: its status is the line's.
#[must_use]
pub fn check_of(command: &str) -> Option<(Check, String)> {
    let last = command.trim().rsplit(['\n', ';']).next()?;
    // What follows an `||`, or comes out of a pipe, hides the status of the check itself.
    if last.contains("||") || last.contains('|') {
        return None;
    }
    let last = last.rsplit("&&").next()?.trim();
    let words: Vec<&str> = last.split_whitespace().skip_while(|word| is_variable(word)).collect();
    let line = words.join(" ");
    let fits = |start: &str| {
        line.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let found = COMMANDS.iter().filter(|(start, _)| fits(start)).max_by_key(|(s, _)| s.len())?;
    let end = line.floor_char_boundary(MOST_COMMAND);
    Some((found.1, line[..end].to_owned()))
}

/// `NAME=value` before a command.
fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_how_it_begins() {
        let check = |text: &str| check_of(text).map(|(check, _)| check);
        assert_eq!(check("cargo test -p core"), Some(Check::Tests));
        assert_eq!(check("cd app && RUST_LOG=1 cargo test"), Some(Check::Tests));
        assert_eq!(check("cargo fmt; cargo clippy --all"), Some(Check::Lint));
        assert_eq!(check("make test"), Some(Check::Tests));
        assert_eq!(check("make"), Some(Check::Build));
        assert_eq!(check("npx tsc --noEmit"), Some(Check::Typecheck));
        assert_eq!(check("makes"), None);
        assert_eq!(check("echo cargo test"), None);
        assert_eq!(check("cargo test | tail -3"), None, "its status is tail's");
        assert_eq!(check("cargo test || true"), None);
    }

    #[test]
    fn the_command_is_found_in_every_vendors_words() {
        assert_eq!(command_of(r#"{"command":"make"}"#).as_deref(), Some("make"));
        let shell = r#"{"command":["bash","-lc","cargo test"]}"#;
        assert_eq!(command_of(shell).as_deref(), Some("cargo test"));
        assert_eq!(command_of(r#"{"cmd":["make","-j2"]}"#).as_deref(), Some("make -j2"));
        assert_eq!(command_of(r#"{"path":"x"}"#), None);
        assert_eq!(command_of("no json"), None);
    }
}
