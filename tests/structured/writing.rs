//! Sequences that write texts. Whatever happens to them, masks and tokens are those of a fresh run.

use gleed::cache::{CacheError, SnapshotOptions};
use gleed::grammar::{Grammar, Limits as MatcherLimits, Matcher, Options, Source, TokenTrie, Whitespace};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::writing::{Writing, WritingError};
use gleed::{Engine, EngineError, Limits, Logits, Model, Plan, Window};

use super::Compiled;
use super::masks::{mask_of, with_tokens};
use common::Memory;
use common::random::Rng;

/// "Once upon a time".
const PROMPT: [u32; 5] = [1, 414, 435, 261, 385];
const SCHEMA: Source<'_> = Source::Schema(
    br#"{"type":"object","properties":{"name":{"type":"string","maxLength":20},"friends":{"type":"array","items":{"type":"object",
    "properties":{"kind":{"enum":["dog","cat","dragon"]},"age":{"type":"integer","maximum":99,"minimum":0}},"required":["kind","age"]},
    "minItems":3,"maxItems":3}},"required":["name","friends"]}"#,
);
const OPTIONS: Options<'static> = Options {
    whitespace: Whitespace::Spaced,
    escapes: gleed::grammar::Escapes::Short,
    closed: true,
    one_of_as_any_of: false,
    ignore: &[],
    states: 4096,
    close: false,
};

fn with_engine(
    limits: &Limits,
    run: impl FnOnce(&mut Engine<'_, '_>, &Tokenizer<'_, '_>, &TokenTrie<'_>, &Grammar<'_>),
) {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    with_tokens(&file, |tokenizer, trie| {
        Compiled::new(SCHEMA, &OPTIONS).unwrap().with(SCHEMA, &OPTIONS, |grammar| {
            run(&mut engine, tokenizer, trie, grammar);
        });
    });
}

fn limits(past: usize) -> MatcherLimits {
    MatcherLimits { items: 64, nodes: 64, depth: 16, past }
}

/// Returns the most probable allowed token.
fn choose(logits: &[f32], mask: &[u32]) -> u32 {
    let mut sampler = Sampler::new(SamplerParams::default()).unwrap();
    sampler.sample_masked(logits, mask, &mut vec![0; scratch_len(logits.len())]).unwrap().token
}

