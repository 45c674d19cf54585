//! Whole models: the results of an engine with a GPU have the bits of the CPU.

mod common;
#[path = "engine/models.rs"]
mod models;
#[path = "engine/recurrent.rs"]
mod recurrent;

use gleed::kernels::Level;
use gleed::num::Xxh64;
use gleed::sample::{Sampler, SamplerParams, argmax};
use gleed::tensor::Dtype;
use gleed::{Engine, EngineError, KvType, Limits, Logits, Model, Plan, SeqId, Step, Window};
use gleed_gpu::{DevicePlan, Gpu, GpuDevice, Kernel, Weights};
use gleed_testing::Memory;
use gleed_testing::random::Rng;
use gleed_testing::synthetic::{Architecture, SyntheticModel};

/// Everything that a host sees of a run.
type Log = Vec<(usize, u64)>;

fn limits() -> Limits {
    let (sequences, context, rows) = (4, 320, 24);
    Limits { sequences, context, rows, logit_rows: 4, level: Level::SCALAR, ..Limits::default() }
}

fn hash(x: &[f32]) -> u64 {
    Xxh64::hash(bytemuck::cast_slice(x))
}

/// Returns what `host` sees of an engine on the CPU.
fn on_cpu<T>(model: &Model<'_>, limits: &Limits, host: impl FnOnce(&mut Engine<'_, '_>) -> T) -> T {
    let plan = Plan::new(model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    host(&mut Engine::new(model, &plan, memory.bytes()).unwrap())
}

/// Returns what `host` sees of an engine on a GPU.
fn on_gpu<T>(gpu: &Gpu, model: &Model<'_>, limits: &Limits, host: impl FnOnce(&mut Engine<'_, '_>) -> T) -> T {
    with_buffers(gpu, gpu.hardware().limits(), model, limits, host)
}

/// Returns what `host` sees of an engine on a GPU whose buffers are limited by `most`.
fn with_buffers<T>(
    gpu: &Gpu,
    most: gleed_gpu::Limits,
    model: &Model<'_>,
    limits: &Limits,
    host: impl FnOnce(&mut Engine<'_, '_>) -> T,
) -> T {
    let plan = Plan::for_device(model, limits).unwrap();
    let planned = DevicePlan::new(model, &plan, most).unwrap();
    let mut device = GpuDevice::new(gpu, planned).unwrap();
    let mut memory = Memory::new(plan.bytes());
    host(&mut Engine::with_device(model, &plan, memory.bytes(), &mut device).unwrap())
}

/// Takes steps with a budget of `units` units until nothing is left to do.
fn run(engine: &mut Engine<'_, '_>, units: usize, log: &mut Log) {
    loop {
        match engine.step(units).unwrap() {
            Step::Idle => return,
            Step::Ready => log.extend(engine.results().map(|(_, position, logits)| (position, hash(logits)))),
            _ => std::thread::yield_now(),
        }
    }
}

/// Runs a prompt in pieces, a fork in the middle of a block, tokens of both sequences, alternating and together, and a
/// rewind.
fn story(engine: &mut Engine<'_, '_>, vocab: usize, prompt: usize, units: usize) -> Log {
    let (mut log, mut rng) = (Log::new(), Rng::new(7));
    let a = engine.open().unwrap();
    let tokens = rng.tokens(prompt, vocab);
    for piece in tokens.chunks(prompt.div_ceil(2)) {
        engine.queue(a, engine.seq_len(a).unwrap(), piece, Logits::Last).unwrap();
        run(engine, units, &mut log);
    }
    let b = engine.fork(a, prompt).unwrap();
    for token in rng.tokens(3, vocab) {
        engine.queue(a, engine.seq_len(a).unwrap(), &[token], Logits::Last).unwrap();
        engine.queue(b, engine.seq_len(b).unwrap(), &[(token + 1) % vocab as u32, token], Logits::Last).unwrap();
        run(engine, units, &mut log);
    }
    engine.rewind(a, prompt - 3).unwrap();
    let next = decode(engine, a, 3, &mut log);
    log.push((0, u64::from(next)));
    log
}

/// Decodes tokens by the largest logit, from token 5 on. Returns the last one.
fn decode(engine: &mut Engine<'_, '_>, seq: SeqId, tokens: usize, log: &mut Log) -> u32 {
    let mut next = 5;
    for _ in 0..tokens {
        let logits = engine.decode_step(seq, next).unwrap();
        log.push((0, hash(logits)));
        next = argmax(logits).unwrap();
    }
    next
}

/// Returns a model of an architecture, with matrices of a type.
fn model(architecture: Architecture, weights: Dtype) -> Vec<u8> {
    let wide = SyntheticModel {
        hidden: 256,
        ffn: 512,
        heads: 4,
        kv_heads: 2,
        head_dim: 64,
        ..SyntheticModel::of(architecture)
    };
    let made = SyntheticModel { weights, ..wide };
    // A window of 64 leaves room for rewinds.
    let slides = matches!(architecture, Architecture::Gemma2 | Architecture::GptOss);
    let made = if slides { made.with("attention.sliding_window", 64u32) } else { made };
    made.bytes()
}

#[test]
fn architectures_and_types_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let q8_q4 = KvType { k: gleed::KvElement::Q8_0, v: gleed::KvElement::F16 };
    for (architecture, weights, kv_type) in [
        (Architecture::Llama, Dtype::Q8_0, KvType::F16),
        (Architecture::Llama, Dtype::Q4_0, KvType::Q8_0),
        (Architecture::Llama, Dtype::F16, q8_q4),
        (Architecture::Qwen3, Dtype::Q4_K, KvType::F16),
        (Architecture::Qwen3, Dtype::BF16, KvType::F16),
        (Architecture::Gemma2, Dtype::Q6_K, KvType::F16),
        (Architecture::Gemma2, Dtype::F32, KvType::Q8_0),
        (Architecture::Qwen2, Dtype::Q8_0, KvType::F16),
        (Architecture::Llama, Dtype::Q8_0, KvType::F32),
        (Architecture::Qwen3, Dtype::F16, KvType::Q4_0),
        (Architecture::Gpt2, Dtype::Q8_0, KvType::F16),
        (Architecture::Gpt2, Dtype::F16, KvType::Q4_0),
        (Architecture::Mpt, Dtype::Q4_K, KvType::F32),
        (Architecture::Starcoder2, Dtype::Q6_K, KvType::F16),
        (Architecture::StableLm, Dtype::Q8_0, KvType::Q8_0),
        (Architecture::Bloom, Dtype::Q4_0, KvType::F16),
        (Architecture::Hunyuan, Dtype::MXFP4, KvType::F16),
    ] {
        let bytes = model(architecture, weights);
        let (model, limits) = (Model::open(&bytes).unwrap(), Limits { kv_type, ..limits() });
        let vocab = model.config().vocab;
        let host = |units| move |engine: &mut Engine<'_, '_>| story(engine, vocab, 29, units);
        let expected = on_cpu(&model, &limits, host(usize::MAX));
        assert!(expected.len() > 10);
        assert_eq!(on_gpu(gpu, &model, &limits, host(usize::MAX)), expected, "{architecture:?} {weights} {kv_type:?}");
    }
}

