//! Bytes that lead from a frontier to the same place, of which a walk over tokens looks at one only, and the numbers of
//! frontiers.

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
    /// Returns the first and the last of the bytes around one that lead from a frontier where it leads.
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
            // Tokens that are named have no bytes.
            _ => [0, u8::MAX],
        }
    }

    /// Returns a frontier with its number among those seen, or 0: it is not noted. A counted text has one number for
    /// all counts.
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

    /// Returns how many characters a counted text may have in the state of an item, at least and at most. `None` where
    /// one edge of its state can be met with more than another one.
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

    /// Returns the least part of a character that leads where what was read of one leads, with the same bytes: few of
    /// them lead to different places. 0: nothing was read. `None`: items have read different things.
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

    /// Notes where a byte leads from a frontier, and all bytes that are alike.
    pub(super) fn note(&mut self, from: Saved, byte: u8, next: Option<Saved>) {
        if !self.tables.seen.is_noted(from.number) {
            return;
        }
        let known = match next {
            // In a counted text that depends on the count, too.
            _ if self.is_counted(from) => self.known_of_counted(from, byte, next),
            None => Known::Dead,
            // There is no count of rounds in which nodes are made and not needed.
            Some(next) if self.has_grown(from, next) => Known::Nothing,
            Some(next) => Known::To(next.number),
        };
        self.tables.seen.note(from.number, self.alike(from, byte), known);
    }

    /// Whether nodes were made within a text.
    fn has_grown(&self, from: Saved, next: Saved) -> bool {
        let is_beside = self.only(from).zip(self.only(next)).is_some_and(|(one, other)| one.is_beside(other));
        (is_beside || from.number == next.number) && [next.nodes, next.returns] != [from.nodes, from.returns]
    }

    /// What is known of a byte in a counted text, however many characters it has.
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
            // The text ends here with any number of characters that it has from now on.
            Move::To(_, state) => {
                let min = self.grammar.word(item.code.wrapping_add(3));
                let is_open = self.grammar.highest(state) == 0 && min <= self.least_chars(item);
                let next = next.filter(|next| is_open && next.number != 0 && !self.is_counted(*next));
                return next.map_or(Known::Nothing, |next| Known::To(next.number));
            }
        };
        let Some(start) = from.start.checked_add(from.count) else { return Known::Nothing };
        let Some(place) = self.tables.items.get_mut(start as usize) else { return Known::Nothing };
        // What lies there is made already, or it is the same.
        let before = core::mem::replace(place, behind);
        let number = self.numbered(Saved { start, count: 1, number: 0, accepting: 0, ..from }).number;
        self.tables.items.get_mut(start as usize).into_iter().for_each(|place| *place = before);
        if number == 0 { Known::Nothing } else { Known::To(number) }
    }

    /// Returns how many characters the counted text of an item has at least in this walk.
    fn least_chars(&self, item: Item) -> u32 {
        let now = self.only(Saved::new(self.now)).filter(|now| now.is_beside(item));
        now.map_or(0, |now| now.count)
    }
}

/// Returns the characters around some that the same edge has, or that none has. `None`: some of these have an edge and
/// others have none, or another one.
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
