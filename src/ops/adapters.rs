//! The additions of adapters to linear layers, for the sequences that use them.
//!
//! The product of a row with the first matrix of each pair, `low = A x`, is computed together with the forms of that
//! row. It is scaled and kept behind them. Linear layers then add `B low`.

use bytemuck::{Pod, Zeroable};

use super::{Capacity, Context, Input};
use crate::cache::SeqId;
use crate::kernels::{Inputs, Level, OUTPUTS};
use crate::mem::{Arena, MemoryError};
use crate::nn::{Delta, Linear};
use crate::num::settle;
use crate::quant::form;
use crate::tensor::Dtype;
use crate::weights::{Adapter, Config, Role, TARGETS, TensorRef};

/// Largest number of adapters that an engine can have at a time.
pub(crate) const MAX_ADAPTERS: usize = 8;

/// Element types of the adapters' matrices.
pub(super) const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// Largest number of layers that share an input.
const SHARED: usize = 3;

/// The two matrices that are added to one of a layer's matrices: `[rank, inputs]` and `[outputs, rank]`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    a: TensorRef,
    b: TensorRef,
}

/// The adapters that are loaded, and their scales for every sequence.
#[derive(Debug)]
pub(crate) struct Adapters<'m, 'a> {
    /// File and alpha of each adapter. Products are multiplied by alpha / rank.
    loaded: heapless::Vec<(&'m [u8], f32), MAX_ADAPTERS>,
    /// Number of adapters for which there is room.
    room: usize,
    rank: usize,
    layers: usize,
    /// Pairs of matrices, `[adapters, layers, TARGETS]`.
    pairs: &'a mut [Pair],
    /// Scales, `[sequences, adapters]`.
    scales: &'a mut [f32],
    /// Handles of the sequences to which the scales belong, `[sequences]`. All other sequences have scales of 0.
    owners: &'a mut [u32],
}

/// Returns the number of 32-bit words behind the forms of an input row. For each adapter these are a flag whether it
/// applies, and its products for the layers that share the input, `[SHARED, rank]`.
pub(super) fn adapter_words(capacity: Capacity) -> usize {
    capacity.adapters.saturating_mul(words_of(capacity.adapter_rank))
}

/// Returns the number of these words for one adapter.
fn words_of(rank: usize) -> usize {
    rank.saturating_mul(SHARED).saturating_add(1)
}

/// Returns the index of a layer's products among the layers that share an input.
fn place(tensor: Role) -> usize {
    match tensor {
        Role::K | Role::Up => 1,
        Role::V => 2,
        _ => 0,
    }
}

impl<'m, 'a> Adapters<'m, 'a> {
    pub(super) fn carve(arena: &mut Arena<'a>, config: &Config, capacity: Capacity) -> Result<Self, MemoryError> {
        let room = capacity.adapters;
        let pairs = room.checked_mul(config.layers).and_then(|pairs| pairs.checked_mul(TARGETS.len()));
        let scales = room.checked_mul(capacity.sequences).ok_or(MemoryError::TooLarge)?;
        let pairs = arena.slice("adapters", pairs.ok_or(MemoryError::TooLarge)?)?;
        let scales = arena.slice("adapter scales", scales)?;
        let owners = arena.slice("adapter sequences", if room > 0 { capacity.sequences } else { 0 })?;
        pairs.fill(Pair::zeroed());
        scales.fill(0.0);
        owners.fill(0);
        Ok(Self {
            loaded: heapless::Vec::new(),
            room,
            rank: capacity.adapter_rank,
            layers: config.layers,
            pairs,
            scales,
            owners,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    /// Returns the number of adapters that are loaded.
    pub(crate) fn len(&self) -> usize {
        self.loaded.len()
    }

    /// Returns the number of adapters for which there is room, and the largest rank.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.room, self.rank)
    }

    /// Loads an adapter and returns its index, or `None` if there is no room for it.
    pub(crate) fn load(&mut self, adapter: &Adapter<'m>) -> Option<usize> {
        let index = self.loaded.len();
        if index >= self.room || adapter.rank() > self.rank {
            return None;
        }
        let of_adapter = self.layers.checked_mul(TARGETS.len())?;
        let pairs = self.pairs.get_mut(index.checked_mul(of_adapter)?..)?.get_mut(..of_adapter)?;
        pairs.fill(Pair::zeroed());
        adapter.for_each(|layer, target, first, tensor| {
            if let Some(pair) = pairs.get_mut(layer * TARGETS.len() + target) {
                *(if first { &mut pair.a } else { &mut pair.b }) = tensor;
            }
        });
        self.loaded.push((adapter.bytes(), adapter.alpha())).ok()?;
        Some(index)
    }

    /// Returns the scale of an adapter for a sequence, or `None` if there is no such adapter.
    pub(crate) fn scale(&self, seq: SeqId, adapter: usize) -> Option<f32> {
        (adapter < self.loaded.len()).then(|| self.scales_of(seq).get(adapter).copied().unwrap_or(0.0))
    }

    pub(crate) fn set_scale(&mut self, seq: SeqId, adapter: usize, scale: f32) -> Option<()> {
        let place = seq.slot().checked_mul(self.room)?.checked_add(adapter).filter(|_| adapter < self.loaded.len())?;
        if !self.owns(seq) {
            self.begin(seq, None);
        }
        *self.scales.get_mut(place)? = scale;
        Some(())
    }

    /// Returns whether any adapter changes the results of a sequence.
    pub(crate) fn change(&self, seq: SeqId) -> bool {
        self.scales_of(seq).iter().any(|&scale| scale != 0.0)
    }

    /// Begins a sequence without adapters, or with the scales of the sequence `like`.
    pub(crate) fn begin(&mut self, seq: SeqId, like: Option<SeqId>) {
        for adapter in 0..self.room {
            let scale = like.and_then(|like| self.scales_of(like).get(adapter).copied());
            let place = seq.slot().saturating_mul(self.room).saturating_add(adapter);
            if let Some(place) = self.scales.get_mut(place) {
                *place = scale.unwrap_or(0.0);
            }
        }
        if let Some(owner) = self.owners.get_mut(seq.slot()) {
            *owner = seq.to_bits();
        }
    }

    /// Returns whether the scales in the slot of a sequence belong to it, and not to an earlier sequence.
    fn owns(&self, seq: SeqId) -> bool {
        self.owners.get(seq.slot()) == Some(&seq.to_bits())
    }

    /// Returns the scales of a sequence, or an empty slice if all are 0.
    fn scales_of(&self, seq: SeqId) -> &[f32] {
        if !self.owns(seq) {
            return &[];
        }
        self.scales.chunks_exact(self.room.max(1)).nth(seq.slot()).unwrap_or_default()
    }

    fn pair(&self, adapter: usize, layer: usize, tensor: Role) -> Option<Pair> {
        let target = TARGETS.iter().position(|&target| target == tensor)?;
        self.pairs.get((adapter * self.layers + layer) * TARGETS.len() + target).copied()
    }

    /// Multiplies a row `x` of an input with the first matrices of all pairs that read it, and stores the products
    /// behind the forms in `out`.
    pub(super) fn project(
        &self,
        level: Level,
        (layer, input): (usize, Input),
        seq: Option<SeqId>,
        x: &[f32],
        out: &mut [u32],
        scratch: &mut [f32],
    ) -> Option<()> {
        let start = out.len().checked_sub(self.room.checked_mul(words_of(self.rank))?)?;
        let scales = seq.map(|seq| self.scales_of(seq)).unwrap_or_default();
        let places = out.get_mut(start..)?.chunks_exact_mut(words_of(self.rank));
        let (row, scratch) = scratch.split_at_mut_checked(x.len())?;
        let row: &mut [u32] = bytemuck::must_cast_slice_mut(row);
        let (products, scratch) = scratch.split_at_mut_checked(OUTPUTS)?;
        for ((adapter, &(file, alpha)), place_of) in self.loaded.iter().enumerate().zip(places) {
            let scale = scales.get(adapter).copied().unwrap_or(0.0);
            let (flag, low) = place_of.split_first_mut()?;
            *flag = u32::from(scale != 0.0);
            if scale == 0.0 {
                continue;
            }
            for &tensor in input.readers() {
                let Some(pair) = self.pair(adapter, layer, tensor) else { continue };
                let (Some(a), Some(b)) = (pair.a.view(file), pair.b.view(file)) else { continue };
                let factor = settle(scale * alpha / a.rows() as f32);
                level.quantize_row(form(a.dtype()), x, row).ok()?;
                let inputs = Inputs::new(form(a.dtype()), 1, x.len(), row, x.len())?;
                let low = low.get_mut(place(tensor).checked_mul(self.rank)?..)?;
                for (tile, low) in low.get_mut(..a.rows())?.chunks_mut(OUTPUTS).enumerate() {
                    level.products(a.slice_rows(tile * OUTPUTS, low.len())?, &inputs, products, scratch)?;
                    let mut scaled = [0.0; OUTPUTS];
                    scaled.iter_mut().zip(&*products).for_each(|(scaled, product)| *scaled = product * factor);
                    level.quantize_row(form(b.dtype()), scaled.get(..low.len())?, low).ok()?;
                }
            }
        }
        Some(())
    }

    /// Returns the additions to the layers that read an input. Its rows have `words` words.
    fn deltas(&self, layer: usize, input: Input, words: usize) -> Deltas<'m> {
        let mut deltas = Deltas { of: [const { heapless::Vec::new() }; SHARED] };
        let of_adapter = words_of(self.rank);
        let start = words.saturating_sub(self.room.saturating_mul(of_adapter));
        for (adapter, &(file, _)) in self.loaded.iter().enumerate() {
            for &tensor in input.readers() {
                let flag = start + adapter * of_adapter;
                let low = flag + 1 + place(tensor) * self.rank;
                let weights = self.pair(adapter, layer, tensor).and_then(|pair| pair.b.view(file));
                if let (Some(weights), Some(list)) = (weights, deltas.of.get_mut(place(tensor))) {
                    // The list has room for every adapter.
                    let _ = list.push(Delta { weights, flag, low });
                }
            }
        }
        deltas
    }
}

impl<'m> Context<'m, '_> {
    /// Returns the additions of adapters to the matrices of a layer that read an input.
    pub(super) fn deltas(&self, layer: usize, input: Input) -> Deltas<'m> {
        self.adapters.deltas(layer, input, self.input_words)
    }
}

/// The additions to the layers that share an input.
pub(super) struct Deltas<'m> {
    of: [heapless::Vec<Delta<'m>, MAX_ADAPTERS>; SHARED],
}

impl Deltas<'_> {
    /// Returns the layer with its additions.
    pub(super) fn add_to<'w>(&'w self, linear: Option<Linear<'w>>, tensor: Role) -> Option<Linear<'w>> {
        let deltas = self.of.get(place(tensor)).filter(|_| TARGETS.contains(&tensor));
        let deltas = deltas.map(|deltas| deltas.as_slice()).unwrap_or_default();
        linear.map(|linear| Linear { deltas, ..linear })
    }
}
