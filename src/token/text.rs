//! Texts as numbers: their hashes, and the comparison of short texts.
//!
//! The number of a text is its bytes as an integer, the first byte lowest, modulo the prime 2^61 - 1. Modulo this
//! prime, moving a text by one byte is a rotation by 8 bits. So the number of any piece of a word follows from the
//! numbers of two beginnings of the word, and the number of a concatenation from the numbers of its parts.
//!
//! It is easy to make different texts with equal numbers. So code that finds a text by its hash also compares the text,
//! and bounds its time.

const BITS: u32 = 61;
const PRIME: u64 = (1 << BITS) - 1;

/// The most bytes of a text that is read with one access.
const SHORT: usize = 16;

/// Number of bytes after a text, so that [`equal`] can read it with one access.
const PADDING: usize = SHORT;

/// Returns the number of 32-bit words for a text of `bytes` bytes, and for the padding after it.
pub(super) fn text_len(bytes: usize) -> usize {
    bytes.saturating_add(PADDING).div_ceil(4)
}

/// Returns the lower and the upper half of a number.
pub(super) fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Returns the number with these halves.
#[inline]
pub(super) fn whole([lower, upper]: [u32; 2]) -> u64 {
    u64::from(lower) | u64::from(upper) << 32
}

/// The number of a text that grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning {
    pub(super) number: u64,
    /// Number of bits by which the next byte is moved, less than [`BITS`].
    shift: u32,
}

impl Beginning {
    /// Appends at most four bytes, the first one lowest.
    #[inline]
    pub(super) fn push(&mut self, bytes: u32, count: u32) {
        self.number = add(self.number, rotate(u64::from(bytes), self.shift));
        let shift = self.shift.wrapping_add(count.wrapping_mul(8));
        self.shift = if shift >= BITS { shift.wrapping_sub(BITS) } else { shift };
    }
}

/// A piece of a longer text, with its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'t> {
    /// The longer text. The bytes after the piece allow it to be read with one access.
    pub(super) whole: &'t [u8],
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) hash: u64,
    number: u64,
}

impl<'t> Piece<'t> {
    /// Returns the `len` bytes at `start` of `whole`. `before` and `after` are the numbers of the text before the piece
    /// and of the text up to its end.
    #[inline]
    pub(super) fn new(whole: &'t [u8], start: usize, len: usize, before: u64, after: u64) -> Self {
        let moved = add(after, PRIME.wrapping_sub(before));
        let shift = (start as u64).wrapping_mul(8) % u64::from(BITS);
        let number = rotate(moved, BITS.wrapping_sub(shift as u32));
        Self { whole, start, len, hash: finish(number, len), number }
    }

    /// Returns whether the piece is equal to the text of the same length at `start` of `other`.
    #[inline(always)]
    pub(super) fn is_at(&self, other: &[u8], start: usize) -> bool {
        // The number of a text of less than eight bytes is the bytes themselves.
        match other.get(start..).and_then(<[_]>::first_chunk) {
            Some(bytes) if self.len < 8 => u64::from_le_bytes(*bytes) & !(u64::MAX << (8 * self.len)) == self.number,
            _ => equal(other, start, self.whole, self.start, self.len),
        }
    }
}

/// Returns the number of a text.
pub(super) fn number(text: &[u8]) -> u64 {
    let (words, rest) = text.as_chunks::<8>();
    let (mut number, mut shift) = (0, 0);
    let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    for word in words.iter().map(|&word| u64::from_le_bytes(word)).chain([last]) {
        number = add(number, rotate(reduce(word), shift));
        shift = (shift + u64::BITS) % BITS;
    }
    number
}

/// Returns the number of `left` followed by `right`, from their numbers.
pub(super) fn joined(left: u64, left_len: usize, right: u64) -> u64 {
    let shift = (left_len as u64).wrapping_mul(8) % u64::from(BITS);
    add(left, rotate(right, shift as u32))
}

/// Returns the hash of a text of `len` bytes, from its number.
#[inline]
pub(super) fn finish(number: u64, len: usize) -> u64 {
    let hash = (number | (len as u64) << BITS).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ hash >> 32
}

/// A string of an array in the file: its length, and its text if it is short and enough bytes follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) len: usize,
    pub(super) short: Option<Short>,
}

impl Counted {
    /// Number of bytes of the length that is stored before a text.
    pub(super) const COUNT: usize = 8;

