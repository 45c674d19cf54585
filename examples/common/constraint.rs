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

/// The kind of a grammar.
type Kind = for<'t> fn(&'t [u8]) -> Source<'t>;

impl ConstraintArgs {
    /// Whether the text has to follow something.
    pub fn is_some(&self) -> bool {
        self.json_schema.is_some() || self.grammar.is_some() || self.regex.is_some()
    }

    /// The file that is read.
    pub fn path(&self) -> Option<&Path> {
        self.json_schema.as_deref().or(self.grammar.as_deref())
    }

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

/// Which tokens may follow the text so far.
pub struct Constraint<'c> {
    matcher: Matcher<'c, 'c>,
    trie: &'c TokenTrie<'c>,
    tokenizer: &'c Tokenizer<'c, 'c>,
    /// The tokens that end a text.
    ends: Vec<u32>,
    mask: Vec<u32>,
    /// For forced tokens.
    scratch: Vec<u32>,
    /// Whether these are taken, and the model chooses the others only.
    jumps: bool,
    closes: bool,
}

impl<'c> Constraint<'c> {
    /// The tokens that have to follow, at most so many. They are taken.
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

    /// Guesses what has to follow, and then what another source guesses and may follow.
    pub fn guess<'s>(&'s mut self, others: &'s mut dyn Guess) -> Forced<'s, 'c, 'c> {
        let Self { matcher, tokenizer, trie, scratch, .. } = self;
        Forced { matcher, tokenizer, trie, scratch, others }
    }

    /// Whether the text is complete, and nothing may follow it.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_complete()
    }

    /// Whether the text may end.
    pub fn may_end(&self) -> bool {
        self.matcher.may_end()
    }

    /// Chooses among the tokens that may follow, and takes the choice. Something may follow. `left`: the most tokens to
    /// come.
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
pub fn parse_whitespace(name: &str) -> std::result::Result<Whitespace, String> {
    match name {
        "bounded" => Ok(Whitespace::Bounded),
        "compact" => Ok(Whitespace::Compact),
        "spaced" => Ok(Whitespace::Spaced),
        "any" => Ok(Whitespace::Any),
        _ => Err("bounded, compact, spaced or any".into()),
    }
}
