//! The checks of a program before it is used: it has a text, and no rule begins with itself.

use core::ops::Range;

use super::code::{
    A, ALIVE, B, BEGINS, C, CALL, COUNT, COUNTED, Code, D, EMPTY, FOUND, FREE, LOOP, NAME, Program, RETURN, RULE_LINK,
    Rule, SOUND, SPLIT, TEXT, following, op, rule_at, start,
};
use super::dfa;
use super::error::{ErrorKind, GrammarError};
use super::reach::Trim;
use super::scratch::{Result, Scratch};

/// Trims automata and then marks instructions, in as many pieces as one likes: those from which a text can come to its
/// end, and those that can be passed without a character.
pub(super) struct Marking {
    first: Code,
    /// The next instruction.
    code: Code,
    /// Whether a mark was set in this round.
    changed: bool,
    /// A table of names, and the number from which on no entry is known to lead to an end in this round.
    dead: (u32, u32),
    stage: Stage,
}

enum Stage {
    Trim(Option<Trim>),
    Alive,
    Empty,
}

impl Marking {
    pub(super) fn new(program: &Program) -> Self {
        Self { first: program.first, code: program.first, changed: false, dead: (0, 0), stage: Stage::Trim(None) }
    }

    /// Goes on. Returns whether all is marked.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> bool {
        loop {
            while self.code != 0 {
                if scratch.is_spent() || !self.mark(scratch) {
                    return false;
                }
                scratch.spend(1);
                self.code = following(scratch, self.code);
            }
            match self.stage {
                Stage::Trim(_) => self.stage = Stage::Alive,
                Stage::Alive if !self.changed => self.stage = Stage::Empty,
                Stage::Empty if !self.changed => return true,
                _ => {}
            }
            (self.code, self.changed, self.dead) = (self.first, false, (0, 0));
        }
    }

    /// Returns whether one of the names of an instruction leads to an end. The instructions of an object's names follow
    /// each other, so each entry of their table is looked at once in a round. A mark that is set later is seen in the
    /// next round.
    fn is_name_alive(&mut self, scratch: &mut Scratch<'_>) -> bool {
        let (table, from) = (scratch.get(self.code, B), scratch.get(self.code, C));
        let (known, dead) = self.dead;
        let end = if known == table { dead } else { scratch.get(table, 0) };
        let found = (from..end).rev().find(|number| alive(scratch, scratch.get(table, number.wrapping_add(1))));
        let begin = found.map_or(from, |number| number.saturating_add(1)).min(end);
        self.dead = (table, begin);
        scratch.spend(end.saturating_sub(begin) as usize / 16);
        found.is_some()
    }

    /// Goes on with the present instruction. Returns whether it is done.
    fn mark(&mut self, scratch: &mut Scratch<'_>) -> bool {
        let (field, holds): (u32, fn(&Scratch<'_>, Code) -> bool) = match &mut self.stage {
            Stage::Trim(_) if op(scratch, self.code) != TEXT => return true,
            Stage::Trim(trim) => {
                let dfa = scratch.get(self.code, A);
                let Some(trimmed) = trim.get_or_insert_with(|| Trim::new(scratch, dfa)).go_on(scratch) else {
                    return false;
                };
                scratch.set(self.code, A, trimmed);
                *trim = None;
                return true;
            }
            Stage::Alive => (ALIVE, is_alive),
            Stage::Empty => (EMPTY, is_empty),
        };
        let is_name = field == ALIVE && op(scratch, self.code) == NAME;
        if scratch.get(self.code, field) == 0
            && if is_name { self.is_name_alive(scratch) } else { holds(scratch, self.code) }
        {
            scratch.set(self.code, field, 1);
            self.changed = true;
        }
        true
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
        // `Marking::is_name_alive` decides this.
        NAME => false,
        SPLIT => alive(scratch, field(A)) || alive(scratch, field(B)),
        LOOP => alive(scratch, field(D)) && (field(A) == 0 || alive(scratch, field(C))),
        COUNT => alive(scratch, scratch.get(field(A), D)),
        FREE => alive(scratch, field(C)) || entries(scratch, field(B)).any(|(_, entry)| alive(scratch, entry)),
        CALL => alive(scratch, start(scratch, field(A))) && alive(scratch, field(B)),
        _ => alive(scratch, field(C)),
    }
}

/// Returns the entries of a table of names, with their numbers.
pub(super) fn entries<'p>(scratch: &'p Scratch<'_>, table: u32) -> impl Iterator<Item = (u32, Code)> + use<'p> {
    let count = scratch.get(table, 0);
    let words = scratch.slice(table.wrapping_add(1), count);
    (0..count).zip(words.iter().copied())
}

/// Index of a word behind the entries of a table: the first number whose entry has its place, plus 1, or 0. In the end
/// it is the place of the table.
pub(super) const PLACED: u32 = 1;
/// Index of a word behind the entries of a table: the first number whose entry was walked, plus 1, or 0.
pub(super) const WALKED: u32 = 2;
/// Number of words of a table besides its entries.
pub(super) const TABLE_WORDS: usize = 3;

/// Returns the numbers of a table from `from` on that were not met before, and notes that they are met. A name of an
/// object leads to all entries from its own on, so the numbers that were met are always the last ones.
pub(super) fn not_met(scratch: &mut Scratch<'_>, table: u32, from: u32, which: u32) -> Range<u32> {
    let count = scratch.get(table, 0);
    let word = count.wrapping_add(which);
    let met = scratch.get(table, word).checked_sub(1).unwrap_or(count);
    if from < met {
        scratch.set(table, word, from.saturating_add(1));
    }
    from..met
}

fn empty(scratch: &Scratch<'_>, code: Code) -> bool {
    scratch.get(code, EMPTY) != 0
}

