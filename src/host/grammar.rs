//! Values that own the memory of a grammar: of its words, of a text's state under it, and of a vocabulary's tokens.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::AlignedBytes;
use super::owned::{Pinned, aligned};
use crate::grammar::{
    Grammar, GrammarError, Limits, MatchError, Matcher, Options, Planned, Source, TokenTrie, TrieError,
};
use crate::token::Tokenizer;

/// A compiled grammar with its memory.
///
/// ```
/// use gleed::grammar::{Limits, Options, Source};
/// use gleed::host::OwnedGrammar;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grammar = OwnedGrammar::new(Source::Regex(b"yes|no"), &Options::default())?;
/// let mut text = grammar.matcher(Limits::default())?;
/// // The matcher keeps what it needs of the grammar.
/// drop(grammar);
/// text.with(|matcher| assert!(matcher.take_all(b"yes").is_ok_and(|taken| taken == 3) && matcher.is_complete()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedGrammar {
    // Fields are dropped in this order: the grammar before what it borrows.
    grammar: Grammar<'static>,
    words: Arc<Pinned<[u8]>>,
}

impl OwnedGrammar {
    /// Compiles a grammar.
    ///
    /// # Errors
    /// [`GrammarError`], with the position in the text.
    pub fn new(source: Source<'_>, options: &Options<'_>) -> Result<Self, GrammarError> {
        let mut scratch = Vec::new();
        let len = loop {
            match Grammar::plan(source, options, &mut scratch)? {
                Planned::Scratch(words) => scratch.resize(words, 0),
                Planned::Memory(len) => break len,
            }
        };
        let words = Pinned::new(AlignedBytes::new(len).bytes);
        // SAFETY: the words stay where they are until the last counted reference to them is dropped. This value and
        // each matcher have such a reference, and drop it after everything that borrows the words. The words are used
        // through this reference alone. The lifetime cannot leak: matchers are handed out for lifetimes that their
        // users cannot name.
        let bytes: &'static mut [u8] = unsafe { &mut *words.as_ptr() };
        let grammar = Grammar::new(source, options, &mut scratch, aligned(bytes, len))?;
        Ok(Self { grammar, words: Arc::new(words) })
    }

    /// Returns a matcher of an empty text.
    ///
    /// # Errors
    /// [`MatchError`], if the beginning of the grammar exceeds the limits.
    pub fn matcher(&self, limits: Limits) -> Result<OwnedMatcher, MatchError> {
        let len = Matcher::plan(limits)?;
        let state = Pinned::new(AlignedBytes::new(len).bytes);
        // SAFETY: the state stays where it is until `_state` is dropped, after the matcher that borrows it, and is used
        // through this reference alone. The lifetime cannot leak: `with` hands the matcher out for lifetimes that its
        // caller cannot name.
        let bytes: &'static mut [u8] = unsafe { &mut *state.as_ptr() };
        let matcher = Matcher::new(&self.grammar, limits, aligned(bytes, len))?;
        Ok(OwnedMatcher { matcher, _state: state, _words: Arc::clone(&self.words) })
    }
}

/// The state of a text under a grammar, with the memory of both.
///
/// ```
/// use gleed::grammar::{Limits, Options, Source};
/// use gleed::host::OwnedGrammar;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grammar = OwnedGrammar::new(Source::Regex(b"a+!"), &Options::default())?;
/// let [mut one, mut other] = [grammar.matcher(Limits::default())?, grammar.matcher(Limits::default())?];
/// assert!(one.with(|matcher| matcher.take(b'a'))? && !other.with(|matcher| matcher.take(b'!'))?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedMatcher {
    // Fields are dropped in this order: the matcher before what it borrows.
    matcher: Matcher<'static, 'static>,
    _state: Pinned<[u8]>,
    _words: Arc<Pinned<[u8]>>,
}

impl OwnedMatcher {
    /// Calls `f` with the matcher and returns its result. Nothing that `f` borrows from the matcher can be kept.
    pub fn with<R>(&mut self, f: impl for<'g, 'm> FnOnce(&mut Matcher<'g, 'm>) -> R) -> R {
        f(&mut self.matcher)
    }
}

/// The tokens of a vocabulary by their bytes, with their memory.
///
/// ```
/// use gleed::grammar::{Limits, Options, Source};
/// use gleed::host::{OwnedEngine, OwnedGrammar, OwnedTrie};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = OwnedEngine::open("examples/assets/gleed-tales-q8_0.gguf", &gleed::Limits::default())?;
/// let trie = OwnedTrie::new(engine.tokenizer()?.get())?;
/// let mut text = OwnedGrammar::new(Source::Regex(b"[0-9]+"), &Options::default())?.matcher(Limits::default())?;
/// let mut mask = vec![0; trie.get().mask_len()];
/// assert!(text.with(|matcher| matcher.mask(trie.get(), usize::MAX, &mut mask))?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedTrie {
    // Fields are dropped in this order: the trie before what it borrows.
    trie: TokenTrie<'static>,
    _nodes: Pinned<[u8]>,
}

impl OwnedTrie {
    /// Sorts the tokens of a vocabulary.
    ///
    /// # Errors
    /// [`TrieError`].
    pub fn new(tokenizer: &Tokenizer<'_, '_>) -> Result<Self, TrieError> {
        let mut scratch = vec![0; TokenTrie::scratch_len(tokenizer)];
        let len = TokenTrie::plan(tokenizer, &mut scratch)?;
        let nodes = Pinned::new(AlignedBytes::new(len).bytes);
        // SAFETY: the nodes stay where they are until `_nodes` is dropped, after the trie that borrows them, and are
        // used through this reference alone. The lifetime cannot leak: `get` hands out a shorter one.
        let bytes: &'static mut [u8] = unsafe { &mut *nodes.as_ptr() };
        let trie = TokenTrie::new(tokenizer, &mut scratch, aligned(bytes, len))?;
        Ok(Self { trie, _nodes: nodes })
    }

    /// Returns the trie.
    pub fn get(&self) -> &TokenTrie<'_> {
        &self.trie
    }
}