/// Experts, also where their matrices lie in several buffers.
#[test]
fn experts_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let of = |architecture, weights| model(architecture, weights);
    let mixtral = SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::mixtral() }.bytes();
    for (name, bytes, kv_type) in [
        ("mixtral", mixtral, KvType::F16),
        ("qwen3moe", of(Architecture::Qwen3Moe, Dtype::Q4_K), KvType::Q8_0),
        ("qwen3moe", of(Architecture::Qwen3Moe, Dtype::F16), KvType::F16),
        ("gpt-oss", of(Architecture::GptOss, Dtype::Q8_0), KvType::F16),
        ("gpt-oss", of(Architecture::GptOss, Dtype::Q6_K), KvType::F16),
        ("gpt-oss", of(Architecture::GptOss, Dtype::MXFP4), KvType::F16),
    ] {
        let (model, limits) = (Model::open(&bytes).unwrap(), Limits { kv_type, ..limits() });
        let vocab = model.config().vocab;
        let host = |engine: &mut Engine<'_, '_>| story(engine, vocab, 29, usize::MAX);
        let expected = on_cpu(&model, &limits, host);
        assert_eq!(on_gpu(gpu, &model, &limits, host), expected, "{name}");
    }
    let small = SyntheticModel { weights: Dtype::Q8_0, layers: 1, ..SyntheticModel::of(Architecture::Qwen3Moe) };
    let bytes = SyntheticModel { hidden: 64, ffn: 128, ..small }.bytes();
    let model = Model::open(&bytes).unwrap();
    let limits = Limits { rows: 9, logit_rows: 1, context: 32, sequences: 1, ..limits() };
    let host = |engine: &mut Engine<'_, '_>| {
        let seq = engine.open().unwrap();
        hash(engine.prefill(seq, &[5, 310, 200, 319, 0, 17, 160, 3, 99, 140]).unwrap())
    };
    let most = gleed_gpu::Limits { binding: 48 << 10, ..gpu.hardware().limits() };
    assert_eq!(with_buffers(gpu, most, &model, &limits, host), on_cpu(&model, &limits, host));
}

