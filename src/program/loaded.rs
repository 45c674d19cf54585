//! A model whose file has been checked against its program.

use super::{Program, Step};
use crate::ops::{Forms, Op};
use crate::weights::{Config, Dtypes, Files, ModelError, Role, survey};

/// A model's files, and what has been found in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded<'m> {
    pub(crate) files: Files<'m>,
    pub(crate) config: Config,
    pub(crate) program: Program,
    /// The forms in which the inputs of linear layers are wanted.
    pub(crate) forms: Forms,
    /// The types of the matrices.
    pub(crate) matrices: Dtypes,
}

impl<'m> Loaded<'m> {
    /// Checks that the files have the tensors that the program reads, and no others.
    ///
    /// # Errors
    /// [`ModelError`], with the tensor that was wrong.
    pub(crate) fn new(files: Files<'m>, config: Config, program: Program) -> Result<Self, ModelError> {
        let survey = survey(&files, &config, &|layer, role| program.uses(&config, layer, role))?;
        Ok(Self { files, config, program, forms: Forms::of(&survey), matrices: survey.matrices })
    }

    /// Whether rows can have logits. Where a token sees those after it, they would say what it knows.
    pub(crate) fn has_logits(&self) -> bool {
        let is_head = |step: &Step| matches!(step.op, Op::Head(_));
        self.config.attention.causal && self.program.end.iter().any(is_head)
    }

    /// Whether the program reads the tensor of a role in a layer. (The layer says nothing for roles outside of layers.)
    pub(crate) fn uses(&self, layer: usize, role: Role) -> bool {
        self.program.uses(&self.config, layer, role)
    }
}
