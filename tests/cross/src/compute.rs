//! Computes what is hashed: the logits of the demo model and of small models with all other mechanisms, a snapshot, and
//! products with weights of every type.

use gleed::cache::SnapshotOptions;
use gleed::kernels::{Inputs, Level, OUTPUTS};
use gleed::num::Xxh64;
use gleed::quant::{form, row_words};
use gleed::tensor::{Dtype, TensorView};
use gleed::{Engine, KvType, Limits, Model, Plan};

/// Bytes of memory that [`hash`] needs.
pub const ARENA: usize = 2 << 20;

static DEMO: &[u8] = include_bytes!("../../../examples/assets/gleed-tales-q8_0.gguf");

/// Small models that have both norms, most activations, soft caps or ALiBi, factors, windows, experts, groups of
/// experts and shared experts, gates, sinks, a temperature, parallel branches, every kind of recurrent layer, and
/// layers of two shapes.
static OTHERS: [&[u8]; 23] = [
    include_bytes!("../../data/more/gemma3-linear.gguf"),
    include_bytes!("../../data/more/gptneox-sequential.gguf"),
    include_bytes!("../../data/more/granite.gguf"),
    include_bytes!("../../data/more/mixtral.gguf"),
    include_bytes!("../../data/more/mpt.gguf"),
    include_bytes!("../../data/more/stablelm-parallel.gguf"),
    include_bytes!("../../data/more/starcoder2.gguf"),
    include_bytes!("../../data/newer/afmoe.gguf"),
    include_bytes!("../../data/newer/exaone4.gguf"),
    include_bytes!("../../data/newer/gemma4-moe.gguf"),
    include_bytes!("../../data/newer/glm4moe-groups.gguf"),
    include_bytes!("../../data/newer/gpt-oss.gguf"),
    include_bytes!("../../data/newer/granite_swa.gguf"),
    include_bytes!("../../data/newer/hunyuan-dense.gguf"),
    include_bytes!("../../data/newer/lfm2moe.gguf"),
    include_bytes!("../../data/newer/mistral3.gguf"),
    include_bytes!("../../data/recurrent/falcon-h1.gguf"),
    include_bytes!("../../data/recurrent/granitehybrid.gguf"),
    include_bytes!("../../data/recurrent/lfm2.gguf"),
    include_bytes!("../../data/recurrent/nemotron_h.gguf"),
    include_bytes!("../../data/recurrent/qwen35.gguf"),
    include_bytes!("../../data/newer/qwen35moe.gguf"),
    include_bytes!("../../data/shapes/gemma4.gguf"),
];

/// Encoders with a window to both sides and a matrix behind the pooling, with learned positions, and with rotated
/// queries and a gate.
static ENCODERS: [&[u8]; 3] = [
    include_bytes!("../../data/newer/gemma-embedding.gguf"),
    include_bytes!("../../data/newer/bert.gguf"),
    include_bytes!("../../data/newer/nomic-bert.gguf"),
];

/// Returns the hash of all results on a level, or `None` if something is refused.
pub fn hash(level: Level, arena: &mut [u8]) -> Option<u64> {
    let mut hash = Xxh64::new();
    for kv_type in [KvType::F16, KvType::F32, KvType::Q8_0, KvType::Q4_0] {
        model(DEMO, level, kv_type, arena, &mut hash)?;
    }
    for file in OTHERS {
        model(file, level, KvType::F16, arena, &mut hash)?;
    }
    for file in ENCODERS {
        encoder(file, level, arena, &mut hash)?;
    }
    for (seed, dtype) in Dtype::ALL.into_iter().enumerate() {
        products(level, dtype, seed as u64, &mut hash)?;
    }
    Some(hash.finish())
}

/// Hashes the logits of a prompt in batches of several sizes, then of single tokens, and a snapshot if there is no
/// window.
fn model(file: &[u8], level: Level, kv_type: KvType, arena: &mut [u8], hash: &mut Xxh64) -> Option<()> {
    const TOKENS: usize = 40;
    let model = Model::open(file).ok()?;
    let limits = Limits { context: 64, rows: 20, logit_rows: 20, kv_type, level, ..Limits::default() };
    let plan = Plan::new(&model, &limits).ok()?;
    let arena = arena.get_mut(arena.as_ptr().align_offset(plan.alignment())..)?;
    let mut engine = Engine::new(&model, &plan, arena).ok()?;
    let ids: [u32; TOKENS] = core::array::from_fn(|i| (i as u32 * 397 + 1) % model.config().vocab as u32);
    let sequence = engine.open().ok()?;
    let add = |hash: &mut Xxh64, logits: &[f32]| logits.iter().for_each(|x| hash.update(&x.to_le_bytes()));
    let (mut rest, mut sizes) = (&ids[..], [20, 7, 3, 2].into_iter());
    while let Some((batch, after)) = rest.split_at_checked(sizes.next().unwrap_or(1)).filter(|_| !rest.is_empty()) {
        engine.prefill_rows(sequence, batch, |_, logits| add(hash, logits)).ok()?;
        rest = after;
    }
    let write = |bytes: &[u8]| {
        hash.update(bytes);
        Ok::<(), ()>(())
    };
    // Tokens that a window has passed cannot be written any more.
    if model.config().windows == [0; 2] {
        engine.write_snapshot(sequence, &SnapshotOptions::default(), write).ok()?;
    }
    Some(())
}

