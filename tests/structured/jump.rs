//! Forced tokens: the tokens that the tokenizer writes, whatever follows.

use gleed::grammar::{Grammar, Limits, MatchError, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};
use gleed::token::{EncodeOptions, Tokenizer};

use super::Compiled;
use super::masks::{allows, mask_of, text_of, with_tokens};
use common::random::Rng;
use common::{Memory, shared_file};

const SCHEMAS: [&str; 6] = [
    r#"{"type":"object","properties":{"emotion":{"enum":["calm","happy","happily","afraid"]},"line":{"type":"string","maxLength":12},
        "action":{"const":"wait for the dragon"}},"required":["emotion","line","action"],"additionalProperties":false}"#,
    r#"{"type":"object","properties":{"temperature_celsius":{"type":"integer","minimum":-9,"maximum":99},"is_it raining  now":{"type":"boolean"},
        "where":{"type":"object","properties":{"latitude":{"const":2024.5},"longitude":{"const":-20240}},"required":["latitude","longitude"],
        "additionalProperties":false}},"required":["temperature_celsius","is_it raining  now","where"],"additionalProperties":false}"#,
    r#"{"type":"array","items":{"enum":["a b","a  b","it's","1234567890"," ","\n\n","\u00e9t\u00e9","caf\u00e9","\ud83d\ude00"]},"minItems":2,"maxItems":4}"#,
    r#"{"type":"object","properties":{"x":{"const":{"deeply":{"nested":["value",null,true]}}}},"required":["x"],"additionalProperties":false}"#,
    r#"{"type":"string","pattern":"^(\\d{4}-12-31T|2024 years and  )(foo|football)[a-c]?$"}"#,
    r#"{"type":"object","properties":{"function":{"const":"get_current_weather"},"arguments":{"type":"object","properties":
        {"city":{"type":"string","maxLength":8}},"required":["city"],"additionalProperties":false}},"required":["function","arguments"],"additionalProperties":false}"#,
];

/// Returns a text of the grammar, made of random tokens.
fn random_text(
    grammar: &Grammar<'_>,
    tokenizer: &Tokenizer<'_, '_>,
    trie: &TokenTrie<'_>,
    random: &mut Rng,
) -> Vec<u8> {
    let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
    let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
    let mut text = Vec::new();
    while !(matcher.is_complete() || matcher.may_end() && random.below(4) == 0) {
        let mask = mask_of(&mut matcher, trie, usize::MAX);
        let allowed: Vec<u32> = (0..tokenizer.tokens()).filter(|&id| allows(&mask, id)).collect();
        let id = allowed[random.below(allowed.len())];
        assert_eq!(matcher.accept(tokenizer, id), Ok(true));
        text.extend(text_of(tokenizer, id));
    }
    text
}

/// Checks along the tokens of a text that the forced tokens are the next ones. Returns their number, and that of all
/// tokens.
fn forced(grammar: &Grammar<'_>, tokenizer: &Tokenizer<'_, '_>, trie: &TokenTrie<'_>, text: &str) -> (usize, usize) {
    let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
    let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
    let mut scratch = vec![0; Matcher::forced_scratch_len(tokenizer)];
    let (mut ids, mut out) = (vec![0; text.len()], [0; 64]);
    let options = EncodeOptions { continues: true, ..EncodeOptions::default() };
    let count = tokenizer.encode(text, options, &mut vec![0; tokenizer.scratch_len(text.len())], &mut ids).unwrap().ids;
    let (ids, mut at, mut all) = (&ids[..count], 0, 0);
    while at < ids.len() {
        let count = matcher.forced_tokens(tokenizer, trie, &mut scratch, &mut out).unwrap();
        let next: Vec<_> = ids[at..].iter().take(count).map(|&id| text_of(tokenizer, id)).collect();
        let found: Vec<_> = out[..count].iter().map(|&id| text_of(tokenizer, id)).collect();
        let show = |texts: &[Vec<u8>]| texts.iter().map(|text| text.escape_ascii().to_string()).collect::<Vec<_>>();
        assert_eq!(show(&found), show(&next), "{text} at token {at}");
        // With less room, only the first of them are returned.
        let mut few = [0; 2];
        assert_eq!(matcher.forced_tokens(tokenizer, trie, &mut scratch, &mut few), Ok(count.min(2)));
        assert_eq!(few[..count.min(2)], out[..count.min(2)]);
        for &id in &ids[at..at + count.max(1)] {
            assert_eq!(matcher.accept(tokenizer, id), Ok(true), "{text}");
        }
        all += count;
        at += count.max(1);
    }
    (all, ids.len())
}

