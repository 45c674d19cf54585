//! The self-test: whether a device computes what the scalar code computes. It runs the kernels themselves, with their
//! grids, on random and on extreme numbers, and compares results bit for bit.

mod attention;
mod choices;
mod embed;
mod experts;
mod linear;
mod random;
mod recur;
mod rows;
mod world;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use bytemuck::{Pod, bytes_of, cast_slice};
use gleed::num::{ARITHMETIC_VERSION, Xxh64};

use crate::catalog::{Catalog, Kernel};
use crate::error::GpuError;
use crate::hardware::Hardware;
#[cfg(not(target_arch = "wasm32"))]
use crate::hardware::now;
use crate::params::SLOT;
use random::Random;

pub(crate) use experts::{MOST_EXPERTS, scores_number};
pub(crate) use linear::{ACTIVATIONS, XIELU};
pub(crate) use rows::{form_number, norms_number};
pub(crate) use world::{ELEMENTS, scores};

/// Runs the kernels of a catalog, and compares their results with those of the scalar code.
///
/// # Errors
/// [`GpuError::Unfit`] with the name of the first operation that differs; otherwise as [`Hardware::read`].
#[cfg(not(target_arch = "wasm32"))]
pub fn run(hardware: &Hardware, catalog: &Catalog) -> Result<(), GpuError> {
    now(run_async(hardware, catalog))
}

pub(crate) async fn run_async(hardware: &Hardware, catalog: &Catalog) -> Result<(), GpuError> {
    all(&Bench { machine: &OnDevice { hardware, catalog }, is_short: false }, catalog).await
}

async fn all(bench: &Bench<'_>, catalog: &Catalog) -> Result<(), GpuError> {
    for kernel in catalog.kernels() {
        check(bench, kernel, 0).await?;
    }
    Ok(())
}

/// [`run`] for one kernel. `seed` chooses the numbers.
///
/// # Errors
/// As [`run`].
#[cfg(not(target_arch = "wasm32"))]
pub fn kernel_alone(hardware: &Hardware, catalog: &Catalog, kernel: Kernel, seed: u64) -> Result<(), GpuError> {
    kernel_on(&OnDevice { hardware, catalog }, kernel, seed)
}

/// [`run`] for one kernel, on any machine. `seed` chooses the numbers.
///
/// # Errors
/// As [`run`], and those of the machine.
#[cfg(not(target_arch = "wasm32"))]
pub fn kernel_on(machine: &dyn Machine, kernel: Kernel, seed: u64) -> Result<(), GpuError> {
    now(check(&Bench { machine, is_short: false }, kernel, seed))
}

/// A short test for every start: each kernel on fewer shapes.
///
/// # Errors
/// As [`run`].
#[cfg(not(target_arch = "wasm32"))]
pub fn sentinel(hardware: &Hardware, catalog: &Catalog) -> Result<(), GpuError> {
    now(sentinel_async(hardware, catalog))
}

pub(crate) async fn sentinel_async(hardware: &Hardware, catalog: &Catalog) -> Result<(), GpuError> {
    all(&Bench { machine: &OnDevice { hardware, catalog }, is_short: true }, catalog).await
}

/// Returns a number for all that a result of the self-test holds for: the adapter, its driver, these kernels with their
/// texts, and the arithmetic. A host can keep it, and run [`sentinel`] alone as long as it is the same.
pub fn key(hardware: &Hardware, kernels: &[Kernel]) -> u64 {
    let info = hardware.info();
    let mut hash = Xxh64::new();
    for part in [&info.name, &info.backend, &info.driver] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    for kernel in BTreeSet::from_iter(kernels) {
        hash.update(format!("{kernel:?} ").as_bytes());
    }
    hash.update(&crate::shader::hash().to_le_bytes());
    hash.update(&ARITHMETIC_VERSION.to_le_bytes());
    hash.finish()
}

async fn check(bench: &Bench<'_>, kernel: Kernel, seed: u64) -> Result<(), GpuError> {
    let random = &mut Random::new(seed ^ Xxh64::hash(format!("{kernel:?}").as_bytes()));
    match kernel {
        Kernel::Input => rows::input(bench, random).await,
        Kernel::Route => experts::route(bench, random).await,
        Kernel::Choose => choices::choose(bench, random).await,
        Kernel::Draw => choices::draw(bench, random).await,
        Kernel::Embed(weights) => embed::embed(bench, weights, random).await,
        Kernel::Vector(weights) | Kernel::Narrow(weights) => {
            linear::products(bench, kernel, weights, random, &[1, 2, 11]).await?;
            experts::products(bench, kernel, weights, random).await
        }
        Kernel::Raw(weights) => {
            linear::raw_products(bench, weights, random).await?;
            experts::raw_products(bench, weights, random).await
        }
        Kernel::Tile(weights) => linear::products(bench, kernel, weights, random, &[9, 70]).await,
        Kernel::Store => {
            attention::store(bench, kernel, random).await?;
            attention::chunks(bench, random).await
        }
        Kernel::StoreMany => attention::store(bench, kernel, random).await,
        Kernel::Attend => attention::attend(bench, random).await,
        Kernel::AttendMany(at_once) => attention::attend_many(bench, at_once, random).await,
        Kernel::Quantize => rows::quantize(bench, random).await,
        Kernel::Convolve => recur::convolve(bench, random).await,
        Kernel::Update => recur::update(bench, random).await,
        Kernel::GroupNorm => recur::group_norm(bench, random).await,
    }
}

