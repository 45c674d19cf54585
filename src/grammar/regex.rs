//! Regular expressions: from text to an expression.

use super::anchors::Anchors;
use super::ast::{Ast, Choice, Expr, Notation, OPEN, Part, make};
use super::class;
use super::error::{ErrorKind, GrammarError};
use super::json::syntax;
use super::scratch::{Result, Scratch};

/// The most repetitions that a count may say.
pub(super) const MOST: u32 = 65_535;

/// A parser of a regular expression, which is given as an iterator of characters.
pub(super) struct Parser<'p, 's, I: Iterator<Item = u32> + Clone> {
    pub(super) scratch: &'p mut Scratch<'s>,
    pub(super) rest: I,
    /// Number of bytes of the characters that were read.
    read: usize,
    /// Byte offset of the expression, for errors.
    at: usize,
    /// Whether the expression is the whole source. Then an error has the offset of its character, and anchors stand at
    /// the ends only. Otherwise the expression is a string of JSON, whose errors all have the offset of its beginning.
    spread: bool,
    pub(super) any_case: bool,
    dot_is_all: bool,
    anchors: Anchors,
}

/// The state of a parser of a whole source between two pieces of work.
#[derive(Clone)]
pub(super) struct Place<I> {
    pub(super) rest: I,
    read: usize,
    flags: u32,
    anchors: Anchors,
}

impl<I> Place<I> {
    pub(super) fn new(rest: I) -> Self {
        Self { rest, read: 0, flags: 0, anchors: Anchors::default() }
    }
}

impl<'s, I: Iterator<Item = u32> + Clone> Notation<'s> for Parser<'_, 's, I> {
    fn scratch(&mut self) -> &mut Scratch<'s> {
        self.scratch
    }

    fn part(&mut self, _depth: usize) -> Result<Part> {
        match self.peek() {
            None | Some(')') => Ok(Part::End),
            Some('|') => {
                self.bump();
                self.anchors.bar();
                Ok(Part::Bar)
            }
            Some(char) => self.atom(char),
        }
    }

    /// Flags that were set in an alternative hold to its end.
    fn bar(&mut self, opened: u32) {
        self.set_flags(opened);
    }

    fn close(&mut self, opened: u32) -> Result<()> {
        if !self.take(')') {
            return self.wrong("expected )");
        }
        self.set_flags(opened >> 2);
        self.anchors.close();
        Ok(())
    }

    fn repeats(&mut self, item: Ast, _depth: usize) -> Result<Ast> {
        self.repeated(item)
    }

    fn refuse(&self, text: &'static str) -> Result<Ast> {
        self.wrong(text)
    }
}

impl<'p, 's, I: Iterator<Item = u32> + Clone> Parser<'p, 's, I> {
    /// Returns a parser of an expression whose text is at `at`, such as the pattern of a schema.
    pub(super) fn new(scratch: &'p mut Scratch<'s>, chars: I, at: usize, spread: bool) -> Self {
        let anchors = Anchors::default();
        Self { scratch, rest: chars, read: 0, at, spread, any_case: false, dot_is_all: false, anchors }
    }

    /// Reads the whole text at once.
    pub(super) fn parse(mut self) -> Result<Ast> {
        let mut choice = Choice::default();
        loop {
            if let Some(ast) = self.go_on(&mut choice)? {
                return Ok(ast);
            }
            self.scratch.begin_unit();
        }
    }

    /// Goes on with the text. Returns the expression at its end.
    pub(super) fn go_on(&mut self, choice: &mut Choice) -> Result<Option<Ast>> {
        let Some(ast) = self.choice(choice)? else { return Ok(None) };
        match self.peek() {
            None => Ok(Some(ast)),
            Some(_) => self.wrong("a ) without ("),
        }
    }

    /// Returns a parser that goes on where another one has stopped. [`Parser::place`] of that one returns `place`.
    pub(super) fn resumed(scratch: &'p mut Scratch<'s>, place: Place<I>) -> Self {
        let Place { rest, read, flags, anchors } = place;
        let mut parser = Self { scratch, rest, read, at: 0, spread: true, any_case: false, dot_is_all: false, anchors };
        parser.set_flags(flags);
        parser
    }

    pub(super) fn place(self) -> Place<I> {
        Place { flags: self.flags(), rest: self.rest, read: self.read, anchors: self.anchors }
    }

    fn atom(&mut self, char: char) -> Result<Part> {
        let begin = self.clone_place();
        self.bump();
        let expr = match char {
            '(' => return self.group(),
            '[' => Expr::Class(self.brackets()?),
            '.' if self.dot_is_all => Expr::Class(class::of(self.scratch, class::ANY)?),
            '.' => {
                let line_feed = class::of(self.scratch, &[(10, 10)])?;
                Expr::Class(class::negated(self.scratch, line_feed)?)
            }
            '^' => Expr::Begin,
            '$' => Expr::End,
            '\\' => Expr::Class(self.escape(false)?),
            '*' | '+' | '?' => return self.wrong_at("nothing to repeat", begin),
            '{' if self.is_count() => return self.wrong_at("nothing to repeat", begin),
            other => self.literal(u32::from(other))?,
        };
        if !self.stands(expr) && self.spread {
            return self.unsupported("an anchor within the text", begin);
        }
        make(self.scratch, expr).map(Part::Item)
    }

    /// Notes a part. Returns whether it can stand here if the expression is a whole text.
    fn stands(&mut self, part: Expr) -> bool {
        match part {
            Expr::Begin => self.anchors.begin(),
            Expr::End => {
                self.anchors.end();
                true
            }
            _ => self.anchors.part(),
        }
    }

