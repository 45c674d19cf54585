//! The texts of the tokens, and their ids.

use gguf_rs_lite::{Array, ValueType};

use super::bytes;
use super::error::VocabError;
use super::slots::Slots;
use super::text::{Beginning, Counted, Piece, Short, equal, finish, joined, number};
use super::vocab::TOKENS;

/// Value that stands for "no token" in the tables.
pub(super) const NONE: u32 = u32::MAX;

/// Number of texts that are hashed before any of them is entered, so that the processor waits for many slots at once.
const BATCH: usize = 64;

/// The texts of the tokens, and the ids of the texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'m, 'a> {
    /// The strings as the file has them.
    strings: &'m [u8],
    /// Offset of each token's text in `strings`, and then the offset of the text that would follow the last one.
    offsets: &'a [u32],
    slots: Slots<&'a [u32]>,
    /// Number of bytes of the longest text.
    longest: usize,
    /// Whether two tokens have the same text.
    repeats: bool,
}

impl<'m, 'a> Tokens<'m, 'a> {
    /// Fills the tables. `offsets` has one element more than there are tokens.
    ///
    /// A text that occurs twice belongs to the lower id.
    #[inline(never)]
    pub(super) fn new(array: Array<'m>, offsets: &'a mut [u32], slots: &'a mut [u32]) -> Result<Self, VocabError> {
        let strings = array.bytes();
        if u32::try_from(strings.len()).is_err() {
            return Err(VocabError::TooLarge { key: TOKENS, bytes: strings.len() });
        }
        if array.element_type() != ValueType::String {
            return Err(VocabError::WrongType(TOKENS));
        }
        let mut walk = Walk { strings, start: Counted::COUNT, longest: 0 };
        let mut hashes = [0; BATCH];
        let mut slots = Slots::new(slots, array.len());
        let mut repeats = false;
        for first in (0..array.len()).step_by(BATCH) {
            walk.next(offsets.get_mut(first..).unwrap_or_default(), &mut hashes);
            slots.touch(&hashes);
            for (id, &hash) in (first as u32..array.len() as u32).zip(&hashes) {
                if hash != 0 || place(offsets, id).is_some_and(|(_, len)| len > 0) {
                    let entered = slots.insert(hash, id, |other| is_same(strings, offsets, other, id));
                    repeats |= !entered.map_err(|_| VocabError::Collisions { key: TOKENS })?;
                }
            }
        }
        Ok(Self { strings, offsets, slots: slots.freeze(), longest: walk.longest, repeats })
    }

