//! How many bytes a text needs to its end: from each instruction of a grammar, and from each state of its automata.
//!
//! A table behind the words of a grammar has as many words as the grammar. At the place of an instruction, the first
//! word is the fewest bytes to the end of the rule, or to the end of the round of the loop around the instruction. The
//! second word is this loop, or 0. The fourth word of a counted text is the most bytes that a character takes if the
//! shortest characters are chosen. At the place of a state, the first word is the fewest bytes to where the automaton
//! accepts; for names, to the name with the highest number. The second word is the number of quotes on the way.

use super::code::{CALL, COUNT, COUNTED, FREE, LOOP, NAME, RETURN, SPLIT, TEXT, TOKEN};
use super::codec::least_bytes;
use super::compiled::Compiled;
use super::dfa::QUOTE;
use super::pack::{HEADER, length};
use super::scratch::Scratch;

/// Stands for no known end: more bytes than any text needs.
pub(super) const NEVER: u32 = u32::MAX >> 1;

// The third word of a state while numbers are made: the place of the state before, and above it these bits and the
// codec.
const FIRST: u32 = 1 << 31;
const NAMES: u32 = 1 << 30;
const CODEC: u32 = 28;
const PLACE: u32 = (1 << CODEC) - 1;

/// A table that is filled, in as many pieces as one likes.
#[derive(Clone, Copy)]
pub(super) struct Filling {
    stage: Stage,
    /// Place of the next instruction or state.
    at: u32,
    /// Place of the instruction or state before it, or 0.
    last: u32,
    /// What the automaton of the present state is for: the bits above the place in the third word of the state.
    kind: u32,
    /// Of a counted text: the most bytes of a character so far.
    most: u32,
    /// Whether a number has changed in this round.
    changed: bool,
    /// Place of the last instruction.
    last_code: u32,
    /// Place of the last state.
    last_state: u32,
    largest: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Clear,
    LinkCodes,
    LinkStates,
    SweepStates,
    /// The characters of counted texts are measured: the next state of the present text, or 0 at its beginning.
    Chars(u32),
    SweepCodes,
    Finish,
    Done,
}

impl Filling {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Clear,
            at: 0,
            last: 0,
            kind: 0,
            most: 1,
            changed: false,
            last_code: 0,
            last_state: 0,
            largest: 0,
        }
    }

    /// Goes on with the table of a grammar. Returns whether the table is finished. Then its first word is the largest
    /// number of bytes that is known of an instruction.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>, words: &[u32], table: &mut [u32]) -> bool {
        let mut rests = Rests { grammar: Compiled::new(words), table };
        while !scratch.is_spent() && self.stage != Stage::Done {
            scratch.spend(1);
            self.next(&mut rests, scratch);
        }
        self.stage == Stage::Done
    }

    fn next(&mut self, rests: &mut Rests<'_, '_>, scratch: &mut Scratch<'_>) {
        let (codes_end, end) = (rests.grammar.word(2), rests.grammar.word(0));
        match self.stage {
            Stage::Clear => {
                scratch.spend(rests.table.len() / 256);
                rests.table.fill(0);
                (self.stage, self.at) = (Stage::LinkCodes, HEADER);
            }
            Stage::LinkCodes if self.at < codes_end => {
                rests.link_code(self.at, self.last);
                self.pass(rests);
            }
            Stage::LinkCodes => {
                self.last_code = self.last;
                (self.stage, self.at, self.last) = (Stage::LinkStates, rests.grammar.word(3), 0);
            }
            Stage::LinkStates if self.at < end => {
                self.kind = rests.link_state(self.at, self.last, self.kind);
                self.last = self.at;
                self.at = self.at.saturating_add(rests.grammar.state_len(self.at));
            }
            Stage::LinkStates => {
                self.last_state = self.last;
                (self.stage, self.at) = (Stage::SweepStates, self.last);
            }
            Stage::SweepStates if self.at != 0 => {
                scratch.spend(rests.grammar.edges(self.at).len() / 4);
                self.changed |= rests.sweep_state(self.at);
                self.at = rests.get(self.at, 2) & PLACE;
            }
            Stage::SweepStates if self.changed => (self.changed, self.at) = (false, self.last_state),
            Stage::SweepStates => (self.stage, self.at) = (Stage::Chars(0), HEADER),
            Stage::Chars(state) if self.at < codes_end => {
                scratch.spend(rests.grammar.edges(state).len());
                self.measure(rests, state);
            }
            Stage::Chars(_) => (self.stage, self.at) = (Stage::SweepCodes, self.last_code),
            Stage::SweepCodes if self.at != 0 => {
                self.changed |= rests.sweep_code(self.at);
                self.at = rests.get(self.at, before(rests.op(self.at)));
            }
            Stage::SweepCodes if self.changed => (self.changed, self.at) = (false, self.last_code),
            Stage::SweepCodes => (self.stage, self.at) = (Stage::Finish, HEADER),
            Stage::Finish if self.at < codes_end => {
                self.largest = self.largest.max(rests.finish_code(self.at));
                self.pass(rests);
            }
            Stage::Finish | Stage::Done => {
                rests.set(0, 0, self.largest);
                self.stage = Stage::Done;
            }
        }
    }

    /// Goes to the next instruction.
    fn pass(&mut self, rests: &Rests<'_, '_>) {
        self.last = self.at;
        self.at = self.at.saturating_add(length(rests.op(self.at)));
    }

    /// Notes of a counted text how many bytes a character takes at most. Each call looks at one state.
    fn measure(&mut self, rests: &mut Rests<'_, '_>, state: u32) {
        if rests.op(self.at) != COUNTED {
            return self.pass(rests);
        }
        let state = if state == 0 { rests.grammar.word(self.at.wrapping_add(1)) } else { state };
        let codec = rests.grammar.word(self.at) >> 8;
        self.most = self.most.max(rests.longest_char(codec, state));
        let next = state.saturating_add(rests.grammar.state_len(state));
        if next < rests.grammar.word(0) && rests.get(next, 2) & FIRST == 0 {
            self.stage = Stage::Chars(next);
            return;
        }
        rests.set(self.at, 3, self.most);
        (self.stage, self.most) = (Stage::Chars(0), 1);
        self.pass(rests);
    }
}

