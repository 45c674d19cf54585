//! Errors of GPUs.

use std::fmt;
use std::time::Duration;

/// Why a GPU cannot be used, or cannot be used any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no adapter of this kind. `found` lists the adapters that exist.
    NoAdapter {
        /// Names of the adapters that exist, with their interfaces.
        found: Vec<String>,
    },
    /// The driver gives no device.
    NoDevice(String),
    /// A result of the device differs from the scalar code.
    Unfit {
        /// Name of the operation.
        operation: &'static str,
    },
    /// The model needs something that does not run on a GPU.
    Unsupported {
        /// What does not run.
        what: &'static str,
    },
    /// A buffer is larger than the device allows.
    TooLarge {
        /// What the buffer is for.
        what: &'static str,
        /// Bytes of the buffer.
        bytes: u64,
        /// Largest number of bytes that the device allows.
        most: u64,
    },
    /// The device has no memory for a buffer.
    OutOfMemory {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// The driver refused a call.
    Refused(String),
    /// The device is lost: what was in its memory is gone.
    Lost(String),
    /// The device did not finish in time.
    Timeout(Duration),
    /// Buffers and numbers do not fit together.
    Mismatch(&'static str),
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAdapter { found } if found.is_empty() => write!(f, "there is no GPU"),
            Self::NoAdapter { found } => write!(f, "there is no such GPU; there are: {}", found.join(", ")),
            Self::NoDevice(why) => write!(f, "the driver gives no device: {why}"),
            Self::Unfit { operation } => write!(f, "the device computes other bits: {operation}"),
            Self::Unsupported { what } => write!(f, "this does not run on a GPU: {what}"),
            Self::TooLarge { what, bytes, most } => write!(f, "{what}: {bytes} bytes, and {most} are the most"),
            Self::OutOfMemory { bytes } => write!(f, "the device has no memory for {bytes} bytes"),
            Self::Refused(why) => write!(f, "the driver refused a call: {why}"),
            Self::Lost(why) => write!(f, "the device is lost: {why}"),
            Self::Timeout(time) => write!(f, "the device did not finish in {time:?}"),
            Self::Mismatch(what) => write!(f, "sizes do not fit: {what}"),
        }
    }
}

impl std::error::Error for GpuError {}