/// Returns masks and tokens of an undisturbed run, and the logits before each token.
fn fresh(
    engine: &mut Engine<'_, '_>,
    tokenizer: &Tokenizer<'_, '_>,
    trie: &TokenTrie<'_>,
    grammar: &Grammar<'_>,
) -> Vec<(Vec<u32>, u32, Vec<f32>)> {
    let mut memory = Memory::new(Matcher::plan(limits(0)).unwrap());
    let mut matcher = Matcher::new(grammar, limits(0), memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let (mut next, mut states) = (PROMPT.to_vec(), Vec::new());
    while !matcher.is_complete() {
        let logits = engine.prefill(seq, &next).unwrap().to_vec();
        let mask = mask_of(&mut matcher, trie, usize::MAX);
        let token = choose(&logits, &mask);
        assert_eq!(matcher.accept(tokenizer, token), Ok(true));
        states.push((mask, token, logits));
        next = vec![token];
    }
    engine.close(seq).unwrap();
    states
}

/// Plays forks, rewinds, snapshots and dropped batches at random, with kept states or without.
#[test]
fn texts_go_on_as_a_fresh_run() {
    let engine_limits = Limits { sequences: 5, context: 200, ..Limits::default() };
    with_engine(&engine_limits, |engine, tokenizer, trie, grammar| {
        let states = fresh(engine, tokenizer, trie, grammar);
        assert!(states.len() > 30);
        for (seed, past) in [(1, 1024), (2, 100), (3, 0)] {
            let mut random = Rng::new(seed);
            let bytes = Matcher::plan(limits(past)).unwrap();
            // Memory for each text, and for copies.
            let mut memories: Vec<Memory> = (0..300).map(|_| Memory::new(bytes)).collect();
            let mut free = memories.iter_mut();
            let seq = engine.open().unwrap();
            engine.prefill(seq, &PROMPT).unwrap();
            let matcher = Matcher::new(grammar, limits(past), free.next().unwrap().bytes()).unwrap();
            let mut texts = vec![Writing::new(engine, seq, matcher).unwrap()];
            for _ in 0..250 {
                let index = random.below(texts.len());
                let count = texts.len();
                let text = &mut texts[index];
                let (seq, at) = (text.seq(), text.len() - PROMPT.len());
                let keep = PROMPT.len() + random.below(at + 1);
                match random.below(6) {
                    0 => text.rewind(engine, tokenizer, keep).unwrap(),
                    1 if count < 4 => {
                        let fork = text.fork(engine, tokenizer, keep, free.next().unwrap().bytes()).unwrap();
                        texts.push(fork);
                    }
                    2 => {
                        let state = text.state();
                        let options = SnapshotOptions { state: &state, ..Default::default() };
                        let mut saved = vec![0; engine.snapshot_len_with(seq, &options).unwrap()];
                        engine.snapshot_with(seq, &options, &mut saved).unwrap();
                        let (restored, header) = engine.restore_with(None, &saved).unwrap();
                        engine.close(seq).unwrap();
                        let matcher = Matcher::new(grammar, limits(past), free.next().unwrap().bytes()).unwrap();
                        texts[index] = Writing::resume(engine, tokenizer, restored, matcher, header.state()).unwrap();
                    }
                    3 if count > 1 => engine.close(texts.swap_remove(index).seq()).unwrap(),
                    // A batch that is cancelled.
                    4 if at < states.len() => {
                        let token = states[at].1;
                        assert_eq!(text.accept(tokenizer, token), Ok(true));
                        engine.queue(seq, engine.seq_len(seq).unwrap(), &[token], Logits::Last).unwrap();
                        engine.cancel(seq).unwrap();
                        text.follow(engine, tokenizer).unwrap();
                        assert_eq!(text.len(), PROMPT.len() + at);
                    }
                    _ => {
                        for (mask, token, _) in states.iter().skip(at).take(1 + random.below(6)) {
                            assert_eq!(&mask_of(text.matcher(), trie, usize::MAX), mask);
                            assert_eq!(text.accept(tokenizer, *token), Ok(true));
                            let len = text.len() - PROMPT.len();
                            let logits = engine.decode_step(seq, *token).unwrap();
                            if let Some((mask, token, expected)) = states.get(len) {
                                assert_eq!(logits, expected);
                                assert_eq!(choose(logits, mask), *token);
                            }
                        }
                    }
                }
                for text in &mut texts {
                    assert_eq!(text.len(), engine.seq_len(text.seq()).unwrap());
                    let at = text.len() - PROMPT.len();
                    match states.get(at) {
                        Some((mask, ..)) => assert_eq!(&mask_of(text.matcher(), trie, usize::MAX), mask),
                        None => assert!(text.matcher().is_complete()),
                    }
                }
            }
            texts.iter().for_each(|text| engine.close(text.seq()).unwrap());
        }
    });
}

#[test]
fn what_cannot_be_kept_together_is_refused() {
    let window = Window { sinks: 0, last: 32 };
    let engine_limits = Limits { sequences: 2, context: 64, rows: 16, window, ..Limits::default() };
    with_engine(&engine_limits, |engine, tokenizer, trie, grammar| {
        let states = fresh(engine, tokenizer, trie, grammar);
        let bytes = Matcher::plan(limits(100)).unwrap();
        let (mut one, mut other) = (Memory::new(bytes), Memory::new(bytes));
        let seq = engine.open().unwrap();
        engine.prefill(seq, &PROMPT).unwrap();
        let mut text = Writing::new(engine, seq, Matcher::new(grammar, limits(100), one.bytes()).unwrap()).unwrap();
        for (_, token, _) in states.iter().take(60) {
            assert_eq!(text.accept(tokenizer, *token), Ok(true));
            engine.decode_step(seq, *token).unwrap();
        }
        let len = text.len();
        // The first tokens are evicted, so the text can go back only to the last kept states.
        assert_eq!(text.rewind(engine, tokenizer, 4), Err(WritingError::Before { begin: 5, given: 4 }));
        let gone = text.fork(engine, tokenizer, len - 20, other.bytes()).map(drop);
        assert!(matches!(gone, Err(WritingError::Gone { .. })), "{gone:?}");
        assert_eq!((text.len(), engine.seq_len(seq).unwrap()), (len, len));
        text.rewind(engine, tokenizer, len - 1).unwrap();
        assert_eq!(mask_of(text.matcher(), trie, 1), states[len - 1 - PROMPT.len()].0);
        // The grammar does not allow this token.
        engine.decode_step(seq, 300).unwrap();
        let refused = text.follow(engine, tokenizer);
        assert_eq!(refused, Err(WritingError::Refused { position: len - 1, token: 300 }));
        let resumed = |state: &[u8], other: &mut Memory| {
            let matcher = Matcher::new(grammar, limits(100), other.bytes()).unwrap();
            Writing::resume(engine, tokenizer, seq, matcher, state).map(drop)
        };
        let mut state = text.state();
        assert_eq!(resumed(&state[..15], &mut other), Err(WritingError::State { given: 15 }));
        assert!(matches!(resumed(&state, &mut other), Err(WritingError::Gone { .. })));
        state[9] ^= 1;
        assert_eq!(resumed(&state, &mut other), Err(WritingError::State { given: 16 }));
    });
}

/// A token that the grammar does not allow is in the sequence, but not in its text.
#[test]
fn a_fork_and_a_rewind_that_are_refused_leave_the_sequences() {
    with_engine(&Limits { sequences: 3, context: 64, ..Limits::default() }, |engine, tokenizer, _, grammar| {
        let (mut one, mut two) =
            (Memory::new(Matcher::plan(limits(8)).unwrap()), Memory::new(Matcher::plan(limits(8)).unwrap()));
        let matcher = Matcher::new(grammar, limits(8), one.bytes()).unwrap();
        let seq = engine.open().unwrap();
        engine.prefill(seq, &PROMPT[..3]).unwrap();
        let mut writing = Writing::new(engine, seq, matcher).unwrap();
        let short = EngineError::Cache(CacheError::TooShort { keep: 10, length: 3 });
        assert_eq!(writing.rewind(engine, tokenizer, 10), Err(WritingError::Engine(short)));
        engine.prefill(seq, &PROMPT[3..]).unwrap();
        let refused = WritingError::Refused { position: 3, token: PROMPT[3] };
        assert_eq!(writing.fork(engine, tokenizer, 5, two.bytes()).unwrap_err(), refused);
        assert_eq!(writing.rewind(engine, tokenizer, 4), Err(refused));
        assert_eq!(engine.seq_len(seq), Ok(5));
        assert!(engine.open().is_ok() && engine.open().is_ok());
    });
}
