//! Writes a checked program into the memory of a grammar: the part of it that is reached and not dead.

use super::check::{PLACED, alive, entries, not_met};
use super::code::{
    A, B, C, CALL, COUNT, COUNTED, Code, D, EMPTY, EXTRA, FREE, LOOP, NAME, RETURN, Rule, SPLIT, TEXT, op, place,
    set_place, start,
};
use super::compiled::PLAIN_BIT;
use super::dfa::{self, Dfa};
use super::highest::mark_names;
use super::reach::Plain;
use super::scratch::{Result, Scratch};
use super::words::Out;

/// Number of words in front of the instructions: the number of all words, where the root begins, where the instructions
/// end, where the automata begin, and two words for the identity of the grammar.
pub(super) const HEADER: u32 = 6;

/// A grammar that is placed and then written, in as many pieces as one likes: lists of instructions, tables and
/// automata, in the order of their places.
#[derive(Default)]
pub(super) struct Packing {
    root: Rule,
    codes: List,
    tables: List,
    dfas: List,
    codes_end: u32,
    states: u32,
    used: u32,
    stage: Stage,
    /// The next record of the present list, or 0.
    record: u32,
    /// The next state of the present automaton, or 0.
    state: u32,
    written: usize,
}

/// The stages of the work: first everything that is reached gets its place, then it is written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Reach,
    Mark(Option<Plain>),
    Place,
    Placed,
    Codes,
    Tables,
    States,
    Written,
}

/// A packing and its scratch, for one piece of the work.
struct Packer<'p, 's> {
    scratch: &'p mut Scratch<'s>,
    kept: &'p mut Packing,
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

impl Packing {
    /// Begins to place everything that is reached from a rule.
    pub(super) fn new(scratch: &mut Scratch<'_>, root: Rule) -> Result<Self> {
        let mut kept = Self { root, used: HEADER, ..Self::default() };
        let first = start(scratch, root);
        Packer { scratch, kept: &mut kept }.code(first)?;
        kept.record = kept.codes.first;
        Ok(kept)
    }

    /// Goes on. Returns whether everything has its place.
    pub(super) fn place(&mut self, scratch: &mut Scratch<'_>) -> Result<bool> {
        while !scratch.is_spent() && self.stage != Stage::Placed {
            scratch.spend(1);
            let mut packer = Packer { scratch, kept: self };
            let is_done = match packer.kept.record {
                0 => true,
                record => packer.place_next(record)?,
            };
            if !is_done {
                continue;
            }
            if packer.kept.record != 0 {
                packer.kept.record = packer.scratch.get(packer.kept.record, 1);
            } else {
                packer.next_stage();
            }
        }
        Ok(self.stage == Stage::Placed)
    }

    /// Returns the number of words of the grammar.
    pub(super) fn words(&self) -> u32 {
        self.used
    }

    /// Begins to write, into as many words as the grammar has.
    pub(super) fn begin(&mut self, scratch: &mut Scratch<'_>, words: &mut [u32]) {
        let (root, mut out) = (start(scratch, self.root), Out::new(words, 0));
        let packer = Packer { scratch, kept: self };
        out.push([packer.kept.used, packer.at(root), packer.kept.codes_end, packer.kept.states, 0, 0]);
        (self.stage, self.record, self.written) = (Stage::Codes, self.codes.first, out.used());
    }

    /// Goes on writing. Returns whether all is written.
    pub(super) fn write(&mut self, scratch: &mut Scratch<'_>, words: &mut [u32]) -> bool {
        let mut out = Out::new(words, self.written);
        while !scratch.is_spent() && self.stage != Stage::Written {
            scratch.spend(1);
            let mut packer = Packer { scratch, kept: self };
            if packer.kept.record == 0 {
                packer.next_stage();
            } else if packer.write_next(&mut out) {
                packer.kept.record = packer.scratch.get(packer.kept.record, 1);
            }
        }
        self.written = out.used();
        self.stage == Stage::Written
    }
}

impl Packer<'_, '_> {
    /// Goes to the next stage, behind the end of a list.
    fn next_stage(&mut self) {
        let (stage, record) = match self.kept.stage {
            Stage::Reach => {
                self.kept.codes_end = self.kept.used;
                (Stage::Mark(None), self.kept.dfas.first)
            }
            Stage::Mark(_) => {
                self.place_tables();
                self.kept.states = self.kept.used;
                (Stage::Place, self.kept.dfas.first)
            }
            Stage::Place | Stage::Placed => (Stage::Placed, 0),
            Stage::Codes => (Stage::Tables, self.kept.tables.first),
            Stage::Tables => (Stage::States, self.kept.dfas.first),
            Stage::States | Stage::Written => (Stage::Written, 0),
        };
        (self.kept.stage, self.kept.record) = (stage, record);
    }

