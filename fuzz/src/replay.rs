//! Runs a target on files, without libFuzzer: with any compiler, under any tool.
//!
//! `replay TARGET FILE...`
#![allow(unsafe_code)]

mod support;
mod targets;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of a target");
    let (_, run) = targets::ALL.iter().find(|(other, _)| *other == name).expect("a target of this name");
    for path in arguments {
        let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // It stands there if the target fails.
        eprintln!("{path}");
        run(&data);
    }
}