    /// Returns the length of the string whose text begins at `start`.
    #[inline]
    pub(super) fn len_at(strings: &[u8], start: usize) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(*strings.get(start.wrapping_sub(Self::COUNT)..)?.first_chunk()?)).ok()
    }

    /// Returns the string whose text begins at `start`. Its length is stored before the text.
    #[inline]
    pub(super) fn at(strings: &[u8], start: usize) -> Option<Self> {
        let rest = strings.get(start.wrapping_sub(Self::COUNT)..)?;
        let len = usize::try_from(u64::from_le_bytes(*rest.first_chunk()?)).ok()?;
        Some(Self { len, short: Short::at(rest, Self::COUNT, len) })
    }

    /// Returns the hash of the string.
    #[inline]
    pub(super) fn hash(&self, strings: &[u8], start: usize) -> u64 {
        self.short.map_or_else(|| long_hash(strings, start, self.len), |text| finish(text.number(), self.len))
    }
}

#[inline(never)]
fn long_hash(strings: &[u8], start: usize, len: usize) -> u64 {
    let text = start.checked_add(len).and_then(|end| strings.get(start..end));
    finish(text.map_or(0, number), len)
}

/// A text of at most [`SHORT`] bytes, as two numbers of eight bytes, the first byte lowest. Bytes after the text are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short([u64; 2]);

/// Masks of the bytes of a short text, by its length.
static BYTES: [[u64; 2]; SHORT + 1] = bytes();

#[allow(clippy::indexing_slicing)] // evaluated by the compiler
const fn bytes() -> [[u64; 2]; SHORT + 1] {
    let mut masks = [[0; 2]; SHORT + 1];
    let mut len = 1;
    while len <= SHORT {
        let mask = u128::MAX >> (128 - 8 * len);
        masks[len] = [mask as u64, (mask >> 64) as u64];
        len += 1;
    }
    masks
}

impl Short {
    /// Returns the `len` bytes at `start` of `whole`, if they are short and enough bytes follow to read them with one
    /// access.
    #[inline]
    pub(super) fn at(whole: &[u8], start: usize, len: usize) -> Option<Self> {
        let bytes = *whole.get(start..)?.first_chunk::<SHORT>()?;
        let [low, high] = bytemuck::must_cast::<_, [[u8; 8]; 2]>(bytes).map(u64::from_le_bytes);
        let &[low_bits, high_bits] = BYTES.get(len)?;
        Some(Self([low & low_bits, high & high_bits]))
    }

    /// Returns the length of the text before the first blank after the first byte, and the text without this blank.
    #[inline]
    pub(super) fn without_blank(self) -> Option<(usize, Self)> {
        const ONES: u64 = u64::MAX / 0xFF;
        // Each blank becomes a byte of 0, and the first byte does not. The lowest byte that borrows is the first byte
        // of 0.
        let zeros = |others: u64| others.wrapping_sub(ONES) & !others & ONES << 7;
        let Self([low, high]) = self;
        let found = match zeros(low ^ ONES << 5 | 0xFF) {
            0 => 64 + zeros(high ^ ONES << 5).trailing_zeros(),
            found => found.trailing_zeros(),
        };
        let before = found as usize / 8;
        let &[low_bits, high_bits] = BYTES.get(before)?;
        let low = low & low_bits | (low >> 8 | high << 56) & !low_bits;
        Some((before, Self([low, high & high_bits | high >> 8 & !high_bits])))
    }

    /// Returns the number of the text.
    #[inline]
    fn number(self) -> u64 {
        let Self([low, high]) = self;
        // The eighth byte is at bit 64, which is bit 3 modulo the prime.
        let sum = (low & PRIME) + (low >> BITS) + (high << 3 & PRIME) + (high >> (BITS - 3));
        reduce(sum)
    }
}

/// Returns whether the `len` bytes at `start` of `whole` and the `len` bytes at `other_start` of `other` are the same.
#[inline(never)]
pub(super) fn equal(whole: &[u8], start: usize, other: &[u8], other_start: usize, len: usize) -> bool {
    if let (Some(text), Some(other)) = (Short::at(whole, start, len), Short::at(other, other_start, len)) {
        return text == other;
    }
    let text = start.checked_add(len).and_then(|end| whole.get(start..end));
    let other = other_start.checked_add(len).and_then(|end| other.get(other_start..end));
    text.is_some() && text == other
}

/// Returns the sum of two numbers modulo the prime. One of them may be the prime itself.
fn add(a: u64, b: u64) -> u64 {
    let sum = a.wrapping_add(b);
    if sum >= PRIME { sum.wrapping_sub(PRIME) } else { sum }
}

/// Returns a number modulo the prime.
fn reduce(number: u64) -> u64 {
    add(number & PRIME, number >> BITS)
}

