//! From an expression to a deterministic automaton: Thompson's construction, then sets of states.

use super::ast::{Ast, Expr, Next, OPEN, expr, link, listed};
use super::class::{self, ANY};
use super::dfa::{self, Builder, Dfa, append, chained, key};
use super::error::{ErrorKind, GrammarError};
use super::scratch::{Result, Scratch, mix, sort};

// The fields of a node: its kind, two numbers, and the round that met it last.
const KIND: u32 = 0;
const ONE: u32 = 1;
const TWO: u32 = 2;
const ROUND: u32 = 3;

// Kinds of nodes.
/// Characters of the class `ONE` lead to the node `TWO`.
const CLASS: u32 = 0;
/// Both nodes, `ONE` and `TWO`.
const SPLIT: u32 = 1;
const MATCH: u32 = 2;
/// The node `ONE`, at the beginning of the text.
const BEGIN: u32 = 3;
/// The node `ONE`, at the end of the text.
const END: u32 = 4;

// An expression that waits for the nodes of its parts is a record: the record that waits outside of it, its kind, three
// numbers, the node from which it goes on, and what it waits for.
const OUTSIDE: u32 = 0;
const WAITS: u32 = 1;
const START: u32 = 5;
const STATE: u32 = 6;
/// A sequence: the list of its parts, and how many are left.
const SEQUENCE: u32 = 0;
/// A choice: the next alternative, and the node at which all go on.
const CHOICES: u32 = 1;
/// A repetition: the repeated expression, how often it still has to come, and how often it can come beyond that.
const REPEAT: u32 = 2;
/// It waits for an alternative, or for a part that has to come once more.
const AGAIN: u32 = 1;
/// It waits for a part that can be left out.
const OPTIONAL: u32 = 2;
/// It waits for the body of a loop.
const IN_LOOP: u32 = 3;

/// The most nodes for each state that is allowed.
const NODES: u32 = 16;

/// The first and the last character of a range, and a list of nodes: its record and its length.
type Segment = (u32, u32, (u32, u32));

/// An expression that becomes an automaton, in as many pieces as one likes. The automaton accepts the texts in which
/// the expression is found, as `pattern` wants.
pub(super) struct Search {
    nodes: u32,
    limit: u32,
    at: usize,
    round: u32,
    /// The node of the text behind the expression, from which on everything is accepted. 0 if the expression has to be
    /// the whole text.
    tail: u32,
    matched: u32,
    stage: Stage,
}

/// The stages of the work.
enum Stage {
    /// The nodes of the expression are made: the record that waits, and the next step.
    Nodes(u32, Next),
    /// The edges of a state are made: the builder, the state, the character from which on edges are missing, and the
    /// last edge.
    States(Builder, u32, u32, u32),
}

impl Search {
    /// Begins with an expression. It has to be the whole text if `whole` is set.
    pub(super) fn new(scratch: &mut Scratch<'_>, ast: Ast, whole: bool, limit: u32, at: usize) -> Result<Self> {
        let stage = Stage::Nodes(0, Next::Done(0));
        let mut search = Self { nodes: 0, limit, at, round: 0, tail: 0, matched: 0, stage };
        search.matched = search.node(scratch, MATCH, 0, 0)?;
        let mut then = search.matched;
        if !whole {
            let any = class::of(scratch, ANY)?;
            then = search.node(scratch, SPLIT, search.matched, 0)?;
            search.tail = search.node(scratch, CLASS, any, then)?;
            scratch.set(then, TWO, search.tail);
        }
        search.stage = Stage::Nodes(0, Next::Into(ast, then));
        Ok(search)
    }

