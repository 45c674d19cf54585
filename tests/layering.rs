//! The layers of `docs/design.md`: each module uses only modules above it, and `unsafe` stays where it is allowed. Code
//! that a compiler is known to compile wrongly is not allowed.

#[path = "layering/circles.rs"]
mod circles;

use std::path::{Path, PathBuf};

/// The top-level modules in order. A module may use modules in rows above its own, and itself.
const LAYERS: &[&[&str]] = &[
    &["error", "num", "sync"],
    &["quant"],
    &["mem", "tensor"],
    &["kv"],
    &["kernels"],
    &["par"],
    &["nn"],
    &["device"],
    &["cache"],
    &["weights"],
    &["ops"],
    &["program"],
    &["model", "token", "sample", "tools"],
    &["grammar"],
    &["turns"],
    &["metrics"],
    &["engine"],
    &["conversation"],
    &["writing"],
    &["guess"],
    &["host"],
    &["session"],
];

/// Modules that may use only these modules, fewer than their row allows.
const ONLY: &[(&str, &[&str])] = &[
    ("token", &["error", "num", "mem"]),
    ("sample", &["error", "num", "mem", "kernels"]),
    ("grammar", &["mem", "num", "token", "tools"]),
    ("tools", &[]),
    ("metrics", &["mem"]),
    ("turns", &["token", "tools"]),
    ("writing", &["cache", "engine", "grammar"]),
    ("guess", &["cache", "engine", "grammar", "mem", "par", "sample", "token", "error"]),
];

/// Folders in which no circle of imports has more than [`CIRCLE`] files.
const FOLDERS: &[&str] = &[
    "src/cache",
    "src/conversation",
    "src/device",
    "src/kernels",
    "src/kv",
    "src/model",
    "src/nn",
    "src/ops",
    "src/program",
    "src/weights",
];

/// Most files that may import each other in a circle. Files of one subject may.
const CIRCLE: usize = 3;

/// Starts of the paths of files in which `unsafe` may occur.
const UNSAFE: &[&str] = &[
    "src/mem/tile.rs",
    "src/kernels/",
    "src/host/",
    "src/host.rs",
    "ffi/",
    "gpu/ffi/",
    "bindings/python/native/lib.rs",
];

#[test]
fn modules_use_only_layers_above_them() {
    let files = sources(&["src"]);
    assert!(files.len() >= 8);
    report(files.iter().flat_map(|(file, text)| layer_violations(file, text)).collect());
}

#[test]
fn files_of_a_folder_import_each_other_in_small_circles() {
    let files: Vec<_> = sources(&["src"]).into_iter().map(|(file, text)| (file, tokens(&text))).collect();
    assert!(FOLDERS.iter().all(|folder| files.iter().any(|(file, _)| file.starts_with(folder))));
    let mut found = Vec::new();
    for folder in FOLDERS {
        let circles = circles::circles(&files, folder, CIRCLE);
        found.extend(circles.iter().map(|circle| format!("{folder}: {} files in a circle: {circle:#?}", circle.len())));
    }
    report(found);
}

#[test]
fn unsafe_stays_where_it_is_allowed() {
    let files = sources(&[
        "src",
        "gguf-rs-lite/src",
        "ffi/src",
        "ffi/bare/src",
        "gpu/src",
        "gpu/ffi/src",
        "bindings/python/native",
    ]);
    assert!(files.iter().any(|(file, text)| file == "src/mem/tile.rs" && text.contains("unsafe")));
    report(files.iter().flat_map(|(file, text)| unsafe_violations(file, text)).collect());
}

/// Rust 1.97.0 compiles this comparison wrongly if it optimises for size, and at level 1 (`docs/reliability.md`).
#[test]
fn nested_options_are_matched_and_not_compared() {
    let lines = |text: &str| -> Vec<usize> {
        let tokens = tokens(text);
        let is_compared = |words: &[(usize, String)]| {
            let words: Vec<&str> = words.iter().map(|(_, word)| word.as_str()).collect();
            matches!(words[..], ["=" | "!", "=", "Some", "(", "None", ")"])
        };
        tokens.windows(6).filter(|words| is_compared(words)).map(|words| words[0].0).collect()
    };
    assert_eq!(lines("a\n!= Some(None)\nlet b = Some(None); b == Some( // none\nNone)"), [2, 3]);
    let files = sources(&["src", "gguf-rs-lite/src", "ffi/src", "gpu/src", "gpu/ffi/src"]);
    let found = files.iter().flat_map(|(file, text)| lines(text).into_iter().map(move |line| format!("{file}:{line}")));
    report(found.map(|place| format!("{place}: `matches!(.., Some(None))`")).collect());
}

fn report(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

/// Returns every Rust file below these folders, with its path from the root of the repository.
fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut waiting: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    files
}

