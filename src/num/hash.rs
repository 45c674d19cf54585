//! XXH64 (Yann Collet's xxHash, 64-bit variant), streaming, for fingerprints and checksums.
//!
//! The hash detects damage, not forgery.

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

/// A running XXH64 hash with seed 0.
///
/// [Example](crate::num#example).
#[derive(Clone, Debug)]
pub struct Xxh64 {
    lanes: [u64; 4],
    tail: [u8; 32],
    tail_len: usize,
    total: u64,
}

impl Default for Xxh64 {
    fn default() -> Self {
        Self::new()
    }
}

impl Xxh64 {
    /// Returns the hash of no bytes.
    pub const fn new() -> Self {
        Self { lanes: [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)], tail: [0; 32], tail_len: 0, total: 0 }
    }

    /// Returns the hash of `bytes`.
    pub fn hash(bytes: &[u8]) -> u64 {
        let mut hasher = Self::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Appends `bytes`.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.total = self.total.wrapping_add(bytes.len() as u64);
        if self.tail_len > 0 {
            bytes = self.fill_tail(bytes);
        }
        let (stripes, rest) = bytes.as_chunks::<32>();
        for stripe in stripes {
            self.stripe(stripe);
        }
        self.fill_tail(rest);
    }

    /// Returns the hash of all bytes so far.
    pub fn finish(&self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let mut h = if self.total >= 32 {
            let h = a.rotate_left(1).wrapping_add(b.rotate_left(7));
            let h = h.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
            self.lanes.iter().fold(h, |h, &lane| (h ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4))
        } else {
            P5
        };
        h = h.wrapping_add(self.total);
        let tail = self.tail.get(..self.tail_len).unwrap_or_default();
        let (words, rest) = tail.as_chunks::<8>();
        for word in words {
            h = (h ^ round(0, u64::from_le_bytes(*word))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for half in halves {
            h ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
            h = h.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        }
        for &byte in rest {
            h = (h ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
        }
        h = (h ^ (h >> 33)).wrapping_mul(P2);
        h = (h ^ (h >> 29)).wrapping_mul(P3);
        h ^ (h >> 32)
    }

    /// Moves bytes into the tail until it is full or the bytes run out, and returns the remaining bytes.
    fn fill_tail<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let free = self.tail.get_mut(self.tail_len..).unwrap_or_default();
        let taken = free.len().min(bytes.len());
        for (slot, &byte) in free.iter_mut().zip(bytes) {
            *slot = byte;
        }
        self.tail_len += taken;
        if self.tail_len == 32 {
            let stripe = self.tail;
            self.stripe(&stripe);
            self.tail_len = 0;
        }
        bytes.get(taken..).unwrap_or_default()
    }

    fn stripe(&mut self, stripe: &[u8; 32]) {
        let (words, _) = stripe.as_chunks::<8>();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_reference_for_all_lengths_and_splits() {
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 7 + i / 3) as u8).collect();
        for len in 0..bytes.len() {
            let want = xxhash_rust::xxh64::xxh64(&bytes[..len], 0);
            assert_eq!(Xxh64::hash(&bytes[..len]), want, "length {len}");
            for cut in [0, len / 3, len / 2, len] {
                let mut hasher = Xxh64::new();
                hasher.update(&bytes[..cut]);
                hasher.update(&bytes[cut..len]);
                assert_eq!(hasher.finish(), want, "length {len} cut {cut}");
            }
        }
    }
}
