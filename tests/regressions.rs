//! Faults that random calls have found. Each test has the smallest sequence of calls that showed the fault.

use common::Memory;
use common::gguf_writer::{GgufWriter, Meta};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel, encode_f32};
use gleed::cache::{BlockChoice, BlockId, CacheError, HostPolicy, SnapshotError, SnapshotOptions};
use gleed::model::Adapter;
use gleed::{Engine, EngineError, KvKind, Limits, Logits, Model, Plan, Pooling, SeqId, Step, Window};

const VOCAB: usize = 11;
const HIDDEN: usize = 16;

fn tiny(architecture: Architecture) -> SyntheticModel {
    SyntheticModel {
        hidden: HIDDEN,
        ffn: 16,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_dim: 4,
        vocab: VOCAB,
        context: 80,
        ..SyntheticModel::of(architecture)
    }
}

/// Returns a model with layers that see the last 5 tokens, and layers that see all.
fn windowed() -> Vec<u8> {
    tiny(Architecture::Gemma2).with("attention.sliding_window", 5u32).bytes()
}

/// Returns a model whose final norm multiplies by `weight`.
fn with_final_norm(weight: f32) -> Vec<u8> {
    let mut writer = tiny(Architecture::Llama).writer();
    for element in writer.tensor_mut("output_norm.weight").data.as_chunks_mut().0 {
        *element = weight.to_le_bytes();
    }
    writer.finish()
}

/// Returns an adapter of rank 2 for the queries of all layers.
fn adapter(model: &SyntheticModel) -> Vec<u8> {
    let mut rng = Rng::new(5);
    let mut writer = GgufWriter::default();
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 4f32);
    writer.set("general.architecture", model.architecture.name());
    for tensor in model.writer().tensors.into_iter().filter(|tensor| tensor.name.contains("attn_q.")) {
        let (cols, rows) = (tensor.dims[0], tensor.dims[1]);
        let mut matrix = |len: u64| encode_f32(&(0..len).map(|_| rng.normal()).collect::<Vec<f32>>());
        let (a, b) = (matrix(cols * 2), matrix(rows * 2));
        writer.add_tensor(&format!("{}.lora_a", tensor.name), &[cols, 2], 0, a);
        writer.add_tensor(&format!("{}.lora_b", tensor.name), &[2, rows], 0, b);
    }
    writer.finish()
}

fn limits() -> Limits {
    Limits { sequences: 3, context: 64, rows: 23, ..Limits::default() }
}

fn with_engine<R>(file: &[u8], limits: Limits, play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    play(&mut Engine::new(&model, &plan, memory.bytes()).unwrap())
}

/// Calls `play` with an engine for one adapter.
fn with_adapter<R>(play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let synthetic = tiny(Architecture::Llama);
    let (file, adapter) = (synthetic.bytes(), adapter(&synthetic));
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits { adapters: 1, adapter_rank: 2, ..limits() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    assert_eq!(engine.load_adapter(&Adapter::open(&adapter, &model).unwrap()), Ok(0));
    play(&mut engine)
}

fn tokens(len: usize) -> Vec<u32> {
    (0..len as u32).map(|token| token % VOCAB as u32).collect()
}

fn snapshot(engine: &Engine<'_, '_>, seq: SeqId, base: usize) -> Vec<u8> {
    let options = SnapshotOptions { base, ..SnapshotOptions::default() };
    let mut bytes = vec![0; engine.snapshot_len_with(seq, &options).unwrap()];
    engine.snapshot_with(seq, &options, &mut bytes).unwrap();
    bytes
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// A snapshot of a whole sequence needs no base. A base that is given does not affect the new sequence.
#[test]
fn a_whole_snapshot_ignores_its_base() {
    with_adapter(|engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &[1, 2, 3]).unwrap();
        let whole = snapshot(engine, seq, 0);
        let plain = bits(engine.decode_step(seq, 4).unwrap());
        engine.set_adapter(seq, 0, 1.0).unwrap();
        let adapted = engine.fork(seq, 3).unwrap();
        assert_ne!(bits(engine.decode_step(adapted, 4).unwrap()), plain);
        engine.close(seq).unwrap();
        // A closed sequence, an open one with an adapter, and one that was never opened.
        for base in [seq, adapted, SeqId::from_bits(0xdead_beef)] {
            let (restored, _) = engine.restore_with(Some(base), &whole).unwrap();
            assert_eq!(engine.adapter(restored, 0), Ok(0.0), "{base:?}");
            assert_eq!(bits(engine.decode_step(restored, 4).unwrap()), plain, "{base:?}");
            engine.set_adapter(restored, 0, 1.0).unwrap();
            engine.close(restored).unwrap();
        }
    });
}