/// Returns the paths of a file of `src/` that begin with `crate::` or `super::` and break the layers.
fn layer_violations(file: &str, text: &str) -> Vec<String> {
    let base = module_path(file);
    let Some(own) = base.first().copied() else { return Vec::new() };
    uses(text, base.len())
        .into_iter()
        .filter_map(|(line, used)| {
            let problem = problem(own, &used)?;
            Some(format!("{file}:{line}: {problem}"))
        })
        .collect()
}

/// Returns the reason why the module `own` may not use the module `used`, if there is one.
fn problem(own: &str, used: &str) -> Option<String> {
    let layer = |name: &str| LAYERS.iter().position(|row| row.contains(&name));
    if own == used {
        return None;
    }
    let Some(own_layer) = layer(own) else { return Some(format!("`{own}` has no place in LAYERS")) };
    let Some(used_layer) = layer(used) else { return Some(format!("`crate::{used}` is no module in LAYERS")) };
    let narrow = ONLY.iter().find(|(name, _)| *name == own);
    let allowed = narrow.map_or(used_layer < own_layer, |(_, only)| only.contains(&used));
    (!allowed).then(|| format!("`{own}` uses `{used}`, which is not above it"))
}

/// Returns the path of a file's module: `["mem", "arena"]` for `src/mem/arena.rs`, and an empty one for the crate's
/// root.
fn module_path(file: &str) -> Vec<&str> {
    let path = file.strip_prefix("src/").unwrap_or(file);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').filter(|part| *part != "mod" && *part != "lib").collect()
}

/// Returns the top-level modules that a text names by paths from the crate's root, with their lines. `depth` is the
/// number of modules around the file. `super` is followed, also out of inline modules.
fn uses(text: &str, depth: usize) -> Vec<(usize, String)> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let mut found = Vec::new();
    let (mut braces, mut inline) = (0usize, Vec::new());
    let mut i = 0;
    while i < tokens.len() {
        match word(i) {
            "mod" if word(i + 2) == "{" => inline.push(braces),
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                inline.pop_if(|start| *start == braces);
            }
            "crate" if word(i + 1) == "::" => names(&tokens, i + 2, &mut found),
            "super" => {
                let mut up = 1;
                while word(i + 1) == "::" && word(i + 2) == "super" {
                    (up, i) = (up + 1, i + 2);
                }
                if word(i + 1) == "::" && up >= depth + inline.len() {
                    names(&tokens, i + 2, &mut found);
                }
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// Adds the first names of the path, or of the group of paths, that starts at token `i`.
fn names(tokens: &[(usize, String)], i: usize, found: &mut Vec<(usize, String)>) {
    let Some((_, first)) = tokens.get(i) else { return };
    if first != "{" {
        found.push(tokens[i].clone());
        return;
    }
    let mut depth = 0;
    let mut start = true;
    for (line, token) in &tokens[i..] {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," => start = true,
            _ if depth == 1 && start => {
                found.push((*line, token.clone()));
                start = false;
            }
            _ => {}
        }
        if depth == 0 {
            return;
        }
        // Inside of an inner group, no path starts from the root.
        start &= depth == 1;
    }
}

/// Returns the uses of `unsafe` that are not allowed or have no proof.
fn unsafe_violations(file: &str, text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut violations = Vec::new();
    let mut last = 0;
    for (i, (line, _)) in tokens.iter().enumerate().filter(|(_, (_, token))| token == "unsafe") {
        if !UNSAFE.iter().any(|start| file.starts_with(start)) {
            violations.push(format!("{file}:{line}: `unsafe` is not allowed in this file"));
        }
        let next = tokens.get(i + 1).map_or("", |(_, token)| token.as_str());
        // The proof is above the statement. A proof serves only one block.
        let above = &lines[last.max(line.saturating_sub(10))..line - 1];
        if matches!(next, "{" | "impl") && !above.iter().any(|line| line.contains("// SAFETY:")) {
            violations.push(format!("{file}:{line}: `unsafe` without a `// SAFETY:` comment"));
        }
        if matches!(next, "{" | "impl") {
            last = *line;
        }
    }
    violations.extend(proofs(&lines).into_iter().filter_map(|(line, proof)| {
        let problem = weakness(&proof)?;
        Some(format!("{file}:{line}: `// SAFETY: {proof}` {problem}"))
    }));
    violations
}

/// Returns the `// SAFETY:` comments, each in one line, with the lines where they begin.
fn proofs(lines: &[&str]) -> Vec<(usize, String)> {
    fn comment(line: &str) -> Option<&str> {
        line.trim_start().strip_prefix("//").map(str::trim)
    }
    let mut proofs = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let Some(first) = comment(line).and_then(|text| text.strip_prefix("SAFETY:")) else { continue };
        let rest =
            lines[i + 1..].iter().map_while(|line| comment(line)).take_while(|text| !text.starts_with("SAFETY:"));
        let words: Vec<&str> = std::iter::once(first.trim()).chain(rest).collect();
        proofs.push((i + 1, words.join(" ")));
    }
    proofs
}

