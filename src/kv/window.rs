//! Which positions a query sees, exact to the token.

use super::block::{CHUNK, TILE_TOKENS};

/// The window of a layer. A query at position p sees the first `sinks` positions, and the last `last` positions up to
/// and including p.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Number of first positions that stay visible.
    pub sinks: usize,
    /// Number of last positions that are visible, or 0 for all.
    pub last: usize,
}

impl Window {
    /// A window in which everything is visible.
    pub const ALL: Self = Self { sinks: 0, last: 0 };

    /// Returns whether everything is visible.
    pub fn is_all(self) -> bool {
        self.last == 0
    }
}

/// What the queries of a layer see: the positions that are both in the host's window and in the model's own window.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Visibility {
    window: Window,
    /// Length of the model's window if it is longer than the host's, or 0. It hides the sinks in the end.
    reach: usize,
    /// End of the text in which queries look ahead, as far as they look back, or 0 if they do not look ahead.
    end: usize,
}

impl Visibility {
    /// Everything is visible.
    pub const ALL: Self = Self { window: Window::ALL, reach: 0, end: 0 };

    /// Returns the visibility of all positions of a text that are at most `distance` before or after a query's own, or
    /// of all positions without such a limit. [`Visibility::of_text`] sets where the text ends.
    pub const fn both_sides(distance: Option<usize>) -> Self {
        let last = match distance {
            Some(distance) => distance.saturating_add(1),
            None => 0,
        };
        Self { window: Window { sinks: 0, last }, end: usize::MAX, ..Self::ALL }
    }

    /// Returns this visibility in a text of `len` positions, at least one.
    #[must_use]
    pub const fn of_text(self, len: usize) -> Self {
        if self.is_causal() { self } else { Self { end: len, ..self } }
    }

    /// Returns whether a query sees no position after its own.
    pub const fn is_causal(self) -> bool {
        self.end == 0
    }

    /// Returns the largest number of positions after its own that a query sees.
    fn ahead(self) -> usize {
        match self.window.last {
            _ if self.is_causal() || !cfg!(feature = "encoder") => 0,
            0 => usize::MAX,
            last => last - 1,
        }
    }

    /// Returns the visibility of positions that are in `window` and among the last `own`, where 0 stands for all.
    pub const fn new(window: Window, own: usize) -> Self {
        if own > 0 && (window.last == 0 || own <= window.last) {
            Self { window: Window { sinks: 0, last: own }, ..Self::ALL }
        } else {
            Self { window, reach: own, ..Self::ALL }
        }
    }

    /// Returns whether everything is visible.
    pub fn is_all(self) -> bool {
        self.window.is_all()
    }

    /// Returns how many of the first positions may be visible from anywhere.
    pub fn sinks(self) -> usize {
        if self.is_all() { 0 } else { self.window.sinks }
    }

    /// Returns how many of the last positions are visible besides the sinks, or 0 for all.
    pub fn last(self) -> usize {
        self.window.last
    }

    /// Returns among how many of the last positions a sink must be to be visible, or 0 for all.
    pub fn reach(self) -> usize {
        self.reach
    }

    /// Returns what a query at `position` sees.
    pub fn at(self, position: usize) -> Positions {
        self.between(position, position)
    }

    /// Returns what the queries at positions `first..=last` see together.
    pub fn between(self, first: usize, last: usize) -> Positions {
        let back = |count: usize| if count == 0 { 0 } else { first.saturating_add(1).saturating_sub(count) };
        let (reach, recent, next) = (back(self.reach), back(self.window.last), last.saturating_add(1));
        let end = next.saturating_add(self.ahead()).min(self.end.max(next));
        let sinks = self.sinks().min(end);
        if sinks >= recent {
            Positions { first: [0, 0], second: [reach.min(recent), end] }
        } else {
            Positions { first: if reach < sinks { [reach, sinks] } else { [0, 0] }, second: [recent, end] }
        }
    }

    /// Returns a number of positions with at least as many chunks as `rows` successive queries can look at, in a
    /// sequence of at most `context` positions.
    pub fn chunked(self, context: usize, rows: usize) -> usize {
        if self.is_all() {
            return context;
        }
        let reach = self.last().saturating_add(self.ahead());
        let chunks = reach.saturating_add(rows).div_ceil(CHUNK).saturating_add(1);
        chunks.saturating_add(self.sinks().div_ceil(CHUNK)).saturating_mul(CHUNK).min(context)
    }
}

