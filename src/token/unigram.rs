//! SentencePiece's unigram model: of all ways to cut a word into tokens, it takes the one with the highest sum of
//! scores. (Kudo, "Subword Regularization", 2018.)
//!
//! Scores are f32 and their sums f64, which are exact for real scores. Of equal sums, the way whose last token begins
//! first is taken.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::Array;

use super::charsmap::{BLANK, Blanks, Rules, Spelling};
use super::kind::TokenKind;
use super::spell::Output;
use super::table::NONE;
use super::text::{Beginning, Piece, halves, text_len, whole};
use super::tokenizer::Tokenizer;

/// Amount by which the score of a character without a token is below the lowest score.
const PENALTY: f32 = 10.0;

/// A vocabulary of tokens with scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unigram<'m> {
    pub(super) scores: Array<'m>,
    pub(super) rules: Rules<'m>,
    /// Whether several blanks become one.
    pub(super) merges_blanks: bool,
}

impl Unigram<'_> {
    /// Returns the number of 32-bit words of scratch for a text of `text_bytes` bytes.
    pub(super) fn scratch_len(&self, text_bytes: usize) -> usize {
        scratch_len(self.rules.most(text_bytes))
    }

    /// Returns the score of a character without a token, for tokens of these kinds.
    pub(super) fn unknown_score(&self, kinds: impl Iterator<Item = TokenKind>) -> f32 {
        let scores = kinds.zip(self.scores).filter(|&(kind, _)| kind == TokenKind::Normal);
        let scores = scores.filter_map(|(_, score)| score.as_f32()).filter(|score| score.is_finite());
        scores.reduce(f32::min).unwrap_or(0.0) - PENALTY
    }
}

/// A position between two characters of a word.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Cell {
    /// Number of the text before the position: its lower half, then its upper half.
    before: [u32; 2],
    /// Bits of the best sum of the ways to the position, in the same form.
    sum: [u32; 2],
    /// Last token of the best way to the position, or [`NONE`] for a character without a token.
    id: u32,
    /// Start of that token. After [`Lattice::turn`], end of the next token of the best way.
    other: u32,
}

/// Returns the number of 32-bit words of scratch for a word of `bytes` bytes.
fn scratch_len(bytes: usize) -> usize {
    let cells = bytes.saturating_add(1).saturating_mul(size_of::<Cell>() / size_of::<u32>());
    cells.saturating_add(text_len(bytes))
}

impl Tokenizer<'_, '_> {
    /// Encodes text without special tokens. A run of characters without tokens becomes one unknown token or, where the
    /// vocabulary has tokens for their bytes, these tokens.
    pub(super) fn unigram_text(&self, text: &str, unigram: &Unigram<'_>, scratch: &mut [u32], output: &mut Output<'_>) {
        let blanks = Blanks { prefix: self.vocab.adds_space_prefix(), merge: unigram.merges_blanks };
        let mut rest = Spelling::new(&unigram.rules, text, blanks);
        let mut after_unknown = false;
        loop {
            let word = rest.clone();
            let bytes = if self.words_are_apart { rest.skip_word() } else { rest.by_ref().map(char::len_utf8).sum() };
            if bytes == 0 {
                return;
            }
            output.need_scratch(scratch_len(bytes), self.specials.search_len());
            if let Some(mut lattice) = Lattice::new(word.clone(), bytes, scratch) {
                self.find_way(&mut lattice, unigram);
                after_unknown = self.follow_way(&lattice, word, after_unknown, output);
            }
        }
    }

    /// Finds the best way to each position.
    fn find_way(&self, lattice: &mut Lattice<'_>, unigram: &Unigram<'_>) {
        let (len, longest) = (lattice.len, self.tokens.longest());
        let mut start = 0;
        while start < len {
            let Some(sum) = lattice.sum(start) else { return };
            let next = lattice.next_place(start);
            let mut has_single = false;
            let mut end = next;
            while end <= len && end - start <= longest {
                let id = lattice.piece(start, end).and_then(|piece| self.tokens.find_piece(&piece));
                let score = id.and_then(|id| match self.kinds.get(id) {
                    TokenKind::UserDefined => Some(0.0),
                    kind if kind.is_text() => {
                        unigram.scores.get(id as usize)?.as_f32().filter(|score| score.is_finite())
                    }
                    _ => None,
                });
                if let (Some(id), Some(score)) = (id, score) {
                    lattice.offer(start, end, id, sum + f64::from(score));
                    has_single |= end == next;
                }
                if end == len {
                    break;
                }
                end = lattice.next_place(end);
            }
            if !has_single {
                lattice.offer(start, next, NONE, sum + f64::from(self.unknown_score));
            }
            start = next;
        }
        lattice.turn();
    }

