//! SentencePiece's unigram model: of all ways to cut a word into tokens the one with the highest sum of scores. (Kudo,
//! "Subword Regularization", 2018.)
//!
//! Scores are f32 and their sums f64, which are exact for real scores. Of equal sums the one counts whose last token
//! begins first.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::Array;

use super::charsmap::{BLANK, Blanks, Rules, Spelling};
use super::kind::TokenKind;
use super::spell::Output;
use super::table::NONE;
use super::text::{Beginning, Piece, halves, text_len, whole};
use super::tokenizer::Tokenizer;

/// What a character without a token costs, below the lowest score.
const PENALTY: f32 = 10.0;

/// A vocabulary of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unigram<'m> {
    pub(super) scores: Array<'m>,
    pub(super) rules: Rules<'m>,
    /// Of several blanks, one is left.
    pub(super) merges_blanks: bool,
}

impl Unigram<'_> {
    /// 32-bit words of scratch for a text of so many bytes.
    pub(super) fn scratch_len(&self, text_bytes: usize) -> usize {
        scratch_len(self.rules.most(text_bytes))
    }

    /// What a character without a token adds, where tokens are of these kinds.
    pub(super) fn unknown_score(&self, kinds: impl Iterator<Item = TokenKind>) -> f32 {
        let scores = kinds.zip(self.scores).filter(|&(kind, _)| kind == TokenKind::Normal);
        let scores = scores.filter_map(|(_, score)| score.as_f32()).filter(|score| score.is_finite());
        scores.reduce(f32::min).unwrap_or(0.0) - PENALTY
    }
}

/// A place in a word, between characters.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Cell {
    /// The number of the text before it: the lower half, then the upper one.
    before: [u32; 2],
    /// The bits of the best sum so far, in the same form.
    sum: [u32; 2],
    /// The last token of the way there, or [`NONE`] for a character without a token.
    id: u32,
    /// Where that token begins; once the way is known, where the next one ends.
    other: u32,
}

/// 32-bit words of scratch for a word of so many bytes.
fn scratch_len(bytes: usize) -> usize {
    let cells = bytes.saturating_add(1).saturating_mul(size_of::<Cell>() / size_of::<u32>());
    cells.saturating_add(text_len(bytes))
}

impl Tokenizer<'_, '_> {
    /// Encodes text without special tokens. Characters without a token become the unknown token, one for several in a
    /// row, or their bytes where the vocabulary has tokens for them.
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

    /// The best way to each place.
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

    /// Writes the tokens of the best way. Returns whether the last one is unknown, as the one before may be.
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
                    // Several characters may be those of one replacement.
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

/// A word, and the best ways to its places.
struct Lattice<'s> {
    text: &'s [u8],
    len: usize,
    cells: &'s mut [Cell],
}

impl<'s> Lattice<'s> {
    /// The places of a word of so many bytes; `None` where `scratch` is shorter than [`scratch_len`].
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
            // The last one may be followed by others, of the next word.
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

    /// The best sum of a place; `None` where no way leads there.
    fn sum(&self, at: usize) -> Option<f64> {
        let sum = self.cells.get(at).map(|cell| f64::from_bits(whole(cell.sum)))?;
        (sum > f64::NEG_INFINITY).then_some(sum)
    }

    /// The end of the character that begins at a place.
    fn next_place(&self, at: usize) -> usize {
        let rest = self.text.get(at + 1..self.len).unwrap_or_default();
        at + 1 + rest.iter().take_while(|&&byte| byte & 0xC0 == 0x80).count()
    }

    fn piece(&self, start: usize, end: usize) -> Option<Piece<'_>> {
        let [before, after] = [start, end].map(|at| self.cells.get(at).map(|cell| whole(cell.before)));
        Some(Piece::new(self.text, start, end - start, before?, after?))
    }

    /// A way with this sum, whose last token is `id`.
    fn offer(&mut self, start: usize, end: usize, id: u32, sum: f64) {
        if let Some(cell) = self.cells.get_mut(end)
            && sum > f64::from_bits(whole(cell.sum))
        {
            *cell = Cell { sum: halves(sum.to_bits()), id, other: start as u32, ..*cell };
        }
    }

    /// Turns the way to the end, so that each place knows the next one.
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

    /// The token that begins at a place of the way, and where it ends.
    fn step(&self, start: usize) -> Option<(usize, u32)> {
        let end = self.cells.get(start).filter(|_| start < self.len)?.other as usize;
        Some((end, self.cells.get(end).filter(|_| end > start)?.id))
    }
}
