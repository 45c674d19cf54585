//! Gleed's logits, compared with the f64 reference, with the fixtures of other engines, and with llama.cpp's own error.

use common::fixtures::{self, Parity, Quant};
use common::random::Rng;
use common::reference::{Reference, Rows};
use common::synthetic::SyntheticModel;
use common::{Memory, argmax, dequantize, rel_l2, shared_file};
use gleed::tensor::Dtype;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan};

/// Largest relative L2 error of a row with F32 weights and an F32 cache.
const ROW_ERROR: f64 = 1e-5;
/// Most that a quantized model's error may be, as a multiple of llama.cpp's error.
const OTHER_ENGINE: f64 = 1.2;

/// Returns the logits of every row: `prompt` in one prefill, then `more` token by token.
fn logits(file: &[u8], kv_type: KvType, prompt: &[u32], more: &[u32]) -> Vec<Vec<f32>> {
    let model = Model::open(file).unwrap();
    let context = prompt.len() + more.len();
    let limits = Limits { context, rows: 32, logit_rows: 32, kv_kind: KvKind::Paged, kv_type, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let mut rows = vec![Vec::new(); prompt.len()];
    engine.prefill_rows(sequence, prompt, |position, logits| rows[position] = logits.to_vec()).unwrap();
    for token in more {
        rows.push(engine.decode_step(sequence, *token).unwrap().to_vec());
    }
    rows
}

/// Compares every row of the engine with the reference. Returns the largest relative error.
fn worst_row(actual: &[Vec<f32>], expected: &Rows) -> f64 {
    assert_eq!(actual.len(), expected.len());
    actual.iter().zip(expected.iter()).map(|(a, e)| rel_l2(a, e)).inspect(|e| assert!(!e.is_nan())).fold(0.0, f64::max)
}

#[test]
fn parity_fixtures() {
    for name in Parity::ALL.into_iter().chain(Parity::MORE) {
        let Some(parity) = Parity::load(name) else { continue };
        let sequence = parity.sequence();
        let actual = logits(&parity.gguf, KvType::F32, &parity.prompt, &parity.greedy);
        for (position, expected) in parity.positions.iter().zip(parity.logits.iter()) {
            let error = rel_l2(&actual[*position], expected);
            assert!(error <= ROW_ERROR, "{name}: relative error {error:e} at position {position}");
        }
        let worst = worst_row(&actual, &Reference::open(&parity.gguf).logits(&sequence));
        assert!(worst <= ROW_ERROR, "{name}: relative error {worst:e}");
        // The arg-max of each row is the next token of the reference's greedy decoding.
        let greedy: Vec<u32> =
            actual[parity.prompt.len() - 1..sequence.len() - 1].iter().map(|row| argmax(row)).collect();
        assert_eq!(greedy, parity.greedy, "{name}");
        println!("{name}: relative error of the worst row {worst:.1e}");
    }
}

/// Shapes that no fixture has: odd sizes, one head, as many KV heads as heads, one layer.
#[test]
fn made_models_of_many_shapes() {
    let llama = SyntheticModel::llama;
    let models = [
        llama(),
        SyntheticModel::qwen3(),
        SyntheticModel { tied: true, rope_freqs: true, ..llama() },
        SyntheticModel { hidden: 40, ffn: 56, heads: 1, kv_heads: 1, head_dim: 10, ..llama() },
        SyntheticModel { hidden: 17, ffn: 1, layers: 1, heads: 3, kv_heads: 3, head_dim: 2, vocab: 5, ..llama() },
        SyntheticModel { hidden: 24, heads: 6, kv_heads: 2, head_dim: 20, ..SyntheticModel::qwen3() },
        SyntheticModel { layers: 6, tied: true, ..llama() },
    ];
    for model in models {
        let file = model.bytes();
        let tokens = Rng::new(7).tokens(70, model.vocab);
        let actual = logits(&file, KvType::F32, &tokens[..50], &tokens[50..]);
        let worst = worst_row(&actual, &Reference::open(&file).logits(&tokens));
        assert!(worst <= ROW_ERROR, "relative error {worst:e}: {model:?}");
    }
}

/// A sequence that has several chunks of 256 positions and reaches the end of the context.
#[test]
fn long_sequence() {
    for model in [SyntheticModel::llama(), SyntheticModel::qwen3()] {
        let model = SyntheticModel { layers: 1, context: 700, ..model };
        let file = model.bytes();
        let tokens = Rng::new(8).tokens(700, model.vocab);
        let actual = logits(&file, KvType::F32, &tokens[..650], &tokens[650..]);
        let worst = worst_row(&actual, &Reference::open(&file).logits(&tokens));
        assert!(worst <= ROW_ERROR, "relative error {worst:e}: {model:?}");
    }
}

#[test]
fn quantized_fixtures() {
    let mut same = SameCodes::default();
    for quant in Quant::load_all() {
        let mut reference = Reference::with(&quant.gguf, dequantize);
        let exact = reference.logits(&quant.prompt);
        for (position, expected) in quant.positions.iter().zip(quant.ideal.iter()) {
            let error = rel_l2(exact.row(*position), expected);
            assert!(error <= 1e-8, "{}: the reference itself is off by {error:e}", quant.name);
        }
        let actual = logits(&quant.gguf, KvType::F32, &quant.prompt, &[]);
        let (ours, theirs) = (rel_l2(&actual.concat(), &exact.data), quant.llama_cpp_error);
        println!("{}: relative error {ours:.5}, llama.cpp {theirs:.5}, ratio {:.3}", quant.name, ours / theirs);
        assert!(ours <= OTHER_ENGINE * theirs, "{}: relative error {ours}, llama.cpp's is {theirs}", quant.name);
        if quant.name.ends_with("F16") {
            // Activations have 13 bits here, and 11 in llama.cpp. After a few layers most are rounded differently than
            // in f64.
            assert!(ours <= 0.5 * theirs, "{}: relative error {ours}, llama.cpp's is {theirs}", quant.name);
            continue;
        }
        reference.int8_activations = true;
        same.count(&quant.name, &actual, &reference.logits(&quant.prompt));
    }
    same.assert_most();
}

/// Covers every format, even on a fresh clone.
#[test]
fn made_models_of_every_type() {
    let mut same = SameCodes::default();
    for weights in Dtype::ALL {
        let model =
            SyntheticModel { hidden: 256, ffn: 512, heads: 8, head_dim: 32, weights, ..SyntheticModel::llama() };
        let file = model.bytes();
        let tokens = Rng::new(9).tokens(40, model.vocab);
        let mut reference = Reference::with(&file, dequantize);
        let actual = logits(&file, KvType::F32, &tokens, &[]);
        let error = rel_l2(&actual.concat(), &reference.logits(&tokens).data);
        let limit = match weights {
            Dtype::F32 | Dtype::BF16 => ROW_ERROR,
            Dtype::F16 => 3e-4,
            _ => 0.04,
        };
        assert!(error <= limit, "{}: relative error {error:e}", weights.name());
        if weights == Dtype::F16 {
            continue;
        }
        reference.int8_activations = true;
        same.count(weights.name(), &actual, &reference.logits(&tokens));
    }
    same.assert_most();
}

/// Compares the model that the examples carry.
#[test]
fn demo_model() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf")).unwrap();
    // "Once upon a time" and the greedy continuation of the F32 model.
    let tokens =
        [1, 414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509, 387, 945, 320, 511, 270, 368, 686, 317, 265, 705];
    let mut reference = Reference::open(&file);
    let actual = logits(&file, KvType::F32, &tokens, &[]);
    let error = rel_l2(&actual.concat(), &reference.logits(&tokens).data);
    println!("relative error {error:.5}");
    assert!(error <= 0.01, "relative error {error}");
    reference.int8_activations = true;
    SameCodes::default().count("demo model", &actual, &reference.logits(&tokens));
}

