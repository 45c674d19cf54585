//! States of matchers as words, and the states before the last tokens.

use super::tables::{Frontier, Item, Node, Return, Tables};
use super::words::In;

/// Number of words of a state in front of its tables: the number of items, of nodes and of returns, and whether the
/// text may end.
const HEAD: usize = 4;

/// Returns the number of words of a state.
pub(super) fn state_len(now: Frontier) -> usize {
    let (nodes, returns) = (now.nodes.saturating_sub(1), now.returns.saturating_sub(1));
    HEAD.saturating_add(now.count.saturating_mul(5))
        .saturating_add(nodes.saturating_mul(3))
        .saturating_add(returns.saturating_mul(4))
}

/// The states before the last tokens, the last one at the end.
#[derive(Debug)]
pub(super) struct Past<'m> {
    /// Each state, and behind it how many words it has.
    words: &'m mut [u32],
    used: usize,
    tokens: usize,
}

impl<'m> Past<'m> {
    pub(super) fn new(words: &'m mut [u32]) -> Self {
        Self { words, used: 0, tokens: 0 }
    }

    /// Returns the number of states, one for each token.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    pub(super) fn clear(&mut self) {
        (self.used, self.tokens) = (0, 0);
    }

    /// Makes this a copy of `other`.
    pub(super) fn copy(&mut self, other: &Past<'_>) {
        self.words.iter_mut().zip(other.words.iter().take(other.used)).for_each(|(to, from)| *to = *from);
        (self.used, self.tokens) = (other.used, other.tokens);
    }

    /// Makes room for a state of `length` words, and returns its place. The oldest states are dropped for it. If it can
    /// never fit, all states are dropped, and `None` is returned.
    fn room(&mut self, length: usize) -> Option<&mut [u32]> {
        let needed = length.checked_add(1)?;
        if needed > self.words.len() {
            self.clear();
            return None;
        }
        let most = self.words.len() - needed;
        if self.used > most {
            self.drop_oldest(self.used - most);
        }
        let end = self.used.checked_add(needed)?;
        let place = self.words.get_mut(self.used..end)?;
        (self.used, self.tokens) = (end, self.tokens.saturating_add(1));
        place.last_mut().into_iter().for_each(|last| *last = length as u32);
        Some(place)
    }

    /// Drops the oldest states that have at least `words` words together.
    fn drop_oldest(&mut self, words: usize) {
        let (mut from, mut kept) = (self.used, 0);
        while let Some(begin) = self.begin_of(from).filter(|begin| *begin >= words) {
            (from, kept) = (begin, kept + 1);
        }
        for index in from..self.used {
            let word = self.words.get(index).copied().unwrap_or(0);
            self.words.get_mut(index.wrapping_sub(from)).into_iter().for_each(|place| *place = word);
        }
        (self.used, self.tokens) = (self.used.saturating_sub(from), kept);
    }

    /// Returns where the state begins that ends at `end`.
    fn begin_of(&self, end: usize) -> Option<usize> {
        let length = self.words.get(end.checked_sub(1)?).copied()?;
        end.checked_sub(1)?.checked_sub(length as usize)
    }
}

impl Tables<'_> {
    /// Calls `f` with the index and the value of each word of a state.
    pub(super) fn each_word(&self, now: Frontier, mut f: impl FnMut(usize, u32)) {
        let mut at = 0;
        let mut all = |words: &[u32]| {
            for word in words {
                f(at, *word);
                at = at.saturating_add(1);
            }
        };
        let [count, nodes, returns] = [now.count, now.nodes, now.returns].map(|number| number as u32);
        all(&[count, nodes, returns, u32::from(now.accepting)]);
        for &Item { code, state, partial, count, node } in self.items.iter().skip(now.start).take(now.count) {
            all(&[code, state, partial, count, node]);
        }
        for &Node { rule, returns, depth, .. } in self.nodes.iter().take(now.nodes).skip(1) {
            all(&[rule, returns, depth]);
        }
        for &Return { code, count, node, next, .. } in self.returns.iter().take(now.returns).skip(1) {
            all(&[code, count, node, next]);
        }
    }

    /// Makes the state a copy of another one, with the states before it.
    pub(super) fn copy(&mut self, other: &Tables<'_>, now: Frontier) {
        copy(self.items, other.items, now.count);
        copy(self.nodes, other.nodes, now.nodes);
        copy(self.returns, other.returns, now.returns);
        self.past.copy(&other.past);
    }

    /// Reads a state from its words, which are known to be right.
    pub(super) fn read(&mut self, get: impl Fn(usize) -> u32) -> Frontier {
        let Self { items, nodes, returns, .. } = self;
        read(items, nodes, returns, get)
    }

    /// Keeps a state, if there is room.
    pub(super) fn note(&mut self, now: Frontier) {
        let mut past = core::mem::replace(&mut self.past, Past::new(&mut []));
        if let Some(words) = past.room(state_len(now)) {
            self.each_word(now, |index, word| words.get_mut(index).into_iter().for_each(|place| *place = word));
        }
        self.past = past;
    }

    /// Reads the state before the last `tokens` tokens, and drops it with the states behind it. `None` if it is not
    /// kept.
    pub(super) fn back(&mut self, tokens: usize) -> Option<Frontier> {
        let Self { items, nodes, returns, past, .. } = self;
        let left = past.tokens.checked_sub(tokens)?;
        let mut begin = past.used;
        for _ in 0..tokens {
            begin = past.begin_of(begin)?;
        }
        let now = read(items, nodes, returns, |index| past.words.get(begin.wrapping_add(index)).copied().unwrap_or(0));
        (past.used, past.tokens) = (begin, left);
        Some(now)
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T], count: usize) {
    to.iter_mut().zip(from).take(count).for_each(|(to, from)| *to = *from);
}

fn read(items: &mut [Item], nodes: &mut [Node], returns: &mut [Return], get: impl Fn(usize) -> u32) -> Frontier {
    let mut words = In::new(get);
    let [count, node_count, return_count, accepting] = words.next();
    let [count, node_count, return_count] = [count, node_count, return_count].map(|number| number as usize);
    for place in items.iter_mut().take(count) {
        let [code, state, partial, count, node] = words.next();
        *place = Item { code, state, partial, count, node };
    }
    for place in nodes.iter_mut().take(node_count).skip(1) {
        let [rule, returns, depth] = words.next();
        *place = Node { rule, returns, depth, note: 0 };
    }
    for place in returns.iter_mut().take(return_count).skip(1) {
        let [code, count, node, next] = words.next();
        *place = Return { code, count, node, next, note: 0 };
    }
    Frontier { start: 0, count, nodes: node_count, returns: return_count, accepting: accepting != 0 }
}
