//! Checks the oracle itself. Before it judges Gleed, the f64 reference of these tests must agree with logits, greedy
//! ids and losses that other programs computed.

use common::fixtures::{self, Embedder, Parity, Parity2026, Quant};
use common::random::Rng;
use common::reference::config::{Activation, Scores};
use common::reference::config::{Config, Scaling};
use common::reference::{Reference, Rows};
use common::synthetic::{Architecture, SyntheticModel};
use common::{argmax, committed, dequantize, rel_l2, shared_file, spm};
use gguf_rs_lite::Gguf;
use gleed::tensor::Dtype;
use serde_json::Value;

/// Largest relative L2 error of a row. The fixtures have nine significant digits.
const ROW_ERROR: f64 = 1e-8;
/// Largest error with Gemma, whose norm weights were rounded when the converter added 1.
const GEMMA_ERROR: f64 = 5e-7;
/// Largest error if numbers of the configuration were rounded, too.
const ROUNDED_ERROR: f64 = 5e-6;

#[test]
fn parity_fixtures() {
    for name in Parity::ALL.into_iter().chain(Parity::MORE) {
        let Some(parity) = Parity::load(name) else { continue };
        let mut reference = Reference::open(&parity.gguf);
        if name == "llama3-rope" {
            use_exact_rope_factors(&mut reference);
        }
        let trace = reference.trace(&parity.sequence());
        assert_greedy(&trace.logits, parity.prompt.len(), &parity.greedy);
        let limit = if name.starts_with("gemma") { GEMMA_ERROR } else { ROW_ERROR };
        let logits = worst_row(limit, &trace.logits, &parity.positions, &parity.logits);
        // The fixture lacks the output of the last layer before the norm.
        let layers = &trace.residual[..trace.residual.len() - 1];
        let hidden: Vec<&Rows> = layers.iter().chain([&trace.normed]).collect();
        assert_eq!(hidden.len(), parity.hidden.len());
        let mut worst = 0f64;
        for (actual, expected) in hidden.into_iter().zip(parity.hidden.iter()) {
            worst = at_most(limit, worst, rel_l2(actual.row(parity.hidden_position), expected));
        }
        println!("{name}: largest relative error of a row of logits {logits:.1e}, inside {worst:.1e}");
        for variant in &parity.variants {
            let mut reference = Reference::open(&parity.gguf);
            match &variant.name[..] {
                "full_attention" => reference.config.window = 0,
                "gelu_tanh" => reference.config.architecture.activation = Activation::GeluTanh,
                other => panic!("variant {other}"),
            }
            let logits = reference.logits(&[&parity.prompt[..], &variant.greedy].concat());
            assert_greedy(&logits, parity.prompt.len(), &variant.greedy);
            let worst = worst_row(limit, &logits, &variant.positions, &variant.logits);
            println!("{name}, {}: largest relative error of a row of logits {worst:.1e}", variant.name);
        }
    }
}

/// Compares the hidden state of every token in models of vectors. The reference has no heads behind the pooling.
#[test]
fn embedders() {
    for name in Embedder::ALL.into_iter().chain(Embedder::MORE) {
        let Some(fixture) = Embedder::load(name) else { continue };
        let normed = Reference::open(&fixture.gguf).trace(&fixture.inputs[fixture.token_input]).normed;
        let positions: Vec<usize> = (0..normed.len()).collect();
        let worst = worst_row(ROUNDED_ERROR, &normed, &positions, &fixture.token_embeddings);
        println!("{name}: largest relative error of a token's row {worst:.1e}");
    }
}

/// Covers the newer families. Their norms and keys were rounded to f32 for the file.
#[test]
fn parity_2026_fixtures() {
    let shared = Parity2026::DECODERS.into_iter().chain(Parity2026::MORE);
    let shared = shared.filter_map(|name| Some((name.to_owned(), Parity2026::load(name)?)));
    for (name, fixture) in shared.chain(Parity2026::of_folder(&committed("newer"))) {
        let mut reference = Reference::open(&fixture.gguf);
        for case in [&fixture.main, &fixture.long] {
            let logits = reference.logits(&[&case.prompt[..], &case.greedy].concat());
            assert_greedy(&logits, case.prompt.len(), &case.greedy);
            let worst = worst_row(ROUNDED_ERROR, &logits, &case.positions, &case.logits);
            println!("{name}: largest relative error of a row of logits {worst:.1e}");
        }
        if let Some(reset) = &fixture.state_reset {
            let tokens = [&fixture.main.prompt[..], &fixture.main.greedy].concat();
            let kept = reference.logits(&tokens);
            reference.forgets_before = Some(reset.at);
            let lost = reference.logits(&tokens);
            for (position, expected) in &reset.change {
                let pairs = kept.row(*position).iter().zip(lost.row(*position));
                let change = pairs.fold(0f64, |worst, (kept, lost)| worst.max((kept - lost).abs()));
                assert!((change / expected - 1.0).abs() < 6e-3, "{name}: {change} at {position} instead of {expected}");
            }
        }
    }
}

