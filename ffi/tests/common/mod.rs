//! The system's C and C++ compilers, and the library that programs are linked with.
#![allow(dead_code)] // no test uses all of it

pub(crate) mod variants;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The flags of the sanitizers.
pub(crate) const SANITIZERS: [&str; 3] = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

pub(crate) fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub(crate) fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

pub(crate) fn model_file() -> PathBuf {
    manifest("../examples/assets/gleed-tales-q8_0.gguf")
}

/// Returns the path of a library of the example `gleed_hosted`, which `cargo test` builds.
pub(crate) fn library(name: &str) -> PathBuf {
    let built = std::env::current_exe().unwrap();
    let library = built.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(library.exists(), "{} is not there: `cargo test -p gleed-ffi` builds it", library.display());
    library
}

/// Returns the compiler for the language of `source`, with all warnings as errors.
fn compiler(source: &Path) -> Command {
    let is_cpp = source.extension() == Some(OsStr::new("cpp"));
    let (variable, default) = if is_cpp { ("CXX", "c++") } else { ("CC", "cc") };
    let mut command = Command::new(std::env::var(variable).unwrap_or_else(|_| default.to_owned()));
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    command
}

/// Returns whether the C compiler can make programs with sanitizers, and prints a line if it cannot. It is tried only
/// once, because tests that run at the same time would write over each other's program.
pub(crate) fn has_sanitizers() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let source = temporary("sanitized.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let output = compiler(&source).args(SANITIZERS).arg(&source).arg("-o").arg(temporary("sanitized")).output();
        let has = output.is_ok_and(|output| output.status.success());
        if !has {
            println!("WITHOUT SANITIZERS: the compiler has none");
        }
        has
    })
}

/// Returns the flags for a language standard, with the flags of the sanitizers if the compiler has them.
pub(crate) fn flags(standard: &'static str) -> Vec<&'static str> {
    let mut flags = vec![standard];
    if has_sanitizers() {
        flags.extend(SANITIZERS);
    }
    flags
}

/// Compiles `source` and links it with the hosted library. Returns the program, or `None` if there is no compiler.
pub(crate) fn program(source: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let program = temporary(name);
    let mut command = compiler(source);
    command.args(flags).arg("-I").arg(manifest("../include")).arg("-I").arg(manifest("../tests/mistakes"));
    command.arg(source).arg(library("libgleed_hosted.a")).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let Ok(output) = command.output() else {
        println!("skipped: no compiler for {}", source.display());
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Runs a program with these arguments and `input` on its standard input. The program may end with any code.
pub(crate) fn run_with_input(program: &Path, arguments: &[&OsStr], input: &str) -> Output {
    let mut command = Command::new(program);
    // The programs leave their memory to the system; the library has none.
    command.args(arguments).env("ASAN_OPTIONS", "detect_leaks=0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that refuses its arguments does not read the input: writing to it may fail.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Runs a program with these arguments, which must succeed. Returns its standard output.
pub(crate) fn run(program: &Path, arguments: &[&OsStr]) -> String {
    let output = run_with_input(program, arguments, "");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}\n{errors}", program.display(), output.status);
    String::from_utf8(output.stdout).unwrap()
}
