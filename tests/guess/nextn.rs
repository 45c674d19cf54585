//! Guesses of a layer that predicts tokens further ahead: its arithmetic against f64, and the rows that it computes.

use gleed::guess::{Guess, GuessError, NextN, Text};
use gleed::model::ModelError;
use gleed::sample::argmax;
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, SeqId, Step};

use common::Memory;
use common::gguf_writer::GgufWriter;
use common::reference::Reference;
use common::synthetic::predictor::{LAYER, Own, file};
use common::synthetic::{Architecture, SyntheticModel, encode_f32};

/// The architectures whose predicting layer Gleed computes.
const FAMILIES: [Architecture; 3] = [Architecture::Qwen35, Architecture::Qwen35Moe, Architecture::Glm4Moe];

/// Returns the numbers of an f32 tensor.
fn numbers(file: &GgufWriter, name: &str) -> Vec<f64> {
    let tensor = file.tensors.iter().find(|tensor| tensor.name == name).unwrap();
    tensor.data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into()).collect()
}

fn norm(x: &[f64], weight: &[f64], epsilon: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(weight).map(|(x, w)| x / (mean + epsilon).sqrt() * w).collect()
}

/// Returns the logits of the layer's rows by the formula, in f64. Row i has the hidden state at i and the token at i +
/// 1.
fn expected(
    file: &GgufWriter,
    (architecture, own): (Architecture, Own),
    tokens: &[u32],
    hidden: &[Vec<f32>],
    epsilon: f64,
) -> Vec<Vec<f64>> {
    let of = |name: &str| numbers(file, &format!("blk.{LAYER}.nextn.{name}.weight"));
    let (project, of_token, of_hidden) = (of("eh_proj"), of("enorm"), of("hnorm"));
    let width = of_token.len();
    let embedding = if own == Own::All { of("embed_tokens") } else { numbers(file, "token_embd.weight") };
    let joined = tokens[1..].iter().zip(hidden).map(|(token, hidden)| {
        let token = &embedding[*token as usize * width..][..width];
        let hidden: Vec<f64> = hidden.iter().map(|x| f64::from(*x)).collect();
        let row = [norm(token, &of_token, epsilon), norm(&hidden, &of_hidden, epsilon)].concat();
        let product = |weights: &[f64]| weights.iter().zip(&row).map(|(w, x)| w * x).sum::<f64>() as f32;
        project.chunks_exact(2 * width).map(product).collect::<Vec<f32>>()
    });
    let rows: Vec<f32> = joined.flatten().collect();
    // A model of only this layer, in which the embedding of each token is a joined row.
    let mut layer = GgufWriter { tensors: Vec::new(), ..file.clone() };
    let mut set = |key: &str, value: u32| {
        layer.set(&format!("{}.{key}", architecture.name()), value);
    };
    set("block_count", 1);
    set("nextn_predict_layers", 0);
    match architecture {
        Architecture::Glm4Moe => set("leading_dense_block_count", 0),
        _ => set("full_attention_interval", 1),
    }
    let count = tokens.len() - 1;
    layer.add_tensor("token_embd.weight", &[width as u64, count as u64], 0, encode_f32(&rows));
    for tensor in &file.tensors {
        let in_layer = tensor.name.strip_prefix(&format!("blk.{LAYER}."));
        let name = match (in_layer, tensor.name.as_str()) {
            (Some("nextn.shared_head_norm.weight"), _) => "output_norm.weight".to_owned(),
            (Some("nextn.shared_head_head.weight"), _) => "output.weight".to_owned(),
            (Some(rest), _) if !rest.starts_with("nextn.") => format!("blk.0.{rest}"),
            (None, "output_norm.weight") if own == Own::Nothing => tensor.name.clone(),
            (None, "output.weight") if own != Own::All => tensor.name.clone(),
            _ => continue,
        };
        layer.add_tensor(&name, &tensor.dims, tensor.ggml_type, tensor.data.clone());
    }
    let all: Vec<u32> = (0..count as u32).collect();
    Reference::open(&layer.finish()).logits(&all).iter().map(<[f64]>::to_vec).collect()
}

