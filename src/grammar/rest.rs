//! How many bytes a text needs to its end: from each instruction of a grammar, and from each state of its automata.
//!
//! A table behind the words of a grammar has as many words as these. At the place of an instruction it has the fewest bytes to the
//! end of the rule, or to the end of the round of the loop around it; then this loop, or 0; of counted texts, in the fourth word,
//! the most bytes that a character takes if the shortest ones are chosen. At the place of a state it has the fewest bytes to where
//! the automaton accepts, of names to the one with the highest number; then how many quotes are on the way.

use super::code::{CALL, COUNT, COUNTED, FREE, LOOP, NAME, RETURN, SPLIT, TEXT, TOKEN};
use super::codec::least_bytes;
use super::compiled::Compiled;
use super::dfa::QUOTE;
use super::pack::{HEADER, length};

/// More bytes than any text is known to need.
pub(super) const NEVER: u32 = u32::MAX >> 1;

// The third word of a state while numbers are made: the place of the state before, and above it these bits and the codec.
const FIRST: u32 = 1 << 31;
const NAMES: u32 = 1 << 30;
const CODEC: u32 = 28;
const PLACE: u32 = (1 << CODEC) - 1;

/// Fills the table of a grammar. The first word of the table becomes the largest number that is known in it.
pub(super) fn fill(words: &[u32], table: &mut [u32]) {
    let mut rests = Rests { grammar: Compiled::new(words), table };
    rests.table.fill(0);
    let last_code = rests.link_codes();
    let last_state = rests.link_states();
    while rests.sweep_states(last_state) {}
    rests.measure_chars();
    while rests.sweep_codes(last_code) {}
    rests.finish();
}

/// Numbers in the making.
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

    /// The places of instructions: calls `f` with each.
    fn each_code(&mut self, mut f: impl FnMut(&mut Self, u32)) {
        let (mut at, end) = (HEADER, self.grammar.word(2));
        while at < end {
            f(self, at);
            at = at.saturating_add(length(self.op(at)));
        }
    }

    /// Notes before each instruction which one is before it, and of each automaton what it is for. Returns the last instruction.
    fn link_codes(&mut self) -> u32 {
        let mut last = 0;
        self.each_code(|rests, code| {
            let op = rests.op(code);
            rests.set(code, before(op), last);
            if !matches!(op, RETURN | COUNT) {
                rests.set(code, 0, NEVER);
            }
            if matches!(op, TEXT | NAME | COUNTED | FREE) {
                let (first, codec) = (rests.grammar.word(code.wrapping_add(1)), rests.grammar.word(code) >> 8 & 3);
                let kind = if matches!(op, NAME | FREE) { NAMES } else { codec << CODEC };
                rests.set(first, 2, FIRST | kind);
            }
            last = code;
        });
        last
    }

    /// The same of states. Returns the last one.
    fn link_states(&mut self) -> u32 {
        let (mut at, mut last, mut kind) = (self.grammar.word(3), 0, 0);
        while at < self.grammar.word(0) {
            let marked = self.get(at, 2);
            kind = if marked == 0 { kind & !FIRST } else { marked };
            self.set(at, 0, NEVER);
            self.set(at, 1, NEVER);
            self.set(at, 2, kind | last);
            last = at;
            at = at.saturating_add(self.grammar.state_len(at));
        }
        last
    }

    /// Goes over all states, from the last one. Returns whether a number has changed.
    fn sweep_states(&mut self, last: u32) -> bool {
        let (mut changed, mut state) = (false, last);
        while state != 0 {
            let kind = self.get(state, 2);
            let (rest, quotes) = self.state_rest(state, kind & NAMES != 0, kind >> CODEC & 3);
            changed |= rest < self.get(state, 0) || quotes < self.get(state, 1);
            self.set(state, 0, rest.min(NEVER));
            self.set(state, 1, quotes.min(NEVER));
            state = kind & PLACE;
        }
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

    /// Notes of each counted text how many bytes a character takes at most.
    fn measure_chars(&mut self) {
        self.each_code(|rests, code| {
            if rests.op(code) == COUNTED {
                let codec = rests.grammar.word(code) >> 8;
                let (mut state, mut most) = (rests.grammar.word(code.wrapping_add(1)), 1);
                loop {
                    most = most.max(rests.longest_char(codec, state));
                    state = state.saturating_add(rests.grammar.state_len(state));
                    if state >= rests.grammar.word(0) || rests.get(state, 2) & FIRST != 0 {
                        break;
                    }
                }
                rests.set(code, 3, most);
            }
        });
    }

    /// The most bytes of a character from a state, if the shortest one to each target is taken.
    fn longest_char(&self, codec: u32, state: u32) -> u32 {
        let edges = self.grammar.edges(state);
        let of_target = |target: u32| {
            let chars = edges.iter().filter(|[low, _, to]| *to == target && *low != QUOTE);
            chars.filter_map(|&[low, high, _]| least_bytes(codec, 0, low, high)).min()
        };
        edges.iter().filter_map(|[_, _, target]| of_target(*target)).max().unwrap_or(1)
    }

    /// Goes over all instructions, from the last one. Returns whether a number has changed.
    fn sweep_codes(&mut self, last: u32) -> bool {
        let (mut changed, mut code) = (false, last);
        while code != 0 {
            let op = self.op(code);
            if !matches!(op, RETURN | COUNT) {
                let (rest, within) = self.code_rest(code, op);
                changed |= rest < self.get(code, 0) || within != self.get(code, 1);
                self.set(code, 0, rest.min(NEVER));
                self.set(code, 1, within);
            }
            code = self.get(code, before(op));
        }
        changed
    }

    /// Returns the bytes from an instruction, and the loop that it is in.
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

    /// Clears what was noted on the way, and notes the largest number.
    fn finish(&mut self) {
        let mut largest = 0;
        self.each_code(|rests, code| {
            let op = rests.op(code);
            rests.set(code, before(op), if op == COUNT { rests.grammar.word(code.wrapping_add(1)) } else { 0 });
            let rest = rests.get(code, 0);
            largest = if rest < NEVER { largest.max(rest) } else { largest };
        });
        self.set(0, 0, largest);
    }
}

/// The field in which the instruction before one is noted.
fn before(op: u32) -> u32 {
    match op {
        RETURN => 0,
        COUNT => 1,
        _ => 2,
    }
}
