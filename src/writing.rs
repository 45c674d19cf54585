//! A sequence that writes a text under a grammar: its handle and its matcher, which stay together.
//!
//! A [`Writing`] carries its matcher through everything that can happen to a sequence. The state of a matcher is a
//! function of the tokens of its text, and the engine's cache has these tokens. So after a fork, a rewind, a restore,
//! or a batch that was dropped, the matcher goes to the length of the sequence: by a state that it has kept, or by
//! taking the tokens again.
//!
//! # Example
//!
//! ```
//! use gleed::cache::SnapshotOptions;
//! use gleed::grammar::{Grammar, Limits as MatcherLimits, Matcher, Options, Planned, Source, TokenTrie};
//! use gleed::sample::{Sampler, SamplerParams, scratch_len};
//! use gleed::token::Tokenizer;
//! use gleed::writing::{Writing, WritingError};
//! use gleed::{Engine, Limits, Model, Plan, mem::ALIGN};
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(align(64))]
//! struct Aligned([u8; 1 << 20]);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { sequences: 3, context: 64, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//! # let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! # let start = tables.as_ptr().align_offset(ALIGN);
//! # let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..])?;
//! # let mut sorted = vec![0; TokenTrie::scratch_len(&tokenizer)];
//! # let mut nodes = Box::new(Aligned([0; 1 << 20]));
//! # let bytes = TokenTrie::plan(&tokenizer, &mut sorted)?;
//! # let trie = TokenTrie::new(&tokenizer, &mut sorted, &mut nodes.0[..bytes])?;
//! # let (source, options, mut scratch) = (Source::Regex(b" (the|a) [a-z]{2,6}!"), Options::default(), vec![0; 1 << 16]);
//! # let mut compiled = Box::new(Aligned([0; 1 << 20]));
//! # let Planned::Memory(bytes) = Grammar::plan(source, &options, &mut scratch)? else { return Err("scratch".into()) };
//! # let grammar = Grammar::new(source, &options, &mut scratch, &mut compiled.0[..bytes])?;
//! let limits = MatcherLimits { items: 16, nodes: 16, depth: 8, past: 256 };
//! let bytes = Matcher::plan(limits)?;
//! # let [mut one, mut two, mut three] = [(); 3].map(|()| Box::new(Aligned([0; 1 << 20])));
//! let matcher = Matcher::new(&grammar, limits, &mut one.0[..bytes])?;
//! let seq = engine.open()?;
//! let mut logits = engine.prefill(seq, &[1, 414, 435, 261, 385])?.to_vec();
//! let mut writing = Writing::new(&engine, seq, matcher)?;
//!
//! let mut sampler = Sampler::new(SamplerParams { temperature: 0.8, seed: 1, ..SamplerParams::default() })?;
//! let (mut mask, mut masses) = (vec![0; trie.mask_len()], vec![0; scratch_len(model.config().vocab)]);
//! for _ in 0..3 {
//!     assert!(writing.matcher().mask(&trie, usize::MAX, &mut mask)?);
//!     let token = sampler.sample_masked(&logits, &mask, &mut masses)?.token;
//!     assert!(writing.accept(&tokenizer, token)?);
//!     logits = engine.decode_step(seq, token)?.to_vec();
//! }
//!
//! // Another text that begins with two of the three tokens; and back to the first token.
//! let other = writing.fork(&mut engine, &tokenizer, 7, &mut two.0[..bytes])?;
//! assert_eq!((other.len(), engine.seq_len(other.seq())?), (7, 7));
//! writing.rewind(&mut engine, &tokenizer, 6)?;
//! assert_eq!(writing.rewind(&mut engine, &tokenizer, 4), Err(WritingError::Before { begin: 5, given: 4 }));
//!
//! // Saved with the sequence, and gone on with.
//! let state = other.state();
//! let mut saved = vec![0; engine.snapshot_len_with(other.seq(), &SnapshotOptions { state: &state, ..Default::default() })?];
//! engine.snapshot_with(other.seq(), &SnapshotOptions { state: &state, ..Default::default() }, &mut saved)?;
//! let (seq, header) = engine.restore_with(None, &saved)?;
//! let matcher = Matcher::new(&grammar, limits, &mut three.0[..bytes])?;
//! let restored = Writing::resume(&engine, &tokenizer, seq, matcher, header.state())?;
//! assert_eq!(restored.len(), 7);
//! # Ok(())
//! # }
//! ```

use core::fmt;

use crate::cache::{CacheError, SeqId};
use crate::engine::{Engine, EngineError};
use crate::grammar::{MatchError, Matcher, Vocabulary};

/// Number of bytes of [`Writing::state`].
pub const STATE_LEN: usize = 16;

