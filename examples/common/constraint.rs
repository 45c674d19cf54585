//! Text that follows a JSON Schema, a grammar or a regular expression.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;
use gleed::grammar::{GrammarError, Limits, MatchError, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};
use gleed::guess::{Forced, Guess};
use gleed::host::AlignedBytes;
use gleed::sample::{Choice, Sampler};
use gleed::token::Tokenizer;

use super::Result;
use super::compile::compile;

/// What the text has to follow.
#[derive(Args)]
pub struct ConstraintArgs {
    /// JSON Schema that the text has to satisfy
    #[arg(long, value_name = "FILE", group = "constraint")]
    json_schema: Option<PathBuf>,

    /// Grammar in GBNF that the text has to follow
    #[arg(long, value_name = "FILE", group = "constraint")]
    grammar: Option<PathBuf>,

    /// Regular expression that the text has to match
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, group = "constraint")]
    regex: Option<String>,

    /// Let the model choose each token, also those that have to follow
    #[arg(long)]
    no_jump: bool,

    /// Bring the text to its end within -n tokens, where it would be cut
    #[arg(long, requires = "constraint")]
    close: bool,
}

/// White space in texts that follow a schema.
#[derive(Args)]
pub struct WhitespaceArgs {
    /// White space between the parts of JSON: bounded, compact, spaced or any
    #[arg(long, value_name = "MODE", default_value = "bounded", value_parser = parse_whitespace)]
    pub whitespace: Whitespace,
}

/// A function that makes a source of one kind from a text.
type Kind = for<'t> fn(&'t [u8]) -> Source<'t>;

impl ConstraintArgs {
    /// Returns whether the text has to follow a schema, a grammar or a regular expression.
    pub fn is_some(&self) -> bool {
        self.json_schema.is_some() || self.grammar.is_some() || self.regex.is_some()
    }

    /// Returns the file of the schema or grammar, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.json_schema.as_deref().or(self.grammar.as_deref())
    }

    /// Reads the grammar that was asked for. Returns its kind, its text, and its name for errors.
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

    /// Calls `run` with the constraint, or with `None` if there is none. A constraint needs a vocabulary.
    pub fn with<T>(
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
        let options = Options { whitespace, close: self.close, ..Options::default() };
        let wrong = |error: GrammarError| format!("{name}: {error}");
        let mut compiled = AlignedBytes::new(0);
        let grammar = compile(kind(&text), &options, &mut compiled).map_err(wrong)?;
        let mut state = AlignedBytes::new(Matcher::plan(Limits::default())?);
        let matcher = Matcher::new(&grammar, Limits::default(), state.bytes())?;
        let ends = (0..tokenizer.tokens()).filter(|&id| tokenizer.is_end(id)).collect();
        let mask = vec![0; trie.mask_len()];
        let scratch = vec![0; Matcher::forced_scratch_len(tokenizer)];
        let (jumps, closes) = (!self.no_jump, self.close);
        run(Some(&mut Constraint { matcher, trie: &trie, tokenizer, ends, mask, scratch, jumps, closes }))
    }
}

/// The state of a text that follows a grammar: it knows which tokens may follow.
pub struct Constraint<'c> {
    matcher: Matcher<'c, 'c>,
    trie: &'c TokenTrie<'c>,
    tokenizer: &'c Tokenizer<'c, 'c>,
    /// Ids of tokens that end a text.
    ends: Vec<u32>,
    mask: Vec<u32>,
    /// Scratch for finding forced tokens.
    scratch: Vec<u32>,
    /// Whether forced tokens are taken at once, so that the model chooses only the other tokens.
    jumps: bool,
    closes: bool,
}

impl<'c> Constraint<'c> {
    /// Returns the tokens that have to follow, at most `most`, and accepts them. Returns none if the model chooses each
    /// token.
    pub fn forced(&mut self, most: usize) -> Result<Vec<u32>> {
        let mut forced = Vec::new();
        while self.jumps && forced.len() < most {
            let mut ids = [0; 64];
            let room = &mut ids[..(most - forced.len()).min(64)];
            let count = self.matcher.forced_tokens(self.tokenizer, self.trie, &mut self.scratch, room)?;
            if count == 0 {
                break;
            }
            for &id in &ids[..count] {
                self.matcher.accept(self.tokenizer, id)?;
            }
            forced.extend(&ids[..count]);
        }
        Ok(forced)
    }

    /// Returns a source that guesses the forced tokens first, then the guesses of `others` that the grammar allows.
    pub fn guess<'s>(&'s mut self, others: &'s mut dyn Guess) -> Forced<'s, 'c, 'c> {
        let Self { matcher, tokenizer, trie, scratch, .. } = self;
        Forced { matcher, tokenizer, trie, scratch, others }
    }

    /// Returns whether the text is complete and nothing may follow it.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_complete()
    }

    /// Returns whether the text may end.
    pub fn may_end(&self) -> bool {
        self.matcher.may_end()
    }

    /// Chooses among the tokens that may follow, and accepts the choice. The text must not be complete. `left` is the
    /// most tokens that can still come, this one included.
    pub fn choose(
        &mut self,
        sampler: &mut Sampler,
        left: usize,
        logits: &[f32],
        scratch: &mut [u64],
    ) -> Result<Choice> {
        let made = match self.closes {
            true => self.matcher.mask_within(self.trie, left, usize::MAX, &mut self.mask),
            false => self.matcher.mask(self.trie, usize::MAX, &mut self.mask),
        };
        match made {
            Err(MatchError::NoToken { .. }) => return Err(self.stuck()),
            made => made?,
        };
        if self.matcher.may_end() {
            for &id in &self.ends {
                self.mask[id as usize / 32] |= 1 << (id % 32);
            }
        }
        let choice = sampler.sample_masked(logits, &self.mask, scratch)?;
        if !(self.ends.contains(&choice.token) && self.matcher.may_end()) {
            self.matcher.accept(self.tokenizer, choice.token)?;
        }
        Ok(choice)
    }

    /// Returns the error for a vocabulary that has no token for the bytes that have to follow.
    fn stuck(&self) -> Box<dyn Error> {
        let next = self.matcher.next_bytes();
        let wanted = (0..=255_u8).filter(|byte| next[usize::from(byte / 64)] >> (byte % 64) & 1 == 1);
        let wanted: Vec<u8> = wanted.collect();
        format!("no token of the vocabulary may follow; the next byte has to be one of \"{}\"", wanted.escape_ascii())
            .into()
    }
}

/// Parses the name of a white space mode.
pub fn parse_whitespace(name: &str) -> std::result::Result<Whitespace, String> {
    match name {
        "bounded" => Ok(Whitespace::Bounded),
        "compact" => Ok(Whitespace::Compact),
        "spaced" => Ok(Whitespace::Spaced),
        "any" => Ok(Whitespace::Any),
        _ => Err("bounded, compact, spaced or any".into()),
    }
}
