//! Frontiers that a walk over tokens has seen, and where bytes lead from them: few frontiers are met at most nodes.

use bytemuck::{Pod, Zeroable};

use super::tables::Item;

/// The frontiers seen. Where there is no room, all are forgotten.
#[derive(Debug)]
pub(super) struct Seen<'m> {
    frontiers: &'m mut [Content],
    used: usize,
    /// How often all were forgotten: numbers from before mean nothing.
    generation: u32,
    /// How often in this walk.
    forgotten: u32,
    /// The nodes and returns that the walk has made: as long as frontiers are noted, none of them is made again.
    made: [u32; 2],
    /// The most of them that a byte has made.
    most: [u32; 2],
}

/// How many frontiers are kept.
pub(super) const FRONTIERS: usize = 32;
/// The most items of one.
const ITEMS: usize = 10;
/// A walk that has forgotten all so often meets too many frontiers: then no more are noted.
const MOST_FORGOTTEN: u32 = 16;

/// A frontier: its items, and what is known of each byte.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Content {
    items: [Item; ITEMS],
    count: u32,
    /// 1: the text may end.
    accepting: u32,
    next: [u8; 256],
}

// What is known of a byte: nothing, or one of these, or the place of a frontier, plus 1.
const NOTHING: u8 = 0;
const DEAD: u8 = 255;
const COUNTS: u8 = 254;

/// Where a byte leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// Nowhere.
    Dead,
    /// To the frontier of this number.
    To(u32),
    /// To the same place in a counted text, if one more character may be counted.
    Counts,
}

impl<'m> Seen<'m> {
    pub(super) fn new(frontiers: &'m mut [Content]) -> Self {
        Self { frontiers, used: 0, generation: 1, forgotten: 0, made: [0; 2], most: [0; 2] }
    }

    /// Forgets all, for a new walk from a frontier with so many nodes and returns.
    pub(super) fn reset(&mut self, made: [u32; 2]) {
        self.forget(made);
        (self.forgotten, self.most) = (0, [0; 2]);
    }

    /// Notes nothing more in this walk.
    pub(super) fn stop(&mut self) {
        self.forgotten = MOST_FORGOTTEN + 1;
    }

    /// Whether nothing is noted any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.forgotten > MOST_FORGOTTEN
    }

    /// Returns how many nodes and returns the walk has made, with those before it.
    pub(super) fn made(&self) -> [u32; 2] {
        self.made
    }

    /// Returns the most nodes and returns that a byte has made in this walk.
    pub(super) fn most(&self) -> [u32; 2] {
        self.most
    }

    /// Notes how many nodes and returns there are behind a byte.
    pub(super) fn make(&mut self, made: [u32; 2]) {
        let before = core::mem::replace(&mut self.made, made);
        let more = made.iter().zip(before).map(|(made, before)| made.saturating_sub(before));
        self.most.iter_mut().zip(more).for_each(|(most, more)| *most = more.max(*most));
    }

    fn forget(&mut self, made: [u32; 2]) {
        self.made = made;
        self.used = 0;
        // 0 is the number of no frontier.
        self.generation = (self.generation.wrapping_add(1) & MASK).max(1);
        self.forgotten = self.forgotten.saturating_add(1);
    }

    /// Returns where a byte leads from a frontier.
    #[inline]
    pub(super) fn known(&self, number: u32, byte: u8) -> Known {
        let next = self.get(number).and_then(|content| content.next.get(usize::from(byte)));
        match next.copied().unwrap_or(NOTHING) {
            NOTHING => Known::Nothing,
            DEAD => Known::Dead,
            COUNTS => Known::Counts,
            place => Known::To(self.generation << SHIFT | u32::from(place)),
        }
    }

    /// Whether a number is that of a frontier that is noted.
    pub(super) fn is_noted(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Returns the items of a frontier.
    #[inline]
    pub(super) fn items(&self, number: u32) -> &[Item] {
        self.get(number).and_then(|content| content.items.get(..content.count as usize)).unwrap_or_default()
    }

    /// Whether the text may end at a frontier, as 1 or 0.
    pub(super) fn accepting(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |content| content.accepting)
    }

    /// Returns the number of the frontier of these items, at which the text may end or not. 0: it is not noted.
    pub(super) fn number(&mut self, items: &[Item], accepting: u32) -> u32 {
        let known = self.frontiers.iter().take(self.used).position(|content| {
            content.items.get(..content.count as usize) == Some(items) && content.accepting == accepting
        });
        let place = match known {
            Some(place) => place,
            None if items.len() > ITEMS || self.is_stopped() => return 0,
            None => {
                if self.used == self.frontiers.len() {
                    self.forget(self.made);
                    // From here on nodes can be made again.
                    if self.is_stopped() {
                        return 0;
                    }
                }
                let place = self.used;
                let Some(content) = self.frontiers.get_mut(place) else { return 0 };
                let (count, next) = (items.len() as u32, [NOTHING; 256]);
                *content = Content { items: Default::default(), count, accepting, next };
                content.items.iter_mut().zip(items).for_each(|(place, item)| *place = *item);
                self.used += 1;
                place
            }
        };
        self.generation << SHIFT | (place as u32 + 1)
    }

    /// Notes where a byte leads from a frontier, if both are known.
    pub(super) fn note(&mut self, number: u32, byte: u8, known: Known) {
        let next = match known {
            Known::Nothing => return,
            Known::Dead => DEAD,
            Known::Counts => COUNTS,
            Known::To(to) if to >> SHIFT == self.generation => (to & !(MASK << SHIFT)) as u8,
            Known::To(_) => return,
        };
        let Some(place) = self.place(number) else { return };
        let content = self.frontiers.get_mut(place);
        content.and_then(|content| content.next.get_mut(usize::from(byte))).into_iter().for_each(|known| *known = next);
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&Content> {
        self.frontiers.get(self.place(number)?)
    }

    #[inline]
    fn place(&self, number: u32) -> Option<usize> {
        if number >> SHIFT == self.generation { ((number & !(MASK << SHIFT)) as usize).checked_sub(1) } else { None }
    }
}

/// The bits of a number below its generation.
const SHIFT: u32 = 8;
const MASK: u32 = (1 << 24) - 1;