/// A text that a sequence writes under a grammar.
///
/// [Example](crate::writing#example).
#[derive(Debug)]
pub struct Writing<'g, 'm> {
    seq: SeqId,
    matcher: Matcher<'g, 'm>,
    /// The position of the first token of the text.
    begin: usize,
    /// The position behind the last token that the matcher has taken.
    len: usize,
}

impl<'g, 'm> Writing<'g, 'm> {
    /// Returns a text that begins behind the present tokens of a sequence. The matcher must be one of an empty text.
    ///
    /// # Errors
    /// [`WritingError::Engine`] if the sequence is unknown.
    pub fn new(engine: &Engine<'_, '_>, seq: SeqId, matcher: Matcher<'g, 'm>) -> Result<Self, WritingError> {
        let begin = engine.seq_len(seq)?;
        Ok(Self { seq, matcher, begin, len: begin })
    }

    /// Returns the text of a sequence that was restored, from the [`Writing::state`] that was saved with it: the first
    /// [`STATE_LEN`] bytes of `state`. The matcher must be one of the same grammar, with any limits.
    ///
    /// # Errors
    /// [`WritingError::State`] if `state` is not a state, or is of another grammar; as [`Writing::follow`].
    pub fn resume(
        engine: &Engine<'_, '_>,
        vocabulary: &dyn Vocabulary,
        seq: SeqId,
        matcher: Matcher<'g, 'm>,
        state: &[u8],
    ) -> Result<Self, WritingError> {
        let given = state.len();
        let (begin, rest) = state.split_first_chunk::<8>().ok_or(WritingError::State { given })?;
        let identity = rest.first_chunk::<8>().ok_or(WritingError::State { given })?;
        if u64::from_le_bytes(*identity) != matcher.identity() {
            return Err(WritingError::State { given });
        }
        let begin = usize::try_from(u64::from_le_bytes(*begin)).map_err(|_| WritingError::State { given })?;
        let mut writing = Self { seq, matcher, begin, len: begin };
        writing.matcher.reset()?;
        writing.follow(engine, vocabulary)?;
        Ok(writing)
    }

    /// Returns the handle of the sequence.
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// Returns the position of the first token of the text.
    pub fn begin(&self) -> usize {
        self.begin
    }

    /// Returns the position behind the last token of the text: the length of the sequence, if this has all of the
    /// tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the text has no token.
    pub fn is_empty(&self) -> bool {
        self.len == self.begin
    }

    /// Returns the matcher, for masks and forced tokens. Tokens are taken by [`Writing::accept`] only.
    pub fn matcher(&mut self) -> &mut Matcher<'g, 'm> {
        &mut self.matcher
    }