/// A delta continues its base like a fork, with the scales of its adapters.
#[test]
fn a_delta_has_the_adapters_of_its_base() {
    with_adapter(|engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &tokens(20)).unwrap();
        let delta = snapshot(engine, seq, 16);
        engine.set_adapter(seq, 0, 0.5).unwrap();
        let (restored, _) = engine.restore_with(Some(seq), &delta).unwrap();
        let fork = engine.fork(seq, 20).unwrap();
        assert_eq!(engine.adapter(restored, 0), Ok(0.5));
        let expected = bits(engine.decode_step(fork, 4).unwrap());
        assert_eq!(bits(engine.decode_step(restored, 4).unwrap()), expected);
    });
}

/// A sequence that the cache opens takes the place of one that had an adapter, but not its adapter.
#[test]
fn a_sequence_opened_in_the_cache_has_no_adapter() {
    with_adapter(|engine| {
        let first = engine.open().unwrap();
        let plain = bits(engine.prefill(first, &[1, 2, 3]).unwrap());
        let parent = engine.open().unwrap();
        engine.prefill(parent, &[1, 2]).unwrap();
        for fork in [false, true] {
            let seq = engine.open().unwrap();
            engine.set_adapter(seq, 0, 1.0).unwrap();
            let cache = engine.cache_mut().unwrap();
            cache.close(seq).unwrap();
            let seq = if fork { cache.fork(parent, 2) } else { cache.open() }.unwrap();
            assert_eq!(engine.adapter(seq, 0), Ok(0.0));
            let rest = if fork { &[3][..] } else { &[1, 2, 3] };
            assert_eq!(bits(engine.prefill(seq, rest).unwrap()), plain);
            engine.close(seq).unwrap();
        }
    });
}

/// The adapter is for a model with another width and number of layers.
#[test]
fn an_adapter_of_another_model_is_not_loaded() {
    let other = SyntheticModel { hidden: 32, layers: 3, ..tiny(Architecture::Llama) };
    let (file, other_file, adapter) = (tiny(Architecture::Llama).bytes(), other.bytes(), adapter(&other));
    let [model, other] = [&file, &other_file].map(|file| Model::open(file).unwrap());
    let adapter = Adapter::open(&adapter, &other).unwrap();
    for (model, loaded) in [(&model, Err(EngineError::AdapterModel)), (&other, Ok(0))] {
        assert_eq!(adapter.fits(model), loaded.is_ok());
        let plan = Plan::new(model, &Limits { adapters: 1, adapter_rank: 2, ..limits() }).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        assert_eq!(engine.load_adapter(&adapter), loaded);
        let known = loaded.map_err(|_| EngineError::Adapter { given: 0, loaded: 0 });
        assert_eq!(engine.set_adapter(seq, 0, 1.0), known.map(drop));
        assert_eq!(engine.prefill(seq, &[1, 2]).map(<[f32]>::len), Ok(VOCAB));
    }
}

