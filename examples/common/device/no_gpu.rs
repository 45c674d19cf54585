//! What stands for a GPU in programs that are built without one.

use gleed::{Engine, Limits, Model, Plan};

use crate::Result;

/// A GPU with a model on it: there is none.
pub enum OnGpu<'m> {
    #[doc(hidden)]
    Never(std::convert::Infallible, std::marker::PhantomData<&'m ()>),
}

impl<'m> OnGpu<'m> {
    /// Says how to get a program that can use a GPU.
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
