//! Text that follows a JSON Schema, a grammar or a regular expression.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use gleed::grammar::{GrammarError, Limits, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};
use gleed::host::AlignedBytes;
use gleed::sample::{Choice, Sampler};
use gleed::token::Tokenizer;

use super::Result;
use super::compile::compile;

/// What the text has to follow.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct ConstraintArgs {
    /// JSON Schema that the text has to satisfy
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,

    /// Grammar in GBNF that the text has to follow
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,

    /// Regular expression that the text has to match
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    regex: Option<String>,
}

/// White space in texts that follow a schema.
#[derive(Args)]
pub(crate) struct WhitespaceArgs {
    /// White space between the parts of JSON: bounded, compact, spaced or any
    #[arg(long, value_name = "MODE", default_value = "bounded", value_parser = parse_whitespace)]
    pub(crate) whitespace: Whitespace,
}

/// The kind of a grammar.
type Kind = for<'t> fn(&'t [u8]) -> Source<'t>;

impl ConstraintArgs {
    /// Reads what is asked for: its kind, its text, and what errors call it.
    fn read(&self) -> Result<Option<(Kind, Vec<u8>, String)>> {
        let read = |kind: Kind, path: &PathBuf| {
            let name = path.display().to_string();
            Ok(Some((kind, std::fs::read(path).map_err(|error| format!("{name}: {error}"))?, name)))
        };
        match self {
            Self { json_schema: Some(path), .. } => read(|text| Source::Schema(text), path),
            Self { grammar: Some(path), .. } => read(|text| Source::Gbnf(text), path),
            Self { regex: Some(text), .. } => {
                Ok(Some((|text| Source::Regex(text), text.clone().into_bytes(), "--regex".into())))
            }
            _ => Ok(None),
        }
    }

    /// Calls `run` with what the text has to follow. Without a vocabulary there is no text.
    pub(crate) fn with<T>(
        &self,
        whitespace: Whitespace,
        tokenizer: Option<&Tokenizer<'_, '_>>,
        run: impl FnOnce(Option<&mut Constraint<'_>>) -> Result<T>,
    ) -> Result<T> {
        let Some((kind, text, name)) = self.read()? else { return run(None) };
        let tokenizer = tokenizer.ok_or("a grammar needs text, and the vocabulary of this file cannot be used")?;
        let mut scratch = vec![0; TokenTrie::scratch_len(tokenizer)];
        let mut nodes = AlignedBytes::new(TokenTrie::plan(tokenizer, &mut scratch)?);
        let trie = TokenTrie::new(tokenizer, &mut scratch, nodes.bytes())?;
        let options = Options { whitespace, ..Options::default() };
        let wrong = |error: GrammarError| format!("{name}: {error}");
        let mut compiled = AlignedBytes::new(0);
        let grammar = compile(kind(&text), &options, &mut compiled).map_err(wrong)?;
        let mut state = AlignedBytes::new(Matcher::plan(Limits::default())?);
        let matcher = Matcher::new(&grammar, Limits::default(), state.bytes())?;
        let ends = (0..tokenizer.tokens()).filter(|&id| tokenizer.is_end(id)).collect();
        let mask = vec![0; trie.mask_len()];
        run(Some(&mut Constraint { matcher, trie: &trie, tokenizer, ends, mask }))
    }
}

/// Which tokens may follow the text so far.
pub(crate) struct Constraint<'c> {
    matcher: Matcher<'c, 'c>,
    trie: &'c TokenTrie<'c>,
    tokenizer: &'c Tokenizer<'c, 'c>,
    /// The tokens that end a text.
    ends: Vec<u32>,
    mask: Vec<u32>,
}

impl Constraint<'_> {
    /// Chooses among the tokens that may follow, and takes the choice. `None` where the text is complete and nothing may
    /// follow it.
    pub(crate) fn choose(
        &mut self,
        sampler: &mut Sampler,
        logits: &[f32],
        scratch: &mut [u64],
    ) -> Result<Option<Choice>> {
        while !self.matcher.mask(self.trie, usize::MAX, &mut self.mask)? {}
        if self.matcher.may_end() {
            for &id in &self.ends {
                self.mask[id as usize / 32] |= 1 << (id % 32);
            }
        }
        if self.mask.iter().all(|word| *word == 0) {
            return if self.matcher.may_end() { Ok(None) } else { Err(self.stuck()) };
        }
        let choice = sampler.sample_masked(logits, &self.mask, scratch)?;
        if self.ends.contains(&choice.token) && self.matcher.may_end() {
            return Ok(Some(choice));
        }
        self.matcher.accept(self.tokenizer, choice.token)?;
        Ok(Some(choice))
    }

    /// The vocabulary has no token for what has to follow.
    fn stuck(&self) -> Box<dyn Error> {
        let next = self.matcher.next_bytes();
        let wanted = (0..=255_u8).filter(|byte| next[usize::from(byte / 64)] >> (byte % 64) & 1 == 1);
        let wanted: Vec<u8> = wanted.collect();
        format!("no token of the vocabulary may follow; the next byte has to be one of \"{}\"", wanted.escape_ascii())
            .into()
    }
}

/// The name of a white space mode.
pub(crate) fn parse_whitespace(name: &str) -> std::result::Result<Whitespace, String> {
    match name {
        "bounded" => Ok(Whitespace::Bounded),
        "compact" => Ok(Whitespace::Compact),
        "spaced" => Ok(Whitespace::Spaced),
        "any" => Ok(Whitespace::Any),
        _ => Err("bounded, compact, spaced or any".into()),
    }
}
