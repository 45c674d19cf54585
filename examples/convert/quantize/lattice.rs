//! IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S: super-blocks whose elements are entries of a codebook, with
//! sub-scales that are odd numbers. `src/quant` describes the bytes.
//!
//! The search finds the best scale of each sub-block, and then the scale of the super-block with which these fit best.

use gleed::tensor::Dtype;

use super::codebook::{Book, Eight, GROUP, Group};
use super::grid::{self, Elements};

/// A format with a codebook.
pub(super) struct Format {
    pub(super) dtype: Dtype,
    /// Number of elements that share a sub-scale.
    pub(super) sub_len: usize,
    /// Number of elements of an entry: 8 or 4.
    pub(super) entry_len: usize,
    /// Number of entries of the codebook.
    pub(super) entries: usize,
    pub(super) signs: Signs,
    /// Largest stored sub-scale. A stored s stands for 2 s + 1.
    pub(super) top: u8,
    /// Divisor in the value of an element: scale / divisor * (2 s + 1) * code.
    pub(super) divisor: f32,
    /// Multiples of the largest code to which the search maps the largest element.
    pub(super) ends: &'static [f32],
    pub(super) write: fn(&Block, &mut [u8]),
}

/// The rule for the signs of 8 elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Signs {
    Any,
    /// The number of elements that are less than 0 is even.
    Even,
    /// The codes have signs. The sign that is stored is that of a delta, for 8 elements or for the whole sub-block.
    OfDelta,
}

/// The stored form of a super-block.
pub(super) struct Block {
    pub(super) scale: f32,
    pub(super) subs: [u8; 16],
    /// Indices of entries, one or two per group.
    pub(super) indices: [u16; 64],
    /// [`Group::signs`] of each group.
    pub(super) signs: [u8; 32],
}

impl Default for Block {
    fn default() -> Self {
        Self { scale: 0.0, subs: [0; 16], indices: [0; 64], signs: [0; 32] }
    }
}

/// A format and its codebook.
pub(super) struct Lattice {
    format: Format,
    book: Book,
}

/// A sub-block with the codes for some scale.
#[derive(Clone, Copy, Default)]
struct Sub {
    groups: [Group; 4],
    products: f32,
    squares: f32,
}

impl Sub {
    fn new(groups: [Group; 4]) -> Self {
        let products = groups.iter().map(|group| group.products).sum();
        let squares = groups.iter().map(|group| group.squares).sum();
        Self { groups, products, squares }
    }

    /// Returns the weighted squared error minus that of zeros.
    fn error(&self, scale: f32) -> f32 {
        scale * (scale * self.squares - 2.0 * self.products)
    }

    /// Returns the best scale for these codes.
    fn fit(&self) -> f32 {
        if self.products > 0.0 && self.squares > 0.0 { self.products / self.squares } else { 0.0 }
    }
}

impl Lattice {
    /// Returns the search for a format, or `None` if this build does not know the format.
    pub(super) fn new(format: Format) -> Option<Self> {
        let book = Book::of(&format)?;
        Some(Self { format, book })
    }

    /// Writes the super-block of 256 elements.
    pub(super) fn write(&self, elements: Elements<'_>, out: &mut [u8]) {
        (self.format.write)(&self.best(elements), out);
    }

    fn best(&self, elements: Elements<'_>) -> Block {
        let eights: Vec<_> = elements.lanes().map(|(x, w)| Eight::new(x, w, self.format.signs)).collect();
        let subs = eights.chunks(self.format.sub_len / GROUP);
        let extremes = elements.parts(self.format.sub_len).map(|sub| sub.extreme().abs());
        let wanted: Vec<_> = subs.clone().zip(extremes).map(|(sub, extreme)| self.best_scale(sub, extreme)).collect();
        let largest = wanted.iter().copied().fold(0.0, f32::max);
        let mut best = Block::default();
        if largest < grid::SMALLEST {
            return best;
        }
        // A little more than the largest sub-scale needs, because most of the others fit better then.
        let mut scale = self.rounded(largest / (odd(self.format.top) - 0.5));
        let mut best_error = f32::INFINITY;
        for _ in 0..2 {
            let unit = scale / self.format.divisor;
            let choose = |(sub, &wanted): (&[Eight], &f32)| self.best_sub(sub, unit, wanted);
            let chosen: Vec<_> = subs.clone().zip(&wanted).map(choose).collect();
            let error = chosen.iter().map(|(sub, s)| sub.error(unit * odd(*s))).sum::<f32>();
            if error < best_error {
                best_error = error;
                best = self.block(scale, &chosen);
            }
            let products: f32 = chosen.iter().map(|(sub, s)| odd(*s) * sub.products).sum();
            let squares: f32 = chosen.iter().map(|(sub, s)| odd(*s) * odd(*s) * sub.squares).sum();
            if products <= 0.0 || squares <= 0.0 {
                break;
            }
            scale = self.rounded(products / squares);
        }
        best
    }

