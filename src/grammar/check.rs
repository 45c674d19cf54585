//! What has to hold before a program is used: it has a text, and no rule begins with itself.

use super::code::{
    A, ALIVE, B, BEGINS, C, CALL, COUNT, COUNTED, Code, D, EMPTY, FOUND, FREE, LOOP, NAME, Program, RETURN, RULE_LINK,
    Rule, SOUND, SPLIT, TEXT, following, op, rule_at, start,
};
use super::dfa;
use super::error::{ErrorKind, GrammarError};
use super::reach;
use super::scratch::{Result, Scratch};

/// Marks the instructions from which a text can end, and those that can be passed without a character.
pub(super) fn mark(scratch: &mut Scratch<'_>, program: &Program) {
    let mut code = program.first;
    while code != 0 {
        if op(scratch, code) == TEXT {
            let dfa = reach::trimmed(scratch, scratch.get(code, A));
            scratch.set(code, A, dfa);
        }
        code = following(scratch, code);
    }
    spread(scratch, program, ALIVE, is_alive);
    spread(scratch, program, EMPTY, is_empty);
}

/// Sets a field of all instructions for which a condition holds, until nothing changes.
fn spread(scratch: &mut Scratch<'_>, program: &Program, field: u32, holds: fn(&Scratch<'_>, Code) -> bool) {
    let mut changed = true;
    while changed {
        changed = false;
        let mut code = program.first;
        while code != 0 {
            if scratch.get(code, field) == 0 && holds(scratch, code) {
                scratch.set(code, field, 1);
                changed = true;
            }
            code = following(scratch, code);
        }
    }
}

/// Returns whether an instruction is known to lead to an end.
pub(super) fn alive(scratch: &Scratch<'_>, code: Code) -> bool {
    code != 0 && scratch.get(code, ALIVE) != 0
}

fn is_alive(scratch: &Scratch<'_>, code: Code) -> bool {
    let field = |field| scratch.get(code, field);
    match op(scratch, code) {
        RETURN => true,
        TEXT | COUNTED => field(A) != 0 && alive(scratch, field(C)),
        NAME => entries(scratch, field(B))
            .rev()
            .take_while(|(number, _)| *number >= field(C))
            .any(|(_, entry)| alive(scratch, entry)),
        SPLIT => alive(scratch, field(A)) || alive(scratch, field(B)),
        LOOP => alive(scratch, field(D)) && (field(A) == 0 || alive(scratch, field(C))),
        COUNT => alive(scratch, scratch.get(field(A), D)),
        FREE => alive(scratch, field(C)) || entries(scratch, field(B)).any(|(_, entry)| alive(scratch, entry)),
        CALL => alive(scratch, start(scratch, field(A))) && alive(scratch, field(B)),
        _ => alive(scratch, field(C)),
    }
}

/// Returns the entries of a table of names, with their numbers.
pub(super) fn entries<'p>(
    scratch: &'p Scratch<'_>,
    table: u32,
) -> impl DoubleEndedIterator<Item = (u32, Code)> + use<'p> {
    let count = scratch.get(table, 0);
    let words = scratch.slice(table.wrapping_add(1), count);
    (0..count).zip(words.iter().copied())
}

fn empty(scratch: &Scratch<'_>, code: Code) -> bool {
    scratch.get(code, EMPTY) != 0
}

fn is_empty(scratch: &Scratch<'_>, code: Code) -> bool {
    let field = |field| scratch.get(code, field);
    match op(scratch, code) {
        // The end of a round: so it is known of a loop's code whether it can be passed.
        RETURN | COUNT => true,
        TEXT => field(A) != 0 && dfa::accept(scratch, field(A)) != 0 && empty(scratch, field(C)),
        SPLIT => empty(scratch, field(A)) || empty(scratch, field(B)),
        LOOP => (field(A) == 0 || empty(scratch, field(C))) && empty(scratch, field(D)),
        CALL => empty(scratch, start(scratch, field(A))) && empty(scratch, field(B)),
        FREE => empty(scratch, field(C)),
        _ => false,
    }
}

