//! The frontiers that a walk over tokens has seen, and where bytes lead from them. At most nodes a walk meets one of a
//! few frontiers.

use bytemuck::{Pod, Zeroable};

use super::tables::Item;

/// The frontiers seen. Where there is no room for one more, all are forgotten.
#[derive(Debug)]
pub(super) struct Seen<'m> {
    frontiers: &'m mut [Content],
    used: usize,
    /// How often all frontiers were forgotten. The numbers of frontiers from before mean nothing.
    generation: u32,
    /// How often all frontiers were forgotten in this walk.
    forgotten: u32,
    /// Number of nodes and returns that the walk has made, with those before it. As long as frontiers are noted, their
    /// places are not used again.
    made: [u32; 2],
    /// The most nodes and returns that one byte has made.
    most: [u32; 2],
}

/// Number of frontiers that are kept.
pub(super) const FRONTIERS: usize = 32;
/// The most items of a frontier that is kept.
pub(super) const ITEMS: usize = 10;
/// A walk that has forgotten all frontiers more often than this meets too many. Then it notes no more.
const MOST_FORGOTTEN: u32 = 16;
/// Stands in place of this number in a walk that notes nothing from its beginning on.
const NEVER_NOTED: u32 = u32::MAX;

/// A frontier: its items, and what is known of each byte.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Content {
    items: [Item; ITEMS],
    pub(super) count: u32,
    /// 1: the text may end.
    pub(super) accepting: u32,
    /// 1: the frontier is one counted text, for all counts. The count of its item is 0.
    counted: u32,
    /// Of a counted text: the fewest and the most characters that it may have here.
    pub(super) bounds: [u32; 2],
    /// For each byte, where it leads: [`NOTHING`], [`DEAD`], or the place of a frontier, plus 1.
    pub(super) next: [u8; 256],
}

/// A frontier that gets a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted<'i> {
    pub(super) items: &'i [Item],
    pub(super) accepting: u32,
    /// Of a counted text, as in [`Content`].
    pub(super) bounds: Option<[u32; 2]>,
    /// Whether it is noted only where there is enough room. Nothing is forgotten for it.
    pub(super) is_spare: bool,
}

// What is known of a byte: nothing, or that it leads nowhere, or the place of a frontier, plus 1.
pub(super) const NOTHING: u8 = 0;
pub(super) const DEAD: u8 = 255;

/// What is known of where a byte leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// Nowhere.
    Dead,
    /// To the frontier of this number, if a counted text may have as many characters there.
    To(u32),
}

impl Content {
    fn is(&self, noted: Noted<'_>) -> bool {
        self.items.get(..self.count as usize) == Some(noted.items) && self.accepting == noted.accepting
    }

    /// Returns the number of characters of a counted text behind a byte that leads from `other` to this frontier.
    /// `None` if the text may not have so many. 0 if one of the two is no counted text.
    #[inline]
    pub(super) fn chars_behind(&self, other: &Content, chars: u32) -> Option<u32> {
        if self.counted & other.counted == 0 {
            return Some(0);
        }
        let is_whole = self.items.first().is_some_and(|item| item.partial == 0);
        let chars = chars.saturating_add(u32::from(is_whole));
        let [least, most] = self.bounds;
        (least..=most).contains(&chars).then_some(chars)
    }

    /// Returns whether bytes that lead from `other` to this frontier can have made nodes. They make none if both are in
    /// the same text.
    #[inline]
    pub(super) fn can_grow(&self, other: &Content) -> bool {
        self.count != 1 || other.count != 1 || !self.items.iter().zip(other.items).take(1).all(|(a, b)| a.is_beside(b))
    }

    /// Returns whether the frontier is one counted text.
    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.counted != 0
    }

    /// Writes the items to `places`. The item of a counted text gets `chars` as its count.
    pub(super) fn write(&self, places: &mut [Item], chars: u32) {
        places.iter_mut().zip(self.items.iter().take(self.count as usize)).for_each(|(place, item)| *place = *item);
        if self.is_counted() {
            places.iter_mut().take(1).for_each(|item| item.count = chars);
        }
    }
}

impl<'m> Seen<'m> {
    pub(super) fn new(frontiers: &'m mut [Content]) -> Self {
        Self { frontiers, used: 0, generation: 1, forgotten: 0, made: [0; 2], most: [0; 2] }
    }

    /// Forgets all frontiers, for a new walk from a frontier with `made` nodes and returns.
    pub(super) fn reset(&mut self, made: [u32; 2]) {
        self.forget(made);
        (self.forgotten, self.most) = (0, [0; 2]);
    }

