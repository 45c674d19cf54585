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
/// How often the innermost part can be repeated by counters within each other; the highest bit: there are counters.
const ROUNDS: u32 = 5;
const COUNTER: u32 = 1 << 31;

/// Returns the record of an expression. Its parts are complete.
pub(super) fn make(scratch: &mut Scratch<'_>, expr: Expr) -> Result<Ast> {
    let rounds = rounds_of(scratch, expr);
    scratch.record(match expr {
        Expr::Sequence(first) => [0, first, 0, 0, 0, rounds],
        Expr::Choice(first) => [1, first, 0, 0, 0, rounds],
        Expr::Class(class) => [2, class, 0, 0, 0, rounds],
        Expr::Repeat(inner, min, max) => [3, inner, min, max, 0, rounds],
        Expr::Rule(rule) => [4, rule, 0, 0, 0, rounds],
        Expr::Token(id, negated) => [5, id, u32::from(negated), 0, 0, rounds],
        Expr::Begin => [6, 0, 0, 0, 0, rounds],
        Expr::End => [7, 0, 0, 0, 0, rounds],
    })
}

fn rounds_of(scratch: &Scratch<'_>, expr: Expr) -> u32 {
    let (mut most, mut counter) = (1, 0);
    match expr {
        Expr::Sequence(first) | Expr::Choice(first) => {
            let mut child = first;
            while child != 0 {
                most = rounds(scratch, child).max(most);
                counter |= scratch.get(child, ROUNDS) & COUNTER;
                child = link(scratch, child);
            }
        }
        Expr::Repeat(inner, min, max) => {
            let own = if max == OPEN { min } else { max };
            most = rounds(scratch, inner).saturating_mul(own.max(1));
            let is_one = is_counted(min, max) || has_counter(scratch, inner);
            counter = if is_one { COUNTER } else { 0 };
        }
        _ => {}
    }
    most.min(COUNTER - 1) | counter
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

/// Changes how often an expression is repeated.
pub(super) fn set_repeats(scratch: &mut Scratch<'_>, repeat: Ast, min: u32, max: u32) {
    scratch.set(repeat, 2, min);
    scratch.set(repeat, 3, max);
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

/// What a text of expressions has at a place.
pub(super) enum Part {
    /// An expression, which may be repeated.
    Item(Ast),
    /// What is no part of the text.
    Nothing,
    /// The begin of a group, and what the parser wants to know at its end.
    Open(u32),
    /// What stands between alternatives.
    Bar,
    /// The end of a group or of the whole.
    End,
}

/// A notation of expressions.
pub(super) trait Notation<'s> {
    /// Where the tree is made.
    fn scratch(&mut self) -> &mut Scratch<'s>;

    /// Reads the next part, in so many groups.
    fn part(&mut self, depth: usize) -> Result<Part>;

    /// A bar was read, in a group that was opened so.
    fn bar(&mut self, opened: u32);

    /// Reads the end of a group that was opened so.
    fn close(&mut self, opened: u32) -> Result<()>;

    /// Reads how often an expression is repeated, in so many groups.
    fn repeats(&mut self, item: Ast, depth: usize) -> Result<Ast>;

    /// Refuses what stands here.
    fn refuse(&self, text: &'static str) -> Result<Ast>;

    /// Goes on with alternatives. Returns them at their end.
    fn choice(&mut self, read: &mut Choice) -> Result<Option<Ast>> {
        while !self.scratch().is_spent() {
            let item = match self.part(read.depth)? {
                Part::Nothing => continue,
                Part::Item(item) => item,
                Part::Open(_) if read.depth >= DEPTH => return self.refuse("groups nested too deeply").map(Some),
                Part::Open(opened) => {
                    let Choice { group, depth, choices, items } = *read;
                    let outside = [group, opened, choices.first, choices.last, items.first, items.last];
                    *read = Choice { group: self.scratch().record(outside)?, depth: depth + 1, ..Choice::default() };
                    continue;
                }
                Part::Bar => {
                    read.choices.close(self.scratch(), &mut read.items)?;
                    if read.group != 0 {
                        let opened = self.scratch().get(read.group, 1);
                        self.bar(opened);
                    }
                    continue;
                }
                Part::End => {
                    let inner = read.inner(self.scratch())?;
                    if read.group == 0 {
                        return Ok(Some(inner));
                    }
                    let opened = read.leave(self.scratch());
                    self.close(opened)?;
                    make(self.scratch(), Expr::Repeat(inner, 1, 1))?
                }
            };
            let item = self.repeats(item, read.depth)?;
            read.items.push(self.scratch(), item);
        }
        Ok(None)
    }
}

/// Alternatives that are read. Groups that are open are records, so they take no stack.
#[derive(Clone, Copy, Default)]
pub(super) struct Choice {
    group: u32,
    depth: usize,
    choices: List,
    items: List,
}

impl Choice {
    /// Returns the alternatives of the innermost group.
    fn inner(&mut self, scratch: &mut Scratch<'_>) -> Result<Ast> {
        self.choices.close(scratch, &mut self.items)?;
        if self.choices.first == self.choices.last {
            Ok(self.choices.first)
        } else {
            make(scratch, Expr::Choice(self.choices.first))
        }
    }

    /// Goes on behind the innermost group. Returns what its parser wants to know.
    fn leave(&mut self, scratch: &Scratch<'_>) -> u32 {
        let field = |field| scratch.get(self.group, field);
        let (outside, opened) = (field(0), field(1));
        let choices = List { first: field(2), last: field(3) };
        let items = List { first: field(4), last: field(5) };
        *self = Self { group: outside, depth: self.depth.saturating_sub(1), choices, items };
        opened
    }
}

impl List {
    /// Adds the sequence of some items, and empties these.
    fn close(&mut self, scratch: &mut Scratch<'_>, items: &mut Self) -> Result<()> {
        let sequence = make(scratch, Expr::Sequence(items.first))?;
        self.push(scratch, sequence);
        *items = Self::default();
        Ok(())
    }
}

/// What a walk over an expression from its end to its begin does next. What waits for its parts are records.
#[derive(Clone, Copy)]
pub(super) enum Next {
    /// It goes into a part, which goes on at this code.
    Into(Ast, u32),
    /// The part begins at this code.
    Done(u32),
}

/// Makes a record of the parts of a list. Returns it and their number.
pub(super) fn listed(scratch: &mut Scratch<'_>, first: Ast) -> Result<(u32, u32)> {
    let list = scratch.mark() as u32;
    let (mut count, mut child) = (0, first);
    while child != 0 {
        scratch.record([child])?;
        count += 1;
        child = link(scratch, child);
    }
    Ok((list, count))
}

/// Returns whether an expression has a counted repetition in it, of which a rule has room for one at a time.
pub(super) fn has_counter(scratch: &Scratch<'_>, ast: Ast) -> bool {
    ast != 0 && scratch.get(ast, ROUNDS) & COUNTER != 0
}

/// Returns how often the innermost part of an expression can be repeated by counters within each other.
pub(super) fn rounds(scratch: &Scratch<'_>, ast: Ast) -> u32 {
    if ast == 0 { 1 } else { scratch.get(ast, ROUNDS) & (COUNTER - 1) }
}

/// Returns whether a repetition needs a counter.
pub(super) fn is_counted(min: u32, max: u32) -> bool {
    min > 1 || (max > 1 && max != OPEN)
}
