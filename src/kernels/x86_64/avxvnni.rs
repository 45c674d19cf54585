//! AVX2, FMA, F16C and AVX-VNNI: 256-bit registers and the dot product of bytes, on processors without AVX-512.

use super::avx2::{
    AvxVnni, Blocks32, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Job, Mxfp4, Nvfp4, Q1_0, Q2_0, Q2K,
    Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Tq1_0, Tq2_0, blocks_256, by_row, float_products, halves,
    products_32,
};

use crate::kernels::generic::{Inputs, Refused};
use crate::tensor::TensorView;

// Only products use the dot product of bytes. All other kernels are those of AVX2.
pub(in crate::kernels) use super::avx2::{
    attend, attend_scratch, combine_tile, convolve, gate, norm, norm_in_place, normalize, products_scratch,
    quantize_row, settle_row, soft_cap, store, update_state,
};

super::avx2::level_products!("avx2,fma,f16c,avxvnni", AvxVnni);
