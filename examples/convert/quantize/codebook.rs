//! The codebook of a format, and the search for the entry that is nearest to some elements.

use gleed::quant::dequantize;

use super::lattice::{Block, Format, Signs};

/// Number of elements whose signs, or whose delta's sign, are stored together: one entry, or two of half the length.
pub(super) const GROUP: usize = 8;

/// The entries of a codebook, sorted for the search.
pub(super) struct Book {
    /// Code of each digit. If entries have a delta, there is a second list for the other delta.
    values: Vec<[f32; 8]>,
    /// Number of digits: 3 or 8.
    digits: usize,
    /// Number of elements of an entry: 8 or 4.
    len: usize,
    /// Second half of some entries, and the range of these entries in `entries`.
    runs: Vec<(u8, usize, usize)>,
    /// First half of each entry, and its index in the format.
    entries: Vec<(u8, u16)>,
}

/// Eight elements, prepared for the search.
#[derive(Clone, Copy)]
pub(super) struct Eight {
    /// Elements, without their signs if codes have none.
    x: [f32; GROUP],
    w: [f32; GROUP],
    signs: u8,
    /// Indices of two elements: if the signs cannot be stored, the search tries to change the sign of either.
    wrong: Option<[usize; 2]>,
}

impl Eight {
    pub(super) fn new(x: &[f32; GROUP], w: &[f32; GROUP], kind: Signs) -> Self {
        if kind == Signs::OfDelta {
            return Self { x: *x, w: *w, signs: 0, wrong: None };
        }
        let signs = x.iter().enumerate().fold(0, |signs, (i, x)| signs | u8::from(*x < 0.0) << i);
        let x = x.map(f32::abs);
        let odd = kind == Signs::Even && signs.count_ones() % 2 == 1;
        // A wrong sign costs least at the element with the least weighted size.
        let cost = |i: &usize| w[*i] * x[*i];
        let mut order: [usize; GROUP] = std::array::from_fn(|i| i);
        order.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        Self { x, w: *w, signs, wrong: odd.then_some([order[0], order[1]]) }
    }
}

/// The stored form of a group of elements.
#[derive(Clone, Copy, Default)]
pub(super) struct Group {
    /// A bit for each element that is less than 0. For entries with a delta, 1 for the second delta.
    pub(super) signs: u8,
    pub(super) indices: [u16; 2],
    /// Sum of w * x * code.
    pub(super) products: f32,
    /// Sum of w * code * code.
    pub(super) squares: f32,
}

impl Group {
    /// Returns the weighted squared error minus that of zeros.
    pub(super) fn error(&self, scale: f32) -> f32 {
        scale * (scale * self.squares - 2.0 * self.products)
    }
}

/// An entry that was found, with its halves.
#[derive(Clone, Copy)]
struct Found {
    error: f32,
    halves: [u8; 2],
    index: u16,
}

/// The errors of all halves, of which there are at most 81.
type Table = [f32; 128];

impl Book {
    /// Returns the codebook of a format, or `None` if this build does not know the format.
    pub(super) fn of(format: &Format) -> Option<Self> {
        let lists = (0..if format.signs == Signs::OfDelta { 2 } else { 1 }).map(|signs| codes(format, signs));
        let lists = lists.collect::<Option<Vec<_>>>()?;
        let values = lists.iter().map(|codes| distinct(codes)).collect::<Vec<_>>();
        let digits = if format.entry_len == GROUP { 3 } else { 8 };
        let first = lists.first()?.chunks(format.entry_len).enumerate();
        let entry = |(index, codes)| (halves(codes, &values[0], digits), index as u16);
        let mut entries: Vec<_> = first.map(entry).collect();
        entries.sort_by_key(|([low, high], _)| (*high, *low));
        let mut runs: Vec<(u8, usize, usize)> = Vec::new();
        for (at, ([_, high], _)) in entries.iter().enumerate() {
            match runs.last_mut() {
                Some((same, _, end)) if same == high => *end = at + 1,
                _ => runs.push((*high, at, at + 1)),
            }
        }
        let entries = entries.into_iter().map(|([low, _], index)| (low, index)).collect();
        Some(Self { values, digits, len: format.entry_len, runs, entries })
    }

    /// Returns the largest code.
    pub(super) fn largest(&self) -> f32 {
        self.values.iter().flatten().fold(0.0_f32, |max, x| max.max(x.abs()))
    }

    /// Returns the nearest group of `scale * code` with the delta `which`.
    pub(super) fn with_delta(&self, eight: &Eight, scale: f32, which: u8) -> Group {
        Group { signs: which, ..self.group(&eight.x, &eight.w, scale, usize::from(which)) }
    }

    /// Returns the nearest group of `scale * code` with signs.
    pub(super) fn with_signs(&self, eight: &Eight, scale: f32) -> Group {
        let Some(wrong) = eight.wrong else {
            return Group { signs: eight.signs, ..self.group(&eight.x, &eight.w, scale, 0) };
        };
        let [first, second] = wrong.map(|i| {
            let mut x = eight.x;
            x[i] = -x[i];
            Group { signs: eight.signs ^ 1 << i, ..self.group(&x, &eight.w, scale, 0) }
        });
        if second.error(scale) < first.error(scale) { second } else { first }
    }