/// The last tokens of the base are evicted, so the engine cannot check whether the base is the right one. Covers a
/// window of the model, and a window of the host with sinks.
#[test]
fn a_delta_on_a_base_whose_window_has_passed() {
    let host = Window { sinks: 2, last: 21 };
    let files = [(windowed(), Window::ALL, 18, 0), (tiny(Architecture::Llama).bytes(), host, 36, 16)];
    for (file, window, length, position) in &files {
        for kv_kind in [KvKind::Basic, KvKind::Paged] {
            with_engine(file, Limits { kv_kind, window: *window, ..limits() }, |engine| {
                let seq = engine.open().unwrap();
                engine.prefill(seq, &tokens(*length)).unwrap();
                let delta = snapshot(engine, seq, length / 16 * 16);
                let (restored, _) = engine.restore_with(Some(seq), &delta).unwrap();
                assert_eq!(snapshot(engine, restored, 0), snapshot(engine, seq, 0));
                engine.close(restored).unwrap();
                engine.prefill(seq, &tokens(20)).unwrap();
                let before = engine.stats();
                let gone = |error| matches!(error, EngineError::Cache(CacheError::WindowGone { position: gone, .. }) if gone == *position);
                assert!(gone(engine.snapshot_len(seq).unwrap_err()));
                assert!(gone(engine.restore_with(Some(seq), &delta).map(drop).unwrap_err()), "{window:?}");
                assert_eq!(engine.stats(), before);
            });
        }
    }
}

/// Restoring a snapshot that is damaged at its end takes blocks. Afterwards nothing shows that it took them.
#[test]
fn a_failed_restore_leaves_no_mark() {
    for kv_kind in KvKind::ALL {
        with_engine(&tiny(Architecture::Llama).bytes(), Limits { kv_kind, ..limits() }, |engine| {
            let seq = engine.open().unwrap();
            engine.prefill(seq, &tokens(40)).unwrap();
            let before = engine.stats();
            each_damaged(engine, seq);
            assert_eq!(engine.stats(), before, "{kv_kind}");
        });
    }
}

/// A failed restore does not count as a use of the base: the base is still the first sequence to be closed for room.
#[test]
fn a_failed_delta_is_no_use_of_its_base() {
    with_engine(&tiny(Architecture::Llama).bytes(), Limits { kv_blocks: 7, ..limits() }, |engine| {
        let base = engine.open().unwrap();
        engine.prefill(base, &tokens(40)).unwrap();
        let later = engine.open().unwrap();
        engine.prefill(later, &[1]).unwrap();
        each_damaged(engine, base);
        let delta = snapshot(engine, base, 32);
        let order = |engine: &mut Engine<'_, '_>| {
            let (asking, mut asked) = (engine.open().unwrap(), Vec::new());
            let refused = engine.make_room(asking, 64, |seq, _| {
                asked.push(seq);
                false
            });
            assert!(matches!(refused, Err(EngineError::Cache(CacheError::OutOfBlocks { .. }))), "{refused:?}");
            engine.close(asking).unwrap();
            asked
        };
        assert_eq!(order(engine), [base, later]);
        let (restored, _) = engine.restore_with(Some(base), &delta).unwrap();
        engine.close(restored).unwrap();
        assert_eq!(order(engine), [later, base]);
    });
}

/// Tries to restore a whole snapshot and a delta of a sequence of 40 tokens, both damaged at the end.
fn each_damaged(engine: &mut Engine<'_, '_>, seq: SeqId) {
    for base in [0, 16] {
        let mut bytes = snapshot(engine, seq, base);
        *bytes.last_mut().unwrap() ^= 1;
        let error = engine.restore_with(Some(seq), &bytes).map(drop).unwrap_err();
        assert!(matches!(error, EngineError::Snapshot(SnapshotError::Checksum { .. })));
    }
}