/// Calls `test` with an engine of a model, the sequence of that engine, and an engine of the model's predicting layer.
fn with_layer(bytes: &[u8], test: impl FnOnce(&mut Engine<'_, '_>, SeqId, &mut Engine<'_, '_>)) {
    let model = Model::open(bytes).unwrap();
    let predictor = model.predictor().unwrap();
    assert_eq!((predictor.config().layers, usize::from(predictor.config().first_layer)), (1, LAYER));
    let exact = Limits { context: 64, kv_type: KvType::F32, rows: 16, ..Limits::default() };
    let [plan, small] = [&model, &predictor].map(|model| Plan::new(model, &exact).unwrap());
    let [mut memory, mut small_memory] = [&plan, &small].map(|plan| Memory::new(plan.bytes()));
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let mut layer = Engine::new(&predictor, &small, small_memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    test(&mut engine, seq, &mut layer);
}

/// Fills `out` with the layer's guesses behind the tokens of `text`. Returns its logits for the last guess.
fn guessed(
    (engine, seq): (&mut Engine<'_, '_>, SeqId),
    layer: &mut Engine<'_, '_>,
    text: &[u32],
    out: &mut [u32],
) -> Vec<f32> {
    let len = text.len() - 1;
    engine.reset(seq).unwrap();
    let mut nextn = NextN::new(layer).unwrap();
    nextn.prefill(engine, seq, &text[..len]).unwrap();
    nextn.see(engine, seq).unwrap();
    let known = |at: usize| text.get(at).copied();
    let made = nextn.guess(&Text::new(text.len(), &known), &mut usize::MAX.into(), out);
    assert_eq!(made, Ok(Some(out.len())), "{len}");
    nextn.close().unwrap();
    let (_, position, logits) = layer.results().last().unwrap();
    assert_eq!(position, len - 2 + out.len());
    assert_eq!(*out.last().unwrap(), argmax(logits).unwrap());
    logits.to_vec()
}

/// Returns the largest difference, relative to the largest number.
fn difference(logits: &[f32], expected: impl Iterator<Item = f64>) -> f64 {
    let (mut error, mut size) = (0.0_f64, 0.0_f64);
    for (x, y) in logits.iter().zip(expected) {
        (error, size) = (error.max((f64::from(*x) - y).abs()), size.max(y.abs()));
    }
    assert!(size > 0.5);
    error / size
}

/// The logits of the layer are those of the formula, for one row after the other, whatever was computed before.
#[test]
fn the_layer_computes_what_the_formula_says() {
    for (architecture, own) in
        FAMILIES.into_iter().flat_map(|of| [Own::Nothing, Own::Norm, Own::All].map(|own| (of, own)))
    {
        let written = file(architecture, false, own);
        with_layer(&written.finish(), |engine, seq, layer| {
            let tokens: Vec<u32> = (0..20).map(|i| (i * 37 + 5) % 320).collect();
            let mut hidden = Vec::new();
            engine.queue(seq, 0, &tokens, Logits::Hidden).unwrap();
            while engine.step(usize::MAX).unwrap() != Step::Idle {
                engine.hidden(|_, _, row| hidden.push(row.to_vec()));
            }
            let rows = expected(&written, (architecture, own), &tokens, &hidden, 1e-5);
            for len in 2..tokens.len() {
                let logits = guessed((engine, seq), layer, &tokens[..=len], &mut [0]);
                let error = difference(&logits, rows[len - 1].iter().copied());
                assert!(error < 1e-3, "{} {own:?} {len}: {error}", architecture.name());
            }
        });
    }
}

/// The logits of the layer are those of llama.cpp, also if it continues from its own hidden state: see
/// `tests/data/nextn`.
#[test]
fn the_layer_computes_what_llama_cpp_computes() {
    let made =
        [(Architecture::Qwen35, Own::Norm), (Architecture::Qwen35Moe, Own::Norm), (Architecture::Glm4Moe, Own::All)];
    let tokens: Vec<u32> = (0..10).map(|i| (i * 37 + 5) % 320).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/nextn");
    let made = made.map(|(architecture, own)| (architecture.name(), file(architecture, false, own).finish()));
    if std::env::var_os("GLEED_WRITE_FIXTURES").is_some() {
        made.iter().for_each(|(name, bytes)| std::fs::write(format!("{folder}/{name}.gguf"), bytes).unwrap());
    }
    for (name, bytes) in made {
        let theirs = std::fs::read(format!("{folder}/{name}.f32")).unwrap();
        let theirs: Vec<f64> =
            theirs.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap()).into()).collect();
        let rows: Vec<&[f64]> = theirs.chunks_exact(320).collect();
        assert_eq!(rows.len(), tokens.len() - 1 + 2);
        with_layer(&bytes, |engine, seq, layer| {
            let mut worst = 0.0_f64;
            for len in 2..tokens.len() {
                let logits = guessed((engine, seq), layer, &tokens[..=len], &mut [0]);
                worst = worst.max(difference(&logits, rows[len - 1].iter().copied()));
            }
            for count in [2, 3] {
                let mut out = vec![0; count];
                let logits = guessed((engine, seq), layer, &tokens, &mut out);
                worst = worst.max(difference(&logits, rows[tokens.len() - 3 + count].iter().copied()));
            }
            println!("{name}: {worst:.1e}");
            assert!(worst < 1e-4, "{name}: {worst}");
        });
    }
}

