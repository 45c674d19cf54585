//! Models with recurrent layers: states on a device.

use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model};

use super::common;
use super::models::assert_alike;
use super::{Log, decode, hash, on_cpu, on_gpu, story};
use gleed_testing::random::Rng;
use gleed_testing::synthetic::{Architecture, SyntheticModel};

fn limits() -> Limits {
    Limits { sequences: 3, context: 64, checkpoints: 3, checkpoint_every: 16, kv_type: KvType::F16, ..super::limits() }
}

/// Runs forks and rewinds, prompts that go on from a checkpoint, and tokens that the device chooses.
fn stories(engine: &mut Engine<'_, '_>, vocab: usize) -> Log {
    let mut log = story(engine, vocab, 37, usize::MAX);
    let c = engine.open().unwrap();
    // Rows that are multiplied by tiles.
    log.push((0, hash(engine.prefill(c, &Rng::new(3).tokens(21, vocab)).unwrap())));
    let mut ids = [0; 6];
    engine.decode_greedy(c, 5, &mut ids).unwrap();
    log.extend(ids.map(|id| (1, u64::from(id))));
    // Only the states are computed again, first with a token that the host chooses, then with tokens that the device
    // chooses, past a checkpoint that is due.
    engine.rewind(c, 20).unwrap();
    decode(engine, c, 2, &mut log);
    engine.rewind(c, 19).unwrap();
    let mut ids = [0; 15];
    engine.decode_greedy(c, 5, &mut ids).unwrap();
    log.extend(ids.map(|id| (2, u64::from(id))));
    for position in 0..=engine.seq_len(c).unwrap() {
        log.push((3, engine.computed_at(c, position).unwrap() as u64));
    }
    log
}

/// Runs a sequence from the start or from a snapshot. Returns its log, and its snapshot afterwards.
fn goes_on(engine: &mut Engine<'_, '_>, vocab: usize, saved: Option<&[u8]>) -> (Log, Vec<u8>) {
    let mut log = Log::new();
    let seq = match saved {
        Some(saved) => engine.restore(saved).unwrap(),
        None => {
            let seq = engine.open().unwrap();
            engine.prefill(seq, &Rng::new(5).tokens(19, vocab)).unwrap();
            seq
        }
    };
    decode(engine, seq, 3, &mut log);
    let mut bytes = vec![0; engine.snapshot_len(seq).unwrap()];
    engine.snapshot(seq, &mut bytes).unwrap();
    (log, bytes)
}

#[test]
fn recurrent_layers_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    for (architecture, weights) in
        [(Architecture::Lfm2, Dtype::Q8_0), (Architecture::Qwen35, Dtype::Q8_0), (Architecture::FalconH1, Dtype::F32)]
    {
        let bytes = SyntheticModel { weights, ..SyntheticModel::of(architecture) }.bytes();
        let (model, limits) = (Model::open(&bytes).unwrap(), limits());
        let vocab = model.config().vocab;
        let host = |engine: &mut Engine<'_, '_>| stories(engine, vocab);
        assert_eq!(on_gpu(gpu, &model, &limits, host), on_cpu(&model, &limits, host), "{architecture:?} {weights}");
        // A sequence in a snapshot of either side goes on at the other side.
        let start = |engine: &mut Engine<'_, '_>| goes_on(engine, vocab, None);
        let (here, there) = (on_cpu(&model, &limits, start), on_gpu(gpu, &model, &limits, start));
        assert_eq!(here, there, "{architecture:?} {weights}");
        let next = |engine: &mut Engine<'_, '_>| goes_on(engine, vocab, Some(&here.1));
        assert_eq!(on_gpu(gpu, &model, &limits, next), on_cpu(&model, &limits, next), "{architecture:?} {weights}");
    }
}

/// These models only begin a sequence, without forks, rewinds and snapshots.
#[test]
fn other_recurrent_layers_have_one_hash() {
    assert_alike(&[
        (Architecture::Lfm2Moe, Dtype::Q4_0),
        (Architecture::Qwen35Moe, Dtype::Q4_0),
        (Architecture::GraniteHybrid, Dtype::Q8_0),
        (Architecture::NemotronH, Dtype::Q8_0),
        (Architecture::NemotronHMoe, Dtype::Q8_0),
    ]);
}
