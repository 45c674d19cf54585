//! Sizes and tensors that differ from layer to layer.

use super::super::gguf_writer::Meta;
use super::{Architecture, SyntheticModel};

/// Sizes of a layer.
#[derive(Clone, Copy, Debug)]
pub struct LayerShape {
    pub kv_heads: usize,
    pub head_dim: usize,
    pub ffn: usize,
}

impl SyntheticModel {
    /// Returns whether a layer has no window and heads of another size than the other layers.
    pub fn is_full(&self, layer: usize) -> bool {
        self.architecture == Architecture::Gemma4 && layer % 3 == 1
    }

    /// Returns the number of layers at the end that read keys and values of earlier layers: half of them, but at least
    /// two layers have their own.
    pub fn shared_kv(&self) -> usize {
        let own = self.layers.div_ceil(2).max(2).min(self.layers);
        if self.list().contains(":own") { self.layers - own } else { 0 }
    }

    pub fn layer_shape(&self, layer: usize) -> LayerShape {
        let shape = if self.is_full(layer) {
            self.full_shape()
        } else {
            LayerShape { kv_heads: self.kv_heads, head_dim: self.head_dim, ffn: self.dense_ffn() }
        };
        let shares = layer >= self.layers - self.shared_kv();
        LayerShape { ffn: if shares { 2 * shape.ffn } else { shape.ffn }, ..shape }
    }

    /// Returns the sizes of the layers without a window, whose heads are half as long again.
    pub(super) fn full_shape(&self) -> LayerShape {
        let values = !self.list().contains("attn_v:local");
        LayerShape {
            kv_heads: if values { self.kv_heads } else { 1 },
            head_dim: (self.head_dim * 3 / 2).next_multiple_of(2),
            ffn: self.dense_ffn(),
        }
    }

    /// Returns the number of elements that every layer gets of each token beside the residual stream.
    pub(super) fn per_layer(&self) -> usize {
        if self.list().contains("inp_gate") { self.hidden / 2 } else { 0 }
    }

    /// Returns an item of a list of tensors without its suffix for layers, or `None` if this layer or model has no such
    /// tensor.
    pub(super) fn item_in<'a>(&self, layer: usize, item: &'a str) -> Option<&'a str> {
        let (there, item) = if let Some(item) = item.strip_suffix(":local") {
            (!self.is_full(layer), item)
        } else if let Some(item) = item.strip_suffix(":own") {
            (layer < self.layers - self.shared_kv(), item)
        } else {
            (!item.starts_with("per_layer_") || self.per_layer() > 0, item)
        };
        there.then_some(item)
    }

    /// Sets the keys of sizes that are 0 in layers without the tensor.
    pub(super) fn sizes_where_present(&self, set: &mut impl FnMut(&str, Meta)) {
        let sizes = |size: usize, tensor: &str| -> Vec<u32> {
            let is_it = |item: &str| item == tensor || item.strip_suffix("_exps") == Some(tensor);
            let has = |layer| self.list_of(layer).split_whitespace().any(is_it);
            (0..self.layers).map(|layer| if has(layer) { size as u32 } else { 0 }).collect()
        };
        use Architecture::{GraniteHybrid, Lfm2, Lfm2Moe, NemotronH, NemotronHMoe};
        if matches!(self.architecture, Lfm2 | Lfm2Moe | GraniteHybrid | NemotronH | NemotronHMoe) {
            set("attention.head_count_kv", sizes(self.kv_heads, "attn_k").into());
        }
        if matches!(self.architecture, NemotronH | NemotronHMoe) {
            set("feed_forward_length", sizes(self.ffn, "ffn_up").into());
        }
    }

    /// Returns the list of the tensors of a layer.
    pub(super) fn list_of(&self, layer: usize) -> &'static str {
        let form = self.architecture.form();
        let first = form.first.filter(|_| layer == 0);
        let other = form.others.get(layer % self.architecture.turn()).copied();
        self.layer.or(first).or(other).unwrap_or(form.layer)
    }

    /// Sets the keys of sizes that differ from layer to layer.
    pub(super) fn sizes_of_layers(&self, set: &mut impl FnMut(&str, Meta)) {
        let full = self.full_shape();
        let of_layers = |size: fn(LayerShape) -> usize| -> Vec<u32> {
            (0..self.layers).map(|layer| size(self.layer_shape(layer)) as u32).collect()
        };
        set("feed_forward_length", of_layers(|shape| shape.ffn).into());
        set("attention.head_count_kv", of_layers(|shape| shape.kv_heads).into());
        for (name, full, local) in [
            ("attention.key_length", full.head_dim, self.head_dim),
            ("attention.value_length", full.head_dim, self.head_dim),
            ("rope.dimension_count", full.head_dim, self.rope_dims()),
        ] {
            set(name, (full as u32).into());
            set(&format!("{name}_swa"), (local as u32).into());
        }
        let sliding: Vec<bool> = (0..self.layers).map(|layer| !self.is_full(layer)).collect();
        set("attention.sliding_window_pattern", sliding.into());
        set("attention.shared_kv_layers", (self.shared_kv() as u32).into());
        set("embedding_length_per_layer_input", (self.per_layer() as u32).into());
    }

    /// Returns the width of a feed-forward part that is no expert. Beside experts it differs from theirs.
    fn dense_ffn(&self) -> usize {
        if self.list().contains("post_ffw_norm_1") { 2 * self.ffn } else { self.ffn }
    }

    fn list(&self) -> &'static str {
        self.layer.unwrap_or(self.architecture.form().layer)
    }
}
