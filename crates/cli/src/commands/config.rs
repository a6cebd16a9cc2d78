//! `segue config`: what holds now, where it comes from, and how to change it.

use std::io::Read;

use segue_core::Exit;
use segue_view::table::plain_table;
use serde_json::json;

use crate::{
    config::{KEYS, Kind, PRICE_FIELDS, Source, check, unknown_key},
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
const PRICE: &str = "Dollars per million tokens.";

pub(crate) fn run(context: &Context, args: Args) -> CommandResult {
    match args.action {
        None => list(context),
        Some(Action::Get { name }) => get(context, &name),
        Some(Action::Set { name, value }) => set(context, &name, value),
        Some(Action::Unset { name }) => change(context, &name, None),
        Some(Action::Path) => {
            // Also where the file does not parse: that is when one looks for it.
            let path = context.home.dir().join("config.toml");
            if context.json {
                context.print_json(&json!({ "path": path }))?;
            } else {
                print(&path.display().to_string());
            }
            Ok(Exit::Done)
        }
    }
}

fn list(context: &Context) -> CommandResult {
    let config = context.config()?;
    let rows = KEYS.iter().map(|key| {
        let (value, source) = match config.values.get(key.name) {
            Some((_, source)) if key.kind == Kind::Secret => {
                (HIDDEN.to_owned(), source.to_string())
            }
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
    let prices: std::collections::BTreeMap<_, _> = config.prices.iter().collect();
    for (model, price) in prices {
        for (field, dollars) in price.fields() {
            let name = format!("prices.{model}.{field}");
            let file = Source::File.to_string();
            table.push([name, dollars.to_string(), file, PRICE.to_owned()]);
        }
    }
    print(plain_table(&table, &context.out()).trim_end());
    say(&format!("file: {}", config.path.display()));
    Ok(Exit::Done)
}

fn get(context: &Context, name: &str) -> CommandResult {
    let config = context.config()?;
    let value = match (KEYS.iter().find(|key| key.name == name), &key_parts(name)[..]) {
        (Some(key), _) if key.kind == Kind::Secret => config.get(name).map(|_| HIDDEN.to_owned()),
        (Some(_), _) => config.get(name).map(str::to_owned),
        (None, &["prices", model, field]) if PRICE_FIELDS.contains(&field) => {
            let price = config.prices.get(model).copied().unwrap_or_default();
            let mut fields = price.fields();
            fields.find(|(known, _)| *known == field).map(|(_, dollars)| dollars.to_string())
        }
        _ => return Err(unknown_key(&config.path, name)),
    };
    if context.json {
        context.print_json(&json!({ "name": name, "value": value }))?;
    } else if let Some(value) = &value {
        print(value);
    } else {
        say(&format!("{name} is not set"));
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
        return Err(CommandError::usage(format!(
            "{name} is a secret: it is read from standard input"
        ))
        .hint(format!("segue config set {name} - < file")));
    } else {
        value
    };
    change(context, name, Some(&value))
}

fn change(context: &Context, name: &str, value: Option<&str>) -> CommandResult {
    let path = context.home.dir().join("config.toml");
    let parts = key_parts(name);
    let kind = match KEYS.iter().find(|key| key.name == name) {
        Some(key) => key.kind,
        None if parts[0] == "prices" && parts.last().is_some_and(|f| PRICE_FIELDS.contains(f)) => {
            Kind::Money
        }
        None => return Err(unknown_key(&path, name)),
    };
    if let Some(value) = value {
        check(kind, value).map_err(|why| CommandError::usage(format!("{name}: {why}")))?;
    }
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| CommandError::failed(format!("{}: {e}", path.display())))?,
    };
    let mut document: toml_edit::DocumentMut = text
        .parse()
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    edit(&mut document, &parts, value.map(|text| (kind, text))).map_err(|table| {
        CommandError::usage(format!("{}: `{table}` is not a table", path.display()))
    })?;
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

/// Changes one value and leaves the rest of the file, comments included, as it is. Fails with the
/// name of what should be a table and is none.
fn edit(
    document: &mut toml_edit::DocumentMut,
    parts: &[&str],
    value: Option<(Kind, &str)>,
) -> Result<(), String> {
    let Some((last, tables)) = parts.split_last() else { return Ok(()) };
    let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
    for part in tables {
        let entry = table.entry(part).or_insert_with(|| {
            let mut table = toml_edit::Table::new();
            table.set_implicit(true);
            toml_edit::Item::Table(table)
        });
        table = entry.as_table_like_mut().ok_or_else(|| (*part).to_owned())?;
    }
    let Some((kind, text)) = value else {
        table.remove(last);
        return Ok(());
    };
    let item = match kind {
        // A key or a name of digits stays the text that it is.
        Kind::Count | Kind::Money => number(text),
        _ => toml_edit::value(text),
    };
    match table.get_mut(last) {
        // What stands behind the old value, such as a comment, stays.
        Some(toml_edit::Item::Value(old)) => {
            let decor = old.decor().clone();
            if let toml_edit::Item::Value(mut new) = item {
                *new.decor_mut() = decor;
                *old = new;
            }
        }
        _ => drop(table.insert(last, item)),
    }
    Ok(())
}

/// A number as such, where it is a plain one.
fn number(text: &str) -> toml_edit::Item {
    let whole = text.parse::<i64>().map(toml_edit::value);
    let any = whole.or_else(|_| text.parse::<f64>().map(toml_edit::value));
    any.unwrap_or_else(|_| toml_edit::value(text))
}
