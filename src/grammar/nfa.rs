//! From an expression to a deterministic automaton: Thompson's construction, then sets of states.

use super::ast::{Ast, Expr, Next, OPEN, expr, link, listed};
use super::class::{self, ANY};
use super::dfa::{self, Builder, Dfa, append, chained, key};
use super::error::{ErrorKind, GrammarError};
use super::reach;
use super::scratch::{Result, Scratch, mix, sort};

// The fields of a node: what it is, two numbers, and the round that met it last.
const KIND: u32 = 0;
const ONE: u32 = 1;
const TWO: u32 = 2;
const ROUND: u32 = 3;

// Kinds of nodes.
/// Characters of the class `ONE` lead to the node `TWO`.
const CLASS: u32 = 0;
/// Both nodes.
const SPLIT: u32 = 1;
const MATCH: u32 = 2;
/// The node `ONE`, at the begin of the text.
const BEGIN: u32 = 3;
/// The node `ONE`, at the end of the text.
const END: u32 = 4;

// What waits for the nodes of its parts: a record of what waits outside of it, its kind, three numbers, the node from which it goes
// on, and what it waits for.
const OUTSIDE: u32 = 0;
const WAITS: u32 = 1;
const START: u32 = 5;
const STATE: u32 = 6;
/// The list of parts, and how many are left.
const SEQUENCE: u32 = 0;
/// The next alternative, and where all go on.
const CHOICES: u32 = 1;
/// What is repeated, how often it has to be, and how often it can be beyond that.
const REPEAT: u32 = 2;
/// For a part once more, for one that can be left out, for the body of a loop.
const AGAIN: u32 = 1;
const OPTIONAL: u32 = 2;
const IN_LOOP: u32 = 3;

/// The most nodes for each state that is allowed.
const NODES: u32 = 16;

/// Characters from here to there, and a list of nodes: where it is and how long.
type Segment = (u32, u32, (u32, u32));

/// What is made of an expression.
struct Maker<'p, 's> {
    scratch: &'p mut Scratch<'s>,
    nodes: u32,
    limit: u32,
    at: usize,
    round: u32,
    /// The node of the text behind what was searched for, after which everything is accepted.
    tail: u32,
}

/// Returns the automaton of the texts in which an expression is found, as `pattern` says; 0 if there is none. All of
/// the text has to be found if `whole` is set.
pub(super) fn search(scratch: &mut Scratch<'_>, ast: Ast, whole: bool, limit: u32, at: usize) -> Result<Dfa> {
    let mut maker = Maker { scratch, nodes: 0, limit, at, round: 0, tail: 0 };
    let matched = maker.node(MATCH, 0, 0)?;
    let start = if whole {
        maker.build(ast, matched)?
    } else {
        let any = class::of(maker.scratch, ANY)?;
        let behind = maker.node(SPLIT, matched, 0)?;
        maker.tail = maker.node(CLASS, any, behind)?;
        maker.scratch.set(behind, TWO, maker.tail);
        let inner = maker.build(ast, behind)?;
        let before = maker.node(SPLIT, inner, 0)?;
        let skip = maker.node(CLASS, any, before)?;
        maker.scratch.set(before, TWO, skip);
        before
    };
    maker.states(start, matched)
}

impl Maker<'_, '_> {
    fn node(&mut self, kind: u32, one: u32, two: u32) -> Result<u32> {
        self.nodes += 1;
        if self.nodes > self.limit.saturating_mul(NODES) {
            return Err(self.too_many());
        }
        self.scratch.record([kind, one, two, 0])
    }

    fn too_many(&self) -> GrammarError {
        GrammarError { kind: ErrorKind::TooManyStates { limit: self.limit }, at: self.at }
    }

    /// Returns the node at which an expression begins that goes on at `then`. What is nested takes scratch and no stack.
    fn build(&mut self, ast: Ast, then: u32) -> Result<u32> {
        let mut waiting = 0;
        let mut next = Next::Into(ast, then);
        loop {
            next = match next {
                Next::Into(ast, then) => self.enter(&mut waiting, ast, then)?,
                Next::Done(node) if waiting == 0 => return Ok(node),
                Next::Done(node) => self.resume(&mut waiting, node)?,
            };
        }
    }

