//! 16 f32 lanes: one register of AVX-512, two of AVX2, four of 128 bits, or an array.
//!
//! The arithmetic is defined in 16 lanes (tiles of 16 positions, sums by index mod 16), so kernels of floats
//! are written once over this trait. Every operation is the IEEE operation on each lane, rounded by itself.
//!
//! # Proof of the instructions
//!
//! A register type, here and in other traits of the kernels, may need instructions that not every machine of the target
//! has. It has a proof: a zero-sized type, of which a value exists only where the machine has the instructions.
//!
//! - Functions that make registers from nothing (`splat`, `load`, `zero`) take the proof. Registers have private
//!   fields, so there is no other way to make them.
//! - Functions that take registers are safe to call and may use the instructions: the caller of the function that made
//!   the registers had the proof.
//! - A proof is made by its `new`, a function with the target features. The compiler lets safe code call `new` only
//!   from functions that have these features, too: the kernels of the level, which [`Level`](crate::kernels::Level)
//!   calls. A proof for instructions that every machine of the target has is `()`.
//!
//! Operations are inlined into these kernels, so that they are compiled with the features.

use half::f16;

#[cfg(target_arch = "x86_64")]
use super::float_panel::{Columns, add_columns};
use crate::num::{SHORT_SPLIT, f16_to_f32, tree16, weight};

/// The number of lanes.
pub(in crate::kernels) const LANES: usize = 16;

/// 16 lanes of f32. A value proves that the machine has the instructions of the type: see the module.
pub(in crate::kernels) trait Lanes: Copy {
    /// Proof that the machine has the instructions.
    type Proof: Copy;

    /// Number of attention queries that fit the registers beside one column of a tile, at most 8.
    const QUERIES: usize;

    /// Number of attention queries that are processed together where there are enough. They share the conversions of K
    /// and V, and scratch grows with this number.
    const TOGETHER: usize = 4 * Self::QUERIES;

    /// Whether [`Lanes::load_f16`] takes at most two instructions.
    const LOADS_F16: bool;

    /// Whether [`Lanes::add_exact`] is one instruction.
    const FUSED: bool;

    fn splat(proof: Self::Proof, x: f32) -> Self;

    /// # Safety
    /// 16 elements can be read at `from`, which needs no alignment.
    unsafe fn load(proof: Self::Proof, from: *const f32) -> Self;

    /// # Safety
    /// As [`Lanes::load`].
    unsafe fn load_f16(proof: Self::Proof, from: *const f16) -> Self;

    /// # Safety
    /// As [`Lanes::load`].
    unsafe fn load_i8(proof: Self::Proof, from: *const i8) -> Self;

    /// Loads the upper or the lower halves of 16 bytes, each in two's complement.
    ///
    /// # Safety
    /// As [`Lanes::load`].
    unsafe fn load_i4(proof: Self::Proof, from: *const u8, upper: bool) -> Self;

    /// Loads 16 numbers into the upper halves of the lanes. The lower halves are 0.
    ///
    /// # Safety
    /// As [`Lanes::load`].
    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon"),
        target_feature = "simd128"
    ))]
    unsafe fn load_bf16(proof: Self::Proof, from: *const u16) -> Self;

    /// # Safety
    /// 16 elements can be written at `to`, which needs no alignment.
    unsafe fn store(self, to: *mut f32);

    fn add(self, other: Self) -> Self;

    fn sub(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    /// Returns `self + a * b` for products that are exact, so that rounding them or not makes no difference.
    #[inline(always)]
    fn add_exact(self, a: Self, b: Self) -> Self {
        self.add(a.mul(b))
    }

    /// Returns [`crate::num::settle`] of each lane.
    fn settle(self, proof: Self::Proof) -> Self;

    /// Returns [`crate::num::short`] of each lane, for lanes that are 0 or from 2^-50 to 2^100 in magnitude.
    #[inline(always)]
    fn short(self, proof: Self::Proof) -> Self {
        let split = self.mul(Self::splat(proof, SHORT_SPLIT));
        split.sub(split.sub(self))
    }

    /// Returns [`crate::num::short`] of each lane, for lanes of any value.
    #[inline(always)]
    fn short_of_any(self, proof: Self::Proof) -> Self {
        short_in_registers(self, proof)
    }

    /// Returns `if self > other { self } else { other }` for each lane.
    fn max(self, other: Self) -> Self;

    /// Returns the largest lane. No lane is NaN.
    #[inline(always)]
    fn largest(self) -> f32 {
        let mut lanes = [0.0_f32; LANES];
        // SAFETY: the array has the 16 elements that are written.
        unsafe { self.store(lanes.as_mut_ptr()) };
        lanes.into_iter().fold(f32::NEG_INFINITY, |max, lane| if lane > max { lane } else { max })
    }

    /// Returns the first `count` lanes of `self`, and the lanes of `others` in the rest.
    fn first(self, count: usize, others: Self) -> Self;

    /// Returns [`crate::num::weight`] of each lane.
    fn weight(self) -> Self;

    /// Returns [`Lanes::weight`] of several registers.
    #[inline(always)]
    #[allow(clippy::indexing_slicing, clippy::needless_range_loop)] // Fixed lengths; see `attend::pack`.
    fn weights<const M: usize>(_proof: Self::Proof, mut x: [Self; M]) -> [Self; M] {
        for m in 0..M {
            x[m] = x[m].weight();
        }
        x
    }

    /// Returns [`crate::num::tree16`] of the lanes.
    fn tree(self) -> f32;

    /// Stores [`Lanes::tree`] of each register.
    ///
    /// # Safety
    /// `N` elements can be written at `to`, which needs no alignment.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn store_trees<const N: usize>(dots: [Self; N], to: *mut f32) {
        for (i, dot) in dots.into_iter().enumerate() {
            // SAFETY: i < N, and the caller promises room for N elements.
            unsafe { to.add(i).write_unaligned(dot.tree()) };
        }
    }

    /// Adds the products of columns of `R` rows of a panel and of `XS` rows of inputs to the lanes. `EXACT` says whether
    /// the products are exact.
    ///
    /// # Safety
    /// `columns.panel` has `R` rows of 16 columns, `steps` times, and `columns.x` has as many columns of `XS` rows.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn add_columns<const R: usize, const XS: usize, const EXACT: bool>(
        proof: Self::Proof,
        lanes: &mut [[Self; R]; XS],
        columns: Columns,
    ) {
        // SAFETY: the caller promises the columns of the panel and of the inputs.
        unsafe { add_columns::<Self, R, XS, EXACT>(proof, lanes, columns) }
    }

    /// Prefetches the cache line of an address. Any address is allowed.
    fn prefetch<T>(address: *const T);

    /// Prefetches a line that is not needed soon, into the second-level cache.
    fn prefetch_later<T>(address: *const T);
}

