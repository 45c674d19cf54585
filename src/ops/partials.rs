//! The partial results of attention, until all chunks of positions are done.

use crate::kernels::Partial;
use crate::mem::row_of;
use crate::weights::LayerShape;

/// Returns the layout of attention's partial result of a row and a KV head.
pub(super) fn partial(layer: &LayerShape) -> Partial {
    Partial { group: layer.group(), head_dim: layer.kv.head_dim }
}

/// Returns the number of elements of the partial results of a row.
pub(super) fn partials_width(layer: &LayerShape) -> Option<usize> {
    partial(layer).elements()?.checked_mul(layer.kv.heads)
}

/// Computes attention's result for row `index`, `[heads, head_dim]`, from the partial results of the rows. `sinks` are
/// the heads' sink scores, f32, or empty.
pub(super) fn finish_heads(
    layer: &LayerShape,
    partials: &[f32],
    index: usize,
    sinks: &[u8],
    out: &mut [f32],
) -> Option<()> {
    let partial = partial(layer);
    let mut sinks = sinks.as_chunks().0.chunks_exact(partial.group.max(1));
    let mut partials = row_of(partials, index, partials_width(layer)?)?.chunks_exact(partial.elements()?.max(1));
    // A zip of these would divide by their length, and compilers do not always see that it is not 0.
    out.chunks_exact_mut((partial.group * partial.head_dim).max(1))
        .try_for_each(|out| partial.finish(partials.next()?, sinks.next().unwrap_or_default(), out))
}
