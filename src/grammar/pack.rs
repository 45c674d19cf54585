//! Writes a checked program into the memory of a grammar: only what is reached, without what is dead.

use super::check::{alive, entries};
use super::code::{
    A, B, C, CALL, COUNT, COUNTED, Code, D, EMPTY, EXTRA, FREE, LOOP, NAME, RETURN, Rule, SPLIT, TEXT, op, place,
    set_place, start,
};
use super::compiled::PLAIN_BIT;
use super::dfa::{self, Dfa};
use super::reach;
use super::scratch::{Result, Scratch};
use super::words::Out;

/// The words in front of the instructions: how many words there are, where the root begins, where the instructions end,
/// where the automata begin, and a place for the identity of the grammar.
pub(super) const HEADER: u32 = 6;

/// What is placed, in order: lists of instructions, tables and automata.
pub(super) struct Packer<'p, 's> {
    scratch: &'p mut Scratch<'s>,
    codes: List,
    tables: List,
    dfas: List,
    codes_end: u32,
    states: u32,
    used: u32,
}

#[derive(Clone, Copy, Default)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    fn push(&mut self, scratch: &mut Scratch<'_>, item: u32) -> Result<()> {
        let record = scratch.record([item, 0])?;
        match self.last {
            0 => self.first = record,
            last => scratch.set(last, 1, record),
        }
        self.last = record;
        Ok(())
    }
}

impl<'p, 's> Packer<'p, 's> {
    /// Gives everything that is reached from a rule its place.
    pub(super) fn new(scratch: &'p mut Scratch<'s>, root: Rule) -> Result<Self> {
        let (codes, tables, dfas) = <(List, List, List)>::default();
        let mut packer = Self { scratch, codes, tables, dfas, codes_end: 0, states: 0, used: HEADER };
        let first = start(packer.scratch, root);
        packer.code(first)?;
        let mut record = packer.codes.first;
        while record != 0 {
            packer.reach(packer.scratch.get(record, 0))?;
            record = packer.scratch.get(record, 1);
        }
        packer.codes_end = packer.used;
        packer.place_tables();
        packer.states = packer.used;
        packer.place_states();
        Ok(packer)
    }

    /// Returns the words of the grammar.
    pub(super) fn words(&self) -> u32 {
        self.used
    }

    /// Returns the instruction to which another comes down: dead alternatives are passed over, and a call at the end
    /// of a rule is a jump.
    fn resolved(&self, code: Code) -> Code {
        let mut code = code;
        loop {
            code = self.resolved_end(code);
            let field = |field| self.scratch.get(code, field);
            match op(self.scratch, code) {
                CALL if op(self.scratch, self.resolved_end(field(B))) == RETURN => code = start(self.scratch, field(A)),
                _ => return code,
            }
        }
    }

    /// Likewise, but a call is no jump: enough to see whether a rule ends here.
    fn resolved_end(&self, code: Code) -> Code {
        let mut code = code;
        loop {
            let field = |field| self.scratch.get(code, field);
            code = match op(self.scratch, code) {
                SPLIT if !alive(self.scratch, field(A)) => field(B),
                SPLIT if !alive(self.scratch, field(B)) => field(A),
                LOOP if !alive(self.scratch, field(C)) => field(D),
                _ => return code,
            }
        }
    }

    /// Gives an instruction its place, if it has none.
    fn code(&mut self, code: Code) -> Result<()> {
        let code = self.resolved(code);
        if place(self.scratch, code) != 0 {
            return Ok(());
        }
        set_place(self.scratch, code, self.used);
        self.used = self.used.saturating_add(length(op(self.scratch, code)));
        self.codes.push(self.scratch, code)
    }

    /// Gives what an instruction leads to its place.
    fn reach(&mut self, code: Code) -> Result<()> {
        let field = |field| self.scratch.get(code, field);
        let (a, b, c, d) = (field(A), field(B), field(C), field(D));
        match op(self.scratch, code) {
            RETURN | COUNT => Ok(()),
            TEXT | COUNTED => {
                self.automaton(a)?;
                self.code(c)
            }
            NAME => {
                if self.table(b)? {
                    mark_names(self.scratch, a, b);
                }
                self.automaton(a)?;
                self.entries(b, c)
            }
            FREE => {
                self.table(b)?;
                self.automaton(a)?;
                self.entries(b, 0)?;
                if c == 0 { Ok(()) } else { self.code(c) }
            }
            SPLIT => {
                self.code(a)?;
                self.code(b)
            }
            LOOP => {
                self.code(c)?;
                self.code(d)
            }
            CALL => {
                self.code(start(self.scratch, a))?;
                self.code(b)
            }
            _ => self.code(c),
        }
    }

    /// Notes a table. Returns whether it is new.
    fn table(&mut self, table: u32) -> Result<bool> {
        let place = self.scratch.get(table, 0).wrapping_add(1);
        if self.scratch.get(table, place) != 0 {
            return Ok(false);
        }
        // A number for now, so that it is in the list once.
        self.scratch.set(table, place, 1);
        self.tables.push(self.scratch, table)?;
        Ok(true)
    }

    /// Gives the entries of a table from a number on their places.
    fn entries(&mut self, table: u32, from: u32) -> Result<()> {
        for number in from..self.scratch.get(table, 0) {
            let entry = self.scratch.get(table, number.wrapping_add(1));
            if alive(self.scratch, entry) {
                self.code(entry)?;
            }
        }
        Ok(())
    }

