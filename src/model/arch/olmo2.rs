//! OLMo 2: norms at the end of the branches and not before them, and over all heads of Q and of K.

use super::{Architecture, DECODER, QkNorm};

pub(super) const OLMO2: Architecture =
    Architecture { name: "olmo2", norm_before: false, norm_after: true, qk_norm: QkNorm::Row, ..DECODER };
