//! The tables of a vocabulary in the making, piece by piece.

use super::fill::{StringTables, note_firsts};
use super::sorted::{Sort, Texts, is_plain, shared};
use super::trie::{CODECS, FIRSTS, MOST, Node, SHORT, Strings, TokenTrie, TrieError, Vocabulary, chars};
use crate::mem::{Arena, MemoryError};

/// Number of tokens, comparisons or nodes of a unit.
const UNIT: usize = 4096;

/// A token in which a quote is looked for counts as this many.
const READ: usize = 8;

/// A [`TokenTrie`] in the making. The work is done in units, so that a host with a deadline can spread it. The tables
/// are the same however the work is cut.
///
/// [Example](crate::grammar#in-pieces).
pub struct TrieBuild<'s, 'm> {
    vocabulary: &'s dyn Vocabulary,
    /// The ids of all tokens, later sorted by their bytes.
    pub(super) ids: &'s mut [u32],
    /// The ids of the tokens that are not plain.
    pub(super) others: &'s mut [u32],
    /// The ids of the tokens that end a string of the present codec, later sorted by their bytes from its quote on.
    pub(super) closing: &'s mut [u32],
    /// By id: where the bytes of the token end in `bytes`.
    pub(super) ends: &'s mut [u32],
    pub(super) bytes: &'s mut [u8],
    pub(super) counts: Counts,
    stage: Stage,
    /// Index of the next token, node or word of the stage.
    pub(super) at: usize,
    /// Number of elements that the stage has written.
    pub(super) written: usize,
    /// Number of pairs of tokens alike that were written.
    pub(super) pairs: usize,
    /// Id of the first token that has the same bytes as the token that was looked at last.
    pub(super) first: u32,
    sort: Sort,
    pub(super) tables: Option<Tables<'m>>,
    pub(super) longest: u32,
    pub(super) has_silent: bool,
}

impl core::fmt::Debug for TrieBuild<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TrieBuild").field("stage", &self.stage).field("at", &self.at).finish_non_exhaustive()
    }
}

/// Lengths of the tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    bytes: usize,
    pub(super) others: usize,
    pub(super) closing: usize,
    nodes: [usize; 2],
    alike: usize,
    long: usize,
    /// For each codec: number of tokens that end a string, and number of their nodes.
    strings: [[usize; 2]; CODECS],
}

/// A choice of tokens: 0 for all, 1 for those that are not plain.
pub(super) type Which = usize;

/// The stages of the work: first everything is measured, then the tables are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gather,
    Sort,
    Others,
    Count(Which),
    Choose(u32),
    SortClosing(u32),
    CountClosing(u32),
    Measured,
    Fill(Which),
    Link(Which),
    Clear,
    Plain,
    Within(u32),
    Strings(u32),
    FillClosing(u32),
    LinkClosing(u32),
    Done,
}