fn with_grammar(schema: &str, whitespace: Whitespace, run: impl FnOnce(&Grammar<'_>)) {
    let (source, options) = (Source::Schema(schema.as_bytes()), Options { whitespace, ..Options::default() });
    Compiled::new(source, &options).unwrap().with(source, &options, run);
}

fn check(file: &[u8], name: &str) {
    let mut random = Rng::new(3);
    let (mut all, mut tokens) = (0, 0);
    with_tokens(file, |tokenizer, trie| {
        for schema in SCHEMAS {
            for whitespace in [Whitespace::Compact, Whitespace::Spaced] {
                with_grammar(schema, whitespace, |grammar| {
                    for _ in 0..6 {
                        let text = random_text(grammar, tokenizer, trie, &mut random);
                        let found = forced(grammar, tokenizer, trie, std::str::from_utf8(&text).unwrap());
                        (all, tokens) = (all + found.0, tokens + found.1);
                    }
                });
            }
        }
    });
    println!("{name}: {all} of {tokens} tokens are forced");
    assert!(4 * all > tokens, "{name}: {all} of {tokens}");
}

#[test]
fn forced_tokens_are_those_of_the_tokenizer() {
    check(&std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap(), "the demo model");
    for name in ["gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"] {
        let Some(file) = shared_file(&format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf")) else { return };
        check(&file, name);
    }
}

/// Forced tokens do not change the state. An unfinished mask begins again, and nothing is forced inside of a character.
#[test]
fn forced_tokens_change_nothing() {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    with_tokens(&file, |tokenizer, trie| {
        with_grammar(SCHEMAS[0], Whitespace::Compact, |grammar| {
            let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            let mut scratch = vec![0; Matcher::forced_scratch_len(tokenizer)];
            let (needed, mut out) = (scratch.len(), [0; 64]);
            let small = matcher.forced_tokens(tokenizer, trie, &mut scratch[1..], &mut out);
            assert_eq!(small, Err(MatchError::ScratchTooSmall { needed, given: needed - 1 }));
            for text in ["", "{\"emotion\":\"happ", "y\",\"line\":\"\u{e9}"] {
                assert_eq!(matcher.take_all(text.as_bytes()), Ok(text.len()));
                let whole = mask_of(&mut matcher, trie, usize::MAX);
                let mut mask = vec![0; trie.mask_len()];
                matcher.mask(trie, 1, &mut mask).unwrap();
                let mut state = vec![0; matcher.snapshot_len()];
                matcher.snapshot(&mut state).unwrap();
                matcher.forced_tokens(tokenizer, trie, &mut scratch, &mut out).unwrap();
                let refused =
                    (0..tokenizer.tokens()).find(|&id| !allows(&whole, id) && !text_of(tokenizer, id).is_empty());
                assert_eq!(matcher.accept(tokenizer, refused.unwrap()), Ok(false));
                let mut same = vec![0; matcher.snapshot_len()];
                matcher.snapshot(&mut same).unwrap();
                assert_eq!(same, state);
                assert_eq!(mask_of(&mut matcher, trie, 1), whole);
            }
        });
        let source = Source::Regex("\u{e9}\u{20ac}".as_bytes());
        Compiled::new(source, &Options::default()).unwrap().with(source, &Options::default(), |grammar| {
            let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            let (mut scratch, mut out) = (vec![0; Matcher::forced_scratch_len(tokenizer)], [0; 64]);
            let count = matcher.forced_tokens(tokenizer, trie, &mut scratch, &mut out).unwrap();
            let spelled: Vec<u8> = out[..count].iter().flat_map(|&id| text_of(tokenizer, id)).collect();
            assert_eq!(spelled, "\u{e9}\u{20ac}".as_bytes());
            assert_eq!(matcher.take(0xC3), Ok(true));
            assert_eq!(matcher.forced_tokens(tokenizer, trie, &mut scratch, &mut out), Ok(0));
        });
    });
}
