//! Models whose metadata and tensors are changed, then run. The result is an error, or finite logits that are the same
//! on two kinds of cache, in two cuts and on two instruction sets.

mod change;

use std::sync::LazyLock;

use gguf_rs_lite::Gguf;
use gleed::kernels::Level;
use gleed::tensor::Dtype;
use gleed::token::{DecodeOptions, EncodeOptions, TokenError, Tokenizer};
use gleed::turns::TurnFormat;
use gleed::{Engine, EngineError, KvKind, Limits, Logits, Model, Plan, Step, Window};

use crate::support::models::kv_type;
use crate::support::{Bytes, Exact, LEVELS, expected, forbidden, is_shown, usual};
use common::gguf_writer::GgufWriter;
use common::synthetic::SyntheticModel;

/// Most bytes of an engine or a tokenizer that is made. A file can ask for any number of bytes.
const MOST: usize = 1 << 22;

/// Files of each architecture and option, and files of each type of matrices that this build has.
static BASES: LazyLock<Vec<GgufWriter>> = LazyLock::new(|| {
    let mut bases: Vec<GgufWriter> = Vec::new();
    for (index, (_, usual)) in SyntheticModel::all().into_iter().enumerate() {
        bases.push(SyntheticModel { vocab: [262, 17, 40][index % 3], context: 64, ..usual }.writer());
    }
    for (ggml, cols) in [(1, 32), (8, 32), (2, 32), (30, 32), (39, 32), (12, 256)] {
        let weights = Dtype::from_ggml(ggml).expect("a type that this build has");
        let sizes =
            SyntheticModel { hidden: cols, ffn: cols, layers: 1, heads: 4, kv_heads: 2, ..SyntheticModel::llama() };
        bases.push(SyntheticModel { weights, head_dim: cols / 4, vocab: 17, context: 64, ..sizes }.writer());
    }
    bases
});

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut writer = bytes.pick(&BASES).clone();
    let limits = limits(&mut bytes);
    let wanted: Vec<u32> = (0..1 + bytes.below(20)).map(|_| bytes.u8().into()).collect();
    (0..bytes.below(7)).for_each(|_| change::change(&mut writer, &mut bytes, &BASES));
    let size: usize = writer.tensors.iter().map(|tensor| tensor.data.len()).sum();
    if size > 1 << 20 || writer.alignment == 0 {
        return;
    }
    let file = change::damage(writer.finish(), &mut bytes).into_boxed_slice();
    let model = match forbidden(|| Model::open(&file)) {
        Ok(model) => model,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    if is_shown() {
        eprintln!("{} {limits:?}, tokens {wanted:?}", model.config().architecture);
    }
    std::hint::black_box((forbidden(|| model.fingerprint()), model.file_bytes()));
    std::hint::black_box(forbidden(|| model.predictor().map(|layer| Plan::new(&layer, &limits).is_ok()).is_ok()));
    let vocab = model.config().vocab.clamp(1, 1 << 30) as u32;
    let tokens: Vec<u32> = wanted.iter().map(|token| token % vocab).collect();
    let other = Limits { level: Level::SCALAR, rows: 3, logit_rows: 2, kv_kind: KvKind::Paged, ..limits };
    let is_whole = !model.config().attention.causal;
    let results = [play(&model, limits, &tokens, 64), play(&model, other, &tokens, if is_whole { 64 } else { 2 })];
    match results {
        [Some(Ok(one)), Some(Ok(two))] => assert!(one == two, "other bits in other cuts or on another level"),
        [Some(Err(EngineError::NonFinite { layer })), Some(Ok(_))]
        | [Some(Ok(_)), Some(Err(EngineError::NonFinite { layer }))] => {
            panic!("a number that is not finite in layer {layer}, in one of two cuts only");
        }
        _ => {}
    }
    tokenize(model.gguf());
}

fn limits(bytes: &mut Bytes<'_>) -> Limits {
    let rows = 1 + bytes.below(9);
    Limits {
        context: if bytes.once_in(8) { bytes.odd() as usize } else { 16 + bytes.below(17) },
        window: if bytes.once_in(4) {
            Window { sinks: bytes.below(4), last: 1 + bytes.below(12) }
        } else {
            Window::ALL
        },
        rows,
        logit_rows: rows,
        kv_kind: *bytes.pick(&KvKind::ALL),
        kv_type: kv_type(bytes),
        level: *bytes.pick(&LEVELS),
        ..usual()
    }
}

type Rows = Result<Vec<Vec<u32>>, EngineError>;

/// Returns the bits of all logits, or `None` if the limits do not fit the model.
fn play(model: &Model<'_>, limits: Limits, tokens: &[u32], chunk: usize) -> Option<Rows> {
    let plan = match forbidden(|| Plan::new(model, &limits)) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    if plan.bytes() > MOST {
        return None;
    }
    let mut memory = Exact::new(plan.bytes(), 0xA5);
    let mut engine = forbidden(|| Engine::new(model, &plan, memory.bytes())).expect("memory of the plan");
    let result = rows(&mut engine, tokens, chunk).map_err(expected);
    assert_eq!(engine.cache().check(), Ok(()));
    Some(result)
}

fn rows(engine: &mut Engine<'_, '_>, tokens: &[u32], chunk: usize) -> Rows {
    let seq = engine.open()?;
    let mut rows = Vec::new();
    for part in tokens.chunks(chunk) {
        let position = engine.seq_len(seq)?;
        forbidden(|| engine.queue(seq, position, part, Logits::All))?;
        loop {
            match forbidden(|| engine.step(if chunk == 2 { 3 } else { usize::MAX }))? {
                Step::Idle => break,
                Step::Ready => engine.results().for_each(|(_, _, logits)| {
                    assert!(logits.iter().all(|x| x.is_finite()));
                    rows.push(logits.iter().map(|x| x.to_bits()).collect());
                }),
                Step::Yielded | Step::Cancelled => {}
            }
        }
    }
    Ok(rows)
}

fn tokenize(gguf: &Gguf<'_>) {
    let bytes = match forbidden(|| Tokenizer::plan(gguf)) {
        Ok(bytes) if bytes <= MOST => bytes,
        Ok(_) => return,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut memory = Exact::new(bytes, 0x5A);
    let tokenizer = match forbidden(|| Tokenizer::new(gguf, memory.bytes())) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let text = "a tea,  \u{e9}\u{1f600} <s>\n\n the <0x41>";
    let (mut scratch, mut out) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; 256]);
    for parse_special in [false, true] {
        let options = EncodeOptions { add_special: true, parse_special, ..EncodeOptions::default() };
        match forbidden(|| tokenizer.encode(text, options, &mut scratch, &mut out)) {
            Ok(encoded) => {
                let count = encoded.ids;
                let mut text = vec![0; 64 + count * tokenizer.max_push().min(1 << 16)];
                let options = DecodeOptions { render_special: parse_special, starts_text: true };
                let decoded = forbidden(|| tokenizer.decode(&out[..count], options, &mut text).map(str::len));
                assert!(decoded.is_ok(), "{decoded:?}");
            }
            Err(error) => assert!(!matches!(error, TokenError::ScratchTooSmall { .. }), "{error}"),
        }
    }
    std::hint::black_box(forbidden(|| TurnFormat::of(gguf, &tokenizer).is_some()));
}
