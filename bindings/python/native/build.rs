//! Writes `header.h` into the target folder: the declarations of `include/gleed.h` in a form for cffi, which has no
//! preprocessor. maturin reads them there.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The declarations that are not in `gleed.h`: the functions of `lib.rs`.
const OWN: &str = "
void *gleed_python_threads_start(uint32_t threads);
void gleed_python_threads_end(void *threads);
void gleed_python_threads_run(void *threads, uint32_t n, gleed_body body, void *arg);
uint64_t gleed_python_nanoseconds(void *ctx);
";

fn main() {
    let header = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../include/gleed.h");
    let target = target_folder();
    let declarations = declarations(&fs::read_to_string(&header).expect("include/gleed.h is there")) + OWN;
    fs::write(target.join("header.h"), declarations).expect("the target folder can be written to");
    println!("cargo::rerun-if-changed={}", header.display());
    println!("cargo::rerun-if-changed={}", target.join("header.h").display());
    println!("cargo::rerun-if-changed=native/build.rs");
}

/// Returns the target folder: `OUT_DIR` is `build/PACKAGE/out` below the folder of a profile, which lies in the target
/// folder or in its folder for a target.
fn target_folder() -> PathBuf {
    let [out, target] = ["OUT_DIR", "TARGET"].map(|name| PathBuf::from(env::var_os(name).expect("cargo sets it")));
    let folders: Vec<_> = out.ancestors().skip(4).take(2).collect();
    match folders[..] {
        [folder, above] if folder.ends_with(target) => above.to_owned(),
        [folder, _] => folder.to_owned(),
        _ => panic!("OUT_DIR lies in the target folder"),
    }
}

/// Returns a header without comments and preprocessor directives. Constants stay, as numbers.
fn declarations(header: &str) -> String {
    let mut text = String::new();
    let mut skipped = 0_usize;
    for line in without_comments(header).lines().map(str::trim_end) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.first().copied() {
            // These conditions enclose lines for C++. All other conditions hold for every compiler.
            Some("#ifdef") => skipped += 1,
            Some("#if") if line.contains("__cplusplus") => skipped += 1,
            Some("#endif") => skipped = skipped.saturating_sub(1),
            Some("#define") => text += &constant(&words),
            Some(word) if word.starts_with('#') => {}
            _ if skipped == 0 && !line.is_empty() => {
                text += line;
                text.push('\n');
            }
            _ => {}
        }
    }
    text
}

/// Returns the definition of a number in a form that cffi understands, or an empty text for another macro.
fn constant(words: &[&str]) -> String {
    match words {
        [define, name, "UINT32_MAX"] => format!("{define} {name} {}\n", u32::MAX),
        [define, name, "UINT64_MAX"] => format!("{define} {name} {}\n", u64::MAX),
        [define, name, number] if number.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("{define} {name} {}\n", number.trim_end_matches('u'))
        }
        _ => String::new(),
    }
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        kept += before;
        kept.push(' ');
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}
