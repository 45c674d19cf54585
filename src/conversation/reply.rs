//! The replies of the model, as they were sampled.

use bytemuck::{Pod, Zeroable};

use crate::cache::{KvCache, SeqId};
use crate::token::{DecodeOptions, Detokenizer, Tokenizer};

/// The tokens of a sequence, including those that its cache has forgotten.
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

/// A reply in a sequence: the tokens that the model wrote, which can differ from those that its text is encoded to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Reply {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Whether the model was told to think: 0 if it was not told, 1 for no, 2 for yes.
    pub(super) think: u32,
}

impl Reply {
    pub(super) fn new(start: u32, end: u32, think: Option<bool>) -> Self {
        Self { start, end, think: think.map_or(0, |think| 1 + u32::from(think)) }
    }

    /// Returns whether the model was told to think, or `None` if it was not told.
    pub(super) fn told(&self) -> Option<bool> {
        self.think.checked_sub(1).map(|think| think > 0)
    }

    /// Returns the tokens of the reply, up to the first one that is not known any more.
    pub(super) fn tokens(&self, source: Source<'_, '_>) -> impl Iterator<Item = u32> {
        (self.start..self.end).map_while(move |at| source.token(at as usize))
    }

    /// Returns the reply if `text` is its text, or `None` for another text. If the host has cut the text between two
    /// tokens, the reply is only the tokens before the cut. White space at both ends does not count. `buffer` is for
    /// the text of a token.
    pub(super) fn with_text(
        &self,
        text: &str,
        source: Source<'_, '_>,
        tokenizer: &Tokenizer<'_, '_>,
        buffer: &mut [u8],
    ) -> Option<Self> {
        // The host may have shown the names of control tokens or left them out.
        [false, true].into_iter().find_map(|render_special| {
            let mut state = Detokenizer::new(tokenizer, DecodeOptions { render_special, starts_text: false });
            let (mut rest, mut end, mut cut) = (text.trim_start(), self.start, None);
            let mut begins = true;
            for token in self.tokens(source) {
                // A model may have more ids than its vocabulary. These have no text.
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
                    // White space behind the text stays in the reply if nothing else follows.
                    cut.get_or_insert(end);
                }
                end += 1;
            }
            let rest = rest.strip_prefix(state.finish()).unwrap_or(rest);
            (rest.trim_end().is_empty() && end > self.start).then_some(Self { end, ..*self })
        })
    }
}
