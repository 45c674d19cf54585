//! Things that the pages can cite: the files of the repository, and the items that they declare.

use std::path::PathBuf;
use std::sync::LazyLock;

use fancy_regex::Regex;

use super::page::Code;
use super::{read, regex, root};

/// Folders whose paths the pages cite from the root of the repository.
const ROOTS: &[&str] = &[
    "src",
    "gguf-rs-lite",
    "ffi",
    "gpu",
    "include",
    "examples",
    "tests",
    "benches",
    "bindings",
    "docs",
    "fuzz/run.sh",
    ".ci",
];

/// First parts of Rust paths that belong to other crates.
const FOREIGN: &[&str] = &["array", "core", "libm", "std", "usize"];

static PROGRAM: LazyLock<Regex> = LazyLock::new(|| regex(r"--(example|bench|test)\s+([a-z0-9_-]+)"));
static SYMBOL: LazyLock<Regex> = LazyLock::new(|| regex(r"\b((?:gleed_[a-z0-9_]|GLEED_[A-Z0-9_])\w*\*?)"));
static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(?:[A-Za-z_]\w*::)*([A-Za-z_]\w*)::([A-Za-z_]\w*)"));
static TEST: LazyLock<Regex> = LazyLock::new(|| regex(r"^([a-z0-9]+(?:_[a-z0-9]+){3,})$"));

/// The text files of the repository, with their paths from its root.
pub(crate) struct Sources(Vec<(String, String)>);

impl Sources {
    pub(crate) fn read() -> Self {
        let mut waiting: Vec<PathBuf> = ROOTS.iter().map(|folder| root().join(folder)).collect();
        let mut files = Vec::new();
        while let Some(path) = waiting.pop() {
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            if path.is_dir() {
                let is_ours = !name.ends_with("/target");
                waiting
                    .extend(std::fs::read_dir(&path).unwrap().filter(|_| is_ours).map(|entry| entry.unwrap().path()));
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                files.push((name, text));
            }
        }
        assert!(files.len() > 200);
        Self(files)
    }

    /// Returns the files of the library, with their paths from the root of the repository.
    pub(crate) fn library(&self) -> Vec<&(String, String)> {
        self.0.iter().filter(|(file, _)| file.starts_with("src/")).collect()
    }

    /// Returns cited paths, file names and program names that do not exist.
    pub(crate) fn missing_paths(&self, code: &Code<'_>) -> Vec<String> {
        let words = code.text.split(|c: char| c.is_whitespace() || "\"'(),;|=:".contains(c));
        let missing = words.filter(|word| match word.contains('/') {
            true => !is_there(word),
            false => !code.is_fenced && !self.has_file(word),
        });
        let mut missing: Vec<String> = missing.map(|word| code.violation(&format!("no file {word}"))).collect();
        for program in code.matches(&PROGRAM) {
            let [kind, name] = &program[..] else { continue };
            if !is_program(kind, name) {
                missing.push(code.violation(&format!("no {kind} {name}")));
            }
        }
        missing
    }

    /// Returns whether a file of the repository has this name, if the name looks like a file's.
    fn has_file(&self, word: &str) -> bool {
        let looks_so =
            [".rs", ".md", ".h", ".hpp", ".sh"].iter().any(|end| word.len() > end.len() && word.ends_with(end));
        !looks_so || self.0.iter().any(|(file, _)| file.rsplit('/').next() == Some(word)) || root().join(word).is_file()
    }

    /// Returns cited functions and constants of the C ABI, Rust items and test names that do not exist.
    pub(crate) fn missing_symbols(&self, code: &Code<'_>) -> Vec<String> {
        let symbols = code.matches(&SYMBOL).concat();
        let mut missing: Vec<String> = symbols.into_iter().filter(|name| !self.has_symbol(name)).collect();
        if !code.is_fenced {
            let items = code.matches(&ITEM);
            missing.extend(items.iter().filter(|item| !self.has_item(&item[0], &item[1])).map(|item| item.join("::")));
            let tests = code.matches(&TEST).concat();
            let is_in = |name: &String| {
                self.any(name, &format!(r"\b{name}\b"), |file| {
                    !file.starts_with("docs/") && !file.starts_with("tests/docs/")
                })
            };
            missing.extend(tests.into_iter().filter(|name| !is_in(name)));
        }
        missing.iter().map(|name| code.violation(&format!("no {name}"))).collect()
    }

