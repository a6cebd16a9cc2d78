//! Pages of Markdown: an `overview.md`, and one `T-001-….md` for each task.
//!
//! ```text
//! ---
//! id: T-001
//! title: Find notes
//! ---
//! What is to be done, and why.
//!
//! ## Acceptance criteria
//! - Something that can be checked.
//! ```

use super::{
    List, Numbers, OVERVIEW, Task, Wrong,
    markdown::{self, Kind, Line},
    number, repeated, sorted,
};

/// From this many columns on, a bullet is part of the one above it.
const NESTED: usize = 2;

/// Reads a list from the names and texts of its pages. Other files among them are passed over.
pub fn from_pages(pages: &[(String, String)]) -> Result<List, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let mut numbers = Numbers::default();
    let mut overview = None;
    let mut tasks = Vec::new();
    let mut named = 0;
    for (name, text) in pages.iter().filter(|(name, _)| super::is_page(name)) {
        let mut page = Page { name, wrong: Vec::new() };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let is_text = page.check_text(text);
        if name == OVERVIEW {
            overview = Some(if is_text { page.overview(text) } else { String::new() });
        } else {
            named += 1;
            page.check_name();
            if is_text {
                tasks.push(page.task(text, &mut numbers));
            }
        }
        page.wrong.sort_by_key(|one| one.line);
        wrong.append(&mut page.wrong);
    }
    if overview.is_none() {
        let what = "there is no such page: it says what all tasks have in common";
        wrong.push(Wrong::new(OVERVIEW, None, what));
    }
    if named == 0 {
        let what = "there is no task: each is a page with such a name";
        wrong.push(Wrong::new("T-001.md", None, what));
    }
    match wrong.is_empty() {
        true => Ok(sorted(overview.unwrap_or_default(), tasks)),
        false => Err(wrong),
    }
}

/// One page, and what is wrong with it.
struct Page<'a> {
    name: &'a str,
    wrong: Vec<Wrong>,
}

