//! Bad files, bad limits, bad calls: each a specific error with the number that was wrong, never a panic,
//! and the engine afterwards as if the call had not been made.

mod common;

use std::time::{Duration, Instant};

use common::Memory;
use common::gguf_writer::{GgufWriter, Meta};
use common::playback::{Plain, Player, Stage, hash};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gguf_rs_lite::{GgmlType, GgufError, Name};
use gleed::cache::CacheError;
use gleed::engine::PlanError;
use gleed::mem::MemoryError;
use gleed::model::ModelError;
use gleed::tensor::Dtype;
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, SeqId, Step};
use proptest::prelude::*;

/// A file of a few kilobytes.
fn tiny() -> SyntheticModel {
    SyntheticModel {
        hidden: 8,
        ffn: 8,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        vocab: 9,
        ..SyntheticModel::llama()
    }
}

fn tiny_qwen3() -> SyntheticModel {
    SyntheticModel { architecture: SyntheticModel::qwen3().architecture, ..tiny() }
}

fn refused(file: &[u8]) -> ModelError {
    let error = Model::open(file).expect_err("a bad file was opened");
    assert!(!error.to_string().is_empty());
    error
}

fn refused_gguf(file: &[u8]) -> GgufError {
    match refused(file) {
        ModelError::Gguf(error) => error,
        other => panic!("{other:?}"),
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes())
}

