//! Models of llama2.c, in its first format: seven numbers, then all weights as f32 in a fixed order.

use std::borrow::Cow;

use gleed::tensor::Dtype;

use crate::output::{Contents, Matrix, Output, Tensor};
use crate::vocab::{self, Vocab};
use common::Result;
use common::gguf::Value;

/// The sizes in the header.
struct Sizes {
    hidden: usize,
    ffn: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocab: usize,
    context: usize,
    /// Whether the embedding is the output matrix.
    tied: bool,
}

/// A model whose vocabulary is in another file.
pub(crate) struct Model<'a> {
    sizes: Sizes,
    weights: &'a [u8],
}

impl<'a> Model<'a> {
    pub(crate) fn read(file: &'a [u8]) -> Result<Self> {
        let (sizes, weights) = Sizes::read(file)?;
        Ok(Self { sizes, weights })
    }

    /// Returns the vocabulary, read from the bytes of tokenizer.bin or tokenizer.model.
    pub(crate) fn vocab(&self, tokenizer: &[u8]) -> Result<Vocab> {
        vocab::of_llama2c(tokenizer, self.sizes.vocab)
    }

    /// Returns the metadata and tensors to write.
    pub(crate) fn output(self, vocab: Vocab) -> Result<Output<'a>> {
        let Self { sizes, weights: mut rest } = self;
        let mut output = Output::default();
        sizes.describe(&mut output);
        vocab.write(&mut output.header);
        for (name, rows, cols, of_layers) in sizes.order() {
            // The tensors of one kind follow each other for all layers.
            for layer in 0..if of_layers { sizes.layers } else { 1 } {
                let bytes = take(&mut rest, 4 * rows * cols)?;
                let name = if of_layers { format!("blk.{layer}.{name}.weight") } else { format!("{name}.weight") };
                output.tensors.push(tensor(name, rows, cols, bytes));
            }
            if name == "output_norm" {
                // Skip the cosines and sines of all positions.
                take(&mut rest, 4 * sizes.context * (sizes.hidden / sizes.heads))?;
            }
        }
        if !rest.is_empty() {
            let left = rest.len();
            return Err(format!("{left} bytes are left over: it is no llama2.c model of the first format").into());
        }
        Ok(output)
    }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let left = rest.len();
    let short =
        || format!("{len} bytes of weights are wanted where {left} are left: it is no llama2.c model, or cut off");
    let (taken, after) = rest.split_at_checked(len).ok_or_else(short)?;
    *rest = after;
    Ok(taken)
}

fn tensor(name: String, rows: usize, cols: usize, bytes: &[u8]) -> Tensor<'_> {
    let dims = if rows == 1 { vec![cols] } else { vec![cols, rows] };
    let matrix = Matrix { dtype: Dtype::F32, rows, cols, transposed: false, bytes: Cow::Borrowed(bytes), scales: None };
    Tensor { name, dims, contents: Contents::same(matrix) }
}

impl Sizes {
    fn read(file: &[u8]) -> Result<(Self, &[u8])> {
        if file.starts_with(b"ak42") || file.starts_with(b"24ka") {
            return Err("it is a llama2.c model of version 1 or later; export it with --version 0".into());
        }
        let (header, rest) = file.split_first_chunk::<28>().ok_or("it is no llama2.c model: it is too short")?;
        let numbers: Vec<i32> = header.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
        let size = |index: usize| numbers.get(index).map_or(0, |number| number.unsigned_abs() as usize);
        let sizes = Self {
            hidden: size(0),
            ffn: size(1),
            layers: size(2),
            heads: size(3),
            kv_heads: size(4),
            vocab: size(5),
            context: size(6),
            // A negative vocabulary size means that there is an output matrix.
            tied: numbers.get(5).is_some_and(|&number| number > 0),
        };
        let positive = numbers.iter().enumerate().all(|(index, &number)| number > 0 || index == 5 && number < 0);
        let likely = positive && (0..7).all(|index| size(index) < 1 << 22);
        if !likely || !sizes.hidden.is_multiple_of(sizes.heads) || !sizes.heads.is_multiple_of(sizes.kv_heads) {
            return Err("it is no GGUF file, and no llama2.c model: the sizes at its start are impossible".into());
        }
        Ok((sizes, rest))
    }

    /// Returns name, rows, columns, and whether each layer has one, for all tensors in the order of the file.
    fn order(&self) -> Vec<(&'static str, usize, usize, bool)> {
        let Self { hidden, ffn, vocab, .. } = *self;
        let kv = hidden / self.heads * self.kv_heads;
        let mut order = vec![
            ("token_embd", vocab, hidden, false),
            ("attn_norm", 1, hidden, true),
            ("attn_q", hidden, hidden, true),
            ("attn_k", kv, hidden, true),
            ("attn_v", kv, hidden, true),
            ("attn_output", hidden, hidden, true),
            ("ffn_norm", 1, hidden, true),
            ("ffn_gate", ffn, hidden, true),
            ("ffn_down", hidden, ffn, true),
            ("ffn_up", ffn, hidden, true),
            ("output_norm", 1, hidden, false),
        ];
        if !self.tied {
            order.push(("output", vocab, hidden, false));
        }
        order
    }

    fn describe(&self, output: &mut Output<'_>) {
        output.header.set("general.architecture", Value::Text("llama".into()));
        let sizes = [
            ("block_count", self.layers),
            ("context_length", self.context),
            ("embedding_length", self.hidden),
            ("feed_forward_length", self.ffn),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("rope.dimension_count", self.hidden / self.heads),
            ("vocab_size", self.vocab),
        ];
        for (name, size) in sizes {
            output.header.set(&format!("llama.{name}"), Value::U32(size as u32));
        }
        output.header.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
        output.header.set("llama.rope.freq_base", Value::F32(10_000.0));
    }
}
