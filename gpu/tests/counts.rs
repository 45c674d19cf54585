//! Counts what costs time on a GPU: submits, buffers, dispatches, bytes of weights, time to encode.

mod common;

use std::time::Duration;

use gleed::sample::{Sampler, SamplerParams};
use gleed::tensor::Dtype;
use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{DevicePlan, GpuDevice};
use gleed_testing::Memory;
use gleed_testing::random::Rng;
use gleed_testing::synthetic::{Architecture, SyntheticModel};

fn of_engine() -> Limits {
    Limits { sequences: 2, context: 128, rows: 24, logit_rows: 2, ..Limits::default() }
}

/// One test for all counts, because other tests would submit beside it.
#[test]
fn a_step_is_one_submit_and_makes_no_buffer() {
    let Some(hardware) = common::hardware() else { return };
    let bytes = SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&bytes).unwrap();
    let plan = Plan::for_device(&model, &of_engine()).unwrap();
    let planned = DevicePlan::new(&model, &plan, hardware.limits()).unwrap();
    let gpu = common::after_sentinel(hardware, &planned.kernels());
    let expected = planned.buffers().count() as u64 - 1;
    let [made_before, _] = gpu.hardware().counts();
    let mut device = GpuDevice::new(&gpu, planned).unwrap();
    let [made, mut submits] = gpu.hardware().counts();
    // All planned buffers are made but the one through which blocks are read: the device has that one from the start.
    assert_eq!(made - made_before, expected);

    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
    let mut took = |what: &str, most: u64| {
        let [now, there] = gpu.hardware().counts();
        assert_eq!((now, there - submits), (made, most), "{what}");
        submits = there;
    };
    let seq = engine.open().unwrap();
    engine.prefill(seq, &Rng::new(7).tokens(21, 300)).unwrap();
    took("a prompt", 1);
    for token in 0..3 {
        engine.decode_step(seq, token).unwrap();
        took("a token", 1);
    }
    // The last block is shared: its copy is a part of the submit.
    let fork = engine.fork(seq, 24).unwrap();
    engine.decode_step(fork, 5).unwrap();
    took("a token of a fork", 1);
    engine.decode_step(seq, 5).unwrap();
    took("a token beside a fork", 1);
    engine.decode_greedy(seq, 5, &mut [0; 24]).unwrap();
    took("24 tokens that the device chooses", 1);
    let (mut sampler, mut scratch) =
        (Sampler::new(SamplerParams { temperature: 1.0, top_p: 0.9, ..SamplerParams::default() }).unwrap(), [0; 320]);
    engine.decode_sampled(seq, 5, (&mut sampler, &mut scratch), &mut [0; 24]).unwrap();
    took("24 tokens that the device draws", 1);
    drop(engine);
    let encoded = 1 + 3 + 2 + 48;
    println!("encoding: {:?} for a token of {} dispatches", device.encoding() / encoded, 1 + 2 * 8 + 2);
    assert!(device.encoding() / encoded < Duration::from_millis(20));
}

/// Each matrix is read once, and in no other way: 1.1 times the bytes of the weights are allowed.
#[test]
fn a_token_reads_the_matrices_once() {
    let limits = gleed_gpu::Limits { binding: 128 << 20, workgroups: 65_535 };
    for (architecture, weights) in
        [(Architecture::Llama, Dtype::Q8_0), (Architecture::Qwen3, Dtype::Q4_K), (Architecture::Gemma2, Dtype::Q6_K)]
    {
        let wide = SyntheticModel { hidden: 256, ffn: 512, heads: 4, head_dim: 64, ..SyntheticModel::of(architecture) };
        let bytes = SyntheticModel { weights, ..wide }.bytes();
        let model = Model::open(&bytes).unwrap();
        let plan = Plan::for_device(&model, &of_engine()).unwrap();
        let planned = DevicePlan::new(&model, &plan, limits).unwrap();
        let uploaded: u64 =
            planned.buffers().filter(|buffer| buffer.what == "matrices").map(|buffer| buffer.bytes).sum();
        let read = planned.matrix_bytes_read();
        println!("{architecture:?} {weights}: {read} bytes are read, {uploaded} are there");
        assert!(read * 2 > uploaded && read * 10 <= uploaded * 11, "{read} of {uploaded}");
    }
}
