//! Expressions, as GBNF and regular expressions write them: a tree of records.

use super::class::Class;
use super::scratch::{Result, Scratch};

/// No upper bound of a repetition.
pub(super) const OPEN: u32 = u32::MAX;
/// The deepest nesting of groups.
pub(super) const DEPTH: usize = 100;

/// An expression, by the number of its record. 0 is the empty text.
pub(super) type Ast = u32;

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// One after the other: the first of a list.
    Sequence(Ast),
    /// One of them: the first of a list.
    Choice(Ast),
    /// One character.
    Class(Class),
    /// An expression so many times.
    Repeat(Ast, u32, u32),
    /// A rule, by its record.
    Rule(u32),
    /// A token with this id, or any but that.
    Token(u32, bool),
    /// The begin of the text.
    Begin,
    /// The end of the text.
    End,
}

const LINK: u32 = 4;

/// Returns the record of an expression.
pub(super) fn make(scratch: &mut Scratch<'_>, expr: Expr) -> Result<Ast> {
    scratch.record(match expr {
        Expr::Sequence(first) => [0, first, 0, 0, 0],
        Expr::Choice(first) => [1, first, 0, 0, 0],
        Expr::Class(class) => [2, class, 0, 0, 0],
        Expr::Repeat(inner, min, max) => [3, inner, min, max, 0],
        Expr::Rule(rule) => [4, rule, 0, 0, 0],
        Expr::Token(id, negated) => [5, id, u32::from(negated), 0, 0],
        Expr::Begin => [6, 0, 0, 0, 0],
        Expr::End => [7, 0, 0, 0, 0],
    })
}

/// Returns what a record is. 0 is an empty sequence.
pub(super) fn expr(scratch: &Scratch<'_>, ast: Ast) -> Expr {
    let field = |field| scratch.get(ast, field);
    if ast == 0 {
        return Expr::Sequence(0);
    }
    match field(0) {
        0 => Expr::Sequence(field(1)),
        1 => Expr::Choice(field(1)),
        2 => Expr::Class(field(1)),
        3 => Expr::Repeat(field(1), field(2), field(3)),
        4 => Expr::Rule(field(1)),
        5 => Expr::Token(field(1), field(2) != 0),
        6 => Expr::Begin,
        _ => Expr::End,
    }
}

/// Returns the expression behind this one in its list, or 0.
pub(super) fn link(scratch: &Scratch<'_>, ast: Ast) -> Ast {
    scratch.get(ast, LINK)
}

pub(super) fn set_link(scratch: &mut Scratch<'_>, ast: Ast, next: Ast) {
    scratch.set(ast, LINK, next);
}

/// A list that grows at its end.
#[derive(Clone, Copy, Default)]
pub(super) struct List {
    pub(super) first: Ast,
    pub(super) last: Ast,
}

impl List {
    pub(super) fn push(&mut self, scratch: &mut Scratch<'_>, ast: Ast) {
        match self.last {
            0 => self.first = ast,
            last => set_link(scratch, last, ast),
        }
        self.last = ast;
    }
}

/// A parser of expressions in some notation.
pub(super) trait Alternatives<'s> {
    /// Where the tree is made.
    fn scratch(&mut self) -> &mut Scratch<'s>;

    /// Reads what stands between two bars, in so many groups.
    fn sequence(&mut self, depth: usize) -> Result<Ast>;

    /// Takes a bar. Returns whether there was one.
    fn take_bar(&mut self) -> bool;

    /// Refuses what stands here.
    fn refuse(&self, text: &'static str) -> Result<Ast>;

    /// Reads the alternatives of a group.
    fn choice(&mut self, depth: usize) -> Result<Ast> {
        if depth > DEPTH {
            return self.refuse("groups nested too deeply");
        }
        let mut choices = List::default();
        loop {
            let sequence = self.sequence(depth)?;
            choices.push(self.scratch(), sequence);
            if !self.take_bar() {
                break;
            }
        }
        if choices.first == choices.last {
            return Ok(choices.first);
        }
        make(self.scratch(), Expr::Choice(choices.first))
    }
}

/// Returns whether an expression has a counted repetition in it, of which a rule has room for one at a time.
pub(super) fn has_counter(scratch: &Scratch<'_>, ast: Ast) -> bool {
    match expr(scratch, ast) {
        Expr::Sequence(first) | Expr::Choice(first) => {
            let mut child = first;
            while child != 0 {
                if has_counter(scratch, child) {
                    return true;
                }
                child = link(scratch, child);
            }
            false
        }
        Expr::Repeat(inner, min, max) => is_counted(min, max) || has_counter(scratch, inner),
        _ => false,
    }
}

/// Returns how often the innermost part of an expression can be repeated by counters within each other.
pub(super) fn rounds(scratch: &Scratch<'_>, ast: Ast) -> u32 {
    match expr(scratch, ast) {
        Expr::Sequence(first) | Expr::Choice(first) => {
            let (mut most, mut child) = (1, first);
            while child != 0 {
                most = most.max(rounds(scratch, child));
                child = link(scratch, child);
            }
            most
        }
        Expr::Repeat(inner, min, max) => {
            let own = if max == OPEN { min } else { max };
            rounds(scratch, inner).saturating_mul(own.max(1))
        }
        _ => 1,
    }
}

/// Returns whether a repetition needs a counter.
pub(super) fn is_counted(min: u32, max: u32) -> bool {
    min > 1 || (max > 1 && max != OPEN)
}
