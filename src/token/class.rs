//! Classes of code points that the pre-tokenizers tell apart.

use super::class_table::{BLOCK_OF, BLOCKS, END};

/// The class of a code point: its general category, where categories that no rule tells apart are one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// Everything else: control characters, formats, unassigned code points.
    Other = 0,
    /// `\p{Lu}` and `\p{Lt}`
    Upper = 1,
    /// `\p{Ll}`
    Lower = 2,
    /// `\p{Lm}` and `\p{Lo}`
    Caseless = 3,
    /// `\p{M}`
    Mark = 4,
    /// `\p{N}`
    Number = 5,
    /// `\p{P}`
    Punctuation = 6,
    /// `\p{S}`
    Symbol = 7,
    /// `\s`: the property White_Space.
    Space = 8,
}

/// Code points per block of the table.
const BLOCK: u32 = 128;

/// The code points after the end of the table that are not `Other`. They are marks.
const VARIATION_SELECTORS: core::ops::RangeInclusive<u32> = 0xE0100..=0xE01EF;

/// The classes of the ASCII characters.
static ASCII: [u8; BLOCK as usize] = ascii();

#[allow(clippy::indexing_slicing)] // evaluated by the compiler
const fn ascii() -> [u8; BLOCK as usize] {
    let words = BLOCKS[BLOCK_OF[0] as usize];
    let mut classes = [0; BLOCK as usize];
    let mut code = 0;
    while code < classes.len() {
        classes[code] = (words[code / 16] >> (4 * (code % 16)) & 15) as u8;
        code += 1;
    }
    classes
}

impl Class {
    /// Returns the class in Unicode 15.1, the version of llama.cpp's tables.
    #[inline]
    pub(super) fn of(c: char) -> Self {
        let code = u32::from(c);
        if code >= END {
            return if VARIATION_SELECTORS.contains(&code) { Self::Mark } else { Self::Other };
        }
        let block = BLOCK_OF.get((code / BLOCK) as usize).map_or(0, |&block| usize::from(block));
        let words = BLOCKS.get(block).map_or(&[0; 8], |words| words);
        let bits = words.get((code % BLOCK / 16) as usize).map_or(0, |&bits| bits);
        match (bits >> (4 * (code % 16))) & 15 {
            1 => Self::Upper,
            2 => Self::Lower,
            3 => Self::Caseless,
            4 => Self::Mark,
            5 => Self::Number,
            6 => Self::Punctuation,
            7 => Self::Symbol,
            8 => Self::Space,
            _ => Self::Other,
        }
    }
}

/// A set of classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set(u16);

impl Set {
    pub(super) const UPPER: Self = Self(1 << Class::Upper as u16);
    pub(super) const LOWER: Self = Self(1 << Class::Lower as u16);
    pub(super) const CASELESS: Self = Self(1 << Class::Caseless as u16);
    pub(super) const MARK: Self = Self(1 << Class::Mark as u16);
    pub(super) const NUMBER: Self = Self(1 << Class::Number as u16);
    pub(super) const PUNCTUATION: Self = Self(1 << Class::Punctuation as u16);
    pub(super) const SYMBOL: Self = Self(1 << Class::Symbol as u16);
    pub(super) const SPACE: Self = Self(1 << Class::Space as u16);
    /// `\p{L}`
    pub(super) const LETTER: Self = Self::UPPER.or(Self::LOWER).or(Self::CASELESS);

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set of all other classes.
    pub(super) const fn not(self) -> Self {
        Self(!self.0)
    }

    #[inline]
    pub(super) fn has(self, c: char) -> bool {
        self.0 >> (Class::of(c) as u16) & 1 == 1
    }

    /// Returns the number of ASCII characters of this set at the start of `text`.
    #[inline]
    pub(super) fn ascii_run(self, text: &str) -> usize {
        text.bytes()
            .take_while(|&byte| ASCII.get(usize::from(byte)).is_some_and(|&class| self.0 >> class & 1 == 1))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use unicode_properties::{GeneralCategory, UNICODE_VERSION, UnicodeGeneralCategory};

    fn expected(c: char) -> Class {
        use GeneralCategory as G;
        match c.general_category() {
            _ if c.is_whitespace() => Class::Space,
            G::UppercaseLetter | G::TitlecaseLetter => Class::Upper,
            G::LowercaseLetter => Class::Lower,
            G::ModifierLetter | G::OtherLetter => Class::Caseless,
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Class::Mark,
            G::DecimalNumber | G::LetterNumber | G::OtherNumber => Class::Number,
            G::ConnectorPunctuation
            | G::DashPunctuation
            | G::OpenPunctuation
            | G::ClosePunctuation
            | G::InitialPunctuation
            | G::FinalPunctuation
            | G::OtherPunctuation => Class::Punctuation,
            G::MathSymbol | G::CurrencySymbol | G::ModifierSymbol | G::OtherSymbol => Class::Symbol,
            _ => Class::Other,
        }
    }

    /// Returns the text of `class_table.rs`.
    fn table() -> String {
        let class = |code: u32| char::from_u32(code).map_or(Class::Other, expected);
        let in_table = |code: &u32| class(*code) != Class::Other && !VARIATION_SELECTORS.contains(code);
        let end = (0..=0x10_FFFF).rev().find(in_table).unwrap() + 1;
        let end = end.next_multiple_of(BLOCK);
        let mut blocks = Vec::new();
        let mut block_of = Vec::new();
        for first in (0..end).step_by(BLOCK as usize) {
            let word = |start| (0..16).fold(0u64, |bits, i| bits | (class(start + i) as u64) << (4 * i));
            let words: [u64; 8] = std::array::from_fn(|index| word(first + 16 * index as u32));
            let index = blocks.iter().position(|&block| block == words).unwrap_or_else(|| {
                blocks.push(words);
                blocks.len() - 1
            });
            block_of.push(u8::try_from(index).unwrap());
        }
        let (major, minor, _) = UNICODE_VERSION;
        let mut text = format!(
            "//! Generated from Unicode {major}.{minor} by the test `token::class::tests::the_table_is_up_to_date`.\n\n\
             /// Code points from here on are not in the table.\n\
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
             /// Four bits per code point, the lowest first: the numbers of `Class`.\n\
             #[rustfmt::skip]\n\
             pub(super) static BLOCKS: [[u64; 8]; {}] = [\n",
            blocks.len()
        )
        .unwrap();
        for words in blocks {
            let words = words.map(|word| format!("0x{word:X}"));
            writeln!(text, "    [{}],", words.join(", ")).unwrap();
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
        assert!(size_of_val(&BLOCK_OF) + size_of_val(&BLOCKS) <= 18 << 10);
    }

    #[test]
    fn every_code_point_has_its_class() {
        for c in '\0'..=char::MAX {
            assert_eq!(Class::of(c), expected(c), "{c:?}");
            assert_eq!(Set::SPACE.has(c), c.is_whitespace(), "{c:?}");
            // The standard library knows later versions of Unicode: more letters and numbers, never fewer.
            assert!(!Set::LETTER.has(c) || c.is_alphabetic(), "{c:?}");
            assert!(!Set::NUMBER.has(c) || c.is_numeric(), "{c:?}");
        }
    }
}
