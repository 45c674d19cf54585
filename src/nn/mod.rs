//! Layers of a network as functions on views and slices. They know shapes, never models.
//!
//! # Example
//!
//! A linear layer, alone and with an adapter's matrix added. The row of inputs is prepared once, for all layers that
//! read it.
//!
//! ```
//! use gleed::kernels::{Combine, Level};
//! use gleed::mem::Matrix;
//! use gleed::nn::{Delta, InputForms, InputRows, Linear};
//! use gleed::tensor::{Dtype, TensorView};
//!
//! /// Numbers as they are in a file.
//! fn bytes(numbers: &[f32]) -> Vec<u8> {
//!     numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
//! }
//!
//! # fn linear() -> Option<()> {
//! let (level, weights, up) = (Level::detect(), bytes(&[1.0, 0.0, 0.0, 0.0, 2.0, 0.0]), bytes(&[100.0, 0.0]));
//! // The words of the row: three inputs, the flag of the adapter, and what its first matrix made of the inputs.
//! let forms = InputForms::of([Dtype::F32]);
//! let mut words = vec![0; forms.words(3)?];
//! forms.prepare(level, &[5.0, 6.0, 7.0], &mut words).ok()?;
//! let flag = words.len();
//! words.extend([1, 3_f32.to_bits()]);
//! let inputs = InputRows::new(&words, words.len(), 3, forms, 1);
//!
//! let delta = Delta { weights: TensorView::new(Dtype::F32, 2, 1, &up)?, flag, low: flag + 1 };
//! let plain = Linear::plain(TensorView::new(Dtype::F32, 2, 3, &weights)?);
//! let adapted = Linear { deltas: &[delta], ..plain };
//! let mut outputs = [[0.0; 2]; 2];
//! // Products with a delta need as much room as those without.
//! let mut scratch = vec![0.0; 2 * Linear::scratch(level, Dtype::F32, 1)?];
//! for (layer, out) in [plain, adapted].iter().zip(&mut outputs) {
//!     let mut tile = Matrix::new(out, 1, 2)?.by_row()?.next()?;
//!     layer.run(level, (&inputs, 0), 0, &mut tile, Combine::Set, &mut scratch)?;
//! }
//! assert_eq!(outputs, [[5.0, 12.0], [305.0, 12.0]]);
//! # Some(())
//! # }
//! # linear().unwrap();
//! ```
//!
//! A head is rotated by its position, and a token gets its experts:
//!
//! ```
//! use gleed::nn::{Choice, Frequencies, RopePairs, Routing, Temperature, Yarn, rotate, rotation};
//!
//! // A model trained on 512 tokens and stretched to 2048: slow pairs turn four times slower, fast ones do not.
//! let yarn = Yarn { context: 512.0, fast: 32.0, slow: 1.0 };
//! let stretched = Frequencies { factor: 4.0, yarn: Some(yarn), ..Frequencies::plain(10_000.0) };
//! let mut frequencies = [0.0; 32];
//! stretched.fill(std::iter::empty(), &mut frequencies);
//! assert_eq!(frequencies[0], 1.0);
//!
//! // Position 3: the table is made once for all heads of the row.
//! let (mut table, mut head) = ([0.0; 64], [0.0; 64]);
//! head[0] = 1.0;
//! rotation(3, &frequencies, 1.0, &mut table);
//! rotate(&mut head, &table, RopePairs::Halves);
//! assert_eq!((head[0], head[32]), (3_f64.cos() as f32, 3_f64.sin() as f32));
//!
//! // Queries far behind the length that the model was first trained on become larger.
//! assert_eq!(Temperature { scale: 0.1, length: 512 }.factor(2048), (1.0 + 0.1 * 5_f64.ln()) as f32);
//!
//! // The two largest of four logits; the lower number comes first among equals.
//! let mut chosen = [Choice::default(); 2];
//! Routing::SOFTMAX_OF_CHOSEN.choose(&[0.1, 2.0, -1.0, 2.0], &[], &mut [0.0; 4], &mut chosen).unwrap();
//! assert_eq!(chosen.map(|choice| (choice.expert, choice.weight)), [(1, 0.5), (3, 0.5)]);
//! ```

mod experts;
mod input;
mod linear;
#[cfg(test)]
mod no_kernel_test;
mod rope;
mod temperature;

pub use experts::{Choice, RouterScores, Routing};
pub use input::{InputForms, InputRows};
pub use linear::{Delta, Linear};
pub use rope::{Frequencies, RopePairs, Yarn, rotate, rotation};
pub use temperature::Temperature;
