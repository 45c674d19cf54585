//! Dispatches: which buffers and which rows.

use gleed::program::Rows;

use crate::catalog::{AtOnce, Kernel};
use crate::grid::TILE_ROWS;
use crate::memory::Id;
use crate::params::{Linear, SLOT};

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Residual,
    /// In all forms; whether it lies beside one that experts read later.
    Input(bool),
    Heads,
    Mix,
    Attention,
    FeedForward,
    Largest(Activations),
    /// Activations of many rows, in the form that a matrix reads.
    Quantized,
    Branch,
    Choices,
    Angles,
    Logits,
    Chosen,
    Draws,
    Batch,
    Flags,
    Vectors,
    Table(usize),
    Pool(usize, usize),
    Tails,
    Matrices(usize),
    Weights(Id),
    Block,
    Params,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Residual => "residual stream",
            Self::Input(..) => "inputs of matrices",
            Self::Heads => "queries, keys and values, and sums of chunks",
            Self::Mix => "inputs of recurrent layers",
            Self::Attention => "results of attention, activations of an expert of all rows, logits of experts",
            Self::FeedForward => "results of recurrent layers, feed-forward activations, inputs of all layers",
            Self::Largest(_) => "largest activations",
            Self::Quantized => "activations of many rows",
            Self::Branch => "branch, and what experts give",
            Self::Choices => "chosen experts",
            Self::Angles => "cosines and sines",
            Self::Logits => "logits",
            Self::Chosen => "chosen tokens",
            Self::Draws => "how tokens are drawn",
            Self::Batch => "rows of a batch",
            Self::Flags => "flags",
            Self::Vectors => "weights of norms, and biases",
            Self::Table(_) => "block tables",
            Self::Pool(..) => "pool of keys and values",
            Self::Tails => "states of convolutions",
            Self::Matrices(_) => "states of matrices",
            Self::Weights(_) => "matrices",
            Self::Block => "a block that is copied",
            Self::Params => "parameters of dispatches",
        }
    }
}

/// Activations that a kernel leaves as floats, with the largest magnitude of 32 each: the next matrix quantizes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Activations {
    /// The results of attention; later in the layer the activations of an expert that every row goes through.
    Attention,
    /// The results of a recurrent layer; later in the layer those of the feed-forward layer.
    FeedForward,
}

impl Activations {
    /// Where they are.
    pub(crate) fn place(self) -> Place {
        match self {
            Self::Attention => Place::Attention,
            Self::FeedForward => Place::FeedForward,
        }
    }
}

/// How a dispatch's grid follows from the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shaped {
    /// A workgroup each.
    ByRow,
    /// So many each.
    ByParts(usize),
    /// A workgroup for each of so many heads, or parts of a row.
    ByHead(usize),
    /// Attention of so many heads, which share so many heads of keys and values, of so many elements.
    Attention([usize; 3]),
    /// The same, and one for each chunk of attention that is ready.
    ByChunk(usize),
    /// So many workgroups for each run: the rows of a sequence.
    ByRun(usize),
    /// A matrix.
    Matrix(Linear),
    /// Matrices of experts.
    Experts(Linear),
}

/// For which batches a dispatch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    All,
    /// Those of less than [`TILE_ROWS`] rows.
    Few,
    /// Those of at least as many.
    Many,
}

impl Batches {
    /// Returns whether it is for those of so many rows.
    pub(crate) fn has(self, rows: usize) -> bool {
        match self {
            Self::All => true,
            Self::Few => rows < TILE_ROWS,
            Self::Many => rows >= TILE_ROWS,
        }
    }
}

/// A dispatch of a program: parameters, buffers, rows.
#[derive(Clone, Debug)]
pub(crate) struct Dispatch {
    /// The number of its step in the program.
    pub(crate) step: usize,
    pub(crate) kernel: Kernel,
    pub(crate) params: [u8; SLOT],
    pub(crate) buffers: Vec<Place>,
    pub(crate) rows: Rows,
    pub(crate) shaped: Shaped,
    pub(crate) batches: Batches,
}

impl Dispatch {
    /// The kernel for many rows, where it is another one.
    pub(crate) fn for_many(&self) -> Option<Kernel> {
        match self.kernel {
            _ if self.batches != Batches::All => None,
            Kernel::Store => Some(Kernel::StoreMany),
            Kernel::Attend => Some(Kernel::AttendMany(AtOnce::Four)),
            // Rows of experts have different matrices.
            Kernel::Vector(weights) | Kernel::Narrow(weights)
                if !weights.is_float() && !matches!(self.shaped, Shaped::Experts(_)) =>
            {
                Some(Kernel::Tile(weights))
            }
            _ => None,
        }
    }

    /// The kernel for many rows of few sequences, where it is another one still.
    pub(crate) fn for_wide(&self) -> Option<Kernel> {
        let Shaped::Attention([.., dim]) = self.shaped else { return None };
        match AtOnce::most(dim) {
            AtOnce::Four => None,
            at_once => Some(Kernel::AttendMany(at_once)),
        }
    }
}

/// The number of a set of rows in a batch.
pub(crate) fn rows_number(rows: Rows) -> u32 {
    match rows {
        Rows::All => 0,
        Rows::Finished => 1,
        Rows::Logits => 2,
    }
}
