//! Restricts the calls of tools in a reply to the list of tools.

use gleed::grammar::{
    Calls, Grammar, Limits, Marks, Matcher, Options, Source, TokenTrie, ToolChoice, Vocabulary, Whitespace,
};
use gleed::host::AlignedBytes;
use gleed::sample::{Choice, Sampler};
use gleed::token::Tokenizer;

use super::Result;
use super::compile::compile;
use super::turns::Style;

/// The grammars that replies with calls follow, and the tables to apply them.
pub struct CallRules<'t> {
    tokenizer: &'t Tokenizer<'t, 't>,
    trie: TokenTrie<'static>,
    /// Grammar of the first reply to a message, and grammar of the replies after results of calls.
    grammars: [Grammar<'static>; 2],
    /// Ids of tokens that end a reply.
    ends: Vec<u32>,
}

impl<'t> CallRules<'t> {
    /// Returns the rules for the tools that a style offers, or `None` if it offers none. `choice` is `auto`,
    /// `required`, or the name of a tool.
    pub fn new(tokenizer: &'t Tokenizer<'t, 't>, style: &Style<'_>, choice: &str) -> Result<Option<Self>> {
        let Some((format, tools)) = style.script.tools else { return Ok(None) };
        let thoughts = style.thoughts();
        let marks = Marks::of(format.calls(), thoughts.map(|(marks, _)| marks), tokenizer);
        let auto = Calls {
            thoughts: thoughts.map(|(marks, _)| marks),
            is_thinking: thoughts.is_some_and(|(_, is_open)| is_open),
            marks: marks.as_slice(),
            ..Calls::new(tools.json().as_bytes(), format.calls())
        };
        let choice = match choice {
            "auto" => ToolChoice::Auto,
            "required" => ToolChoice::Required,
            name => ToolChoice::Named(name),
        };
        let grammars = [grammar(&Calls { choice, ..auto })?, grammar(&auto)?];
        let mut scratch = vec![0; TokenTrie::scratch_len(tokenizer)];
        let nodes = lasting(TokenTrie::plan(tokenizer, &mut scratch)?);
        let trie = TokenTrie::new(tokenizer, &mut scratch, nodes)?;
        let is_end = |id: &u32| tokenizer.is_end(*id);
        let ends = (0..tokenizer.tokens()).filter(is_end).chain(style.stops()).collect();
        Ok(Some(Self { tokenizer, trie, grammars, ends }))
    }

    /// Returns the rules for a reply. `round` is the number of replies with calls since the user's message.
    pub fn reply(&self, round: usize) -> Result<Ruled<'_>> {
        let memory = Box::new(AlignedBytes::new(Matcher::plan(Limits::default())?));
        let mask = vec![0; self.trie.mask_len()];
        Ok(Ruled { rules: self, grammar: &self.grammars[round.min(1)], memory, mask })
    }
}

/// Compiles a grammar into memory that is never freed.
fn grammar(calls: &Calls<'_>) -> Result<Grammar<'static>> {
    let options = Options { whitespace: Whitespace::Spaced, ..Options::default() };
    let memory = Box::leak(Box::new(AlignedBytes::new(0)));
    Ok(compile(Source::Tools(*calls), &options, memory).map_err(|error| match calls.tool_at(error.at) {
        Some(tool) => format!("--tools: the tool {tool}: {error}"),
        None => format!("--tools: {error}"),
    })?)
}

fn lasting(bytes: usize) -> &'static mut [u8] {
    Box::leak(Box::new(AlignedBytes::new(bytes))).bytes()
}

/// The rules for one reply, with the memory of its matcher.
pub struct Ruled<'r> {
    rules: &'r CallRules<'r>,
    grammar: &'r Grammar<'static>,
    memory: Box<AlignedBytes>,
    mask: Vec<u32>,
}

impl Ruled<'_> {
    /// Begins the reply.
    pub fn begin(&mut self) -> Result<Calling<'_>> {
        let matcher = Matcher::new(self.grammar, Limits::default(), self.memory.bytes())?;
        Ok(Calling { rules: self.rules, matcher, mask: &mut self.mask })
    }
}

/// The matcher of a reply in progress.
pub struct Calling<'r> {
    rules: &'r CallRules<'r>,
    matcher: Matcher<'r, 'r>,
    mask: &'r mut [u32],
}

impl Calling<'_> {
    /// Chooses the next token among the allowed ones, and accepts it.
    pub fn choose(&mut self, sampler: &mut Sampler, logits: &[f32], scratch: &mut [u64]) -> Result<Choice> {
        let CallRules { tokenizer, trie, ends, .. } = self.rules;
        if self.matcher.is_free() {
            let choice = sampler.sample(logits, scratch)?;
            let is_end = ends.contains(&choice.token);
            if if is_end { self.matcher.may_end() } else { self.matcher.accept(*tokenizer, choice.token)? } {
                return Ok(choice);
            }
        }
        self.matcher.mask(trie, usize::MAX, self.mask)?;
        for &id in ends {
            let bit = 1 << (id % 32);
            let word = &mut self.mask[id as usize / 32];
            *word = if self.matcher.may_end() { *word | bit } else { *word & !bit };
        }
        let choice = sampler.sample_masked(logits, self.mask, scratch)?;
        if !ends.contains(&choice.token) {
            self.matcher.accept(*tokenizer, choice.token)?;
        }
        Ok(choice)
    }

    /// Returns whether the reply may end.
    pub fn may_end(&self) -> bool {
        self.matcher.may_end()
    }
}
