//! AArch64: NEON, and the dot products and matrix products of bytes of the processors that have them.

pub(super) mod dotprod;
mod dotprod_row;
pub(super) mod i8mm;
mod lanes;
pub(super) mod neon;
mod panels;
mod sweeps;

/// Returns whether vectors lie in memory as the numbers of the formats do: in little-endian order.
pub(super) fn has_neon() -> bool {
    cfg!(target_endian = "little")
}

/// Returns whether the machine has NEON and the dot product of bytes. Without std, the dot product counts only if the
/// program is compiled for it.
pub(super) fn has_dotprod() -> bool {
    #[cfg(feature = "std")]
    let detected = std::arch::is_aarch64_feature_detected!("dotprod");
    #[cfg(not(feature = "std"))]
    let detected = false;
    has_neon() && (cfg!(target_feature = "dotprod") || detected)
}

/// Returns whether the machine has the matrix product of bytes and the dot product, which every processor with the
/// matrix product has.
pub(super) fn has_i8mm() -> bool {
    #[cfg(feature = "std")]
    let detected = std::arch::is_aarch64_feature_detected!("i8mm");
    #[cfg(not(feature = "std"))]
    let detected = false;
    has_dotprod() && (cfg!(target_feature = "i8mm") || detected)
}