/// Chunks of attention end at 256 positions. The host's window hides the positions between the sinks and the last ones.
#[test]
fn long_contexts_and_windows_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let bytes = SyntheticModel { weights: Dtype::Q8_0, layers: 1, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let vocab = model.config().vocab;
    for window in [Window::ALL, Window { sinks: 5, last: 40 }] {
        let limits = Limits { window, ..limits() };
        let host = |engine: &mut Engine<'_, '_>| {
            let (mut log, seq) = (Log::new(), engine.open().unwrap());
            log.push((0, hash(engine.prefill(seq, &Rng::new(3).tokens(253, vocab)).unwrap())));
            // Tokens of two sequences, of which one passes the end of a chunk before the other. Rows of one sequence
            // are on both sides of it.
            let fork = engine.fork(seq, 253).unwrap();
            decode(engine, seq, 4, &mut log);
            for (seq, tokens) in [(seq, &[7, 8, 9][..]), (fork, &[3, 1, 4, 1, 5])] {
                engine.queue(seq, engine.seq_len(seq).unwrap(), tokens, Logits::Last).unwrap();
            }
            run(engine, usize::MAX, &mut log);
            let mut ids = [0; 9];
            engine.decode_greedy(fork, 2, &mut ids).unwrap();
            log.extend(ids.map(|id| (1, u64::from(id))));
            log
        };
        assert_eq!(on_gpu(gpu, &model, &limits, host), on_cpu(&model, &limits, host), "{window:?}");
    }
}

/// A sequence that one side computed goes to the other side, which continues it.
#[test]
fn snapshots_move_between_the_sides() {
    let Some(gpu) = common::gpu() else { return };
    for kv_type in [KvType::F16, KvType::Q8_0, KvType::F32, KvType::Q4_0] {
        let bytes = model(Architecture::Qwen3, Dtype::Q8_0);
        let (model, limits) = (Model::open(&bytes).unwrap(), Limits { kv_type, ..limits() });
        let vocab = model.config().vocab;
        let save = |engine: &mut Engine<'_, '_>| {
            let seq = engine.open().unwrap();
            engine.prefill(seq, &Rng::new(3).tokens(37, vocab)).unwrap();
            let mut saved = vec![0; engine.snapshot_len(seq).unwrap()];
            engine.snapshot(seq, &mut saved).unwrap();
            saved
        };
        let (cpu, device) = (on_cpu(&model, &limits, save), on_gpu(gpu, &model, &limits, save));
        assert!(cpu == device, "snapshots differ");
        let go_on = |engine: &mut Engine<'_, '_>| {
            let seq = engine.restore(&cpu).unwrap();
            let mut log = Log::new();
            decode(engine, seq, 4, &mut log);
            log
        };
        assert_eq!(on_gpu(gpu, &model, &limits, go_on), on_cpu(&model, &limits, go_on));
    }
}

