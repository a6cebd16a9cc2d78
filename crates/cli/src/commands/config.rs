//! `segue config`: what holds now, where it comes from, and how to change it.

use std::io::Read;

use segue_core::Exit;
use segue_view::table::plain_table;
use serde_json::json;

use crate::{
    config::{KEYS, Kind, check, unknown_key},
    context::{Context, print, say},
    error::{CommandError, CommandResult},
};

/// Show or change settings
///
/// A setting comes from a flag, else from its environment variable, else from config.toml in the
/// home, else from its default.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  segue config
  segue config set model anthropic/claude-sonnet-4-5
  segue config set caps.time 2h
  segue config set anthropic.key -  < key.txt
  segue config set 'prices.chat/llama3.input' 0.2")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print one value
    Get { name: String },
    /// Change one value; `-` reads it from standard input
    Set { name: String, value: String },
    /// Go back to the default
    Unset { name: String },
    /// Print where config.toml is
    Path,
}

const HIDDEN: &str = "(set)";

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    match args.action {
        None => list(context),
        Some(Action::Get { name }) => get(context, &name),
        Some(Action::Set { name, value }) => set(context, &name, value),
        Some(Action::Unset { name }) => change(context, &name, None),
        Some(Action::Path) => {
            print(&context.config()?.path.display().to_string());
            Ok(Exit::Done)
        }
    }
}

fn list(context: &Context) -> CommandResult {
    let config = context.config()?;
    let rows = KEYS.iter().map(|key| {
        let (value, source) = match config.values.get(key.name) {
            Some((_, source)) if key.kind == Kind::Secret => (HIDDEN.to_owned(), source.to_string()),
            Some((value, source)) => (value.clone(), source.to_string()),
            None => (String::new(), String::new()),
        };
        (key, value, source)
    });
    if context.json {
        let rows: Vec<_> = rows
            .map(|(key, value, source)| {
                let value = (!source.is_empty()).then_some(value);
                json!({ "name": key.name, "value": value, "source": source, "env": key.env, "about": key.about })
            })
            .collect();
        let prices: std::collections::BTreeMap<_, _> = config.prices.iter().collect();
        context.print_json(&json!({ "path": config.path, "settings": rows, "prices": prices }))?;
        return Ok(Exit::Done);
    }
    let mut table = vec![["SETTING", "VALUE", "FROM", "WHAT IT IS"].map(str::to_owned)];
    table.extend(rows.map(|(key, value, source)| {
        let value = if source.is_empty() { "–".to_owned() } else { value };
        [key.name.to_owned(), value, source, key.about.to_owned()]
    }));
    print(plain_table(&table, &context.out()).trim_end());
    say(&format!("file: {}", config.path.display()));
    Ok(Exit::Done)
}

fn get(context: &Context, name: &str) -> CommandResult {
    let config = context.config()?;
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        return Err(unknown_key(&config.path, name));
    };
    let value = match key.kind {
        Kind::Secret => config.get(name).map(|_| HIDDEN),
        _ => config.get(name),
    };
    if context.json {
        context.print_json(&json!({ "name": name, "value": value }))?;
    } else if let Some(value) = value {
        print(value);
    }
    Ok(if value.is_some() { Exit::Done } else { Exit::Failed })
}

fn set(context: &Context, name: &str, value: String) -> CommandResult {
    let secret = KEYS.iter().any(|key| key.name == name && key.kind == Kind::Secret);
    let value = if value == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text.trim().to_owned()
    } else if secret {
        // Arguments can be read by every user of the machine, and stay in the shell's history.
        return Err(CommandError::usage(format!("{name} is a secret: it is read from standard input"))
            .hint(format!("segue config set {name} - < file")));
    } else {
        value
    };
    change(context, name, Some(&value))
}

fn change(context: &Context, name: &str, value: Option<&str>) -> CommandResult {
    let path = context.home.dir().join("config.toml");
    let parts = key_parts(name);
    match KEYS.iter().find(|key| key.name == name) {
        Some(key) => {
            if let Some(value) = value {
                check(key, value)
                    .map_err(|why| CommandError::usage(format!("{}: {why}", key.name)))?;
            }
        }
        None if parts.len() == 3 && parts[0] == "prices" => {}
        None => return Err(unknown_key(&path, name)),
    }
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| CommandError::failed(format!("{}: {e}", path.display())))?,
    };
    let mut document: toml_edit::DocumentMut = text
        .parse()
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    edit(&mut document, &parts, value);
    context.home.write_config(document.to_string().as_bytes())?;
    if context.json {
        context.print_json(&json!({ "name": name, "path": path }))?;
    } else {
        say(&format!("written to {}", path.display()));
    }
    Ok(Exit::Done)
}

/// `prices.<model>.input` has a model in the middle, which may have dots of its own.
fn key_parts(name: &str) -> Vec<&str> {
    match name.strip_prefix("prices.").and_then(|rest| rest.rsplit_once('.')) {
        Some((model, field)) => vec!["prices", model, field],
        None => name.split('.').collect(),
    }
}

/// Changes one value and leaves the rest of the file, comments included, as it is.
fn edit(document: &mut toml_edit::DocumentMut, parts: &[&str], value: Option<&str>) {
    let Some((last, tables)) = parts.split_last() else { return };
    let mut table = document.as_table_mut();
    for part in tables {
        let entry = table.entry(part).or_insert_with(|| {
            let mut table = toml_edit::Table::new();
            table.set_implicit(true);
            toml_edit::Item::Table(table)
        });
        let Some(inner) = entry.as_table_mut() else { return };
        table = inner;
    }
    match value {
        None => drop(table.remove(last)),
        Some(text) => {
            let number = text.parse::<i64>().map(toml_edit::value).or_else(|_| text.parse::<f64>().map(toml_edit::value));
            table[last] = number.unwrap_or_else(|_| toml_edit::value(text));
        }
    }
}
