//! The codes of a format, and the best scale for some elements: x ≈ scale * code, or scale * code + min.
//!
//! The best scale has the least weighted squared error. The search tries scales around the one that maps the extreme
//! element to the end of the codes. For the codes that follow from each, least squares gives the best scale.

use half::f16;

/// Elements, and the weights of their squared errors: their importance, or 1.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    pub(super) x: &'a [f32],
    pub(super) w: &'a [f32],
}

impl<'a> Elements<'a> {
    /// Returns the elements in parts of `len`.
    pub(super) fn parts(self, len: usize) -> impl Iterator<Item = Self> {
        self.x.chunks_exact(len).zip(self.w.chunks_exact(len)).map(|(x, w)| Self { x, w })
    }

    /// Returns each element with its weight.
    pub(super) fn each(self) -> impl Iterator<Item = (f32, f32)> {
        self.x.iter().copied().zip(self.w.iter().copied())
    }

    /// Returns eight elements and their weights at a time.
    #[inline(always)]
    pub(super) fn lanes(self) -> impl Iterator<Item = (&'a [f32; LANES], &'a [f32; LANES])> {
        self.x.as_chunks::<LANES>().0.iter().zip(self.w.as_chunks::<LANES>().0)
    }

    /// Returns the element that is farthest from 0.
    pub(super) fn extreme(self) -> f32 {
        extreme(self.x)
    }
}

/// Returns the number that is farthest from 0.
pub(super) fn extreme(x: &[f32]) -> f32 {
    x.iter().copied().fold(0.0_f32, |max, x| if x.abs() > max.abs() { x } else { max })
}

/// The set of codes of a format.
pub(super) trait Grid {
    /// Code of the extreme element, and the code at the other end.
    const ENDS: [f32; 2];
    /// Largest distance from the ends to which the search maps the extreme element.
    const SLACK: f32;
    /// Returns the codes nearest to `x`.
    fn nearest(x: [f32; LANES]) -> [f32; LANES];
}

/// The integers from `LOW` to `HIGH`.
pub(super) struct Integers<const LOW: i32, const HIGH: i32>;

impl<const LOW: i32, const HIGH: i32> Grid for Integers<LOW, HIGH> {
    const ENDS: [f32; 2] = [LOW as f32, HIGH as f32];
    const SLACK: f32 = 0.95;

    #[inline(always)]
    fn nearest(x: [f32; LANES]) -> [f32; LANES] {
        // Adding this number rounds: the sum has no bits for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        x.map(|x| (x.max(LOW as f32).min(HIGH as f32) + SHIFT) - SHIFT)
    }
}

/// Smaller elements become zeros, because an f16 scale cannot represent them.
pub(super) const SMALLEST: f32 = 1e-20;

/// Number of elements that are computed together.
pub(super) const LANES: usize = 8;