    /// Goes on placing what a record names. Returns whether it is done.
    fn place_next(&mut self, record: u32) -> Result<bool> {
        let item = self.scratch.get(record, 0);
        match &mut self.kept.stage {
            Stage::Reach => self.reach(item).map(|()| true),
            Stage::Mark(plain) => {
                let is_done = plain.get_or_insert_with(|| Plain::new(self.scratch, item)).go_on(self.scratch);
                if is_done {
                    *plain = None;
                }
                Ok(is_done)
            }
            _ => {
                let state = if self.kept.state == 0 { item } else { self.kept.state };
                self.place_state(state);
                self.kept.state = dfa::next(self.scratch, state);
                Ok(self.kept.state == 0)
            }
        }
    }

    /// Writes the next part of what the present record names. Returns whether that was the last part.
    fn write_next(&mut self, out: &mut Out<'_>) -> bool {
        let item = self.scratch.get(self.kept.record, 0);
        match self.kept.stage {
            Stage::Codes => self.write_code(item, out),
            Stage::Tables => {
                self.scratch.spend(self.scratch.get(item, 0) as usize / 16);
                for (_, entry) in entries(self.scratch, item) {
                    out.push([if alive(self.scratch, entry) { self.at(entry) } else { 0 }]);
                }
            }
            _ => {
                let state = if self.kept.state == 0 { item } else { self.kept.state };
                self.write_state(state, out);
                self.kept.state = dfa::next(self.scratch, state);
                return self.kept.state == 0;
            }
        }
        true
    }

    /// Returns the instruction that takes the place of another one: dead alternatives are passed over, and a call at
    /// the end of a rule is a jump.
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

    /// Does what [`Packer::resolved`] does, but a call is no jump. That is enough to see whether a rule ends here.
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
        set_place(self.scratch, code, self.kept.used);
        self.kept.used = self.kept.used.saturating_add(length(op(self.scratch, code)));
        self.kept.codes.push(self.scratch, code)
    }

    /// Gives places to the instructions, tables and automata to which an instruction leads.
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
        let place = self.scratch.get(table, 0).wrapping_add(PLACED);
        if self.scratch.get(table, place) != 0 {
            return Ok(false);
        }
        // Not 0, so that the table is in the list once. To `not_met` this number says that no entry has its place.
        self.scratch.set(table, place, place);
        self.kept.tables.push(self.scratch, table)?;
        Ok(true)
    }

    /// Gives places to the entries of a table from number `from` on.
    fn entries(&mut self, table: u32, from: u32) -> Result<()> {
        for number in not_met(self.scratch, table, from, PLACED) {
            self.scratch.spend(1);
            let entry = self.scratch.get(table, number.wrapping_add(1));
            if alive(self.scratch, entry) {
                self.code(entry)?;
            }
        }
        Ok(())
    }

    fn automaton(&mut self, dfa: Dfa) -> Result<()> {
        if dfa::place(self.scratch, dfa) == 0 {
            // Not 0, so that the automaton is in the list once.
            dfa::set_place(self.scratch, dfa, 1);
            self.kept.dfas.push(self.scratch, dfa)?;
        }
        Ok(())
    }

    fn place_tables(&mut self) {
        let mut record = self.kept.tables.first;
        while record != 0 {
            let table = self.scratch.get(record, 0);
            let count = self.scratch.get(table, 0);
            self.scratch.set(table, count.wrapping_add(1), self.kept.used);
            self.kept.used = self.kept.used.saturating_add(count);
            record = self.scratch.get(record, 1);
        }
    }

    fn place_state(&mut self, state: u32) {
        dfa::set_place(self.scratch, state, self.kept.used);
        let mut edge = dfa::edges(self.scratch, state);
        self.kept.used = self.kept.used.saturating_add(3);
        while let Some(found) = dfa::edge(self.scratch, edge) {
            self.kept.used = self.kept.used.saturating_add(3);
            edge = found.next;
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
            // A round without a character adds nothing, so no round has to be made if the body can be passed.
            LOOP => out.push([op, if passed(c) == 1 { 0 } else { a }, b, self.at(c), self.at(d)]),
            COUNT => out.push([op, place(self.scratch, a)]),
            CALL => {
                let called = start(self.scratch, a);
                out.push([op | passed(called) << 8, self.at(called), self.at(b)]);
            }
            _ => out.push([op | b << 8, a, self.at(c)]),
        }
    }

    fn write_state(&self, state: u32, out: &mut Out<'_>) {
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
    }
}

/// Returns the number of words of an instruction.
pub(super) fn length(op: u32) -> u32 {
    match op {
        RETURN => 1,
        COUNT => 2,
        NAME => 4,
        LOOP | COUNTED | FREE => 5,
        _ => 3,
    }
}
