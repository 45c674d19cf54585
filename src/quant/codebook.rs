//! Functions for the formats with codebooks. Entries are unpacked to 8 codes, one in each byte of a u64, the first in
//! the lowest byte.

/// Returns the 8 numbers of 2 bits of an entry, one in each byte.
#[inline(always)]
fn two_bits(entry: u16) -> u64 {
    let x = u64::from(entry);
    let x = (x | x << 24) & 0x0000_00ff_0000_00ff;
    let x = (x | x << 12) & 0x000f_000f_000f_000f;
    (x | x << 6) & 0x0303_0303_0303_0303
}

/// Returns entry `index` of a codebook of `N` entries. `N` is a power of two, and higher bits of the index are ignored.
#[inline(always)]
pub(super) fn entry<T: Copy + Default, const N: usize>(book: &[T; N], index: u16) -> T {
    book.get(usize::from(index) & (N - 1)).copied().unwrap_or_default()
}

/// Returns an entry of `grid_1`: 8 times each value plus 1, or minus 1 if `less` is set.
#[inline(always)]
pub(super) fn ternary(entry: u16, less: bool) -> [i8; 8] {
    // Bytes 0, 8 or 16 plus (0x80 - 8 + 1) or (0x80 - 8 - 1) do not exceed 255. Flipping 0x80 gives them their signs.
    let delta = if less { 0x7777_7777_7777_7777 } else { 0x7979_7979_7979_7979 };
    bytes((8 * two_bits(entry) + delta) ^ 0x8080_8080_8080_8080)
}

/// Returns an entry of `grid_2`: 8, 25 or 43, negative for elements whose bit in `signs` is set.
#[inline(always)]
pub(super) fn signed_2(entry: u16, signs: u8) -> [i8; 8] {
    let x = two_bits(entry);
    signed(0x0808_0808_0808_0808 + 17 * x + (x >> 1 & 0x0101_0101_0101_0101), signs)
}

/// Returns two entries of `grid_3`, negative for elements whose bit in `signs` is set.
#[inline(always)]
pub(super) fn signed_3(first: u32, second: u32, signs: u8) -> [i8; 8] {
    signed(u64::from(first) | u64::from(second) << 32, signs)
}

/// Returns the 8 signs of an index of 7 bits. The last sign makes the number of set bits even.
#[inline(always)]
pub(super) fn even_signs(index: u32) -> u8 {
    let index = index & 0x7f;
    (index | (index.count_ones() & 1) << 7) as u8
}

/// Returns eight numbers of 7 bits, one in each byte, from two numbers of 28 bits in the lower ends of 32-bit halves.
#[inline(always)]
pub(super) fn sevens(halves: u64) -> u64 {
    let fourteens = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    fourteens & 0x007f_007f_007f_007f | (fourteens & 0x3f80_3f80_3f80_3f80) << 1
}

/// Returns [`even_signs`] of eight indices, one in each byte.
#[inline(always)]
pub(super) fn eight_even_signs(indices: u64) -> u64 {
    // The lowest bit of each byte becomes the parity of its bits. Bits that come from the next byte stay above.
    let fours = indices ^ indices >> 4;
    let twos = fours ^ fours >> 2;
    let odd = (twos ^ twos >> 1) & 0x0101_0101_0101_0101;
    indices | odd << 7
}

/// Returns the sub-scales of two nibbles, the low one first: odd numbers from 1 to 31.
#[inline(always)]
pub(super) fn odd_scales(nibbles: u8) -> [i8; 2] {
    [nibbles & 15, nibbles >> 4].map(|nibble| nibble as i8 * 2 + 1)
}

/// Returns codes from 1 to 127, negative for elements whose bit in `signs` is set.
#[inline(always)]
fn signed(codes: u64, signs: u8) -> [i8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // `bits` has the sign bit of each element in the byte of the element. `set` has 1 there if the bit is set.
    let bits = (u64::from(signs) * ONES) & 0x8040_2010_0804_0201;
    let set = ((bits + 0x7f7f_7f7f_7f7f_7f7f) | bits) >> 7 & ONES;
    // A negative number is the complement of the positive one plus 1. That is at most 255, because the number is at
    // least 1.
    bytes((codes ^ (set * 0xff)) + set)
}

#[inline(always)]
fn bytes(codes: u64) -> [i8; 8] {
    codes.to_le_bytes().map(u8::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_what_their_bits_say() {
        for entry in (0..=u16::MAX).filter(|entry| entry & entry >> 1 & 0x5555 == 0) {
            let digits: [u8; 8] = core::array::from_fn(|i| (entry >> (2 * i) & 3) as u8);
            assert_eq!(ternary(entry, false), digits.map(|digit| 8 * digit as i8 - 7));
            assert_eq!(ternary(entry, true), digits.map(|digit| 8 * digit as i8 - 9));
            let signs = (entry >> 3) as u8;
            let sign = |i: usize, code: i8| if signs >> i & 1 == 1 { -code } else { code };
            let want: [i8; 8] = core::array::from_fn(|i| sign(i, [8, 25, 43][usize::from(digits[i])]));
            assert_eq!(signed_2(entry, signs), want);
            let want: [i8; 8] = core::array::from_fn(|i| sign(i, [1, 15, 62, 4, 127, 7, 9, 1][i]));
            assert_eq!(signed_3(0x043e_0f01, 0x0109_077f, signs), want);
        }
    }

    #[test]
    fn eight_signs_at_once_are_those_of_each() {
        for index in 0..1 << 14 {
            // The other bytes have indices that would show bits that enter from the next byte.
            let indices = [index & 127, index >> 7, 0x55, 127, 0, index & 127, 1, index >> 7];
            let halves = |[a, b, c, d]: [u32; 4]| u64::from(a | b << 7 | c << 14 | d << 21 | 0xf000_0000);
            let [a, b, c, d, e, f, g, h] = indices;
            let found = eight_even_signs(sevens(halves([a, b, c, d]) | halves([e, f, g, h]) << 32));
            assert_eq!(found.to_le_bytes(), indices.map(even_signs));
        }
    }

    #[test]
    fn the_number_of_signs_is_even() {
        for index in 0..256 {
            let signs = even_signs(index);
            assert_eq!((signs.count_ones() % 2, u32::from(signs) & 0x7f), (0, index & 0x7f));
        }
    }
}
