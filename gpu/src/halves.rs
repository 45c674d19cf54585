//! Whether a device converts f16 as the arithmetic says. A device that flushes subnormal f16 numbers does not.

use bytemuck::cast_slice_mut;
use gleed::num::f16_to_f32;
use half::f16;

use crate::error::GpuError;
use crate::hardware::Hardware;
use crate::params::SLOT;
use crate::shader::{NATIVE_HALVES, composed};

const HALVES: u32 = 1 << 16;

/// Lets the device convert all f16 numbers, and returns whether its results are those of the scalar code. Any NaN
/// counts as right, because a batch with a NaN fails.
///
/// # Errors
/// As [`Hardware::read`] and [`Hardware::pipeline`].
pub(crate) async fn are_native(hardware: &Hardware) -> Result<bool, GpuError> {
    let source = composed("probe.wgsl", &[NATIVE_HALVES]).ok_or(GpuError::Mismatch("a source of a kernel"))?;
    let pipeline = hardware.pipeline_async(&source).await?;
    let params = hardware.buffer_async("parameters", SLOT as u64).await?;
    let out = hardware.buffer_async("halves", 4 * u64::from(HALVES)).await?;
    let run = hardware.bind(&pipeline, (&params, 0, SLOT as u64), &[&out])?;
    hardware.submit([(&run, [HALVES / 64, 1, 1])])?;
    let mut words = vec![0_u32; HALVES as usize];
    hardware.read_async(&out, 0, cast_slice_mut(&mut words)).await?;
    let is_right = |(half, word): (u32, u32)| {
        let (want, got) = (f16_to_f32(f16::from_bits(half as u16)), f32::from_bits(word));
        want.to_bits() == word || (want.is_nan() && got.is_nan())
    };
    Ok((0..HALVES).zip(words).all(is_right))
}
