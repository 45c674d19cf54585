//! Programs as a device sees them: operations with their tensors.

use super::{Cursor, Forward, Part, Rows};
use crate::device::OpView;

/// A step of a program as a device sees it.
///
/// [Example](crate::device#example).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepView<'m> {
    /// Part of the program in which the step runs.
    pub part: Part,
    /// Rows of a batch that the step runs on. [`Rows::All`] means all of them here.
    pub rows: Rows,
    /// Operation of the step.
    pub operation: OpView<'m>,
}

impl<'m> Forward<'m, '_> {
    /// Calls `found` with every step, in order, including steps that have nothing to do.
    pub(crate) fn for_each_operation(&self, found: &mut dyn FnMut(&StepView<'m>)) {
        let mut cursor = Some(Cursor::START);
        while let Some(at) = cursor {
            if let Some(step) = self.step(at) {
                let (op, layer) = (step.op, self.layer(at));
                // Views of matrices do not have the scales that a file can have beside them.
                let is_scaled = self.context.is_scaled(layer, op.operation().tensors());
                let operation = if is_scaled {
                    OpView::Other("matrices that have a scale beside them")
                } else {
                    op.view(&self.context, layer)
                };
                found(&StepView { part: at.part, rows: self.rows(step.rows, layer), operation });
            }
            cursor = self.after(at);
        }
    }

    /// Returns the rows of a batch that a step runs on in a layer.
    pub(super) fn rows(&self, rows: Rows, layer: usize) -> Rows {
        match rows {
            Rows::Finished if layer >= self.last_keeping => Rows::Finished,
            Rows::All if layer > self.last_keeping => Rows::Finished,
            Rows::All | Rows::Finished => Rows::All,
            Rows::Logits => Rows::Logits,
        }
    }
}