/// Positions in at most two ranges, the first before the second.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    first: [usize; 2],
    second: [usize; 2],
}

impl Positions {
    pub(crate) const NONE: Self = Self { first: [0; 2], second: [0; 2] };

    /// Returns whether there are no positions.
    pub fn is_empty(self) -> bool {
        [self.first, self.second].iter().all(|[start, end]| start >= end)
    }

    /// Returns whether any of the positions `start..end` is among these positions.
    pub fn touch(self, start: usize, end: usize) -> bool {
        !self.clip(start, end).is_empty()
    }

    /// Returns the first position after all of these positions.
    #[inline(always)]
    pub(crate) fn end(self) -> usize {
        self.first[1].max(self.second[1])
    }

    /// Returns whether these positions are the first ones, without a gap.
    #[inline(always)]
    pub(crate) fn is_prefix(self) -> bool {
        self.first[0] >= self.first[1] && self.second[0] == 0
    }

    /// Returns the two ranges, each as start and end.
    #[inline(always)]
    pub(crate) fn ranges(self) -> [[usize; 2]; 2] {
        [self.first, self.second]
    }

    /// Returns the chunks that these positions are in.
    #[inline(always)]
    pub(crate) fn chunks(self) -> impl Iterator<Item = usize> + Clone {
        let [[_, end], [start, _]] = [self.first, self.second];
        let [first, second] = [self.first, self.second].map(|[start, end]| (start / CHUNK)..end.div_ceil(CHUNK));
        let overlap = end > 0 && (end - 1) / CHUNK == start / CHUNK;
        first.chain(second.skip(usize::from(overlap)))
    }

    /// Returns the positions in a chunk, counted from its start.
    #[inline(always)]
    pub(crate) fn in_chunk(self, chunk: usize) -> Self {
        let start = chunk.saturating_mul(CHUNK);
        let clipped = self.clip(start, start.saturating_add(CHUNK));
        let [first, second] = [clipped.first, clipped.second].map(|range| range.map(|end| end.saturating_sub(start)));
        Self { first, second }
    }

    fn clip(self, start: usize, end: usize) -> Self {
        let [first, second] = [self.first, self.second].map(|[from, to]| {
            let to = to.min(end);
            if from.max(start) < to { [from.max(start), to] } else { [start, start] }
        });
        Self { first, second }
    }
}

/// The tiles of a chunk in which any query sees a position, without the other tiles. Positions in them are counted as
/// if the other tiles were not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleTiles {
    first: [usize; 2],
    second: [usize; 2],
    /// Number of positions up to the last visible one.
    positions: usize,
}

impl VisibleTiles {
    /// Returns the tiles of `positions`, which must be those in one chunk.
    #[inline(always)]
    pub(crate) fn new(positions: Positions) -> Self {
        let [first, mut second] =
            [positions.first, positions.second].map(|[start, end]| [start / TILE_TOKENS, end.div_ceil(TILE_TOKENS)]);
        second = second.map(|tile| tile.max(first[1]));
        let end = positions.first[1].max(positions.second[1]);
        let mut tiles = Self { first, second, positions: 0 };
        tiles.positions = end.checked_sub(1).map_or(0, |last| tiles.place(last) + 1);
        tiles
    }

    /// Returns the number of positions up to the last visible one.
    #[inline(always)]
    pub(crate) fn positions(&self) -> usize {
        self.positions
    }

    /// Returns the number in the chunk of tile `index` of these tiles.
    #[inline(always)]
    pub(crate) fn tile(&self, index: usize) -> usize {
        let first = self.first[1].saturating_sub(self.first[0]);
        if index < first { self.first[0] + index } else { self.second[0] + (index - first) }
    }

    /// Returns the positions that a query sees, counted in these tiles.
    #[inline(always)]
    pub(crate) fn visible(&self, seen: Positions) -> Positions {
        let place = |[start, end]: [usize; 2], from: usize| {
            if start < end { [self.place(start), self.place(end - 1) + 1] } else { [from, from] }
        };
        let first = place(seen.first, 0);
        Positions { first, second: place(seen.second, first[1]) }
    }

