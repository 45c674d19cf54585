//! Adapters whose metadata and tensors are changed. Opening or loading one is an error, or two instruction sets give
//! the same logits. A sequence without the adapter has the bits of the model alone.

use std::sync::LazyLock;

use gleed::kernels::Level;
use gleed::model::Adapter;
use gleed::{Engine, EngineError, Limits, Model, Plan};

use crate::support::models::{adapter, tiny};
use crate::support::{Bytes, Exact, damaged, expected, forbidden, random_of, tried, usual};
use common::gguf_writer::{GgufWriter, Meta};
use common::synthetic::{Architecture, SyntheticModel};

static FILES: LazyLock<Vec<(Vec<u8>, GgufWriter)>> = LazyLock::new(|| {
    use Architecture::*;
    let models = [tiny(Llama), tiny(Phi3), SyntheticModel { kv_heads: 2, ..tiny(Gpt2) }, tiny(Gemma2)];
    models.iter().map(|model| (model.bytes(), adapter(model, &["attn_", "ffn_"], 3))).collect()
});

/// The adapter rank for which engines are planned.
const RANK: usize = 16;

/// Number of damaged copies of each file.
const COPIES: usize = 96;
/// One of this many opened copies is loaded and computed with.
const COMPUTED: usize = 16;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let index = bytes.below(FILES.len());
    let other = if bytes.once_in(8) { bytes.below(FILES.len()) } else { index };
    let model = Model::open(&FILES[index].0).expect("a model that was made");
    let mut writer = FILES[other].1.clone();
    (0..bytes.below(6)).for_each(|_| change(&mut writer, &mut bytes));
    let mut file = writer.finish();
    if bytes.once_in(4) {
        for _ in 0..bytes.below(5) {
            let at = bytes.below(file.len());
            file[at] = bytes.u8();
        }
    }
    let file = file.into_boxed_slice();
    tried();
    match forbidden(|| Adapter::open(&file, &model)) {
        Ok(adapter) => compare(&model, &adapter, bytes.f32()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let (mut random, mut opened) = (random_of(data), 0);
    for _ in 0..COPIES {
        let copy = damaged(&file, &mut random);
        tried();
        match forbidden(|| Adapter::open(&copy, &model)) {
            Ok(adapter) => {
                opened += 1;
                if opened % COMPUTED == 0 {
                    compare(&model, &adapter, 1.0);
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn compare(model: &Model<'_>, adapter: &Adapter<'_>, scale: f32) {
    let results =
        [(Level::SCALAR, 2), (usual().level, 5)].map(|(level, rows)| play(model, adapter, scale, level, rows));
    assert!(results[0] == results[1], "other bits on another level");
}

fn change(writer: &mut GgufWriter, bytes: &mut Bytes<'_>) {
    let (at, other) = (bytes.below(writer.tensors.len()), bytes.below(writer.tensors.len()));
    let entry = bytes.below(writer.metadata.len());
    let Some(name) = writer.tensors.get(other).map(|tensor| tensor.name.clone()) else { return };
    let tensor = &mut writer.tensors[at];
    match bytes.u8() % 14 {
        0 => drop(writer.tensors.remove(at)),
        1 => {
            let twice = tensor.clone();
            writer.tensors.push(twice);
        }
        2 if !tensor.dims.is_empty() => {
            let dim = bytes.below(tensor.dims.len());
            tensor.dims[dim] = bytes.odd();
        }
        2 | 3 => tensor.ggml_type = u32::from(bytes.u8() % 40),
        4 => tensor.name = name,
        5 => {
            let value = bytes.f32().to_le_bytes();
            tensor.data.as_chunks_mut().0.fill(value);
        }
        6 => tensor.data.truncate(bytes.below(tensor.data.len() + 1)),
        7 => drop(writer.set("adapter.lora.alpha", bytes.f32())),
        8 | 9 => {
            let value = match bytes.u8() % 3 {
                0 => Meta::U32(bytes.u32()),
                1 => Meta::String(vec![bytes.u8(); 4]),
                _ => Meta::F32(bytes.f32()),
            };
            writer.metadata[entry].1 = value;
        }
        10 => tensor.name = tensor.name.replace("blk.0", "blk.1"),
        11 => rank(tensor, 1 + bytes.below(20)),
        12 => {
            // Both matrices of a pair get the same rank.
            let (base, wanted) = (name.trim_end_matches("_a").trim_end_matches("_b"), 1 + bytes.below(20));
            writer
                .tensors
                .iter_mut()
                .filter(|tensor| tensor.name.starts_with(base))
                .for_each(|tensor| rank(tensor, wanted));
        }
        _ => {
            tensor.ggml_type = if bytes.bool() { 1 } else { 30 };
            tensor.data.truncate(tensor.data.len() / 2);
        }
    }
}

/// Gives a matrix another rank.
fn rank(tensor: &mut common::gguf_writer::Tensor, wanted: usize) {
    let dim = usize::from(tensor.name.ends_with("_a"));
    let [_, _] = tensor.dims[..] else { return };
    tensor.dims[dim] = wanted as u64;
    let elements = tensor.dims[0].wrapping_mul(tensor.dims[1]) % 4096;
    tensor.data.resize(4 * elements as usize, 0x3c);
}

/// Returns the bits of the logits, or `None` if a number is not finite or the engine refuses the adapter or its scale.
fn play(model: &Model<'_>, adapter: &Adapter<'_>, scale: f32, level: Level, rows: usize) -> Option<Vec<u32>> {
    let limits = Limits { sequences: 2, context: 16, rows, adapters: 1, adapter_rank: RANK, level, ..usual() };
    let plan = Plan::new(model, &limits).expect("limits that are possible");
    let mut memory = Exact::new(plan.bytes(), 7);
    let mut engine = Engine::new(model, &plan, memory.bytes()).expect("memory of the plan");
    let (with, without) = (engine.open().expect("a sequence"), engine.open().expect("a sequence"));
    let bits = |logits: &[f32]| logits.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    let plain = bits(engine.prefill(without, &[1, 2, 3]).expect("the model alone"));
    match forbidden(|| engine.load_adapter(adapter)) {
        Ok(number) => assert_eq!(number, 0),
        Err(EngineError::AdapterRoom { given, .. }) => {
            assert!(given > RANK);
            return None;
        }
        Err(error) => panic!("{error:?}"),
    }
    match forbidden(|| engine.set_adapter(with, 0, scale)) {
        Ok(()) => assert!(scale.is_finite()),
        Err(error) => {
            assert!(error == EngineError::AdapterScale && !scale.is_finite());
            return None;
        }
    }
    let result = match forbidden(|| engine.prefill(with, &[1, 2, 3, 4, 5]).map(drop)) {
        Ok(()) => Some(bits(engine.logits(with).expect("logits of the last token"))),
        Err(error) => {
            assert!(matches!(expected(error), EngineError::NonFinite { .. }), "{error:?}");
            assert_eq!(engine.seq_len(with), Ok(0), "what failed is not there");
            None
        }
    };
    engine.reset(without).expect("an open sequence");
    assert!(
        plain == bits(engine.prefill(without, &[1, 2, 3]).expect("the model alone")),
        "other bits beside an adapter"
    );
    assert_eq!(engine.cache().check(), Ok(()));
    result
}