    /// Writes the tokens of the best way. `after_unknown` is whether the token before them is unknown. Returns whether
    /// the last one is.
    fn follow_way(
        &self,
        lattice: &Lattice<'_>,
        mut spelling: Spelling<'_>,
        mut after_unknown: bool,
        output: &mut Output<'_>,
    ) -> bool {
        let (mut start, mut spelled, mut lost) = (0, 0, None);
        while let Some((end, id)) = lattice.step(start) {
            let bytes = lattice.text.get(start..end).unwrap_or_default();
            let is_unknown = id == NONE && !bytes.iter().all(|&byte| self.byte(byte).is_some());
            match id {
                NONE if is_unknown => {
                    if !after_unknown {
                        self.vocab.unknown().into_iter().for_each(|id| output.push(id));
                    }
                    while spelled <= start
                        && let Some(c) = spelling.next()
                    {
                        spelled += c.len_utf8();
                    }
                    let is_blank = bytes == BLANK.encode_utf8(&mut [0; 4]).as_bytes();
                    let (at, source) = if is_blank { spelling.blank() } else { spelling.source() };
                    // Several characters may come from one replacement, whose source is counted once.
                    if lost.replace(at) != Some(at) {
                        output.lose(at, source.as_bytes());
                    }
                }
                NONE => bytes.iter().filter_map(|&byte| self.byte(byte)).for_each(|id| output.push(id)),
                id => output.push(id),
            }
            (start, after_unknown) = (end, is_unknown);
        }
        after_unknown
    }
}

/// A word, and the best ways to its positions.
struct Lattice<'s> {
    text: &'s [u8],
    len: usize,
    cells: &'s mut [Cell],
}

impl<'s> Lattice<'s> {
    /// Returns a word of `len` bytes, with its positions. `None` if `scratch` is shorter than [`scratch_len`].
    fn new(word: Spelling<'_>, len: usize, scratch: &'s mut [u32]) -> Option<Self> {
        let (text, rest) = scratch.split_at_mut_checked(text_len(len))?;
        let (cells, _) = rest.split_at_mut_checked((len + 1).checked_mul(size_of::<Cell>() / size_of::<u32>())?)?;
        let (text, cells): (&mut [u8], &mut [Cell]) =
            (bytemuck::must_cast_slice_mut(text), bytemuck::try_cast_slice_mut(cells).ok()?);
        let none = Cell { before: [0; 2], sum: halves(f64::NEG_INFINITY.to_bits()), id: NONE, other: 0 };
        cells.fill(none);
        cells.first_mut()?.sum = halves(0);
        let (mut beginning, mut at) = (Beginning::default(), 0);
        for c in word {
            let mut bytes = [0; 4];
            let count = c.encode_utf8(&mut bytes).len();
            // Characters of the next word may follow the last character of this one.
            if at >= len {
                break;
            }
            *text.get_mut(at..)?.first_chunk_mut()? = bytes;
            beginning.push(u32::from_le_bytes(bytes), count as u32);
            at += count;
            cells.get_mut(at)?.before = halves(beginning.number);
        }
        Some(Self { text, len, cells })
    }

    /// Returns the best sum at a position, or `None` if no way leads there.
    fn sum(&self, at: usize) -> Option<f64> {
        let sum = self.cells.get(at).map(|cell| f64::from_bits(whole(cell.sum)))?;
        (sum > f64::NEG_INFINITY).then_some(sum)
    }

    /// Returns the end of the character that begins at a position.
    fn next_place(&self, at: usize) -> usize {
        let rest = self.text.get(at + 1..self.len).unwrap_or_default();
        at + 1 + rest.iter().take_while(|&&byte| byte & 0xC0 == 0x80).count()
    }

    fn piece(&self, start: usize, end: usize) -> Option<Piece<'_>> {
        let [before, after] = [start, end].map(|at| self.cells.get(at).map(|cell| whole(cell.before)));
        Some(Piece::new(self.text, start, end - start, before?, after?))
    }

    /// Takes the way with this sum and the last token `id`, if it is better than the best way so far.
    fn offer(&mut self, start: usize, end: usize, id: u32, sum: f64) {
        if let Some(cell) = self.cells.get_mut(end)
            && sum > f64::from_bits(whole(cell.sum))
        {
            *cell = Cell { sum: halves(sum.to_bits()), id, other: start as u32, ..*cell };
        }
    }

    /// Reverses the best way, so that each of its positions has the next one.
    fn turn(&mut self) {
        let (mut at, mut next) = (self.len, self.len);
        while let Some(cell) = self.cells.get_mut(at) {
            let before = core::mem::replace(&mut cell.other, next as u32) as usize;
            if at == 0 {
                return;
            }
            (at, next) = (before.min(at - 1), at);
        }
    }

    /// Returns the end and the id of the token of the best way that begins at a position.
    fn step(&self, start: usize) -> Option<(usize, u32)> {
        let end = self.cells.get(start).filter(|_| start < self.len)?.other as usize;
        Some((end, self.cells.get(end).filter(|_| end > start)?.id))
    }
}
