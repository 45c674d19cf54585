//! The code, links and words of pages.

use fancy_regex::Regex;

use super::{read, regex, root};

/// The text of a page, and its path from the root of the repository.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A piece of code in a page: a span in backticks, or a line inside of a fence.
pub(crate) struct Code<'p> {
    page: &'p str,
    line: usize,
    pub(crate) text: &'p str,
    pub(crate) is_fenced: bool,
}

/// Returns the pages to check.
pub(crate) fn pages() -> Vec<Page> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let docs = docs.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".md"));
    let mut names: Vec<String> = docs.map(|name| format!("docs/{name}")).collect();
    names.sort();
    names.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned));
    assert!(names.len() > 8);
    names.iter().map(|name| Page::read(name)).collect()
}

impl Page {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn read(name: &str) -> Self {
        Self::new(name, &read(name))
    }

    /// Returns the line number of a byte offset.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.text[..offset].matches('\n').count() + 1
    }

    pub(crate) fn code(&self) -> Vec<Code<'_>> {
        let mut code = Vec::new();
        let mut is_fenced = false;
        for (index, text) in self.text.lines().enumerate() {
            let is_indented = text.starts_with("    ");
            let mut push = |text| {
                code.push(Code { page: &self.name, line: index + 1, text, is_fenced: is_fenced || is_indented });
            };
            if text.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
            } else if is_fenced || is_indented {
                push(text);
            } else {
                text.split('`').skip(1).step_by(2).for_each(push);
            }
        }
        code
    }

    /// Returns the links to files and headings that do not exist.
    pub(crate) fn broken_links(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for found in regex(r"\]\(([^)\s]+)\)").captures_iter(&self.text) {
            let link = found.unwrap().get(1).unwrap();
            if !link.as_str().contains("://") && !self.resolves(link.as_str()) {
                broken.push(format!("{}:{}: no {}", self.name, self.line_at(link.start()), link.as_str()));
            }
        }
        broken
    }

    fn resolves(&self, link: &str) -> bool {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = root().join(&self.name).parent().unwrap().join(path);
        let text =
            if path.is_empty() { self.text.clone() } else { std::fs::read_to_string(&target).unwrap_or_default() };
        target.exists()
            && (heading.is_empty() || text.lines().any(|line| line.starts_with('#') && anchor(line) == heading))
    }

    /// Returns the uses of words that the pages must not use.
    pub(crate) fn wrong_words(&self) -> Vec<String> {
        let found = regex(r"(?i)\bcan\s+not\b");
        let starts = found.find_iter(&self.text).map(|found| found.unwrap().start());
        starts.map(|start| format!("{}:{}: write \"cannot\"", self.name, self.line_at(start))).collect()
    }
}

/// Returns the name of a heading in links.
pub(crate) fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

impl Code<'_> {
    pub(crate) fn violation(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.page, self.line)
    }

    /// Returns the groups of each part of the code that matches a pattern.
    pub(crate) fn matches(&self, pattern: &Regex) -> Vec<Vec<String>> {
        let found = pattern.captures_iter(self.text).map(|found| found.unwrap());
        let groups = found.map(|found| {
            found.iter().skip(1).map(|group| group.map_or("", |group| group.as_str()).to_owned()).collect()
        });
        groups.collect()
    }
}