/// Returns a number rounded to f16, as it is in the file.
pub(super) fn rounded(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

/// Returns `[sum of w * x * code, sum of w * code * code]` for the codes nearest to `x * inverse`.
#[inline]
fn moments<G: Grid>(elements: Elements<'_>, inverse: f32) -> [f32; 2] {
    let mut sums = [[0.0_f32; LANES]; 2];
    for (x, w) in elements.lanes() {
        let codes = G::nearest(x.map(|x| x * inverse));
        for (lane, ((x, w), code)) in x.iter().zip(w).zip(codes).enumerate() {
            sums[0][lane] += x * (w * code);
            sums[1][lane] += code * (w * code);
        }
    }
    sums.map(|sums| sums.iter().sum())
}

/// Returns the weighted squared error of `scale * code` with the best codes.
#[inline]
pub(super) fn error<G: Grid>(elements: Elements<'_>, scale: f32) -> f32 {
    error_with_min::<G>(elements, scale, 0.0)
}

/// Returns the weighted squared error of `scale * code + min` with the best codes.
#[inline]
pub(super) fn error_with_min<G: Grid>(elements: Elements<'_>, scale: f32, min: f32) -> f32 {
    let inverse = inverse(scale);
    let mut sums = [0.0_f32; LANES];
    for (x, w) in elements.lanes() {
        let codes = G::nearest(x.map(|x| (x - min) * inverse));
        for (lane, ((x, w), code)) in x.iter().zip(w).zip(codes).enumerate() {
            let difference = x - (scale * code + min);
            sums[lane] += w * (difference * difference);
        }
    }
    sums.iter().sum()
}

/// Writes the best codes for `scale * code + min`.
pub(super) fn codes<G: Grid>(x: &[f32], scale: f32, min: f32, out: &mut [i8]) {
    let inverse = inverse(scale);
    for (out, x) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(x.as_chunks::<LANES>().0) {
        *out = G::nearest(x.map(|x| (x - min) * inverse)).map(|code| code as i8);
    }
}

/// Returns `1 / scale`, or 0 if that is too large.
fn inverse(scale: f32) -> f32 {
    if scale.abs() < SMALLEST { 0.0 } else { 1.0 / scale }
}

/// Returns the scale with the least error.
pub(super) fn best_scale<G: Grid>(elements: Elements<'_>) -> f32 {
    const STEPS: i32 = 9;
    let extreme = elements.extreme();
    if extreme.abs() < SMALLEST {
        return 0.0;
    }
    // The error is the sum of w * x * x minus the gain.
    let (mut best, mut best_gain) = (0.0, 0.0);
    let mut attempt = |inverse: f32| {
        let [products, squares] = moments::<G>(elements, inverse);
        if squares > 0.0 && products * products > best_gain * squares {
            best_gain = products * products / squares;
            best = products / squares;
        }
    };
    for end in G::ENDS {
        for step in -STEPS..=STEPS {
            attempt((end + G::SLACK * step as f32 / STEPS as f32) / extreme);
        }
    }
    refined::<G>(elements, best)
}

/// Refines a scale: takes the best scale for its codes, twice.
fn refined<G: Grid>(elements: Elements<'_>, mut scale: f32) -> f32 {
    for _ in 0..2 {
        let [products, squares] = moments::<G>(elements, inverse(scale));
        if squares > 0.0 {
            scale = products / squares;
        }
    }
    scale
}

/// Returns the f16 number with the least error, among `around` numbers below and above `scale`.
pub(super) fn best_f16<G: Grid>(elements: Elements<'_>, scale: f32, around: u16) -> f32 {
    let middle = f16::from_f32(scale).to_bits();
    let bits = middle.saturating_sub(around)..=middle.saturating_add(around);
    let near = bits.map(|bits| f16::from_bits(bits).to_f32()).filter(|near| near.is_finite());
    least(near, |&near| error::<G>(elements, near)).unwrap_or(0.0)
}

/// Returns the candidate with the least error, the first of equal ones.
pub(super) fn least<T>(candidates: impl Iterator<Item = T>, error: impl Fn(&T) -> f32) -> Option<T> {
    let with_error = candidates.map(|candidate| (error(&candidate), candidate));
    with_error.reduce(|best, other| if other.0 < best.0 { other } else { best }).map(|(_, candidate)| candidate)
}

/// Returns scale and minimum with the least error, for codes from 0 to `HIGH`. With `below_zero` the minimum is not
/// positive.
pub(super) fn best_scale_and_min<const HIGH: i32>(elements: Elements<'_>, below_zero: bool) -> [f32; 2] {
    const STEPS: i32 = 13;
    let fold = |f: fn(f32, f32) -> f32, from| elements.x.iter().copied().fold(from, f);
    let (mut low, high) = (fold(f32::min, f32::INFINITY), fold(f32::max, f32::NEG_INFINITY));
    if below_zero {
        low = low.min(0.0);
    }
    let range = high - low;
    if range < SMALLEST {
        return [0.0, low];
    }
    // Sums of differences from the lowest element stay precise if all elements are far from zero.
    let origin = if below_zero { 0.0 } else { low };
    let mut search = Search::<HIGH> { elements, origin, below_zero, best: [0.0, low], error: f32::INFINITY };
    for step in 0..=STEPS {
        // Spread the range over about one code more or less than there are, so that some codes stay unused or some
        // elements are clamped.
        let codes = HIGH as f32 - 0.9 + 1.9 * step as f32 / STEPS as f32;
        search.attempt([range / codes, low]);
    }
    // Clamp the elements at both ends.
    for cut in [0.03, 0.06, 0.1, 0.15] {
        search.attempt([range * (1.0 - 2.0 * cut) / HIGH as f32, low + cut * range]);
    }
    let mut fit = search.best;
    for _ in 0..3 {
        fit = search.attempt(fit);
    }
    search.best
}

/// A search for scale and minimum.
struct Search<'x, const HIGH: i32> {
    elements: Elements<'x>,
    origin: f32,
    below_zero: bool,
    best: [f32; 2],
    error: f32,
}

impl<const HIGH: i32> Search<'_, HIGH> {
    /// Returns the best scale and minimum for the codes that follow from these, and keeps them if they are the best so
    /// far.
    #[inline]
    fn attempt(&mut self, [scale, min]: [f32; 2]) -> [f32; 2] {
        let fit = least_squares::<HIGH>(self.elements, inverse(scale), min, self.origin, self.below_zero);
        let error = error_with_min::<Codes<HIGH>>(self.elements, fit[0], fit[1]);
        if error < self.error {
            (self.best, self.error) = (fit, error);
        }
        fit
    }
}

/// The integers from 0.
pub(super) type Codes<const HIGH: i32> = Integers<0, HIGH>;

/// Returns the best scale and minimum for the codes nearest to `(x - min) * inverse`.
#[inline]
fn least_squares<const HIGH: i32>(
    elements: Elements<'_>,
    inverse: f32,
    min: f32,
    origin: f32,
    below_zero: bool,
) -> [f32; 2] {
    let mut sums = [[0.0_f32; LANES]; 5];
    for (x, w) in elements.lanes() {
        let codes = Codes::<HIGH>::nearest(x.map(|x| (x - min) * inverse));
        for (lane, ((x, w), code)) in x.iter().zip(w).zip(codes).enumerate() {
            let y = w * (x - origin);
            sums[0][lane] += w * code;
            sums[1][lane] += code * (w * code);
            sums[2][lane] += y;
            sums[3][lane] += y * code;
            sums[4][lane] += w;
        }
    }
    let [q, qq, y, yq, n] = sums.map(|sums| sums.iter().sum::<f32>());
    let determinant = n * qq - q * q;
    let [scale, min] = if determinant > 0.0 {
        [(n * yq - q * y) / determinant, origin + (qq * y - q * yq) / determinant]
    } else {
        // All elements have one code.
        [0.0, origin + y / n]
    };
    if below_zero && min > 0.0 { [if qq > 0.0 { yq / qq } else { 0.0 }, 0.0] } else { [scale, min] }
}
