//! One step of a matcher: from the items to which a byte leads, to all items that are reached without a further byte.

use super::code::{CALL, COUNT, COUNTED, FREE, LOOP, NAME, RETURN, SPLIT, TEXT, TOKEN};
use super::error::MatchError;
use super::matcher::Matcher;
use super::rest::NEVER;
use super::tables::{Frontier, Item, Node, Reached, Return};

/// A frontier in the making.
pub(super) struct Step<'p, 'g, 'm> {
    pub(super) matcher: &'p mut Matcher<'g, 'm>,
    pub(super) from: Frontier,
    pub(super) next: Frontier,
    /// Number of instructions that were reached.
    reached: usize,
    /// Number of reached instructions that have been followed.
    followed: usize,
}

impl<'p, 'g, 'm> Step<'p, 'g, 'm> {
    /// Begins a frontier that lies behind `from` in the table.
    pub(super) fn new(matcher: &'p mut Matcher<'g, 'm>, from: Frontier) -> Self {
        let start = from.start.saturating_add(from.count);
        let next = Frontier { start, count: 0, accepting: false, ..from };
        Self { matcher, from, next, reached: 0, followed: 0 }
    }

    /// Goes on with `next`, a frontier that other steps have made from `from`, and adds items to it.
    pub(super) fn beside(matcher: &'p mut Matcher<'g, 'm>, from: Frontier, next: Frontier) -> Self {
        // Nodes that the other steps have made are calls at other places of the text.
        let from = Frontier { nodes: next.nodes, ..from };
        Self { matcher, from, next, reached: 0, followed: 0 }
    }

    /// Adds an item, unless the frontier has it already.
    pub(super) fn keep(&mut self, item: Item) -> Result<(), MatchError> {
        let Frontier { start, count, .. } = self.next;
        let limit = self.matcher.limits.items;
        let rest = self.matcher.tables.items.get_mut(start..).unwrap_or(&mut []);
        if rest.iter().take(count).any(|other| *other == item) {
            return Ok(());
        }
        let place = rest.get_mut(count).filter(|_| count < limit).ok_or(MatchError::TooAmbiguous { limit })?;
        *place = item;
        self.next.count += 1;
        Ok(())
    }

    /// Adds an item that has come to a new state of its automaton, and all that is reached from there.
    pub(super) fn enter(&mut self, item: Item) -> Result<(), MatchError> {
        self.state(item, 0)?;
        self.close()
    }

    fn state(&mut self, item: Item, fresh: u32) -> Result<(), MatchError> {
        let grammar = self.matcher.grammar;
        let accept = grammar.accept(item.state);
        let op = grammar.word(item.code) & 0xFF;
        let least = if op == NAME { grammar.word(item.code.wrapping_add(3)) } else { 0 };
        let is_open = op != NAME || grammar.highest(item.state) > least;
        if is_open && grammar.goes_on(item.state) {
            self.keep(item)?;
            let beside = if op == FREE { grammar.word(item.code.wrapping_add(3)) } else { 0 };
            if beside != 0 {
                self.reach(beside, 0, item.node, fresh)?;
            }
        }
        if accept == 0 {
            return Ok(());
        }
        let third = grammar.word(item.code.wrapping_add(2));
        let then = match op {
            NAME if accept <= least => 0,
            NAME | FREE => grammar.word(third.wrapping_add(accept - 1)),
            _ => third,
        };
        // No code is at 0, where the header is. A name with a 0 has no value.
        let count = if op == COUNTED { 0 } else { item.count };
        if then == 0 { Ok(()) } else { self.reach(then, count, item.node, fresh) }
    }

    /// Notes that an instruction is reached, unless that is noted already.
    pub(super) fn reach(&mut self, code: u32, count: u32, node: u32, fresh: u32) -> Result<(), MatchError> {
        let entry = Reached { code, count, node, fresh };
        let queue = &mut *self.matcher.tables.queue;
        if queue.iter().take(self.reached).any(|other| *other == entry) {
            return Ok(());
        }
        let limit = self.matcher.limits.items;
        *queue.get_mut(self.reached).ok_or(MatchError::TooAmbiguous { limit })? = entry;
        self.reached += 1;
        Ok(())
    }

