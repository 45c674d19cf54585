//! The `products` kernel of a level whose vectors multiply quads of bytes, for all formats of the level.

/// Computes the products for a type of weights: `blocks` for a block format, `$floats` for float types, and `$nvfp4`
/// for NVFP4, whose parts have 16 elements. The macro uses the types `Of32` and `Of256` of the module that calls it.
macro_rules! by_format {
    ($weights:ident, $inputs:ident, $out:ident, $floats:expr, $nvfp4:expr) => {{
        use crate::quant::{
            iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, iq4_xs, mxfp4, q1_0, q2_0, q2_k, q3_k, q4_0,
            q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0, tq1_0, tq2_0,
        };
        let done = crate::quant::by_dtype!($weights.dtype(), {
            F32 | F16 | BF16 => $floats,
            Q8_0 => blocks::<Of32<q8_0::Block, 1>>($weights, $inputs, $out),
            Q4_0 => blocks::<Of32<q4_0::Block, 1>>($weights, $inputs, $out),
            Q4_1 => blocks::<Of32<q4_1::Block, 1>>($weights, $inputs, $out),
            Q5_0 => blocks::<Of32<q5_0::Block, 1>>($weights, $inputs, $out),
            Q5_1 => blocks::<Of32<q5_1::Block, 1>>($weights, $inputs, $out),
            IQ4_NL => blocks::<Of32<iq4_nl::Block, 1>>($weights, $inputs, $out),
            Q2_K => blocks::<Of256<q2_k::Block, 16>>($weights, $inputs, $out),
            Q3_K => blocks::<Of256<q3_k::Block, 16>>($weights, $inputs, $out),
            Q4_K => blocks::<Of256<q4_k::Block, 8>>($weights, $inputs, $out),
            Q5_K => blocks::<Of256<q5_k::Block, 8>>($weights, $inputs, $out),
            Q6_K => blocks::<Of256<q6_k::Block, 16>>($weights, $inputs, $out),
            IQ4_XS => blocks::<Of256<iq4_xs::Block, 8>>($weights, $inputs, $out),
            IQ2_XXS => blocks::<Of256<iq2_xxs::Block, 8>>($weights, $inputs, $out),
            IQ2_XS => blocks::<Of256<iq2_xs::Block, 16>>($weights, $inputs, $out),
            IQ2_S => blocks::<Of256<iq2_s::Block, 16>>($weights, $inputs, $out),
            IQ3_XXS => blocks::<Of256<iq3_xxs::Block, 8>>($weights, $inputs, $out),
            IQ3_S => blocks::<Of256<iq3_s::Block, 8>>($weights, $inputs, $out),
            IQ1_S => blocks::<Of256<iq1_s::Block, 8>>($weights, $inputs, $out),
            IQ1_M => blocks::<Of256<iq1_m::Block, 16>>($weights, $inputs, $out),
            TQ1_0 => blocks::<Of256<tq1_0::Block, 8>>($weights, $inputs, $out),
            TQ2_0 => blocks::<Of256<tq2_0::Block, 8>>($weights, $inputs, $out),
            MXFP4 => blocks::<Of32<mxfp4::Block, 1>>($weights, $inputs, $out),
            NVFP4 => $nvfp4,
            Q1_0 => blocks::<Of32<q1_0::Block, 4>>($weights, $inputs, $out),
            Q2_0 => blocks::<Of32<q2_0::Block, 2>>($weights, $inputs, $out),
            _ => return Err(generic::Refused::NoKernel),
        });
        done.ok_or(generic::Refused::Sizes)
    }};
}

/// Defines `products` for a level with these lanes, quads and features. The two proofs show that a function with the
/// features has the instructions.
macro_rules! level_products {
    ($lanes:ty: $lanes_proof:expr, $quad:ty: $proof:expr, $($features:literal)?) => {
        type Of32<B, const PARTS: usize> = generic::OfParts<$quad, B, 32, PARTS>;
        type Of16<B, const PARTS: usize> = generic::OfParts<$quad, B, 16, PARTS>;
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
                generic::float_products::<$lanes>($lanes_proof, weights, inputs, out),
                blocks::<Of16<crate::quant::nvfp4::Block, 4>>(weights, inputs, out)
            )
        }

        pub(in crate::kernels) fn products_scratch(_form: crate::quant::Form) -> usize {
            0
        }

        // One function per format, so that a profile tells the formats apart.
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
