//! Measures Gleed.

use gleed::grammar::{
    Escapes, Grammar, GrammarError, Limits, Matcher, Options, Planned, Source, TokenTrie, Vocabulary, Whitespace,
};
use gleed::host::AlignedBytes;
use gleed::token::Tokenizer;

use super::clock::timed;
use super::set::Case;
use super::{Result, Times};

/// Makes the tables of a vocabulary. Returns them, their bytes and the time to make them.
pub(crate) fn trie<'m>(
    tokenizer: &Tokenizer<'_, '_>,
    memory: &'m mut AlignedBytes,
) -> Result<(TokenTrie<'m>, (usize, f64))> {
    let (mut us, mut bytes) = (0.0, 0);
    let trie = timed(&mut us, || -> Result<_> {
        let mut scratch = vec![0; TokenTrie::scratch_len(tokenizer)];
        bytes = TokenTrie::plan(tokenizer, &mut scratch)?;
        *memory = AlignedBytes::new(bytes);
        Ok(TokenTrie::new(tokenizer, &mut scratch, memory.bytes())?)
    })?;
    Ok((trie, (bytes, us)))
}

/// Compiles a schema and walks along the tokens of its instances.
pub(crate) fn run(
    tokenizer: &Tokenizer<'_, '_>,
    trie: &TokenTrie<'_>,
    case: &Case,
    walks: &[Vec<u32>],
    times: &mut Times,
) -> Result<()> {
    let text = case.schema.to_string();
    let options = Options { whitespace: Whitespace::Any, escapes: Escapes::All, ..Options::default() };
    let (mut us, mut compiled) = (0.0, AlignedBytes::new(0));
    let (grammar, bytes) = timed(&mut us, || compile(text.as_bytes(), &options, &mut compiled))?;
    times.compile.push(us);
    let state_bytes = Matcher::plan(Limits::default())?;
    times.bytes.push((bytes + state_bytes) as f64);
    let mut state = AlignedBytes::new(state_bytes);
    let mut matcher = Matcher::new(&grammar, Limits::default(), state.bytes())?;
    let (mut mask, mut bytes) = (vec![0; trie.mask_len()], Vec::new());
    for (walk, ids) in walks.iter().enumerate() {
        matcher.reset()?;
        for (step, &id) in ids.iter().enumerate() {
            let mut us = 0.0;
            while !timed(&mut us, || matcher.mask(trie, usize::MAX, &mut mask))? {}
            times.masks.push((
                us,
                format!("{} walk {walk} step {step} after {:?}", case.name, String::from_utf8_lossy(&bytes)),
            ));
            bytes.clear();
            tokenizer.each_byte(id, &mut |byte| bytes.push(byte));
            let mut us = 0.0;
            let taken = timed(&mut us, || matcher.take_all(&bytes))?;
            times.tokens.push(us);
            if taken < bytes.len() || mask[id as usize / 32] >> (id % 32) & 1 == 0 {
                return Err(format!("Gleed refuses token {step} of instance {walk}").into());
            }
        }
    }
    Ok(())
}

fn compile<'m>(
    text: &[u8],
    options: &Options<'_>,
    memory: &'m mut AlignedBytes,
) -> std::result::Result<(Grammar<'m>, usize), GrammarError> {
    let mut scratch = Vec::new();
    let bytes = loop {
        match Grammar::plan(Source::Schema(text), options, &mut scratch)? {
            Planned::Scratch(words) => scratch = vec![0; words],
            Planned::Memory(bytes) => break bytes,
        }
    };
    *memory = AlignedBytes::new(bytes);
    Ok((Grammar::new(Source::Schema(text), options, &mut scratch, memory.bytes())?, bytes))
}