/// Returns `number` times 2^`by` modulo the prime. `by` is at most [`BITS`].
fn rotate(number: u64, by: u32) -> u64 {
    number.wrapping_shl(by) & PRIME | number.wrapping_shr(BITS.wrapping_sub(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the hash of a string in an array. Where the text continues after the string, so does the array.
    fn hash_at(text: &[u8], start: usize, len: usize) -> u64 {
        let strings = [&(len as u64).to_le_bytes(), text.get(start..).unwrap()].concat();
        let counted = Counted::at(&strings, Counted::COUNT).unwrap();
        assert_eq!(counted.len, len);
        counted.hash(&strings, Counted::COUNT)
    }

    /// Returns the number by its definition, byte by byte.
    fn slow(text: &[u8]) -> u64 {
        let prime = u128::from(PRIME);
        text.iter().rev().fold(0u128, |number, &byte| (number * 256 + u128::from(byte)) % prime) as u64
    }

    #[test]
    fn texts_of_the_prime_and_of_zeros_are_zero() {
        let prime = PRIME.to_le_bytes();
        assert_eq!((number(&prime), number(&[0; 40]), number(b""), number(&[b'a'; 61])), (0, 0, 0, 0));
        assert_eq!(hash_at(&[&prime[..], &[0; 16]].concat(), 0, 8), hash_at(&[0; 24], 0, 8));
        assert_ne!(hash_at(&[7; 24], 0, 1), hash_at(&[7; 24], 0, 2));
        assert_ne!(hash_at(&[0; 24], 0, 1), hash_at(&[0; 24], 0, 2));
    }

    proptest! {
        #[test]
        fn the_first_blank_is_found(
            text in prop::collection::vec(prop::sample::select(b" !\"a\0\x1f\xa0\xff".as_slice()), 0..=16),
        ) {
            let mut padded = text.clone();
            padded.resize(40, b' ');
            let found = Short::at(&padded, 0, text.len()).unwrap().without_blank();
            let expected = text.iter().skip(1).position(|&byte| byte == b' ').map(|at| {
                let joined = [&text[..at + 1], &text[at + 2..], &[0; 16]].concat();
                (at + 1, Short::at(&joined, 0, text.len() - 1).unwrap())
            });
            prop_assert_eq!(found.filter(|found| found.0 < 16), expected);
        }

        #[test]
        fn all_ways_to_a_hash_agree(
            text in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(255)], 0..200),
            cuts in prop::array::uniform2(0usize..201),
            steps in prop::collection::vec(1usize..5, 200),
        ) {
            let [start, end] = { let mut cuts = cuts.map(|cut| cut.min(text.len())); cuts.sort(); cuts };
            let part = &text[start..end];
            prop_assert_eq!(number(part), slow(part));
            let hash = finish(slow(part), part.len());
            prop_assert_eq!(hash_at(&text, start, part.len()), hash);
            let mut padded = text.clone();
            padded.resize(text.len() + PADDING, 0xA5);
            prop_assert_eq!(hash_at(&padded, start, part.len()), hash);
            prop_assert_eq!(joined(number(&text[..start]), start, number(part)), number(&text[..end]));

            let (before, after) = (number(&text[..start]), number(&text[..end]));
            let piece = Piece::new(&text, start, part.len(), before, after);
            prop_assert_eq!(piece.hash, hash);
            let mut other = [&[7; 5], part, &text].concat();
            prop_assert!(piece.is_at(&other, 5) && piece.is_at(&other[..5 + part.len()], 5));
            for byte in 5..5 + part.len() {
                other[byte] ^= 1;
                prop_assert!(!piece.is_at(&other, 5));
                other[byte] ^= 1;
            }

            let (mut beginning, mut at) = (Beginning::default(), 0);
            for step in steps {
                prop_assert_eq!(beginning.number, slow(&text[..at]));
                let bytes = &text[at..text.len().min(at + step)];
                beginning.push(slow(bytes) as u32, bytes.len() as u32);
                at += bytes.len();
            }
        }

        #[test]
        fn texts_are_equal_byte_by_byte(
            text in prop::collection::vec(0u8..2, 0..60),
            other in prop::collection::vec(0u8..2, 0..60),
            starts in prop::array::uniform2(0usize..64),
            len in 0usize..24,
        ) {
            let [start, other_start] = starts;
            let parts = (text.get(start..start + len), other.get(other_start..other_start + len));
            prop_assert_eq!(equal(&text, start, &other, other_start, len), parts.0.is_some() && parts.0 == parts.1);
            prop_assert!(parts.0.is_none() || equal(&text, start, &text, start, len));
        }
    }
}