#[test]
fn the_committed_model_has_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let bytes =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/assets/gleed-tales-q8_0.gguf")).unwrap();
    let model = Model::open(&bytes).unwrap();
    let vocab = model.config().vocab;
    let host = |engine: &mut Engine<'_, '_>| {
        let (mut log, seq) = (Log::new(), engine.open().unwrap());
        log.push((0, hash(engine.prefill(seq, &Rng::new(1).tokens(40, vocab)).unwrap())));
        decode(engine, seq, 8, &mut log);
        log
    };
    let expected = on_cpu(&model, &limits(), host);
    println!("{:016x}", expected.last().unwrap().1);
    assert_eq!(on_gpu(gpu, &model, &limits(), host), expected);
}

/// Tokens that the device chooses, in one call and without the host, are those of the CPU, and so are keys and values.
#[test]
fn chosen_tokens_are_those_of_the_cpu() {
    let Some(gpu) = common::gpu() else { return };
    for (architecture, weights) in [(Architecture::Llama, Dtype::Q8_0), (Architecture::Gemma2, Dtype::Q4_K)] {
        let bytes = model(architecture, weights);
        let model = Model::open(&bytes).unwrap();
        let vocab = model.config().vocab;
        let host = |engine: &mut Engine<'_, '_>| {
            let seq = engine.open().unwrap();
            engine.prefill(seq, &Rng::new(3).tokens(29, vocab)).unwrap();
            // The last block is shared, and more tokens follow than a batch has rows.
            let fork = engine.fork(seq, 29).unwrap();
            let (mut log, mut ids) = (Vec::new(), [5; 26]);
            for (seq, count) in [(seq, 26), (fork, 1), (fork, 3)] {
                let first = ids[25];
                engine.decode_greedy(seq, first, &mut ids[..count]).unwrap();
                let mut saved = vec![0; engine.snapshot_len(seq).unwrap()];
                engine.snapshot(seq, &mut saved).unwrap();
                log.push((ids, engine.seq_len(seq).unwrap(), saved));
            }
            (log, hash(engine.decode_step(seq, 7).unwrap()))
        };
        let expected = on_cpu(&model, &limits(), host);
        assert!(on_gpu(gpu, &model, &limits(), host) == expected, "{architecture:?}");
    }
}

