//! The pages are right about the repository: paths, programs and symbols that they cite exist, links resolve, and
//! numbers agree.

mod claims;
mod examples;
mod page;
mod sources;

use std::path::Path;

use fancy_regex::Regex;

use claims::claims;
use page::{Page, pages};
use sources::Sources;

#[test]
fn cited_paths_exist() {
    let sources = Sources::read();
    report(all(|page| page.code().iter().flat_map(|code| sources.missing_paths(code)).collect()));
}

#[test]
fn cited_symbols_exist() {
    let sources = Sources::read();
    report(all(|page| page.code().iter().flat_map(|code| sources.missing_symbols(code)).collect()));
}

#[test]
fn links_resolve() {
    report(all(Page::broken_links));
}

#[test]
fn numbers_agree() {
    let pages = pages();
    report(claims().iter().flat_map(|claim| claim.violations(&pages)).collect());
}

#[test]
fn cannot_is_one_word() {
    report(all(Page::wrong_words));
}

#[test]
fn the_glossary_is_in_order() {
    let page = Page::read("docs/glossary.md");
    let lines = page.text.lines().enumerate();
    let words: Vec<(usize, &str)> =
        lines.filter_map(|(index, line)| Some((index + 1, line.strip_prefix("| ")?.split(" |").next()?))).collect();
    assert!(words.len() > 50);
    let unordered = words[1..].windows(2).filter(|pair| pair[0].1 >= pair[1].1);
    let violation =
        |pair: &[(usize, &str)]| format!("{}:{}: {} comes after {}", page.name, pair[1].0, pair[1].1, pair[0].1);
    report(unordered.map(violation).collect());
}

#[test]
fn the_layers_are_those_that_are_enforced() {
    let table = read("tests/layering.rs");
    let table = between(&table, "const LAYERS", "\n];");
    let layers: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
    assert!(layers.len() > 10);
    for (page, heading) in [("docs/design.md", "| module | what |"), ("src/lib.rs", "| layer | what |")] {
        let text = read(page);
        let rows = text.lines().map(|line| line.trim_start_matches("//! "));
        let rows = rows.skip_while(|row| *row != heading).skip(2).take_while(|row| row.starts_with('|'));
        let firsts: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
        let names: Vec<&str> = firsts.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert_eq!(in_rows(names, table), in_rows(layers.clone(), table), "the layers of {page}");
    }
}

/// Sorts names that share a row of the table in alphabetical order.
fn in_rows<'n>(mut names: Vec<&'n str>, table: &str) -> Vec<&'n str> {
    let row = |name: &str| table.lines().position(|line| line.contains(&format!("\"{name}\"")));
    for run in names.chunk_by_mut(|a, b| row(a) == row(b)) {
        run.sort_unstable();
    }
    names
}

#[test]
fn the_readme_shows_first_what_a_user_gets() {
    let lines = read("README.md").lines().take_while(|line| *line != "## What it promises").count();
    assert!(lines <= 80, "{lines} lines before the promises");
}