/// Returns the largest relative error of a row of `expected`.
fn worst_row(limit: f64, actual: &Rows, positions: &[usize], expected: &Rows) -> f64 {
    let rows = positions.iter().zip(expected.iter());
    rows.fold(0.0, |worst, (position, expected)| at_most(limit, worst, rel_l2(actual.row(*position), expected)))
}

#[test]
fn quantized_fixtures() {
    for quant in Quant::load_all().chain(Quant::load("qwen2-odd", "Q4_K_M")) {
        let logits = Reference::with(&quant.gguf, dequantize).logits(&quant.prompt);
        let worst = worst_row(ROW_ERROR, &logits, &quant.positions, &quant.ideal);
        println!("{}: largest relative error of a row {worst:.1e}", quant.name);
    }
}

/// With activations rounded as llama.cpp rounds them, the reference has the error of llama.cpp. With scales in f32, as
/// in blocks of 256, it even gives llama.cpp's own logits, until an activation is so near the middle between two codes
/// that f32 and f64 take different codes.
#[test]
fn quantized_activations() {
    for quant in Quant::load_all().chain(Quant::load("qwen2-odd", "Q4_K_M")) {
        let mut reference = Reference::with(&quant.gguf, dequantize);
        let exact = reference.logits(&quant.prompt);
        reference.int8_activations = true;
        let rounded = reference.logits(&quant.prompt);
        let error = rel_l2(&rounded.data, &exact.data);
        let first_row = rel_l2(quant.llama_cpp.row(0), rounded.row(quant.positions[0]));
        let other = quant.llama_cpp_error;
        println!("{}: relative error {error:.5}, llama.cpp {other:.5}, first row {first_row:.1e}", quant.name);
        if quant.name.ends_with("F16") {
            assert_eq!(error, 0.0);
            continue;
        }
        assert!((error / other - 1.0).abs() < 0.1, "{}: relative error {error} instead of {other}", quant.name);
        // In Q4_K_M, the first row already has an activation that rounds to different codes.
        if quant.blocks_of_256 && !quant.name.ends_with("Q4_K_M") {
            at_most(1e-6, 0.0, first_row);
        }
    }
}

#[test]
fn stories_260k() {
    let Some(model) = shared_file("models/stories260K/stories260K.gguf") else { return };
    let expected = fixtures::parse_json(&shared_file("models/stories260K/EXPECTED.json").unwrap());
    let reference = Reference::open(&model);
    let greedy = fixtures::ids(&expected["greedy_ids"]);
    assert_greedy(&reference.logits(&[&[1], &greedy[..greedy.len() - 1]].concat()), 1, &greedy);
    let text = fixtures::ids(&expected["text_ids"]);
    let loss = loss(&reference, &text) / (text.len() - 1) as f64;
    assert_close(loss, fixtures::number(&expected["nll_per_token"]));
}

#[test]
fn gleed_tales() {
    let Some(model) = shared_file("models/gleed-tales/gleed-tales-f32.gguf") else { return };
    let expected = fixtures::parse_json(&shared_file("models/gleed-tales/EXPECTED.json").unwrap());
    let reference = Reference::open(&model);
    let gguf = Gguf::parse(&model).unwrap();
    for story in list(&expected["greedy"]) {
        let prompt = fixtures::ids(&story["prompt_ids"]);
        assert_eq!(spm::encode(&gguf, story["prompt"].as_str().unwrap()), prompt);
        let greedy = fixtures::ids(&story["ids"]);
        assert_greedy(&reference.logits(&[&prompt[..], &greedy].concat()), prompt.len(), &greedy);
    }
    for row in list(&expected["logits"]) {
        let prompt = fixtures::ids(&row["prompt_ids"]);
        let logits = reference.logits(&prompt);
        let error = rel_l2(logits.row(prompt.len() - 1), &fixtures::numbers(&row["logits"]));
        assert!(error <= 1e-12, "{error}");
    }
    // The shortest of the quoted stories.
    let stories = list(&expected["validation_quoted"]["texts"]);
    let story = stories.iter().min_by_key(|story| story["tokens"].as_u64()).unwrap();
    let ids = [spm::encode(&gguf, story["text"].as_str().unwrap()), vec![2]].concat();
    assert_eq!(ids.len() - 1, fixtures::index(&story["tokens"]));
    assert_close(loss(&reference, &ids), fixtures::number(&story["nats"]));
}