/// Hashes the vectors of texts of two lengths.
fn encoder(file: &[u8], level: Level, arena: &mut [u8], hash: &mut Xxh64) -> Option<()> {
    const TOKENS: usize = 40;
    let model = Model::open(file).ok()?;
    let pooling = model.pooling()?;
    let limits = Limits { context: TOKENS, rows: TOKENS, level, ..Limits::default() };
    let plan = Plan::new(&model, &limits).ok()?;
    let arena = arena.get_mut(arena.as_ptr().align_offset(plan.alignment())..)?;
    let mut engine = Engine::new(&model, &plan, arena).ok()?;
    let ids: [u32; TOKENS] = core::array::from_fn(|i| (i as u32 * 397 + 1) % model.config().vocab as u32);
    let sequence = engine.open().ok()?;
    let mut vector = [0.0; 64];
    let vector = vector.get_mut(..model.config().embedding_len(pooling)?)?;
    for len in [TOKENS, 7] {
        engine.embed(sequence, ids.get(..len)?, pooling, vector).ok()?;
        engine.reset(sequence).ok()?;
        vector.iter().for_each(|x| hash.update(&x.to_le_bytes()));
    }
    Some(())
}

/// Hashes products of a few rows of inputs with weights of random codes and ordinary scales.
fn products(level: Level, dtype: Dtype, seed: u64, hash: &mut Xxh64) -> Option<()> {
    const COLS: usize = 768;
    const ROWS: usize = 7;
    const INPUTS: usize = 7;
    let mut random = Random(seed);
    let mut bytes = [0; ROWS * COLS * 4];
    let bytes = bytes.get_mut(..ROWS * dtype.row_bytes(COLS)?)?;
    bytes.fill_with(|| random.next() as u8);
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for &at in float_exponents(dtype) {
            // The upper byte of a number: near 1 in F32 and BF16, near 2^-7 in f16.
            *block.get_mut(at)? = if matches!(dtype, Dtype::F32 | Dtype::BF16) { 0x3f } else { 0x20 };
        }
    }
    let weights = TensorView::new(dtype, ROWS, COLS, bytes)?;
    let mut words = [0; INPUTS * COLS];
    let (form, mut x) = (form(dtype), [0.0; COLS]);
    let stride = row_words(form, COLS)?;
    for row in words.chunks_exact_mut(stride).take(INPUTS) {
        x.fill_with(|| (random.next() as i32 >> 8) as f32 * 1e-6);
        level.quantize_row(form, &x, row).ok()?;
    }
    let (mut out, mut scratch) = ([0.0; INPUTS * OUTPUTS], [0.0; 1 << 15]);
    for inputs in [1, 2, 3, INPUTS] {
        level.products(weights, &Inputs::new(form, inputs, COLS, &words, stride)?, &mut out, &mut scratch)?;
        for out in out.chunks_exact(OUTPUTS).take(inputs) {
            out.iter().take(ROWS).for_each(|y| hash.update(&y.to_le_bytes()));
        }
    }
    Some(())
}

/// Returns the offsets of the upper bytes of the numbers in a block.
fn float_exponents(dtype: Dtype) -> &'static [usize] {
    match dtype {
        Dtype::F32 => &[3],
        Dtype::F16 | Dtype::BF16 => &[1],
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4_K | Dtype::Q5_K => &[1, 3],
        Dtype::Q2_K => &[81, 83],
        Dtype::Q3_K => &[109],
        Dtype::Q6_K => &[209],
        Dtype::TQ1_0 => &[53],
        Dtype::TQ2_0 => &[65],
        Dtype::IQ1_M => &[55],
        // These scales are one byte each: an exponent, and floats.
        Dtype::MXFP4 => &[0],
        Dtype::NVFP4 => &[0, 1, 2, 3],
        _ => &[1],
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