/// Compiles the README's lines of C in a function that declares what they use.
#[test]
fn the_readme_speaks_c() {
    let readme = read("README.md");
    let program = format!("{BEFORE_C}{}    return 0;\n}}\n", between(&readme, "```c\n", "```"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme.c");
    std::fs::write(&file, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = std::process::Command::new(compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
    let output = command.arg(root().join("include")).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const BEFORE_C: &str = "#include <gleed.h>
#define CHECK(call) if ((call) != GLEED_OK) return 1
void *carve(size_t size, size_t align);
int run(const uint8_t *file, size_t file_len, const uint32_t *prompt, size_t prompt_len);
int run(const uint8_t *file, size_t file_len, const uint32_t *prompt, size_t prompt_len)
{
    gleed_error error = {.struct_size = sizeof error};
    const gleed_config config = {.struct_size = sizeof config, .context = 256};
    const gleed_model *model;
    gleed_engine *engine;
    gleed_seq seq;
    const float *logits;
    size_t size, align, vocab;
    uint32_t token;
    int i;
";

#[test]
fn types_have_examples() {
    let sources = Sources::read();
    report(examples::violations(&sources.library()));
}

#[test]
fn wrong_citations_are_found() {
    let text = "`src/lib.rs`, `src/nowhere.rs`, `tests/*.rs`, `docs/*.pdf`, `src/ops/<name>.rs`, `src/no/<name>.rs`, `PERF.md`\n\
        `cargo run --example generate`, `cargo run --example nothing`, `--bench kernels --test equality`\n\
        ```sh\n\
        cargo bench --bench nothing\n\
        cc examples/c/nothing.c\n\
        ```\n";
    let (page, sources) = (Page::new("docs/x.md", text), Sources::read());
    let missing: Vec<String> = page.code().iter().flat_map(|code| sources.missing_paths(code)).collect();
    let expected = [
        "docs/x.md:1: no file src/nowhere.rs",
        "docs/x.md:1: no file docs/*.pdf",
        "docs/x.md:1: no file src/no/<name>.rs",
        "docs/x.md:1: no file PERF.md",
        "docs/x.md:2: no example nothing",
        "docs/x.md:4: no bench nothing",
        "docs/x.md:5: no file examples/c/nothing.c",
    ];
    assert_eq!(missing, expected);

    let text = "`Engine::prefill(seq)`, `Engine::fill`, `gleed::sample::argmax`, `sample::armgax`, `Step::Ready`, `Step::Steady`\n\
        `Limits::context`, `Limits::contents`, `libm::fmaf`, `gleed_plan`, `gleed_plane`, `GLEED_E_FILE*`, `GLEED_E_FUN`\n\
        `errors_are_not_larger_than_those_of_llama_cpp`, `errors_are_always_very_small`\n";
    let page = Page::new("README.md", text);
    let missing: Vec<String> = page.code().iter().flat_map(|code| sources.missing_symbols(code)).collect();
    let expected = [
        "README.md:1: no Engine::fill",
        "README.md:1: no sample::armgax",
        "README.md:1: no Step::Steady",
        "README.md:2: no Limits::contents",
        "README.md:2: no gleed_plane",
        "README.md:2: no GLEED_E_FUN",
        "README.md:3: no errors_are_always_very_small",
    ];
    assert_eq!(missing, expected);
}

#[test]
fn types_without_examples_are_found() {
    let module =
        ["//! # Example", "", "```", "# let b = 1;", "```", "", "# Words", "", "```text", "```"].join("\n//! ");
    let types = "/// A.\npub struct Bare;\n/// ```\n/// ```\n#[derive(Debug)]\npub enum Own {}\n\
        /// [Example](crate::a#example).\npub trait Linked {}\n/// [Example](crate::a#words).\npub type Worded = u8;\n\
        \u{20}   /// [Example](crate::c#example).\n    pub struct Lost;\npub(crate) struct Hidden;\n\
        /// [A](crate::a#b-1).\npub struct Hash;\n";
    let files = [("src/a/mod.rs".to_owned(), module), ("src/a/b.rs".to_owned(), types.to_owned())];
    let expected = [
        "src/a/b.rs:2: Bare has no example and no link to one",
        "src/a/b.rs:10: Worded: crate::a#words has no example",
        "src/a/b.rs:12: Lost: crate::c#example has no example",
        "src/a/b.rs:15: Hash: crate::a#b-1 has no example",
    ];
    assert_eq!(examples::violations(&files.iter().collect::<Vec<_>>()), expected);
}

#[test]
fn broken_links_wrong_numbers_and_wrong_words_are_found() {
    let text = "[a](../README.md) [b](../README.md#licence) [c](#x)\n# x\n[d](nothing.md) [e](../README.md#nothing)\nIt can\nnot.\n";
    let page = Page::new("docs/x.md", text);
    assert_eq!(page.broken_links(), ["docs/x.md:3: no nothing.md", "docs/x.md:3: no ../README.md#nothing"]);
    assert_eq!(page.wrong_words(), ["docs/x.md:4: write \"cannot\""]);

    let pages = [Page::new("README.md", "The arithmetic,\nversion 99, and\n99\nfunctions.")];
    let violations: Vec<String> = claims().iter().flat_map(|claim| claim.violations(&pages)).collect();
    assert!(violations.contains(&format!("README.md:2: 99, it is {}", gleed::num::ARITHMETIC_VERSION)));
    assert!(violations.iter().any(|violation| violation.starts_with("README.md:3: 99, it is ")));
    assert!(violations.iter().any(|violation| violation.contains("families")), "a claim that nobody makes");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// Returns the text between the first occurrence of `before` and the next one of `after`.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} after {before:?}")).0
}

/// Returns the violations that a check finds in all pages.
fn all(check: impl Fn(&Page) -> Vec<String>) -> Vec<String> {
    pages().iter().flat_map(check).collect()
}

fn report(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}
