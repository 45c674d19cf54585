//! Masks of tokens, compared with the reference data and with single tokens.

use gguf_rs_lite::Gguf;
use gleed::grammar::{Limits, Matcher, Options, Source, TokenTrie, TrieError, Vocabulary};
use gleed::token::Tokenizer;

use super::language::counts_names_twice;
use super::{Compiled, escapes, whitespace};
use common::random::Rng;
use common::{Memory, shared_file};

/// Calls `run` with a vocabulary and its trie.
pub(super) fn with_tokens<T>(file: &[u8], run: impl FnOnce(&Tokenizer<'_, '_>, &TokenTrie<'_>) -> T) -> T {
    let gguf = Gguf::parse(file).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(&gguf).unwrap());
    let tokenizer = Tokenizer::new(&gguf, tables.bytes()).unwrap();
    let mut scratch = vec![0; TokenTrie::scratch_len(&tokenizer)];
    let mut memory = Memory::new(TokenTrie::plan(&tokenizer, &mut scratch).unwrap());
    let trie = TokenTrie::new(&tokenizer, &mut scratch, memory.bytes()).unwrap();
    run(&tokenizer, &trie)
}

pub(super) fn text_of(vocabulary: &dyn Vocabulary, id: u32) -> Vec<u8> {
    let mut text = Vec::new();
    vocabulary.each_byte(id, &mut |byte| text.push(byte));
    text
}

pub(super) fn allows(mask: &[u32], id: u32) -> bool {
    mask[id as usize / 32] >> (id % 32) & 1 == 1
}

/// Returns a mask that is made in steps of `units` units.
pub(super) fn mask_of(matcher: &mut Matcher<'_, '_>, trie: &TokenTrie<'_>, units: usize) -> Vec<u32> {
    let mut mask = vec![u32::MAX; trie.mask_len()];
    while !matcher.mask(trie, units, &mut mask).unwrap() {}
    mask
}

/// Returns the state as a mask file has it: whether the text may end, the number of tokens, and a hash.
fn state_of(matcher: &Matcher<'_, '_>, mask: &[u32], tokens: u32) -> String {
    let finalized = |id: u32| {
        let mut z = (u64::from(id) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    };
    let allowed = || (0..tokens).filter(|&id| allows(mask, id));
    let hash = allowed().map(finalized).fold(0_u64, u64::wrapping_add);
    format!("{} {} {hash:016x}", u8::from(matcher.may_end()), allowed().count())
}

/// A walk: a grammar, its settings, and its lines.
#[derive(Clone, Default)]
struct Walk {
    case: String,
    kind: String,
    whitespace: String,
    escapes: String,
    grammar: String,
    steps: Vec<String>,
}

fn walks(text: &str) -> Vec<Walk> {
    let (mut walks, mut next) = (Vec::new(), Walk::default());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "case" => next = Walk { case: value.into(), ..Walk::default() },
            "kind" => next.kind = value.into(),
            "ws" => next.whitespace = value.into(),
            "escapes" => next.escapes = value.into(),
            "text" if next.kind == "gbnf" => next.grammar = serde_json::from_str(value).unwrap(),
            "text" => next.grammar = value.into(),
            "walk" => walks.push(next.clone()),
            _ => walks.last_mut().expect("a walk comes first").steps.push(line.into()),
        }
    }
    walks
}

/// Compares the states of a walk, and returns their number. Masks are made in one call and in small steps, from copies,
/// after rewinds, and after restores.
fn compare(walk: &Walk, tokenizer: &Tokenizer<'_, '_>, trie: &TokenTrie<'_>) -> usize {
    let text = walk.grammar.as_bytes();
    let source = match walk.kind.as_str() {
        "schema" => Source::Schema(text),
        "gbnf" => Source::Gbnf(text),
        _ => Source::Regex(text),
    };
    let options =
        Options { whitespace: whitespace(&walk.whitespace), escapes: escapes(&walk.escapes), ..Options::default() };
    let mut compiled = Compiled::new(source, &options).unwrap_or_else(|error| panic!("{}: {error}", walk.case));
    compiled.with(source, &options, |grammar| {
        let bytes = Matcher::plan(Limits::default()).unwrap();
        let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
        let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
        let mut random = Rng::new(walk.steps.len() as u64);
        let mut taken: Vec<u32> = Vec::new();
        for (index, step) in walk.steps.iter().enumerate() {
            let mask = match random.below(4) {
                // The mask of a copy, or the mask after tokens were taken back and taken again.
                0 => mask_of(&mut matcher.fork(other.bytes()).unwrap(), trie, usize::MAX),
                1 => {
                    let back = random.below(matcher.rewindable() + 1);
                    matcher.rewind(back).unwrap();
                    for &id in &taken[taken.len() - back..] {
                        assert_eq!(matcher.accept(tokenizer, id), Ok(true), "{}, state {index}", walk.case);
                    }
                    mask_of(&mut matcher, trie, usize::MAX)
                }
                // The mask of another matcher, which knows only the snapshot.
                2 => {
                    let mut bytes = vec![0; matcher.snapshot_len()];
                    matcher.snapshot(&mut bytes).unwrap();
                    let mut restored = Matcher::new(grammar, Limits::default(), other.bytes()).unwrap();
                    restored.restore(&bytes).unwrap();
                    mask_of(&mut restored, trie, usize::MAX)
                }
                _ => mask_of(&mut matcher, trie, 1),
            };
            let fields: Vec<&str> = step.split(' ').collect();
            let state = state_of(&matcher, &mask, tokenizer.tokens());
            assert_eq!(state, fields[..3].join(" "), "{}, state {index}", walk.case);
            let Ok(id) = fields[fields.len() - 1].parse() else { continue };
            assert_eq!(matcher.accept(tokenizer, id), Ok(true), "{}, state {index}", walk.case);
            taken.push(id);
        }
    });
    walk.steps.len()
}

