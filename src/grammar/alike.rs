//! Finds bytes that lead from a frontier to the same frontier, so that a walk over tokens looks at only one of them.
//! Gives frontiers their numbers.

use super::class::LAST;
use super::code::{COUNTED, FREE, NAME, TEXT};
use super::codec::{self, chars};
use super::compiled::Move;
use super::dfa::QUOTE;
use super::lengths::ENDLESS;
use super::matcher::Matcher;
use super::seen::{ITEMS, Known, Noted};
use super::tables::{Item, Saved};

impl Matcher<'_, '_> {
    /// Returns the first and the last byte of a range around `byte` whose bytes all lead from a frontier to the same
    /// frontier.
    pub(super) fn alike(&self, from: Saved, byte: u8) -> [u8; 2] {
        self.items(from).iter().fold([0, u8::MAX], |[low, high], item| {
            let [first, last] = self.alike_in(item, byte);
            [low.max(first), high.min(last)]
        })
    }

    fn alike_in(&self, item: &Item, byte: u8) -> [u8; 2] {
        let word = self.grammar.word(item.code);
        let edges = self.grammar.edges(item.state);
        match word & 0xFF {
            FREE => match around(edges, [u32::from(byte); 2]) {
                Some([first, last]) => [first.min(0xFF) as u8, last.min(0xFF) as u8],
                None => [byte; 2],
            },
            TEXT | NAME | COUNTED => codec::alike(word >> 8, item.partial, byte, |chars| around(edges, chars)),
            // An item of a token that the grammar names reads no bytes.
            _ => [0, u8::MAX],
        }
    }

    /// Returns a frontier with its number among the frontiers seen, or with 0 if it is not noted. A counted text has
    /// one number for all counts.
    pub(super) fn numbered(&mut self, from: Saved) -> Saved {
        if self.tables.seen.is_noted(from.number) {
            return from;
        }
        let items = self.items(from);
        let is_counted = |item: &Item| self.grammar.word(item.code) & 0xFF == COUNTED;
        let mut kept = [Item::default(); ITEMS];
        let Some(kept) = kept.get_mut(..items.len()).filter(|_| items.len() == 1 || !items.iter().any(is_counted))
        else {
            return Saved { number: 0, ..from };
        };
        let bounds = items.first().filter(|item| is_counted(item)).map(|item| self.bounds(*item));
        let chars = items.first().filter(|_| bounds.is_some()).map_or(0, |item| item.count);
        // Not `bounds != Some(None)`: Rust 1.97.0 compiles that wrongly (docs/reliability.md).
        let (Some(least), false) = (self.least_alike(items), matches!(bounds, Some(None))) else {
            return Saved { number: 0, ..from };
        };
        for (place, item) in kept.iter_mut().zip(items) {
            let count = if bounds.is_some() { 0 } else { item.count };
            *place = Item { partial: if item.partial == 0 { 0 } else { least }, count, ..*item };
        }
        let noted = Noted { items: kept, accepting: from.accepting, bounds: bounds.flatten(), is_spare: least != 0 };
        Saved { number: self.tables.seen.number(noted), chars, ..from }
    }

    /// Returns the least and the greatest number of characters that a counted text may have at an item. `None` if there
    /// is no such number, or if the part of a character that was read does not belong to one edge.
    fn bounds(&self, item: Item) -> Option<[u32; 2]> {
        let (min, max) = (self.grammar.word(item.code.wrapping_add(3)), self.grammar.word(item.code.wrapping_add(4)));
        let of = |state: u32| {
            let left = self.grammar.highest(state);
            let more = if left >> 16 == ENDLESS { u32::MAX } else { left >> 16 };
            Some([min.saturating_sub(more), max.checked_sub(left & 0xFFFF)?])
        };
        if item.partial == 0 {
            return of(item.state);
        }
        let (low, high) = chars(item.partial)?;
        let edges = self.grammar.edges(item.state);
        let [_, _, target] = edges.iter().find(|[first, last, _]| *first <= low && high <= *last)?;
        let [least, most] = of(*target)?;
        Some([least.saturating_sub(1), most.checked_sub(1)?])
    }