/// What stands between the `---` lines: a value and its line.
#[derive(Default)]
struct Header<'a> {
    id: Option<(&'a str, usize)>,
    title: Option<(&'a str, usize)>,
}

impl Page<'_> {
    fn wrong(&mut self, line: impl Into<Option<usize>>, what: impl Into<String>) {
        self.wrong.push(Wrong::new(self.name, line, what));
    }

    fn check_text(&mut self, text: &str) -> bool {
        let nul = text.find('\0');
        if let Some(at) = nul {
            self.wrong(1 + newlines(&text[..at]), "a NUL byte: this is no text");
        }
        nul.is_none()
    }

    fn check_name(&mut self) {
        if number_of_page(self.name).is_none() {
            let what =
                "no name for a task's page: T- and digits, then perhaps - and words, then .md";
            self.wrong(None, what);
        }
    }

    fn overview(&mut self, text: &str) -> String {
        let lines = self.lines((1..).zip(text.lines()));
        let text = markdown::joined(&lines);
        if text.is_empty() {
            self.wrong(1, "it is empty: it says what all tasks have in common");
        }
        text
    }

    fn lines<'t>(&mut self, numbered: impl Iterator<Item = (usize, &'t str)>) -> Vec<Line<'t>> {
        let (lines, unclosed) = markdown::lines(numbered);
        if let Some((line, what)) = unclosed {
            self.wrong(line, what);
        }
        lines
    }

    /// Reads as much as there is, so that everything wrong is found.
    fn task(&mut self, text: &str, numbers: &mut Numbers) -> Task {
        let all: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
        let (header, body) = self.front_matter(&all);
        let (id, title) = match header {
            Some(header) => (self.id(&header, numbers), self.title(&header)),
            None => Default::default(),
        };
        let lines = self.lines(body.iter().copied());
        let (description, criteria) = self.body(&lines, all.len().max(1));
        Task { id, title, description, criteria }
    }

    fn front_matter<'l, 't>(
        &mut self,
        all: &'l [(usize, &'t str)],
    ) -> (Option<Header<'t>>, &'l [(usize, &'t str)]) {
        let is_edge = |(_, text): &(usize, &str)| text.trim_end() == "---";
        if !all.first().is_some_and(is_edge) {
            self.wrong(1, "no front matter: `---`, `id: T-001`, `title: …` and `---`, a line each");
            return (None, all);
        }
        let inner = &all[1..];
        let (inner, body) = match inner.iter().position(is_edge) {
            Some(end) => (&inner[..end], &inner[end + 1..]),
            None => {
                self.wrong(1, "the front matter that begins here is not closed: `---` ends it");
                let ends = |(_, text): &(usize, &str)| !text.contains(':');
                inner.split_at(inner.iter().position(ends).unwrap_or(inner.len()))
            }
        };
        let mut header = Header::default();
        for &(line, text) in inner {
            let Some((key, value)) = text.split_once(':') else { continue };
            let (slot, value) = match key.trim_end() {
                "id" => (&mut header.id, value.trim()),
                "title" => (&mut header.title, value.trim()),
                _ => continue,
            };
            match slot {
                None => *slot = Some((value, line)),
                Some((_, first)) => {
                    let what = format!("`{}` stands on line {first} already", key.trim_end());
                    self.wrong(line, what);
                }
            }
        }
        (Some(header), body)
    }

    fn id(&mut self, header: &Header<'_>, numbers: &mut Numbers) -> String {
        let Some((id, line)) = header.id else {
            self.wrong(1, "the front matter has no `id`, such as `id: T-001`");
            return String::new();
        };
        let id = unquoted(id);
        if id.is_empty() {
            self.wrong(line, "`id` is empty: T- and digits, such as T-001");
            return id;
        }
        let named = number_of_page(self.name);
        if let (Some(own), Some(named)) = (number(&id), named)
            && own != named
        {
            let what =
                format!("the id {} does not fit the number in the file's name", repeated(&id));
            self.wrong(line, what);
        }
        if let Err(what) = numbers.take(&id, || self.name.to_owned()) {
            self.wrong(line, what);
        }
        id
    }

    fn title(&mut self, header: &Header<'_>) -> String {
        let title = header.title.map(|(title, line)| (unquoted(title), line));
        match title {
            Some((title, _)) if !title.is_empty() => return title,
            Some((_, line)) => self.wrong(line, "`title` is empty"),
            None => self.wrong(1, "the front matter has no `title`"),
        }
        String::new()
    }

    fn body(&mut self, lines: &[Line<'_>], last: usize) -> (String, Vec<String>) {
        let mut reading = Reading::default();
        for line in lines {
            reading.take(line);
        }
        match reading.section {
            None => self.wrong(last, "no section `## Acceptance criteria` with a bullet for each"),
            Some(line) if reading.criteria.is_empty() => {
                self.wrong(line, "no acceptance criteria in this section: a bullet for each");
            }
            Some(_) => {}
        }
        let (description, criteria) = (reading.description(), reading.criteria);
        for empty in criteria.iter().filter(|one| one.text.is_empty()) {
            self.wrong(empty.line, "this acceptance criterion is empty");
        }
        (description, criteria.into_iter().map(|one| one.text).collect())
    }
}

/// What comes after the front matter, line by line: the criteria and everything else.
#[derive(Default)]
struct Reading<'l> {
    rest: Vec<Line<'l>>,
    criteria: Vec<Criterion>,
    /// The line of the first section with criteria.
    section: Option<usize>,
    /// The level of the section with criteria that the line is in.
    level: Option<usize>,
    /// Whether the next line may belong to the last criterion, and how.
    after: After,
}

struct Criterion {
    line: usize,
    indent: usize,
    text: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum After {
    #[default]
    NoItem,
    Item,
    /// Code in an item, indented by so much.
    Code(usize),
    /// A blank line in an item: only what is indented still belongs to it.
    Gap,
}

impl<'l> Reading<'l> {
    fn take(&mut self, line: &Line<'l>) {
        if let Kind::Heading { level, text } = line.kind {
            self.after = After::NoItem;
            if level >= 2 && is_called(text, "acceptance criteria") {
                self.level = Some(level);
                self.section.get_or_insert(line.number);
                return;
            }
            if self.level.is_some_and(|within| level <= within) {
                self.level = None;
            }
            return self.rest.push(*line);
        }
        if self.level.is_none() {
            return self.rest.push(*line);
        }
        let indent = line.indent();
        match (line.kind, self.criteria.last()) {
            (Kind::Blank, _) if self.after != After::NoItem => self.after = After::Gap,
            (Kind::Item(text), last) => {
                let above = last.filter(|_| self.after != After::NoItem);
                if above.is_some_and(|above| indent >= above.indent + NESTED) {
                    return self.join(line);
                }
                let text = text.to_owned();
                self.criteria.push(Criterion { line: line.number, indent, text });
                self.after = After::Item;
            }
            (Kind::Text | Kind::Code, _) if self.belongs(indent) => self.join(line),
            _ => {
                self.after = After::NoItem;
                self.rest.push(*line);
            }
        }
    }

    /// Markdown takes a line right below a bullet for a part of it, indented or not.
    fn belongs(&self, indent: usize) -> bool {
        match self.after {
            After::NoItem => false,
            After::Item | After::Code(_) => true,
            After::Gap => indent > 0,
        }
    }

    fn join(&mut self, line: &Line<'l>) {
        let Some(criterion) = self.criteria.last_mut() else { return };
        let within = line.indent().min(criterion.indent + NESTED);
        let (gap, indent, after) = match (line.kind, self.after) {
            (Kind::Code, After::Code(first)) => ('\n', first, self.after),
            (Kind::Code, _) => ('\n', within, After::Code(within)),
            (Kind::Text, After::Item) => (' ', usize::MAX, After::Item),
            _ => ('\n', within, After::Item),
        };
        if !criterion.text.is_empty() {
            criterion.text.push(gap);
        }
        criterion.text.push_str(dedented(line.text, indent));
        self.after = after;
    }

    /// Everything but the criteria. A heading that only says that this is the description says
    /// nothing.
    fn description(&self) -> String {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for line in &self.rest {
            // Where the criteria stood in between, two gaps have become one.
            let double = line.kind == Kind::Blank
                && lines.last().is_none_or(|last| last.kind == Kind::Blank);
            if !double {
                lines.push(*line);
            }
        }
        let is_heading = |line: &Line<'_>| matches!(line.kind, Kind::Heading { .. });
        let mut headings = lines.iter().enumerate().filter(|(_, line)| is_heading(line));
        if let (Some((at, line)), None) = (headings.next(), headings.next())
            && matches!(line.kind, Kind::Heading { text, .. } if is_called(text, "description"))
        {
            lines.remove(at);
        }
        markdown::joined(&lines)
    }
}

/// The number in the name of a task's page.
fn number_of_page(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".md")?;
    let digits = stem.strip_prefix("T-")?;
    match digits.split_once('-') {
        Some((_, "")) => None,
        Some((digits, _)) => number(&format!("T-{digits}")),
        None => number(stem),
    }
}

fn is_called(heading: &str, name: &str) -> bool {
    heading.trim_matches(['*', '_', ':', ' ']).eq_ignore_ascii_case(name)
}

fn unquoted(text: &str) -> String {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    let text = match (within('"'), within('\'')) {
        (Some(inner), _) => inner.replace("\\\"", "\""),
        (_, Some(inner)) => inner.replace("''", "'"),
        _ => return text.to_owned(),
    };
    text.trim().to_owned()
}

/// Without so much white space before it, or what there is of it.
fn dedented(text: &str, columns: usize) -> &str {
    let most = text.len() - text.trim_start_matches([' ', '\t']).len();
    &text[most.min(columns)..]
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "---\nid: T-1\ntitle: A\n---\n## Acceptance criteria\n- a\n";

    fn pages<'a>(pages: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<List, Vec<Wrong>> {
        let pages: Vec<(String, String)> =
            pages.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        from_pages(&pages)
    }

    fn found<'a>(list: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        pages(list).unwrap_err().iter().map(Wrong::to_string).collect()
    }

    /// Reads the page of one task.
    fn one(text: &str) -> Task {
        pages([("overview.md", "All"), ("T-1.md", text)]).unwrap().tasks.remove(0)
    }

    /// Reads what follows the front matter: the description and the criteria.
    fn body(text: &str) -> (String, Vec<String>) {
        let task = one(&format!("---\nid: T-1\ntitle: A\n---\n{text}"));
        (task.description, task.criteria)
    }

    /// What is wrong with the page of one task, without its name.
    fn wrong(text: &str) -> Vec<String> {
        let strip = |one: String| one.strip_prefix("T-1.md:").unwrap().to_owned();
        found([("overview.md", "All"), ("T-1.md", text)]).into_iter().map(strip).collect()
    }

    /// Checks that exactly this is told, by how it begins.
    fn told(found: &[String], expected: &[&str]) {
        assert_eq!(found.len(), expected.len(), "{found:?} is not {expected:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} is not {expected}");
        }
    }

    #[test]
    fn tasks_come_by_their_numbers() {
        let page = |id: &str| GOOD.replace("T-1", id);
        let list = pages([
            ("T-10-b.md", page("T-10").as_str()),
            ("T-9.md", page("T-009").as_str()),
            ("notes.md", "passed over"),
            ("T-0-first.md", page("T-0").as_str()),
            ("overview.md", "\u{feff}\r\n All\r\n of it \r\n\r\n"),
        ]);
        let list = list.unwrap();
        assert_eq!(list.overview, " All\n of it");
        let ids: Vec<&str> = list.tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["T-0", "T-009", "T-10"]);
    }

    #[test]
    fn a_page_from_any_editor() {
        let text = "\u{feff}--- \r\n# note\r\nowner:\r\n  id: nested\r\n\
            title: \"Say \\\"hi\\\": #1\" \r\nid : 'T-01'\r\n---\r\n\
            Why\r\n\r\n## ACCEPTANCE Criteria:\r\n\r\n- [ ] a\r\n  b\r\n";
        let expected = Task {
            id: "T-01".into(),
            title: "Say \"hi\": #1".into(),
            description: "Why".into(),
            criteria: vec!["a b".into()],
        };
        assert_eq!(one(text), expected);
    }

    #[test]
    fn bullets_are_criteria() {
        let table: [(&str, &[&str]); 13] = [
            ("- a\n* b\n+ c\n1. d\n2) e\n- [x] f", &["a", "b", "c", "d", "e", "f"]),
            ("  - a\n  - b", &["a", "b"]),
            ("- a\n\n- b", &["a", "b"]),
            ("- a\n  b\n\tc\nd", &["a b c d"]),
            ("- a\n\n  b\n\n- c", &["a\nb", "c"]),
            ("-\n  a\n- b", &["a", "b"]),
            ("- a\n  - b\n    - c\n  - d\n- e", &["a\n- b\n  - c\n- d", "e"]),
            ("1. a\n   - b\n2. c", &["a\n - b", "c"]),
            ("- a\n ```\n - b\n\n  ## c\n ```\n  d\n  e", &["a\n```\n- b\n\n ## c\n```\nd e"]),
            ("- a\n```\n  b\n```\n- c", &["a\n```\n  b\n```", "c"]),
            ("```\n- no\n```\n- a", &["a"]),
            ("<!-- - no -->\n- a\n<!--\n- no\n-->\n  b", &["a b"]),
            ("All of:\n- a\n### Of speed\n- b\n* * *\n- c", &["a", "b", "c"]),
        ];
        for (text, expected) in table {
            let (_, criteria) = body(&format!("## Acceptance criteria\n{text}"));
            assert_eq!(criteria, expected, "{text}");
        }
    }

    #[test]
    fn the_rest_is_the_description() {
        let table = [
            ("a\n\n\n{}\n\n\n## B\n- c\n\n\n", "a\n\n## B\n- c"),
            ("## Description\n\na\n\n{}", "a"),
            ("# A\n## Description\nb\n{}", "# A\n## Description\nb"),
            ("## Description of b\n{}", "## Description of b"),
            (
                "```\n## Acceptance criteria\n- no\n\n\n# C\n```\n{}",
                "```\n## Acceptance criteria\n- no\n\n\n# C\n```",
            ),
            ("{}\nright below\n\nfurther down\n", "further down"),
            ("{}\n### Of speed\n\n- b\n\nc\n", "### Of speed\n\nc"),
            ("{}\n\n```\nd\n\n- e\n```\n", "```\nd\n\n- e\n```"),
            (
                "    code\n\n{}\n# Acceptance criteria\n- b",
                "    code\n\n# Acceptance criteria\n- b",
            ),
            ("{}", ""),
        ];
        for (text, expected) in table {
            let (description, _) = body(&text.replace("{}", "## Acceptance criteria\n- a"));
            assert_eq!(description, expected, "{text}");
        }
    }

    #[test]
    fn a_section_ends_where_one_of_its_level_begins() {
        let text = "### Acceptance criteria\n- a\n#### B\n- b\n### C\n- c\n\
            ## **acceptance criteria**\n- d";
        assert_eq!(body(text).1, ["a", "b", "d"]);
        assert_eq!(body(text).0, "#### B\n### C\n- c");
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let table: [(&str, &[&str]); 14] = [
            ("", &["1: no front matter", "1: no section"]),
            ("id: T-1\n---\n## Acceptance criteria", &["1: no front matter", "3: no acceptance"]),
            ("\n---\nid: T-1\n---", &["1: no front matter", "4: no section"]),
            (
                "---",
                &[
                    "1: the front matter that begins here is not closed",
                    "1: the front matter has no `id`",
                    "1: the front matter has no `title`",
                    "1: no section",
                ],
            ),
            (
                "---\nid: X\n\n## Acceptance criteria\n- a",
                &[
                    "1: the front matter that begins here is not closed",
                    "1: the front matter has no `title`",
                    "2: `X` is no id",
                ],
            ),
            ("---\ntitle: A\nid: T-1\n---\n", &["4: no section"]),
            (
                "---\nid:\ntitle: ''\n---\n## Acceptance criteria\n\n\ntext\n",
                &["2: `id` is empty", "3: `title` is empty", "5: no acceptance criteria"],
            ),
            (
                "---\ntitle: A\ntitle: B\n---\n## Acceptance criteria\n- a\n- [ ]\n-\n- b",
                &[
                    "1: the front matter has no `id`",
                    "3: `title` stands on line 2 already",
                    "7: this acceptance criterion is empty",
                    "8: this acceptance criterion is empty",
                ],
            ),
            (&GOOD.replace("T-1", "T-2"), &["2: the id T-2 does not fit"]),
            (&GOOD.replace('1', &"9".repeat(20)), &["2: `T-99999999999999999999` is no id"]),
            (&GOOD.replace("##", "~~~\n##"), &["5: the code block that begins", "7: no section"]),
            (&GOOD.replace("##", "<!--\n##"), &["5: the comment that begins", "7: no section"]),
            (&GOOD.replace("##", "#"), &["6: no section"]),
            (&GOOD.replace('A', "\0"), &["3: a NUL byte"]),
        ];
        for (text, expected) in table {
            told(&wrong(text), expected);
        }
    }

    #[test]
    fn a_list_is_more_than_its_pages() {
        type Pages = [(&'static str, &'static str)];
        let table: [(&Pages, &[&str]); 6] = [
            (&[], &["overview.md: there is no such page", "T-001.md: there is no task"]),
            (
                &[("overview.md", " \n<!-- a -->\n"), ("T-1.md", GOOD)],
                &["overview.md:1: it is empty"],
            ),
            (&[("overview.md", "```\n"), ("T-1.md", GOOD)], &["overview.md:1: the code block"]),
            (&[("overview.md", "\n\0"), ("T-1.md", GOOD)], &["overview.md:2: a NUL byte"]),
            (
                &[("overview.md", "a"), ("T-001-a.md", GOOD), ("T-1.md", GOOD), ("T-2.md", GOOD)],
                &[
                    "T-1.md:2: T-1 is also the id of T-001-a.md",
                    "T-2.md:2: the id T-1 does not fit",
                    "T-2.md:2: T-1 is also the id of T-001-a.md",
                ],
            ),
            (
                &[("overview.md", "a"), ("T-1-.md", GOOD), ("t-2.md", ""), ("T-2a.md", GOOD)],
                &[
                    "T-1-.md: no name for a task's page",
                    "t-2.md: no name for a task's page",
                    "t-2.md:1: no front matter",
                    "t-2.md:1: no section",
                    "T-2a.md: no name for a task's page",
                    "T-2a.md:2: T-1 is also the id of T-1-.md",
                ],
            ),
        ];
        for (list, expected) in table {
            told(&found(list.iter().copied()), expected);
        }
    }

    #[test]
    fn a_page_can_be_as_odd_as_it_likes() {
        let long = "x".repeat(10 << 20);
        let (description, criteria) = body(&format!("{long}\n## Acceptance criteria\n- {long}"));
        assert!(description == long && criteria == [long.as_str()]);
        assert!(one(&GOOD.replace("title: A", &format!("title: {long}"))).title == long);
        assert!(wrong(&GOOD.replace("T-1", &long))[0].len() < 200);
        let deep: String = (0..2000).map(|depth| format!("{}- a\n", "  ".repeat(depth))).collect();
        assert_eq!(body(&format!("## Acceptance criteria\n{deep}")).1.len(), 1);
        let many = 1 << 20;
        for (sign, criteria) in [("- a\n", many + 1), ("- ", 1), ("#", 1), (" ", 1), ("\n", 1)] {
            let task = one(&format!("{GOOD}{}", sign.repeat(many)));
            assert_eq!(task.criteria.len(), criteria, "{sign:?}");
        }
    }
}
