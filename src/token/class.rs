//! Classes of code points that the pre-tokenizers tell apart.

use super::class_table::{BLOCK_OF, BLOCKS, END};

/// What a pre-tokenizer sees of a code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Everything else, unassigned code points included.
    Other,
    /// `\p{L}`
    Letter,
    /// `\p{N}`
    Number,
    /// `\s`: the property White_Space.
    Space,
}

/// Code points per block of the table.
const BLOCK: u32 = 128;

impl Class {
    /// The class in Unicode 15.1, the version of llama.cpp's tables.
    pub(super) fn of(c: char) -> Self {
        let code = u32::from(c);
        if code >= END {
            return Self::Other;
        }
        let block = BLOCK_OF.get((code / BLOCK) as usize).map_or(0, |&block| usize::from(block));
        let words = BLOCKS.get(block).map_or(&[0; 4], |words| words);
        let bits = words.get((code % BLOCK / 32) as usize).map_or(0, |&bits| bits);
        match (bits >> (2 * (code % 32))) & 3 {
            1 => Self::Letter,
            2 => Self::Number,
            3 => Self::Space,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use unicode_properties::{GeneralCategoryGroup, UNICODE_VERSION, UnicodeGeneralCategory};

    fn expected(c: char) -> Class {
        match c.general_category_group() {
            _ if c.is_whitespace() => Class::Space,
            GeneralCategoryGroup::Letter => Class::Letter,
            GeneralCategoryGroup::Number => Class::Number,
            _ => Class::Other,
        }
    }

    /// The text of `class_table.rs`.
    fn table() -> String {
        let class = |code: u32| char::from_u32(code).map_or(Class::Other, expected);
        let end = (0..=0x10_FFFF).rev().find(|&code| class(code) != Class::Other).unwrap() + 1;
        let end = end.next_multiple_of(BLOCK);
        let mut blocks = Vec::new();
        let mut block_of = Vec::new();
        for first in (0..end).step_by(BLOCK as usize) {
            let word = |start| (0..32).fold(0u64, |bits, i| bits | (class(start + i) as u64) << (2 * i));
            let words = [0, 32, 64, 96].map(|start| word(first + start));
            let index = blocks.iter().position(|&block| block == words).unwrap_or_else(|| {
                blocks.push(words);
                blocks.len() - 1
            });
            block_of.push(u8::try_from(index).unwrap());
        }
        let (major, minor, _) = UNICODE_VERSION;
        let mut text = format!(
            "//! Generated from Unicode {major}.{minor} by the test `token::class::tests::the_table_is_up_to_date`.\n\n\
             /// Code points from here on are `Other`.\n\
             pub(super) const END: u32 = 0x{end:X};\n\n\
             /// The block of each 128 code points.\n\
             #[rustfmt::skip]\n\
             pub(super) static BLOCK_OF: [u8; {}] = [\n",
            block_of.len()
        );
        for row in block_of.chunks(24) {
            let row: Vec<_> = row.iter().map(u8::to_string).collect();
            writeln!(text, "    {},", row.join(", ")).unwrap();
        }
        write!(
            text,
            "];\n\n\
             /// Two bits per code point, the lowest first: other, letter, number, space.\n\
             #[rustfmt::skip]\n\
             pub(super) static BLOCKS: [[u64; 4]; {}] = [\n",
            blocks.len()
        )
        .unwrap();
        for [a, b, c, d] in blocks {
            writeln!(text, "    [0x{a:016X}, 0x{b:016X}, 0x{c:016X}, 0x{d:016X}],").unwrap();
        }
        text + "];\n"
    }

    /// `GLEED_REGENERATE=1 cargo test the_table_is_up_to_date` writes the table.
    #[test]
    fn the_table_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/token/class_table.rs");
        if std::env::var("GLEED_REGENERATE").is_ok_and(|value| value == "1") {
            std::fs::write(path, table()).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == table(), "regenerate src/token/class_table.rs");
        assert!(size_of_val(&BLOCK_OF) + size_of_val(&BLOCKS) <= 12 << 10);
    }

    #[test]
    fn every_code_point_has_its_class() {
        for c in '\0'..=char::MAX {
            assert_eq!(Class::of(c), expected(c), "{c:?}");
            assert_eq!(Class::of(c) == Class::Space, c.is_whitespace(), "{c:?}");
            // The standard library knows later versions of Unicode: more letters and numbers, never fewer.
            match Class::of(c) {
                Class::Letter => assert!(c.is_alphabetic(), "{c:?}"),
                Class::Number => assert!(c.is_numeric(), "{c:?}"),
                _ => {}
            }
        }
    }
}
