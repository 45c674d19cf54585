//! Replaces `gpu.rs` in programs that are built without the feature `gpu`.

use gleed::{Engine, Limits, Model, Plan};

use crate::Result;

/// Replaces a GPU with a model on it. It has no values.
pub enum OnGpu<'m> {
    #[doc(hidden)]
    Never(std::convert::Infallible, std::marker::PhantomData<&'m ()>),
}

impl<'m> OnGpu<'m> {
    /// Returns an error that says how to build a program that can use a GPU.
    pub fn open(_: &Model<'m>, _: &Limits, _: Option<&str>, _: bool) -> Result<(Plan, Self)> {
        Err("this program was built without it: `cargo run --release --features gpu --example NAME`".into())
    }

    pub fn engine<'a>(&'a mut self, _: &Model<'m>, _: &Plan, _: &'a mut [u8]) -> Result<Engine<'m, 'a>> {
        let Self::Never(never, _) = self;
        match *never {}
    }

    pub fn name(&self) -> &str {
        let Self::Never(never, _) = self;
        match *never {}
    }

    pub fn bytes(&self) -> u64 {
        let Self::Never(never, _) = self;
        match *never {}
    }
}