    fn enter(&mut self, waiting: &mut u32, ast: Ast, then: u32) -> Result<Next> {
        let record = match expr(self.scratch, ast) {
            // The last one first: each is built before what it leads to.
            Expr::Sequence(first) => {
                let (list, count) = listed(self.scratch, first)?;
                [*waiting, SEQUENCE, list, count, 0, 0, 0]
            }
            Expr::Choice(first) => [*waiting, CHOICES, first, then, 0, 0, 0],
            Expr::Repeat(inner, min, OPEN) => {
                let split = self.node(SPLIT, then, 0)?;
                *waiting = self.scratch.record([*waiting, REPEAT, inner, min, 0, split, IN_LOOP])?;
                return Ok(Next::Into(inner, split));
            }
            Expr::Repeat(inner, min, max) => [*waiting, REPEAT, inner, min, max.saturating_sub(min), then, 0],
            Expr::Class(class) => return self.node(CLASS, class, then).map(Next::Done),
            Expr::Begin => return self.node(BEGIN, then, 0).map(Next::Done),
            Expr::End => return self.node(END, then, 0).map(Next::Done),
            Expr::Rule(_) | Expr::Token(..) => return Err(self.too_many()),
        };
        *waiting = self.scratch.record(record)?;
        self.resume(waiting, then)
    }

    /// Goes on with what waits for this node.
    fn resume(&mut self, waiting: &mut u32, node: u32) -> Result<Next> {
        let record = *waiting;
        let [kind, a, b, start, state] = [WAITS, 2, 3, START, STATE].map(|field| self.scratch.get(record, field));
        let next = match kind {
            SEQUENCE => b.checked_sub(1).map(|index| {
                self.scratch.set(record, 3, index);
                Next::Into(self.scratch.get(a, index), node)
            }),
            CHOICES => {
                if state == AGAIN {
                    let split = if start == 0 { node } else { self.node(SPLIT, start, node)? };
                    self.scratch.set(record, START, split);
                }
                self.scratch.set(record, STATE, AGAIN);
                self.scratch.set(record, 2, link(self.scratch, a));
                (a != 0).then_some(Next::Into(a, b))
            }
            _ => self.resume_repeat(record, node)?,
        };
        Ok(next.unwrap_or_else(|| {
            *waiting = self.scratch.get(record, OUTSIDE);
            Next::Done(if kind == SEQUENCE { node } else { self.scratch.get(record, START) })
        }))
    }

    fn resume_repeat(&mut self, record: u32, node: u32) -> Result<Option<Next>> {
        let [inner, least, more, start, state] = [2, 3, 4, START, STATE].map(|field| self.scratch.get(record, field));
        let start = match state {
            IN_LOOP => {
                self.scratch.set(start, TWO, node);
                start
            }
            OPTIONAL => self.node(SPLIT, start, node)?,
            _ => node,
        };
        self.scratch.set(record, START, start);
        let [state, field, left] = if more > 0 { [OPTIONAL, 4, more] } else { [AGAIN, 3, least] };
        let Some(left) = left.checked_sub(1) else { return Ok(None) };
        // A repetition of nothing makes no nodes, so it is counted itself.
        self.nodes = self.nodes.saturating_add(u32::from(state == AGAIN));
        if self.nodes > self.limit.saturating_mul(NODES) {
            return Err(self.too_many());
        }
        self.scratch.set(record, field, left);
        self.scratch.set(record, STATE, state);
        Ok(Some(Next::Into(inner, start)))
    }

    /// Returns the deterministic automaton.
    fn states(&mut self, start: u32, matched: u32) -> Result<Dfa> {
        let mut builder = Builder::new(self.scratch, self.limit, self.at)?;
        let mark = self.scratch.mark();
        let first = self.scratch.record([start])?;
        self.state(&mut builder, (first, 1), mark, true, matched)?;
        let mut state = builder.first;
        while state != 0 {
            let (set, count) = key(self.scratch, state);
            let (mut low, mut last) = (0, 0);
            let mut mark = self.scratch.mark();
            while let Some((from, to, targets)) = self.segment(set, count, low)? {
                let target = self.state(&mut builder, targets, mark, false, matched)?;
                last = append(self.scratch, state, last, from, to, target)?;
                low = to.saturating_add(1);
                mark = self.scratch.mark();
            }
            state = dfa::next(self.scratch, state);
        }
        Ok(reach::trimmed(self.scratch, builder.first))
    }

