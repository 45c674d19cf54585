//! The generic kernels, compiled for an instruction set.

/// Defines a function for each generic kernel, with the given lanes and compiled with the given features. `$proof`
/// proves that such a function has the instructions of the lanes.
macro_rules! shims {
    ($lanes:ty: $proof:expr, $($features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn attend(
            queries: &Queries<'_>,
            chunks: Range<usize>,
            source: &dyn KvSource,
            out: &mut Tile<'_, f32>,
            scratch: &mut [f32],
        ) -> Option<()> {
            generic::attend::<$lanes>($proof, queries, chunks, source, out, scratch)
        }

        pub(in crate::kernels) fn attend_scratch(rows: usize, group: usize, head_dim: usize) -> Option<usize> {
            generic::attend_scratch::<$lanes>(rows, group, head_dim)
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn store(
            tile: KvTileMut<'_>,
            slot: usize,
            tokens: &[[&[f32]; 2]],
        ) -> Result<(), crate::error::Fault> {
            generic::store(tile, slot, tokens)
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn norm(how: &Norm<'_>, x: &[f32], out: &mut [f32]) {
            generic::norm(how, x, out);
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn norm_in_place(how: &Norm<'_>, x: &mut [f32]) {
            generic::norm_in_place(how, x);
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn combine_tile(
            how: Combine,
            tile: &mut Tile<'_, f32>,
            cols: core::ops::Range<usize>,
            outputs: &[f32],
        ) -> Option<()> {
            generic::combine_tile(how, tile, cols, outputs)
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn convolve(
            how: &generic::Convolution<'_>,
            tail: &mut [f32],
            x: &mut [f32],
        ) -> Option<()> {
            generic::convolve(how, tail, x)
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn update_state(
            update: &generic::Update<'_>,
            state: &mut [f32],
            out: &mut [f32],
        ) -> Option<()> {
            generic::update_state(update, state, out)
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn settle_row(x: &[f32], out: &mut [f32]) {
            generic::settle_row(x, out);
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn normalize(x: &[f32], scale: f32, out: &mut [f32]) {
            generic::normalize(x, scale, out);
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn gate(gate: &[f32], x: &mut [f32]) {
            generic::gate(gate, x);
        }

        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn soft_cap(cap: f32, x: &mut [f32]) {
            generic::soft_cap(cap, x);
        }
    };
}

/// Defines the function that quantizes activations, compiled with the given features.
macro_rules! quantize_shim {
    ($($features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn quantize_row(form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
            generic::quantize_row(form, x, words)
        }
    };
}

pub(super) use quantize_shim;
pub(super) use shims;
