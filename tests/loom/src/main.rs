//! The pool, the tiles and the loop over tiles of the library, compiled from their files with loom's atomics, locks and
//! threads.
//!
//! `gleed-loom [PREEMPTIONS] [NAME...]` tries all orders of the threads with at most PREEMPTIONS preemptions, for each
//! model or for the named ones.
#![allow(dead_code, unused_imports, unused_macros, unreachable_pub)]

extern crate std;

#[macro_use]
#[path = "../../../src/error.rs"]
pub mod error;

pub mod mem;

#[path = "../../../src/par.rs"]
pub mod par;

pub mod host;
pub mod kernels;
mod models;
pub mod sync;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let preemptions = arguments.next().map_or(2, |number| number.parse().expect("a number of preemptions"));
    let names: Vec<String> = arguments.collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let wanted: Vec<_> = models::ALL.iter().filter(|(name, _)| is_wanted(name)).collect();
    assert!(
        !wanted.is_empty() && wanted.len() >= names.len(),
        "the models are {:?}",
        models::ALL.map(|(name, _)| name)
    );
    for (name, model) in wanted {
        println!("{name}: {} orders of at most {preemptions} preemptions", models::try_all(preemptions, *model));
    }
}