    /// Follows all instructions that were reached.
    pub(super) fn close(&mut self) -> Result<(), MatchError> {
        while self.followed < self.reached {
            let entry = self.matcher.tables.queue.get(self.followed).copied().unwrap_or_default();
            self.followed += 1;
            self.follow(entry)?;
        }
        if self.matcher.grammar.has_rests() {
            self.matcher.settle_ends(self.from.nodes, self.next.nodes);
        }
        Ok(())
    }

    fn follow(&mut self, Reached { code, count, node, fresh }: Reached) -> Result<(), MatchError> {
        let grammar = self.matcher.grammar;
        let word = |index: u32| grammar.word(code.wrapping_add(index));
        match word(0) & 0xFF {
            TEXT | NAME | COUNTED | FREE => self.state(Item { code, state: word(1), partial: 0, count, node }, fresh),
            TOKEN => self.keep(Item { code, state: 0, partial: 0, count, node }),
            SPLIT => {
                self.reach(word(1), count, node, fresh)?;
                self.reach(word(2), count, node, fresh)
            }
            LOOP => {
                if count < word(2) {
                    self.reach(word(3), count, node, 1)?;
                }
                if count >= word(1) { self.reach(word(4), 0, node, fresh) } else { Ok(()) }
            }
            // A round without a byte adds nothing.
            COUNT if fresh != 0 => Ok(()),
            COUNT => {
                let (min, max) = (grammar.word(word(1).wrapping_add(1)), grammar.word(word(1).wrapping_add(2)));
                // Without an upper bound, rounds beyond the lower one are all alike.
                let most = if max == u32::MAX { min } else { max };
                self.reach(word(1), count.saturating_add(1).min(most), node, 0)
            }
            CALL => {
                if word(0) >> 8 != 0 {
                    self.reach(word(2), count, node, fresh)?;
                }
                self.call(word(1), Return { code: word(2), count, node, ..Return::default() })
            }
            RETURN => self.leave(node),
            _ => Ok(()),
        }
    }

    fn call(&mut self, rule: u32, place: Return) -> Result<(), MatchError> {
        let made = self.matcher.tables.nodes.get(self.from.nodes..self.next.nodes).unwrap_or(&[]);
        let found = made.iter().position(|node| node.rule == rule);
        let number = found.map_or(self.next.nodes, |index| self.from.nodes + index);
        if found.is_none() {
            self.add_node(rule, place.node)?;
            self.reach(rule, 0, number as u32, 0)?;
        }
        self.add_return(number, place)
    }

    fn add_node(&mut self, rule: u32, caller: u32) -> Result<(), MatchError> {
        let limits = self.matcher.limits;
        let nodes = &mut *self.matcher.tables.nodes;
        let depth = nodes.get(caller as usize).map_or(0, |node| node.depth).saturating_add(1);
        if depth as usize > limits.depth {
            return Err(MatchError::TooDeep { limit: limits.depth });
        }
        let place = nodes.get_mut(self.next.nodes).ok_or(MatchError::TooDeep { limit: limits.nodes })?;
        *place = Node { rule, depth, note: NEVER, ..Node::default() };
        self.next.nodes += 1;
        Ok(())
    }

    fn add_return(&mut self, number: usize, place: Return) -> Result<(), MatchError> {
        let tables = &mut self.matcher.tables;
        let too_deep = MatchError::TooDeep { limit: self.matcher.limits.nodes };
        let node = tables.nodes.get_mut(number).ok_or(too_deep)?;
        let mut at = node.returns;
        while let Some(other) = tables.returns.get(at as usize).filter(|_| at != 0) {
            if (other.code, other.count, other.node) == (place.code, place.count, place.node) {
                return Ok(());
            }
            at = other.next;
        }
        *tables.returns.get_mut(self.next.returns).ok_or(too_deep)? = Return { next: node.returns, ..place };
        node.returns = self.next.returns as u32;
        self.next.returns += 1;
        Ok(())
    }

    /// Goes on behind the end of a node's rule, at all places to which it returns.
    fn leave(&mut self, node: u32) -> Result<(), MatchError> {
        if node == 0 {
            self.next.accepting = true;
            return Ok(());
        }
        // The rule ends without a byte. Its calls have gone on behind it already.
        if node as usize >= self.from.nodes {
            return Ok(());
        }
        let mut at = self.matcher.tables.nodes.get(node as usize).map_or(0, |node| node.returns);
        while let Some(place) = self.matcher.tables.returns.get(at as usize).copied().filter(|_| at != 0) {
            self.reach(place.code, place.count, place.node, 0)?;
            at = place.next;
        }
        Ok(())
    }
}
