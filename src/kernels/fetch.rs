//! In which order weights are fetched into the caches ahead of time.

/// The order in which the weights that are needed next are fetched into the caches. It changes the speed and no bits.
///
/// Kernels read several rows of weights at once, the same block of each, and fetch what comes after these rows. Some
/// kernels of `avx512`, and those of floats, always fetch it as it lies in memory. For most of them the order says into
/// which cache: `Memory` into the first, and some of what lies further on into the second; `Rows` into the second. One
/// row of Q1_0 and Q2_0 always takes the first, panels always the second. One row of Q4_K and Q5_K takes such a kernel
/// in the order `Memory` only.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FetchOrder {
    /// As they are read: the same block of each row.
    #[default]
    Rows,
    /// As they lie in memory, each line once.
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
