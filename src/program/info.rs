//! Programs as tables: what a host can see of them.

use super::{Cursor, Forward, Part, Rows};
use crate::ops::Batch;

/// Names of tensors in a file. In a layer they are what follows `blk.N.`.
///
/// [Example](crate::program#example).
pub type TensorNames = heapless::Vec<&'static str, 8>;

/// A step of a program as a host sees it.
///
/// [Example](crate::program#example).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Where it runs.
    pub part: Part,
    /// The name of the layer's kind. Layers of one kind run the same operations. Empty outside of layers.
    pub kind: &'static str,
    /// What it does.
    pub operation: &'static str,
    /// The rows of a batch that it runs on.
    pub rows: Rows,
    /// The tensors that it can read, without their biases; the file may leave some out.
    pub tensors: TensorNames,
    /// Units of work.
    pub units: usize,
    /// Those of them that are done, see [`Engine::next_step`](crate::Engine::next_step).
    pub done: usize,
}

impl Forward<'_, '_> {
    /// Calls `found` with every step that has anything to do for a batch, in order.
    pub(crate) fn for_each_step(&self, batch: Batch<'_>, found: &mut dyn FnMut(&StepInfo)) {
        let next = |cursor: &Cursor| self.next(*cursor, batch);
        for cursor in core::iter::successors(Some(Cursor::START), next) {
            if let Some(info) = self.info(cursor, batch) {
                found(&info);
            }
        }
    }

    /// The step at `cursor`.
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
