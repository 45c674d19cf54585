//! A model whose file has been checked against its program.

use super::{Program, Step};
use crate::ops::{Forms, Op};
use crate::weights::{Config, Dtypes, Files, ModelError, Role, survey};

/// A model's files and their contents, checked against the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded<'m> {
    pub(crate) files: Files<'m>,
    pub(crate) config: Config,
    pub(crate) program: Program,
    /// Activation formats of the inputs of linear layers.
    pub(crate) forms: Forms,
    /// Types of the matrices.
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

    /// Returns whether rows can have logits. A model in which tokens see later ones has none: the logits would predict
    /// a token that the row can see.
    pub(crate) fn has_logits(&self) -> bool {
        let is_head = |step: &Step| matches!(step.op, Op::Head(_));
        self.config.attention.causal && self.program.end.iter().any(is_head)
    }

    /// Returns whether the program reads the tensor of a role in a layer. For roles outside of layers, `layer` means
    /// nothing.
    pub(crate) fn uses(&self, layer: usize, role: Role) -> bool {
        self.program.uses(&self.config, layer, role)
    }
}