    /// Goes on. Returns the automaton when it is made, which is not trimmed.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<Option<Dfa>> {
        while !scratch.is_spent() {
            match self.stage {
                Stage::Nodes(mut waiting, next) => {
                    let next = match next {
                        Next::Into(ast, then) => self.enter(scratch, &mut waiting, ast, then)?,
                        Next::Done(node) if waiting == 0 => {
                            self.stage = self.begin_states(scratch, node)?;
                            continue;
                        }
                        Next::Done(node) => self.resume(scratch, &mut waiting, node)?,
                    };
                    scratch.spend(1);
                    self.stage = Stage::Nodes(waiting, next);
                }
                Stage::States(ref builder, 0, ..) => return Ok(Some(builder.first)),
                Stage::States(builder, state, low, last) => {
                    self.stage = self.next_edge(scratch, builder, state, (low, last))?;
                }
            }
        }
        Ok(None)
    }

    fn node(&mut self, scratch: &mut Scratch<'_>, kind: u32, one: u32, two: u32) -> Result<u32> {
        self.nodes += 1;
        if self.nodes > self.limit.saturating_mul(NODES) {
            return Err(self.too_many());
        }
        scratch.record([kind, one, two, 0])
    }

    fn too_many(&self) -> GrammarError {
        GrammarError { kind: ErrorKind::TooManyStates { limit: self.limit }, at: self.at }
    }

    fn enter(&mut self, scratch: &mut Scratch<'_>, waiting: &mut u32, ast: Ast, then: u32) -> Result<Next> {
        let record = match expr(scratch, ast) {
            // The last part is made first: each part is made after the node to which it leads.
            Expr::Sequence(first) => {
                let (list, count) = listed(scratch, first)?;
                [*waiting, SEQUENCE, list, count, 0, 0, 0]
            }
            Expr::Choice(first) => [*waiting, CHOICES, first, then, 0, 0, 0],
            Expr::Repeat(inner, min, OPEN) => {
                let split = self.node(scratch, SPLIT, then, 0)?;
                *waiting = scratch.record([*waiting, REPEAT, inner, min, 0, split, IN_LOOP])?;
                return Ok(Next::Into(inner, split));
            }
            Expr::Repeat(inner, min, max) => [*waiting, REPEAT, inner, min, max.saturating_sub(min), then, 0],
            Expr::Class(class) => return self.node(scratch, CLASS, class, then).map(Next::Done),
            Expr::Begin => return self.node(scratch, BEGIN, then, 0).map(Next::Done),
            Expr::End => return self.node(scratch, END, then, 0).map(Next::Done),
            Expr::Rule(_) | Expr::Token(..) => return Err(self.too_many()),
        };
        *waiting = scratch.record(record)?;
        self.resume(scratch, waiting, then)
    }

    /// Goes on with the expression that waits for this node.
    fn resume(&mut self, scratch: &mut Scratch<'_>, waiting: &mut u32, node: u32) -> Result<Next> {
        let record = *waiting;
        let [kind, a, b, start, state] = [WAITS, 2, 3, START, STATE].map(|field| scratch.get(record, field));
        let next = match kind {
            SEQUENCE => b.checked_sub(1).map(|index| {
                scratch.set(record, 3, index);
                Next::Into(scratch.get(a, index), node)
            }),
            CHOICES => {
                if state == AGAIN {
                    let split = if start == 0 { node } else { self.node(scratch, SPLIT, start, node)? };
                    scratch.set(record, START, split);
                }
                scratch.set(record, STATE, AGAIN);
                scratch.set(record, 2, link(scratch, a));
                (a != 0).then_some(Next::Into(a, b))
            }
            _ => self.resume_repeat(scratch, record, node)?,
        };
        Ok(next.unwrap_or_else(|| {
            *waiting = scratch.get(record, OUTSIDE);
            Next::Done(if kind == SEQUENCE { node } else { scratch.get(record, START) })
        }))
    }

    fn resume_repeat(&mut self, scratch: &mut Scratch<'_>, record: u32, node: u32) -> Result<Option<Next>> {
        let [inner, least, more, start, state] = [2, 3, 4, START, STATE].map(|field| scratch.get(record, field));
        let start = match state {
            IN_LOOP => {
                scratch.set(start, TWO, node);
                start
            }
            OPTIONAL => self.node(scratch, SPLIT, start, node)?,
            _ => node,
        };
        scratch.set(record, START, start);
        let [state, field, left] = if more > 0 { [OPTIONAL, 4, more] } else { [AGAIN, 3, least] };
        let Some(left) = left.checked_sub(1) else { return Ok(None) };
        // A round of an empty expression makes no nodes, so each round counts as one.
        self.nodes = self.nodes.saturating_add(u32::from(state == AGAIN));
        if self.nodes > self.limit.saturating_mul(NODES) {
            return Err(self.too_many());
        }
        scratch.set(record, field, left);
        scratch.set(record, STATE, state);
        Ok(Some(Next::Into(inner, start)))
    }

    /// Begins the deterministic automaton of the expression at a node.
    fn begin_states(&mut self, scratch: &mut Scratch<'_>, inner: u32) -> Result<Stage> {
        let mut start = inner;
        if self.tail != 0 {
            start = self.node(scratch, SPLIT, inner, 0)?;
            let skip = self.node(scratch, CLASS, scratch.get(self.tail, ONE), start)?;
            scratch.set(start, TWO, skip);
        }
        let mut builder = Builder::new(scratch, self.limit, self.at)?;
        let mark = scratch.mark();
        let first = scratch.record([start])?;
        self.state(scratch, &mut builder, (first, 1), mark, true)?;
        Ok(Stage::States(builder, builder.first, 0, 0))
    }

    /// Makes the next edge of a state, or goes to the next state.
    fn next_edge(
        &mut self,
        scratch: &mut Scratch<'_>,
        mut builder: Builder,
        state: u32,
        (low, last): (u32, u32),
    ) -> Result<Stage> {
        let (set, count) = key(scratch, state);
        let mark = scratch.mark();
        scratch.spend(1 + count as usize);
        let Some((from, to, targets)) = self.segment(scratch, set, count, low)? else {
            return Ok(Stage::States(builder, dfa::next(scratch, state), 0, 0));
        };
        let target = self.state(scratch, &mut builder, targets, mark, false)?;
        let last = append(scratch, state, last, from, to, target)?;
        Ok(Stage::States(builder, state, to.saturating_add(1), last))
    }

    /// Returns the next characters from `low` on that lead to the same nodes, and a list of these nodes.
    fn segment(&self, scratch: &mut Scratch<'_>, set: u32, count: u32, low: u32) -> Result<Option<Segment>> {
        let (mut from, mut to) = (u32::MAX, u32::MAX);
        for index in 0..count {
            let mut range = Self::first_range(scratch, scratch.get(set, index));
            while let Some((first, last, next)) = class::range_of(scratch, range) {
                range = next;
                if last < low {
                    continue;
                }
                let first = first.max(low);
                if first < from {
                    // A range that begins later ends this segment at the latest.
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
        let list = scratch.mark() as u32;
        let mut found = 0;
        for index in 0..count {
            let node = scratch.get(set, index);
            let mut range = Self::first_range(scratch, node);
            while let Some((first, last, next)) = class::range_of(scratch, range) {
                if first <= from && from <= last {
                    let target = scratch.get(node, TWO);
                    scratch.record([target])?;
                    found += 1;
                    break;
                }
                range = next;
            }
        }
        Ok(Some((from, to, (list, found))))
    }

    fn first_range(scratch: &Scratch<'_>, node: u32) -> u32 {
        if scratch.get(node, KIND) == CLASS { scratch.get(node, ONE) } else { 0 }
    }

    /// Returns the state of these nodes and of those that are reached from them without a character. Records that were
    /// made since `mark` are dropped.
    fn state(
        &mut self,
        scratch: &mut Scratch<'_>,
        builder: &mut Builder,
        nodes: (u32, u32),
        mark: usize,
        begin: bool,
    ) -> Result<u32> {
        let (list, count) = self.closure(scratch, nodes, begin, false)?;
        let mut accept = false;
        if begin || scratch.slice(list, count).iter().any(|node| Self::is_end(scratch, *node)) {
            let (ends, count) = self.closure(scratch, (list, count), begin, true)?;
            accept = scratch.slice(ends, count).contains(&self.matched);
        }
        accept |= scratch.slice(list, count).contains(&self.matched);
        let (list, count) = self.shortened(scratch, list, count);
        // The beginning of the text has a state of its own only where it differs from others.
        let hash = scratch.slice(list, count).iter().fold(u32::from(accept), |hash, node| mix(hash, *node));
        let mut state = builder.bucket(scratch, hash);
        while state != 0 {
            let (other, others) = key(scratch, state);
            let same = scratch.slice(other, others) == scratch.slice(list, count);
            if same && (dfa::accept(scratch, state) != 0) == accept {
                scratch.release(mark);
                return Ok(state);
            }
            state = chained(scratch, state);
        }
        let kept = mark as u32;
        (0..count).for_each(|index| scratch.set(kept, index, scratch.get(list, index)));
        scratch.release(mark.saturating_add(count as usize));
        builder.push(scratch, (kept, count), hash, u32::from(accept))
    }

    fn is_end(scratch: &Scratch<'_>, node: u32) -> bool {
        scratch.get(node, KIND) == END
    }

    /// Returns a list of nodes, shortened if it has the tail: everything is accepted from there on, so other nodes do
    /// not matter.
    fn shortened(&self, scratch: &mut Scratch<'_>, list: u32, count: u32) -> (u32, u32) {
        if self.tail == 0 || !scratch.slice(list, count).contains(&self.tail) {
            return (list, count);
        }
        scratch.set(list, 0, self.matched);
        scratch.set(list, 1, self.tail);
        (list, 2)
    }

    /// Returns a sorted list of the nodes that are reached without a character: those with characters, ends, and the
    /// match.
    fn closure(&mut self, scratch: &mut Scratch<'_>, nodes: (u32, u32), begin: bool, end: bool) -> Result<(u32, u32)> {
        self.round += 1;
        let mut stack = 0;
        for index in 0..nodes.1 {
            let node = scratch.get(nodes.0, index);
            stack = scratch.record([node, stack])?;
        }
        let mut found = 0;
        let mut count = 0;
        while stack != 0 {
            let node = scratch.get(stack, 0);
            stack = scratch.get(stack, 1);
            if scratch.get(node, ROUND) == self.round {
                continue;
            }
            scratch.set(node, ROUND, self.round);
            let one = scratch.get(node, ONE);
            match scratch.get(node, KIND) {
                SPLIT => {
                    let two = scratch.get(node, TWO);
                    stack = scratch.record([two, stack])?;
                    stack = scratch.record([one, stack])?;
                }
                BEGIN if begin => stack = scratch.record([one, stack])?,
                BEGIN => {}
                END if end => stack = scratch.record([one, stack])?,
                _ => {
                    found = scratch.record([node, found])?;
                    count += 1;
                }
            }
        }
        let list = scratch.zeroed(count as usize)?;
        for index in 0..count {
            scratch.set(list, index, scratch.get(found, 0));
            found = scratch.get(found, 1);
        }
        sort(scratch.slice_mut(list, count));
        Ok((list, count))
    }
}
