//! Programs as tables, for a host.

use super::{Cursor, Forward, Part, Rows};
use crate::ops::Batch;

/// Names of tensors in a file. For a tensor of a layer this is the part after `blk.N.`.
///
/// [Example](crate::program#example).
pub type TensorNames = heapless::Vec<&'static str, 8>;

/// A step of a program as a host sees it.
///
/// [Example](crate::program#example).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Part of the program in which the step runs.
    pub part: Part,
    /// Name of the layer's kind, or empty outside of layers. Layers of one kind run the same operations.
    pub kind: &'static str,
    /// Name of the operation.
    pub operation: &'static str,
    /// Rows of a batch that the step runs on.
    pub rows: Rows,
    /// Tensors that the step can read, without their biases. The file may leave some out.
    pub tensors: TensorNames,
    /// Number of units of work.
    pub units: usize,
    /// Number of units that are done: see [`Engine::next_step`](crate::Engine::next_step).
    pub done: usize,
}

impl Forward<'_, '_> {
    /// Calls `found` with every step that has something to do for a batch, in order.
    pub(crate) fn for_each_step(&self, batch: Batch<'_>, found: &mut dyn FnMut(&StepInfo)) {
        let next = |cursor: &Cursor| self.next(*cursor, batch);
        for cursor in core::iter::successors(Some(Cursor::START), next) {
            if let Some(info) = self.info(cursor, batch) {
                found(&info);
            }
        }
    }

    /// Returns the step at `cursor`.
    pub(crate) fn info(&self, cursor: Cursor, batch: Batch<'_>) -> Option<StepInfo> {
        let (step, config) = (self.step(cursor)?, &self.context.config);
        let (operation, layer) = (step.op.operation(), self.layer(cursor));
        let kind = match cursor.part {
            Part::Layer(layer) => self.program.kind(config, layer)?.name,
            Part::Begin | Part::End => "",
        };
        let mut tensors = TensorNames::new();
        for role in operation.tensors().iter().filter(|role| role.is_in(config, layer)) {
            tensors.push(role.name()).ok()?;
        }
        Some(StepInfo {
            part: cursor.part,
            kind,
            operation: operation.name(),
            rows: step.rows,
            tensors,
            units: self.units(cursor, batch),
            done: 0,
        })
    }
}
