//! Calls C functions as bytes choose: every function of the library, in any order, with objects of this run and with
//! numbers that the library said before. Now and then a pointer is NULL, misaligned, or of another object.
//!
//! No call allocates or contradicts itself. A call that is refused writes to no result.

mod arguments;
mod blobs;
mod functions;
mod structs;

use arguments::Caller;

use crate::support::{Bytes, is_shown, tried};

/// The most calls of a run.
const CALLS: usize = 250;
/// The most bytes that a run keeps in memory because the library may still use them.
const KEPT: usize = 32 << 20;

/// The first calls of most runs, and the elements of their buffers. Without a model nothing else works.
const FIRST: [(&str, fn() -> usize); 7] = [
    ("gleed_model_open", || blobs::FILES[0].len()),
    ("gleed_tokenizer_init", || 1 << 16),
    ("gleed_engine_init", || 1 << 18),
    ("gleed_sampler_init", || 1 << 12),
    ("gleed_detokenizer_init", || 1 << 12),
    ("gleed_seq_open", || 1),
    ("gleed_prefill", || 5),
];

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    structs::forget();
    let mut caller = Caller::new(&mut bytes);
    let begins = usize::from(caller.bytes.u8()) % (FIRST.len() * 2);
    for (name, len) in FIRST.iter().take(begins) {
        caller.len = len();
        call(&mut caller, name);
    }
    for _ in 0..CALLS {
        if caller.bytes.left() == 0 || caller.kept_bytes() > KEPT {
            break;
        }
        caller.begin();
        let (name, _) = *caller.bytes.pick(functions::ALL);
        call(&mut caller, name);
    }
}

fn call(caller: &mut Caller<'_, '_>, name: &str) {
    let (_, function) = functions::ALL.iter().find(|(other, _)| *other == name).expect("a function of this name");
    tried();
    let status = function(caller);
    if is_shown() {
        eprintln!("{name} of {}: {status}", caller.len);
    }
    caller.end(name, status);
}
