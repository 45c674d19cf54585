//! The boundary to another machine than the CPU: what this machine, a device, needs to know of a model's program, and
//! the trait that it implements.
//!
//! The keys and values, the buffers of a batch and the work are on the device. Queues, block tables, forks, prefixes,
//! windows, snapshots and errors stay in the engine. A device must give the bits of `docs/arithmetic.md`: all results,
//! snapshots included, are those of the CPU.
//!
//! # Example
//!
//! What a device learns before anything runs:
//!
//! ```
//! use gleed::device::OpView;
//! use gleed::{Limits, Model, Plan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let plan = Plan::new(&model, &Limits { context: 128, rows: 16, ..Limits::default() })?;
//! let (mut missing, mut matrix_bytes, mut angles) = (None, 0, Vec::new());
//! plan.for_each_operation(&model, &mut |step| match &step.operation {
//!     OpView::Qkv(qkv) => {
//!         matrix_bytes += qkv.parts.iter().flatten().map(|(_, matrix)| matrix.weights.bytes().len()).sum::<usize>();
//!     }
//!     OpView::GateUp(ffn) => matrix_bytes += ffn.gate.map_or(0, |gate| gate.weights.bytes().len()) + ffn.up.weights.bytes().len(),
//!     OpView::Project(end) => matrix_bytes += end.matrix.weights.bytes().len(),
//!     // A device is given the angles that a CPU computes: here for position 3.
//!     OpView::Angles(rotary) => {
//!         let mut frequencies = vec![0.0; rotary.width() / 2];
//!         rotary.frequencies(&mut frequencies);
//!         angles = vec![0.0; rotary.width()];
//!         rotary.angles(3, &frequencies, &mut angles);
//!     }
//!     // An operation that it does not know: it refuses the model by this name.
//!     OpView::Other(name) => missing = Some(*name),
//!     _ => {}
//! })?;
//! assert_eq!((missing, angles[0]), (None, 3_f64.cos() as f32));
//! assert!(matrix_bytes > model.file_bytes() / 2);
//!
//! // A block holds the keys and values of 16 tokens, layer by layer, head by head.
//! let layout = plan.kv_layout(&model, 0).ok_or("no layers with keys and values")?;
//! assert_eq!(layout.block_bytes, plan.kv_block_bytes());
//! assert_eq!(layout.tile(1, 0) * 4, layout.heads * (layout.k_bytes + layout.v_bytes));
//! assert_eq!((layout.blocks, layout.entries, layout.entry(5)), (8, 8, 5));
//! # Ok(())
//! # }
//! ```
//!
//! # A device
//!
//! A device that works is long: `tests/device/scalar.rs` is one in plain Rust. This one only counts the rows and keeps
//! the keys and values, and then it is lost. Another engine goes on, with the same bits.
//!
//! ```
//! use std::{ops::Range, task::Poll};
//!
//! use gleed::device::{BatchView, BlockCopy, BlockPart, Device, DeviceFault, Row};
//! use gleed::{Engine, EngineError, Limits, Logits, Model, Plan, Step};
//!
//! #[derive(Default)]
//! struct Lost {
//!     rows: usize,
//!     pool: Vec<u32>,
//!     block_words: usize,
//! }
//!
//! impl Device for Lost {
//!     fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault> {
//!         for row @ Row { position, .. } in batch.rows {
//!             // The block of the row's keys and values in layer group 0.
//!             assert!(batch.table(0, row.slot()).get(*position as usize / 16).is_some());
//!         }
//!         self.rows += batch.rows.len();
//!         let words = self.block_words;
//!         batch.for_each_copy(&mut |BlockCopy { from, to, .. }| {
//!             let start = from as usize * words;
//!             self.pool.copy_within(start..start + words, to as usize * words);
//!         });
//!         Ok(())
//!     }
//!
//!     fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault> {
//!         Ok(steps.len())
//!     }
//!
//!     fn poll(&mut self) -> Poll<Result<(), DeviceFault>> {
//!         Poll::Ready(Err(DeviceFault::Lost))
//!     }
//!
//!     fn logits(&mut self, _: usize, _: &mut [f32]) -> Result<(), DeviceFault> {
//!         Err(DeviceFault::Lost)
//!     }
//!
//!     fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault> {
//!         let start = part.block as usize * self.block_words + part.word;
//!         out.copy_from_slice(&self.pool[start..start + out.len()]);
//!         Ok(())
//!     }
//!
//!     fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault> {
//!         let start = part.block as usize * self.block_words + part.word;
//!         self.pool[start..start + words.len()].copy_from_slice(words);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let limits = Limits { context: 64, ..Limits::default() };
//! let (here, there) = (Plan::new(&model, &limits)?, Plan::for_device(&model, &limits)?);
//! # let mut memory = vec![0; here.bytes() + there.bytes() + 2 * gleed::mem::ALIGN];
//! # let start = memory.as_ptr().align_offset(gleed::mem::ALIGN);
//! # let (memory, rest) = memory[start..].split_at_mut(here.bytes().next_multiple_of(gleed::mem::ALIGN));
//! let mut engine = Engine::new(&model, &here, memory)?;
//! let seq = engine.open()?;
//! engine.prefill(seq, &[1, 414, 435])?;
//! let mut saved = vec![0; engine.snapshot_len(seq)?];
//! engine.snapshot(seq, &mut saved)?;
//!
//! let layout = there.kv_layout(&model, 0).ok_or("no keys and values")?;
//! let block_words = layout.block_bytes / 4;
//! let mut device = Lost { pool: vec![0; layout.blocks * block_words], block_words, ..Lost::default() };
//! let mut remote = Engine::with_device(&model, &there, rest, &mut device)?;
//! let copy = remote.restore(&saved)?;
//! remote.queue(copy, 3, &[261], Logits::Last)?;
//! assert_eq!(remote.step(usize::MAX), Err(EngineError::DeviceLost));
//!
//! // Its tokens are known, and their keys and values are computed again.
//! engine.close(seq)?;
//! let again = engine.replay(&remote, copy)?;
//! while engine.step(usize::MAX)? != Step::Ready {}
//! assert_eq!(engine.seq_len(again), Ok(3));
//! engine.decode_step(again, 261)?;
//! drop(remote);
//! assert_eq!(device.rows, 1);
//! # Ok(())
//! # }
//! ```

mod boundary;
mod choosing;
mod experts;
mod heads;
mod layout;
mod matrix;
mod recurrent;
mod rotary;
mod view;

pub(crate) use boundary::{Attached, Tables};
pub use boundary::{BatchView, BlockCopy, BlockPart, Device, DeviceFault, Row, StatePart, StateSlots};
pub use choosing::{Choosing, Draws};
pub use experts::{AddExpertsView, ChooseView, ExpertGateUpView, ExpertsView, RouteView};
pub use heads::{AttendView, GatesView, HeadNormView, KvLayer, NormRotateView, QkvView, Slopes, SplitView, StoreView};
#[cfg(feature = "recurrent")]
pub(crate) use layout::TAIL_CHANNELS;
pub use layout::{KvLayout, StateLayout};
pub use matrix::{BranchEnd, MatrixView};
pub use recurrent::{ConvolutionView, MixerColumns, MixerInputView, UpdateRule, UpdateView};
pub use rotary::{RotarySet, RotaryView};
pub use view::{
    ActivationSource, AddNormedView, EmbedView, GateUpView, HeadView, InputView, LayerInputsView, NormView, OpView,
    ProjectView, QuantizeView, RenormView, ScaleView,
};