    /// Takes a token that is appended to the sequence. Returns whether the grammar allows it; if not, nothing changes.
    ///
    /// # Errors
    /// [`WritingError::Match`] if a limit of the matcher is exceeded. Nothing has changed then.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, id: u32) -> Result<bool, WritingError> {
        let accepted = self.matcher.accept(vocabulary, id)?;
        self.len = self.len.saturating_add(accepted.into());
        Ok(accepted)
    }

    /// Brings the matcher to the length of the sequence. It takes back tokens that the sequence no longer has, because
    /// the sequence was rewound or a batch was dropped. It takes tokens of the sequence that it has not taken yet.
    ///
    /// It compares lengths, not tokens. So call it after [`Engine::rewind`] and before the sequence gets other tokens,
    /// or use [`Writing::rewind`].
    ///
    /// # Errors
    /// [`WritingError::Before`], [`WritingError::Gone`]: nothing has changed, but the text has no place in the sequence
    /// any more. Drop the text: otherwise it would go on behind its old tokens when the sequence has other ones.
    /// [`WritingError::Refused`]: the tokens before the refused one have been taken.
    pub fn follow(&mut self, engine: &Engine<'_, '_>, vocabulary: &dyn Vocabulary) -> Result<(), WritingError> {
        let len = engine.seq_len(self.seq)?;
        self.go_to(engine, vocabulary, len)
    }

    /// Keeps only the first `keep` tokens of the sequence, as [`Engine::rewind`] does. `keep` counts from the beginning
    /// of the sequence, not of the text.
    ///
    /// # Errors
    /// As [`Engine::rewind`]; [`WritingError::Before`], [`WritingError::Gone`]: nothing has changed.
    /// [`WritingError::Refused`], as in [`Writing::follow`]: the sequence is as it was.
    pub fn rewind(
        &mut self,
        engine: &mut Engine<'_, '_>,
        vocabulary: &dyn Vocabulary,
        keep: usize,
    ) -> Result<(), WritingError> {
        let len = self.len;
        self.go_to(engine, vocabulary, keep)?;
        match engine.rewind(self.seq, keep) {
            Ok(()) => Ok(()),
            Err(error) => {
                // The matcher goes back to where it was, as far as the sequence has the tokens.
                let _ = self.go_to(engine, vocabulary, len);
                Err(error.into())
            }
        }
    }

    /// Returns a text that continues the first `keep` tokens of this one's sequence in another sequence, as
    /// [`Engine::fork`] does. `memory` must be as large as [`Matcher::plan`] says for the same limits.
    ///
    /// # Errors
    /// As [`Engine::fork`] and [`Matcher::fork`]; [`WritingError::Before`], [`WritingError::Gone`],
    /// [`WritingError::Refused`]. Nothing has changed then.
    pub fn fork<'o>(
        &self,
        engine: &mut Engine<'_, '_>,
        vocabulary: &dyn Vocabulary,
        keep: usize,
        memory: &'o mut [u8],
    ) -> Result<Writing<'g, 'o>, WritingError> {
        self.check(engine, keep)?;
        let matcher = self.matcher.fork(memory)?;
        // The fork reads the tokens of this sequence first, and the new sequence is opened last, so no error leaves one
        // behind.
        let mut fork = Writing { seq: self.seq, matcher, begin: self.begin, len: self.len };
        fork.go_to(engine, vocabulary, keep)?;
        fork.seq = engine.fork(self.seq, keep)?;
        Ok(fork)
    }

    /// Returns the bytes to be saved with the sequence, as [`SnapshotOptions::state`](crate::cache::SnapshotOptions) or
    /// at its beginning: where the text begins, and of which grammar it is.
    pub fn state(&self) -> [u8; STATE_LEN] {
        let halves = [self.begin as u64, self.matcher.identity()].map(u64::to_le_bytes);
        let mut state = [0; STATE_LEN];
        state.iter_mut().zip(halves.as_flattened()).for_each(|(place, byte)| *place = *byte);
        state
    }

    /// Checks that the matcher can go to position `len`, which must not be behind the end of the sequence.
    fn check(&self, engine: &Engine<'_, '_>, len: usize) -> Result<(), WritingError> {
        let begin = self.begin;
        if len < begin {
            return Err(WritingError::Before { begin, given: len });
        }
        let length = engine.seq_len(self.seq)?;
        if len > length {
            return Err(EngineError::Cache(CacheError::TooShort { keep: len, length }).into());
        }
        let from = if self.is_kept(len) { self.len } else { begin };
        match (from..len).find(|&at| engine.cache().token(self.seq, at).is_none()) {
            Some(position) => Err(WritingError::Gone { position }),
            None => Ok(()),
        }
    }

    /// Returns whether the matcher has kept the state of position `len`, or can go on to it.
    fn is_kept(&self, len: usize) -> bool {
        self.len.saturating_sub(len) <= self.matcher.rewindable()
    }

    fn go_to(&mut self, engine: &Engine<'_, '_>, vocabulary: &dyn Vocabulary, len: usize) -> Result<(), WritingError> {
        self.check(engine, len)?;
        if self.is_kept(len) {
            self.matcher.rewind(self.len.saturating_sub(len))?;
            self.len = self.len.min(len);
        } else {
            self.matcher.reset()?;
            self.len = self.begin;
        }
        while self.len < len {
            let position = self.len;
            let token = engine.cache().token(self.seq, position).ok_or(WritingError::Gone { position })?;
            if !self.accept(vocabulary, token)? {
                return Err(WritingError::Refused { position, token });
            }
        }
        Ok(())
    }
}

/// Why a text and its sequence could not be kept together.
///
/// [Example](crate::writing#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WritingError {
    /// The engine refused.
    Engine(EngineError),
    /// The matcher refused.
    Match(MatchError),
    /// The position lies before the text.
    Before {
        /// Position where the text begins.
        begin: usize,
        /// Position that was given.
        given: usize,
    },
    /// The token at a position is not known any more, because a window has passed over it, and the matcher has kept no
    /// state there.
    Gone {
        /// Position of the token.
        position: usize,
    },
    /// The sequence has a token that the grammar does not allow.
    Refused {
        /// Position of the token.
        position: usize,
        /// Id of the token.
        token: u32,
    },
    /// The saved bytes are not a state, or are the state of another grammar.
    State {
        /// Number of bytes that were given.
        given: usize,
    },
}

impl From<EngineError> for WritingError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<MatchError> for WritingError {
    fn from(error: MatchError) -> Self {
        Self::Match(error)
    }
}

impl fmt::Display for WritingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Match(error) => error.fmt(f),
            Self::Before { begin, given } => write!(f, "position {given} is before the text, which begins at {begin}"),
            Self::Gone { position } => write!(f, "the token at position {position} is not known any more"),
            Self::Refused { position, token } => {
                write!(f, "the grammar does not allow token {token}, which the sequence has at position {position}")
            }
            Self::State { given } => write!(f, "these {given} bytes are not the state of a text of this grammar"),
        }
    }
}

impl core::error::Error for WritingError {}
