//! The kernel of products of a level whose vectors multiply quads of bytes, for all formats that it has.

/// The products of a type of weights: `blocks` for its format, or what float types have. Names the types `Of32` and
/// `Of256` of where it is used.
macro_rules! by_format {
    ($weights:ident, $inputs:ident, $out:ident, $floats:expr) => {{
        use crate::quant::{iq4_nl, iq4_xs, q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0};
        let done = crate::quant::by_dtype!($weights.dtype(), {
            F32 | F16 | BF16 => $floats,
            Q8_0 => blocks::<Of32<q8_0::Block>>($weights, $inputs, $out),
            Q4_0 => blocks::<Of32<q4_0::Block>>($weights, $inputs, $out),
            Q4_1 => blocks::<Of32<q4_1::Block>>($weights, $inputs, $out),
            Q5_0 => blocks::<Of32<q5_0::Block>>($weights, $inputs, $out),
            Q5_1 => blocks::<Of32<q5_1::Block>>($weights, $inputs, $out),
            IQ4_NL => blocks::<Of32<iq4_nl::Block>>($weights, $inputs, $out),
            Q2_K => blocks::<Of256<q2_k::Block, 16>>($weights, $inputs, $out),
            Q3_K => blocks::<Of256<q3_k::Block, 16>>($weights, $inputs, $out),
            Q4_K => blocks::<Of256<q4_k::Block, 8>>($weights, $inputs, $out),
            Q5_K => blocks::<Of256<q5_k::Block, 8>>($weights, $inputs, $out),
            Q6_K => blocks::<Of256<q6_k::Block, 16>>($weights, $inputs, $out),
            IQ4_XS => blocks::<Of256<iq4_xs::Block, 8>>($weights, $inputs, $out),
            _ => return Err(generic::Refused::NoKernel),
        });
        done.ok_or(generic::Refused::Sizes)
    }};
}

/// Defines `products` for a level with these lanes and features, and what proves that a function with the features has
/// the instructions.
macro_rules! level_products {
    ($lanes:ty: $lanes_proof:expr, $quad:ty: $proof:expr, $($features:literal)?) => {
        type Of32<B> = generic::Of32<$quad, B>;
        type Of256<B, const SUBS: usize> = generic::Of256<$quad, B, SUBS>;

        /// See [`Level::products`](crate::kernels::Level::products).
        $(#[target_feature(enable = $features)])?
        pub(in crate::kernels) fn products(
            weights: TensorView<'_>,
            inputs: &Inputs<'_>,
            out: &mut [f32],
            _scratch: &mut [f32],
        ) -> Result<(), generic::Refused> {
            generic::by_format!(
                weights,
                inputs,
                out,
                generic::float_products::<$lanes>($lanes_proof, weights, inputs, out)
            )
        }

        pub(in crate::kernels) fn products_scratch(_form: crate::quant::Form) -> usize {
            0
        }

        // A function for each format, so that a profile tells them apart.
        #[inline(never)]
        $(#[target_feature(enable = $features)])?
        fn blocks<F: Family<4, Proof = <$quad as Quad>::Proof>>(
            weights: TensorView<'_>,
            inputs: &Inputs<'_>,
            out: &mut [f32],
        ) -> Option<()> {
            generic::block_products::<F, _>($proof, weights, inputs, out)
        }
    };
}

pub(in crate::kernels) use by_format;
pub(in crate::kernels) use level_products;
