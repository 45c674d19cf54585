//! The handle that ends a text from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::par::Budget;

/// A handle that ends the texts and answers of a [`Session`](super::Session).
/// [`Session::canceller`](super::Session::canceller) returns it.
///
/// [Example](crate::session#example).
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Ends the text in progress. While a text is read, [`Session::tell`](super::Session::tell) and
    /// [`Session::ask`](super::Session::ask) return [`SessionError::Cancelled`](super::SessionError::Cancelled) after
    /// at most one unit of work. Pieces end after at most one token, with [`End::Cancelled`](super::End::Cancelled).
    /// This does not end the next text.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn begin(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn budget(&self) -> Budget<'_> {
        Budget { cancel: Some(&self.0), ..Budget::default() }
    }
}
