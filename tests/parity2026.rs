//! Gleed's logits, compared with the fixtures of `parity2026`: newer families, long prompts. Then with files of other
//! sizes in `tests/data/newer`, and with those of the folder that the environment variable `GLEED_PARITY2026` names.

use std::path::PathBuf;

use common::fixtures::{Case, Embedder, Parity2026};
use common::{Memory, argmax, committed, fixture, rel_l2};
use gleed::{Engine, KvKind, KvType, Limits, Logits, Model, Plan, Pooling, Step};

/// Largest difference of a logit, with F32 weights and an F32 cache.
const LOGIT_ERROR: f64 = 5e-4;
/// Largest difference of a logit in the long case.
const LONG_ERROR: f64 = 2e-3;

/// Largest difference of an element of a text's vector, or of a token's hidden state.
const VECTOR_ERROR: f64 = 5e-4;

/// llama.cpp's relative error with experts in MXFP4, as the median over positions.
const MXFP4_MEDIAN: f64 = 0.011;
/// Most that Gleed's error may be, as a multiple of llama.cpp's error.
const OTHER_ENGINE: f64 = 1.2;

/// Returns the logits of every row: the prompt in chunks of 32, then the greedy ids token by token.
fn logits(file: &[u8], case: &Case) -> Vec<Vec<f32>> {
    let model = Model::open(file).unwrap();
    let context = case.prompt.len() + case.greedy.len();
    let limits =
        Limits { context, rows: 32, logit_rows: 32, kv_kind: KvKind::Paged, kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let mut rows = vec![Vec::new(); case.prompt.len()];
    engine.prefill_rows(sequence, &case.prompt, |position, logits| rows[position] = logits.to_vec()).unwrap();
    for token in &case.greedy {
        rows.push(engine.decode_step(sequence, *token).unwrap().to_vec());
    }
    rows
}

/// Compares a case. Returns the largest difference of a logit.
fn compare(name: &str, file: &[u8], case: &Case, limit: f64) -> f64 {
    let actual = logits(file, case);
    let mut worst = 0.0_f64;
    for (&position, expected) in case.positions.iter().zip(case.logits.iter()) {
        for (ours, theirs) in actual[position].iter().zip(expected) {
            let error = (f64::from(*ours) - theirs).abs();
            assert!(error <= limit, "{name}: a logit at position {position} is off by {error:e}");
            worst = worst.max(error);
        }
    }
    let end = case.prompt.len() + case.greedy.len() - 1;
    let greedy: Vec<u32> = actual[case.prompt.len() - 1..end].iter().map(|row| argmax(row)).collect();
    assert_eq!(greedy, case.greedy, "{name}");
    worst
}

/// The same model with experts in MXFP4, which multiplies int8 activations as in llama.cpp, so that it has a similar
/// error.
#[test]
fn twin_of_gpt_oss() {
    let Some(twin) = fixture("parity2026/gpt-oss-mxfp4.gguf") else { return };
    let fixture = Parity2026::load("gpt-oss").unwrap();
    let actual = logits(&twin, &fixture.main);
    let expected = fixture.main.positions.iter().zip(fixture.main.logits.iter());
    let mut errors: Vec<f64> = expected.map(|(&position, expected)| rel_l2(&actual[position], expected)).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    println!("gpt-oss, MXFP4: median of the relative errors {median:.4}");
    assert!(median <= OTHER_ENGINE * MXFP4_MEDIAN, "{errors:?}");
}

#[test]
fn decoders() {
    for name in Parity2026::DECODERS {
        let Some(fixture) = Parity2026::load(name) else { continue };
        decoder(name, &fixture);
    }
}

fn decoder(name: &str, fixture: &Parity2026) {
    let main = compare(name, &fixture.gguf, &fixture.main, LOGIT_ERROR);
    let long = compare(name, &fixture.gguf, &fixture.long, LONG_ERROR);
    println!("{name}: largest difference of a logit {main:.1e}, long {long:.1e}");
}

#[test]
fn other_sizes() {
    let named = std::env::var_os("GLEED_PARITY2026").map(PathBuf::from);
    for folder in [committed("newer")].into_iter().chain(named) {
        let (decoders, embedders) = (Parity2026::of_folder(&folder), Embedder::of_folder(&folder));
        assert!(!decoders.is_empty() || !embedders.is_empty(), "{}", folder.display());
        decoders.iter().for_each(|(name, fixture)| decoder(name, fixture));
        embedders.iter().for_each(|(name, fixture)| embedder(name, fixture));
    }
}

/// Returns the largest difference of two rows.
fn difference(ours: &[f32], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(ours, theirs)| (f64::from(*ours) - theirs).abs()).fold(0.0, f64::max)
}

#[test]
fn embedders() {
    for name in Embedder::ALL.into_iter().chain(Embedder::MORE) {
        let Some(fixture) = Embedder::load(name) else { continue };
        embedder(name, &fixture);
        let model = Model::open(&fixture.gguf).unwrap();
        assert_eq!(model.has_logits(), model.pooling() == Some(Pooling::Last), "{name}");
    }
}

/// Compares vectors of texts, each alone and all together, in all kinds of cache, and the hidden states of a text's
/// tokens.
fn embedder(name: &str, fixture: &Embedder) {
    let model = Model::open(&fixture.gguf).unwrap();
    let pooling = model.pooling().unwrap();
    assert_eq!(format!("{pooling:?}").to_lowercase(), fixture.pooling, "{name}");
    let hidden = model.config().embedding_len(pooling).unwrap();
    let mut worst = 0.0_f64;
    for kv_kind in [KvKind::Off, KvKind::Basic, KvKind::Paged] {
        let kv_type = KvType::F32;
        let limits = Limits { sequences: 3, context: 160, rows: 160, kv_kind, kv_type, ..Limits::default() };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let mut together = vec![f32::NAN; hidden * fixture.inputs.len()];
        engine.embed_all(fixture.inputs.iter().map(Vec::as_slice), pooling, &mut together).unwrap();
        let seq = engine.open().unwrap();
        for (index, input) in fixture.inputs.iter().enumerate() {
            let mut alone = vec![f32::NAN; hidden];
            engine.embed(seq, input, pooling, &mut alone).unwrap();
            engine.reset(seq).unwrap();
            assert_eq!(alone, together[index * hidden..][..hidden], "{name}, input {index}");
            worst = worst.max(difference(&alone, fixture.embeddings.row(index)));
        }
        engine.queue(seq, 0, &fixture.inputs[fixture.token_input], Logits::Hidden).unwrap();
        assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
        assert_eq!(engine.hidden_rows(), fixture.token_embeddings.len());
        engine.hidden(|_, position, row| {
            worst = worst.max(difference(row, fixture.token_embeddings.row(position)));
        });
    }
    println!("{name}: largest difference of an element {worst:.1e}");
    assert!(worst <= VECTOR_ERROR, "{name}: {worst:e}");
}
