//! The generic kernels as they are: the specification.

use core::ops::Range;

use super::generic::{self, Combine, KvSource, KvTileMut, LANES, Norm, Queries};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};

pub(super) use generic::products;

super::shims::shims!([f32; LANES]: (),);
super::shims::quantize_shim!();