    fn group(&self, x: &[f32; GROUP], w: &[f32; GROUP], scale: f32, list: usize) -> Group {
        let values = &self.values[list];
        let mut group = Group::default();
        let parts = x.chunks(self.len).zip(w.chunks(self.len));
        for (index, (x, w)) in group.indices.iter_mut().zip(parts) {
            let found = if self.digits == 3 {
                self.nearest::<3, 4>(x, w, scale, values)
            } else {
                self.nearest::<8, 2>(x, w, scale, values)
            };
            *index = found.index;
            let mut places = x.iter().zip(w);
            for mut half in found.halves.map(usize::from) {
                for (x, w) in places.by_ref().take(self.len / 2) {
                    let code = values[half % self.digits];
                    half /= self.digits;
                    group.products += x * (w * code);
                    group.squares += code * (w * code);
                }
            }
        }
        group
    }

    /// Returns the entry with the least error.
    fn nearest<const DIGITS: usize, const HALF: usize>(
        &self,
        x: &[f32],
        w: &[f32],
        scale: f32,
        values: &[f32; 8],
    ) -> Found {
        let errors = |i: usize| {
            std::array::from_fn(|digit| w[i] * (scale * values[digit]) * (scale * values[digit] - 2.0 * x[i]))
        };
        let (low, least) = table::<DIGITS>(std::array::from_fn::<_, HALF, _>(errors));
        let (high, _) = table::<DIGITS>(std::array::from_fn::<_, HALF, _>(|i| errors(HALF + i)));
        let of = |table: &Table, half: u8| table[usize::from(half & 127)];
        // Search the most likely run first. Then most other runs can be skipped.
        let mut likely = (f32::INFINITY, 0);
        for (at, run) in self.runs.iter().enumerate() {
            let error = of(&high, run.0);
            likely = if error < likely.0 { (error, at) } else { likely };
        }
        let mut best = Found { error: f32::INFINITY, halves: [0; 2], index: 0 };
        for run in [&self.runs[likely.1]].into_iter().chain(&self.runs) {
            let error = of(&high, run.0);
            if error + least >= best.error {
                continue;
            }
            for &(half, index) in &self.entries[run.1..run.2] {
                let error = error + of(&low, half);
                if error < best.error {
                    best = Found { error, halves: [half, run.0], index };
                }
            }
        }
        best
    }
}

/// Returns the errors of all halves, minus those of zeros, from the errors of the digits at each place, and the least
/// error.
#[inline(always)]
fn table<const DIGITS: usize>(places: impl AsRef<[[f32; DIGITS]]>) -> (Table, f32) {
    let mut table = [0.0; 128];
    let (mut len, mut least) = (1, 0.0);
    for errors in places.as_ref() {
        for digit in (0..DIGITS).rev() {
            for k in 0..len {
                table[digit * len + k] = table[k] + errors[digit];
            }
        }
        len *= DIGITS;
        least += errors.iter().fold(f32::INFINITY, |least, error| least.min(*error));
    }
    (table, least)
}

/// Returns the codes of all entries in their order, by writing blocks with them and reading the blocks.
fn codes(format: &Format, signs: u8) -> Option<Vec<f32>> {
    let per_block = 256 / format.entry_len;
    let mut codes = Vec::new();
    for first in (0..format.entries).step_by(per_block) {
        let mut block = Block { scale: format.divisor, ..Block::default() };
        block.signs = [signs; 32];
        block.indices.iter_mut().zip(first as u16..).for_each(|(index, entry)| *index = entry);
        let mut bytes = vec![0; format.dtype.block_bytes()];
        (format.write)(&block, &mut bytes);
        let mut elements = [0.0; 256];
        dequantize(format.dtype, &bytes, &mut elements)?;
        codes.extend(elements);
    }
    codes.truncate(format.entries * format.entry_len);
    Some(codes)
}

/// Returns the distinct codes in ascending order. The rest of the array repeats the largest one.
fn distinct(codes: &[f32]) -> [f32; 8] {
    let mut values = codes.to_vec();
    values.sort_by(f32::total_cmp);
    values.dedup();
    std::array::from_fn(|i| values.get(i).or(values.last()).copied().unwrap_or(0.0))
}

/// Returns the first and the second half of the codes as numbers, the first digit lowest.
fn halves(codes: &[f32], values: &[f32; 8], digits: usize) -> [u8; 2] {
    let digit = |code: &f32| values.iter().position(|value| value == code).unwrap_or(0) as u8;
    let number = |codes: &[f32]| codes.iter().rev().fold(0, |number, code| number * digits as u8 + digit(code));
    let (first, second) = codes.split_at(codes.len() / 2);
    [number(first), number(second)]
}
