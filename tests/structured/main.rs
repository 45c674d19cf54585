//! Grammars and matchers: the texts that a schema, a GBNF text or a regular expression allows.

#[allow(dead_code, unreachable_pub)]
#[path = "../../examples/common/raw_member.rs"]
mod raw_member;

mod ambiguous;
mod called;
mod called_masks;
mod close;
mod failures;
mod gbnf;
mod generated;
mod jump;
mod known;
mod language;
mod limits;
mod maskbench;
mod masks;
mod named;
mod numbers;
mod own;
mod pieces;
mod random;
mod random_sources;
mod recipes;
mod states;
mod suite;
mod tools;
mod writing;

use gleed::grammar::{
    Escapes, Grammar, GrammarError, Limits, MatchError, Matcher, Options, Planned, Source, Whitespace,
};

/// A compiled grammar with its memory.
struct Compiled {
    memory: common::Memory,
    scratch: Vec<u32>,
    bytes: usize,
}

impl Compiled {
    /// Compiles a grammar with as much scratch as it needs.
    fn new(source: Source<'_>, options: &Options<'_>) -> Result<Self, GrammarError> {
        let mut scratch = Vec::new();
        let bytes = loop {
            match Grammar::plan(source, options, &mut scratch)? {
                Planned::Scratch(words) => scratch.resize(words, 0),
                Planned::Memory(bytes) => break bytes,
            }
        };
        let mut memory = common::Memory::new(bytes);
        Grammar::new(source, options, &mut scratch, memory.bytes())?;
        Ok(Self { memory, scratch, bytes })
    }

    /// Calls `run` with the grammar, which is compiled again.
    fn with<T>(&mut self, source: Source<'_>, options: &Options<'_>, run: impl FnOnce(&Grammar<'_>) -> T) -> T {
        let grammar = Grammar::new(source, options, &mut self.scratch, self.memory.bytes()).expect("compiled before");
        run(&grammar)
    }
}

/// Returns for each text how many of its bytes can be continued, and whether the text is accepted.
fn check<T: AsRef<[u8]>>(
    source: Source<'_>,
    options: &Options<'_>,
    texts: &[T],
) -> Result<Vec<(usize, bool)>, GrammarError> {
    let mut compiled = Compiled::new(source, options)?;
    Ok(compiled.with(source, options, |grammar| {
        texts.iter().map(|text| read(grammar, Limits::default(), text.as_ref()).expect("within the limits")).collect()
    }))
}

/// Returns how many bytes of a text can be continued, and whether it is accepted.
fn read(grammar: &Grammar<'_>, limits: Limits, text: &[u8]) -> Result<(usize, bool), MatchError> {
    let mut memory = common::Memory::new(Matcher::plan(limits)?);
    let mut matcher = Matcher::new(grammar, limits, memory.bytes())?;
    let prefix = matcher.take_all(text)?;
    Ok((prefix, prefix == text.len() && matcher.may_end()))
}

fn whitespace(name: &str) -> Whitespace {
    match name {
        "bounded" | "-" => Whitespace::Bounded,
        "compact" => Whitespace::Compact,
        "spaced" => Whitespace::Spaced,
        "any" => Whitespace::Any,
        other => panic!("white space {other}"),
    }
}

fn escapes(name: &str) -> Escapes {
    match name {
        "short" | "-" => Escapes::Short,
        "all" => Escapes::All,
        other => panic!("escapes {other}"),
    }
}

/// Returns the lines of a file of the reference data.
fn lines(path: &str) -> Option<Vec<String>> {
    let bytes = common::shared_file(&format!("fixtures/structured/{path}"))?;
    Some(String::from_utf8(bytes).expect("UTF-8").lines().map(str::to_owned).collect())
}
