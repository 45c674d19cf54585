//! Numbers of activation functions that differ between layers.

use gguf_rs_lite::{Name, Value};

use super::error::ModelError;
use super::files::Files;
use crate::num::{Xielu, is_finite, settle, softplus};

/// Returns the numbers of xIELU in a layer. The file has them before softplus, which is applied here.
pub(crate) fn xielu(files: &Files<'_>, layer: usize) -> Result<Xielu, ModelError> {
    let number = |name: &'static str| {
        let key = Name::new(name.as_bytes());
        let value = match files.first().get(name).ok_or(ModelError::MissingKey { key })? {
            Value::Array(values) => values.get(layer).and_then(|value| value.as_f32()),
            value => value.as_f32(),
        };
        value.filter(|&x| is_finite(x) && (-LARGEST..=LARGEST).contains(&x)).ok_or(ModelError::BadValue { key })
    };
    let linear = settle(number("xielu.beta")?);
    Ok(Xielu {
        linear,
        positive: softplus(number("xielu.alpha_p")?),
        negative: settle(linear + softplus(number("xielu.alpha_n")?)),
        largest: settle(number("xielu.eps")?),
    })
}

/// Limit of the numbers. Products with larger numbers could become too large.
const LARGEST: f32 = 65_536.0;
