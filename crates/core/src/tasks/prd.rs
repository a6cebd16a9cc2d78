//! A list as one file of JSON: an array of tasks, or an object with `overview` and `tasks`.
//!
//! Fields that are not known here, such as a `status`, are passed over: how far a task has come is
//! not for its author to say.

use serde::Deserialize;
use serde_json::{Error, value::RawValue};

use super::{List, Numbers, Task, Wrong, sorted};

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    overview: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tasks: Option<&'a RawValue>,
}

/// A task, none of whose fields has been looked at yet: what is wrong with one must not hide what
/// is wrong with the next.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default, alias = "criteria")]
    acceptance_criteria: Option<&'a RawValue>,
}

const SHAPE: &str = "an array of tasks is needed, or an object with `overview` and `tasks`";

/// Reads a list from the text of a `prd.json`; `name` is what errors call the file.
pub fn from_json(name: &str, text: &str) -> Result<List, Vec<Wrong>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { name, text, wrong: Vec::new(), counted: (0, 1) };
    let list = reader.list();
    reader.wrong.sort_by_key(|one| one.line);
    match reader.wrong.is_empty() {
        true => Ok(list.unwrap_or_default()),
        false => Err(reader.wrong),
    }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    wrong: Vec<Wrong>,
    /// How far lines were counted, and which line that is.
    counted: (usize, usize),
}

impl<'a> Reader<'a> {
    fn wrong(&mut self, line: usize, what: impl Into<String>) {
        self.wrong.push(Wrong::new(self.name, line, what));
    }

    /// The line that a part of the text begins on.
    fn line_of(&mut self, part: &'a str) -> usize {
        let at = part.as_ptr() as usize - self.text.as_ptr() as usize;
        let (from, line) = if self.counted.0 <= at { self.counted } else { (0, 1) };
        let newlines = self.text.as_bytes()[from..at].iter().filter(|&&byte| byte == b'\n');
        self.counted = (at, line + newlines.count());
        self.counted.1
    }

