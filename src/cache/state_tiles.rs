//! The states of one layer, cut into tiles that several workers write.

use super::checkpoint::NO_SLOT;
use super::sequence::SeqId;
use super::state::Held;
use crate::mem::{Claims, Matrix, Tile};

/// Returns the tiles of a layer. `data` is `[slots, layers * per_layer]`, and the part of `layer` is cut into tiles of
/// `width` columns.
pub(super) fn tiles<'s>(
    data: &'s mut [f32],
    [layer, stride, per_layer, width]: [usize; 4],
    held: &'s [Held],
) -> Option<StateTiles<'s>> {
    let (slots, start) = (data.len().checked_div(stride)?, layer.checked_mul(per_layer)?);
    let layer = Matrix::with_stride(data.get_mut(start..)?, slots, per_layer, stride)?;
    let claims = Claims::new(layer.tiles(slots, width, 0..usize::MAX)?);
    Some(StateTiles { claims, held })
}

/// The states of one layer, which several workers write. Each worker takes tiles, which hold some columns of all slots.
#[derive(Debug)]
pub(crate) struct StateTiles<'s> {
    claims: Claims<'s, f32>,
    held: &'s [Held],
}

impl<'s> StateTiles<'s> {
    /// Returns tile `index`, once.
    pub(crate) fn take(&self, index: usize) -> Option<StateTile<'_>> {
        Some(StateTile { tile: self.claims.take(index)?, held: self.held })
    }
}

/// Some columns of the states of all sequences.
#[derive(Debug)]
pub(crate) struct StateTile<'s> {
    tile: Tile<'s, f32>,
    held: &'s [Held],
}

impl StateTile<'_> {
    /// Returns the part of the state that a sequence's batch writes. `begins` says that no row of the batch has been
    /// computed yet. Then this part first becomes a copy of the current state, or zeros.
    pub(crate) fn of(&mut self, seq: SeqId, begins: bool) -> Option<&mut [f32]> {
        let held = self.held.get(seq.slot())?;
        let next = held.next as usize;
        if begins && held.current == NO_SLOT {
            self.tile.row_mut(next)?.fill(0.0);
        } else if begins {
            self.copy(held.current as usize, next)?;
        }
        self.tile.row_mut(next)
    }

    fn copy(&mut self, from: usize, to: usize) -> Option<()> {
        const PIECE: usize = 64;
        let len = self.tile.cols().len();
        for start in (0..len).step_by(PIECE) {
            let count = PIECE.min(len - start);
            let mut piece = [0.0; PIECE];
            let piece = piece.get_mut(..count)?;
            piece.copy_from_slice(self.tile.row_mut(from)?.get(start..)?.get(..count)?);
            self.tile.row_mut(to)?.get_mut(start..)?.get_mut(..count)?.copy_from_slice(piece);
        }
        Some(())
    }
}