/// Tokens that the device draws, in one call and without the host, are those of a sampler on the CPU. So are the
/// generator's state afterwards, and keys and values.
#[test]
fn drawn_tokens_are_those_of_the_cpu() {
    let Some(gpu) = common::gpu() else { return };
    let bytes = model(Architecture::Qwen3, Dtype::Q8_0);
    let model = Model::open(&bytes).unwrap();
    let vocab = model.config().vocab;
    let off = SamplerParams { temperature: 1.2, seed: 9, ..SamplerParams::default() };
    for params in [
        off,
        SamplerParams { top_k: 30, ..off },
        SamplerParams { temperature: 0.7, top_p: 0.8, min_p: 0.01, seed: 1 << 63, ..off },
        SamplerParams { temperature: 0.0, ..off },
        SamplerParams { repetition_penalty: 1.3, ..off },
    ] {
        let host = |together: bool| {
            move |engine: &mut Engine<'_, '_>| {
                let (mut sampler, mut scratch) = (Sampler::new(params).unwrap(), vec![0; vocab]);
                let seq = engine.open().unwrap();
                engine.prefill(seq, &Rng::new(3).tokens(29, vocab)).unwrap();
                let (mut ids, mut next) = (vec![0; 30], 5);
                // First more tokens than a batch has rows, then one, then some more.
                for part in [0..26, 26..27, 27..30] {
                    let part = &mut ids[part];
                    if together {
                        engine.decode_sampled(seq, next, (&mut sampler, &mut scratch), part).unwrap();
                    } else {
                        let mut last = next;
                        for id in part.iter_mut() {
                            last = sampler.sample(engine.decode_step(seq, last).unwrap(), &mut scratch).unwrap().token;
                            sampler.accept(last);
                            *id = last;
                        }
                    }
                    next = part[part.len() - 1];
                }
                let mut saved = vec![0; engine.snapshot_len(seq).unwrap()];
                engine.snapshot(seq, &mut saved).unwrap();
                (ids, sampler.state(), saved)
            }
        };
        let expected = on_cpu(&model, &limits(), host(false));
        assert!(on_gpu(gpu, &model, &limits(), host(true)) == expected, "{params:?}");
    }
}

/// The engine says that the device is lost. Its tokens go to an engine on the CPU, which goes on with the same bits.
#[test]
fn a_lost_device_is_an_error() {
    let Some(hardware) = common::hardware() else { return };
    let bytes = SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let gpu = common::after_sentinel(hardware, &kernels(&model));
    let tokens = Rng::new(3).tokens(20, 320);
    let last = |engine: &mut Engine<'_, '_>, seq| hash(engine.decode_step(seq, 5).unwrap());
    let expected = on_cpu(&model, &limits(), |engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &tokens).unwrap();
        last(engine, seq)
    });
    let got = on_gpu(&gpu, &model, &limits(), |there| {
        let seq = there.open().unwrap();
        there.prefill(seq, &tokens).unwrap();
        gpu.hardware().close();
        assert_eq!(there.decode_step(seq, 5).unwrap_err(), EngineError::DeviceLost);
        on_cpu(&model, &limits(), |here| {
            let copy = here.replay(there, seq).unwrap();
            run(here, usize::MAX, &mut Log::new());
            last(here, copy)
        })
    });
    assert_eq!(got, expected);
}