    /// Parses a part of the text; its errors get the line that they have in the whole.
    fn parse<T: Deserialize<'a>>(&mut self, part: &'a str) -> Option<T> {
        serde_json::from_str(part).map_err(|error| self.failed(part, &error)).ok()
    }

    fn failed(&mut self, part: &'a str, error: &Error) {
        let line = self.line_of(part) + error.line().saturating_sub(1);
        let said = error.to_string();
        // The place is said before, and there for the whole file.
        let what = said.rfind(" at line ").map_or(said.as_str(), |end| &said[..end]);
        self.wrong(line, what);
    }

    fn list(&mut self) -> Option<List> {
        let whole: &RawValue = self.parse(self.text)?;
        let (overview, tasks) = match whole.get().as_bytes().first() {
            Some(b'[') => (None, whole),
            Some(b'{') => {
                let Whole { overview, tasks } = self.parse(whole.get())?;
                let line = self.line_of(whole.get());
                let Some(tasks) = tasks else {
                    self.wrong(line, format!("there are no `tasks`: {SHAPE}"));
                    return None;
                };
                (overview, tasks)
            }
            _ => {
                let line = self.line_of(whole.get());
                self.wrong(line, SHAPE);
                return None;
            }
        };
        let overview = overview.and_then(|raw| {
            let line = self.line_of(raw.get());
            self.string("overview", raw, line)
        });
        let line = self.line_of(tasks.get());
        if !tasks.get().starts_with('[') {
            self.wrong(line, "`tasks` is not an array");
            return None;
        }
        let entries: Vec<&RawValue> = self.parse(tasks.get())?;
        if entries.is_empty() {
            self.wrong(line, "there is no task");
        }
        let mut numbers = Numbers::default();
        let read = entries.into_iter().filter_map(|raw| self.task(raw, &mut numbers));
        let tasks = read.collect();
        Some(sorted(overview.unwrap_or_default(), tasks))
    }

    fn task(&mut self, raw: &'a RawValue, numbers: &mut Numbers) -> Option<Task> {
        let line = self.line_of(raw.get());
        // An array would be taken for the fields in their order.
        if !raw.get().starts_with('{') {
            self.wrong(line, "a task is not an object");
            return None;
        }
        let entry: Entry<'_> = self.parse(raw.get())?;
        let id = self.required("id", entry.id, line);
        if let Some(id) = &id
            && let Err(what) = numbers.take(id, || format!("the task on line {line}"))
        {
            self.wrong(line, what);
        }
        let title = self.required("title", entry.title, line);
        if title.as_ref().is_some_and(|title| title.contains('\n')) {
            self.wrong(line, "`title` has more than one line");
        }
        let description = entry.description.and_then(|raw| self.string("description", raw, line));
        let criteria = self.criteria(entry.acceptance_criteria, line);
        Some(Task {
            id: id?,
            title: title?,
            description: description.unwrap_or_default(),
            criteria: criteria?,
        })
    }

    fn required(&mut self, field: &str, raw: Option<&'a RawValue>, line: usize) -> Option<String> {
        let Some(raw) = raw else {
            self.wrong(line, format!("there is no `{field}`"));
            return None;
        };
        let text = self.string(field, raw, line)?;
        if text.is_empty() {
            self.wrong(line, format!("`{field}` is empty"));
            return None;
        }
        Some(text)
    }

    fn criteria(&mut self, raw: Option<&'a RawValue>, line: usize) -> Option<Vec<String>> {
        const FIELD: &str = "acceptance_criteria";
        let Some(raw) = raw else {
            self.wrong(line, format!("there are no `{FIELD}`"));
            return None;
        };
        if !raw.get().starts_with('[') {
            self.wrong(line, format!("`{FIELD}` is not an array"));
            return None;
        }
        let entries: Vec<&RawValue> = self.parse(raw.get())?;
        if entries.is_empty() {
            self.wrong(line, format!("`{FIELD}` is empty"));
        }
        let mut criteria = Vec::new();
        for (at, raw) in entries.into_iter().enumerate() {
            let field = format!("{FIELD}[{at}]");
            criteria.extend(self.required(&field, Some(raw), line));
        }
        Some(criteria)
    }

    fn string(&mut self, field: &str, raw: &'a RawValue, line: usize) -> Option<String> {
        if !raw.get().starts_with('"') {
            self.wrong(line, format!("`{field}` is not a string"));
            return None;
        }
        let text: String = self.parse(raw.get())?;
        // No program takes it in an argument, and no page can have one.
        if text.contains('\0') {
            self.wrong(line, format!("`{field}` has a NUL byte in it"));
        }
        Some(text.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        from_json("prd.json", text).unwrap_err().iter().map(Wrong::to_string).collect()
    }

    const TASK: &str = r#"{"id":"T-1","title":"A","acceptance_criteria":["a"]}"#;

    #[test]
    fn an_array_or_an_object_is_a_list() {
        let task = |id: &str, title: &str, description: &str, criteria: &[&str]| Task {
            id: id.into(),
            title: title.into(),
            description: description.into(),
            criteria: criteria.iter().map(|&text| text.to_owned()).collect(),
        };
        let text = r#"[
            {"id": "T-10", "title": " B ", "description": null, "criteria": ["b", "\u00fc\nc"]},
            {"title": "A", "acceptance_criteria": ["a"], "id": "T-009", "description": "\n d\n",
             "passes": false, "status": {"a": [1e999]}}
        ]"#;
        let tasks = vec![task("T-009", "A", "d", &["a"]), task("T-10", "B", "", &["b", "ü\nc"])];
        let list = List { overview: String::new(), tasks };
        assert_eq!(from_json("x", text).unwrap(), list);
        let whole =
            format!("\u{feff}\r\n{{\"tasks\":{text},\"version\":2,\"overview\":\"All\"}}\n");
        assert_eq!(from_json("x", &whole).unwrap(), List { overview: "All".into(), ..list });
    }

    #[test]
    fn everything_wrong_is_told_with_the_line_of_its_task() {
        let text = r#"
{ "overview": 1,
  "tasks": [ {"id": "T-1", "title": "A", "criteria": ["a"]}, {"id": "T-x"},

    {
      "id": 3,
      "title": "",
      "description": [],
      "acceptance_criteria": []
    }, 7,
    [ "T-5", "A", "", ["a"] ],
    { "status": "{\"\n", "id": "T-001", "title": "a\nb", "criteria": "a" }
    , { "id": "\u0000", "title": "ü", "criteria": [ "a", " ", null ] }
  ]
}"#;
        assert_eq!(
            wrong(text),
            [
                "prd.json:2: `overview` is not a string",
                "prd.json:3: `T-x` is no id: T- and digits, such as T-001",
                "prd.json:3: there is no `title`",
                "prd.json:3: there are no `acceptance_criteria`",
                "prd.json:5: `id` is not a string",
                "prd.json:5: `title` is empty",
                "prd.json:5: `description` is not a string",
                "prd.json:5: `acceptance_criteria` is empty",
                "prd.json:10: a task is not an object",
                "prd.json:11: a task is not an object",
                "prd.json:12: T-001 is also the id of the task on line 3",
                "prd.json:12: `title` has more than one line",
                "prd.json:12: `acceptance_criteria` is not an array",
                "prd.json:13: `id` has a NUL byte in it",
                "prd.json:13: `\\0` is no id: T- and digits, such as T-001",
                "prd.json:13: `acceptance_criteria[1]` is empty",
                "prd.json:13: `acceptance_criteria[2]` is not a string",
            ]
        );
    }

    #[test]
    fn what_is_no_list_is_told_where() {
        let surrogates = format!(
            "[\n{TASK},\n{{\"id\":\"T-2\",\n\"title\":\"\\ud800\",\"criteria\":[\"a\",\n\"\\udc00\"]}}]"
        );
        let table: [(&str, &[&str]); 13] = [
            ("", &["1: EOF while parsing a value"]),
            ("\n\n[", &["3: EOF while parsing a list"]),
            ("[\n{},\n]", &["3: expected value"]),
            ("[]\n]", &["2: trailing characters"]),
            ("\n 7", &["2: an array of tasks is needed"]),
            ("\n[]", &["2: there is no task"]),
            ("\n{}", &["2: there are no `tasks`"]),
            ("{\n\"tasks\":\n{}}", &["3: `tasks` is not an array"]),
            ("{\"tasks\":[],\n\"tasks\":[]}", &["2: duplicate field `tasks`"]),
            ("[\n{\"id\":\"T-1\",\n\"id\":\"T-2\"}]", &["3: duplicate field `id`"]),
            ("[{\"criteria\":[],\n\"acceptance_criteria\":[]}]", &["2: duplicate field"]),
            (
                "{\n\"tasks\":[\n{\"id\":\"T-1\",\"criteria\":[\"a\"]}],\n\"overview\":1}",
                &["3: there is no `title`", "4: `overview` is not a string"],
            ),
            (&surrogates, &["4: unexpected end of hex escape", "5: lone leading surrogate"]),
        ];
        for (text, expected) in table {
            let found = wrong(text);
            assert_eq!(found.len(), expected.len(), "{text:?}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                let expected = format!("prd.json:{expected}");
                assert!(found.starts_with(&expected), "{found} is not {expected}");
            }
        }
    }

    #[test]
    fn json_can_be_as_odd_as_it_likes() {
        let deep = 1 << 20;
        let (open, close) = ("[".repeat(deep), "]".repeat(deep));
        assert_eq!(wrong(&open).len(), 1);
        assert_eq!(wrong(&format!("{open}{close}")), ["prd.json:1: a task is not an object"]);
        assert_eq!(wrong(&"{\"tasks\":".repeat(deep)).len(), 1);
        for field in ["id", "title", "description", "acceptance_criteria", "overview"] {
            let task = format!("{{\"{field}\":{open}{close}}}");
            assert!(!wrong(&format!("[{task}]")).is_empty());
            assert!(!wrong(&format!("{{\"tasks\":{open}{close},\"overview\":{task}}}")).is_empty());
        }
        // What nobody looks at may be as deep as it likes.
        let aside = TASK.replacen('{', &format!("{{\"status\":{open}{close},"), 1);
        assert_eq!(from_json("x", &format!("[{aside}]")).unwrap().tasks.len(), 1);
        let long = "x".repeat(10 << 20);
        let list = from_json("x", &format!("[{}]", TASK.replace('A', &long))).unwrap();
        assert_eq!(list.tasks[0].title.len(), long.len());
        assert!(wrong(&format!("[{}]", TASK.replace("T-1", &long)))[0].len() < 200);
        assert_eq!(wrong("[\0]"), ["prd.json:1: expected value"]);
        let many: Vec<String> = (0..20_000).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
        let found = from_json("x", &format!("[{}]", many.join(",\n"))).unwrap_err();
        assert_eq!(found.last().unwrap().line, Some(20_000));
    }
}