/// Counts rows that equal, apart from f32, those of the reference with the same rounding of activations.
///
/// Not all rows do. If an activation is so near the middle between two codes that f32 and f64 take different codes, its
/// row and the rows that attend to it are off by a hundredth.
#[derive(Default)]
struct SameCodes {
    same: usize,
    all: usize,
}

impl SameCodes {
    fn count(&mut self, name: &str, actual: &[Vec<f32>], rounded: &Rows) {
        let same = actual.iter().zip(rounded.iter()).filter(|(a, e)| rel_l2(a, e) <= ROW_ERROR).count();
        println!("{name}: {same} of {} rows with the same codes", actual.len());
        assert!(same > 0, "{name}: no row with the same codes");
        self.same += same;
        self.all += actual.len();
    }

    fn assert_most(&self) {
        assert!(4 * self.same >= 3 * self.all, "{} of {} rows with the same codes", self.same, self.all);
    }
}

/// The cache rounds K and V once, and has no other error.
#[test]
fn f16_cache() {
    for name in Parity::ALL {
        let Some(parity) = Parity::load(name) else { continue };
        let actual = logits(&parity.gguf, KvType::F16, &parity.prompt, &parity.greedy);
        let worst = worst_row(&actual, &Reference::open(&parity.gguf).logits(&parity.sequence()));
        println!("{name}: relative error of the worst row with an f16 cache {worst:.1e}");
        assert!((1e-5..5e-3).contains(&worst), "{name}: relative error {worst:e}");
    }
}

#[test]
fn stories_260k() {
    let Some(model) = shared_file("models/stories260K/stories260K.gguf") else { return };
    let expected = fixtures::parse_json(&shared_file("models/stories260K/EXPECTED.json").unwrap());
    assert_greedy(&model, &[1], &fixtures::ids(&expected["greedy_ids"]));
}

#[test]
fn gleed_tales() {
    let Some(model) = shared_file("models/gleed-tales/gleed-tales-f32.gguf") else { return };
    let expected = fixtures::parse_json(&shared_file("models/gleed-tales/EXPECTED.json").unwrap());
    for story in expected["greedy"].as_array().unwrap() {
        assert_greedy(&model, &fixtures::ids(&story["prompt_ids"]), &fixtures::ids(&story["ids"]));
    }
    for row in expected["logits"].as_array().unwrap() {
        let prompt = fixtures::ids(&row["prompt_ids"]);
        let actual = logits(&model, KvType::F32, &prompt, &[]);
        let error = rel_l2(actual.last().unwrap(), &fixtures::numbers(&row["logits"]));
        assert!(error <= ROW_ERROR, "relative error {error:e}");
    }
}

/// Checks that greedy decoding from `prompt` gives `expected`: the arg-max of every row is the next token.
fn assert_greedy(file: &[u8], prompt: &[u32], expected: &[u32]) {
    let rows = logits(file, KvType::F32, prompt, &expected[..expected.len() - 1]);
    let chosen: Vec<u32> = rows[prompt.len() - 1..].iter().map(|row| argmax(row)).collect();
    assert_eq!(chosen, expected);
}
