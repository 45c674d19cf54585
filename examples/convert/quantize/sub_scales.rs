//! Super-blocks of 256 elements with a scale, and sub-scales that are small integers.

use super::grid::{self, Codes, Elements, Grid};

/// A super-block whose elements are `scale * sub-scale * code`.
pub(super) struct Scaled<const SUBS: usize> {
    pub(super) scale: f32,
    pub(super) subs: [i8; SUBS],
    pub(super) codes: [i8; 256],
}

/// Returns the best super-block with sub-scales from `LOW` to `-LOW - 1`.
pub(super) fn scaled<G: Grid, const SUBS: usize, const LOW: i32>(elements: Elements<'_>) -> Scaled<SUBS> {
    let subs: [Elements<'_>; SUBS] = split(elements);
    let wanted = subs.map(grid::best_scale::<G>);
    let extreme = grid::extreme(&wanted);
    // The loop maps the extreme sub-scale to an end: first to `LOW`, the end with one more value.
    let mut best = Scaled { scale: 0.0, subs: [0; SUBS], codes: [0; 256] };
    let mut best_error = elements.each().map(|(x, w)| w * (x * x)).sum::<f32>();
    if extreme.abs() < grid::SMALLEST {
        return best;
    }
    for end in [LOW as f32, LOW as f32 + 1.0, -1.0 - LOW as f32] {
        let mut scale = grid::rounded(extreme / end);
        for _ in 0..3 {
            let subs = std::array::from_fn(|j| best_sub::<G, LOW>(subs[j], scale, wanted[j]));
            let codes = codes_with::<G, SUBS>(elements.x, scale, &subs);
            let (fit, error) = fitted(elements, scale, &subs, &codes);
            if error < best_error {
                best_error = error;
                best = Scaled { scale, subs, codes };
            }
            scale = grid::rounded(fit);
        }
    }
    best
}

/// Returns the sub-blocks of a super-block.
fn split<const SUBS: usize>(elements: Elements<'_>) -> [Elements<'_>; SUBS] {
    let len = 256 / SUBS;
    std::array::from_fn(|j| Elements { x: &elements.x[j * len..][..len], w: &elements.w[j * len..][..len] })
}

/// Returns the sub-scale with the least error, among those around the wanted one.
fn best_sub<G: Grid, const LOW: i32>(elements: Elements<'_>, scale: f32, wanted: f32) -> i8 {
    if scale.abs() < grid::SMALLEST {
        return 0;
    }
    let middle = (wanted / scale).round().clamp(LOW as f32, -1.0 - LOW as f32) as i32;
    let near = (middle - 1..=middle + 1).filter(|sub| (LOW..-LOW).contains(sub));
    grid::least(near, |&sub| grid::error::<G>(elements, scale * sub as f32)).unwrap_or(middle) as i8
}

fn codes_with<G: Grid, const SUBS: usize>(x: &[f32], scale: f32, subs: &[i8; SUBS]) -> [i8; 256] {
    let mut codes = [0; 256];
    let len = 256 / SUBS;
    for ((x, codes), &sub) in x.chunks(len).zip(codes.chunks_mut(len)).zip(subs) {
        grid::codes::<G>(x, scale * f32::from(sub), 0.0, codes);
    }
    codes
}

/// Returns the best scale for these codes, and the error with the given scale.
fn fitted<const SUBS: usize>(elements: Elements<'_>, scale: f32, subs: &[i8; SUBS], codes: &[i8; 256]) -> (f32, f32) {
    let (mut products, mut squares, mut error) = (0.0_f32, 0.0_f32, 0.0_f32);
    let len = 256 / SUBS;
    for ((elements, codes), &sub) in elements.parts(len).zip(codes.chunks(len)).zip(subs) {
        for ((x, w), &code) in elements.each().zip(codes) {
            let unit = f32::from(sub) * f32::from(code);
            products += x * (w * unit);
            squares += unit * (w * unit);
            error += w * (x - scale * unit).powi(2);
        }
    }
    (if squares > 0.0 { products / squares } else { scale }, error)
}

/// A super-block whose elements are `scale * sub-scale * code - min * sub-min`.
pub(super) struct WithMins<const SUBS: usize> {
    pub(super) scale: f32,
    pub(super) min: f32,
    pub(super) subs: [u8; SUBS],
    pub(super) sub_mins: [u8; SUBS],
    pub(super) codes: [u8; 256],
}

/// Returns the best super-block with codes up to `HIGH`, and sub-scales and sub-minima up to `TOP`.
pub(super) fn with_mins<const HIGH: i32, const SUBS: usize, const TOP: i32>(elements: Elements<'_>) -> WithMins<SUBS> {
    let wanted = split::<SUBS>(elements).map(|sub| {
        let [scale, min] = grid::best_scale_and_min::<HIGH>(sub, true);
        [scale.max(0.0), -min]
    });
    let largest = |which: usize| wanted.iter().fold(0.0_f32, |max, pair| max.max(pair[which]));
    let empty = WithMins { scale: 0.0, min: 0.0, subs: [0; SUBS], sub_mins: [0; SUBS], codes: [0; 256] };
    let (mut best, mut best_error) = (empty, f32::INFINITY);
    // Try several tops: it is not known before with which ones most sub-scales and sub-minima fit best.
    for tops in [[0.0, 0.0], [1.5, 0.7], [0.7, 1.5]] {
        let unit = |which: usize| grid::rounded(largest(which) / (TOP as f32 - tops[which]));
        let mut units = [unit(0), unit(1)];
        for _ in 0..2 {
            let attempt = WithMins::with_units::<HIGH, TOP>(elements, units, &wanted);
            let (fit, error) = attempt.fitted(elements);
            if error < best_error {
                (best, best_error) = (attempt, error);
            }
            units = fit.map(grid::rounded);
        }
    }
    best
}

/// Returns sub-scale and sub-minimum with the least error, among those around the wanted ones.
fn best_pair<const HIGH: i32, const TOP: i32>(elements: Elements<'_>, unit: [f32; 2], wanted: [f32; 2]) -> [u8; 2] {
    let near = |unit: f32, wanted: f32| {
        let middle = if unit < grid::SMALLEST { 0 } else { (wanted / unit).round().clamp(0.0, TOP as f32) as i32 };
        (middle - 1).max(0)..=(middle + 1).min(TOP)
    };
    let (subs, mins) = (near(unit[0], wanted[0]), near(unit[1], wanted[1]));
    let pairs = subs.flat_map(|sub| mins.clone().map(move |min| [sub as u8, min as u8]));
    let error = |&[sub, min]: &[u8; 2]| {
        grid::error_with_min::<Codes<HIGH>>(elements, unit[0] * f32::from(sub), -unit[1] * f32::from(min))
    };
    grid::least(pairs, error).unwrap_or([0, 0])
}

impl<const SUBS: usize> WithMins<SUBS> {
    /// Returns the super-block with this scale and minimum.
    fn with_units<const HIGH: i32, const TOP: i32>(
        elements: Elements<'_>,
        units: [f32; 2],
        wanted: &[[f32; 2]; SUBS],
    ) -> Self {
        let [scale, min] = units;
        let mut block = Self { scale, min, subs: [0; SUBS], sub_mins: [0; SUBS], codes: [0; 256] };
        let mut codes = [0; 256];
        let subs = split::<SUBS>(elements).into_iter();
        for (j, (elements, codes)) in subs.zip(codes.chunks_mut(256 / SUBS)).enumerate() {
            let [sub, sub_min] = best_pair::<HIGH, TOP>(elements, units, wanted[j]);
            (block.subs[j], block.sub_mins[j]) = (sub, sub_min);
            grid::codes::<Codes<HIGH>>(elements.x, scale * f32::from(sub), -min * f32::from(sub_min), codes);
        }
        block.codes = codes.map(|code| code as u8);
        block
    }

    /// Returns the best scale and minimum for these codes, and the error with the present ones.
    fn fitted(&self, elements: Elements<'_>) -> ([f32; 2], f32) {
        let len = 256 / SUBS;
        let (mut aa, mut ab, mut bb, mut ax, mut bx, mut error) =
            (0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
        for (j, (elements, codes)) in elements.parts(len).zip(self.codes.chunks(len)).enumerate() {
            let b = -f32::from(self.sub_mins[j]);
            for ((x, w), &code) in elements.each().zip(codes) {
                let a = f32::from(self.subs[j]) * f32::from(code);
                aa += a * (w * a);
                ab += a * (w * b);
                bb += b * (w * b);
                ax += a * (w * x);
                bx += b * (w * x);
                error += w * (x - (self.scale * a + self.min * b)).powi(2);
            }
        }
        let determinant = aa * bb - ab * ab;
        let fit = if determinant > 1e-6 * aa * bb {
            [(ax * bb - bx * ab) / determinant, (bx * aa - ax * ab) / determinant]
        } else {
            [if aa > 0.0 { ax / aa } else { 0.0 }, 0.0]
        };
        (if fit.iter().all(|&x| x >= 0.0) { fit } else { [self.scale, self.min] }, error)
    }
}