    /// Returns the index of a position of the chunk among the positions of these tiles.
    #[inline(always)]
    fn place(&self, position: usize) -> usize {
        let [start, end] = self.first.map(|tile| tile * TILE_TOKENS);
        if position < end {
            position.saturating_sub(start)
        } else {
            position.saturating_sub(self.second[0] * TILE_TOKENS) + end.saturating_sub(start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(sinks: usize, last: usize, own: usize, p: usize, j: usize) -> bool {
        j <= p && (last == 0 || j < sinks || j + last > p) && (own == 0 || j + own > p)
    }

    fn windows() -> impl Iterator<Item = (usize, usize, usize)> {
        let lasts = [0, 1, 2, 15, 16, 17, 40, 300];
        let windows = lasts.into_iter().flat_map(|last| [0, 1, 16, 20, 270].map(|sinks| (sinks, last)));
        windows.flat_map(|(sinks, last)| [0, 1, 18, 290].map(|own| (sinks, last, own)))
    }

    #[test]
    fn ranges_are_what_the_definition_says() {
        for (sinks, last, own) in windows() {
            let visibility = Visibility::new(Window { sinks, last }, own);
            for p in (0..60).chain(250..340).chain([600, 777]) {
                let seen = visibility.at(p);
                for j in 0..p + 20 {
                    assert_eq!(seen.touch(j, j + 1), sees(sinks, last, own, p, j), "{visibility:?} {p} {j}");
                }
                let together = visibility.between(p, p + 7);
                for j in 0..p + 20 {
                    let any = (p..p + 8).any(|p| sees(sinks, last, own, p, j));
                    assert_eq!(together.touch(j, j + 1), any, "{visibility:?} {p}.. {j}");
                }
                let chunks: Vec<usize> = together.chunks().collect();
                let touched = |&chunk: &usize| together.touch(chunk * CHUNK, (chunk + 1) * CHUNK);
                assert_eq!(chunks, (0..9).filter(touched).collect::<Vec<_>>());
                assert!(chunks.len() <= visibility.chunked(usize::MAX, 8).div_ceil(CHUNK));
                assert!(chunks.len() <= visibility.chunked(p + 8, 8).div_ceil(CHUNK));
            }
        }
    }

    #[cfg(feature = "encoder")]
    #[test]
    fn ranges_to_both_sides_are_what_the_definition_says() {
        for distance in [None, Some(0), Some(1), Some(6), Some(15), Some(16), Some(40), Some(300)] {
            for len in [1, 2, 17, 255, 256, 257, 700] {
                let visibility = Visibility::both_sides(distance).of_text(len);
                assert_eq!((visibility.is_causal(), visibility.is_all()), (false, distance.is_none()));
                for p in (0..len).filter(|p| p % 7 == 0 || p + 3 > len) {
                    let (seen, last) = (visibility.at(p), (p + 7).min(len - 1));
                    let together = visibility.between(p, last);
                    let sees =
                        |p: usize, j: usize| j < len && distance.is_none_or(|distance| p.abs_diff(j) <= distance);
                    for j in 0..len + 20 {
                        assert_eq!(seen.touch(j, j + 1), sees(p, j), "{visibility:?} {p} {j}");
                        assert_eq!(together.touch(j, j + 1), (p..=last).any(|p| sees(p, j)), "{visibility:?} {p} {j}");
                    }
                    let chunks = together.chunks().count();
                    assert!(chunks <= visibility.chunked(len, 8).div_ceil(CHUNK));
                }
            }
        }
    }

    #[test]
    fn tiles_are_those_with_visible_positions() {
        for (sinks, last, own) in windows() {
            let visibility = Visibility::new(Window { sinks, last }, own);
            for p in (0..60).chain(250..340).chain([600, 777]) {
                let together = visibility.between(p, p + 7);
                for chunk in together.chunks() {
                    let tiles = VisibleTiles::new(together.in_chunk(chunk));
                    let list: Vec<usize> =
                        (0..tiles.positions().div_ceil(TILE_TOKENS)).map(|index| tiles.tile(index)).collect();
                    let tile = |tile| chunk * CHUNK + tile * TILE_TOKENS;
                    let touched = |index: &usize| together.touch(tile(*index), tile(index + 1));
                    assert_eq!(list, (0..CHUNK / TILE_TOKENS).filter(touched).collect::<Vec<_>>());
                    for p in p..p + 8 {
                        let seen = tiles.visible(visibility.at(p).in_chunk(chunk));
                        for (index, &number) in list.iter().enumerate() {
                            for slot in 0..TILE_TOKENS {
                                let (place, j) = (index * TILE_TOKENS + slot, tile(number) + slot);
                                let visible = seen.touch(place, place + 1);
                                assert_eq!(visible, sees(sinks, last, own, p, j), "{visibility:?} {p} {j}");
                            }
                        }
                    }
                }
            }
        }
    }
}
