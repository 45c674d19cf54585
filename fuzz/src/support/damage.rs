//! Damaged copies of an input, the same ones for the same input.

use xxhash_rust::xxh64::xxh64;

use super::common::random::Rng;

/// Numbers that decide something, as words.
const BORDERS: [u64; 14] =
    [0, 1, 2, 7, 8, 13, 31, 255, 65536, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// Random numbers that an input decides about.
pub fn random_of(data: &[u8]) -> Rng {
    Rng::new(xxh64(data, 0))
}

/// A copy with one to four changes: bytes, bits, words of 4 and 8 bytes, two parts that change places, and now and then an earlier
/// end. Three of four changes are near the start, where a file says what the rest is. The copy ends where its allocation ends.
pub fn damaged(data: &[u8], random: &mut Rng) -> Box<[u8]> {
    let mut copy: Box<[u8]> = data.into();
    if copy.is_empty() {
        return copy;
    }
    for _ in 0..1 + random.below(4) {
        let near = if random.below(4) == 0 { copy.len() } else { copy.len().min(2048) };
        let at = random.below(near);
        match random.below(8) {
            0..3 => copy[at] = random.u64() as u8,
            3 => copy[at] ^= 1 << random.below(8),
            4 => put(&mut copy, at, &(BORDERS[random.below(BORDERS.len())] as u32).to_le_bytes()),
            5 => put(&mut copy, at, &BORDERS[random.below(BORDERS.len())].to_le_bytes()),
            6 => {
                let other = random.below(near);
                copy.swap(at, other);
            }
            _ => {
                // A step up or down, by which a count or an offset is off by one.
                let step = if random.below(2) == 0 { 1 } else { 0xff };
                copy[at] = copy[at].wrapping_add(step);
            }
        }
    }
    if random.below(8) == 0 { copy[..random.below(copy.len())].into() } else { copy }
}

fn put(bytes: &mut [u8], at: usize, word: &[u8]) {
    bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = *new);
}
