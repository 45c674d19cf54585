//! Texts that the demo model writes under many schemas, checked by a validator of JSON Schema that knows nothing of Gleed.

use gleed::grammar::{Grammar, Limits as MatcherLimits, Matcher, Options, Source, TokenTrie, Whitespace};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Model, Plan};

use super::Compiled;
use super::common::{Memory, shared_file};

/// "Once upon a time".
const PROMPT: [u32; 5] = [1, 414, 435, 261, 385];
/// The most tokens of a text.
const TOKENS: usize = 400;

/// The demo model, with what a text takes.
struct Writer<'w> {
    engine: Engine<'w, 'w>,
    tokenizer: &'w Tokenizer<'w, 'w>,
    trie: &'w TokenTrie<'w>,
}

fn with_writer(run: impl FnOnce(&mut Writer<'_>)) {
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

impl Writer<'_> {
    /// A text under a grammar; `None` if it is not finished after so many tokens.
    fn write(&mut self, grammar: &Grammar<'_>, seed: u64) -> Option<String> {
        let mut memory = Memory::new(Matcher::plan(MatcherLimits::default()).unwrap());
        let mut matcher = Matcher::new(grammar, MatcherLimits::default(), memory.bytes()).unwrap();
        let mut sampler = Sampler::new(SamplerParams { temperature: 0.9, seed, ..SamplerParams::default() }).unwrap();
        let mut scratch = vec![0; scratch_len(self.engine.model().config().vocab)];
        let mut mask = vec![0; self.trie.mask_len()];
        let mut text = Vec::new();
        let seq = self.engine.open().unwrap();
        let mut logits = self.engine.prefill(seq, &PROMPT).unwrap().to_vec();
        for _ in 0..TOKENS {
            assert!(matcher.mask(self.trie, usize::MAX, &mut mask).unwrap());
            let eos = self.tokenizer.vocab().eos().unwrap();
            if matcher.may_end() {
                mask[eos as usize / 32] |= 1 << (eos % 32);
            }
            let token = sampler.sample_masked(&logits, &mask, &mut scratch).unwrap().token;
            if token == eos {
                break;
            }
            assert!(matcher.accept(self.tokenizer, token).unwrap());
            gleed::grammar::Vocabulary::each_byte(self.tokenizer, token, &mut |byte| text.push(byte));
            logits = self.engine.decode_step(seq, token).unwrap().to_vec();
        }
        self.engine.close(seq).unwrap();
        matcher.may_end().then(|| String::from_utf8(text).expect("UTF-8"))
    }

    /// A text of a schema, which is valid: how many bytes it has.
    fn check(&mut self, schema: &str, whitespace: Whitespace, seed: u64) -> usize {
        let value: serde_json::Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&value).unwrap();
        let (source, options) = (Source::Schema(schema.as_bytes()), Options { whitespace, ..Options::default() });
        let mut compiled = Compiled::new(source, &options).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let text = compiled.with(source, &options, |grammar| self.write(grammar, seed));
        let text = text.unwrap_or_else(|| panic!("{schema}: no end"));
        let instance = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{schema}: {text}: {error}"));
        if let Err(error) = validator.validate(&instance) {
            panic!("{schema}: {text}: {error}");
        }
        text.len()
    }
}

#[test]
fn texts_of_a_hundred_schemas_are_valid() {
    let schemas = std::fs::read_to_string("tests/data/structured/schemas.jsonl").unwrap();
    assert_eq!(schemas.lines().count(), 100);
    with_writer(|writer| {
        let modes = [Whitespace::Compact, Whitespace::Spaced, Whitespace::Bounded].into_iter().cycle();
        let schemas = schemas.lines().zip(modes).zip(1..);
        let bytes: usize = schemas.map(|((schema, mode), seed)| writer.check(schema, mode, seed)).sum();
        println!("100 texts, {bytes} bytes");
    });
}

/// Schemas of real programs. Few of them bound the length of texts, so not each text ends.
#[test]
fn texts_of_real_schemas_are_valid() {
    let Some(bytes) = shared_file("fixtures/structured/maskbench.jsonl") else { return };
    let (mut valid, mut open, mut refused) = (0, 0, 0);
    with_writer(|writer| {
        for (seed, line) in String::from_utf8(bytes).unwrap().lines().enumerate().step_by(23) {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(schema) = super::raw_member::member(line, "schema") else { panic!("no schema in {row}") };
            let (source, options) =
                (Source::Schema(schema.as_bytes()), Options { whitespace: Whitespace::Compact, ..Options::default() });
            let Ok(mut compiled) = Compiled::new(source, &options) else {
                refused += 1;
                continue;
            };
            let Ok(validator) = jsonschema::validator_for(&row["schema"]) else { continue };
            let Some(text) = compiled.with(source, &options, |grammar| writer.write(grammar, seed as u64)) else {
                open += 1;
                continue;
            };
            let instance = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{seed}: {text}: {error}"));
            assert!(validator.is_valid(&instance), "{seed}: {text}");
            valid += 1;
        }
    });
    println!("{valid} texts are valid, {open} have no end, {refused} schemas are refused");
    assert!(valid > 10);
}