/// The sum of the hidden states does not fit into f32, but their mean does.
#[test]
fn the_mean_of_finite_states_is_finite() {
    let file = with_final_norm(3e37);
    let tokens = vec![1; 60];
    let (whole, passing) = (Window::ALL, Window { sinks: 0, last: 8 });
    for (window, before) in [(whole, 0), (passing, 0), (passing, 20)] {
        for rows in [4, 60] {
            let limits = Limits { context: 100, rows, window, ..limits() };
            with_engine(&file, limits, |engine| {
                let [embedded, stepped] = [engine.open().unwrap(), engine.open().unwrap()];
                let mut states = Vec::new();
                for seq in [embedded, stepped] {
                    tokens[..before].chunks(4).for_each(|tokens| queue_and_run(engine, seq, tokens, |_| {}));
                }
                for tokens in tokens.chunks(rows) {
                    queue_and_run(engine, stepped, tokens, |row| states.push(row.to_vec()));
                }
                let mut mean = [0f32; HIDDEN];
                engine.embed(embedded, &tokens, Pooling::Mean, &mut mean).unwrap();
                assert_eq!(engine.seq_len(embedded), Ok(before + 60));
                let plain = |i: usize| states.iter().fold(0f32, |sum, row| sum + row[i]);
                assert!((0..HIDDEN).any(|i| plain(i).is_infinite()));
                const UNIT: f32 = 1.0 / 4_294_967_296.0;
                let sum = |i: usize| states.iter().fold(0f32, |sum, row| sum + row[i] * UNIT);
                let expected: Vec<f32> = (0..HIDDEN).map(|i| sum(i) / 60.0 / UNIT).collect();
                assert_eq!(bits(&mean), bits(&expected), "{window:?}, {before} tokens before, {rows} rows");
            });
        }
    }
}

/// Queues tokens for their hidden states, and calls `on_row` with each state.
fn queue_and_run(engine: &mut Engine<'_, '_>, seq: SeqId, tokens: &[u32], mut on_row: impl FnMut(&[f32])) {
    engine.queue(seq, engine.seq_len(seq).unwrap(), tokens, Logits::Hidden).unwrap();
    while engine.step(usize::MAX).unwrap() != Step::Idle {
        engine.hidden(|_, _, row| on_row(row));
    }
}

/// Hidden states that are not finite are found while the batch can still be dropped, which is before the window passes.
#[test]
fn a_state_that_is_not_finite_leaves_the_sequence_as_it_was() {
    let file = with_final_norm(f32::MAX);
    for window in [Window::ALL, Window { sinks: 0, last: 8 }] {
        for (pooling, logits) in [(Pooling::Mean, Logits::Hidden), (Pooling::Last, Logits::LastHidden)] {
            with_engine(&file, Limits { rows: 20, window, ..limits() }, |engine| {
                let seq = engine.open().unwrap();
                set_rows(engine, seq, 20);
                let before = (snapshot(engine, seq, 0), engine.sequence_stats(seq));
                let error = Err(EngineError::NonFinite { layer: 2 });
                assert_eq!(engine.embed(seq, &[1, 2, 3, 4], pooling, &mut [0.0; HIDDEN]), error);
                assert_eq!((snapshot(engine, seq, 0), engine.sequence_stats(seq)), before);
                engine.queue(seq, 20, &[1, 2, 3, 4], logits).unwrap();
                assert_eq!(engine.step(usize::MAX), error.map(|()| Step::Idle));
                assert_eq!((snapshot(engine, seq, 0), engine.sequence_stats(seq)), before);
                assert_eq!((engine.is_busy(), engine.hidden_rows()), (false, 0));
            });
        }
    }
}

/// Pushes keys and values from outside, because the model cannot compute any.
fn set_rows(engine: &mut Engine<'_, '_>, seq: SeqId, count: usize) {
    let cache = engine.cache_mut().unwrap();
    for row in 0..count {
        for layer in 0..2 {
            cache.push_row(seq, layer, &[row as f32; 4], &[-1.0; 4]).unwrap();
        }
    }
}

