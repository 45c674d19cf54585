//! Numbers in the pages that the build can check.

use super::page::Page;
use super::{between, read, regex};

/// A number that a page states.
pub(crate) struct Claim {
    /// Name of the page, or empty for all pages.
    page: &'static str,
    /// A regular expression in which a blank stands for any white space. Its group is the number.
    pattern: &'static str,
    value: String,
}

impl Claim {
    /// Returns the places where pages state another number, and the claim itself if no page states one.
    pub(crate) fn violations(&self, pages: &[Page]) -> Vec<String> {
        let pattern = regex(&self.pattern.replace(' ', r"\s+"));
        let (mut violations, mut count) = (Vec::new(), 0);
        for page in pages.iter().filter(|page| self.page.is_empty() || page.name == self.page) {
            for found in pattern.captures_iter(&page.text) {
                let number = found.unwrap().get(1).unwrap();
                count += 1;
                if number.as_str() != self.value {
                    let line = page.line_at(number.start());
                    violations.push(format!("{}:{line}: {}, it is {}", page.name, number.as_str(), self.value));
                }
            }
        }
        if count == 0 {
            let page = if self.page.is_empty() { "no page" } else { self.page };
            violations.push(format!("{page}: nothing like {}", self.pattern));
        }
        violations
    }
}

pub(crate) fn claims() -> Vec<Claim> {
    let arithmetic = gleed::num::ARITHMETIC_VERSION.to_string();
    let (version, oldest_rust) = (env!("CARGO_PKG_VERSION").to_owned(), env!("CARGO_PKG_RUST_VERSION").to_owned());
    let abi = between(&read("include/gleed.h"), "#define GLEED_ABI_VERSION ", "\n").to_owned();
    let functions = read("ffi/symbols.txt").split_whitespace().count().to_string();
    let formats = between(&read("src/turns/formats/mod.rs"), "ALL: &[TurnFormat] = &[", "];").to_owned();
    let formats = formats.split(',').filter(|name| !name.trim().is_empty()).count().to_string();
    let pre = read("src/token/pre.rs");
    let rows = between(&pre, "TABLE: &[PreTokenizer] = &[", "];\n\n").lines();
    let rows: String = rows.filter(|line| !line.trim_start().starts_with("#[cfg")).collect();
    let families = rows.matches("row(").count().to_string();
    let names = (rows.matches('"').count() / 2).to_string();
    let longest = between(&read("docs/budget.md"), "The longest unit took ", " µs").to_owned();
    let library = between(&read("docs/size.md"), "static, linked: all formats and levels | ", " |").to_owned();
    let claim = |page, pattern, value: &String| Claim { page, pattern, value: value.clone() };
    vec![
        claim("README.md", r"arithmetic, version (\d+)", &arithmetic),
        claim("docs/arithmetic.md", r"arithmetic of Gleed, version (\d+)", &arithmetic),
        claim("docs/arithmetic.md", r"\n\| (\d+) \| [^|]*\| \z", &arithmetic),
        claim("CHANGELOG.md", r"Arithmetic version (\d+),", &arithmetic),
        claim("CHANGELOG.md", r"ABI version (\d+)\.", &abi),
        claim("docs/abi.md", r"`GLEED_ABI_VERSION` \((\d+)\)", &abi),
        claim("docs/abi.md", r"`libgleed\.so\.(\d+)`", &abi),
        claim("", r"\b(\d+) functions", &functions),
        claim("", r"\b(\d+) turn formats", &formats),
        claim("README.md", r"\[(\d+) families\]", &families),
        claim("CHANGELOG.md", r"(\d+) rules under \d+ names", &families),
        claim("CHANGELOG.md", r"\d+ rules under (\d+) names", &names),
        claim("CHANGELOG.md", r"To become (\d+\.\d+\.\d+)", &version),
        claim("README.md", r"Gleed (\d+\.\d+\.\d+) needs", &version),
        claim("README.md", r"needs Rust (\d+\.\d+) or later", &oldest_rust),
        claim("README.md", r"longer than (\d+) µs", &longest),
        claim("README.md", r"\[([0-9,]+) bytes\]\(docs/size\.md\)", &library),
    ]
}