/// Opens, plans and runs, if the model is not too large for a test. Whether it could be opened.
fn try_all(file: &[u8]) -> bool {
    let Ok(model) = Model::open(file) else { return false };
    let limits = Limits { context: 16, rows: 4, ..Limits::default() };
    let Ok(plan) = Plan::new(&model, &limits) else { return true };
    if plan.bytes() > 1 << 24 {
        return true;
    }
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    match engine.prefill(seq, &[1, 0, 2, 3, 1]).map(|logits| logits.iter().all(|x| x.is_finite())) {
        Ok(finite) => assert!(finite),
        Err(EngineError::NonFinite { layer }) => assert!(layer <= model.config().layers),
        Err(EngineError::Token { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
    true
}

#[test]
fn the_tiny_models_are_good() {
    assert!(try_all(&tiny().bytes()) && try_all(&tiny_qwen3().bytes()));
}

#[test]
fn truncated() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let end = model.gguf().tensors().map(|info| info.offset() + info.data().len()).max().unwrap();
        assert_eq!(refused_gguf(&[]), GgufError::Empty);
        for len in 1..end {
            match refused_gguf(&file[..len]) {
                GgufError::Truncated { .. } | GgufError::Count { .. } => {}
                GgufError::OutOfFile { len: said, .. } => assert_eq!(said, len),
                other => panic!("{len} bytes: {other:?}"),
            }
        }
        assert!(try_all(&file[..end]));
    }
}

/// Files that are made to be slow: many tensors, many of them twice.
#[test]
fn the_largest_models_open_in_linear_time() {
    let large = SyntheticModel { layers: 1024, hidden: 2, ffn: 2, heads: 1, head_dim: 2, ..tiny() };
    let mut writer = large.writer();
    let start = Instant::now();
    assert!(Model::open(&writer.finish()).is_ok());
    let limit = 10 + 30 * 1024;
    writer.tensors.resize(limit, writer.tensors[0].clone());
    assert!(matches!(refused(&writer.finish()), ModelError::DuplicateTensor { .. }));
    writer.tensors.resize(limit + 1, writer.tensors[0].clone());
    assert_eq!(refused(&writer.finish()), ModelError::TooMany { count: limit + 1, limit });
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn random_bytes() {
    let mut rng = Rng::new(1);
    for len in (0..400).chain([5000, 100_000]) {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        assert!(!try_all(&bytes));
        // With a header that is right.
        let header = [&b"GGUF"[..], &3_u32.to_le_bytes(), &3_u64.to_le_bytes(), &2_u64.to_le_bytes()].concat();
        assert!(!try_all(&[header, bytes].concat()));
    }
}

#[test]
fn counts_that_are_too_large() {
    let file = tiny().bytes();
    for at in [8, 16] {
        for count in [u64::MAX, 1 << 63, 1 << 40, 1 << 20] {
            let mut file = file.clone();
            file[at..at + 8].copy_from_slice(&count.to_le_bytes());
            match refused_gguf(&file) {
                GgufError::Count { count: said, .. } => assert_eq!(said, count),
                other => panic!("{other:?}"),
            }
        }
    }
    let mut writer = tiny().writer();
    writer.set("llama.block_count", 1025_u32);
    assert_eq!(refused(&writer.finish()), ModelError::TooMany { count: 1025, limit: 1024 });
    writer.set("llama.block_count", 1024_u32);
    assert_eq!(refused(&writer.finish()), ModelError::MissingTensor { tensor: name("blk.2.attn_norm.weight") });
}

/// Changes the offset of a tensor's data in a file.
fn with_offset(file: &[u8], tensor: &str, change: impl FnOnce(u64) -> u64) -> Vec<u8> {
    let mut file = file.to_vec();
    let at = file.windows(tensor.len()).position(|bytes| bytes == tensor.as_bytes()).unwrap() + tensor.len();
    let dims = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let at = at + 4 + 8 * dims + 4;
    let offset = u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    file[at..at + 8].copy_from_slice(&change(offset).to_le_bytes());
    file
}

#[test]
fn offsets_of_tensors() {
    let file = tiny().bytes();
    let tensor = "blk.1.ffn_up.weight";
    match refused_gguf(&with_offset(&file, tensor, |offset| offset - 32)) {
        GgufError::Overlap { tensor: said, previous_end, offset } => {
            assert_eq!(said, name(tensor));
            assert!(offset < previous_end);
        }
        other => panic!("{other:?}"),
    }
    match refused_gguf(&with_offset(&file, tensor, |offset| offset + 4)) {
        GgufError::Misaligned { tensor: said, alignment: 32, .. } => assert_eq!(said, name(tensor)),
        other => panic!("{other:?}"),
    }
    for far in [1 << 20, 1 << 62, !31_u64] {
        match refused_gguf(&with_offset(&file, "output_norm.weight", |_| far)) {
            GgufError::OutOfFile { tensor, len, .. } => {
                assert_eq!((tensor, len), (name("output_norm.weight"), file.len()))
            }
            other => panic!("{other:?}"),
        }
    }
    for alignment in [0, 3, 48, u32::MAX] {
        let mut writer = tiny().writer();
        writer.set("general.alignment", alignment);
        assert_eq!(refused_gguf(&writer.finish()), GgufError::Alignment { alignment });
    }
    let mut writer = GgufWriter { alignment: 256, ..tiny().writer() };
    assert!(try_all(&writer.finish()));
    writer.version = 4;
    assert_eq!(refused_gguf(&writer.finish()), GgufError::Version { version: 4 });
}

#[test]
fn every_tensor_is_needed_in_its_shape_and_type() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let writer = synthetic.writer();
        for tensor in &writer.tensors {
            let mut changed = writer.clone();
            changed.remove_tensor(&tensor.name);
            if tensor.name == "output.weight" {
                assert!(try_all(&changed.finish()), "the embedding serves as the output");
            } else {
                assert_eq!(refused(&changed.finish()), ModelError::MissingTensor { tensor: name(&tensor.name) });
            }

            let mut changed = writer.clone();
            changed.tensors.push(tensor.clone());
            assert_eq!(refused(&changed.finish()), ModelError::DuplicateTensor { tensor: name(&tensor.name) });

            // Shorter by one row or element, and one dimension more.
            let mut changed = writer.clone();
            let shorter = changed.tensor_mut(&tensor.name);
            *shorter.dims.last_mut().unwrap() -= 1;
            let error = refused(&changed.finish());
            if tensor.name != "token_embd.weight" {
                assert_shape(error, &tensor.name);
            }
            let mut changed = writer.clone();
            let deeper = changed.tensor_mut(&tensor.name);
            deeper.dims.push(2);
            deeper.data.extend(deeper.data.clone());
            assert_shape(refused(&changed.finish()), &tensor.name);

            // A type that is not computed with, and F16 for a norm.
            let mut changed = writer.clone();
            changed.tensor_mut(&tensor.name).ggml_type = 24;
            let found = GgmlType::from_number(24).unwrap();
            assert_eq!(refused(&changed.finish()), ModelError::TensorType { tensor: name(&tensor.name), found });
            if tensor.dims.len() == 1 {
                changed.tensor_mut(&tensor.name).ggml_type = 1;
                let found = GgmlType::from_number(1).unwrap();
                assert_eq!(refused(&changed.finish()), ModelError::TensorType { tensor: name(&tensor.name), found });
            }
            changed.tensor_mut(&tensor.name).ggml_type = 999;
            assert_eq!(
                refused_gguf(&changed.finish()),
                GgufError::TensorType { tensor: name(&tensor.name), number: 999 }
            );
        }
        for unknown in
            ["blk.0.attn_qkv.bias", "blk.2.attn_q.weight", "blk.00.attn_q.weight", "position_embd.weight", ""]
        {
            let mut changed = writer.clone();
            changed.add_tensor(unknown, &[4], 0, vec![0; 16]);
            assert_eq!(refused(&changed.finish()), ModelError::UnknownTensor { tensor: name(unknown) });
        }
    }
    // Of qwen3 only.
    let mut writer = tiny().writer();
    writer.add_tensor("blk.0.attn_q_norm.weight", &[4], 0, vec![0; 16]);
    assert_eq!(refused(&writer.finish()), ModelError::UnknownTensor { tensor: name("blk.0.attn_q_norm.weight") });
}

