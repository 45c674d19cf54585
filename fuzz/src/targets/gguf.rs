//! Any bytes as a GGUF file. The target reads everything that the reader gives, then tries a model and a tokenizer.

use gguf_rs_lite::{Gguf, Value};
use gleed::token::Tokenizer;
use gleed::{Engine, EngineError, Limits, Model, Plan};

use crate::support::{Exact, damaged, expected, forbidden, random_of, tried, usual};

/// Most bytes of an engine or a tokenizer that is made. A file can ask for any number of bytes.
const MOST: usize = 1 << 22;
/// Number of damaged copies of each input. A copy that is a model is planned, but not run.
const COPIES: usize = 64;

pub fn run(data: &[u8]) {
    let Some((&cut, data)) = data.split_first() else { return };
    // A copy with an allocation of its own, so that the sanitizer sees its end.
    read(&Box::<[u8]>::from(data), cut, prefill);
    let mut random = random_of(data);
    for _ in 0..COPIES {
        read(&damaged(data, &mut random), cut, plan);
    }
}

fn read(data: &[u8], cut: u8, with_model: fn(&Model<'_>)) {
    tried();
    match forbidden(|| Gguf::parse(data)) {
        Ok(gguf) => {
            forbidden(|| read_all(&gguf, data));
            tokenizer(&gguf);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match forbidden(|| Model::open(data)) {
        Ok(model) => with_model(&model),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let parts = data.split_at(usize::from(cut) * 37 % (data.len() + 1));
    let parts = [parts.0, parts.1];
    match forbidden(|| Model::open_split(&parts)) {
        Ok(model) => with_model(&model),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn plan(model: &Model<'_>) {
    std::hint::black_box(forbidden(|| model.fingerprint()));
    let limits = Limits { context: 16, rows: 3, ..usual() };
    if let Err(error) = forbidden(|| Plan::new(model, &limits)) {
        assert!(!error.to_string().is_empty());
    }
}

fn read_all(gguf: &Gguf<'_>, data: &[u8]) {
    let within = |part: &[u8]| {
        let (start, end) = (data.as_ptr().addr(), data.as_ptr().addr() + data.len());
        assert!(part.is_empty() || part.as_ptr().addr() >= start && part.as_ptr().addr() + part.len() <= end);
        std::hint::black_box(part.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
    };
    for (key, value) in gguf.metadata() {
        within(key.as_bytes());
        read_value(&value, 0);
    }
    for tensor in gguf.tensors() {
        within(tensor.data());
        assert!(tensor.dims().len() <= 4);
        // If two tensors have the same name, the first one counts.
        let first = gguf.tensors().find(|other| other.name() == tensor.name()).expect("itself, or one before it");
        let found = gguf.tensor(tensor.name()).expect("a tensor is found by its name");
        assert_eq!((found.offset(), found.ggml_type()), (first.offset(), first.ggml_type()));
    }
    assert_eq!(gguf.tensors().count(), gguf.tensor_count());
}

fn read_value(value: &Value<'_>, depth: usize) {
    std::hint::black_box((value.as_u64(), value.as_i64(), value.as_f32(), value.as_bool(), value.as_bytes()));
    if let (Some(array), true) = (value.as_array(), depth < 4) {
        let read = array.iter().take(64).inspect(|element| read_value(element, depth + 1)).count();
        assert_eq!(read, array.len().min(64));
        assert!(array.get(array.len()).is_none() && array.get(usize::MAX).is_none());
    }
}

fn tokenizer(gguf: &Gguf<'_>) {
    match forbidden(|| Tokenizer::plan(gguf)) {
        Ok(bytes) if bytes <= MOST => {
            let mut memory = Exact::new(bytes, 1);
            match forbidden(|| Tokenizer::new(gguf, memory.bytes()).map(|tokenizer| tokenizer.max_push())) {
                Ok(_) => {}
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn prefill(model: &Model<'_>) {
    std::hint::black_box(forbidden(|| model.fingerprint()));
    let limits = Limits { context: 16, rows: 3, ..usual() };
    let Ok(plan) = forbidden(|| Plan::new(model, &limits)) else { return };
    if plan.bytes() > MOST {
        return;
    }
    let mut memory = Exact::new(plan.bytes(), 3);
    let mut engine = forbidden(|| Engine::new(model, &plan, memory.bytes())).expect("memory of the plan");
    let seq = forbidden(|| engine.open()).expect("a sequence");
    match forbidden(|| engine.prefill(seq, &[0, 0]).map(|logits| logits.iter().all(|x| x.is_finite()))) {
        Ok(is_finite) => assert!(is_finite),
        Err(error) => match expected(error) {
            EngineError::NonFinite { .. }
            | EngineError::Token { .. }
            | EngineError::NoLogits
            | EngineError::Cache(_) => {}
            other => panic!("{other:?}"),
        },
    }
    assert_eq!(engine.cache().check(), Ok(()));
}
