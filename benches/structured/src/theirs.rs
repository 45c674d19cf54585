//! Measures llguidance, with white space of any kind, its slices for JSON, and its canonical forcing.

use std::sync::Arc;

use gleed::grammar::Vocabulary;
use gleed::token::{TokenKind, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use super::clock::timed;
use super::set::Case;
use super::{Result, Times, heap};

pub(crate) struct Engine {
    factory: ParserFactory,
    /// Number of bytes of the vocabulary's tables, and the time to make them.
    pub(crate) once: (usize, f64),
}

impl Engine {
    pub(crate) fn new(tokenizer: &Tokenizer<'_, '_>) -> Result<Self> {
        let words: Vec<Vec<u8>> = (0..tokenizer.tokens()).map(|id| word(tokenizer, id)).collect();
        let end = (0..tokenizer.tokens()).find(|&id| tokenizer.is_end(id)).ok_or("a vocabulary without an end")?;
        let (mut us, before) = (0.0, heap::live());
        let factory = timed(&mut us, || -> Result<_> {
            let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words);
            let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
            let slices = SlicedBiasComputer::json_slices();
            let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)?;
            factory.quiet();
            Ok(factory)
        })?;
        Ok(Self { factory, once: (heap::live() - before, us) })
    }

    /// Compiles a schema and walks along the tokens of its instances.
    pub(crate) fn run(&mut self, case: &Case, walks: &[Vec<u32>], times: &mut Times) -> Result<()> {
        let (mut us, schema, before) = (0.0, case.schema.clone(), heap::live());
        let parser = timed(&mut us, || self.factory.create_parser(TopLevelGrammar::from_json_schema(schema)))?;
        times.compile.push(us);
        let matcher = Matcher::new(Ok(parser));
        for (walk, ids) in walks.iter().enumerate() {
            let mut matcher = matcher.deep_clone();
            for (step, &id) in ids.iter().enumerate() {
                let mut us = 0.0;
                let mask = timed(&mut us, || matcher.compute_mask())?;
                times.masks.push((us, format!("{} walk {walk} step {step}", case.name)));
                let mut us = 0.0;
                let taken = timed(&mut us, || matcher.consume_token(id));
                times.tokens.push(us);
                // Where llguidance forces text, the mask has only one tokenization of the text, but llguidance accepts
                // the others, too.
                if taken.is_err() {
                    return Err(format!("llguidance refuses token {step} of instance {walk}").into());
                }
                drop(mask);
            }
            if walk == 0 {
                times.bytes.push(heap::live().saturating_sub(before) as f64);
            }
        }
        Ok(())
    }
}

/// Returns the bytes of a token as llguidance wants them: control tokens have a mark in front.
fn word(tokenizer: &Tokenizer<'_, '_>, id: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokenizer.each_byte(id, &mut |byte| bytes.push(byte));
    if bytes.is_empty() && tokenizer.kind(id) != TokenKind::Normal {
        bytes.push(TokTrie::SPECIAL_TOKEN_MARKER);
        bytes.extend(tokenizer.text(id).unwrap_or_default());
    }
    bytes
}
