//! The replies of the model, as they were sampled.

use bytemuck::{Pod, Zeroable};

use crate::cache::{KvCache, SeqId};
use crate::token::{DecodeOptions, Detokenizer, Tokenizer};

/// The tokens of a sequence, and those that it has forgotten.
#[derive(Clone, Copy)]
pub(super) struct Source<'c, 'a> {
    pub(super) cache: &'c KvCache<'a>,
    pub(super) seq: SeqId,
    pub(super) known: &'c [u32],
}

impl Source<'_, '_> {
    pub(super) fn token(&self, at: usize) -> Option<u32> {
        self.cache.token(self.seq, at).or_else(|| self.known.get(at).copied())
    }
}

/// A reply in a sequence: the tokens that the model wrote, which need not be those that its text is encoded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Reply {
    pub(super) start: u32,
    pub(super) end: u32,
    /// What the model was told of thinking: see [`Reply::told`].
    pub(super) think: u32,
}

impl Reply {
    pub(super) fn new(start: u32, end: u32, think: Option<bool>) -> Self {
        Self { start, end, think: think.map_or(0, |think| 1 + u32::from(think)) }
    }

    /// What the model was told of thinking.
    pub(super) fn told(&self) -> Option<bool> {
        self.think.checked_sub(1).map(|think| think > 0)
    }

    /// The tokens of the reply; fewer where nobody knows some.
    pub(super) fn tokens(&self, source: Source<'_, '_>) -> impl Iterator<Item = u32> {
        (self.start..self.end).map_while(move |at| source.token(at as usize))
    }

    /// Returns the reply if this is its text. Where the host has cut the text between two tokens, only those before;
    /// `None` for another text. White space at both ends does not count. `buffer` is for the text of a token.
    pub(super) fn with_text(
        &self,
        text: &str,
        source: Source<'_, '_>,
        tokenizer: &Tokenizer<'_, '_>,
        buffer: &mut [u8],
    ) -> Option<Self> {
        // The host may have shown the names of control tokens, or not.
        [false, true].into_iter().find_map(|render_special| {
            let mut state = Detokenizer::new(tokenizer, DecodeOptions { render_special, starts_text: false });
            let (mut rest, mut end, mut cut) = (text.trim_start(), self.start, None);
            let mut begins = true;
            for token in self.tokens(source) {
                // A model may have more ids than its vocabulary; those have no text.
                let piece = state.push(tokenizer, token, buffer).unwrap_or_default();
                let piece = if begins { piece.trim_start() } else { piece };
                begins &= piece.is_empty();
                if let Some(after) = rest.strip_prefix(piece) {
                    rest = after;
                } else if !rest.is_empty() && rest.trim_end() == piece.trim_end() {
                    rest = "";
                } else if !rest.trim_end().is_empty() {
                    return None;
                } else if !piece.trim_end().is_empty() {
                    let end = cut.unwrap_or(end);
                    return (end > self.start).then_some(Self { end, ..*self });
                } else {
                    // White space behind the text stays, if nothing else follows.
                    cut.get_or_insert(end);
                }
                end += 1;
            }
            let rest = rest.strip_prefix(state.finish()).unwrap_or(rest);
            (rest.trim_end().is_empty() && end > self.start).then_some(Self { end, ..*self })
        })
    }
}