    /// Returns whether a C name is declared. All are in the header, except environment variables, programs, options of
    /// CMake, and names that `inspect` writes.
    fn has_symbol(&self, name: &str) -> bool {
        let places = [
            "include/gleed.h",
            "include/gleed_gpu.h",
            "tests/common/",
            "tests/attack/",
            "tests/soak/",
            "fuzz/run.sh",
            "ffi/CMakeLists.txt",
            "ffi/Cargo.toml",
            "gpu/ffi/Cargo.toml",
            "examples/inspect/",
        ];
        let (word, end) = name.strip_suffix('*').map_or((name, r"\b"), |start| (start, ""));
        self.any(word, &format!(r"\b{word}{end}"), |file| places.iter().any(|place| file.starts_with(place)))
    }

    /// Returns whether a type or a module of the repository has an item of this name.
    fn has_item(&self, owner: &str, item: &str) -> bool {
        if FOREIGN.contains(&owner) {
            return true;
        }
        if owner.starts_with(|c: char| c.is_uppercase()) {
            return self.0.iter().any(|(file, text)| is_source(file) && has_member(text, owner, item));
        }
        let place = match owner {
            "gleed" => "/src/lib".to_owned(),
            "gguf_rs_lite" => "/gguf-rs-lite/src/lib".to_owned(),
            module => format!("/{module}"),
        };
        let is_in =
            |file: &str| is_source(file) && format!("/{file}").replace(".rs", "/").contains(&format!("{place}/"));
        let pattern = format!(r"(?:fn|struct|enum|trait|const|static|mod|type)\s+{item}\b|use\s[^;]*\b{item}\b");
        self.any(item, &pattern, is_in)
    }

    /// Returns whether a wanted file has the word in a place that matches the pattern.
    fn any(&self, word: &str, pattern: &str, is_meant: impl Fn(&str) -> bool) -> bool {
        let pattern = regex(pattern);
        let mut files = self.0.iter().filter(|(file, text)| is_meant(file) && text.contains(word));
        files.any(|(_, text)| pattern.is_match(text).unwrap())
    }
}

fn is_source(file: &str) -> bool {
    file.ends_with(".rs") && (file.starts_with("src/") || file.contains("/src/"))
}

/// Returns whether a source has an `impl` or the declaration of a type with a function, constant, field or variant of
/// this name. It relies on rustfmt, which puts the closing brace of an item below its first letter.
fn has_member(text: &str, owner: &str, item: &str) -> bool {
    if !text.contains(owner) || !text.contains(item) {
        return false;
    }
    let head = regex(&format!(
        r"^( *)(?:(?:pub(?:\(\w+\))? )?(?:struct|enum|trait) {owner}\b|(?:unsafe )?impl\b.*\b{owner}\b).*\{{$"
    ));
    let member = regex(&format!(r"\b(?:fn|const|type) {item}\b|^ *(?:pub(?:\(\w+\))? )?{item}(?::|,|\(| \{{| =|$)"));
    let mut end: Option<String> = None;
    for line in text.lines() {
        match &end {
            Some(end_line) if line == end_line => end = None,
            Some(_) if member.is_match(line).unwrap() => return true,
            Some(_) => {}
            None => end = head.captures(line).unwrap().map(|found| format!("{}}}", &found[1])),
        }
    }
    false
}

/// Returns whether there is an example, a benchmark or a test of this name.
fn is_program(kind: &str, name: &str) -> bool {
    let folder = if kind == "bench" { "benches".to_owned() } else { format!("{kind}s") };
    let files = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
    let is_file =
        |file: &String| ["", "ffi/", "gpu/"].iter().any(|member| root().join(format!("{member}{file}")).is_file());
    files.iter().any(is_file) || read("ffi/Cargo.toml").contains(&format!("name = \"{name}\""))
}

/// Returns whether a path from the root of the repository exists. Other words pass. `*` and `<name>` stand for
/// anything.
fn is_there(word: &str) -> bool {
    if !ROOTS.iter().any(|folder| word.split('/').next() == Some(folder)) {
        return true;
    }
    let mut path = root().to_owned();
    for part in word.trim_end_matches(['/', '.']).split('/') {
        if let Some((start, end)) = part.split_once('*') {
            let names = std::fs::read_dir(&path).into_iter().flatten().map(|entry| entry.unwrap().file_name());
            let mut names = names.filter_map(|name| name.into_string().ok());
            return names.any(|name| name.starts_with(start) && name.ends_with(end));
        }
        if part.contains('<') {
            break;
        }
        path.push(part);
    }
    path.exists()
}
