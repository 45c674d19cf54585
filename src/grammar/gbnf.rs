//! Grammars in the notation of llama.cpp.

use super::ast::{Ast, Choice, Expr, List, Notation, OPEN, Part, make, rounds};
use super::class::{self, Class};
use super::code::{Rule, rule};
use super::json::{first_char, hex, syntax};
use super::regex::MOST;
use super::scratch::{Result, Scratch, mix};

// The fields of a name: its rule, where it begins and ends in the text, where it is used first, its expression, whether
// it is defined, the next name, the next name of the same bucket.
pub(super) const RULE: u32 = 0;
const START: u32 = 1;
const END: u32 = 2;
pub(super) const USED: u32 = 3;
pub(super) const BODY: u32 = 4;
pub(super) const DEFINED: u32 = 5;
pub(super) const NEXT: u32 = 6;
const CHAIN: u32 = 7;

pub(super) const BUCKETS: u32 = 256;
/// The greatest lower bound that a repetition can have. llama.cpp refuses greater ones, too.
const MOST_AT_LEAST: u32 = 2000;

/// A parser of a text in the notation.
pub(super) struct Parser<'p, 's, 't> {
    pub(super) scratch: &'p mut Scratch<'s>,
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    /// The table in which names are found.
    pub(super) table: u32,
    /// The first name, or 0.
    pub(super) first: u32,
    /// The last name, or 0.
    pub(super) last: u32,
}

impl<'s> Notation<'s> for Parser<'_, 's, '_> {
    fn scratch(&mut self) -> &mut Scratch<'s> {
        self.scratch
    }

    fn part(&mut self, _depth: usize) -> Result<Part> {
        let item = match self.peek() {
            Some(byte @ (b'|' | b'(')) => {
                self.at += 1;
                self.blanks(true);
                return Ok(if byte == b'|' { Part::Bar } else { Part::Open(0) });
            }
            Some(b'"') => self.literal()?,
            Some(b'[') => {
                let class = self.brackets()?;
                make(self.scratch, Expr::Class(class))?
            }
            Some(b'.') => {
                self.at += 1;
                let class = class::of(self.scratch, class::ANY)?;
                make(self.scratch, Expr::Class(class))?
            }
            Some(b'<' | b'!') => self.token()?,
            Some(byte) if is_name(byte) => {
                let name = self.name()?;
                make(self.scratch, Expr::Rule(self.scratch.get(name, RULE)))?
            }
            _ => return Ok(Part::End),
        };
        Ok(Part::Item(item))
    }

    fn bar(&mut self, _opened: u32) {}

    fn close(&mut self, _opened: u32) -> Result<()> {
        if self.peek() != Some(b')') {
            return self.wrong("expected )");
        }
        self.at += 1;
        Ok(())
    }

    fn repeats(&mut self, item: Ast, depth: usize) -> Result<Ast> {
        self.blanks(depth > 0);
        self.repeated(item, depth)
    }

    fn refuse(&self, text: &'static str) -> Result<Ast> {
        self.wrong(text)
    }
}

