//! Compiles grammars with scratch that grows as needed.

use gleed::grammar::{Grammar, GrammarError, Options, Planned, Source};
use gleed::host::AlignedBytes;

/// Compiles a grammar into `memory`, which is replaced by memory of the right size.
pub fn compile<'m>(
    source: Source<'_>,
    options: &Options<'_>,
    memory: &'m mut AlignedBytes,
) -> Result<Grammar<'m>, GrammarError> {
    let mut scratch = Vec::new();
    let bytes = loop {
        match Grammar::plan(source, options, &mut scratch)? {
            Planned::Scratch(words) => scratch.resize(words, 0),
            Planned::Memory(bytes) => break bytes,
        }
    };
    *memory = AlignedBytes::new(bytes);
    Grammar::new(source, options, &mut scratch, memory.bytes())
}