/// The tables of a [`TokenTrie`] before they are filled.
pub(super) struct Tables<'m> {
    pub(super) nodes: [&'m mut [Node]; 2],
    firsts: &'m mut [u32],
    pub(super) strings: [StringTables<'m>; CODECS],
    pub(super) plain: &'m mut [u32],
    pub(super) long: &'m mut [[u32; 2]],
    pub(super) alike: &'m mut [[u32; 2]],
}

impl<'s, 'm> TrieBuild<'s, 'm> {
    /// Begins to make the tables, in scratch of [`TokenTrie::scratch_len`] words.
    ///
    /// # Errors
    /// The vocabulary is too large, or the scratch too small. [`TrieBuild::step`] may be the first to find this.
    pub fn new(vocabulary: &'s dyn Vocabulary, scratch: &'s mut [u32]) -> Result<Self, TrieError> {
        let tokens = vocabulary.tokens();
        if tokens > MOST {
            return Err(TrieError::TooLarge { given: tokens as usize, limit: MOST });
        }
        let given = scratch.len();
        let cut = |words: &'s mut [u32]| words.split_at_mut_checked(tokens as usize);
        let parts = cut(scratch).and_then(|(ids, rest)| {
            let (others, rest) = cut(rest)?;
            let (closing, rest) = cut(rest)?;
            let (ends, rest) = cut(rest)?;
            Some((ids, others, closing, ends, rest))
        });
        let (ids, others, closing, ends, rest) = parts.ok_or_else(|| small(vocabulary, given))?;
        Ok(Self {
            vocabulary,
            ids,
            others,
            closing,
            ends,
            bytes: bytemuck::must_cast_slice_mut(rest),
            counts: Counts::default(),
            stage: Stage::Gather,
            at: 0,
            written: 0,
            pairs: 0,
            first: 0,
            sort: Sort::default(),
            tables: None,
            longest: 0,
            has_silent: false,
        })
    }

    /// Goes on for at most `units` units of 4,096 tokens, comparisons or nodes. Returns whether it has come to an end.
    /// Before [`TrieBuild::place`] the end is where [`TrieBuild::bytes`] is known, afterwards it is the finished
    /// tables.
    ///
    /// # Errors
    /// The vocabulary is too large, or the scratch too small.
    pub fn step(&mut self, units: usize) -> Result<bool, TrieError> {
        let mut left = units.max(1).saturating_mul(UNIT);
        while left > 0 && !matches!(self.stage, Stage::Measured | Stage::Done) {
            self.go_on(&mut left)?;
        }
        Ok(matches!(self.stage, Stage::Measured | Stage::Done))
    }

    /// Returns the number of bytes of memory that the tables take.
    ///
    /// # Errors
    /// [`TrieError::Unfinished`] before [`TrieBuild::step`] has returned true.
    pub fn bytes(&self) -> Result<usize, TrieError> {
        if self.stage != Stage::Measured && self.tables.is_none() {
            return Err(TrieError::Unfinished);
        }
        let mut arena = Arena::measuring();
        self.carve(&mut arena).map_err(TrieError::Memory)?;
        Ok(arena.used())
    }

    /// Gives the tables their memory, which starts at a multiple of [`crate::mem::ALIGN`].
    ///
    /// # Errors
    /// [`TrieError::Memory`] if the memory does not suit [`TrieBuild::bytes`]; [`TrieError::Unfinished`] unless the
    /// bytes have just become known.
    pub fn place(&mut self, memory: &'m mut [u8]) -> Result<(), TrieError> {
        if self.stage != Stage::Measured {
            return Err(TrieError::Unfinished);
        }
        let mut arena = Arena::new(memory).map_err(TrieError::Memory)?;
        self.tables = Some(self.carve(&mut arena).map_err(TrieError::Memory)?);
        self.next(Stage::Fill(0));
        Ok(())
    }

    /// Returns the finished tables, once.
    ///
    /// # Errors
    /// [`TrieError::Unfinished`] before [`TrieBuild::step`] has returned true after [`TrieBuild::place`], and when
    /// called again.
    pub fn finish(&mut self) -> Result<TokenTrie<'m>, TrieError> {
        let tables = self.tables.take_if(|_| self.stage == Stage::Done).ok_or(TrieError::Unfinished)?;
        let Tables { nodes: [all, rest], firsts, strings, plain, long, alike } = tables;
        note_firsts([all, rest], firsts);
        let strings = strings.map(|StringTables { within, ends, tokens }| Strings { within, ends, tokens });
        let (tokens, longest, has_silent) = (self.ids.len() as u32, self.longest, self.has_silent);
        Ok(TokenTrie { all, rest, firsts, strings, plain, long, alike, tokens, longest, has_silent })
    }

    fn next(&mut self, stage: Stage) {
        (self.stage, self.at, self.written) = (stage, 0, 0);
    }

    /// Cuts the tables out of the memory.
    fn carve(&self, arena: &mut Arena<'m>) -> Result<Tables<'m>, MemoryError> {
        let words = self.ids.len().div_ceil(32);
        let mut strings = [const { None }; CODECS];
        for (place, [tokens, nodes]) in strings.iter_mut().zip(self.counts.strings) {
            *place = Some(StringTables {
                within: arena.slice("tokens in strings", words)?,
                ends: arena.slice("ends of strings", nodes)?,
                tokens: arena.slice("tokens that end strings", tokens)?,
            });
        }
        let [all, rest] = self.counts.nodes;
        Ok(Tables {
            nodes: [arena.slice("tokens", all)?, arena.slice("other tokens", rest)?],
            firsts: arena.slice("first bytes", 2 * FIRSTS)?,
            strings: strings.map(Option::unwrap_or_default),
            plain: arena.slice("plain tokens", words.saturating_mul(SHORT as usize + 1))?,
            long: arena.slice("long tokens", self.counts.long)?,
            alike: arena.slice("tokens alike", self.counts.alike)?,
        })
    }

    /// Goes on with the present stage, and to the next one at its end.
    fn go_on(&mut self, left: &mut usize) -> Result<(), TrieError> {
        let is_read = matches!(
            self.stage,
            Stage::Choose(_)
                | Stage::SortClosing(_)
                | Stage::CountClosing(_)
                | Stage::FillClosing(_)
                | Stage::Strings(_)
        );
        if !is_read {
            return self.run(left);
        }
        let given = left.div_ceil(READ);
        let mut rest = given;
        self.run(&mut rest)?;
        *left = left.saturating_sub(given.saturating_sub(rest).saturating_mul(READ));
        Ok(())
    }

    fn run(&mut self, left: &mut usize) -> Result<(), TrieError> {
        let is_done = match self.stage {
            Stage::Gather => self.gather(left)?,
            Stage::Sort => self.sort.go_on(self.ids, Texts::new(self.ends, self.bytes, None), left),
            Stage::SortClosing(codec) => {
                let texts = Texts::new(self.ends, self.bytes, Some(codec));
                self.sort.go_on(self.closing.get_mut(..self.counts.closing).unwrap_or_default(), texts, left)
            }
            Stage::Others => self.choose_others(left),
            Stage::Choose(codec) => self.choose(codec, left),
            Stage::Count(which) => self.count(which, left)?,
            Stage::CountClosing(codec) => self.count_closing(codec, left),
            Stage::Fill(which) => self.fill(which, left),
            Stage::FillClosing(codec) => self.fill_closing(codec, left),
            Stage::Link(which) => self.link(left, |tables| tables.nodes.get_mut(which).map(|nodes| &mut **nodes)),
            Stage::LinkClosing(codec) => self.link(left, |tables| tables.codec(codec).map(|tables| &mut *tables.ends)),
            Stage::Clear => self.clear(left),
            Stage::Plain => self.plain(left),
            Stage::Within(codec) => self.within(codec, left),
            Stage::Strings(codec) => self.strings(codec, left),
            Stage::Measured | Stage::Done => true,
        };
        if is_done {
            self.end_stage();
        }
        Ok(())
    }

    fn end_stage(&mut self) {
        let is_filling = self.tables.is_some();
        let next = match self.stage {
            Stage::Gather => Stage::Sort,
            Stage::Sort => Stage::Others,
            Stage::Others => Stage::Count(0),
            Stage::Count(0) => Stage::Count(1),
            Stage::Count(_) => Stage::Choose(1),
            Stage::Choose(codec) => Stage::SortClosing(codec),
            Stage::SortClosing(codec) if is_filling => Stage::FillClosing(codec),
            Stage::SortClosing(codec) => Stage::CountClosing(codec),
            Stage::CountClosing(codec) if codec < CODECS as u32 => Stage::Choose(codec + 1),
            Stage::CountClosing(_) | Stage::Measured => Stage::Measured,
            Stage::Fill(which) => Stage::Link(which),
            Stage::Link(0) => Stage::Fill(1),
            Stage::Link(_) => Stage::Clear,
            Stage::Clear => Stage::Plain,
            Stage::Plain => Stage::Within(1),
            Stage::Within(codec) => Stage::Strings(codec),
            Stage::Strings(codec) => Stage::Choose(codec),
            Stage::FillClosing(codec) => Stage::LinkClosing(codec),
            Stage::LinkClosing(codec) if codec < CODECS as u32 => Stage::Within(codec + 1),
            Stage::LinkClosing(_) | Stage::Done => Stage::Done,
        };
        self.next(next);
        self.sort = match next {
            Stage::Sort => Sort::new(self.ids.len()),
            Stage::SortClosing(_) => Sort::new(self.counts.closing),
            _ => Sort::default(),
        };
    }

    /// Returns the ids of a choice of tokens.
    pub(super) fn list(&self, which: Which) -> &[u32] {
        if which == 0 { self.ids } else { self.others.get(..self.counts.others).unwrap_or_default() }
    }

    pub(super) fn texts(&self, closing: Option<u32>) -> Texts<'_> {
        Texts::new(self.ends, self.bytes, closing)
    }

    fn gather(&mut self, left: &mut usize) -> Result<bool, TrieError> {
        let given = self.ids.len().saturating_mul(4).saturating_add(self.bytes.len() / 4);
        let ids = self.ids.get_mut(self.at..).unwrap_or_default();
        let ends = self.ends.get_mut(self.at..).unwrap_or_default();
        for ((place, end), id) in ids.iter_mut().zip(ends).zip(self.at as u32..).take(*left) {
            let bytes = &mut *self.bytes;
            let mut len = self.counts.bytes;
            self.vocabulary.each_byte(id, &mut |byte| {
                bytes.get_mut(len).into_iter().for_each(|place| *place = byte);
                len = len.saturating_add(1);
            });
            if len > bytes.len() {
                return Err(small(self.vocabulary, given));
            }
            *place = id;
            *end = u32::try_from(len).map_err(|_| TrieError::TooLarge { given: len, limit: u32::MAX })?;
            self.counts.bytes = len;
        }
        Ok(self.walked(self.ids.len(), left))
    }

    /// Notes that as many of `len` elements were looked at as the budget has. Returns whether these were the last ones.
    pub(super) fn walked(&mut self, len: usize, left: &mut usize) -> bool {
        let end = self.at.saturating_add(*left).min(len);
        *left = left.saturating_sub(end.saturating_sub(self.at).max(1));
        self.at = end;
        end >= len
    }

    fn choose_others(&mut self, left: &mut usize) -> bool {
        let texts = Texts::new(self.ends, self.bytes, None);
        for &id in self.ids.iter().skip(self.at).take(*left).filter(|&&id| !is_plain(texts.of(id))) {
            self.others.get_mut(self.written).into_iter().for_each(|place| *place = id);
            self.written += 1;
        }
        self.counts.others = self.written;
        self.walked(self.ids.len(), left)
    }

    /// Chooses the tokens in which a string of this codec ends.
    fn choose(&mut self, codec: u32, left: &mut usize) -> bool {
        let texts = Texts::new(self.ends, self.bytes, Some(codec));
        let others = self.others.get(..self.counts.others).unwrap_or_default();
        for &id in others.iter().skip(self.at).take(*left).filter(|&&id| !texts.of(id).is_empty()) {
            self.closing.get_mut(self.written).into_iter().for_each(|place| *place = id);
            self.written += 1;
        }
        self.counts.closing = self.written;
        self.walked(self.counts.others, left)
    }

    fn count(&mut self, which: Which, left: &mut usize) -> Result<bool, TrieError> {
        let (texts, list) = (self.texts(None), self.list(which));
        let (len, mut counts) = (list.len(), self.counts);
        for (before, id) in texts.pairs(list, self.at).take(*left) {
            let text = texts.of(id);
            let new = text.len().saturating_sub(shared(before, text));
            counts.nodes.get_mut(which).into_iter().for_each(|nodes| *nodes = nodes.saturating_add(new));
            if which == 0 && !text.is_empty() {
                counts.alike += usize::from(text == before);
                counts.long += usize::from(is_plain(text) && chars(text) > SHORT);
            }
            counts.alike += usize::from(which == 0 && texts.is_too_long(id));
        }
        self.counts = counts;
        let [given, _] = counts.nodes;
        let is_done = self.walked(len, left);
        if given > MOST as usize { Err(TrieError::TooLarge { given, limit: MOST }) } else { Ok(is_done) }
    }

    fn count_closing(&mut self, codec: u32, left: &mut usize) -> bool {
        let texts = self.texts(Some(codec));
        let list = self.closing.get(..self.counts.closing).unwrap_or_default();
        let len = list.len();
        let new = |(before, id): (&[u8], u32)| texts.of(id).len().saturating_sub(shared(before, texts.of(id)));
        let nodes: usize = texts.pairs(list, self.at).take(*left).map(new).sum();
        if let Some(counts) = self.counts.strings.get_mut((codec as usize).wrapping_sub(1)) {
            let [_, before] = *counts;
            *counts = [len, before.saturating_add(nodes)];
        }
        self.walked(len, left)
    }
}

/// Returns the error that the scratch is too small for a vocabulary.
fn small(vocabulary: &dyn Vocabulary, given: usize) -> TrieError {
    TrieError::ScratchTooSmall { needed: TokenTrie::scratch_len(vocabulary), given }
}