/// Compares a quarter of the walks, because all of them take half a minute. It leaves out the walks in which the
/// reference reads an escaped quote as a character of a class without quotes, or counts a name twice: see
/// `language.rs`.
#[test]
fn masks_equal_the_reference() {
    const EVERY: usize = 4;
    let files = ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"].map(|name| (name, format!("masks-{name}.txt")));
    let gbnf = ["gpt-2", "llama-bpe"].map(|name| (name, format!("masks-gbnf-{name}.txt")));
    for (name, file) in files.into_iter().chain(gbnf) {
        let Some(vocabulary) = shared_file(&format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf")) else {
            return;
        };
        let text = shared_file(&format!("fixtures/structured/masks/{file}")).expect("beside the others");
        let walks = walks(std::str::from_utf8(&text).unwrap());
        let states: usize = with_tokens(&vocabulary, |tokenizer, trie| {
            let is_exact = |walk: &&Walk| !walk.case.starts_with("pattern-escape") && !counts_names_twice(&walk.case);
            let exact = walks.iter().filter(is_exact);
            exact.skip(5).step_by(EVERY).map(|walk| compare(walk, tokenizer, trie)).sum()
        });
        println!("{file}: {states} states of {} walks equal", walks.len().div_ceil(EVERY));
        assert!(states > 0);
    }
}

/// Tries each token alone, in each state of some texts, with the vocabulary of the demo model.
#[test]
fn masks_equal_single_tokens() {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    let cases: [(Source<'_>, &str); 5] = [
        (Source::Schema(br#"{"properties":{"s":{"type":"string"},"n":{"type":"integer"}}}"#), r#"{"s":"a b","n":12}"#),
        (Source::Schema(br#"{"type":"string","maxLength":5}"#), r#""abc"#),
        (Source::Schema(br#"{"enum":["the dog","the cat","th"]}"#), r#""the ca"#),
        (Source::Regex(b"(Once|One) [a-z ]{3,9}(\\.|!)+"), "Once upon a."),
        (Source::Gbnf(b"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \" the\"+"), "aaa the theb"),
    ];
    with_tokens(&file, |tokenizer, trie| {
        for (source, text) in cases {
            let options = Options::default();
            Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
                let limits = Limits { items: 64, nodes: 64, depth: 16, past: 0 };
                let bytes = Matcher::plan(limits).unwrap();
                let mut memories = [Memory::new(bytes), Memory::new(bytes)];
                let [one, other] = &mut memories;
                let mut matcher = Matcher::new(grammar, limits, one.bytes()).unwrap();
                let mut alone = Matcher::new(grammar, limits, other.bytes()).unwrap();
                for at in 0..=text.len() {
                    let mask = mask_of(&mut matcher, trie, 1);
                    assert_eq!(mask, mask_of(&mut matcher, trie, usize::MAX), "made again");
                    for id in 0..tokenizer.tokens() {
                        let bytes = text_of(tokenizer, id);
                        alone.reset().unwrap();
                        assert_eq!(alone.take_all(&text.as_bytes()[..at]), Ok(at));
                        let allowed = !bytes.is_empty() && alone.take_all(&bytes) == Ok(bytes.len());
                        assert_eq!(allows(&mask, id), allowed, "{:?} after {:?}", bytes, &text[..at]);
                    }
                    if at < text.len() {
                        assert_eq!(matcher.take(text.as_bytes()[at]), Ok(true));
                    }
                }
            });
        }
    });
}

#[test]
fn tries_that_cannot_be_made() {
    struct Same(u32);
    impl Vocabulary for Same {
        fn tokens(&self) -> u32 {
            self.0
        }
        fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
            (0..id % 3).for_each(|_| f(b'a'));
        }
    }
    // Many tokens with few different texts.
    let vocabulary = Same(50_000);
    let mut scratch = vec![0; TokenTrie::scratch_len(&vocabulary)];
    let bytes = TokenTrie::plan(&vocabulary, &mut scratch).unwrap();
    assert!(bytes < 400_000, "{bytes}");
    let needed = scratch.len();
    let small = TokenTrie::plan(&vocabulary, &mut scratch[1..]);
    assert_eq!(small, Err(TrieError::ScratchTooSmall { needed, given: needed - 1 }));
    let mut memory = Memory::new(bytes);
    let short = TokenTrie::new(&vocabulary, &mut scratch, &mut memory.bytes()[64..]).map(drop);
    assert!(matches!(short, Err(TrieError::Memory(_))), "{short:?}");
    assert!(matches!(TokenTrie::plan(&Same(1 << 22), &mut []), Err(TrieError::TooLarge { .. })));
}
