//! Examples in the library's documentation: every public type has one, or a link to one.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::page::anchor;
use super::regex;

/// Matches a public type. A type that users cannot reach is not `pub`: rustc warns of it (`unreachable_pub`), and CI
/// accepts no warning.
static TYPE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^pub (?:unsafe )?(?:struct|enum|union|trait|type) ([A-Za-z_]\w*)"));
static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\]\(crate::([a-z0-9_:]+)#([a-z0-9-]+)\)"));

/// Returns the types that have neither an example nor a link to one, and the links in the documentation of types to
/// headings without an example. `files` are those of the library.
pub(crate) fn violations(files: &[&(String, String)]) -> Vec<String> {
    let (mut violations, mut docs) = (Vec::new(), String::new());
    for (file, text) in files {
        docs.clear();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_start();
            if line.starts_with("///") {
                docs.push_str(line);
                docs.push('\n');
            } else if let Some(found) = TYPE.captures(line).unwrap() {
                let place = format!("{file}:{}: {}", index + 1, &found[1]);
                violations.extend(of_type(&docs, files).into_iter().map(|what| format!("{place}{what}")));
                docs.clear();
            } else if !line.starts_with("#[") {
                docs.clear();
            }
        }
    }
    violations
}

/// Returns the problems in the documentation of a type.
fn of_type(docs: &str, files: &[&(String, String)]) -> Vec<String> {
    let links: Vec<_> = LINK.captures_iter(docs).map(Result::unwrap).collect();
    if links.is_empty() && !docs.contains("/// ```") {
        return vec![" has no example and no link to one".to_owned()];
    }
    let missing = links.iter().filter(|link| !has_example(&link[1], &link[2], files));
    missing.map(|link| format!(": crate::{}#{} has no example", &link[1], &link[2])).collect()
}

/// Returns whether the documentation of a module has a tested program below this heading.
fn has_example(module: &str, heading: &str, files: &[&(String, String)]) -> bool {
    let path = module.replace("::", "/");
    let names = [format!("src/{path}.rs"), format!("src/{path}/mod.rs")];
    let Some((_, text)) = files.iter().find(|(file, _)| names.contains(file)) else { return false };
    let (mut is_below, mut is_fenced) = (false, false);
    for line in text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim_start) {
        if line.starts_with("```") {
            if is_below && !is_fenced && line == "```" {
                return true;
            }
            is_fenced = !is_fenced;
        } else if !is_fenced && line.starts_with('#') {
            is_below = anchor(line) == heading;
        }
    }
    false
}