fn assert_shape(error: ModelError, tensor: &str) {
    match error {
        ModelError::TensorShape { tensor: said, .. } => assert_eq!(said, name(tensor)),
        other => panic!("{tensor}: {other:?}"),
    }
}

#[test]
fn keys() {
    let writer = tiny().writer();
    let missing = |key: &str| {
        let mut changed = writer.clone();
        changed.remove(key);
        Model::open(&changed.finish()).map(drop)
    };
    let needed = [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ];
    for (key, _) in &writer.metadata {
        match missing(key) {
            Err(ModelError::MissingKey { key: said }) => {
                assert_eq!(said, name(key));
                assert!(needed.contains(&key.as_str()), "{key}");
            }
            Err(ModelError::TensorShape { .. }) => assert_eq!(key, "llama.attention.head_count_kv"),
            Err(other) => panic!("{key}: {other:?}"),
            Ok(()) => assert!(!needed.contains(&key.as_str()), "{key}"),
        }
    }
    let mut changed = writer.clone();
    changed.set("general.architecture", "mamba");
    assert_eq!(refused(&changed.finish()), ModelError::Architecture { name: name("mamba") });
    changed.set("general.architecture", 3_u32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("general.architecture") });
}

#[test]
fn hyperparameters() {
    let writer = tiny().writer();
    let sizes = [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "rope.dimension_count",
    ];
    let wrong: Vec<Meta> = vec![
        0_u32.into(),
        (-3_i32).into(),
        u64::MAX.into(),
        (1_u64 << 32).into(),
        f32::NAN.into(),
        1.5_f32.into(),
        "8".into(),
        true.into(),
        vec![8_u32, 8].into(),
    ];
    for key in sizes {
        let key = format!("llama.{key}");
        for value in &wrong {
            let mut changed = writer.clone();
            changed.set(&key, value.clone());
            match refused(&changed.finish()) {
                ModelError::BadValue { key: said } => assert_eq!(said, name(&key), "{value:?}"),
                // A value per layer is not nonsense.
                ModelError::Unsupported { key: said } if matches!(value, Meta::Array(..)) => {
                    assert_eq!(said, name(&key));
                }
                other => panic!("{key} = {value:?}: {other:?}"),
            }
        }
        // Possible alone, but not with the rest; or more than any model has.
        for value in [3_u32, 5, 77, 1 << 20, 1 << 25, u32::MAX] {
            let mut changed = writer.clone();
            changed.set(&key, value);
            let file = changed.finish();
            assert_eq!(try_all(&file), key == "llama.context_length", "{key} = {value}");
        }
    }
    let floats = ["attention.layer_norm_rms_epsilon", "rope.freq_base"];
    for key in floats {
        let key = format!("llama.{key}");
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, -1e-5] {
            let mut changed = writer.clone();
            changed.set(&key, value);
            assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name(&key) }, "{value}");
        }
        for value in [f32::MAX, f32::MIN_POSITIVE, 1e-45] {
            let mut changed = writer.clone();
            changed.set(&key, value);
            assert!(try_all(&changed.finish()));
        }
        let mut changed = writer.clone();
        changed.set(&key, 1e300_f64);
        assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name(&key) });
    }
    let unsupported = [
        ("rope.scaling.type", Meta::from("su")),
        ("expert_shared_count", Meta::from(1_u32)),
        ("logit_scale", Meta::from(2.0_f32)),
        ("attention.causal", Meta::from(false)),
        ("attention.sliding_window_pattern", Meta::from("every second")),
    ];
    for (key, value) in unsupported {
        let mut changed = writer.clone();
        let key = format!("llama.{key}");
        changed.set(&key, value).set("llama.attention.sliding_window", 9_u32);
        assert_eq!(refused(&changed.finish()), ModelError::Unsupported { key: name(&key) });
    }
    let mut changed = writer.clone();
    changed.set("llama.expert_count", 4_u32);
    assert_eq!(refused(&changed.finish()), ModelError::MissingKey { key: name("llama.expert_used_count") });
    changed.set("llama.expert_used_count", 5_u32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("llama.expert_used_count") });
    changed.set("llama.expert_used_count", 2_u32);
    assert!(matches!(refused(&changed.finish()), ModelError::UnknownTensor { .. }));
    let mut changed = writer.clone();
    changed.set("llama.rope.scaling.type", "linear").set("llama.rope.scaling.factor", 0.0_f32);
    assert_eq!(refused(&changed.finish()), ModelError::BadValue { key: name("llama.rope.scaling.factor") });
}