/// The layer computes a row for each token of the text, and a row for each guess after the first one. Rows of wrong
/// guesses are dropped.
#[test]
fn rows_are_computed_once() {
    let bytes = file(Architecture::Qwen35, true, Own::All).finish();
    let model = Model::open(&bytes).unwrap();
    let predictor = model.predictor().unwrap();
    let limits = Limits { context: 128, rows: 8, logit_rows: 4, checkpoints: 2, ..Limits::default() };
    let [plan, small] = [&model, &predictor].map(|model| Plan::new(model, &limits).unwrap());
    let [mut memory, mut small_memory] = [&plan, &small].map(|plan| Memory::new(plan.bytes()));
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let mut layer = Engine::new(&predictor, &small, small_memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let prompt: Vec<u32> = (5..45).collect();
    let mut text = prompt.clone();
    {
        let mut nextn = NextN::new(&mut layer).unwrap();
        let logits = nextn.prefill(&mut engine, seq, &prompt).unwrap();
        text.push(argmax(logits).unwrap());
        for _ in 0..10 {
            nextn.see(&mut engine, seq).unwrap();
            let known = |at: usize| text.get(at).copied();
            let mut out = [0; 3];
            let made = nextn.guess(&Text::new(text.len(), &known), &mut usize::MAX.into(), &mut out).unwrap();
            assert_eq!(made, Some(3));
            // The host takes none of the guesses.
            text.push(argmax(engine.decode_step(seq, *text.last().unwrap()).unwrap()).unwrap());
        }
        nextn.close().unwrap();
    }
    // 38 rows of the prompt, whose next tokens were read with them, 2 rows up to the first guess, one for each of the 9
    // later tokens, and 2 behind the first guess of each of the 10 calls.
    let rows = layer.metrics().rows();
    assert_eq!(rows, 38 + 2 + 9 + 10 * 2, "{rows}");
}

/// Any budget gives the same guesses. After tokens that the layer has missed, it begins anew.
#[test]
fn budgets_and_gaps() {
    let bytes = file(Architecture::Qwen35, true, Own::Nothing).finish();
    let model = Model::open(&bytes).unwrap();
    let predictor = model.predictor().unwrap();
    let limits = Limits { context: 128, rows: 8, logit_rows: 4, ..Limits::default() };
    let [plan, small] = [&model, &predictor].map(|model| Plan::new(model, &limits).unwrap());
    let guesses = |units: usize, gap: bool| {
        let [mut memory, mut small_memory] = [&plan, &small].map(|plan| Memory::new(plan.bytes()));
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let mut layer = Engine::new(&predictor, &small, small_memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        let mut nextn = NextN::new(&mut layer).unwrap();
        let mut text: Vec<u32> = (5..40).collect();
        let next = argmax(nextn.prefill(&mut engine, seq, &text).unwrap()).unwrap();
        text.push(next);
        if gap {
            // The layer does not see these tokens.
            for _ in 0..3 {
                text.push(argmax(engine.decode_step(seq, *text.last().unwrap()).unwrap()).unwrap());
            }
        }
        nextn.see(&mut engine, seq).unwrap();
        let known = |at: usize| text.get(at).copied();
        let (mut out, mut calls) = ([0; 5], 1);
        while nextn.guess(&Text::new(text.len(), &known), &mut units.into(), &mut out).unwrap().is_none() {
            calls += 1;
            assert!(calls < 100_000);
        }
        nextn.close().unwrap();
        (out, calls, layer.metrics().rows())
    };
    let (all, calls, _) = guesses(usize::MAX, false);
    assert_eq!(calls, 1);
    for units in [1, 7, 100] {
        let (out, calls, _) = guesses(units, false);
        assert_eq!(out, all);
        assert!(calls > 4, "{units} {calls}");
    }
    let (_, _, rows) = guesses(usize::MAX, false);
    let (_, _, with_gap) = guesses(usize::MAX, true);
    // Behind the gap, the hidden state of one row is known, and not of two.
    assert_eq!(rows, with_gap + 1);
}

#[test]
fn what_cannot_predict_is_refused() {
    let plain = SyntheticModel::of(Architecture::Qwen35).bytes();
    let refused = Model::open(&plain).unwrap().predictor().unwrap_err();
    assert!(matches!(refused, ModelError::MissingKey { key } if key.as_bytes() == b"qwen35.nextn_predict_layers"));
    let mut broken = file(Architecture::Qwen35, true, Own::All);
    broken.tensors.retain(|tensor| !tensor.name.ends_with("nextn.hnorm.weight"));
    let bytes = broken.finish();
    let refused = Model::open(&bytes).unwrap().predictor().unwrap_err();
    let name = format!("blk.{LAYER}.nextn.hnorm.weight");
    assert!(
        matches!(refused, ModelError::MissingTensor { tensor } if tensor.as_bytes() == name.as_bytes()),
        "{refused}"
    );

    let bytes = file(Architecture::Qwen35, true, Own::All).finish();
    let model = Model::open(&bytes).unwrap();
    let predictor = model.predictor().unwrap();
    assert!(predictor.predictor().is_err());
    assert!(Plan::new(&predictor, &Limits { kv_kind: KvKind::Off, ..Limits::default() }).is_err());
    assert!(Plan::new(&predictor, &Limits { adapters: 1, ..Limits::default() }).is_err());
    let plan = Plan::new(&predictor, &Limits { context: 32, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut layer = Engine::new(&predictor, &plan, memory.bytes()).unwrap();
    let seq = layer.open().unwrap();
    assert_eq!(layer.prefill(seq, &[1, 2]).unwrap_err(), EngineError::Predictor);
    layer.close(seq).unwrap();
    // An engine of another model cannot be the layer.
    let other = SyntheticModel::llama().bytes();
    let other = Model::open(&other).unwrap();
    let plan = Plan::new(&other, &Limits { context: 32, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut other = Engine::new(&other, &plan, memory.bytes()).unwrap();
    assert_eq!(NextN::new(&mut other).err(), Some(GuessError::NotPredictor));
    let seq = other.open().unwrap();
    let mut nextn = NextN::new(&mut layer).unwrap();
    assert_eq!(nextn.prefill(&mut other, seq, &[1, 2, 3]).err(), Some(GuessError::NotPredictor));
}
