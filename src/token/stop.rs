//! Strings that end a text, found while it arrives piece by piece.

use core::fmt;

/// The most strings that [`StopStrings`] looks for.
pub const MAX_STOPS: usize = 16;

/// The most bytes of a string that [`StopStrings`] looks for.
pub const MAX_STOP_LEN: usize = 256;

/// Finds the first of several strings in a text that arrives in pieces, wherever the pieces end. Text that could be the
/// beginning of a string is held back until this is known.
///
/// [Example](crate::token#where-a-text-ends).
#[derive(Clone, Debug)]
pub struct StopStrings<'s> {
    strings: heapless::Vec<Partial<'s>, MAX_STOPS>,
    found: Option<usize>,
}

/// The text that can be shown after a piece.
///
/// [Example](crate::token#where-a-text-ends).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown<'s, 't> {
    /// Text of earlier pieces that was held back and can be shown now.
    pub held: &'s str,
    /// Text of this piece that follows `held`: the beginning of the piece, or all of it.
    pub text: &'t str,
    /// The index of the string that ends the text here. Nothing is shown after it.
    pub stop: Option<usize>,
}

impl<'s> StopStrings<'s> {
    /// Returns a finder of these strings. If there are none, all text is shown.
    ///
    /// # Errors
    /// [`StopError`]: a string is empty or too long, or there are too many strings.
    pub fn new(strings: &[&'s str]) -> Result<Self, StopError> {
        let wrong = |string: &str| string.is_empty() || string.len() > MAX_STOP_LEN;
        if let Some((index, string)) = strings.iter().enumerate().find(|(_, string)| wrong(string)) {
            return Err(StopError::Length { index, given: string.len(), limit: MAX_STOP_LEN });
        }
        let mut finder = Self { strings: heapless::Vec::new(), found: None };
        for text in strings {
            let too_many = StopError::TooMany { given: strings.len(), limit: MAX_STOPS };
            finder.strings.push(Partial { text, matched: 0 }).map_err(|_| too_many)?;
        }
        Ok(finder)
    }

    /// Takes the next piece of the text. Returns the text that can be shown now.
    pub fn push<'t>(&mut self, piece: &'t str) -> Shown<'s, 't> {
        if self.found.is_some() {
            return Shown { stop: self.found, ..Shown::default() };
        }
        let held = self.held();
        let mut end = piece.len();
        for (&byte, len) in piece.as_bytes().iter().zip(1..) {
            self.strings.iter_mut().for_each(|string| string.push(byte));
            let complete = self.strings.iter().enumerate().filter(|(_, string)| string.is_complete());
            if let Some((index, string)) = complete.max_by_key(|(_, string)| string.matched) {
                (self.found, end) = (Some(index), (held.len() + len).saturating_sub(string.matched));
                break;
            }
        }
        if self.found.is_none() {
            end = (held.len() + piece.len()).saturating_sub(self.held().len());
        }
        // `end` is the boundary of a character: strings begin with a character, and so does the text that is held back.
        Shown {
            held: held.get(..end.min(held.len())).unwrap_or_default(),
            text: piece.get(..end.saturating_sub(held.len())).unwrap_or_default(),
            stop: self.found,
        }
    }

    /// Returns the text that was held back when the text ends, and begins again.
    pub fn finish(&mut self) -> &'s str {
        let held = if self.found.is_none() { self.held() } else { "" };
        self.strings.iter_mut().for_each(|string| string.matched = 0);
        self.found = None;
        held
    }

    /// Returns the longest end of the text that could be the beginning of one of the strings.
    fn held(&self) -> &'s str {
        let longest = self.strings.iter().max_by_key(|string| string.matched);
        longest.and_then(|string| string.text.get(..string.matched)).unwrap_or_default()
    }
}

/// A string, and the number of its first bytes that the text ends with.
#[derive(Clone, Copy, Debug)]
struct Partial<'s> {
    text: &'s str,
    matched: usize,
}

