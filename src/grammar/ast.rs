//! The expressions of GBNF texts and regular expressions, as a tree of records.

use super::class::Class;
use super::scratch::{Result, Scratch};

/// No upper bound of a repetition.
pub(super) const OPEN: u32 = u32::MAX;
/// The deepest nesting of groups.
pub(super) const DEPTH: usize = 100;

/// An expression, by the number of its record. 0 is the empty text.
pub(super) type Ast = u32;

/// The kinds of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Several expressions one after the other, given by the first of their list.
    Sequence(Ast),
    /// One of several expressions, given by the first of their list.
    Choice(Ast),
    /// One character.
    Class(Class),
    /// An expression, and the least and the greatest number of times that it is repeated.
    Repeat(Ast, u32, u32),
    /// A rule, by its record.
    Rule(u32),
    /// The token with this id or, if `true`, any token but that one.
    Token(u32, bool),
    /// The beginning of the text.
    Begin,
    /// The end of the text.
    End,
}

const LINK: u32 = 4;
/// Field: how often nested repetitions repeat the innermost part at most. The highest bit, [`COUNTER`], says that there
/// are counters.
const ROUNDS: u32 = 5;
const COUNTER: u32 = 1 << 31;

/// Returns a new record of an expression whose parts are complete.
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

/// Returns the expression of a record. 0 is an empty sequence.
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

/// What stands at a place of a text of expressions.
pub(super) enum Part {
    /// An expression, which may be repeated.
    Item(Ast),
    /// Something that adds no part to the expression, such as flags.
    Nothing,
    /// The beginning of a group, with a number that the parser gets back at the group's end.
    Open(u32),
    /// The mark between two alternatives.
    Bar,
    /// The end of a group or of the whole.
    End,
}

/// A notation of expressions.
pub(super) trait Notation<'s> {
    /// Returns the scratch in which the tree is made.
    fn scratch(&mut self) -> &mut Scratch<'s>;

    /// Reads the next part, inside of `depth` groups.
    fn part(&mut self, depth: usize) -> Result<Part>;

    /// Called behind a bar in a group. `opened` is the number of the group's [`Part::Open`].
    fn bar(&mut self, opened: u32);

    /// Reads the end of a group. `opened` is the number of the group's [`Part::Open`].
    fn close(&mut self, opened: u32) -> Result<()>;

    /// Reads how often an expression is repeated, inside of `depth` groups. Returns the repeated expression.
    fn repeats(&mut self, item: Ast, depth: usize) -> Result<Ast>;

    /// Refuses what stands here.
    fn refuse(&self, text: &'static str) -> Result<Ast>;

    /// Goes on reading alternatives. Returns their expression at their end.
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

/// Alternatives that are being read. Open groups are records, so they take no stack.
#[derive(Clone, Copy, Default)]
pub(super) struct Choice {
    group: u32,
    depth: usize,
    choices: List,
    items: List,
}

impl Choice {
    /// Returns the expression of the alternatives of the innermost group.
    fn inner(&mut self, scratch: &mut Scratch<'_>) -> Result<Ast> {
        self.choices.close(scratch, &mut self.items)?;
        if self.choices.first == self.choices.last {
            Ok(self.choices.first)
        } else {
            make(scratch, Expr::Choice(self.choices.first))
        }
    }

    /// Goes on behind the innermost group. Returns the number of the group's [`Part::Open`].
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
    /// Adds the sequence of `items` to the list, and empties `items`.
    fn close(&mut self, scratch: &mut Scratch<'_>, items: &mut Self) -> Result<()> {
        let sequence = make(scratch, Expr::Sequence(items.first))?;
        self.push(scratch, sequence);
        *items = Self::default();
        Ok(())
    }
}

/// The next step of a walk over an expression, from its end to its beginning. Expressions that wait for their parts are
/// records.
#[derive(Clone, Copy)]
pub(super) enum Next {
    /// The walk goes into a part. Behind the part the text goes on at this code.
    Into(Ast, u32),
    /// The walk has made a part, which begins at this code.
    Done(u32),
}

/// Makes a record of the expressions of a list. Returns the record and the number of expressions.
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

/// Returns whether an expression has a counted repetition in it. A rule has room for one counter at a time.
pub(super) fn has_counter(scratch: &Scratch<'_>, ast: Ast) -> bool {
    ast != 0 && scratch.get(ast, ROUNDS) & COUNTER != 0
}

/// Returns how often nested repetitions repeat the innermost part of an expression at most.
pub(super) fn rounds(scratch: &Scratch<'_>, ast: Ast) -> u32 {
    if ast == 0 { 1 } else { scratch.get(ast, ROUNDS) & (COUNTER - 1) }
}

/// Returns whether a repetition needs a counter.
pub(super) fn is_counted(min: u32, max: u32) -> bool {
    min > 1 || (max > 1 && max != OPEN)
}
