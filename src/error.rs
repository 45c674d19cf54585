//! What goes wrong inside a computation.

/// Why the computation of a tile stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A value is infinite or NaN where the arithmetic demands finite ones.
    NonFinite,
    /// Sizes that were checked before do not fit: a defect of this library.
    Internal,
}
