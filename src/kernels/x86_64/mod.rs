//! x86-64.

mod ahead;
pub(super) mod amx;
pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod avxvnni;
#[cfg(test)]
mod counted;
mod detect;

pub(super) use ahead::fetch;
pub(super) use detect::{allow_amx, has_amx, has_avx2, has_avx512, has_avxvnni, is_amd};
