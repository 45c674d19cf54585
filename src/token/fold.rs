//! Removal of accents: canonical decompositions of characters, without nonspacing marks.

use super::fold_table::{MANY, MARKS, ONE, ONE_WIDE};

/// Returns the characters of the decomposition of `c`, without nonspacing marks.
pub(super) fn unaccented(c: char) -> impl Iterator<Item = char> {
    let code = u32::from(c);
    let codes = match c {
        '\0'..='\u{7F}' => [code, 0, 0, 0],
        '\u{AC00}'..='\u{D7A3}' => syllable(code - 0xAC00),
        _ if is_mark(code) => [0; 4],
        _ => decomposed(code),
    };
    // 0 fills unused elements: the tables do not contain it, and it is not a character of a text.
    codes.into_iter().filter(|&code| code != 0).filter_map(char::from_u32)
}

/// Returns the letters of the Hangul syllable with this index.
fn syllable(index: u32) -> [u32; 4] {
    let last = index % 28;
    [0x1100 + index / 588, 0x1161 + index % 588 / 28, if last == 0 { 0 } else { 0x11A7 + last }, 0]
}

/// Returns whether a code point is a nonspacing mark.
fn is_mark(code: u32) -> bool {
    let after = MARKS.partition_point(|&range| range >> 8 <= code);
    let range = after.checked_sub(1).and_then(|index| MARKS.get(index));
    range.is_some_and(|&range| code - (range >> 8) <= range & 0xFF)
}

fn decomposed(code: u32) -> [u32; 4] {
    let narrow = |code: u32| {
        let code = u16::try_from(code).ok()?;
        let index = ONE.binary_search_by_key(&code, |&[from, _]| from).ok()?;
        Some([ONE.get(index)?[1].into(), 0, 0, 0])
    };
    let wide = |code: u32| {
        let index = ONE_WIDE.binary_search_by_key(&code, |&[from, _]| from).ok()?;
        Some([ONE_WIDE.get(index)?[1], 0, 0, 0])
    };
    let many = |code: u32| {
        let index = MANY.binary_search_by_key(&code, |&[from, ..]| from).ok()?;
        let [_, first, second, third] = *MANY.get(index)?;
        Some([first, second, third, 0])
    };
    narrow(code).or_else(|| wide(code)).or_else(|| many(code)).unwrap_or([code, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use unicode_normalization::UnicodeNormalization;
    use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

    fn is_nonspacing(c: char) -> bool {
        c.general_category() == GeneralCategory::NonspacingMark
    }

    fn expected(c: char) -> Vec<char> {
        std::iter::once(c).nfd().filter(|&c| !is_nonspacing(c)).collect()
    }

    /// Returns the ranges of nonspacing marks: the first mark times 256, plus the number of marks after it.
    fn marks() -> Vec<u32> {
        let mut ranges: Vec<u32> = Vec::new();
        for code in ('\0'..=char::MAX).filter(|&c| is_nonspacing(c)).map(u32::from) {
            match ranges.last_mut() {
                Some(last) if (*last >> 8) + (*last & 0xFF) + 1 == code && *last & 0xFF < 0xFF => *last += 1,
                _ => ranges.push(code << 8),
            }
        }
        ranges
    }

    /// Returns the text of `fold_table.rs`.
    fn table() -> String {
        let syllable = |c: char| ('\u{AC00}'..='\u{D7A3}').contains(&c);
        let changed = ('\0'..=char::MAX).filter(|&c| !is_nonspacing(c) && !syllable(c));
        let changed =
            changed.map(|c| (u32::from(c), expected(c))).filter(|(code, to)| *to != [char::from_u32(*code).unwrap()]);
        let (mut one, mut wide, mut many) = (Vec::new(), Vec::new(), Vec::new());
        for (code, to) in changed {
            match *to {
                [to] if code.max(to.into()) <= 0xFFFF => one.push(format!("[0x{code:X}, 0x{:X}]", u32::from(to))),
                [to] => wide.push(format!("[0x{code:X}, 0x{:X}]", u32::from(to))),
                _ => {
                    let place = |index: usize| to.get(index).map_or(0, |&c| u32::from(c));
                    many.push(format!("[0x{code:X}, 0x{:X}, 0x{:X}, 0x{:X}]", place(0), place(1), place(2)));
                }
            }
        }
        let marks: Vec<String> = marks().iter().map(|range| format!("0x{range:X}")).collect();
        let mut text = String::from(
            "//! Generated from Unicode 15.1 by the test `token::fold::tests::the_table_is_up_to_date`.\n",
        );
        let mut add = |doc: &str, name: &str, of: &str, rows: &[String], per_line: usize| {
            write!(text, "\n/// {doc}\n#[rustfmt::skip]\npub(super) static {name}: [{of}; {}] = [\n", rows.len())
                .unwrap();
            rows.chunks(per_line).for_each(|row| writeln!(text, "    {},", row.join(", ")).unwrap());
            text += "];\n";
        };
        add("Code points, and what is left of each.", "ONE", "[u16; 2]", &one, 7);
        add("The same, where 16 bits do not hold them.", "ONE_WIDE", "[u32; 2]", &wide, 5);
        add("Code points, and the up to three that are left of each; 0 for none.", "MANY", "[u32; 4]", &many, 3);
        add("Nonspacing marks: the first of a range, times 256, and how many follow it.", "MARKS", "u32", &marks, 11);
        text
    }

    /// `GLEED_REGENERATE=1 cargo test the_table_is_up_to_date` writes the table.
    #[test]
    fn the_table_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/token/fold_table.rs");
        if std::env::var("GLEED_REGENERATE").is_ok_and(|value| value == "1") {
            std::fs::write(path, table()).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == table(), "regenerate src/token/fold_table.rs");
        let bytes = size_of_val(&ONE) + size_of_val(&ONE_WIDE) + size_of_val(&MANY) + size_of_val(&MARKS);
        assert!(bytes <= 13 << 10, "{bytes}");
    }

    #[test]
    fn every_character_is_decomposed() {
        for c in '\u{1}'..=char::MAX {
            assert!(unaccented(c).eq(expected(c)), "{c:?}");
        }
    }
}