/// The numbers of a table in the making.
struct Rests<'w, 't> {
    grammar: Compiled<'w>,
    table: &'t mut [u32],
}

impl Rests<'_, '_> {
    fn get(&self, place: u32, field: u32) -> u32 {
        self.table.get(place.wrapping_add(field) as usize).copied().unwrap_or(0)
    }

    fn set(&mut self, place: u32, field: u32, value: u32) {
        self.table.get_mut(place.wrapping_add(field) as usize).into_iter().for_each(|word| *word = value);
    }

    fn op(&self, code: u32) -> u32 {
        self.grammar.word(code) & 0xFF
    }

    /// Notes in an instruction which instruction is before it, and in its automaton what the automaton is for.
    fn link_code(&mut self, code: u32, last: u32) {
        let op = self.op(code);
        self.set(code, before(op), last);
        if !matches!(op, RETURN | COUNT) {
            self.set(code, 0, NEVER);
        }
        if matches!(op, TEXT | NAME | COUNTED | FREE) {
            let (first, codec) = (self.grammar.word(code.wrapping_add(1)), self.grammar.word(code) >> 8 & 3);
            let kind = if matches!(op, NAME | FREE) { NAMES } else { codec << CODEC };
            self.set(first, 2, FIRST | kind);
        }
    }

    /// Notes in a state which state is before it, and what its automaton is for. Returns what it is for.
    fn link_state(&mut self, state: u32, last: u32, kind: u32) -> u32 {
        let marked = self.get(state, 2);
        let kind = if marked == 0 { kind & !FIRST } else { marked };
        self.set(state, 0, NEVER);
        self.set(state, 1, NEVER);
        self.set(state, 2, kind | last);
        kind
    }

    /// Makes the numbers of a state. Returns whether one has changed.
    fn sweep_state(&mut self, state: u32) -> bool {
        let kind = self.get(state, 2);
        let (rest, quotes) = self.state_rest(state, kind & NAMES != 0, kind >> CODEC & 3);
        let changed = rest < self.get(state, 0) || quotes < self.get(state, 1);
        self.set(state, 0, rest.min(NEVER));
        self.set(state, 1, quotes.min(NEVER));
        changed
    }

