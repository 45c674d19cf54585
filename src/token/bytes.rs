//! The alphabet of byte-level BPE: a visible character for each byte.
//!
//! A byte that is a visible character of Latin-1 stands for itself. The other bytes, in increasing order, are the
//! characters from U+0100 on.

/// End of the code points of the alphabet.
const END: usize = 256 + 68;

const CHAR_OF: [u16; 256] = chars();
static BYTE_OF: [u16; END] = bytes();
static UTF_8_OF: [[u8; 2]; 256] = utf_8();

/// Entry of a character that is not in the alphabet.
const NO_BYTE: u16 = 256;

#[allow(clippy::indexing_slicing)] // evaluated by the compiler
const fn chars() -> [u16; 256] {
    let mut chars = [0; 256];
    let mut next = 256;
    let mut byte = 0;
    while byte < 256 {
        let visible = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        chars[byte] = if visible { byte as u16 } else { next };
        next += !visible as u16;
        byte += 1;
    }
    chars
}

#[allow(clippy::indexing_slicing)] // evaluated by the compiler
const fn bytes() -> [u16; END] {
    let mut bytes = [NO_BYTE; END];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHAR_OF[byte] as usize] = byte as u16;
        byte += 1;
    }
    bytes
}

#[allow(clippy::indexing_slicing)] // evaluated by the compiler
const fn utf_8() -> [[u8; 2]; 256] {
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        let code = CHAR_OF[byte];
        // Two bytes always suffice: the codes are below 2^11.
        let two = [(0xC0 | code >> 6) as u8, (0x80 | code & 0x3F) as u8];
        all[byte] = if code < 0x80 { [code as u8, 0] } else { two };
        byte += 1;
    }
    all
}

/// Returns the UTF-8 bytes of the character of `byte`. The second byte is 0 if the character has only one.
#[inline]
pub(super) fn encode(byte: u8) -> [u8; 2] {
    UTF_8_OF.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Returns the byte of a character of the alphabet.
pub(super) fn decode(c: char) -> Option<u8> {
    BYTE_OF.get(u32::from(c) as usize).and_then(|&byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_one_to_one() {
        let mut chars = Vec::new();
        for byte in 0..=255 {
            let c = String::from_utf8(encode(byte).into_iter().filter(|&byte| byte != 0).collect())
                .unwrap()
                .parse::<char>()
                .unwrap();
            assert_eq!(decode(c), Some(byte));
            chars.push(c);
        }
        assert_eq!((chars[0], chars[usize::from(b'\n')], chars[usize::from(b' ')], chars[0xAD]), ('Ā', 'Ċ', 'Ġ', 'Ń'));
        assert_eq!((chars[usize::from(b'a')], chars[0xE9]), ('a', 'é'));
        assert_eq!((0..=0x10_FFFF).filter_map(char::from_u32).filter_map(decode).count(), 256);
    }
}