/// Returns the reason why a text is no proof, if there is one.
fn weakness(proof: &str) -> Option<&'static str> {
    /// Beginnings of texts that only refer to another text.
    const ELSEWHERE: &[&str] = &["as above", "as before", "as for ", "given", "likewise", "see above", "the same"];
    /// Fewest characters of a text that names a check, an invariant or a length.
    const SHORTEST: usize = 30;
    if ELSEWHERE.iter().any(|start| proof.to_lowercase().starts_with(start)) {
        return Some("points elsewhere: say why it holds here");
    }
    (proof.chars().count() < SHORTEST).then_some("is too short: say which check, invariant or length it is")
}

/// Returns words and punctuation with their lines, without comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let (mut i, mut line) = (0, 1);
    while i < chars.len() {
        let start = i;
        match at(i) {
            '/' if at(i + 1) == '/' => i += chars[i..].iter().take_while(|c| **c != '\n').count(),
            '/' if at(i + 1) == '*' => i = end_of_comment(&chars, i),
            '"' => i = end_of_string(&chars, i),
            'r' if at(i + 1) == '"' || (at(i + 1) == '#' && matches!(at(i + 2), '"' | '#')) => {
                i = end_of_raw_string(&chars, i + 1);
            }
            '\'' if at(i + 1) == '\\' => i += 3 + chars[i + 3..].iter().take_while(|c| **c != '\'').count() + 1,
            '\'' if at(i + 2) == '\'' => i += 3,
            '\'' => i += 1 + chars[i + 1..].iter().take_while(|c| is_word(**c)).count(),
            ':' if at(i + 1) == ':' => {
                tokens.push((line, "::".to_owned()));
                i += 2;
            }
            c if is_word(c) => {
                i += chars[i..].iter().take_while(|c| is_word(**c)).count();
                let word: String = chars[start..i].iter().collect();
                // In br"..." and similar strings, the prefix belongs to the string that follows.
                let raw = matches!(word.as_str(), "br" | "cr") && matches!(at(i), '"' | '#');
                if raw {
                    i = end_of_raw_string(&chars, i);
                } else {
                    tokens.push((line, word));
                }
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push((line, c.to_string()));
                }
                i += 1;
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// Returns the index after the block comment that starts at `i`. The comment may contain others.
fn end_of_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 0;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

/// Returns the index after the string that starts at the quote `i`.
fn end_of_string(chars: &[char], mut i: usize) -> usize {
    i += 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Returns the index after the raw string whose number signs, or quote, start at `i`.
fn end_of_raw_string(chars: &[char], mut i: usize) -> usize {
    let signs = chars[i..].iter().take_while(|c| **c == '#').count();
    i += signs + 1;
    while i < chars.len() {
        if chars[i] == '"' && chars[i + 1..].iter().take(signs).filter(|c| **c == '#').count() == signs {
            return i + 1 + signs;
        }
        i += 1;
    }
    i
}

#[test]
fn the_scanner_finds_violations() {
    let text = r#"
//! crate::host is only mentioned here, and "crate::engine" there.
use crate::num::exp;
use crate::{mem::Arena, cache::{Pool, num}, quant};
use super::super::engine::Engine;
use super::sibling;
const S: &str = "use crate::host::Pool;";
fn f<'a>(x: &'a crate::model::Config) -> char { '"' }
/* use crate::host::Pool; /* nested */ use crate::host::Pool; */
mod tests { use super::*; use super::super::super::sample::Chain; }
fn g() { crate::nowhere::h() }
"#;
    let found = layer_violations("src/nn/linear.rs", text);
    let expected = [
        "src/nn/linear.rs:4: `nn` uses `cache`, which is not above it",
        "src/nn/linear.rs:5: `nn` uses `engine`, which is not above it",
        "src/nn/linear.rs:8: `nn` uses `model`, which is not above it",
        "src/nn/linear.rs:10: `nn` uses `sample`, which is not above it",
        "src/nn/linear.rs:11: `crate::nowhere` is no module in LAYERS",
    ];
    assert_eq!(found, expected);

    // In a file of one module, `super` is the crate's root. Modules in the same row are not above each other.
    let text = "use super::mem::Arena;\nmod tests { use super::*; }\nuse super::*;";
    let found = layer_violations("src/tensor.rs", text);
    let expected = [
        "src/tensor.rs:1: `tensor` uses `mem`, which is not above it",
        "src/tensor.rs:3: `crate::*` is no module in LAYERS",
    ];
    assert_eq!(found, expected);

    // Tokenizers may use neither weights nor operations, although these are above them.
    assert_eq!(problem("token", "mem"), None);
    assert!(problem("token", "ops").is_some());
    assert!(problem("extra", "num").is_some());
    assert_eq!(problem("engine", "token"), None);
}

#[test]
fn the_scanner_finds_circles() {
    let mut files = vec![
        (
            "src/cache/mod.rs",
            "mod a; mod b; mod c; mod d; pub use a::A; pub(crate) use d::{self, D as E}; pub fn f() {}",
        ),
        ("src/cache/a.rs", "use super::{b::B, f}; pub struct A; // super::d::D"),
        ("src/cache/b.rs", "pub(super) struct B; pub(in crate::cache) fn b() -> crate::cache::c::C { \"super::d\" }"),
        ("src/cache/c.rs", "pub(super) struct C(super::A); #[cfg(test)] mod tests { use super::super::d::D; }"),
        ("src/cache/d.rs", "use super::*; use super::a::A as Other; pub struct D;"),
        ("src/engine/mod.rs", "pub fn e() -> crate::cache::E {}"),
    ];
    let circles = |files: &[(&str, &str)], most| {
        let files: Vec<_> = files.iter().map(|(file, text)| ((*file).to_owned(), tokens(text))).collect();
        circles::circles(&files, "src/cache", most)
    };
    // A re-export is followed to `a`. So `mod.rs` is in no circle, although `a` uses its function.
    assert_eq!(circles(&files, 2), [["src/cache/a.rs", "src/cache/b.rs", "src/cache/c.rs"]]);
    assert!(circles(&files, 3).is_empty());
    // A path in an expression makes a circle of four, through an import under another name.
    files[3].1 = "pub struct C(super::A); fn c() { super::E::new() }";
    assert_eq!(circles(&files, 3), [["src/cache/a.rs", "src/cache/b.rs", "src/cache/c.rs", "src/cache/d.rs"]]);
    // A `mod.rs` that uses its own re-export is a link.
    files[3].1 = "pub struct C;";
    files[0].1 = "mod a; mod b; mod c; pub use a::A; pub fn f() -> A {}";
    assert_eq!(circles(&files, 1), [["src/cache/a.rs", "src/cache/mod.rs"]]);
}

#[test]
fn the_scanner_finds_unsafe() {
    let proven = "// SAFETY: `x` has the 16 elements that are read.\nlet x = unsafe { f() };\n\
                  // SAFETY: it gives no access to the T that it owns.\nunsafe impl Sync for X {}\n";
    assert_eq!(unsafe_violations("src/kernels/x86.rs", proven), Vec::<String>::new());
    let found = unsafe_violations("src/nn/linear.rs", proven);
    assert_eq!(found.len(), 2);
    let found = unsafe_violations(
        "ffi/src/ptr.rs",
        "// SAFETY: one of two,\n// which is for the first.\nunsafe { f() }\nunsafe { g() }\n",
    );
    assert_eq!(found, ["ffi/src/ptr.rs:4: `unsafe` without a `// SAFETY:` comment"]);
    let innocent = "#![deny(unsafe_code)]\n// unsafe {\nconst S: &str = r#\"unsafe { \"quoted\" }\"#;\n";
    assert_eq!(unsafe_violations("src/nn/linear.rs", innocent), Vec::<String>::new());
}

#[test]
fn the_scanner_finds_proofs_that_are_none() {
    let found = |comment: &str| {
        let text = format!("fn f() {{\n    {comment}\n    unsafe {{ g() }}\n}}\n");
        unsafe_violations("src/kernels/x86.rs", &text)
    };
    for (proof, problem) in [
        ("as above.", "points elsewhere: say why it holds here"),
        ("As above; the memory is used through this reference alone.", "points elsewhere: say why it holds here"),
        ("given.", "points elsewhere: say why it holds here"),
        ("as for the sums that go on, a few lines above.", "points elsewhere: say why it holds here"),
        ("it is.", "is too short: say which check, invariant or length it is"),
        ("the caller's promise.", "is too short: say which check, invariant or length it is"),
        ("", "is too short: say which check, invariant or length it is"),
    ] {
        let expected = format!("src/kernels/x86.rs:2: `// SAFETY: {proof}` {problem}");
        assert_eq!(found(&format!("// SAFETY: {proof}")), [expected]);
    }
    for comment in
        ["// SAFETY: i < N, and the caller promises room for N.", "// SAFETY: i < N, and\n    // there is room for N."]
    {
        assert_eq!(found(comment), Vec::<String>::new());
    }
    // A comment that follows belongs to its own block.
    let two = "// SAFETY: short.\n// SAFETY: `x` has the 16 elements that are read.\nunsafe { f() }\n";
    assert_eq!(unsafe_violations("src/kernels/x86.rs", two).len(), 1);
}
