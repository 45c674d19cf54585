//! Runs as the last test of the package. It prints how many fixtures the other tests have skipped, because cargo does
//! not show the output of tests that pass.

use std::collections::BTreeSet;

fn main() {
    let list = common::skipped_list();
    let Ok(text) = std::fs::read_to_string(&list) else {
        println!("no fixture was skipped");
        return;
    };
    let paths: BTreeSet<&str> = text.lines().collect();
    println!(
        "{} fixtures were skipped, and those that tests want as a whole folder: ../shared is not there. tests/committed.rs says what tests \
        each architecture without it. The others are the project's own set; tests/data/README.md says how such files are made.",
        paths.len()
    );
    std::fs::remove_file(list).unwrap();
}
