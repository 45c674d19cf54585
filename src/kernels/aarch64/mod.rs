//! AArch64: NEON, and its dot product of bytes where there is one.

pub(super) mod dotprod;
mod lanes;
pub(super) mod neon;

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