    fn state_rest(&self, state: u32, is_name: bool, codec: u32) -> (u32, u32) {
        let (accept, highest) = (self.grammar.accept(state), self.grammar.highest(state));
        if accept != 0 && (!is_name || accept == highest) {
            return (0, 0);
        }
        let (mut rest, mut quotes) = (NEVER, NEVER);
        for &[low, high, target] in self.grammar.edges(state) {
            let own = least_bytes(codec, 0, low, high);
            if let Some(own) = own.filter(|_| !is_name || self.grammar.highest(target) == highest) {
                rest = rest.min(own.saturating_add(self.get(target, 0)));
                quotes = quotes.min(u32::from(low == QUOTE).saturating_add(self.get(target, 1)));
            }
        }
        (rest, quotes)
    }

    /// Returns the most bytes of a character from a state, if the shortest character to each target is taken.
    fn longest_char(&self, codec: u32, state: u32) -> u32 {
        let edges = self.grammar.edges(state);
        let of_target = |target: u32| {
            let chars = edges.iter().filter(|[low, _, to]| *to == target && *low != QUOTE);
            chars.filter_map(|&[low, high, _]| least_bytes(codec, 0, low, high)).min()
        };
        edges.iter().filter_map(|[_, _, target]| of_target(*target)).max().unwrap_or(1)
    }

    /// Makes the numbers of an instruction. Returns whether one has changed.
    fn sweep_code(&mut self, code: u32) -> bool {
        let op = self.op(code);
        if matches!(op, RETURN | COUNT) {
            return false;
        }
        let (rest, within) = self.code_rest(code, op);
        let changed = rest < self.get(code, 0) || within != self.get(code, 1);
        self.set(code, 0, rest.min(NEVER));
        self.set(code, 1, within);
        changed
    }

    /// Returns the number of bytes from an instruction to the end of the rule or round, and the loop that it is in.
    fn code_rest(&self, code: u32, op: u32) -> (u32, u32) {
        let word = |index: u32| self.grammar.word(code.wrapping_add(index));
        let of = |code: u32| match self.op(code) {
            RETURN => (0, 0),
            COUNT => (0, self.grammar.word(code.wrapping_add(1))),
            _ => (self.get(code, 0), self.get(code, 1)),
        };
        let then = |own: u32, code: u32| (own.saturating_add(of(code).0), of(code).1);
        match op {
            TEXT => then(self.get(word(1), 0), word(2)),
            COUNTED => {
                let chars = word(3).max(self.grammar.highest(word(1)) & 0xFFFF);
                then(chars.saturating_mul(self.get(code, 3)).saturating_add(self.get(word(1), 1)), word(2))
            }
            NAME => match self.grammar.highest(word(1)) {
                number if number > word(3) => {
                    then(self.get(word(1), 0), self.grammar.word(word(2).wrapping_add(number - 1)))
                }
                _ => (NEVER, 0),
            },
            FREE => {
                let number = self.grammar.highest(word(1));
                let found = self.grammar.word(word(2).wrapping_add(number.wrapping_sub(1)));
                let found = if found == 0 { NEVER } else { self.get(word(1), 0).saturating_add(of(found).0) };
                (found.min(if word(3) == 0 { NEVER } else { of(word(3)).0 }), 0)
            }
            SPLIT => (of(word(1)).0.min(of(word(2)).0), of(word(1)).1.max(of(word(2)).1)),
            LOOP => then(word(1).saturating_mul(of(word(3)).0), word(4)),
            CALL => then(of(word(1)).0, word(2)),
            TOKEN => then(1, word(2)),
            _ => (NEVER, 0),
        }
    }

    /// Clears the note of the instruction before. Returns the number of bytes from an instruction, or 0 if it is not
    /// known.
    fn finish_code(&mut self, code: u32) -> u32 {
        let op = self.op(code);
        self.set(code, before(op), if op == COUNT { self.grammar.word(code.wrapping_add(1)) } else { 0 });
        Some(self.get(code, 0)).filter(|rest| *rest < NEVER).unwrap_or(0)
    }
}

/// Returns the field of an instruction that notes the instruction before it.
fn before(op: u32) -> u32 {
    match op {
        RETURN => 0,
        COUNT => 1,
        _ => 2,
    }
}