/// A step failed if a row that only the states needed came after rows to be stored.
#[test]
fn rows_that_are_stored_may_follow_others() {
    let tokens: Vec<u32> = (0..20).map(|token| token % VOCAB as u32).collect();
    for architecture in [Architecture::Lfm2, Architecture::Qwen35, Architecture::GraniteHybrid, Architecture::FalconH1]
    {
        let file = tiny(architecture).bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits { sequences: 2, context: 64, rows: 64, ..Limits::default() };
        let plan = Plan::new(&model, &limits).unwrap();
        let run = |others: bool| {
            let mut memory = Memory::new(plan.bytes());
            let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let (first, second) = (engine.open().unwrap(), engine.open().unwrap());
            engine.prefill(second, &tokens).unwrap();
            engine.rewind(second, 10).unwrap();
            assert_eq!(engine.computed_at(second, 10), Ok(0));
            if others {
                engine.queue(first, 0, &tokens, Logits::Last).unwrap();
            }
            engine.queue(second, 10, &[3], Logits::Last).unwrap();
            while engine.step(usize::MAX).unwrap() != Step::Idle {
                if let Some(logits) = engine.logits(second) {
                    return logits.to_vec();
                }
            }
            panic!("no logits");
        };
        assert_eq!(run(true), run(false), "{architecture:?}");
    }
}

/// A checkpoint of a state that must be computed again kept nothing, but reported success.
#[test]
fn a_state_that_is_to_be_computed_again_is_no_checkpoint() {
    let file = tiny(Architecture::Lfm2).bytes();
    let model = Model::open(&file).unwrap();
    let limits = Limits { sequences: 2, context: 64, rows: 64, checkpoints: 2, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    engine.prefill(seq, &[1; 20]).unwrap();
    engine.rewind(seq, 10).unwrap();
    assert_eq!(engine.checkpoint(seq), Ok(false));
    engine.prefill(seq, &[1, 2, 3]).unwrap();
    assert_eq!(engine.checkpoint(seq), Ok(true));
    engine.prefill(seq, &[4]).unwrap();
    assert_eq!(engine.computed_at(seq, 13), Ok(13));
}

/// The tokens of an encoder have no logits, so the step that should compute them never ended.
#[cfg(feature = "device")]
#[test]
fn an_encoder_is_not_replayed() {
    let file = common::encoder::encoder("nomic-bert", 16, true).finish();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits { sequences: 2, context: 32, rows: 32, ..Limits::default() }).unwrap();
    let (mut one, mut two) = (Memory::new(plan.bytes()), Memory::new(plan.bytes()));
    let mut from = Engine::new(&model, &plan, one.bytes()).unwrap();
    let mut to = Engine::new(&model, &plan, two.bytes()).unwrap();
    let seq = from.open().unwrap();
    from.embed(seq, &[1, 2, 3, 4], Pooling::Mean, &mut vec![0.0; model.config().hidden]).unwrap();
    assert_eq!(to.replay(&from, seq), Err(EngineError::NoLogits));
    assert_eq!(to.step(1000), Ok(Step::Idle));
}

/// If the policy gave a wrong block for the second part of a prompt, the first part stayed.
#[test]
fn a_prompt_that_fails_in_its_second_part_leaves_nothing() {
    struct OnceRight(u32);
    impl HostPolicy for OnceRight {
        fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
            self.0 += 1;
            if self.0 > 1 { BlockId::MAX } else { choice.default() }
        }
    }
    let file = tiny(Architecture::Llama).bytes();
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 0, last: 60 };
    let limits = Limits { sequences: 1, context: 64, rows: 16, window, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut policy = OnceRight(0);
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_host_policy(Some(&mut policy));
    let seq = engine.open().unwrap();
    assert!(matches!(engine.prefill(seq, &[1; 40]), Err(EngineError::Cache(CacheError::PolicyBlock { .. }))));
    assert_eq!(engine.seq_len(seq), Ok(0));
}

/// Frequencies that no layer uses were not checked.
#[test]
fn rotations_that_no_layer_uses_are_checked() {
    let base = tiny(Architecture::Gemma4);
    for dims in [5_u32, 4_000_000_001] {
        let pattern = Meta::Array(7, vec![Meta::Bool(true); base.layers]);
        let file = tiny(Architecture::Gemma4)
            .with("attention.sliding_window_pattern", pattern)
            .with("rope.dimension_count", dims)
            .bytes();
        assert!(Model::open(&file).is_err(), "{dims}");
    }
}
