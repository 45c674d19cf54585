//! Damaged copies of an input. The same input always gives the same copies.

use xxhash_rust::xxh64::xxh64;

use super::many;
use common::random::Rng;

/// Numbers at which readers decide something, to be written as words.
const BORDERS: [u64; 14] =
    [0, 1, 2, 7, 8, 13, 31, 255, 65536, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

/// Returns random numbers that depend on an input.
pub fn random_of(data: &[u8]) -> Rng {
    Rng::new(xxh64(data, 0))
}

/// Returns a copy with one to four changes: bytes, bits, words of 4 and 8 bytes, and two bytes that change places.
/// Sometimes the copy also ends earlier. Three of four changes are near the start, where a file says what the rest is.
/// The copy ends where its allocation ends.
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
                // Adds or subtracts 1, which makes a count or an offset wrong by one.
                let step = if random.below(2) == 0 { 1 } else { 0xff };
                copy[at] = copy[at].wrapping_add(step);
            }
        }
    }
    if random.below(8) == 0 { copy[..random.below(copy.len())].into() } else { copy }
}

/// Number of inputs that are made of each input, and the most bytes behind the head of one.
const PARTS: usize = 64;
const MOST: usize = 96;

/// Calls `one` with parts of an input. Each part stands behind another head of `HEAD` random bytes, which are choices.
/// `adapt` may change the head.
pub fn each_part<const HEAD: usize>(data: &[u8], adapt: fn(&mut [u8; HEAD]), one: fn(&[u8])) {
    let mut random = random_of(data);
    let mut part = Vec::with_capacity(HEAD + MOST);
    for _ in 0..many(PARTS) {
        let mut head = [0; HEAD];
        random.fill(&mut head);
        adapt(&mut head);
        let rest = data.get(random.below(data.len().max(1))..).unwrap_or_default();
        let len = rest.len().min(random.below(MOST + 1));
        part.clear();
        part.extend_from_slice(&head);
        part.extend_from_slice(&rest[..len]);
        if len > 0 && random.below(2) == 0 {
            part[HEAD + random.below(len)] = random.u64() as u8;
        }
        one(&part);
    }
}

fn put(bytes: &mut [u8], at: usize, word: &[u8]) {
    bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = *new);
}
