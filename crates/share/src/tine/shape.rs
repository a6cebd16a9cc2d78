//! What an artifact has to look like, and the list of steps that the very first version was.

use std::collections::HashSet;

use super::{
    artifact::step_id,
    json::{Map, Value, map},
};

const REQUIRED: [&str; 11] = [
    "cache",
    "created_at",
    "format_version",
    "graph",
    "manifest",
    "metadata",
    "policies",
    "refs",
    "run_id",
    "status",
    "transcript",
];
const STEP_REQUIRED: [&str; 10] = [
    "cost",
    "duration",
    "error",
    "id",
    "inputs",
    "kind",
    "model_info",
    "outputs",
    "timestamp",
    "tool_info",
];
const STATUSES: [&str; 4] = ["running", "paused", "completed", "failed"];
const KINDS: [&str; 5] = ["think", "tool", "model", "done", "error"];
const MAX_SAFE: u64 = (1 << 53) - 1;

type Checked = Result<(), String>;

/// Everything that a reader counts on.
pub(super) fn check(run: &Map) -> Checked {
    if let Some(missing) = REQUIRED.iter().find(|key| !run.contains_key(**key)) {
        return Err(format!("`{missing}` is missing"));
    }
    if run.get("run_id").and_then(Value::text).is_none_or(str::is_empty) {
        return Err("`run_id` is not a name".to_owned());
    }
    for key in ["refs", "manifest", "policies", "cache", "metadata", "graph"] {
        if run.get(key).and_then(Value::map).is_none() {
            return Err(format!("`{key}` is not an object"));
        }
    }
    if run.get("transcript").and_then(Value::list).is_none() {
        return Err("`transcript` is not a list".to_owned());
    }
    if run.get("created_at").and_then(Value::float).is_none() {
        return Err("`created_at` is not a time".to_owned());
    }
    if !one_of(run.get("status"), &STATUSES) {
        return Err("`status` is not one of those that there are".to_owned());
    }
    if run.get("draft").is_some_and(|draft| !matches!(draft, Value::Bool(_))) {
        return Err("`draft` is not yes or no".to_owned());
    }
    check_metadata(run)?;
    check_graph(run)
}

fn one_of(value: Option<&Value>, words: &[&str]) -> bool {
    value.and_then(Value::text).is_some_and(|word| words.contains(&word))
}

fn check_metadata(run: &Map) -> Checked {
    let metadata = run.get("metadata").and_then(Value::map);
    let said = |key: &str| metadata.and_then(|metadata| metadata.get(key));
    for key in ["model_info", "system_prompt", "user_prompt"] {
        if said(key).is_some_and(|value| value.text().is_none()) {
            return Err(format!("`metadata.{key}` is not a text"));
        }
    }
    let are_texts =
        |tags: &Value| tags.list().is_some_and(|tags| tags.iter().all(|tag| tag.text().is_some()));
    if said("tags").is_some_and(|tags| !are_texts(tags)) {
        return Err("`metadata.tags` is not a list of words".to_owned());
    }
    match run.get("manifest").and_then(|manifest| manifest.get("model")) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Map(model)) if model.get("name").is_none_or(|name| name.text().is_some()) => {
            Ok(())
        }
        Some(_) => Err("`manifest.model` is not an object with a name".to_owned()),
    }
}

fn check_graph(run: &Map) -> Checked {
    let graph = run.get("graph");
    let steps = graph.and_then(|graph| graph.get("steps")).and_then(Value::map);
    let steps = steps.ok_or("`graph.steps` is not an object")?;
    let order = graph.and_then(|graph| graph.get("order")).and_then(Value::list);
    let order = order.ok_or("`graph.order` is not a list")?;
    let mut known = HashSet::new();
    for id in order {
        let id = id.text().ok_or("`graph.order` has something else than ids")?;
        let short: String = id.chars().take(12).collect();
        let step = steps.get(id).and_then(Value::map);
        let step =
            step.ok_or_else(|| format!("step {short:?} is in the order, and nowhere else"))?;
        check_step(id, step, &known).map_err(|why| format!("step {short:?}: {why}"))?;
        if !known.insert(id) {
            return Err(format!("step {short:?} is in the order twice"));
        }
    }
    if known.len() != steps.len() {
        return Err("a step is not in the order".to_owned());
    }
    let refs = run.get("refs").and_then(Value::map).into_iter().flatten();
    for (name, target) in refs {
        match target.text() {
            Some(id) if id.is_empty() || known.contains(id) => {}
            _ => return Err(format!("the ref {name:?} names no step")),
        }
    }
    Ok(())
}

