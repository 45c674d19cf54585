//! Norms and rotation of heads, keys and values, attention.

use bytemuck::{Pod, Zeroable};
use gleed::device::{AttendView, GatesView, HeadNormView, KvLayer, NormRotateView, StoreView};
use gleed::kernels::NormKind;
use gleed::nn::RopePairs;

use super::{Lowering, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::params::{Attend, NONE, Scores, Shape, Store, head_norms};
use crate::place::{Activations, Place, Shaped};
use crate::selftest::{ELEMENTS, scores};

impl<'m> Lowering<'m> {
    pub(super) fn store(&mut self, view: &StoreView) -> Result<(), GpuError> {
        // A layer that reads keys and values of another layer prepares its queries in `attend`, which knows that layer.
        view.to.map_or(Ok(()), |to| self.store_heads(to, view.heads))
    }

    /// Emits norms and rotation of heads. Keys and values, if the heads have some, go to a layer of a pool with
    /// `kv_heads` KV heads.
    fn store_heads(&mut self, to: KvLayer, kv_heads: usize) -> Result<(), GpuError> {
        let Some(heads) = self.heads.take() else { return refused("attention without queries") };
        let norms = self.head_norms(&heads)?;
        let (shape, pool) = self.shape(to.group, to.layer, heads.heads, kv_heads, heads.head_dim)?;
        let params = Store {
            zero: 0,
            q_norm: norms.weights[0],
            k_norm: norms.weights[1],
            turned: heads.rotation.len() as u32,
            halves: u32::from(heads.pairs == RopePairs::Halves),
            rotation_stride: self.angles as u32,
            rotation_at: heads.rotation.start as u32,
            epsilon: norms.epsilon,
            norms: norms.which,
            flag: self.flag,
            clamp: if heads.clamp > 0.0 { heads.clamp.to_bits() } else { 0 },
            q_bias: norms.biases[0],
            k_bias: norms.biases[1],
            temperature: self.temperature(&heads)?,
            unused: [0; 2],
            shape,
            // `attend` sets them.
            scores: Scores::zeroed(),
        };
        let buffers =
            [Place::Batch, Place::Table(to.group), Place::Heads, Place::Angles, Place::Vectors, pool, Place::Flags];
        self.emit(Kernel::Store, &params, &buffers, Shaped::ByChunk(heads.heads + 2 * heads.kv_heads));
        Ok(())
    }

    pub(super) fn attend(&mut self, view: &AttendView) -> Result<(), GpuError> {
        if !view.visibility.is_causal() {
            return refused("attention to later tokens");
        }
        if self.heads.is_some() {
            self.store_heads(view.from, view.kv_heads)?;
        }
        let slopes = view.slopes.iter().flat_map(|slopes| (0..view.heads).map(move |head| slopes.get(head)));
        let slopes: Vec<u8> = slopes.flat_map(f32::to_le_bytes).collect();
        let width = view.heads * view.head_dim;
        self.widen(Place::Attention, width);
        let (shape, pool) = self.shape(view.from.group, view.from.layer, view.heads, view.kv_heads, view.head_dim)?;
        let (group, activations) = (view.from.group, Activations::Attention);
        let scores = Scores {
            slopes: self.vectors.add(&slopes).unwrap_or(NONE),
            queries: self.layout.queries as u32,
            parts: self.layout.parts as u32,
            chunks: self.layout.chunks as u32,
            ..scores(view.visibility, view.scale, view.soft_cap)
        };
        self.patch(Kernel::Store, "attention without keys", |store| Store { shape, scores, ..store })?;
        let params = Attend {
            zero: 0,
            out_stride: width as u32,
            largest: self.largest.words(activations) as u32,
            sink_scores: NONE,
            gates: 0,
            gated: 1,
            unused: [0; 2],
            shape,
            scores,
        };
        let buffers = [
            Place::Batch,
            Place::Table(group),
            Place::Heads,
            pool,
            activations.place(),
            Place::Largest(activations),
            Place::Vectors,
        ];
        self.emit(Kernel::Attend, &params, &buffers, Shaped::Attention([view.heads, view.kv_heads, view.head_dim]));
        self.attention_waits = true;
        Ok(())
    }

    /// Adds gates to the last attention.
    pub(super) fn add_gates(&mut self, gates: &GatesView) -> Result<(), GpuError> {
        self.patch(Kernel::Attend, "gates without attention", |attend: Attend| Attend {
            gates: gates.first as u32,
            gated: if gates.per_head { attend.shape.dim } else { 1 },
            ..attend
        })
    }

    /// Adds sink scores, `[heads]`, to the last attention.
    pub(super) fn add_sinks(&mut self, sinks: &[u8]) -> Result<(), GpuError> {
        let Some(at) = self.vectors.add(sinks) else { return Ok(()) };
        self.patch(Kernel::Attend, "sink scores without attention", |attend| Attend { sink_scores: at, ..attend })
    }

    /// Changes the parameters of the last dispatch of a kernel.
    pub(super) fn patch<T: Pod>(
        &mut self,
        kernel: Kernel,
        what: &'static str,
        change: impl FnOnce(T) -> T,
    ) -> Result<(), GpuError> {
        let last = self.dispatches.iter_mut().rfind(|dispatch| dispatch.kernel == kernel);
        let Some(slot) = last.and_then(|dispatch| dispatch.params.get_mut(..size_of::<T>())) else {
            return refused(what);
        };
        let params = change(bytemuck::pod_read_unaligned(slot));
        slot.copy_from_slice(bytemuck::bytes_of(&params));
        Ok(())
    }

    /// Returns the shape of heads as kernels read it, and the buffer of their keys and values.
    fn shape(
        &self,
        group: usize,
        layer: usize,
        heads: usize,
        kv_heads: usize,
        dim: usize,
    ) -> Result<(Shape, Place), GpuError> {
        let Some(pool) = self.pools.get(group) else { return Err(GpuError::Mismatch("layer groups")) };
        let (layout, part) = (&pool.layout, pool.part_of(layer)?);
        let number = |element| ELEMENTS.iter().position(|&other| other == element);
        let [Some(k_type), Some(v_type)] = [layout.element.k, layout.element.v].map(number) else {
            return refused("keys and values of other types than f16, q8_0, f32 and q4_0");
        };
        if dim > 512 {
            return refused("heads of more than 512 elements");
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refused("heads of queries that share no keys evenly");
        }
        let shape = Shape {
            heads: heads as u32,
            kv_heads: kv_heads as u32,
            dim: dim as u32,
            qkv_stride: self.largest.heads as u32,
            layer: (layer - part.first) as u32,
            layers: part.layers as u32,
            group: group as u32,
            k_type: k_type as u32,
            v_type: v_type as u32,
            k_words: layout.k_bytes as u32 / 4,
            v_words: layout.v_bytes as u32 / 4,
            sinks: layout.sinks as u32,
            ring: layout.ring as u32,
            unused: [0; 3],
        };
        Ok((shape, part.place(group)))
    }

    /// Returns the column of a row's angles that has the temperature of queries, or `NONE` where queries have none.
    fn temperature(&self, heads: &NormRotateView<'m>) -> Result<u32, GpuError> {
        if heads.temperature.is_none() {
            return Ok(NONE);
        }
        if heads.temperature != self.largest.temperature {
            return refused("several temperatures of queries");
        }
        match self.angles.checked_sub(1) {
            Some(last) => Ok(last as u32),
            None => refused("temperatures of queries that are not rotated"),
        }
    }

    /// Returns the norms of queries, keys and values.
    fn head_norms(&mut self, heads: &NormRotateView<'m>) -> Result<HeadNorms, GpuError> {
        let mut norms = HeadNorms { which: 0, epsilon: 0.0, weights: [NONE; 2], biases: [NONE; 2] };
        let parts =
            [(&heads.q_norm, heads.heads, head_norms::QUERIES), (&heads.k_norm, heads.kv_heads, head_norms::KEYS)];
        let mut how = None;
        for (index, (norm, count, part)) in parts.into_iter().enumerate() {
            let Some(norm) = norm else { continue };
            let own = !norm.whole_row && norm.weights.rows() > 1;
            if own && norm.weights.rows() < count {
                return Err(GpuError::Mismatch("weights of the norms of heads"));
            }
            let bits = kind_of(norm, own);
            if *how.get_or_insert(bits) != bits {
                return refused("norms of queries of another kind than those of keys");
            }
            let weights = if own { norm.weights.bytes() } else { norm.norm.weight };
            norms.which |= part | bits;
            norms.epsilon = norm.norm.epsilon;
            norms.weights[index] = self.vectors.add(weights).unwrap_or(NONE);
            norms.biases[index] = self.vectors.add(norm.norm.bias).unwrap_or(NONE);
        }
        if let Some(norm) = &heads.v_norm {
            let centers = if norm.kind == NormKind::Layer { head_norms::CENTERS } else { 0 };
            if how.is_some_and(|bits| bits & head_norms::CENTERS != centers) || !norm.weight.is_empty() {
                return refused("norms of values of another kind than those of keys");
            }
            norms.which |= head_norms::VALUES | centers;
            norms.epsilon = norm.epsilon;
        }
        if heads.keys_as_values {
            norms.which |= head_norms::KEYS_AS_VALUES;
        }
        if norms.which != 0 && heads.norm_after_rotation {
            if norms.which & head_norms::WHOLE_ROW != 0 {
                return refused("norms of a whole row of heads after the rotation");
            }
            norms.which |= head_norms::AFTER_ROTATION;
        }
        Ok(norms)
    }
}

/// The norms of heads: bits of `head_norms`, and indices among the vectors of the weights and biases of queries and
/// keys.
struct HeadNorms {
    which: u32,
    epsilon: f32,
    weights: [u32; 2],
    biases: [u32; 2],
}

/// Returns how heads are normed, as bits of `head_norms`.
fn kind_of(norm: &HeadNormView<'_>, own: bool) -> u32 {
    let bit = |is: bool, bit: u32| if is { bit } else { 0 };
    bit(norm.whole_row, head_norms::WHOLE_ROW)
        | bit(own, head_norms::OWN_WEIGHTS)
        | bit(norm.norm.kind == NormKind::Layer, head_norms::CENTERS)
}
