//! Texts of `--version` and `--help`, also for programs without flags.

use std::io::{ErrorKind, Write, stdout};
use std::process::exit;
use std::sync::LazyLock;

use gleed::num::ARITHMETIC_VERSION;
use gleed_ffi::GLEED_ABI_VERSION;

/// Returns the versions of Gleed, of the arithmetic, on which the bits of the results depend, and of the C ABI.
pub fn version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let version = env!("CARGO_PKG_VERSION");
        format!("{version}\narithmetic version {ARITHMETIC_VERSION}\nABI version {GLEED_ABI_VERSION}")
    });
    &TEXT
}

/// Returns the arguments of a program without flags, at most `most`. Answers `--help` and `--version` and ends the
/// program. Ends it with code 2 if the arguments are wrong. The first word of `help` is the program's name.
pub fn arguments(help: &str, most: usize) -> Vec<String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = help.split_whitespace().next().unwrap_or_default();
    let mut out = stdout().lock();
    let answered = match arguments.first().map(String::as_str) {
        Some("-h" | "--help") => writeln!(out, "{}", help.trim_end()),
        Some("-V") => writeln!(out, "{name} {}", env!("CARGO_PKG_VERSION")),
        Some("--version") => writeln!(out, "{name} {}", version()),
        Some(flag) if flag.len() > 1 && flag.starts_with('-') => {
            eprintln!("error: {flag} is not known; --help says what is");
            exit(2);
        }
        _ if arguments.len() > most => {
            eprintln!("error: {} arguments are given, at most {most} are known; --help says which", arguments.len());
            exit(2);
        }
        _ => return arguments,
    };
    match answered {
        // A closed pipe is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: {error}");
            exit(1)
        }
        _ => exit(0),
    }
}