/// Returns [`crate::num::short`] of each lane, without comparisons.
#[inline(always)]
fn short_in_registers<V: Lanes>(x: V, proof: V::Proof) -> V {
    let settled = x.settle(proof);
    // From 2^100 on, 2^28 times the number is infinite, so the difference is NaN. Below, the difference is 0.
    let huge = settled.mul(V::splat(proof, 268_435_456.0));
    settled.short(proof).add(huge.sub(huge))
}

impl Lanes for [f32; LANES] {
    /// Plain Rust needs no proof.
    type Proof = ();

    const QUERIES: usize = 2;
    const LOADS_F16: bool = false;
    const FUSED: bool = false;

    #[inline(always)]
    fn splat((): (), x: f32) -> Self {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load((): (), from: *const f32) -> Self {
        // SAFETY: the caller promises 16 elements to read; the read asks for no alignment.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16((): (), from: *const f16) -> Self {
        // SAFETY: the caller promises 16 elements to read; the read asks for no alignment.
        unsafe { from.cast::<[f16; LANES]>().read_unaligned() }.map(f16_to_f32)
    }

    #[inline(always)]
    unsafe fn load_i8((): (), from: *const i8) -> Self {
        // SAFETY: the caller promises 16 elements to read, all bit patterns of which are valid.
        unsafe { from.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn load_i4((): (), from: *const u8, upper: bool) -> Self {
        let shift = if upper { 0 } else { 4 };
        // SAFETY: the caller promises 16 bytes to read, all bit patterns of which are valid.
        let bytes = unsafe { from.cast::<[u8; LANES]>().read_unaligned() };
        bytes.map(|byte| f32::from((byte << shift) as i8 >> 4))
    }

    #[cfg(any(
        target_arch = "x86_64",
        all(target_arch = "aarch64", target_feature = "neon"),
        target_feature = "simd128"
    ))]
    #[inline(always)]
    unsafe fn load_bf16((): (), from: *const u16) -> Self {
        // SAFETY: the caller promises 16 elements to read; the read asks for no alignment.
        let bits = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        bits.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises room for 16 elements; the write asks for no alignment.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        self.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        self
    }

    #[inline(always)]
    fn sub(mut self, other: Self) -> Self {
        self.iter_mut().zip(other).for_each(|(a, b)| *a -= b);
        self
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        self.iter_mut().zip(other).for_each(|(a, b)| *a *= b);
        self
    }

    #[inline(always)]
    fn settle(self, (): ()) -> Self {
        self.map(crate::num::settle)
    }

    #[inline(always)]
    fn short_of_any(self, (): ()) -> Self {
        self.map(crate::num::short)
    }

    #[inline(always)]
    fn max(mut self, other: Self) -> Self {
        self.iter_mut().zip(other).for_each(|(a, b)| *a = if *a > b { *a } else { b });
        self
    }

    #[inline(always)]
    fn first(mut self, count: usize, others: Self) -> Self {
        self.iter_mut().zip(others).skip(count).for_each(|(a, b)| *a = b);
        self
    }

    #[inline(always)]
    fn weight(self) -> Self {
        self.map(weight)
    }

    #[inline(always)]
    fn tree(self) -> f32 {
        tree16(self)
    }

    #[inline(always)]
    fn prefetch<T>(_address: *const T) {}

    #[inline(always)]
    fn prefetch_later<T>(_address: *const T) {}
}

#[cfg(test)]
mod tests {
    use super::{LANES, short_in_registers};
    use crate::num::short;

    /// Returns numbers of all exponents, numbers at both ends of the range of `short`, infinities and NaNs.
    fn numbers() -> impl Iterator<Item = [f32; LANES]> {
        let edges = [0x2680_0000_u32, 0x7180_0000, 0x7f80_0000].into_iter().flat_map(|edge| edge - 2..edge + 2);
        let spread = (0..0x8000_u32).map(|index| index << 16 | index.wrapping_mul(0x9e37) & 0xffff);
        edges.chain(spread).map(|bits| core::array::from_fn(|lane| f32::from_bits(bits ^ (lane as u32 % 2) << 31)))
    }

    #[test]
    fn registers_are_short_as_numbers_are() {
        // All NaNs count as equal.
        let bits = |x: f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
        for x in numbers() {
            assert_eq!(short_in_registers(x, ()).map(bits), x.map(short).map(bits), "{x:?}");
        }
    }
}
