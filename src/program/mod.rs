//! Programs: the order of operations of a model, as lists, and the interpreter that runs them.
//!
//! A model has a list for every kind of layer, a list before the layers and one after them. Lists are constants. The
//! common ones are in `lists.rs`. The file of an architecture names the lists that it uses, or has its own.
//!
//! # Example
//!
//! The steps of a model's program, as a table:
//!
//! ```
//! use gleed::program::{Part, Rows};
//! use gleed::{Limits, Model, Plan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let plan = Plan::new(&model, &Limits { context: 128, ..Limits::default() })?;
//! let (mut units, mut first_layer, mut last) = (0, Vec::new(), None);
//! plan.for_each_step(&model, &mut |step| {
//!     println!("{:?} {}: {} units, reads {}", step.part, step.operation, step.units, step.tensors.join(", "));
//!     units += step.units;
//!     if step.part == Part::Layer(0) {
//!         first_layer.push(step.operation);
//!     }
//!     last = Some(step.clone());
//! })?;
//!
//! // A budget of so many units computes a token.
//! assert_eq!(units, plan.units_per_token());
//! assert_eq!(first_layer[..3], ["norm", "qkv", "norm and rotate"]);
//! // Only rows that want logits are multiplied by the output matrix.
//! let last = last.ok_or("no steps")?;
//! assert_eq!((last.part, last.rows), (Part::End, Rows::Logits));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "experts")]
mod experts;
mod forward;
mod info;
pub(crate) mod lists;
mod loaded;
mod view;

pub(crate) use forward::{Cursor, Forward};
pub use info::{StepInfo, TensorNames};
pub(crate) use loaded::Loaded;
pub use view::StepView;

use crate::ops::Op;
use crate::weights::{Config, Role};

/// The order in which a model's operations run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Steps before the first layer.
    pub(crate) begin: &'static [Step],
    /// Kinds of layers.
    pub(crate) kinds: &'static [LayerKind],
    /// Function that returns the index of a layer's kind.
    pub(crate) kind_of: fn(&Config, usize) -> usize,
    /// Steps after the last layer.
    pub(crate) end: &'static [Step],
}

/// A kind of layers, which run the same operations on tensors of the same roles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerKind {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [Step],
}

/// An operation, and the rows of a batch that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) rows: Rows,
    pub(crate) op: Op,
}

/// The rows of a batch that an operation runs on.
///
/// [Example](crate::program#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All rows, up to the last layer that keeps something of each row: keys and values, or a state. After that layer,
    /// only the finished rows, whose hidden states are needed.
    All,
    /// All rows, up to the layer before the last one that keeps something of each row. From that one on, only the
    /// finished rows: of the other rows only keys and values, or a state, are computed.
    Finished,
    /// The rows that have logits.
    Logits,
}

/// A part of a program.
///
/// [Example](crate::program#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The steps before the first layer.
    Begin,
    /// A layer, by its index.
    Layer(usize),
    /// The steps after the last layer.
    End,
}

impl Program {
    /// Returns the steps of a part, for a model with this configuration.
    pub(crate) fn steps(&self, config: &Config, part: Part) -> &'static [Step] {
        match part {
            Part::Begin => self.begin,
            Part::Layer(layer) => self.kind(config, layer).map_or(&[], |kind| kind.steps),
            Part::End => self.end,
        }
    }

    /// Returns the kind of a layer.
    pub(crate) fn kind(&self, config: &Config, layer: usize) -> Option<&'static LayerKind> {
        self.kinds.get((self.kind_of)(config, layer))
    }

    /// Returns whether an operation can read the tensor of a role: one of this layer, if it is a role of layers.
    pub(crate) fn uses(&self, config: &Config, layer: usize, role: Role) -> bool {
        let names = |steps: &[Step]| steps.iter().any(|step| step.op.operation().tensors().contains(&role));
        if role.is_of_layer() {
            names(self.steps(config, Part::Layer(layer)))
        } else {
            let of_pooler = Role::OF_POOLER.contains(&role) || role == Role::ClassifierNorm;
            names(self.begin) || names(self.end) || of_pooler
        }
    }

    /// Returns whether `op` holds for an operation of any layer.
    pub(crate) fn has(&self, op: impl Fn(&Op) -> bool) -> bool {
        self.kinds.iter().any(|kind| kind.steps.iter().any(|step| op(&step.op)))
    }
}

impl Part {
    /// Returns the part after this one, for a model with `layers` layers.
    fn next(self, layers: usize) -> Option<Self> {
        let layer = match self {
            Self::Begin => 0,
            Self::Layer(layer) => layer + 1,
            Self::End => return None,
        };
        Some(if layer < layers { Self::Layer(layer) } else { Self::End })
    }
}

impl Rows {
    /// Returns the name of the rows, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Finished => "finished",
            Self::Logits => "logits",
        }
    }
}
