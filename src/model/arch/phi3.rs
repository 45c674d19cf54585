//! Phi-3 and 4: fused matrices, and divisors of the frequencies for short and for long sequences.

use super::{Architecture, DECODER};

pub(super) const PHI3: Architecture = Architecture { name: "phi3", ..DECODER };