/// Refuses a program of which no text is known, or with a rule that begins with itself.
pub(super) fn check(scratch: &mut Scratch<'_>, root: Rule) -> Result<()> {
    if !alive(scratch, start(scratch, root)) {
        return Err(GrammarError { kind: ErrorKind::Empty, at: rule_at(scratch, root) });
    }
    // All rules that are reached, each with those it can begin with.
    scratch.set(root, FOUND, 1);
    let (mut rule, mut last) = (root, root);
    while rule != 0 {
        walk(scratch, rule, &mut last)?;
        rule = scratch.get(rule, RULE_LINK);
    }
    let mut changed = true;
    while changed {
        changed = false;
        let mut rule = root;
        while rule != 0 {
            if scratch.get(rule, SOUND) == 0 && begins_soundly(scratch, rule) {
                scratch.set(rule, SOUND, 1);
                changed = true;
            }
            rule = scratch.get(rule, RULE_LINK);
        }
    }
    let mut rule = root;
    while rule != 0 {
        if scratch.get(rule, SOUND) == 0 {
            return Err(GrammarError { kind: ErrorKind::LeftRecursion, at: rule_at(scratch, rule) });
        }
        rule = scratch.get(rule, RULE_LINK);
    }
    Ok(())
}

fn begins_soundly(scratch: &Scratch<'_>, rule: Rule) -> bool {
    let mut begin = scratch.get(rule, BEGINS);
    while begin != 0 {
        if scratch.get(scratch.get(begin, 0), SOUND) == 0 {
            return false;
        }
        begin = scratch.get(begin, 1);
    }
    true
}

// How far a walk got to an instruction.
const REACHED: u32 = 2;
const REACHED_FIRST: u32 = 3;

/// Walks the instructions of a rule: notes the rules that it calls, and those that it calls before any character.
fn walk(scratch: &mut Scratch<'_>, rule: Rule, last: &mut Rule) -> Result<()> {
    let mut stack = scratch.record([start(scratch, rule), REACHED_FIRST, 0])?;
    while stack != 0 {
        let (code, how) = (scratch.get(stack, 0), scratch.get(stack, 1));
        stack = scratch.get(stack, 2);
        let known = scratch.get(code, ALIVE);
        if known == 0 || known >= how {
            continue;
        }
        scratch.set(code, ALIVE, how);
        let field = |field| scratch.get(code, field);
        let (a, b, c, d) = (field(A), field(B), field(C), field(D));
        let behind = |passed: bool| if passed { how } else { REACHED };
        let next = match op(scratch, code) {
            TEXT => [(c, behind(dfa::accept(scratch, a) != 0)), (0, 0)],
            // It has quotes, at least.
            COUNTED => [(c, REACHED), (0, 0)],
            SPLIT => [(a, how), (b, how)],
            LOOP => [(c, how), (d, behind(a == 0 || empty(scratch, c)))],
            COUNT => [(a, how), (0, 0)],
            CALL => {
                found(scratch, rule, a, how == REACHED_FIRST, last)?;
                [(b, behind(empty(scratch, start(scratch, a)))), (0, 0)]
            }
            NAME => {
                for number in c..scratch.get(b, 0) {
                    let entry = scratch.get(b, number.wrapping_add(1));
                    stack = scratch.record([entry, REACHED, stack])?;
                }
                continue;
            }
            FREE => {
                for number in 1..=scratch.get(b, 0) {
                    stack = scratch.record([scratch.get(b, number), REACHED, stack])?;
                }
                [(c, how), (0, 0)]
            }
            RETURN => continue,
            _ => [(c, REACHED), (0, 0)],
        };
        for (code, how) in next.into_iter().filter(|(code, _)| *code != 0) {
            stack = scratch.record([code, how, stack])?;
        }
    }
    Ok(())
}

/// Notes that a rule calls another.
fn found(scratch: &mut Scratch<'_>, rule: Rule, called: Rule, first: bool, last: &mut Rule) -> Result<()> {
    if scratch.get(called, FOUND) == 0 {
        scratch.set(called, FOUND, 1);
        scratch.set(*last, RULE_LINK, called);
        *last = called;
    }
    if first {
        let begins = scratch.record([called, scratch.get(rule, BEGINS)])?;
        scratch.set(rule, BEGINS, begins);
    }
    Ok(())
}