    /// Returns the next characters from `low` on that lead to the same nodes, and a list of these.
    fn segment(&mut self, set: u32, count: u32, low: u32) -> Result<Option<Segment>> {
        let (mut from, mut to) = (u32::MAX, u32::MAX);
        for index in 0..count {
            let mut range = self.first_range(self.scratch.get(set, index));
            while let Some((first, last, next)) = class::range_of(self.scratch, range) {
                range = next;
                if last < low {
                    continue;
                }
                let first = first.max(low);
                if first < from {
                    // What begins later ends this segment at the latest.
                    to = if from == u32::MAX { last } else { last.min(from - 1) };
                    from = first;
                } else if first == from {
                    to = to.min(last);
                } else {
                    to = to.min(first - 1);
                }
                break;
            }
        }
        if from == u32::MAX {
            return Ok(None);
        }
        let list = self.scratch.mark() as u32;
        let mut found = 0;
        for index in 0..count {
            let node = self.scratch.get(set, index);
            let mut range = self.first_range(node);
            while let Some((first, last, next)) = class::range_of(self.scratch, range) {
                if first <= from && from <= last {
                    let target = self.scratch.get(node, TWO);
                    self.scratch.record([target])?;
                    found += 1;
                    break;
                }
                range = next;
            }
        }
        Ok(Some((from, to, (list, found))))
    }

    fn first_range(&self, node: u32) -> u32 {
        if self.scratch.get(node, KIND) == CLASS { self.scratch.get(node, ONE) } else { 0 }
    }

    /// Returns the state of these nodes and those that are reached from them without a character. What was recorded
    /// since `mark` is dropped.
    fn state(
        &mut self,
        builder: &mut Builder,
        nodes: (u32, u32),
        mark: usize,
        begin: bool,
        matched: u32,
    ) -> Result<u32> {
        let (list, count) = self.closure(nodes, begin, false)?;
        let mut accept = false;
        if begin || self.scratch.slice(list, count).iter().any(|node| self.is_end(*node)) {
            let (ends, count) = self.closure((list, count), begin, true)?;
            accept = self.scratch.slice(ends, count).contains(&matched);
        }
        accept |= self.scratch.slice(list, count).contains(&matched);
        let (list, count) = self.shortened(list, count, matched);
        // The begin is a state of its own only where it differs.
        let hash = self.scratch.slice(list, count).iter().fold(u32::from(accept), |hash, node| mix(hash, *node));
        let mut state = builder.bucket(self.scratch, hash);
        while state != 0 {
            let (other, others) = key(self.scratch, state);
            let same = self.scratch.slice(other, others) == self.scratch.slice(list, count);
            if same && (dfa::accept(self.scratch, state) != 0) == accept {
                self.scratch.release(mark);
                return Ok(state);
            }
            state = chained(self.scratch, state);
        }
        let kept = mark as u32;
        (0..count).for_each(|index| self.scratch.set(kept, index, self.scratch.get(list, index)));
        self.scratch.release(mark.saturating_add(count as usize));
        builder.push(self.scratch, (kept, count), hash, u32::from(accept))
    }

    fn is_end(&self, node: u32) -> bool {
        self.scratch.get(node, KIND) == END
    }

    /// Where everything is accepted from here on, other ways do not matter.
    fn shortened(&mut self, list: u32, count: u32, matched: u32) -> (u32, u32) {
        if self.tail == 0 || !self.scratch.slice(list, count).contains(&self.tail) {
            return (list, count);
        }
        self.scratch.set(list, 0, matched);
        self.scratch.set(list, 1, self.tail);
        (list, 2)
    }

    /// Returns the nodes that are reached without a character, sorted: those with characters, ends, and the match.
    fn closure(&mut self, nodes: (u32, u32), begin: bool, end: bool) -> Result<(u32, u32)> {
        self.round += 1;
        let mut stack = 0;
        for index in 0..nodes.1 {
            let node = self.scratch.get(nodes.0, index);
            stack = self.scratch.record([node, stack])?;
        }
        let mut found = 0;
        let mut count = 0;
        while stack != 0 {
            let node = self.scratch.get(stack, 0);
            stack = self.scratch.get(stack, 1);
            if self.scratch.get(node, ROUND) == self.round {
                continue;
            }
            self.scratch.set(node, ROUND, self.round);
            let one = self.scratch.get(node, ONE);
            match self.scratch.get(node, KIND) {
                SPLIT => {
                    let two = self.scratch.get(node, TWO);
                    stack = self.scratch.record([two, stack])?;
                    stack = self.scratch.record([one, stack])?;
                }
                BEGIN if begin => stack = self.scratch.record([one, stack])?,
                BEGIN => {}
                END if end => stack = self.scratch.record([one, stack])?,
                _ => {
                    found = self.scratch.record([node, found])?;
                    count += 1;
                }
            }
        }
        let list = self.scratch.zeroed(count as usize)?;
        for index in 0..count {
            self.scratch.set(list, index, self.scratch.get(found, 0));
            found = self.scratch.get(found, 1);
        }
        sort(self.scratch.slice_mut(list, count));
        Ok((list, count))
    }
}