    /// Returns the scale of a super-block, rounded as in the file.
    fn rounded(&self, unit: f32) -> f32 {
        grid::rounded(unit * self.format.divisor)
    }

    /// Returns the scale with the least error for a sub-block. `extreme` is its largest element.
    fn best_scale(&self, sub: &[Eight], extreme: f32) -> f32 {
        if extreme < grid::SMALLEST {
            return 0.0;
        }
        // The error is the sum of w * x * x minus the gain.
        let gain = |sub: &Sub| sub.products.max(0.0) * sub.fit();
        let unit = extreme / self.book.largest();
        let tried = self.format.ends.iter().map(|end| self.nearest(sub, unit / end));
        let best = tried.reduce(|best, other| if gain(&other) > gain(&best) { other } else { best });
        best.map_or(0.0, |best| self.nearest(sub, best.fit()).fit())
    }

    /// Returns the sub-scale with the least error, among those around the wanted one.
    fn best_sub(&self, sub: &[Eight], unit: f32, wanted: f32) -> (Sub, u8) {
        let middle = if unit < grid::SMALLEST { 0.0 } else { ((wanted / unit - 1.0) / 2.0).round() };
        let middle = middle.clamp(0.0, f32::from(self.format.top)) as u8;
        let near = middle.saturating_sub(1)..=(middle + 1).min(self.format.top);
        let subs = near.map(|s| (self.nearest(sub, unit * odd(s)), s));
        grid::least(subs, |(sub, s)| sub.error(unit * odd(*s))).unwrap_or_default()
    }

    /// Returns the codes nearest to the elements of a sub-block.
    fn nearest(&self, sub: &[Eight], scale: f32) -> Sub {
        let groups = |group: &dyn Fn(&Eight) -> Group| {
            let mut groups = [Group::default(); 4];
            groups.iter_mut().zip(sub).for_each(|(out, eight)| *out = group(eight));
            groups
        };
        if self.format.signs != Signs::OfDelta {
            return Sub::new(groups(&|eight| self.book.with_signs(eight, scale)));
        }
        let [first, second] = [0, 1].map(|which| groups(&|eight| self.book.with_delta(eight, scale, which)));
        if self.format.sub_len == 32 {
            let [first, second] = [Sub::new(first), Sub::new(second)];
            return if second.error(scale) < first.error(scale) { second } else { first };
        }
        let pairs = first.into_iter().zip(second);
        let mut best = pairs.map(|(a, b)| if b.error(scale) < a.error(scale) { b } else { a });
        Sub::new(std::array::from_fn(|_| best.next().unwrap_or_default()))
    }

    fn block(&self, scale: f32, chosen: &[(Sub, u8)]) -> Block {
        let mut block = Block { scale, ..Block::default() };
        block.subs.iter_mut().zip(chosen).for_each(|(out, (_, s))| *out = *s);
        let groups = chosen.iter().flat_map(|(sub, _)| sub.groups.iter().take(self.format.sub_len / GROUP));
        let per_group = GROUP / self.format.entry_len;
        let places = block.indices.chunks_mut(per_group).zip(&mut block.signs);
        for (group, (indices, signs)) in groups.zip(places) {
            indices.copy_from_slice(&group.indices[..per_group]);
            *signs = group.signs;
        }
        block
    }
}

/// Returns the value of a stored sub-scale.
fn odd(s: u8) -> f32 {
    f32::from(2 * s + 1)
}