/// A fresh clone tests with these models: models of every type whose logits have a usual size and depend on the whole
/// sequence.
#[test]
fn synthetic_models() {
    let mut models: Vec<SyntheticModel> = SyntheticModel::all().into_iter().map(|(_, model)| model).collect();
    let odd = |model| SyntheticModel { hidden: 19, ffn: 13, heads: 3, kv_heads: 1, head_dim: 6, vocab: 41, ..model };
    models.extend(Architecture::ALL.map(|architecture| odd(SyntheticModel::of(architecture))));
    models.push(SyntheticModel { tied: true, rope_freqs: true, ..SyntheticModel::llama() });
    models.push(SyntheticModel { vocab: 33, kv_heads: 4, layers: 1, ..SyntheticModel::llama() });
    for weights in Dtype::ALL {
        let wide = SyntheticModel { hidden: 256, ffn: 256, layers: 1, weights, ..SyntheticModel::llama() };
        models.push(SyntheticModel { heads: 8, head_dim: 32, ..wide });
    }
    for model in models {
        let vocab = model.vocab;
        let file = model.bytes();
        assert_eq!(file, model.bytes());
        let reference = Reference::with(&file, dequantize);
        let tokens: Vec<u32> = (0..40).map(|i| (i * 7 % vocab) as u32).collect();
        let logits = reference.logits(&tokens);
        assert_eq!((logits.len(), logits.cols), (40, vocab));
        let spread = (logits.data.iter().map(|x| x * x).sum::<f64>() / logits.data.len() as f64).sqrt();
        let usual = match model.architecture {
            // These models multiply logits by 1/16.
            Architecture::CommandR | Architecture::Cohere2 => 0.1..4.0,
            // This model divides logits by the width over 256, which is less than 1 here.
            Architecture::MiniCpm => 0.3..30.0,
            _ => 0.3..4.0,
        };
        assert!(usual.contains(&spread), "logits of {spread}: {model:?}");
        let mut other = tokens.clone();
        other[0] = (other[0] + 1) % vocab as u32;
        let other = reference.logits(&other);
        let changed = (1..40).filter(|row| rel_l2(other.row(*row), logits.row(*row)) > 1e-4).count();
        let config = &reference.config;
        if config.window > 0 && config.window_period == 0 && config.sliding.is_none() {
            // A row of a layer sees this many rows before it.
            assert_eq!(changed, config.layers * (config.window - 1), "{model:?}");
        } else {
            assert!(changed > 30, "the first token changes {changed} of 39 rows of logits: {model:?}");
        }
    }
}

/// Each property of a synthetic model changes its logits, so that a test fails if the property is left out.
#[test]
fn synthetic_models_show_their_properties() {
    type Change = fn(&mut Config);
    const CHANGES: [(&str, Change); 26] = [
        ("no window", |config| config.window = 0),
        ("a shorter window", |config| config.window = config.window.saturating_sub(1)),
        ("windows everywhere", |config| config.window_period = 0),
        ("no cap of scores", |config| config.attention_cap = 0.0),
        ("no cap of logits", |config| config.logit_cap = 0.0),
        ("no clamp", |config| config.clamp = 0.0),
        ("no ALiBi", |config| config.alibi = 0.0),
        ("no scale of embeddings", |config| config.embedding_scale = 1.0),
        ("no scale of branches", |config| config.residual_scale = 1.0),
        ("the usual scale of scores", |config| config.attention_scale = 1.0 / (config.head_dim as f64).sqrt()),
        ("no scale of logits", |config| config.logit_divisor = 1.0),
        ("rotation everywhere", |config| config.architecture.unrotated_period = 0),
        ("one rotary base", |config| config.local_rope_base = config.rope_base),
        ("no rotary scaling", |config| config.rope_scaling = Scaling::Off),
        ("no temperature", |config| config.temperature = 0.0),
        ("norms before the rotation", |config| config.architecture.qk_norm_last = false),
        ("SiLU", |config| config.architecture.activation = Activation::Silu),
        ("the softmax of chosen logits", |config| config.architecture.scores = Scores::OfChosen),
        ("rotation in layers without a window", |config| config.architecture.rotated_locally = false),
        ("rotation in spite of the key", |config| config.rotated = true),
        ("no gates of attention", |config| config.architecture.gated_attention = false),
        ("no gates of elements", |config| config.architecture.gated_elements = false),
        ("one group of experts", |config| config.groups = 1),
        ("no norm of values", |config| config.architecture.value_norm = false),
        ("nothing for layers", |config| config.per_layer = 0),
        ("one expert", |config| config.experts_used = config.experts_used.min(1)),
    ];
    for (name, model) in SyntheticModel::all() {
        let tokens = Rng::new(3).tokens(40, model.vocab);
        let mut reference = Reference::open(&model.bytes());
        let expected = reference.logits(&tokens);
        let original = reference.config.clone();
        for (what, change) in CHANGES {
            change(&mut reference.config);
            let is_change = format!("{:?}", reference.config) != format!("{original:?}");
            // Changes of windows have no effect on a model without windows.
            let difference = rel_l2(&reference.logits(&tokens).data, &expected.data);
            let of_windows = ["windows everywhere", "one rotary base", "rotation in layers without a window"];
            let is_normalized = original.architecture.scores == Scores::Normalized;
            let is_the_same = is_normalized && what == "the softmax of chosen logits";
            let idle = is_the_same || of_windows.contains(&what) && original.window == 0;
            assert!(!is_change || idle || difference > 1e-3, "{name}, {what}: {difference:e}");
            reference.config = original.clone();
        }
        if original.parts.iter().any(|parts| parts.state) {
            reference.forgets_before = Some(20);
            let [forgotten, kept] = [&reference.logits(&tokens), &expected].map(|logits| logits.row(39).to_vec());
            assert!(rel_l2(&forgotten, &kept) > 1e-3, "{name}, states that are lost");
            reference.forgets_before = None;
        }
        if model.long_rope.is_some() {
            reference.planned_context = Some(30);
            assert!(rel_l2(&reference.logits(&tokens).data, &expected.data) > 1e-3, "{name}, short factors");
        }
    }
}

