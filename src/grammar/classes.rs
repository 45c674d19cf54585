//! Classes and escapes of regular expressions.

use super::class::{self, Class};
use super::json::hex;
use super::regex::Parser;
use super::scratch::Result;

impl<I: Iterator<Item = u32> + Clone> Parser<'_, '_, I> {
    /// Reads a class behind its bracket.
    pub(super) fn brackets(&mut self) -> Result<Class> {
        let begin = self.clone_place();
        let negated = self.take('^');
        let mut set = 0;
        loop {
            let Some(char) = self.peek() else { return self.wrong_at("class without end", begin) };
            if char == ']' {
                break;
            }
            let place = self.clone_place();
            self.bump();
            let first = self.bracket_item(char)?;
            let (low, high, more) = class::range_of(self.scratch, first).unwrap_or((1, 0, 1));
            let is_range = self.peek() == Some('-') && !self.closes_behind() && more == 0 && low == high;
            if !is_range {
                set = self.join(set, first)?;
                continue;
            }
            self.bump();
            let Some(last) = self.peek() else { return self.wrong_at("class without end", begin) };
            self.bump();
            let last = self.bracket_item(last)?;
            match class::range_of(self.scratch, last) {
                Some((end, same, 0)) if end == same && end >= low => set = class::add(self.scratch, set, low, end)?,
                _ => return self.wrong_at("a reversed range", place),
            }
        }
        self.bump();
        if self.any_case {
            set = class::both_cases(self.scratch, set)?;
        }
        if negated { class::negated(self.scratch, set) } else { Ok(set) }
    }

    fn closes_behind(&self) -> bool {
        self.rest.clone().nth(1) == Some(u32::from(']'))
    }

    fn bracket_item(&mut self, char: char) -> Result<Class> {
        if char == '\\' {
            return self.escape(true);
        }
        class::of(self.scratch, &[(u32::from(char), u32::from(char))])
    }

    fn join(&mut self, set: Class, other: Class) -> Result<Class> {
        let (mut set, mut range) = (set, other);
        while let Some((low, high, next)) = class::range_of(self.scratch, range) {
            set = class::add(self.scratch, set, low, high)?;
            range = next;
        }
        Ok(set)
    }

    /// Reads an escape behind its backslash.
    pub(super) fn escape(&mut self, in_class: bool) -> Result<Class> {
        let place = self.clone_place();
        let Some(char) = self.peek() else { return self.wrong("unknown escape") };
        self.bump();
        let ranges = match char {
            'd' | 'D' => class::DIGIT,
            'w' | 'W' => class::WORD,
            's' | 'S' => class::SPACE,
            'b' if in_class => &[(8, 8)],
            'b' | 'B' => return self.unsupported("word boundary", place),
            '1'..='9' => return self.unsupported("back reference", place),
            'k' => return self.unsupported("back reference", place),
            'p' | 'P' => return self.unsupported("Unicode property", place),
            _ => {
                let value = self.escaped_char(char, place)?;
                let class = class::of(self.scratch, &[(value, value)])?;
                return if self.any_case { class::both_cases(self.scratch, class) } else { Ok(class) };
            }
        };
        let class = class::of(self.scratch, ranges)?;
        if char.is_ascii_uppercase() { class::negated(self.scratch, class) } else { Ok(class) }
    }

    fn escaped_char(&mut self, char: char, place: usize) -> Result<u32> {
        let value = match char {
            't' => 9,
            'n' => 10,
            'v' => 11,
            'f' => 12,
            'r' => 13,
            '0' => 0,
            'x' => self.hex(2)?,
            'u' if self.take('{') => self.braced()?,
            'u' => self.pair()?,
            'a'..='z' | 'A'..='Z' => return self.wrong_at("unknown escape", place),
            other => u32::from(other),
        };
        if char::from_u32(value).is_none() { self.wrong_at("no code point", place) } else { Ok(value) }
    }

    /// Reads four digits, and those of a low surrogate behind a high one.
    fn pair(&mut self) -> Result<u32> {
        let high = self.hex(4)?;
        if !(0xD800..0xDC00).contains(&high) || !self.take('\\') || !self.take('u') {
            return Ok(high);
        }
        let low = self.hex(4)?;
        Ok(if (0xDC00..0xE000).contains(&low) { 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00) } else { high })
    }

    fn hex(&mut self, digits: usize) -> Result<u32> {
        let mut text = [0; 4];
        let places = text.get_mut(..digits).unwrap_or(&mut []);
        for place in &mut *places {
            *place = self.peek().and_then(|char| u8::try_from(char).ok()).unwrap_or(0);
            self.bump();
        }
        match hex(places) {
            Some(value) => Ok(value),
            None => self.wrong("expected hexadecimal digits"),
        }
    }

    fn braced(&mut self) -> Result<u32> {
        let mut value = 0_u32;
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(16)) {
            value = value.saturating_mul(16).saturating_add(digit);
            self.bump();
        }
        if self.take('}') { Ok(value) } else { self.wrong("expected }") }
    }
}