/// The kernels that a model's plan lists are enough (the test above), and fewer are refused.
#[test]
fn kernels_that_are_not_there_are_an_error() {
    let Some(hardware) = common::hardware() else { return };
    let gpu = common::after_sentinel(hardware, &[Kernel::Choose]);
    let bytes = SyntheticModel { weights: Dtype::Q8_0, layers: 1, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let needed = kernels(&model);
    assert!(gpu.has(&[Kernel::Choose]) && !gpu.has(&needed));
    let [no, few] = [Weights::Q4_0, Weights::Q8_0].map(|weights| needed.contains(&Kernel::Tile(weights)));
    assert!(!no && few && needed.len() < Kernel::all().len() / 2, "{needed:?}");
    let plan = Plan::for_device(&model, &limits()).unwrap();
    let planned = DevicePlan::new(&model, &plan, gpu.hardware().limits()).unwrap();
    assert!(matches!(GpuDevice::new(&gpu, planned), Err(gleed_gpu::GpuError::Mismatch(_))));
}

/// Returns the kernels that a model needs.
fn kernels(model: &Model<'_>) -> Vec<Kernel> {
    let plan = Plan::for_device(model, &limits()).unwrap();
    DevicePlan::new(model, &plan, gleed_gpu::Limits { binding: 128 << 20, workgroups: 65_535 }).unwrap().kernels()
}

/// Small budgets cut a batch into many submits.
#[test]
fn budgets_change_nothing() {
    let Some(gpu) = common::gpu() else { return };
    let bytes = SyntheticModel { weights: Dtype::Q4_0, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let host = |units| move |engine: &mut Engine<'_, '_>| story(engine, 320, 30, units);
    let expected = on_cpu(&model, &limits(), host(usize::MAX));
    assert_eq!(on_gpu(gpu, &model, &limits(), host(40)), expected);
}

/// Matrices that are larger than a buffer are cut by rows.
#[test]
fn pieces_of_matrices_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let bytes = SyntheticModel { weights: Dtype::F16, layers: 1, ..SyntheticModel::of(Architecture::Qwen2) }.bytes();
    let model = Model::open(&bytes).unwrap();
    let limits = Limits { rows: 9, logit_rows: 1, context: 32, sequences: 1, ..limits() };
    let host = |engine: &mut Engine<'_, '_>| {
        let seq = engine.open().unwrap();
        hash(engine.prefill(seq, &[5, 310, 200, 319, 0, 17, 160, 3, 99, 140]).unwrap())
    };
    let most = gleed_gpu::Limits { binding: 14 << 10, ..gpu.hardware().limits() };
    assert_eq!(with_buffers(gpu, most, &model, &limits, host), on_cpu(&model, &limits, host));
}

/// Pools that are larger than a buffer are cut by layers, and so are the blocks that are copied, saved and restored.
#[test]
fn pools_of_several_buffers_have_one_hash() {
    let Some(gpu) = common::gpu() else { return };
    let bytes = SyntheticModel { weights: Dtype::Q8_0, layers: 3, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let vocab = model.config().vocab;
    let plan = Plan::for_device(&model, &limits()).unwrap();
    let pools = |most| {
        let planned = DevicePlan::new(&model, &plan, most).unwrap();
        planned.buffers().filter(|buffer| buffer.what == "pool of keys and values").map(|buffer| buffer.bytes).collect()
    };
    let whole: Vec<u64> = pools(gpu.hardware().limits());
    let most = gleed_gpu::Limits { binding: whole[0] * 2 / 3 + 4, ..gpu.hardware().limits() };
    assert_eq!(pools(most), [whole[0] * 2 / 3, whole[0] / 3]);
    let host = |engine: &mut Engine<'_, '_>| {
        let mut log = story(engine, vocab, 30, usize::MAX);
        let seq = engine.open().unwrap();
        engine.prefill(seq, &Rng::new(3).tokens(21, vocab)).unwrap();
        let mut saved = vec![0; engine.snapshot_len(seq).unwrap()];
        engine.snapshot(seq, &mut saved).unwrap();
        log.push((1, Xxh64::hash(&saved)));
        engine.close(seq).unwrap();
        let seq = engine.restore(&saved).unwrap();
        decode(engine, seq, 3, &mut log);
        log
    };
    assert_eq!(with_buffers(gpu, most, &model, &limits(), host), on_cpu(&model, &limits(), host));
}

/// Plans list all dispatches and buffers, and a plan with a buffer that is too large is refused.
#[test]
fn plans_list_everything() {
    let limits_of = gleed_gpu::Limits { binding: 128 << 20, workgroups: 65_535 };
    let planned = |synthetic: SyntheticModel, limits: &Limits, most: gleed_gpu::Limits| {
        let bytes = synthetic.bytes();
        let model = Model::open(&bytes).unwrap();
        let plan = Plan::for_device(&model, limits).unwrap();
        let planned = DevicePlan::new(&model, &plan, most)?;
        let weights: u64 =
            planned.buffers().filter(|buffer| buffer.what == "matrices").map(|buffer| buffer.bytes).sum();
        assert!(weights > 0 && planned.bytes() > weights);
        Ok::<_, gleed_gpu::GpuError>((planned.dispatches(), planned.buffers().count()))
    };
    let llama = || SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::llama() };
    let (dispatches, buffers) = planned(llama(), &limits(), limits_of).unwrap();
    assert_eq!(dispatches, 1 + 2 * 8 + 2);
    // A layer has as many dispatches in every program, also with norms after branches, and however matrices are
    // quantized.
    for (architecture, weights) in [
        (Architecture::Llama, Dtype::Q4_K),
        (Architecture::Qwen3, Dtype::F16),
        (Architecture::Gemma2, Dtype::Q8_0),
        (Architecture::Gemma2, Dtype::Q6_K),
    ] {
        let of = |layers| {
            let wide =
                SyntheticModel { hidden: 256, ffn: 512, heads: 4, head_dim: 64, ..SyntheticModel::of(architecture) };
            planned(SyntheticModel { weights, layers, ..wide }, &limits(), limits_of).unwrap().0
        };
        assert_eq!(of(4) - of(2), 2 * 8, "{architecture:?} {weights}");
    }
    // Layers with experts have two more: the router and the choice.
    let experts = SyntheticModel { weights: Dtype::Q8_0, layers: 2, ..SyntheticModel::of(Architecture::Qwen3Moe) };
    assert_eq!(planned(experts, &limits(), limits_of).unwrap().0, 1 + 2 * 10 + 3);
    // A shared expert adds two: its gate and up matrices, its down matrix.
    let shared = SyntheticModel { weights: Dtype::Q8_0, layers: 2, ..SyntheticModel::of(Architecture::Qwen2Moe) };
    assert_eq!(planned(shared, &limits(), limits_of).unwrap().0, 1 + 2 * 12 + 3);
    // In a recurrent layer a convolution takes the place of keys and values and of attention. With the delta rule the
    // update of matrices comes behind it. The four input matrices of that rule are of one type here.
    for (architecture, recurrent) in [(Architecture::Lfm2, 7), (Architecture::Qwen35, 8)] {
        let made = SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::of(architecture) };
        let bytes = made.bytes();
        let config = *Model::open(&bytes).unwrap().config();
        let mixers = (0..config.layers).filter(|&layer| config.recurrent.layers.contains(layer)).count();
        let expected = 1 + mixers * recurrent + (config.layers - mixers) * 8 + 2;
        assert_eq!(planned(made, &limits(), limits_of).unwrap().0, expected, "{architecture:?}");
    }
    // Smaller buffers: there are more of them, and matrices are cut into pieces.
    let small = gleed_gpu::Limits { binding: 16 << 10, ..limits_of };
    let few = Limits { rows: 1, logit_rows: 1, context: 16, sequences: 1, ..limits() };
    let (pieces, more) = planned(llama(), &few, small).unwrap();
    assert!(pieces > dispatches && more > buffers, "{pieces} {more}");
    let tiny = gleed_gpu::Limits { binding: 4 << 10, ..limits_of };
    assert!(matches!(planned(llama(), &limits(), tiny), Err(gleed_gpu::GpuError::TooLarge { .. })));
}

#[test]
fn a_value_that_is_not_finite_is_the_same_error() {
    let Some(gpu) = common::gpu() else { return };
    let mut bytes = SyntheticModel { weights: Dtype::F32, ..SyntheticModel::llama() }.bytes();
    // An infinity in the second layer.
    let offset = {
        let model = Model::open(&bytes).unwrap();
        let tensor = model.tensor("blk.1.ffn_norm.weight").unwrap();
        tensor.data().as_ptr() as usize - bytes.as_ptr() as usize
    };
    bytes[offset..offset + 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let model = Model::open(&bytes).unwrap();
    let host = |engine: &mut Engine<'_, '_>| {
        let seq = engine.open().unwrap();
        let chosen = engine.decode_greedy(seq, 1, &mut [0; 5]).unwrap_err();
        assert_eq!(engine.seq_len(seq), Ok(0));
        format!("{:?} {chosen:?}", engine.prefill(seq, &[1, 2, 3]).unwrap_err())
    };
    let expected = on_cpu(&model, &limits(), host);
    assert!(expected.contains("NonFinite"), "{expected}");
    assert_eq!(on_gpu(gpu, &model, &limits(), host), expected);
}
