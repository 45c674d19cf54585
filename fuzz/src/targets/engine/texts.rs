//! Texts that sequences write under a grammar.

use std::sync::LazyLock;

use gleed::grammar::{Grammar, Limits, Matcher, Options, Planned, Source, Vocabulary};
use gleed::writing::{Writing, WritingError};
use gleed::{EngineError, SeqId};

use super::world::World;
use crate::support::{Exact, forbidden};

const LIMITS: Limits = Limits { items: 24, nodes: 48, depth: 12, past: 96 };
/// Texts of a, b and c. Random tokens of it often end in an error.
const SOURCE: Source<'static> = Source::Regex(b"(a|bb?c|ca*b|[bc]{2}a){0,20}");

/// Memory for the matcher of a text.
pub struct Place(Exact);

/// Returns enough memory for all texts of a run.
pub fn places() -> Vec<Place> {
    let bytes = Matcher::plan(LIMITS).expect("limits that are possible");
    (0..8).map(|_| Place(Exact::new(bytes, 0x5A))).collect()
}

pub type Text<'p> = Writing<'static, 'p>;

/// A vocabulary in which token 0 is "a", token 1 is "b", and so on.
struct Letters;

impl Vocabulary for Letters {
    fn tokens(&self) -> u32 {
        11
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        // Tokens from outside have no text.
        if id < self.tokens() {
            f(b'a' + id as u8);
        }
    }
}

static GRAMMAR: LazyLock<Grammar<'static>> = LazyLock::new(|| {
    let (options, mut scratch) = (Options::default(), Vec::new());
    let bytes = loop {
        match Grammar::plan(SOURCE, &options, &mut scratch).expect("an expression") {
            Planned::Scratch(words) => scratch.resize(words, 0),
            Planned::Memory(bytes) => break bytes,
        }
    };
    let memory: &'static mut Exact = Box::leak(Box::new(Exact::new(bytes, 0)));
    Grammar::new(SOURCE, &options, &mut scratch, memory.bytes()).expect("planned before")
});

/// Begins a text behind the last token of a sequence.
pub fn begin(world: &mut World<'_, '_, '_>, seq: SeqId) -> Result<(), WritingError> {
    let Some(place) = world.places.next() else { return Ok(()) };
    let grammar = &*GRAMMAR;
    let text = forbidden(|| {
        let matcher = Matcher::new(grammar, LIMITS, place.0.bytes()).expect("memory of the plan");
        Writing::new(&world.engine, seq, matcher)
    })?;
    world.texts.push(text);
    Ok(())
}

/// Moves a text to the last token of its sequence.
pub fn follow(world: &mut World<'_, '_, '_>, index: usize) -> Result<(), WritingError> {
    let (engine, text) = (&world.engine, &mut world.texts[index]);
    let result = forbidden(|| text.follow(engine, &Letters));
    compare(world, index, &result);
    result
}

/// Moves each text whose sequence has become shorter to the new end, before the sequence gets other tokens, as
/// [`Writing::follow`] asks. A text that cannot go there is dropped.
pub fn follow_cut(world: &mut World<'_, '_, '_>) {
    for index in (0..world.texts.len()).rev() {
        let text = &world.texts[index];
        if world.engine.seq_len(text.seq()).is_ok_and(|len| len < text.len())
            && let Err(WritingError::Before { .. } | WritingError::Gone { .. }) = follow(world, index)
        {
            world.texts.remove(index);
        }
    }
}

/// Rewinds a text with its sequence.
pub fn rewind(world: &mut World<'_, '_, '_>, index: usize, keep: usize) -> Result<(), WritingError> {
    let seq = world.texts[index].seq();
    let before = world.engine.seq_len(seq);
    let (engine, text) = (&mut world.engine, &mut world.texts[index]);
    let result = forbidden(|| text.rewind(engine, &Letters, keep));
    match world.position_of(seq) {
        Some(timeline) if result.is_ok() => world.truncate(timeline, keep),
        // A rewind that the grammar refuses must also leave the sequence as it was.
        _ => assert_eq!(world.engine.seq_len(seq), before),
    }
    compare(world, index, &result);
    result
}

/// Checks that a new matcher which takes the same tokens is in the same state, or refuses the same token.
fn compare(world: &mut World<'_, '_, '_>, index: usize, result: &Result<(), WritingError>) {
    let (cache, text) = (world.engine.cache(), &mut world.texts[index]);
    let refused = match *result {
        Ok(()) => None,
        Err(WritingError::Refused { position, .. }) => Some(position),
        Err(_) => return,
    };
    let mut memory = Exact::new(Matcher::plan(LIMITS).expect("limits that are possible"), 1);
    let mut fresh = Matcher::new(&GRAMMAR, LIMITS, memory.bytes()).expect("memory of the plan");
    let end = refused.map_or(text.len(), |position| position + 1);
    for position in text.begin()..end {
        // A window may have evicted the token. The matcher had kept its state then.
        let Some(token) = cache.token(text.seq(), position) else { return };
        let taken = fresh.accept(&Letters, token).expect("within the limits");
        assert_eq!(taken, Some(position) != refused, "token {position} of a text");
    }
    if refused.is_none() {
        assert_eq!(Ok(text.len()), cache.seq_len(text.seq()));
        let state = |matcher: &Matcher<'_, '_>| (matcher.next_bytes(), matcher.may_end());
        assert_eq!(state(text.matcher()), state(&fresh), "the states of a text");
    }
}

/// Returns the part of a refusal that comes from the engine. Other reasons concern only the text.
pub fn reason(error: WritingError) -> Result<(), EngineError> {
    assert!(!error.to_string().is_empty());
    if let WritingError::Engine(error) = error { Err(error) } else { Ok(()) }
}
