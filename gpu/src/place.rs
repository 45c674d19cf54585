//! Dispatches: their buffers and their rows.

use gleed::program::Rows;

use crate::catalog::{AtOnce, Kernel};
use crate::grid::TILE_ROWS;
use crate::memory::Id;
use crate::params::{Linear, SLOT};

/// A buffer, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Residual,
    /// An input in all formats. True if it lies beside the input that experts read later.
    Input(bool),
    Heads,
    Mix,
    Attention,
    FeedForward,
    Largest(Activations),
    /// Activations of many rows, in the format that a matrix reads.
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

/// Activations that a kernel leaves as floats, with the largest magnitude of each 32 beside them. The next matrix
/// quantizes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Activations {
    /// The results of attention; later in the layer the activations of a shared expert.
    Attention,
    /// The results of a recurrent layer; later in the layer the activations of the feed-forward layer.
    FeedForward,
}

impl Activations {
    /// Returns the buffer of the activations.
    pub(crate) fn place(self) -> Place {
        match self {
            Self::Attention => Place::Attention,
            Self::FeedForward => Place::FeedForward,
        }
    }
}

/// How the grid of a dispatch follows from the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shaped {
    /// One workgroup for each row.
    ByRow,
    /// This number of workgroups for each row.
    ByParts(usize),
    /// This number of workgroups for each row: one for each head, or part.
    ByHead(usize),
    /// Attention: the number of heads, of KV heads, and of elements of a head.
    Attention([usize; 3]),
    /// For each row this number of workgroups, one for each head, and as many again for each ready chunk of attention.
    ByChunk(usize),
    /// This number of workgroups for each run, the rows of a sequence.
    ByRun(usize),
    /// A matrix.
    Matrix(Linear),
    /// Matrices of experts.
    Experts(Linear),
}

/// The batches in which a dispatch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    All,
    /// Batches of fewer than [`TILE_ROWS`] rows.
    Few,
    /// Batches of at least [`TILE_ROWS`] rows.
    Many,
}

impl Batches {
    /// Returns whether a batch of `rows` rows is one of them.
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
    /// Number of the dispatch's step in the program.
    pub(crate) step: usize,
    pub(crate) kernel: Kernel,
    pub(crate) params: [u8; SLOT],
    pub(crate) buffers: Vec<Place>,
    pub(crate) rows: Rows,
    pub(crate) shaped: Shaped,
    pub(crate) batches: Batches,
}

impl Dispatch {
    /// Returns the kernel for many rows, where it is another one.
    pub(crate) fn for_many(&self) -> Option<Kernel> {
        match self.kernel {
            _ if self.batches != Batches::All => None,
            Kernel::Store => Some(Kernel::StoreMany),
            Kernel::Attend => Some(Kernel::AttendMany(AtOnce::Four)),
            // With experts the rows of a tile would have different matrices.
            Kernel::Vector(weights) | Kernel::Narrow(weights)
                if !weights.is_float() && !matches!(self.shaped, Shaped::Experts(_)) =>
            {
                Some(Kernel::Tile(weights))
            }
            _ => None,
        }
    }

    /// Returns the kernel for many rows of few sequences, where it is yet another one.
    pub(crate) fn for_wide(&self) -> Option<Kernel> {
        let Shaped::Attention([.., dim]) = self.shaped else { return None };
        match AtOnce::most(dim) {
            AtOnce::Four => None,
            at_once => Some(Kernel::AttendMany(at_once)),
        }
    }
}

/// Returns the word of a batch that counts a set of rows.
pub(crate) fn rows_number(rows: Rows) -> u32 {
    match rows {
        Rows::All => 0,
        Rows::Finished => 1,
        Rows::Logits => 2,
    }
}