impl Parser<'_, '_, '_> {
    /// Goes on reading rules. Returns whether all are read. `name` is the name of the rule that is being read, or 0,
    /// and `choice` has the rule's alternatives.
    pub(super) fn rules(&mut self, name: &mut u32, choice: &mut Choice) -> Result<bool> {
        loop {
            if *name == 0 {
                self.blanks(true);
                if self.peek().is_none() {
                    return Ok(true);
                }
                (*name, *choice) = (self.begin_rule()?, Choice::default());
            }
            let Some(body) = self.choice(choice)? else { return Ok(false) };
            self.scratch.set(*name, BODY, body);
            *name = 0;
            if !matches!(self.peek(), None | Some(b'\n' | b'\r')) {
                return self.wrong("expected the end of the rule");
            }
        }
    }

    /// Reads a rule up to its text. Returns the record of its name.
    fn begin_rule(&mut self) -> Result<u32> {
        let begin = self.at;
        let name = self.name()?;
        self.blanks(false);
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(b"::=")) {
            return self.wrong("expected ::=");
        }
        self.at += 3;
        self.blanks(true);
        if self.scratch.get(name, DEFINED) != 0 {
            return syntax("a rule that is defined already", begin);
        }
        let rule = self.scratch.get(name, RULE);
        self.scratch.set(name, DEFINED, 1);
        self.scratch.set(rule, 1, begin as u32);
        Ok(name)
    }

    pub(super) fn root(&mut self) -> Result<Rule> {
        let mut name = self.first;
        while name != 0 {
            if self.word(name) == b"root" {
                return Ok(self.scratch.get(name, RULE));
            }
            name = self.scratch.get(name, NEXT);
        }
        syntax("no rule root", self.text.len())
    }

    fn word(&self, name: u32) -> &[u8] {
        let (start, end) = (self.scratch.get(name, START) as usize, self.scratch.get(name, END) as usize);
        self.text.get(start..end).unwrap_or(&[])
    }

    /// Reads a name and returns its record.
    fn name(&mut self) -> Result<u32> {
        let begin = self.at;
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
        let word = self.text.get(begin..self.at).unwrap_or(&[]);
        if word.is_empty() {
            return self.wrong("expected a name");
        }
        let bucket = word.iter().fold(0, |hash, byte| mix(hash, u32::from(*byte))) & (BUCKETS - 1);
        let chain = self.scratch.get(self.table, bucket);
        let mut name = chain;
        while name != 0 {
            if self.word(name) == word {
                return Ok(name);
            }
            name = self.scratch.get(name, CHAIN);
        }
        let rule = rule(self.scratch, begin)?;
        let name = self.scratch.record([rule, begin as u32, self.at as u32, begin as u32, 0, 0, 0, chain])?;
        self.scratch.set(self.table, bucket, name);
        match self.last {
            0 => self.first = name,
            last => self.scratch.set(last, NEXT, name),
        }
        self.last = name;
        Ok(name)
    }

    fn literal(&mut self) -> Result<Ast> {
        self.at += 1;
        let mut chars = List::default();
        loop {
            match self.peek() {
                None => return self.wrong("string without end"),
                Some(b'"') => break,
                Some(_) => {
                    let char = self.char()?;
                    let class = class::of(self.scratch, &[(char, char)])?;
                    let char = make(self.scratch, Expr::Class(class))?;
                    chars.push(self.scratch, char);
                }
            }
        }
        self.at += 1;
        make(self.scratch, Expr::Sequence(chars.first))
    }

    fn brackets(&mut self) -> Result<Class> {
        let begin = self.at;
        self.at += 1;
        let negated = self.peek() == Some(b'^');
        self.at += usize::from(negated);
        let mut set = 0;
        loop {
            match self.peek() {
                None => return self.wrong("class without end"),
                Some(b']') => break,
                Some(_) => {}
            }
            let place = self.at;
            let low = self.char()?;
            let mut high = low;
            if self.peek() == Some(b'-') && self.text.get(self.at.saturating_add(1)).is_some_and(|byte| *byte != b']') {
                self.at += 1;
                high = self.char()?;
            }
            if high < low {
                return syntax("a reversed range", place);
            }
            set = class::add(self.scratch, set, low, high)?;
        }
        self.at += 1;
        match (set, negated) {
            (0, false) => syntax("empty class", begin),
            (set, false) => Ok(set),
            (set, true) => class::negated(self.scratch, set),
        }
    }

    /// Reads a character or an escape.
    fn char(&mut self) -> Result<u32> {
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        let begin = self.at;
        if rest.first() != Some(&b'\\') {
            let (char, length) = first_char(rest).unwrap_or((0, 1));
            self.at += length;
            return Ok(char);
        }
        let (value, length) = match rest.get(1) {
            Some(b'x') => (rest.get(2..4).and_then(hex), 4),
            Some(b'u') => (rest.get(2..6).and_then(hex), 6),
            Some(b'U') => (rest.get(2..10).and_then(hex), 10),
            Some(b't') => (Some(9), 2),
            Some(b'r') => (Some(13), 2),
            Some(b'n') => (Some(10), 2),
            Some(b'\\') => (Some(0x5C), 2),
            Some(b'"') => (Some(0x22), 2),
            Some(b'[') => (Some(0x5B), 2),
            Some(b']') => (Some(0x5D), 2),
            Some(b'-') => (Some(0x2D), 2),
            _ => return syntax("unknown escape", begin),
        };
        let Some(value) = value else { return syntax("expected hexadecimal digits", begin) };
        if char::from_u32(value).is_none() {
            return syntax("no code point", begin);
        }
        self.at += length;
        Ok(value)
    }

    /// Reads `<[id]>` or `!<[id]>`.
    fn token(&mut self) -> Result<Ast> {
        let negated = self.peek() == Some(b'!');
        self.at += usize::from(negated);
        for byte in *b"<[" {
            if self.peek() != Some(byte) {
                return self.wrong("expected <[ and the id of a token");
            }
            self.at += 1;
        }
        let id = self.number(u32::MAX - 1)?;
        for byte in *b"]>" {
            if self.peek() != Some(byte) {
                return self.wrong("expected ]>");
            }
            self.at += 1;
        }
        make(self.scratch, Expr::Token(id, negated))
    }

    fn repeated(&mut self, item: Ast, depth: usize) -> Result<Ast> {
        let mut item = item;
        while let Some(byte) = self.peek() {
            let begin = self.at;
            let (min, max) = match byte {
                b'*' => (0, OPEN),
                b'+' => (1, OPEN),
                b'?' => (0, 1),
                b'{' => self.count()?,
                _ => break,
            };
            if byte != b'{' {
                self.at += 1;
            }
            self.blanks(depth > 0);
            item = make(self.scratch, Expr::Repeat(item, min, max))?;
            if min > MOST_AT_LEAST || rounds(self.scratch, item) > MOST {
                return syntax("number too large", begin);
            }
        }
        Ok(item)
    }

    fn count(&mut self) -> Result<(u32, u32)> {
        let begin = self.at;
        self.at += 1;
        self.blanks(true);
        let min = if self.peek() == Some(b',') { 0 } else { self.number(MOST)? };
        self.blanks(true);
        let mut max = min;
        if self.peek() == Some(b',') {
            self.at += 1;
            self.blanks(true);
            max = if self.peek() == Some(b'}') { OPEN } else { self.number(MOST)? };
            self.blanks(true);
        }
        if self.peek() != Some(b'}') {
            return self.wrong("expected }");
        }
        self.at += 1;
        if max < min { syntax("a reversed count", begin) } else { Ok((min, max)) }
    }

    fn number(&mut self, most: u32) -> Result<u32> {
        let begin = self.at;
        let mut value = 0_u32;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            value = value.saturating_mul(10).saturating_add(u32::from(digit & 15));
            self.at += 1;
        }
        if self.at == begin {
            return self.wrong("expected a number");
        }
        if value > most { syntax("number too large", begin) } else { Ok(value) }
    }

    /// Skips blanks and comments. It skips line ends only if `lines` is set, where a rule goes on behind them.
    fn blanks(&mut self, lines: bool) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\r' | b'\n' if lines => self.at += 1,
                b'#' => {
                    while self.peek().is_some_and(|byte| !matches!(byte, b'\r' | b'\n')) {
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T> {
        syntax(what, self.at)
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}