fn is_empty(scratch: &Scratch<'_>, code: Code) -> bool {
    let field = |field| scratch.get(code, field);
    match op(scratch, code) {
        // COUNT ends the body of a loop. It counts as passed, so that it is known of the body whether it can be passed.
        RETURN | COUNT => true,
        TEXT => field(A) != 0 && dfa::accept(scratch, field(A)) != 0 && empty(scratch, field(C)),
        SPLIT => empty(scratch, field(A)) || empty(scratch, field(B)),
        LOOP => (field(A) == 0 || empty(scratch, field(C))) && empty(scratch, field(D)),
        CALL => empty(scratch, start(scratch, field(A))) && empty(scratch, field(B)),
        FREE => empty(scratch, field(C)),
        _ => false,
    }
}

/// Refuses a program that has no text, or that has a rule that begins with itself, in as many pieces as one likes.
pub(super) struct Checking {
    root: Rule,
    /// The next rule.
    rule: Rule,
    /// The last rule of the list of rules that were found.
    last: Rule,
    /// The instructions that wait in the rule that is being walked, as a list of records.
    stack: u32,
    /// Whether a mark was set in this round.
    changed: bool,
    is_walked: bool,
}

impl Checking {
    pub(super) fn new(scratch: &mut Scratch<'_>, root: Rule) -> Result<Self> {
        if !alive(scratch, start(scratch, root)) {
            return Err(GrammarError { kind: ErrorKind::Empty, at: rule_at(scratch, root) });
        }
        scratch.set(root, FOUND, 1);
        let stack = scratch.record([start(scratch, root), REACHED_FIRST, 0])?;
        Ok(Self { root, rule: root, last: root, stack, changed: false, is_walked: false })
    }

    /// Goes on. Returns whether the check is finished. Then all rules that are reached are sound.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<bool> {
        // Finds all rules that are reached, and for each the rules with which it can begin.
        while !self.is_walked {
            while self.stack != 0 {
                if scratch.is_spent() {
                    return Ok(false);
                }
                self.stack = walk(scratch, self.rule, self.stack, &mut self.last)?;
            }
            self.rule = scratch.get(self.rule, RULE_LINK);
            if self.rule == 0 {
                (self.is_walked, self.rule) = (true, self.root);
            } else {
                self.stack = scratch.record([start(scratch, self.rule), REACHED_FIRST, 0])?;
            }
        }
        loop {
            while self.rule != 0 {
                if scratch.is_spent() {
                    return Ok(false);
                }
                scratch.spend(1);
                if scratch.get(self.rule, SOUND) == 0 && begins_soundly(scratch, self.rule) {
                    scratch.set(self.rule, SOUND, 1);
                    self.changed = true;
                }
                self.rule = scratch.get(self.rule, RULE_LINK);
            }
            if !self.changed {
                return self.find_unsound(scratch);
            }
            (self.rule, self.changed) = (self.root, false);
        }
    }

    fn find_unsound(&self, scratch: &Scratch<'_>) -> Result<bool> {
        let mut rule = self.root;
        while rule != 0 {
            if scratch.get(rule, SOUND) == 0 {
                return Err(GrammarError { kind: ErrorKind::LeftRecursion, at: rule_at(scratch, rule) });
            }
            rule = scratch.get(rule, RULE_LINK);
        }
        Ok(true)
    }
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

// How a walk reaches an instruction: behind a character, or before any.
const REACHED: u32 = 2;
const REACHED_FIRST: u32 = 3;

/// Walks one instruction of a rule. Notes the rule that it calls, and whether the call is before any character. Returns
/// the list of instructions that wait then.
fn walk(scratch: &mut Scratch<'_>, rule: Rule, waiting: u32, last: &mut Rule) -> Result<u32> {
    let (code, how) = (scratch.get(waiting, 0), scratch.get(waiting, 1));
    let mut stack = scratch.get(waiting, 2);
    scratch.spend(1);
    let known = scratch.get(code, ALIVE);
    if known == 0 || known >= how {
        return Ok(stack);
    }
    scratch.set(code, ALIVE, how);
    let field = |field| scratch.get(code, field);
    let (a, b, c, d) = (field(A), field(B), field(C), field(D));
    let behind = |passed: bool| if passed { how } else { REACHED };
    let next = match op(scratch, code) {
        TEXT => [(c, behind(dfa::accept(scratch, a) != 0)), (0, 0)],
        // A counted text has at least its quotes.
        COUNTED => [(c, REACHED), (0, 0)],
        SPLIT => [(a, how), (b, how)],
        LOOP => [(c, how), (d, behind(a == 0 || empty(scratch, c)))],
        COUNT => [(a, how), (0, 0)],
        CALL => {
            found(scratch, rule, a, how == REACHED_FIRST, last)?;
            [(b, behind(empty(scratch, start(scratch, a)))), (0, 0)]
        }
        NAME => {
            for number in not_met(scratch, b, c, WALKED) {
                scratch.spend(1);
                let entry = scratch.get(b, number.wrapping_add(1));
                if entry != 0 && (1..REACHED).contains(&scratch.get(entry, ALIVE)) {
                    stack = scratch.record([entry, REACHED, stack])?;
                }
            }
            return Ok(stack);
        }
        FREE => {
            for number in 1..=scratch.get(b, 0) {
                stack = scratch.record([scratch.get(b, number), REACHED, stack])?;
            }
            [(c, how), (0, 0)]
        }
        RETURN => return Ok(stack),
        _ => [(c, REACHED), (0, 0)],
    };
    for (code, how) in next.into_iter().filter(|(code, _)| *code != 0) {
        stack = scratch.record([code, how, stack])?;
    }
    Ok(stack)
}

/// Notes that a rule calls another one, before any character if `first` is set.
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
