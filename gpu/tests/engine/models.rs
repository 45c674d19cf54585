//! Which models run, and which are refused by what name.

use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model};

use super::common;
use super::common::makers::random::Rng;
use super::common::makers::synthetic::{Architecture, SyntheticModel};
use super::{Log, decode, hash, on_cpu, on_gpu};

fn limits() -> Limits {
    Limits { sequences: 1, context: 48, rows: 18, logit_rows: 1, kv_type: KvType::F16, ..super::limits() }
}

/// A prompt that is multiplied by tiles, and tokens after it.
fn short_story(engine: &mut Engine<'_, '_>, vocab: usize) -> Log {
    let (mut log, seq) = (Log::new(), engine.open().unwrap());
    log.push((0, hash(engine.prefill(seq, &Rng::new(3).tokens(18, vocab)).unwrap())));
    decode(engine, seq, 2, &mut log);
    log
}

/// These models have the CPU's bits.
fn assert_alike(models: &[(Architecture, Dtype)]) {
    let Some(gpu) = common::gpu() else { return };
    for &(architecture, weights) in models {
        let bytes = SyntheticModel { weights, ..SyntheticModel::of(architecture) }.bytes();
        let model = Model::open(&bytes).unwrap();
        let vocab = model.config().vocab;
        let host = |engine: &mut Engine<'_, '_>| short_story(engine, vocab);
        let expected = on_cpu(&model, &limits(), host);
        assert_eq!(on_gpu(gpu, &model, &limits(), host), expected, "{architecture:?} {weights}");
    }
}

/// The results of attention wait while the feed-forward layer reads the norm.
#[test]
fn branches_side_by_side_have_one_hash() {
    assert_alike(&[(Architecture::GptNeoX, Dtype::Q8_0), (Architecture::Cohere2, Dtype::Q4_0)]);
}