    fn automaton(&mut self, dfa: Dfa) -> Result<()> {
        if dfa::place(self.scratch, dfa) == 0 {
            // A number for now, so that it is in the list once.
            dfa::set_place(self.scratch, dfa, 1);
            reach::mark_plain(self.scratch, dfa);
            self.dfas.push(self.scratch, dfa)?;
        }
        Ok(())
    }

    fn place_tables(&mut self) {
        let mut record = self.tables.first;
        while record != 0 {
            let table = self.scratch.get(record, 0);
            let count = self.scratch.get(table, 0);
            self.scratch.set(table, count.wrapping_add(1), self.used);
            self.used = self.used.saturating_add(count);
            record = self.scratch.get(record, 1);
        }
    }

    fn place_states(&mut self) {
        let mut record = self.dfas.first;
        while record != 0 {
            let mut state = self.scratch.get(record, 0);
            while state != 0 {
                dfa::set_place(self.scratch, state, self.used);
                let mut edge = dfa::edges(self.scratch, state);
                self.used = self.used.saturating_add(3);
                while let Some(found) = dfa::edge(self.scratch, edge) {
                    self.used = self.used.saturating_add(3);
                    edge = found.next;
                }
                state = dfa::next(self.scratch, state);
            }
            record = self.scratch.get(record, 1);
        }
    }

    /// Writes the grammar.
    pub(super) fn write(&self, root: Rule, words: &mut [u32]) {
        let mut out = Out::new(words);
        out.push([self.used, self.at(start(self.scratch, root)), self.codes_end, self.states, 0, 0]);
        let mut record = self.codes.first;
        while record != 0 {
            self.write_code(self.scratch.get(record, 0), &mut out);
            record = self.scratch.get(record, 1);
        }
        record = self.tables.first;
        while record != 0 {
            for (_, entry) in entries(self.scratch, self.scratch.get(record, 0)) {
                out.push([if alive(self.scratch, entry) { self.at(entry) } else { 0 }]);
            }
            record = self.scratch.get(record, 1);
        }
        record = self.dfas.first;
        while record != 0 {
            self.write_states(self.scratch.get(record, 0), &mut out);
            record = self.scratch.get(record, 1);
        }
    }

    fn at(&self, code: Code) -> u32 {
        place(self.scratch, self.resolved(code))
    }

    fn write_code(&self, code: Code, out: &mut Out<'_>) {
        let field = |field| self.scratch.get(code, field);
        let (a, b, c, d) = (field(A), field(B), field(C), field(D));
        let op = op(self.scratch, code);
        let state = |dfa| dfa::place(self.scratch, dfa);
        let table = |table| self.scratch.get(table, self.scratch.get(table, 0).wrapping_add(1));
        let passed = |code| u32::from(self.scratch.get(code, EMPTY) != 0);
        match op {
            RETURN => out.push([op]),
            TEXT => out.push([op | b << 8, state(a), self.at(c)]),
            COUNTED => out.push([op | b << 8, state(a), self.at(c), d, field(EXTRA)]),
            NAME => out.push([op, state(a), table(b), c]),
            FREE => {
                let beside = if c == 0 { 0 } else { self.at(c) };
                out.push([op | field(EXTRA) << 8, state(a), table(b), beside, state(d)]);
            }
            SPLIT => out.push([op, self.at(a), self.at(b)]),
            // A round of nothing adds nothing, so it does not have to be made.
            LOOP => out.push([op, if passed(c) == 1 { 0 } else { a }, b, self.at(c), self.at(d)]),
            COUNT => out.push([op, place(self.scratch, a)]),
            CALL => {
                let called = start(self.scratch, a);
                out.push([op | passed(called) << 8, self.at(called), self.at(b)]);
            }
            _ => out.push([op | b << 8, a, self.at(c)]),
        }
    }

    fn write_states(&self, dfa: Dfa, out: &mut Out<'_>) {
        let mut state = dfa;
        while state != 0 {
            let mut count = 0;
            let mut number = dfa::edges(self.scratch, state);
            while let Some(edge) = dfa::edge(self.scratch, number) {
                count += 1;
                number = edge.next;
            }
            let plain = u32::from(dfa::is_plain(self.scratch, state)) << PLAIN_BIT;
            out.push([dfa::accept(self.scratch, state), dfa::highest(self.scratch, state), count | plain]);
            number = dfa::edges(self.scratch, state);
            while let Some(edge) = dfa::edge(self.scratch, number) {
                out.push([edge.low, edge.high, dfa::place(self.scratch, edge.target)]);
                number = edge.next;
            }
            state = dfa::next(self.scratch, state);
        }
    }
}

/// Returns the words of an instruction.
pub(super) fn length(op: u32) -> u32 {
    match op {
        RETURN => 1,
        COUNT => 2,
        NAME => 4,
        LOOP | COUNTED | FREE => 5,
        _ => 3,
    }
}

/// Notes in each state of the names which is the highest number that can still be accepted, plus 1. Those whose values
/// have no text do not count.
fn mark_names(scratch: &mut Scratch<'_>, names: Dfa, table: u32) {
    let mut state = dfa::last(scratch, names);
    while state != 0 {
        let number = dfa::accept(scratch, state);
        let entry = if number == 0 { 0 } else { scratch.get(table, number) };
        let mut highest = if alive(scratch, entry) { number } else { 0 };
        let mut edge = dfa::edges(scratch, state);
        while let Some(found) = dfa::edge(scratch, edge) {
            highest = highest.max(dfa::highest(scratch, found.target));
            edge = found.next;
        }
        dfa::set_highest(scratch, state, highest);
        state = dfa::previous(scratch, state);
    }
}