#[test]
#[should_panic(expected = "does not use")]
fn refuses_what_it_does_not_use() {
    let mut writer = SyntheticModel::llama().writer();
    writer.add_tensor("blk.0.attn_q_norm.weight", &[16], 0, vec![0; 64]);
    Reference::open(&writer.finish());
}

/// The committed copies equal the files of the full set.
#[test]
fn committed_fixtures_are_copies() {
    for path in ["parity/llama3-rope.gguf", "parity/qwen3.gguf", "quant/llama-small-F16.gguf", "quant/qwen3-Q4_K.gguf"]
    {
        let Some(original) = shared_file(&format!("fixtures/{path}")) else { return };
        assert!(std::fs::read(committed(path)).unwrap() == original, "{path}");
    }
}

/// Replaces the F32 `rope_freqs.weight` of the fixture by the exact factors with which the fixture was made. Llama 3
/// scales wavelengths above 128 by 8, and those below 128 / 4 not at all.
fn use_exact_rope_factors(reference: &mut Reference) {
    let (base, dims) = (reference.config.rope_base, reference.config.rope_dims as f64);
    for (i, factor) in reference.rope_factors.iter_mut().enumerate() {
        let turns = 128.0 * base.powf(-2.0 * i as f64 / dims) / std::f64::consts::TAU;
        let smooth = ((turns - 1.0) / (4.0 - 1.0)).clamp(0.0, 1.0);
        let exact = 1.0 / (smooth + (1.0 - smooth) / 8.0);
        assert!((*factor / exact - 1.0).abs() < 6e-8, "factor {i}: {factor} instead of {exact}");
        *factor = exact;
    }
}

/// Checks that the arg-max of each row of logits, from the last row of the prompt on, is the next token of `expected`.
fn assert_greedy(logits: &Rows, prompt_len: usize, expected: &[u32]) {
    let chosen: Vec<u32> = logits.iter().skip(prompt_len - 1).take(expected.len()).map(argmax).collect();
    assert_eq!(chosen, expected);
}

/// Returns the larger of `error` and `worst`. Fails if `error` is more than `limit`.
fn at_most(limit: f64, worst: f64, error: f64) -> f64 {
    assert!(error <= limit, "relative error {error:e}");
    worst.max(error)
}

fn assert_close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() <= 1e-12 * expected.abs(), "{actual} instead of {expected}");
}

/// Returns the sum of the negative log likelihoods of `ids[1..]`, in nats.
fn loss(reference: &Reference, ids: &[u32]) -> f64 {
    let logits = reference.logits(&ids[..ids.len() - 1]);
    let losses = logits.iter().zip(&ids[1..]).map(|(row, next)| {
        let top = row[argmax(row) as usize];
        row.iter().map(|logit| (logit - top).exp()).sum::<f64>().ln() + top - row[*next as usize]
    });
    losses.sum()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}