    /// Returns the least part of a character from which the same bytes lead to the same places as from the part that
    /// the items have read. So there are few different parts. 0: no part was read. `None`: the items have read
    /// different parts.
    fn least_alike(&self, items: &[Item]) -> Option<u32> {
        let within = || items.iter().filter(|item| item.partial != 0);
        let Some(partial) = within().next().map(|item| item.partial) else { return Some(0) };
        if within().any(|item| item.partial != partial) {
            return None;
        }
        let first = chars(partial).and_then(|(low, high)| {
            let first = |item: &Item| around(self.grammar.edges(item.state), [low, high]).map(|[first, _]| first);
            within().map(first).try_fold(0, |least, first| Some(first?.max(least)))
        });
        Some(first.map_or(partial, |first| codec::least_alike(partial, first)))
    }

    /// Notes where a byte leads from a frontier, for this byte and for all bytes that lead to the same place.
    pub(super) fn note(&mut self, from: Saved, byte: u8, next: Option<Saved>) {
        if !self.tables.seen.is_noted(from.number) {
            return;
        }
        let known = match next {
            // In a counted text this also depends on the count.
            _ if self.is_counted(from) => self.known_of_counted(from, byte, next),
            None => Known::Dead,
            // A row counts no nodes where a text goes on or a frontier leads to itself, so a byte that makes nodes
            // there is not noted.
            Some(next) if self.has_grown(from, next) => Known::Nothing,
            Some(next) => Known::To(next.number),
        };
        self.tables.seen.note(from.number, self.alike(from, byte), known);
    }

    /// Returns whether nodes were made although the text goes on or the frontier is the same.
    fn has_grown(&self, from: Saved, next: Saved) -> bool {
        let is_beside = self.only(from).zip(self.only(next)).is_some_and(|(one, other)| one.is_beside(other));
        (is_beside || from.number == next.number) && [next.nodes, next.returns] != [from.nodes, from.returns]
    }

    /// Returns what is known of a byte in a counted text for every number of characters.
    fn known_of_counted(&mut self, from: Saved, byte: u8, next: Option<Saved>) -> Known {
        let item = self.item(from.frontier(), 0);
        let codec = self.grammar.word(item.code) >> 8;
        let behind = match self.grammar.step(codec, item.state, item.partial, byte, |_, _| true) {
            Move::Dead => return Known::Dead,
            Move::Within(partial) => Item { partial, ..item },
            Move::To(char, state) if char != QUOTE => {
                if self.grammar.accept(state) != 0 || !self.grammar.goes_on(state) {
                    return Known::Nothing;
                }
                Item { state, partial: 0, ..item }
            }
            // The text ends here. That is known for every number of characters only if the fewest in this walk are
            // enough.
            Move::To(_, state) => {
                let min = self.grammar.word(item.code.wrapping_add(3));
                let is_open = self.grammar.highest(state) == 0 && min <= self.least_chars(item);
                let next = next.filter(|next| is_open && next.number != 0 && !self.is_counted(*next));
                return next.map_or(Known::Nothing, |next| Known::To(next.number));
            }
        };
        let Some(start) = from.start.checked_add(from.count) else { return Known::Nothing };
        let Some(place) = self.tables.items.get_mut(start as usize) else { return Known::Nothing };
        // The frontier behind the byte may lie at this place. It has its number already, and its item is put back
        // below.
        let before = core::mem::replace(place, behind);
        let number = self.numbered(Saved { start, count: 1, number: 0, accepting: 0, ..from }).number;
        self.tables.items.get_mut(start as usize).into_iter().for_each(|place| *place = before);
        if number == 0 { Known::Nothing } else { Known::To(number) }
    }

    /// Returns the fewest characters that the counted text of an item has in this walk.
    fn least_chars(&self, item: Item) -> u32 {
        let now = self.only(Saved::new(self.now)).filter(|now| now.is_beside(item));
        now.map_or(0, |now| now.count)
    }
}

/// Returns the range of characters around `low` to `high` that one edge has, or that no edge has. `None`: `low` to
/// `high` is not within one such range.
fn around(edges: &[[u32; 3]], [low, high]: [u32; 2]) -> Option<[u32; 2]> {
    let mut begin = 0;
    for &[first, last, _] in edges {
        if high < first {
            return Some([begin, first.saturating_sub(1)]);
        }
        if low <= last {
            return (first <= low && high <= last).then_some([first, last]);
        }
        begin = last.saturating_add(1);
    }
    Some([begin, LAST])
}
