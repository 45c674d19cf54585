//! What another machine than the CPU needs to run a model's program: the operations with their tensors, and how keys and
//! values lie in memory.
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

mod layout;
mod rotary;
mod view;

pub use layout::KvLayout;
pub use rotary::{RotarySet, RotaryView};
pub use view::{
    ActivationSource, AddNormedView, AttendView, BranchEnd, EmbedView, GateUpView, HeadNormView, HeadView, InputView,
    KvLayer, MatrixView, NormRotateView, NormView, OpView, ProjectView, QkvView, QuantizeView, Slopes, StoreView,
};