/// A machine that runs single kernels.
pub trait Machine {
    /// Runs a kernel with these buffers, in the order of its bindings, the parameters first. Returns the contents of
    /// the buffers that are read back afterwards.
    ///
    /// # Errors
    /// [`GpuError`], of any kind but [`GpuError::Unfit`].
    fn run<'a>(&'a self, kernel: Kernel, buffers: &'a [Data], grid: [u32; 3]) -> Answer<'a>;
}

/// The contents of the buffers that are read back, once they are there.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Vec<u32>>, GpuError>> + 'a>>;

/// A buffer of a kernel.
#[derive(Clone, Debug)]
pub struct Data {
    /// Words that the buffer holds before the kernel runs.
    pub words: Vec<u32>,
    /// Whether the buffer is read back.
    pub is_back: bool,
}

impl Data {
    fn read(words: impl Into<Vec<u32>>) -> Self {
        Self { words: words.into(), is_back: false }
    }

    fn floats(floats: &[f32]) -> Self {
        Self::read(cast_slice(floats).to_vec())
    }

    fn back(words: impl Into<Vec<u32>>) -> Self {
        Self { words: words.into(), is_back: true }
    }
}

/// A device, with compiled kernels.
struct OnDevice<'h> {
    hardware: &'h Hardware,
    catalog: &'h Catalog,
}

impl Machine for OnDevice<'_> {
    fn run<'a>(&'a self, kernel: Kernel, buffers: &'a [Data], grid: [u32; 3]) -> Answer<'a> {
        Box::pin(self.answer(kernel, buffers, grid))
    }
}

impl OnDevice<'_> {
    async fn answer(&self, kernel: Kernel, buffers: &[Data], grid: [u32; 3]) -> Result<Vec<Vec<u32>>, GpuError> {
        let mut made = Vec::new();
        for data in buffers {
            let buffer = self.hardware.buffer_async("self-test", data.words.len() as u64 * 4).await?;
            self.hardware.write(&buffer, 0, cast_slice(&data.words))?;
            made.push(buffer);
        }
        let Some((params, others)) = made.split_first() else {
            return Err(GpuError::Mismatch("the buffers of a kernel"));
        };
        let others: Vec<_> = others.iter().collect();
        let run = self.hardware.bind(self.catalog.get(kernel)?, (params, 0, SLOT as u64), &others)?;
        self.hardware.submit([(&run, grid)])?;
        let mut out = Vec::new();
        for (buffer, data) in made.iter().zip(buffers).filter(|(_, data)| data.is_back) {
            let mut words = vec![0_u32; data.words.len()];
            self.hardware.read_async(buffer, 0, bytemuck::cast_slice_mut(&mut words)).await?;
            out.push(words);
        }
        Ok(out)
    }
}

/// A machine to test kernels on, and how many cases are tried.
struct Bench<'h> {
    machine: &'h dyn Machine,
    /// Whether only the first of several cases is tried.
    is_short: bool,
}

impl Bench<'_> {
    /// Returns the cases that are tried.
    fn some<'c, T>(&self, cases: &'c [T]) -> &'c [T] {
        if self.is_short { &cases[..1] } else { cases }
    }

    /// Runs a kernel, and returns the contents of the buffers that are read back.
    async fn run(
        &self,
        kernel: Kernel,
        params: &impl Pod,
        buffers: &[Data],
        grid: [u32; 3],
    ) -> Result<Vec<Vec<u32>>, GpuError> {
        let mut slot = bytemuck::pod_collect_to_vec::<u8, u32>(bytes_of(params));
        slot.resize(SLOT / 4, 0);
        let all: Vec<_> = [Data::read(slot)].into_iter().chain(buffers.iter().cloned()).collect();
        self.machine.run(kernel, &all, grid).await
    }
}

/// Fails where words differ. Any two NaNs count as equal.
fn same(operation: &'static str, got: &[u32], want: &[u32]) -> Result<(), GpuError> {
    let alike = |(got, want): (&u32, &u32)| got == want || (is_nan(*got) && is_nan(*want));
    if got.len() == want.len() && got.iter().zip(want).all(alike) { Ok(()) } else { Err(GpuError::Unfit { operation }) }
}

/// [`same`] for floats that are settled wherever they are read: a device may flush subnormal ones.
fn same_settled(operation: &'static str, got: &[u32], want: &[u32]) -> Result<(), GpuError> {
    let flushed = |words: &[u32]| -> Vec<u32> {
        words.iter().map(|&bits| if bits & 0x7fff_ffff < 0x0080_0000 { 0 } else { bits }).collect()
    };
    same(operation, &flushed(got), &flushed(want))
}

fn is_nan(bits: u32) -> bool {
    bits & 0x7fff_ffff > 0x7f80_0000
}

/// Returns the largest magnitude of each 32 floats.
fn largest(floats: &[u32]) -> Vec<u32> {
    floats.chunks(32).map(|block| block.iter().map(|bits| bits & 0x7fff_ffff).max().unwrap_or(0)).collect()
}

/// Returns the bits of floats.
fn bits(floats: &[f32]) -> Vec<u32> {
    cast_slice(floats).to_vec()
}
