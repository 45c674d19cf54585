//! The report of `gpu_selftest` in a browser: adapter, limits, self-test, hash, speed, and the hash and speed of
//! WebAssembly beside them.
//!
//! `gpu/web/build.sh` makes a page of it.
#![cfg(target_arch = "wasm32")]
#![deny(unsafe_code)]

mod run;

use std::fmt::Display;
use std::time::Duration;

use gleed::mem::ALIGN;
use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Choice, DevicePlan, Gpu, GpuDevice, Hardware};
use js_sys::{Date, Function};
use run::{Run, run};
use wasm_bindgen::prelude::*;

/// Rows of a batch, as in the native program, because they are part of what is compared.
const ROWS: usize = 64;

/// Tests the browser's GPU, and runs a model there and in WebAssembly. Calls `say` with the lines of a report. Returns
/// two hashes: the GPU's, then WebAssembly's.
///
/// # Errors
/// What went wrong, as text. A hash that differs is no error.
#[wasm_bindgen]
pub async fn report(file: Vec<u8>, say: Function) -> Result<Vec<String>, JsError> {
    let say = |line: String| say.call1(&JsValue::NULL, &line.into()).map(|_| ()).map_err(|_| JsError::new("say fails"));
    let choice = Choice { backend: None, software: true, patience: Duration::from_secs(120) };
    let started = Date::now();
    let hardware = Hardware::open_async(&choice).await.map_err(error)?;
    let model = Model::open(&file).map_err(error)?;
    let limits = Limits { context: 512, rows: ROWS, ..Limits::default() };
    let plan = Plan::for_device(&model, &limits).map_err(error)?;
    let planned = DevicePlan::new(&model, &plan, hardware.limits()).map_err(error)?;
    let (gpu, tested) = Gpu::tested_async(hardware, &planned.kernels(), None).await.map_err(error)?;
    let (info, most) = (gpu.hardware().info(), gpu.hardware().limits());
    say(format!("adapter     {info}"))?;
    say(format!("driver      {}", info.driver))?;
    say(format!("limits      {} MiB of a buffer, {} workgroups", most.binding >> 20, most.workgroups))?;
    let took = (Date::now() - started) / 1e3;
    say(format!("self-test   passed in {took:.1} s, with the compiler; key {:016x}", tested.0))?;
    let (bytes, buffers, dispatches) = (planned.bytes(), planned.buffers().count(), planned.dispatches());
    say(format!("device      {bytes} bytes in {buffers} buffers, {dispatches} dispatches"))?;
    let mut device = GpuDevice::new_async(&gpu, planned).await.map_err(error)?;
    let arrival = device.arrival();
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let mut engine = Engine::with_device(&model, &plan, aligned(&mut memory), &mut device).map_err(error)?;
    let there = run(&mut engine, Some(&arrival)).await?;
    say(described("GPU", &there))?;

    let plan = Plan::new(&model, &limits).map_err(error)?;
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let mut engine = Engine::new(&model, &plan, aligned(&mut memory)).map_err(error)?;
    let here = run(&mut engine, None).await?;
    say(described("WebAssembly", &here))?;
    Ok([there, here].map(|run| format!("{:016x}", run.hash)).into())
}

fn described(machine: &str, run: &Run) -> String {
    let Run { hash, prefill, decode } = run;
    format!("{machine:<11} hash {hash:016x}, prefill {prefill:.1} and decode {decode:.1} tokens/s")
}

fn error(error: impl Display) -> JsError {
    JsError::new(&error.to_string())
}

/// Returns the part of some memory that is aligned for an engine.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGN);
    memory.get_mut(start..).unwrap_or_default()
}