    fn literal(&mut self, char: u32) -> Result<Expr> {
        let class = class::of(self.scratch, &[(char, char)])?;
        Ok(Expr::Class(if self.any_case { class::both_cases(self.scratch, class)? } else { class }))
    }

    /// Reads what stands behind an opening parenthesis: a group, or flags that hold from here on. The number of a group
    /// has the flags within it and, above them, the flags outside.
    fn group(&mut self) -> Result<Part> {
        let outside = self.flags();
        let begin = self.clone_place();
        if self.take('?') {
            match self.peek() {
                Some('=' | '!') => return self.unsupported("look-around", begin),
                Some('<' | 'P') => self.group_name(begin)?,
                Some(':') => self.bump(),
                _ if self.set()? => return Ok(Part::Nothing),
                _ => {}
            }
        }
        self.anchors.open();
        Ok(Part::Open(self.flags() | outside << 2))
    }

    fn flags(&self) -> u32 {
        u32::from(self.any_case) | u32::from(self.dot_is_all) << 1
    }

    fn set_flags(&mut self, flags: u32) {
        (self.any_case, self.dot_is_all) = (flags & 1 != 0, flags & 2 != 0);
    }

    fn group_name(&mut self, begin: usize) -> Result<()> {
        self.take('P');
        if !self.take('<') {
            return self.unsupported("back reference", begin);
        }
        if matches!(self.peek(), Some('=' | '!')) {
            return self.unsupported("look-around", begin);
        }
        let mut letters = 0;
        while let Some(char) = self.peek().filter(|char| char.is_ascii_alphanumeric() || *char == '_') {
            letters += usize::from(!char.is_ascii_digit() || letters > 0);
            self.bump();
        }
        if letters == 0 || !self.take('>') { self.wrong("expected the name of a group") } else { Ok(()) }
    }

    /// Reads flags. Returns whether they hold from here on, instead of for a group.
    fn set(&mut self) -> Result<bool> {
        let mut on = true;
        loop {
            let Some(char) = self.peek() else { return self.wrong("expected )") };
            let place = self.clone_place();
            self.bump();
            match char {
                'i' => self.any_case = on,
                's' => self.dot_is_all = on,
                '-' => on = false,
                ':' => return Ok(false),
                ')' => return Ok(true),
                _ => return self.unsupported("this flag", place),
            }
        }
    }

    fn repeated(&mut self, atom: Ast) -> Result<Ast> {
        let mut atom = atom;
        let mut count = 0;
        while let Some(char) = self.peek() {
            let begin = self.clone_place();
            let (min, max) = match char {
                '*' => (0, OPEN),
                '+' => (1, OPEN),
                '?' => (0, 1),
                '{' if self.is_count() => (0, 0),
                _ => break,
            };
            self.bump();
            if count > 0 {
                return self.wrong_at("nothing to repeat", begin);
            }
            count += 1;
            let (min, max) = if char == '{' { self.count(begin)? } else { (min, max) };
            // The lazy form has the same language.
            self.take('?');
            if self.peek() == Some('+') {
                let place = self.clone_place();
                return self.unsupported("possessive repetition", place);
            }
            if max > 1 && self.spread && !self.anchors.can_repeat() {
                return self.unsupported("an anchor within the text", begin);
            }
            atom = make(self.scratch, Expr::Repeat(atom, min, max))?;
        }
        Ok(atom)
    }

    /// Returns whether a count such as `{2,3}` stands here; otherwise the brace is a character.
    fn is_count(&self) -> bool {
        let mut rest = self.rest.clone();
        if rest.next() != Some(u32::from('{')) {
            return false;
        }
        let mut digits = false;
        let mut comma = false;
        for char in rest {
            match char::from_u32(char) {
                Some('0'..='9') => digits = true,
                Some(',') if !comma && digits => comma = true,
                Some('}') => return digits,
                _ => return false,
            }
        }
        false
    }

    fn count(&mut self, begin: usize) -> Result<(u32, u32)> {
        let min = self.number()?;
        let max = match self.take(',') {
            false => min,
            true if self.peek() == Some('}') => OPEN,
            true => self.number()?,
        };
        self.bump();
        if max < min { self.wrong_at("a reversed count", begin) } else { Ok((min, max)) }
    }

    fn number(&mut self) -> Result<u32> {
        let place = self.clone_place();
        let mut value = 0_u32;
        while let Some(digit) = self.peek().and_then(|char| char.to_digit(10)) {
            value = value.saturating_mul(10).saturating_add(digit);
            self.bump();
        }
        if value > MOST { self.wrong_at("number too large", place) } else { Ok(value) }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next().and_then(char::from_u32)
    }

    pub(super) fn bump(&mut self) {
        if let Some(char) = self.rest.next() {
            self.read += char::from_u32(char).map_or(1, char::len_utf8);
        }
    }

    pub(super) fn take(&mut self, char: char) -> bool {
        let found = self.peek() == Some(char);
        if found {
            self.bump();
        }
        found
    }

    pub(super) fn clone_place(&self) -> usize {
        if self.spread { self.at.saturating_add(self.read) } else { self.at }
    }

    pub(super) fn wrong<T>(&self, what: &'static str) -> Result<T> {
        syntax(what, self.clone_place())
    }

    pub(super) fn wrong_at<T>(&self, what: &'static str, place: usize) -> Result<T> {
        syntax(what, place)
    }

    pub(super) fn unsupported<T>(&self, what: &'static str, place: usize) -> Result<T> {
        Err(GrammarError { kind: ErrorKind::Unsupported(what), at: place })
    }
}
