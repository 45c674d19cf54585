//! The order in which weights are fetched into the caches ahead of time.

/// The order in which the weights that are needed next are fetched into the caches. It changes the speed and no bits.
///
/// Kernels read several rows of weights at once, the same block of each, and fetch the weights after these rows.
///
/// Some kernels of `avx512`, and the kernels of float weights, always fetch as the weights lie in memory. For most of
/// them the order decides the cache: `Memory` fetches into the first-level cache, and some weights further on into the
/// second. `Rows` fetches into the second. The kernels for one row of activations with Q1_0 and Q2_0 always fetch into
/// the first, panels always into the second. For one row with Q4_K and Q5_K such a kernel is used with `Memory` only.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FetchOrder {
    /// The same block of each row, as kernels read them.
    #[default]
    Rows,
    /// The order of memory, each cache line once.
    Memory,
}

impl FetchOrder {
    /// Returns the order that suits this processor.
    ///
    /// `Memory` is 1.3 to 1.5 times as fast as `Rows` in decoding with 4-bit weights on an AMD Zen 5, and 0.7 to 1.0
    /// times on an Intel Emerald Rapids (`docs/performance/kernels.md`).
    #[inline]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if super::x86_64::is_amd() {
            return Self::Memory;
        }
        Self::Rows
    }
}