fn check_step(id: &str, step: &Map, before: &HashSet<&str>) -> Checked {
    if let Some(missing) = STEP_REQUIRED.iter().find(|key| !step.contains_key(**key)) {
        return Err(format!("`{missing}` is missing"));
    }
    if step.get("id").and_then(Value::text) != Some(id) {
        return Err("it calls itself something else".to_owned());
    }
    if !one_of(step.get("kind"), &KINDS) {
        return Err("its kind is not one of those that there are".to_owned());
    }
    for key in ["inputs", "outputs", "tool_info", "error", "usage", "billing"] {
        if !matches!(step.get(key), None | Some(Value::Null | Value::Map(_))) {
            return Err(format!("`{key}` is not an object"));
        }
    }
    for key in ["parent_ids", "causal_ids"] {
        match step.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::List(ids)) if ids.iter().all(|id| id.text().is_some()) => {}
            Some(_) => return Err(format!("`{key}` is not a list of ids")),
        }
    }
    let parents = step.get("parent_ids").and_then(Value::list).unwrap_or_default();
    let parent = step.get("parent_id").filter(|_| !step.contains_key("parent_ids"));
    let parent = parent.filter(|parent| !matches!(parent, Value::Null));
    let known = |id: &Value| id.text().is_some_and(|id| id.is_empty() || before.contains(id));
    if !parents.iter().all(|id| id.text().is_some_and(|id| before.contains(id)))
        || !parent.is_none_or(known)
    {
        return Err("a parent of it does not come before it".to_owned());
    }
    check_numbers(step)
}

fn check_numbers(step: &Map) -> Checked {
    if step.get("timestamp").and_then(Value::float).is_none() {
        return Err("`timestamp` is not a time".to_owned());
    }
    for key in ["cost", "duration"] {
        match step.get(key) {
            None | Some(Value::Null) => {}
            Some(value) if value.float().is_some_and(|float| float >= 0.0) => {}
            Some(_) => return Err(format!("`{key}` is below zero, or not a number")),
        }
    }
    let usage = step.get("usage").and_then(Value::map).into_iter().flatten();
    for (name, count) in usage {
        let safe = match count {
            Value::Int(_) => count.count().is_some_and(|count| count <= MAX_SAFE),
            Value::Float(float) => *float >= 0.0,
            _ => false,
        };
        if !safe || name.is_empty() {
            return Err(format!("`usage.{name}` is not a count"));
        }
    }
    Ok(())
}

/// The first version: a list of steps, each with one parent and an id of its own kind.
pub(super) fn is_list(source: &Map) -> bool {
    source.get("type").and_then(Value::text) == Some("Run")
        && source.get("steps").and_then(Value::list).is_some()
        && !source.contains_key("graph")
}

/// Such a list as a graph. The steps get the ids that they have to have.
pub(super) fn from_list(source: &Map) -> Map {
    let field = |key: &str, or: Value| source.get(key).cloned().unwrap_or(or);
    let (mut steps, mut order, mut ids) = (Map::new(), Vec::<String>::new(), Map::new());
    let list = source.get("steps").and_then(Value::list).unwrap_or_default();
    for old in list.iter().filter_map(Value::map) {
        let said = |key: &str, or: Value| old.get(key).cloned().unwrap_or(or);
        let object = |key: &str| old.get(key).filter(|v| v.map().is_some()).cloned();
        let object = |key| object(key).unwrap_or_else(|| Map::new().into());
        let number = |key: &str| Value::Float(old.get(key).and_then(Value::float).unwrap_or(0.0));
        let parent = old.get("parent_id").and_then(Value::text).and_then(|id| ids.get(id));
        let mut step = map([
            ("cost", number("cost")),
            ("duration", number("duration")),
            ("error", Map::new().into()),
            ("inputs", object("inputs")),
            ("kind", said("kind", "think".into())),
            ("model_info", said("model_info", "".into())),
            ("outputs", object("outputs")),
            ("parent_ids", Value::List(parent.cloned().into_iter().collect())),
            ("timestamp", number("timestamp")),
            ("tool_info", Map::new().into()),
        ]);
        let id = step_id(&step);
        step.insert("id".to_owned(), id.as_str().into());
        if let Some(Value::Text(old)) = old.get("id") {
            ids.insert(old.clone(), id.as_str().into());
        }
        if steps.insert(id.clone(), step.into()).is_none() {
            order.push(id);
        }
    }
    let mut metadata = source.get("metadata").and_then(Value::map).cloned().unwrap_or_default();
    for key in ["model_info", "system_prompt", "user_prompt"] {
        metadata.entry(key.to_owned()).or_insert_with(|| field(key, "".into()));
    }
    metadata.remove("integrity");
    let none = || Value::Map(Map::new());
    map([
        ("cache", field("cache", none())),
        ("created_at", field("created_at", 0.0.into())),
        ("manifest", field("manifest", none())),
        ("policies", field("policies", none())),
        ("refs", map([("main", order.last().cloned().unwrap_or_default().into())]).into()),
        ("graph", map([("order", order.into()), ("steps", steps.into())]).into()),
        ("metadata", metadata.into()),
        ("run_id", source.get("id").or(source.get("run_id")).cloned().unwrap_or(Value::Null)),
        ("status", field("status", "completed".into())),
        ("transcript", field("transcript", Value::List(Vec::new()))),
    ])
}
