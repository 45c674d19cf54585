//! Models in several files.

use common::Memory;
use common::gguf_writer::GgufWriter;
use common::synthetic::{Architecture, SyntheticModel};
use gguf_rs_lite::GgufError;
use gleed::model::ModelError;
use gleed::tensor::Dtype;
use gleed::{Engine, Limits, Model, Plan};

/// Splits the file into parts. `tensors` has the number of tensors of each part except the last, which gets the rest.
fn split(whole: &GgufWriter, tensors: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = whole.tensors.clone();
    let parts = tensors.len() + 1;
    let part = |number: usize| {
        let mut part = if number == 0 { whole.clone() } else { GgufWriter::default() };
        part.set("split.no", number as u16).set("split.count", parts as u16);
        part.set("split.tensors.count", whole.tensors.len() as i32);
        let after = tensors.get(number).map_or(Vec::new(), |&count| rest.split_off(count));
        part.tensors = std::mem::replace(&mut rest, after);
        part.finish()
    };
    (0..parts).map(part).collect()
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(|part| &part[..]).collect()
}

fn logits(model: &Model<'_>) -> Vec<f32> {
    let plan = Plan::new(model, &Limits { context: 32, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    engine.prefill(seq, &[1, 7, 3, 9, 2]).unwrap().to_vec()
}

#[test]
fn parts_are_the_whole() {
    let models = [
        SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::llama() },
        SyntheticModel::of(Architecture::Phi3),
        SyntheticModel::of(Architecture::Gemma3),
    ];
    for model in models {
        let writer = model.writer();
        let whole = writer.finish();
        let expected = logits(&Model::open(&whole).unwrap());
        // The first part has no tensors, as some tools write it, or some of them, or nearly all.
        for tensors in [&[][..], &[0], &[5], &[2, 9], &[writer.tensors.len() - 1], &[1, 0, 3]] {
            let parts = split(&writer, tensors);
            let slices = slices(&parts);
            let model = Model::open_split(&slices).unwrap();
            assert_eq!(logits(&model), expected);
            assert_eq!(model.fingerprint(), Model::open_split(&slices).unwrap().fingerprint());
        }
    }
}

#[test]
fn missing_and_misplaced_parts_are_refused() {
    let parts = split(&SyntheticModel::llama().writer(), &[3, 6]);
    let slices = slices(&parts);
    let [one, two, three] = [slices[0], slices[1], slices[2]];
    let refused = |parts: &[&[u8]]| {
        let error = match parts {
            [one] => Model::open(one).map(drop).unwrap_err(),
            // The slices must live as long as the test.
            parts => Model::open_split(parts.to_vec().leak()).map(drop).unwrap_err(),
        };
        assert!(!error.to_string().is_empty());
        error
    };
    assert_eq!(refused(&[]), ModelError::Parts { expected: 1, given: 0 });
    assert_eq!(refused(&[one]), ModelError::Gguf(GgufError::Split { part: 0, parts: 3 }));
    assert_eq!(refused(&[one, two]), ModelError::Parts { expected: 3, given: 2 });
    assert_eq!(refused(&[one, three, two]), ModelError::PartNumber { expected: 1, found: Some(2) });
    assert_eq!(refused(&[two, one, three]), ModelError::PartNumber { expected: 1, found: Some(0) });
    assert!(matches!(refused(&[one, two, two]), ModelError::PartNumber { expected: 2, found: Some(1) }));
    let other = SyntheticModel::llama().bytes();
    assert_eq!(refused(&[one, &other, three]), ModelError::PartNumber { expected: 1, found: None });
    assert!(matches!(refused(&[one, &two[..40], three]), ModelError::Gguf(_)));
}
