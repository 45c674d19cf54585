//! AArch64: NEON, and its dot product and product of matrices of bytes where there are any.

pub(super) mod dotprod;
mod dotprod_row;
pub(super) mod i8mm;
mod lanes;
pub(super) mod neon;
mod panels;
mod sweeps;

/// Whether vectors lie in memory as the formats' numbers do: in little-endian order.
pub(super) fn has_neon() -> bool {
    cfg!(target_endian = "little")
}

/// The dot product of bytes beside NEON. Without std only what the program is compiled for is known.
pub(super) fn has_dotprod() -> bool {
    #[cfg(feature = "std")]
    let detected = std::arch::is_aarch64_feature_detected!("dotprod");
    #[cfg(not(feature = "std"))]
    let detected = false;
    has_neon() && (cfg!(target_feature = "dotprod") || detected)
}

/// The product of matrices of bytes beside the dot product, which every processor with it has.
pub(super) fn has_i8mm() -> bool {
    #[cfg(feature = "std")]
    let detected = std::arch::is_aarch64_feature_detected!("i8mm");
    #[cfg(not(feature = "std"))]
    let detected = false;
    has_dotprod() && (cfg!(target_feature = "i8mm") || detected)
}
