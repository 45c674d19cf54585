//! Names of the tensors of layers.

use core::fmt::Write;

use super::config::Config;

/// Returns the layer and the suffix of a name `blk.N.suffix`.
pub(super) fn layer_and_suffix(name: &str) -> Option<(usize, &str)> {
    let (layer, suffix) = name.strip_prefix("blk.")?.split_once('.')?;
    // Only the form that writers use is accepted: no sign, no leading zeros.
    let plain = layer == "0" || layer.bytes().next().is_some_and(|digit| digit.is_ascii_digit() && digit != b'0');
    Some((layer.parse().ok().filter(|_| plain)?, suffix))
}

/// Returns the layer in the model, and the suffix of the name. `None` if the model has no such layer.
pub(super) fn layer_in<'n>(name: &'n str, config: &Config) -> Option<(usize, &'n str)> {
    let (layer, suffix) = layer_and_suffix(name)?;
    let layer = layer.checked_sub(config.first_layer.into()).filter(|&layer| layer < config.layers)?;
    Some((layer, suffix))
}

/// Returns the name of a layer's tensor.
pub(super) fn layer_name(layer: usize, suffix: &str) -> heapless::String<64> {
    let mut name = heapless::String::new();
    // This fits: a layer's number has at most three digits (`MAX_LAYERS`), and the suffixes are those of the table.
    let _ = write!(name, "blk.{layer}.{suffix}");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_are_taken_apart() {
        assert_eq!(layer_and_suffix("blk.12.attn_q.weight"), Some((12, "attn_q.weight")));
        assert_eq!(layer_and_suffix(&layer_name(0, "ffn_up.weight")), Some((0, "ffn_up.weight")));
        for name in ["blk.01.x", "blk.+1.x", "blk..x", "blk.1", "blk.99999999999999999999.x", "output.weight"] {
            assert_eq!(layer_and_suffix(name), None, "{name}");
        }
    }
}
