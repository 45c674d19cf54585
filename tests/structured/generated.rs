//! Texts that the demo model writes under many schemas. An independent validator of JSON Schema checks them.

use gleed::grammar::{Grammar, Limits as MatcherLimits, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Model, Plan};

use super::Compiled;
use common::{Memory, shared_file};

/// "Once upon a time".
const PROMPT: [u32; 5] = [1, 414, 435, 261, 385];
/// Most tokens of a text.
const TOKENS: usize = 200;

/// The demo model, with everything that writing a text needs.
pub(super) struct Writer<'w> {
    engine: Engine<'w, 'w>,
    tokenizer: &'w Tokenizer<'w, 'w>,
    trie: &'w TokenTrie<'w>,
}

pub(super) fn with_writer(run: impl FnOnce(&mut Writer<'_>)) {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    let model = Model::open(&file).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let mut scratch = vec![0; TokenTrie::scratch_len(&tokenizer)];
    let mut nodes = Memory::new(TokenTrie::plan(&tokenizer, &mut scratch).unwrap());
    let trie = TokenTrie::new(&tokenizer, &mut scratch, nodes.bytes()).unwrap();
    let plan = Plan::new(&model, &Limits { context: PROMPT.len() + TOKENS, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    run(&mut Writer { engine, tokenizer: &tokenizer, trie: &trie });
}

/// A text, written under a grammar that knows the distance to its ends.
pub(super) struct Text {
    pub(super) text: String,
    tokens: usize,
    forced: usize,
    pub(super) is_complete: bool,
}

impl Writer<'_> {
    /// Writes a text that must end within `most` tokens. Returns `None` if the shortest text has more bytes.
    pub(super) fn write(&mut self, grammar: &Grammar<'_>, seed: u64, most: usize) -> Option<Text> {
        let mut memory = Memory::new(Matcher::plan(MatcherLimits::default()).unwrap());
        let mut matcher = Matcher::new(grammar, MatcherLimits::default(), memory.bytes()).unwrap();
        let most = most.min(matcher.bytes_to_end().unwrap() + 24);
        if matcher.bytes_to_end().unwrap() > most {
            return None;
        }
        let mut sampler = Sampler::new(SamplerParams { temperature: 0.9, seed, ..SamplerParams::default() }).unwrap();
        let mut scratch = vec![0; scratch_len(self.engine.model().config().vocab)];
        let (mut mask, mut words) =
            (vec![0; self.trie.mask_len()], vec![0; Matcher::forced_scratch_len(self.tokenizer)]);
        let (mut text, mut tokens, mut forced) = (Vec::new(), 0, 0);
        let eos = self.tokenizer.vocab().eos().unwrap();
        let seq = self.engine.open().unwrap();
        let mut next = PROMPT.to_vec();
        while tokens < most && !matcher.is_complete() {
            let mut ids = [0; 64];
            let room = (most - tokens).min(ids.len());
            let count = matcher.forced_tokens(self.tokenizer, self.trie, &mut words, &mut ids[..room]).unwrap();
            next.extend(&ids[..count]);
            forced += count;
            for &id in &ids[..count] {
                assert_eq!(matcher.accept(self.tokenizer, id), Ok(true));
                Vocabulary::each_byte(self.tokenizer, id, &mut |byte| text.push(byte));
            }
            tokens += count;
            if tokens == most || matcher.is_complete() {
                break;
            }
            let logits = self.engine.prefill(seq, &next).unwrap();
            assert!(matcher.mask_within(self.trie, most - tokens, usize::MAX, &mut mask).unwrap());
            if matcher.may_end() {
                mask[eos as usize / 32] |= 1 << (eos % 32);
            }
            let token = sampler.sample_masked(logits, &mask, &mut scratch).unwrap().token;
            if token == eos {
                break;
            }
            assert_eq!(matcher.accept(self.tokenizer, token), Ok(true));
            Vocabulary::each_byte(self.tokenizer, token, &mut |byte| text.push(byte));
            tokens += 1;
            next = vec![token];
        }
        self.engine.close(seq).unwrap();
        let text = String::from_utf8(text).expect("UTF-8");
        Some(Text { text, tokens, forced, is_complete: matcher.may_end() })
    }

    /// Writes a text of a schema, and checks that it is valid. Returns `None` if the schema is refused or its texts are
    /// too long.
    fn check(&mut self, schema: &str, whitespace: Whitespace, seed: u64) -> Option<Text> {
        let value: serde_json::Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&value).ok()?;
        let source = Source::Schema(schema.as_bytes());
        let options = Options { whitespace, close: true, ..Options::default() };
        let mut compiled = Compiled::new(source, &options).ok()?;
        let written = compiled.with(source, &options, |grammar| self.write(grammar, seed, TOKENS))?;
        let text = &written.text;
        assert!(written.is_complete, "{schema}: {text}: no end after {} tokens", written.tokens);
        let mut instance = serde_json::from_str(text).unwrap_or_else(|error| panic!("{schema}: {text}: {error}"));
        as_validated(&mut instance);
        if let Err(error) = validator.validate(&instance) {
            panic!("{schema}: {text}: {error}");
        }
        Some(written)
    }
}

/// Adapts a value to the validator, which takes -0 for a number with a point, and 29 February for a day of some years
/// only.
pub(super) fn as_validated(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if number.as_f64() == Some(0.0) => *value = 0.into(),
        serde_json::Value::String(text) => *text = text.replace("-02-29", "-02-28"),
        serde_json::Value::Array(values) => values.iter_mut().for_each(as_validated),
        serde_json::Value::Object(members) => members.values_mut().for_each(as_validated),
        _ => {}
    }
}

fn report(texts: &[Text]) {
    let sum = |f: fn(&Text) -> usize| texts.iter().map(f).sum::<usize>();
    let (bytes, tokens, forced) = (sum(|text| text.text.len()), sum(|text| text.tokens), sum(|text| text.forced));
    println!("{} texts, {bytes} bytes, {tokens} tokens, {forced} of them forced", texts.len());
}

#[test]
fn texts_of_a_hundred_schemas_are_valid() {
    let schemas = std::fs::read_to_string("tests/data/structured/schemas.jsonl").unwrap();
    assert_eq!(schemas.lines().count(), 100);
    with_writer(|writer| {
        let modes = [Whitespace::Compact, Whitespace::Spaced, Whitespace::Bounded].into_iter().cycle();
        let schemas = schemas.lines().zip(modes).zip(1..);
        let texts = schemas.map(|((schema, mode), seed)| writer.check(schema, mode, seed).expect(schema));
        report(&texts.collect::<Vec<_>>());
    });
}

/// The same for schemas of real programs.
#[test]
fn texts_of_a_hundred_real_schemas_are_valid() {
    let Some(bytes) = shared_file("fixtures/structured/maskbench.jsonl") else { return };
    let lines = String::from_utf8(bytes).unwrap();
    with_writer(|writer| {
        let schemas = lines.lines().step_by(8).map(|line| super::raw_member::member(line, "schema").unwrap());
        let texts = schemas.zip(1..).filter_map(|(schema, seed)| writer.check(schema, Whitespace::Compact, seed));
        let texts: Vec<_> = texts.take(100).collect();
        report(&texts);
        assert_eq!(texts.len(), 100);
    });
}