impl Partial<'_> {
    fn is_complete(&self) -> bool {
        self.matched == self.text.len()
    }

    fn push(&mut self, byte: u8) {
        while self.text.as_bytes().get(self.matched) != Some(&byte) {
            if self.matched == 0 {
                return;
            }
            self.matched = self.shorter();
        }
        self.matched += 1;
    }

    /// Returns the length of the next shorter beginning of the string that the text ends with.
    fn shorter(&self) -> usize {
        let matched = self.text.as_bytes().get(..self.matched).unwrap_or_default();
        let ends = |&len: &usize| matched.get(..len).is_some_and(|start| matched.ends_with(start));
        (1..self.matched).rev().find(ends).unwrap_or(0)
    }
}

/// Why strings cannot be looked for.
///
/// [Example](crate::token#where-a-text-ends).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopError {
    /// There are too many strings.
    TooMany {
        /// Number of strings given.
        given: usize,
        /// [`MAX_STOPS`].
        limit: usize,
    },
    /// A string is empty or too long.
    Length {
        /// Index of the first such string.
        index: usize,
        /// Its length in bytes.
        given: usize,
        /// [`MAX_STOP_LEN`].
        limit: usize,
    },
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooMany { given, limit } => write!(f, "at most {limit} stop strings, {given} given"),
            Self::Length { index, given, limit } => {
                write!(f, "stop string {index} has {given} bytes, it must have from 1 to {limit}")
            }
        }
    }
}

impl core::error::Error for StopError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text before the stop string whose end comes first, and its index. The longest string that ends there
    /// counts.
    fn expected<'t>(text: &'t str, strings: &[&str]) -> (&'t str, Option<usize>) {
        for end in 0..=text.len() {
            let ends = |&(_, string): &(usize, &&str)| text.as_bytes()[..end].ends_with(string.as_bytes());
            let found = strings.iter().enumerate().filter(ends).max_by_key(|(_, string)| string.len());
            if let Some((index, string)) = found {
                return (&text[..end - string.len()], Some(index));
            }
        }
        (text, None)
    }

    #[test]
    fn pieces_may_end_anywhere() {
        let sets: [&[&str]; 6] =
            [&[], &["abab"], &["aabaab", "b"], &["abaa", "baab", "aaa"], &["ä€", "äb", "€€ä"], &["abcabd", "bcabc"]];
        let letters = [["a", "b", "c"], ["ä", "€", "b"]];
        for strings in sets {
            for number in 0..3_usize.pow(9) {
                let alphabet = letters[usize::from(strings.concat().contains('€'))];
                let text: String = (0..9).map(|i| alphabet[number / 3_usize.pow(i) % 3]).collect();
                let mut stops = StopStrings::new(strings).unwrap();
                let (mut shown, mut found) = (String::new(), None);
                let mut rest = text.as_str();
                while !rest.is_empty() && found.is_none() {
                    // Pieces of 1 to 3 characters.
                    let len = rest.chars().take(1 + (number + rest.len()) % 3).map(char::len_utf8).sum();
                    let (piece, after) = rest.split_at(len);
                    let new = stops.push(piece);
                    shown.extend([new.held, new.text]);
                    (found, rest) = (new.stop, after);
                }
                if found.is_some() {
                    assert_eq!(stops.push("more"), Shown { stop: found, ..Shown::default() });
                }
                shown.push_str(stops.finish());
                assert_eq!((shown.as_str(), found), expected(&text, strings), "{text} {strings:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_looked_for() {
        let long = "x".repeat(MAX_STOP_LEN + 1);
        assert!(StopStrings::new(&[&long[1..]; MAX_STOPS]).is_ok());
        let wrong = |strings: &[&str]| StopStrings::new(strings).unwrap_err();
        assert_eq!(wrong(&["a"; 17]), StopError::TooMany { given: 17, limit: MAX_STOPS });
        assert_eq!(wrong(&["a", ""]).to_string(), "stop string 1 has 0 bytes, it must have from 1 to 256");
        assert_eq!(wrong(&[&long]), StopError::Length { index: 0, given: 257, limit: MAX_STOP_LEN });
    }
}
