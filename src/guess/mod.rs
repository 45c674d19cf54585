//! Guesses tokens and checks them together, so that one batch gives several tokens: speculative decoding that changes
//! no bit of the text.
//!
//! A row's logits do not depend on its batch. So the tokens that follow can be guessed ([`Guess`]) and computed
//! together, each with its logits. The host chooses from these as always: with its sampler, its masks, its generator.
//! As long as the chosen token is the guessed one, the next row is right, too. The first other token ends the use of
//! the batch, and [`Guessing`] takes back the guesses from there on. The text, the logits and the state of the sampler
//! are those of decoding token by token, greedy or drawn.
//!
//! The gain depends on how many guesses are right and on what rows of a batch cost (`docs/performance.md`). Guesses
//! that do not pay stop by themselves and are tried again from time to time.
//!
//! # Recurrent layers
//!
//! The state of a recurrent layer cannot go back by a few tokens. After a wrong guess it goes back to where the batch
//! began. Then the tokens that were right are computed again, together with the next token, in a batch without guesses.
//! So `g` guesses that are all right cost `1 + g` rows and give `g + 1` tokens. If only `a` of them are right, they
//! cost `a + 2` rows more and give `a + 2` tokens. For this reason fewer tokens are guessed, or none.
//!
//! # Example
//!
//! ```
//! use gleed::guess::{Guessing, NGrams};
//! use gleed::sample::argmax;
//! use gleed::{Engine, Limits, Model, Plan, Step, mem::ALIGN};
//!
//! # fn aligned(memory: &mut [u8]) -> &mut [u8] {
//! #     let start = memory.as_ptr().align_offset(ALIGN);
//! #     &mut memory[start..]
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! // A batch has as many rows with logits as there are guesses, and one more.
//! let plan = Plan::new(&model, &Limits { sequences: 2, context: 128, logit_rows: 8, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let mut engine = Engine::new(&model, &plan, aligned(&mut memory))?;
//! let mut memory = vec![0; NGrams::plan(128)? + ALIGN];
//! let mut ngrams = NGrams::new(128, aligned(&mut memory))?;
//! let seq = engine.open()?;
//! let mut memory = vec![0; Guessing::plan(7)? + ALIGN];
//! let mut guessing = Guessing::new(seq, 7, aligned(&mut memory))?;
//!
//! let prompt = [1, 414, 435, 261, 385, 414, 435, 261];
//! let mut text = vec![argmax(engine.prefill(seq, &prompt)?)?];
//! while text.len() < 40 {
//!     // A host with a frame to draw gives a budget here and in each step.
//!     guessing.queue(&mut engine, &mut ngrams, *text.last().unwrap(), usize::MAX)?;
//!     while engine.step(usize::MAX)? != Step::Idle {
//!         while let Some(logits) = guessing.logits(&engine) {
//!             let token = argmax(logits)?;
//!             text.push(token);
//!             guessing.take(token);
//!         }
//!     }
//!     guessing.end(&mut engine)?;
//! }
//! let counts = guessing.counts();
//! assert!(counts.accepted <= counts.proposed);
//!
//! // The same, token by token.
//! let plain = engine.open()?;
//! let mut next = argmax(engine.prefill(plain, &prompt)?)?;
//! for token in text {
//!     assert_eq!(token, next);
//!     next = argmax(engine.decode_step(plain, token)?)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A second model
//!
//! ```
//! use gleed::guess::{Draft, Guess, Text};
//! use gleed::{Engine, Limits, Model, Plan, mem::ALIGN};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { context: 64, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//! // `engine` is that of the small model. Guessing::queue calls this with the text of the large one.
//! let mut draft = Draft::new(&mut engine)?;
//! let (tokens, mut guesses) = ([1, 414, 435, 261, 385], [0; 4]);
//! let token = |position: usize| tokens.get(position).copied();
//! assert_eq!(draft.guess(&Text::new(5, &token), &mut usize::MAX.into(), &mut guesses)?, Some(4));
//! draft.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # A layer that predicts further ahead
//!
//! Some files have such a layer (`nextn`). [`Model::predictor`](crate::Model::predictor) gives it, as a model with an
//! engine, and so keys and values, of its own.
//!
//! ```
//! use gleed::guess::{Guess, Guessing, NextN};
//! use gleed::{Engine, Limits, Model, Plan, Step, mem::ALIGN};
//!
//! # fn aligned(memory: &mut [u8]) -> &mut [u8] {
//! #     let start = memory.as_ptr().align_offset(ALIGN);
//! #     &mut memory[start..]
//! # }
//! /// Appends a token that was chosen and what the layer guesses, and computes them. Returns how many were guessed.
//! fn go_on(engine: &mut Engine, guessing: &mut Guessing, layer: &mut NextN, token: u32) -> Option<usize> {
//!     let guessed = guessing.queue(engine, layer, token, usize::MAX).ok()?;
//!     while engine.step(usize::MAX).ok()? != Step::Idle {}
//!     guessed
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! match model.predictor() {
//!     Ok(predictor) => {
//!         let plan = Plan::new(&predictor, &Limits { context: 128, ..Limits::default() })?;
//!         let mut memory = vec![0; plan.bytes() + ALIGN];
//!         let mut engine = Engine::new(&predictor, &plan, aligned(&mut memory))?;
//!         let mut layer = NextN::new(&mut engine)?;
//!         // Then NextN::prefill for the prompt, and `go_on` for what follows.
//!         layer.close()?;
//!     }
//!     // The demo model has none.
//!     Err(none) => assert_eq!(none.to_string(), "metadata key \"llama.nextn_predict_layers\" is missing"),
//! }
//! # Ok(())
//! # }
//! ```

mod draft;
mod error;
#[cfg(feature = "grammar")]
mod forced;
mod guessing;
mod nextn;
mod ngrams;
mod pace;
mod second;
#[cfg(test)]
mod simulation;

pub use draft::Draft;
pub use error::GuessError;
#[cfg(feature = "grammar")]
pub use forced::Forced;
pub use guessing::{Counts, Guessing, Off};
pub use nextn::{NextN, NextNState};
pub use ngrams::NGrams;
pub use pace::MAX_GUESSES;

use crate::cache::SeqId;
use crate::engine::Engine;
use crate::par::Budget;

/// A source of guesses.
///
/// A source may return any tokens: guesses decide about time only, never about the text. The source sees in the next
/// text what came of them.
///
/// [Example](crate::guess#example).
pub trait Guess {
    /// Writes the tokens that may follow `text` into `out`, as many as fit or fewer, one after the other. Returns the
    /// number of tokens, or `None` if the budget is used up. Then the next call, with the same text, goes on. A source
    /// that computes in units takes them off the budget.
    ///
    /// # Errors
    /// The source is used wrongly.
    fn guess(&mut self, text: &Text<'_>, budget: &mut Budget<'_>, out: &mut [u32])
    -> Result<Option<usize>, GuessError>;

    /// Looks at the last batch of the engine that checks the guesses, in which `seq` is the sequence of the text.
    /// [`Guessing::queue`] calls this before [`Guess::guess`]. It computes nothing, and most sources need not do
    /// anything.
    ///
    /// # Errors
    /// The source is used wrongly.
    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        let _ = (engine, seq);
        Ok(())
    }
}

/// The tokens of a sequence, and the token that was chosen to follow them.
///
/// [Example](crate::guess#a-second-model).
#[derive(Clone, Copy)]
pub struct Text<'t> {
    len: usize,
    token: &'t dyn Fn(usize) -> Option<u32>,
}

impl<'t> Text<'t> {
    /// Returns a text of `len` tokens. `token` returns the token at a position, where it is known.
    pub fn new(len: usize, token: &'t dyn Fn(usize) -> Option<u32>) -> Self {
        Self { len, token }
    }

    /// Returns the number of tokens of the text.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the text has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the token at a position, or `None` behind the end of the text and where a window has passed the
    /// position.
    pub fn token(&self, position: usize) -> Option<u32> {
        if position < self.len { (self.token)(position) } else { None }
    }
}

impl core::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Text").field("len", &self.len).finish_non_exhaustive()
    }
}