    /// Returns the number of tokens.
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the number of bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the text of a token as the file has it.
    pub(super) fn text(&self, id: u32) -> Option<&'m [u8]> {
        let (start, len) = place(self.offsets, id)?;
        self.strings.get(start..start.checked_add(len)?)
    }

    /// Returns the token with this text.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        self.slots.find(finish(number(text), text.len()), |id| (self.text(id) == Some(text)).then_some(id))
    }

    /// Returns the offset of a token's text in the strings of the file.
    pub(super) fn start(&self, id: u32) -> u32 {
        self.offsets.get(id as usize).map_or(0, |&start| start)
    }

    /// Returns whether the string of the file that begins at `start` is `piece`.
    #[inline(always)]
    pub(super) fn is_at(&self, start: u32, piece: &Piece<'_>) -> bool {
        let len = Counted::len_at(self.strings, start as usize);
        len == Some(piece.len) && piece.is_at(self.strings, start as usize)
    }

    /// Calls `find` for the tokens with this hash. Returns its first result that is not `None`.
    #[inline(always)]
    pub(super) fn find_hash<T>(&self, hash: u64, find: impl Fn(u32) -> Option<T>) -> Option<T> {
        self.slots.find(hash, find)
    }

    /// Returns the token with the text of `piece`.
    #[inline]
    pub(super) fn find_piece(&self, piece: &Piece<'_>) -> Option<u32> {
        self.slots.find(piece.hash, |id| self.is_at(self.start(id), piece).then_some(id))
    }

    /// Returns the token that spells these bytes in the alphabet of byte-level BPE.
    pub(super) fn find_bytes(&self, bytes: &[u8]) -> Option<u32> {
        let mut text = Beginning::default();
        let mut len = 0;
        for &byte in bytes {
            let [first, second] = bytes::encode(byte);
            let count = 1 + u32::from(second != 0);
            text.push(u32::from_le_bytes([first, second, 0, 0]), count);
            len += count as usize;
        }
        if len > self.longest {
            return None;
        }
        let spelled = || bytes.iter().flat_map(|&byte| bytes::encode(byte)).filter(|&byte| byte != 0);
        self.slots.find(finish(text.number, len), |id| {
            let text = self.text(id)?.iter().copied();
            spelled().eq(text).then_some(id)
        })
    }

    /// Returns the token whose text is `left` followed by `right`. The tokens `likely` are tried first.
    pub(super) fn find_joined(&self, left: &[u8], right: &[u8], likely: [u32; 2]) -> Option<u32> {
        let is_it = |id| self.text(id).and_then(|text| text.strip_prefix(left)) == Some(right);
        let guess = likely.into_iter().find(|&id| !self.repeats && is_it(id));
        guess.or_else(|| {
            let number = joined(number(left), left.len(), number(right));
            self.slots.find(finish(number, left.len().saturating_add(right.len())), |id| is_it(id).then_some(id))
        })
    }

    /// Returns the one of two likely tokens that has this text of `len` bytes. `None` if some tokens have equal texts.
    #[inline]
    pub(super) fn find_short(&self, text: Short, len: usize, [first, second]: [u32; 2]) -> Option<u32> {
        let is_it = |id| {
            let start = place(self.offsets, id).filter(|place| place.1 == len).map(|(start, _)| start);
            start.is_some_and(|start| Short::at(self.strings, start, len) == Some(text))
        };
        let found = if is_it(first) { Some(first) } else { Some(second).filter(|&id| is_it(id)) };
        found.filter(|_| !self.repeats)
    }
}

/// State of the first pass over the strings.
struct Walk<'m> {
    strings: &'m [u8],
    /// Offset of the next text.
    start: usize,
    longest: usize,
}

impl Walk<'_> {
    /// Notes the offsets and the hashes of the next texts, and the offset of the text after them.
    #[inline(never)]
    fn next(&mut self, offsets: &mut [u32], hashes: &mut [u64; BATCH]) {
        let mut offsets = offsets.iter_mut();
        // The offsets are below 4 GiB, as the array is. Only the end of a damaged last text may be above, and is cut
        // there.
        let offset_of = |start: usize| u32::try_from(start).unwrap_or(u32::MAX);
        for (hash, offset) in hashes.iter_mut().zip(&mut offsets) {
            *offset = offset_of(self.start);
            let Some(text) = Counted::at(self.strings, self.start) else { return };
            *hash = text.hash(self.strings, self.start);
            self.longest = self.longest.max(text.len);
            self.start = self.start.saturating_add(text.len).saturating_add(Counted::COUNT);
        }
        if let Some(offset) = offsets.next() {
            *offset = offset_of(self.start);
        }
    }
}

/// Returns the offset and the length of a token's text.
#[inline]
fn place(offsets: &[u32], id: u32) -> Option<(usize, usize)> {
    let [start, next] = *offsets.get(id as usize..)?.first_chunk()?;
    Some((start as usize, next.checked_sub(start)?.checked_sub(Counted::COUNT as u32)? as usize))
}

/// Returns whether the text of token `id` is the `len` bytes at `start` of `whole`.
#[inline]
fn is_at(strings: &[u8], offsets: &[u32], id: u32, whole: &[u8], start: usize, len: usize) -> bool {
    place(offsets, id).is_some_and(|(own, own_len)| own_len == len && equal(strings, own, whole, start, len))
}

/// Returns whether two tokens have the same text.
#[inline(never)]
fn is_same(strings: &[u8], offsets: &[u32], id: u32, other: u32) -> bool {
    place(offsets, other).is_some_and(|(start, len)| is_at(strings, offsets, id, strings, start, len))
}
