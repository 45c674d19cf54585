//! The sizes of a layer, and the layers that have keys and values.

use super::config::Config;
use crate::device::KvLayer;
use crate::kv::{KvShape, LayerGroups, LayerSet};

/// The sizes of a layer.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerShape {
    /// Number of query heads.
    pub heads: usize,
    /// Shape of the keys and values that the layer reads.
    pub kv: KvShape,
    /// Whether these keys and values belong to the layer.
    pub has_kv: bool,
    /// Whether the values of the layer are its keys.
    pub keys_as_values: bool,
    /// Gates of attention's result.
    pub gates: HeadGates,
    /// Width of the feed-forward layer.
    pub ffn: usize,
}

/// Gates by which the results of attention's heads are multiplied: sigmoids of products with the input of attention.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadGates {
    /// No gates.
    None,
    /// One gate for each element. The matrix of queries has twice the rows: after the rows of each head come the rows
    /// of its gates.
    Elements,
    /// One gate for each element, from a matrix of gates.
    OwnElements,
    /// One gate for each head, from a matrix with one row for each head.
    Heads,
}

impl LayerShape {
    /// Returns the number of elements of Q per row.
    pub fn q_width(&self) -> usize {
        self.heads * self.kv.head_dim
    }

    /// Returns the number of rows of the matrix of queries, with those of gates if they are in this matrix.
    pub(crate) fn q_rows(&self) -> usize {
        if self.gates == HeadGates::Elements { 2 * self.q_width() } else { self.q_width() }
    }

    /// Returns the number of elements of K (and of V) per row, or 0 if the layer reads those of another layer.
    pub fn kv_width(&self) -> usize {
        if self.has_kv { self.kv.width() } else { 0 }
    }

    /// Returns the number of elements of Q, K and V per row.
    pub fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }

    /// Returns the number of query heads per KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv.heads.max(1)
    }

    /// Returns the number of elements of Q, K, V and the gates per row.
    pub(crate) fn heads_width(&self) -> usize {
        self.qkv_width() + self.gates_width()
    }

    /// Returns the number of elements of the gates per row.
    pub(crate) fn gates_width(&self) -> usize {
        match self.gates {
            HeadGates::None => 0,
            HeadGates::Elements | HeadGates::OwnElements => self.q_width(),
            HeadGates::Heads => self.heads,
        }
    }
}

impl Config {
    /// Returns the sizes of a layer.
    pub fn layer(&self, layer: usize) -> LayerShape {
        let other = self.feed_forward.other_layers.contains(layer);
        LayerShape {
            heads: self.heads,
            kv: self.kv_shapes.get(self.layer_groups.group(layer)).copied().unwrap_or_default(),
            has_kv: self.has_kv(layer),
            keys_as_values: self.attention.keys_as_values.contains(layer),
            gates: self.attention.gates,
            ffn: if other { self.feed_forward.other_width } else { self.ffn },
        }
    }

    /// Returns the sizes of a layer for each shape of keys and values. A model may have no layer with some of these
    /// sizes.
    pub(crate) fn layer_shapes(&self) -> impl Iterator<Item = LayerShape> {
        let of = |kv| LayerShape { kv, has_kv: true, ..self.layer(0) };
        let widest = self.ffn.max(self.feed_forward.other_width);
        self.kv_shapes.map(of).into_iter().map(move |shape| LayerShape { ffn: widest, ..shape })
    }

    /// Returns the number of layers that have keys and values.
    pub fn kv_layers(&self) -> usize {
        self.kv_before(self.layers)
    }

    /// Returns whether a layer has keys and values of its own.
    pub fn has_kv(&self, layer: usize) -> bool {
        self.attention_layers.contains(layer) && layer < self.layers.saturating_sub(self.shared_kv)
    }

    /// Returns the layer whose keys and values a layer reads, as its index among the layers with keys and values.
    /// `None` if there is no such layer.
    pub(crate) fn kv_layer(&self, layer: usize) -> Option<usize> {
        let group = self.layer_groups.group(layer);
        let readable = |&layer: &usize| self.has_kv(layer) && self.layer_groups.group(layer) == group;
        Some(self.kv_before((0..=layer).rev().find(readable)?))
    }

    /// Returns the layer whose keys and values a layer reads, as its index in the pools.
    pub(crate) fn kv_place(&self, layer: usize) -> Option<KvLayer> {
        let (group, layer) = self.kv_groups().place(self.kv_layer(layer)?);
        Some(KvLayer { group, layer })
    }

    /// Returns the groups of the layers with keys and values. Only these layers are counted.
    pub(crate) fn kv_groups(&self) -> LayerGroups {
        if self.kv_layers() == self.layers {
            return self.layer_groups;
        }
        let mut layers = (0..self.layers).filter(|&layer| self.has_kv(layer));
        let in_second = |_| layers.next().is_some_and(|layer| self.layer_groups.group(layer) == 1);
        LayerGroups::with_second(LayerSet::of(self.kv_layers(), in_second))
    }

    /// Returns the last layer that keeps keys and values or a state of each row. Later operations run only for rows
    /// whose results are needed.
    pub(crate) fn last_keeping(&self) -> usize {
        let keeps = |&layer: &usize| self.has_kv(layer) || self.recurrent.layers.contains(layer);
        (0..self.layers).rev().find(keeps).unwrap_or(0)
    }

    fn kv_before(&self, layer: usize) -> usize {
        self.attention_layers.before(layer.min(self.layers.saturating_sub(self.shared_kv)))
    }
}