/// Every bit of everything before the tensors' data, one at a time.
#[test]
fn flipped_bits_of_the_metadata() {
    for synthetic in [tiny(), tiny_qwen3()] {
        let mut file = SyntheticModel { layers: 1, ..synthetic }.bytes();
        let length = Model::open(&file).unwrap().gguf().metadata_bytes().len();
        let mut opened = 0;
        for bit in 0..length * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            let start = Instant::now();
            opened += usize::from(try_all(&file));
            assert!(start.elapsed() < Duration::from_secs(5), "bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        // Many are in the vocabulary, which only the tokenizer reads.
        assert!(opened > 0 && opened < length * 8, "{opened} of {}", length * 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut file = tiny().bytes();
        let length = Model::open(&file).unwrap().gguf().metadata_bytes().len();
        for (index, value) in damage {
            file[index.index(length)] = value;
        }
        try_all(&file);
    }

    #[test]
    fn extreme_limits(
        sizes in prop::collection::vec(
            prop_oneof![0..5_usize, 30..70_usize, Just(1 << 16), Just(1 << 20), Just(1 << 31), Just(usize::MAX), Just(usize::MAX / 2), any::<usize>()],
            6..7,
        ),
        kind in 0..3_usize,
        element in 0..KvType::ALL.len(),
    ) {
        let file = tiny().bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits {
            sequences: sizes[0],
            context: sizes[1],
            rows: sizes[2],
            logit_rows: sizes[3],
            kv_blocks: sizes[4],
            workers: sizes[5],
            kv_kind: KvKind::ALL[kind],
            kv_type: KvType::ALL[element],
            ..Limits::default()
        };
        match Plan::new(&model, &limits) {
            Ok(plan) if plan.bytes() < 1 << 24 => {
                let mut memory = Memory::new(plan.bytes());
                let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
                let seq = engine.open().unwrap();
                engine.decode_step(seq, 1).unwrap();
            }
            Ok(_) | Err(PlanError::Memory(MemoryError::TooLarge)) => {}
            Err(PlanError::Limit { given, min, max, .. }) => prop_assert!(given < min || given > max),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn limits_out_of_range() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let base = Limits { sequences: 2, context: 100, rows: 8, logit_rows: 2, ..Limits::default() };
    let refused = |limits| match Plan::new(&model, &limits) {
        Err(PlanError::Limit { name, given, min: 1, max }) => (name, given, max),
        other => panic!("{other:?}"),
    };
    let huge = usize::MAX;
    assert_eq!(refused(Limits { sequences: 0, ..base }), ("sequences", 0, 65_536));
    assert_eq!(refused(Limits { sequences: huge, ..base }), ("sequences", huge, 65_536));
    assert_eq!(refused(Limits { context: huge, ..base }), ("context", huge, i32::MAX as usize));
    assert_eq!(refused(Limits { rows: 0, ..base }), ("rows", 0, 65_536));
    assert_eq!(refused(Limits { rows: 65_537, ..base }), ("rows", 65_537, 65_536));
    assert_eq!(refused(Limits { logit_rows: 0, ..base }), ("logit_rows", 0, 8));
    assert_eq!(refused(Limits { logit_rows: 9, ..base }), ("logit_rows", 9, 8));
    assert_eq!(refused(Limits { kv_blocks: 15, ..base }), ("kv_blocks", 15, 14));
    assert_eq!(refused(Limits { workers: 0, ..base }), ("workers", 0, 1024));
    assert_eq!(refused(Limits { workers: 1025, ..base }), ("workers", 1025, 1024));
    let text = Plan::new(&model, &Limits { workers: 0, ..base }).unwrap_err().to_string();
    assert_eq!(text, "limit workers is 0, it must be 1 to 1024");
    // 0 stands for a default.
    let plan = Plan::new(&model, &Limits { context: 0, kv_blocks: 0, ..base }).unwrap();
    assert_eq!((plan.limits().context, plan.limits().kv_blocks), (1024, 128));
}

/// The calls in `wrong` leave an engine as it was: what follows gives the plain rows, and no block is lost.
fn unharmed(model: &Model<'_>, limits: Limits, wrong: impl Fn(&mut Player<'_, '_>, SeqId)) {
    let recorded = Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, &[1, 2, 3, 4, 5]);
        let free = free_blocks(&player.engine);
        wrong(player, seq);
        assert_eq!(free_blocks(&player.engine), free);
        assert_eq!(player.engine.seq_len(seq), Ok(5));
        assert!(!player.engine.is_busy());
        assert_eq!(player.engine.step(usize::MAX), Ok(Step::Idle));
        player.append(seq, &[6, 0]);
        let other = player.open();
        player.append(other, &[3; 17]);
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

fn free_blocks(engine: &Engine<'_, '_>) -> usize {
    engine.cache().allocator(0).unwrap().free_blocks()
}

fn small_limits() -> impl Iterator<Item = Limits> {
    let limits = Limits { sequences: 2, context: 40, rows: 4, logit_rows: 4, ..Limits::default() };
    let kinds = KvKind::ALL.into_iter().flat_map(|kind| KvType::ALL.map(|element| (kind, element)));
    kinds.map(move |(kv_kind, kv_type)| Limits { kv_kind, kv_type, ..limits })
}

#[test]
fn bad_calls() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in small_limits() {
        unharmed(&model, limits, |player, seq| {
            let engine = &mut player.engine;
            let stale = engine.open().unwrap();
            engine.close(stale).unwrap();
            let unknown = EngineError::Cache(CacheError::UnknownSequence { sequence: stale.to_bits() });
            let nobody = SeqId::from_bits(0x1234_ffff);
            let token = |index, token| EngineError::Token { index, token, vocab: 9 };
            let full = EngineError::Cache(CacheError::ContextFull { needed: 41, context: 40 });
            let short = EngineError::Cache(CacheError::TooShort { keep: 6, length: 5 });
            let position = |given| EngineError::Cache(CacheError::Position { expected: 5, given });
            let refused = [
                (engine.prefill(seq, &[]).map(drop), EngineError::Empty),
                (engine.queue(seq, 5, &[], Logits::All), EngineError::Empty),
                (engine.prefill(seq, &[0, 9]).map(drop), token(1, 9)),
                (engine.decode_step(seq, u32::MAX).map(drop), token(0, u32::MAX)),
                (engine.queue(seq, 5, &[1, 2, 3, 4, 1 << 31], Logits::All), token(4, 1 << 31)),
                (engine.prefill(seq, &[1; 36]).map(drop), full),
                (engine.queue(seq, 5, &[1; 36], Logits::Last), full),
                (engine.can_extend(seq, 36), full),
                (engine.queue(seq, 4, &[1], Logits::Last), position(4)),
                (engine.queue(seq, 6, &[1], Logits::Last), position(6)),
                (engine.queue(seq, usize::MAX, &[1], Logits::Last), position(usize::MAX)),
                (engine.rewind(seq, 6), short),
                (engine.fork(seq, 6).map(drop), short),
                (engine.prefill(stale, &[1]).map(drop), unknown),
                (engine.queue(stale, 0, &[1], Logits::Last), unknown),
                (engine.rewind(stale, 0), unknown),
                (engine.reset(stale), unknown),
                (engine.close(stale), unknown),
                (engine.cancel(stale), unknown),
                (engine.fork(stale, 0).map(drop), unknown),
                (engine.snapshot(stale, &mut []).map(drop), unknown),
                (engine.seq_len(stale).map(drop), unknown),
                (engine.close(nobody), EngineError::Cache(CacheError::UnknownSequence { sequence: nobody.to_bits() })),
            ];
            for (index, (result, error)) in refused.into_iter().enumerate() {
                assert_eq!(result, Err(error), "call {index}");
                assert!(!error.to_string().is_empty());
            }
            assert!(engine.logits(stale).is_none());
            let second = engine.open().unwrap();
            assert_eq!(engine.open(), Err(EngineError::Cache(CacheError::NoFreeSequence { sequences: 2 })));
            engine.close(second).unwrap();
        });
    }
}

#[test]
fn calls_on_sequences_in_flight() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in small_limits() {
        unharmed(&model, limits, |player, seq| {
            let engine = &mut player.engine;
            engine.queue(seq, 5, &[7, 7, 7], Logits::Last).unwrap();
            assert_eq!(engine.step(3), Ok(Step::Yielded));
            assert_eq!(engine.step(0), Ok(Step::Yielded));
            let busy = EngineError::Cache(CacheError::Busy { sequence: seq.to_bits() });
            let other = engine.open().unwrap();
            let refused = [
                (engine.queue(seq, 5, &[1], Logits::Last), busy),
                (engine.rewind(seq, 0), busy),
                (engine.fork(seq, 0).map(drop), busy),
                (engine.close(seq), busy),
                (engine.snapshot(seq, &mut []).map(drop), busy),
                (engine.can_extend(seq, 1), busy),
                (engine.prefill(other, &[1]).map(drop), EngineError::Busy),
                (engine.decode_step(seq, 1).map(drop), EngineError::Busy),
                (engine.cache_mut().map(drop), EngineError::Busy),
            ];
            for (index, (result, error)) in refused.into_iter().enumerate() {
                assert_eq!(result, Err(error), "call {index}");
            }
            engine.close(other).unwrap();
            engine.cancel(seq).unwrap();
            engine.cancel(seq).unwrap();
        });
    }
}

/// A model in which one token's embedding is not finite: only sequences with this token fail.
#[test]
fn values_that_are_not_finite() {
    for synthetic in [tiny(), tiny_qwen3()] {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut writer = synthetic.writer();
            writer.tensor_mut("token_embd.weight").data[8 * 8 * 4 + 4..][..4].copy_from_slice(&poison.to_le_bytes());
            let file = writer.finish();
            let model = Model::open(&file).unwrap();
            for limits in small_limits() {
                let failed = Err(EngineError::NonFinite { layer: 0 });
                unharmed(&model, limits, |player, seq| {
                    let engine = &mut player.engine;
                    // In the first batch, and in a later one.
                    assert_eq!(engine.prefill(seq, &[8, 1]).map(drop), failed);
                    assert_eq!(engine.prefill(seq, &[1, 1, 1, 1, 1, 1, 1, 1, 8, 1]).map(drop), failed);
                    assert_eq!(engine.decode_step(seq, 8).map(drop), failed);
                });
                // Others of the batch lose what was queued, and nothing else.
                unharmed(&model, limits, |player, seq| {
                    let engine = &mut player.engine;
                    let other = engine.open().unwrap();
                    engine.queue(other, 0, &[8], Logits::Last).unwrap();
                    engine.queue(seq, 5, &[1], Logits::Last).unwrap();
                    assert_eq!(engine.step(usize::MAX), Err(EngineError::NonFinite { layer: 0 }));
                    assert_eq!(engine.seq_len(other), Ok(0));
                    engine.close(other).unwrap();
                });
            }
        }
    }
}

#[test]
fn weights_that_are_not_finite() {
    for synthetic in [tiny(), SyntheticModel { weights: Dtype::Q8_0, hidden: 32, ffn: 32, head_dim: 16, ..tiny() }] {
        let writer = synthetic.writer();
        let matrices = writer.tensors.iter().filter(|tensor| tensor.dims.len() == 2);
        for tensor in matrices {
            let mut changed = writer.clone();
            // All ones are NaN in f32, and in the scale of a block.
            changed.tensor_mut(&tensor.name).data.fill(0xff);
            let file = changed.finish();
            let model = Model::open(&file).unwrap();
            let plan = Plan::new(&model, &Limits { context: 40, ..Limits::default() }).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let seq = engine.open().unwrap();
            for _ in 0..2 {
                match engine.prefill(seq, &[1, 2, 3]) {
                    Err(EngineError::NonFinite { layer }) => assert!(layer <= 2),
                    result => panic!("{}: {result:?}", tensor.name),
                }
                assert_eq!((engine.seq_len(seq), engine.is_busy()), (Ok(0), false));
            }
        }
    }
}

/// Values too large for f16, and for scales in f16, are an error there, and none in f32.
#[test]
fn values_too_large_for_f16() {
    let mut writer = tiny().writer();
    for value in writer.tensor_mut("blk.1.attn_v.weight").data.chunks_exact_mut(4) {
        let weight = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        value.copy_from_slice(&(weight * 1e12).to_le_bytes());
    }
    let file = writer.finish();
    let model = Model::open(&file).unwrap();
    for kv_type in KvType::ALL {
        let plan = Plan::new(&model, &Limits { context: 40, kv_type, ..Limits::default() }).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        let result = engine.prefill(seq, &[1, 2, 3]).map(drop);
        let wanted = if kv_type == KvType::F32 { Ok(()) } else { Err(EngineError::NonFinite { layer: 1 }) };
        assert_eq!(result, wanted);
    }
}

/// What is queued, and may be finished only in part.
#[derive(Clone)]
struct Tracked {
    seq: SeqId,
    len: usize,
    end: usize,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_of_the_engine(
        seed: u64,
        kind in 0..3_usize,
        rows in 1..9_usize,
        kv_blocks in prop_oneof![Just(0), 2..7_usize],
    ) {
        let file = tiny().bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits {
            sequences: 3,
            context: 40,
            rows,
            logit_rows: 1 + seed as usize % rows,
            kv_kind: KvKind::ALL[kind],
            kv_blocks,
            ..Limits::default()
        };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let mut rng = Rng::new(seed);
        let mut open: Vec<Tracked> = Vec::new();
        for _ in 0..50 {
            random_call(&mut engine, &mut rng, &mut open);
            check_invariants(&engine, &mut open);
        }
        while !matches!(engine.step(1 + rng.below(50)), Ok(Step::Idle)) {}
        for tracked in &open {
            assert_eq!(engine.seq_len(tracked.seq), Ok(tracked.end));
            engine.close(tracked.seq).unwrap();
        }
        let blocks = engine.cache().allocator(0).unwrap();
        assert_eq!(blocks.free_blocks(), blocks.len());
        let seq = engine.open().unwrap();
        let first = hash(engine.prefill(seq, &[1, 2, 3]).unwrap());
        let mut memory = Memory::new(plan.bytes());
        let mut untouched = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = untouched.open().unwrap();
        prop_assert_eq!(hash(untouched.prefill(seq, &[1, 2, 3]).unwrap()), first);
    }
}

fn random_call(engine: &mut Engine<'_, '_>, rng: &mut Rng, open: &mut Vec<Tracked>) {
    let index = rng.below(4);
    // Sometimes a handle that nobody has.
    let seq = open.get(index).map_or(SeqId::from_bits(rng.u64() as u32), |tracked| tracked.seq);
    let length = open.get(index).map_or(44, |tracked| tracked.len + rng.below(2));
    let (keep, len) = (rng.below(length + 1), rng.below(20));
    let vocab = if rng.below(8) == 0 { 12 } else { 9 };
    let tokens = rng.tokens(len, vocab);
    let mut tracked = open.get_mut(index);
    match rng.below(11) {
        0 => {
            if let Ok(seq) = engine.open() {
                open.push(Tracked { seq, len: 0, end: 0 });
            }
        }
        1 => {
            if engine.close(seq).is_ok() {
                open.remove(index);
            }
        }
        2 => {
            if let Ok(seq) = engine.fork(seq, keep) {
                open.push(Tracked { seq, len: keep, end: keep });
            }
        }
        3 => {
            if engine.rewind(seq, keep).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                (tracked.len, tracked.end) = (keep, keep);
            }
        }
        4 | 5 => {
            let position = tracked.as_ref().map_or(keep, |tracked| tracked.len + usize::from(keep == 3));
            let logits = if rng.below(2) == 0 { Logits::All } else { Logits::Last };
            if engine.queue(seq, position, &tokens, logits).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                assert!(tracked.len == tracked.end && position == tracked.len);
                tracked.end += tokens.len();
            }
        }
        6 => {
            if engine.prefill(seq, &tokens).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                tracked.end += tokens.len();
                tracked.len = tracked.end;
            }
        }
        7 => {
            if engine.cancel(seq).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                let length = engine.seq_len(seq).unwrap();
                assert!((tracked.len..=tracked.end).contains(&length));
                (tracked.len, tracked.end) = (length, length);
            }
        }
        _ => drop(engine.step(rng.below(30)).unwrap()),
    }
}

fn check_invariants(engine: &Engine<'_, '_>, open: &mut [Tracked]) {
    for tracked in open.iter_mut() {
        let length = engine.seq_len(tracked.seq).unwrap();
        assert!((tracked.len..=tracked.end).contains(&length));
        tracked.len = length;
    }
    assert_eq!(engine.is_busy(), open.iter().any(|tracked| tracked.len < tracked.end));
    let blocks = engine.cache().allocator(0).unwrap();
    let used = (0..blocks.len() as u32).filter(|&block| blocks.meta(block).unwrap().ref_count() > 0).count();
    assert_eq!(blocks.free_blocks() + used, blocks.len());
}
