//! Makes instructions from expressions.

use super::ast::{Ast, Expr, Next, OPEN, expr, has_counter, is_counted, link, listed};
use super::class;
use super::code::{A, Code, Codec, Program, SPLIT, TOKEN, rule, set_start};
use super::dfa::{self, Dfa};
use super::scratch::{Result, Scratch};

// An expression that waits for the code of its parts is a record: the record that waits outside of it, its kind, and up
// to four numbers.
/// A sequence: the list of its parts, how many are left, the code of the parts behind them, and the instruction of the
/// text to which the next part can be added, or 0.
const SEQUENCE: u32 = 0;
/// A choice: the next alternative, the code at which all alternatives go on, and the code of the alternatives before.
const CHOICE: u32 = 1;
/// A part that can be left out: the code behind it.
const MAYBE: u32 = 2;
/// A repetition without an upper bound: the instruction that goes on or begins again, and the least number of rounds.
const STAR: u32 = 3;
/// A counted loop: its instruction.
const LOOP: u32 = 4;
/// A counted loop whose body becomes a rule: its two bounds, and the code behind it.
const RULE: u32 = 5;

const OUTSIDE: u32 = 0;
const KIND: u32 = 1;

/// An expression that becomes code, in as many pieces as one likes. What is nested takes scratch and no stack.
#[derive(Clone, Copy)]
pub(super) struct Lowering {
    waiting: u32,
    next: Next,
}

impl Lowering {
    /// Begins with an expression, behind which the code goes on at `then`.
    pub(super) fn new(ast: Ast, then: Code) -> Self {
        Self { waiting: 0, next: Next::Into(ast, then) }
    }

    /// Goes on. Returns the code when it is made.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>, program: &mut Program) -> Result<Option<Code>> {
        while !scratch.is_spent() {
            self.next = match self.next {
                Next::Into(ast, then) => program.enter(scratch, &mut self.waiting, ast, then)?,
                Next::Done(code) if self.waiting == 0 => return Ok(Some(code)),
                Next::Done(code) => program.resume(scratch, &mut self.waiting, code)?,
            };
            scratch.spend(1);
        }
        Ok(None)
    }
}

impl Program {
    fn enter(&mut self, scratch: &mut Scratch<'_>, waiting: &mut u32, ast: Ast, then: Code) -> Result<Next> {
        let mut wait = |scratch: &mut Scratch<'_>, kind: u32, [a, b, c, d]: [u32; 4]| -> Result<()> {
            *waiting = scratch.record([*waiting, kind, a, b, c, d])?;
            Ok(())
        };
        match expr(scratch, ast) {
            Expr::Sequence(first) => {
                let (list, count) = listed(scratch, first)?;
                wait(scratch, SEQUENCE, [list, count, then, 0])?;
                self.resume_sequence(scratch, waiting)
            }
            Expr::Choice(first) => {
                wait(scratch, CHOICE, [link(scratch, first), then, 0, 0])?;
                Ok(Next::Into(first, then))
            }
            Expr::Class(set) => {
                let dfa = one_of(scratch, set, 0)?;
                self.text(scratch, dfa, Codec::Raw, then).map(Next::Done)
            }
            // The body of a counted loop becomes a rule if it has another counted loop in it, since an item has one
            // counter.
            Expr::Repeat(inner, min, max) if is_counted(min, max) && has_counter(scratch, inner) => {
                wait(scratch, RULE, [min, max, then, 0])?;
                Ok(Next::Into(inner, self.end(scratch)?))
            }
            Expr::Repeat(inner, min, max) if is_counted(min, max) => {
                let (code, end) = self.open_loop(scratch, (min, max), then)?;
                wait(scratch, LOOP, [code, 0, 0, 0])?;
                Ok(Next::Into(inner, end))
            }
            Expr::Repeat(_, _, 0) | Expr::Begin | Expr::End => Ok(Next::Done(then)),
            Expr::Repeat(inner, min, OPEN) => {
                let split = self.push(scratch, SPLIT, then, then, 0, 0)?;
                wait(scratch, STAR, [split, min, 0, 0])?;
                Ok(Next::Into(inner, split))
            }
            Expr::Repeat(inner, min, _) => {
                if min == 0 {
                    wait(scratch, MAYBE, [then, 0, 0, 0])?;
                }
                Ok(Next::Into(inner, then))
            }
            Expr::Rule(rule) => self.call(scratch, rule, then).map(Next::Done),
            Expr::Token(id, negated) => self.push(scratch, TOKEN, id, u32::from(negated), then, 0).map(Next::Done),
        }
    }

    /// Goes on with the expression that waits for this code.
    fn resume(&mut self, scratch: &mut Scratch<'_>, waiting: &mut u32, code: Code) -> Result<Next> {
        let record = *waiting;
        let [kind, a, b, c] = [KIND, 2, 3, 4].map(|field| scratch.get(record, field));
        if kind == SEQUENCE {
            scratch.set(record, 4, code);
            scratch.set(record, 5, 0);
            return self.resume_sequence(scratch, waiting);
        }
        if kind == CHOICE {
            let code = self.either(scratch, c, code)?;
            scratch.set(record, 4, code);
            if a != 0 {
                scratch.set(record, 2, link(scratch, a));
                return Ok(Next::Into(a, b));
            }
        }
        *waiting = scratch.get(record, OUTSIDE);
        let code = match kind {
            CHOICE => scratch.get(record, 4),
            MAYBE => self.either(scratch, code, a)?,
            STAR => {
                scratch.set(a, A, code);
                if b == 1 { code } else { a }
            }
            LOOP => {
                self.close_loop(scratch, a, code);
                a
            }
            _ => {
                let body = rule(scratch, 0)?;
                set_start(scratch, body, code);
                let (code, end) = self.open_loop(scratch, (a, b), c)?;
                let body = self.call(scratch, body, end)?;
                self.close_loop(scratch, code, body);
                code
            }
        };
        Ok(Next::Done(code))
    }

    /// Goes on with a sequence, from its end to its beginning. Characters that follow each other are one text.
    fn resume_sequence(&mut self, scratch: &mut Scratch<'_>, waiting: &mut u32) -> Result<Next> {
        let record = *waiting;
        let [list, mut count, mut code, mut run] = [2, 3, 4, 5].map(|field| scratch.get(record, field));
        while let Some(index) = count.checked_sub(1) {
            count = index;
            let child = scratch.get(list, index);
            let Expr::Class(set) = expr(scratch, child) else {
                scratch.set(record, 3, count);
                return Ok(Next::Into(child, code));
            };
            // The automaton of the characters that follow, to which one more can be added in front.
            let following = if run == 0 { 0 } else { scratch.get(run, A) };
            let dfa = one_of(scratch, set, following)?;
            if run == 0 {
                run = self.text(scratch, dfa, Codec::Raw, code)?;
                code = run;
            } else {
                scratch.set(run, A, dfa);
            }
        }
        *waiting = scratch.get(record, OUTSIDE);
        Ok(Next::Done(code))
    }
}

/// Returns the automaton of one character of a class, then of the automaton `following`, unless that is 0.
fn one_of(scratch: &mut Scratch<'_>, set: u32, following: Dfa) -> Result<Dfa> {
    let target = if following == 0 { dfa::state(scratch, 1, 0)? } else { following };
    let start = dfa::state(scratch, 0, target)?;
    let (mut last, mut range) = (0, set);
    while let Some((low, high, next)) = class::range_of(scratch, range) {
        last = dfa::append(scratch, start, last, low, high, target)?;
        range = next;
    }
    Ok(start)
}