    /// Ends noting for this walk, which has noted nothing so far.
    pub(super) fn stop(&mut self) {
        self.forgotten = NEVER_NOTED;
    }

    /// Returns whether nothing is noted any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.forgotten > MOST_FORGOTTEN
    }

    /// Returns whether nothing was noted in the whole walk. Then each token has as much room as it has alone.
    pub(super) fn is_bare(&self) -> bool {
        self.forgotten == NEVER_NOTED
    }

    /// Returns how many nodes and returns the walk has made, with those before it.
    pub(super) fn made(&self) -> [u32; 2] {
        self.made
    }

    /// Returns the most nodes and returns that a byte has made in this walk, or none if the byte cannot have made any.
    #[inline]
    pub(super) fn most(&self, can_grow: bool) -> [u32; 2] {
        if can_grow { self.most } else { [0; 2] }
    }

    /// Notes that there are `made` nodes and returns behind a byte.
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
        self.forgotten = self.forgotten.saturating_add(1).min(NEVER_NOTED - 1);
    }

    /// Returns where a byte leads from a frontier.
    #[inline]
    pub(super) fn known(&self, number: u32, byte: u8) -> Known {
        let next = self.get(number).and_then(|content| content.next.get(usize::from(byte)));
        match next.copied().unwrap_or(NOTHING) {
            NOTHING => Known::Nothing,
            DEAD => Known::Dead,
            place => Known::To(self.generation << SHIFT | u32::from(place)),
        }
    }

    /// Returns whether a number is the number of a frontier that is noted.
    pub(super) fn is_noted(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// Notes a frontier, if it is not noted yet. Returns its number, or 0 if it cannot be noted.
    pub(super) fn number(&mut self, noted: Noted<'_>) -> u32 {
        let known = self.frontiers.iter().take(self.used).position(|content| content.is(noted));
        let place = match known {
            Some(place) => place,
            None if noted.items.len() > ITEMS || self.is_stopped() => return 0,
            None if noted.is_spare && self.used >= self.frontiers.len() / 4 * 3 => return 0,
            None => {
                if self.used == self.frontiers.len() {
                    self.forget(self.made);
                    // From here on the places of nodes can be used again (see `Saved::behind_all`).
                    if self.is_stopped() {
                        return 0;
                    }
                }
                self.add(noted)
            }
        };
        self.generation << SHIFT | (place as u32 + 1)
    }

    fn add(&mut self, noted: Noted<'_>) -> usize {
        let Noted { items, accepting, bounds, .. } = noted;
        let (count, counted, bounds) = (items.len() as u32, u32::from(bounds.is_some()), bounds.unwrap_or_default());
        let place = self.used;
        if let Some(content) = self.frontiers.get_mut(place) {
            let none = [Item::default(); ITEMS];
            *content = Content { items: none, count, accepting, counted, bounds, next: [NOTHING; 256] };
            content.items.iter_mut().zip(items).for_each(|(place, item)| *place = *item);
            self.used += 1;
        }
        place
    }

    /// Notes where the bytes from `first` to `last` lead from a frontier, if both frontiers are noted.
    pub(super) fn note(&mut self, number: u32, [first, last]: [u8; 2], known: Known) {
        let next = match known {
            Known::Nothing => return,
            Known::Dead => DEAD,
            Known::To(to) if to >> SHIFT == self.generation => (to & !(MASK << SHIFT)) as u8,
            Known::To(_) => return,
        };
        let Some(place) = self.place(number) else { return };
        let content = self.frontiers.get_mut(place);
        let row = content.and_then(|content| content.next.get_mut(usize::from(first)..=usize::from(last)));
        row.into_iter().flatten().for_each(|known| *known = next);
    }

    /// Returns a frontier, and the value with which a row says that a byte leads to it.
    pub(super) fn content(&self, number: u32) -> Option<(&Content, u8)> {
        let place = self.place(number)?;
        Some((self.frontiers.get(place)?, place as u8 + 1))
    }

    /// Returns the frontier for which a row has the value `to`, and its number.
    pub(super) fn at(&self, to: u8) -> Option<(&Content, u32)> {
        let content = self.frontiers.get(usize::from(to.checked_sub(1)?))?;
        Some((content, self.generation << SHIFT | u32::from(to)))
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

/// Number of bits of a frontier's number below the generation.
const SHIFT: u32 = 8;
const MASK: u32 = (1 << 24) - 1;
