//! Measures the machine's peak rates, and reads what the system says about the machine and this process.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::machine::{asked, cpuinfo, processor_name};
use gleed::kernels::Level;

/// Returns the name of the processor, its numbers, and its data caches, because machines with the same name differ.
pub(crate) fn processor() -> String {
    let numbers: Vec<_> = [("family", "cpu family"), ("model", "model"), ("stepping", "stepping")]
        .into_iter()
        .filter_map(|(what, key)| Some(format!("{what} {}", cpuinfo(&[key])?)))
        .collect();
    let caches: Vec<_> = (0..8).filter_map(data_cache).collect();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    [vec![processor_name()], numbers, caches, vec![format!("{cores} processors")]].concat().join(", ")
}

/// Returns the number of processors of each kind, because machines mix fast and slow ones. Empty if the system does not
/// tell.
pub(crate) fn cores() -> BTreeMap<String, usize> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut cores = BTreeMap::new();
    for core in info.split("\n\n") {
        let lines = core.lines().filter_map(|line| line.split_once(':'));
        let kind = lines
            .filter(|(key, _)| matches!(key.trim(), "CPU implementer" | "CPU variant" | "CPU part" | "model name"));
        let kind: Vec<_> = kind.map(|(key, value)| format!("{} {}", key.trim(), value.trim())).collect();
        if !kind.is_empty() {
            *cores.entry(kind.join(", ")).or_default() += 1;
        }
    }
    cores
}

/// Returns the bytes of memory, or `None` if the system does not tell.
pub(crate) fn memory() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Returns the operating system and its version, without the name of the host.
pub(crate) fn system() -> String {
    let version = fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|version| version.trim().to_owned());
    let version = version.or_else(|| asked("sysctl", &["-n", "kern.osproductversion"]));
    [std::env::consts::OS, version.as_deref().unwrap_or_default()].join(" ").trim().to_owned()
}

/// Returns the instruction sets that the processor has, of those that matter here.
pub(crate) fn features() -> Vec<&'static str> {
    macro_rules! detected {
        ($detect:ident, $($name:tt)+) => {
            [$(($name, std::arch::$detect!($name)),)+].into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
        };
    }
    #[cfg(target_arch = "aarch64")]
    return detected!(is_aarch64_feature_detected, "neon" "dotprod" "i8mm" "fp16" "fhm" "bf16" "sve" "sve2");
    #[cfg(target_arch = "x86_64")]
    return detected!(is_x86_feature_detected, "avx2" "fma" "f16c" "avxvnni" "avx512f" "avx512bw" "avx512vl"
        "avx512vnni" "avx512bf16");
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    return Vec::new();
}

/// Returns level and size of a cache of the first processor, if it holds data.
fn data_cache(index: usize) -> Option<String> {
    let read = |name: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
        Some(fs::read_to_string(path).ok()?.trim().to_owned())
    };
    (read("type")? != "Instruction").then_some(())?;
    Some(format!("L{} {}", read("level")?, read("size")?))
}

/// Returns the bytes per second at which `threads` threads read `bytes` together, the best of several times.
pub(crate) fn streaming_read(bytes: &[u8], threads: usize) -> f64 {
    // Little data is read several times in one measurement, so that the clock is precise enough.
    const LEAST: usize = 64 << 20;
    let passes = LEAST.div_ceil(bytes.len().max(1));
    let part = bytes.len().div_ceil(threads).max(1);
    let took = best_together(4, threads, |thread| {
        let part = bytes.chunks(part).nth(thread).unwrap_or_default();
        (0..passes).for_each(|_| {
            black_box(sum(black_box(part)));
        });
    });
    (bytes.len() * passes) as f64 / took.as_secs_f64()
}

/// Returns the multiply-adds of int8 per second that `threads` threads reach with the dot instruction of a level, the
/// best of several times. Returns `None` for levels that have no loop here.
pub(crate) fn integer_peak(level: Level, threads: usize) -> Option<f64> {
    const ITERATIONS: usize = 300_000;
    let (kernel, per_iteration) = dot_loop(level)?;
    let took = best_together(10, threads, |_| kernel(ITERATIONS));
    Some((threads * ITERATIONS * per_iteration) as f64 / took.as_secs_f64())
}

fn best_together(times: usize, threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    (0..times).map(|_| together(threads, &work)).min().unwrap_or_default()
}

/// Runs `work` on `threads` threads. Returns the time from the common start to the end of the last thread.
fn together(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let barrier = Barrier::new(threads);
    let timed = |thread| {
        barrier.wait();
        let start = Instant::now();
        work(thread);
        (start, Instant::now())
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || timed(thread))).collect();
        let mine = timed(0);
        let times = others.into_iter().filter_map(|other| other.join().ok()).chain([mine]);
        let (start, end) = times.fold(mine, |(start, end), (s, e)| (start.min(s), end.max(e)));
        end - start
    })
}

#[cfg(target_arch = "x86_64")]
fn sum(bytes: &[u8]) -> u64 {
    #[target_feature(enable = "avx2")]
    fn avx2(bytes: &[u8]) -> u64 {
        sum_words(bytes)
    }
    #[target_feature(enable = "avx512f")]
    fn avx512(bytes: &[u8]) -> u64 {
        sum_words(bytes)
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the check above found AVX-512 F, all that the function needs.
        unsafe { avx512(bytes) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: the check above found AVX2, all that the function needs.
        unsafe { avx2(bytes) }
    } else {
        sum_words(bytes)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn sum(bytes: &[u8]) -> u64 {
    sum_words(bytes)
}

/// Returns the sum of all words of 64 bits, so that each byte is read. The loop has enough lanes to wait for memory
/// only.
#[inline(always)]
fn sum_words(bytes: &[u8]) -> u64 {
    let mut lanes = [0_u64; 64];
    for chunk in bytes.as_chunks::<512>().0 {
        for (lane, word) in lanes.iter_mut().zip(chunk.as_chunks::<8>().0) {
            *lane = lane.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

/// Returns a function that runs a number of iterations of a level's dot instruction, and the multiply-adds of an
/// iteration.
#[cfg(target_arch = "x86_64")]
fn dot_loop(level: Level) -> Option<(fn(usize), usize)> {
    match level.name() {
        // SAFETY: a level "avx512" exists only where detection found AVX-512 VNNI.
        "avx512" => Some((|n| unsafe { x86::vpdpbusd_zmm(n) }, x86::CHAINS * 64)),
        // SAFETY: a level "avxvnni" exists only where detection found AVX-VNNI.
        "avxvnni" => Some((|n| unsafe { x86::vpdpbusd_ymm(n) }, x86::CHAINS * 32)),
        // SAFETY: a level "avx2" exists only where detection found AVX2.
        "avx2" => Some((|n| unsafe { x86::vpmaddubsw_ymm(n) }, x86::CHAINS * 32)),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn dot_loop(level: Level) -> Option<(fn(usize), usize)> {
    match level.name() {
        // SAFETY: a level "i8mm" exists only where detection found FEAT_I8MM.
        "i8mm" => Some((|n| unsafe { arm::smmla(n) }, arm::CHAINS * 32)),
        // SAFETY: a level "dotprod" exists only where detection found FEAT_DotProd.
        "dotprod" => Some((|n| unsafe { arm::sdot(n) }, arm::CHAINS * 16)),
        "neon" => Some((arm::smlal, arm::CHAINS * 8)),
        _ => None,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn dot_loop(_level: Level) -> Option<(fn(usize), usize)> {
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    /// Independent chains: more than latency times instructions per cycle.
    pub(super) const CHAINS: usize = 12;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn vpdpbusd_zmm(iterations: usize) {
        let (a, b) = black_box((_mm512_set1_epi8(3), _mm512_set1_epi8(5)));
        let mut chains = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..iterations {
            chains.iter_mut().for_each(|chain| *chain = _mm512_dpbusd_epi32(*chain, a, b));
        }
        black_box(chains);
    }

    #[target_feature(enable = "avxvnni")]
    pub(super) fn vpdpbusd_ymm(iterations: usize) {
        let (a, b) = black_box((_mm256_set1_epi8(3), _mm256_set1_epi8(5)));
        let mut chains = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..iterations {
            chains.iter_mut().for_each(|chain| *chain = _mm256_dpbusd_avx_epi32(*chain, a, b));
        }
        black_box(chains);
    }

    /// Only the product: the additions after it depend on the format.
    #[target_feature(enable = "avx2")]
    pub(super) fn vpmaddubsw_ymm(iterations: usize) {
        let b = black_box(_mm256_set1_epi8(5));
        let mut chains = [_mm256_set1_epi8(1); CHAINS];
        for _ in 0..iterations {
            chains.iter_mut().for_each(|chain| *chain = _mm256_maddubs_epi16(*chain, b));
        }
        black_box(chains);
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;
    use std::arch::asm;
    use std::hint::black_box;

    /// Independent chains: more than latency times instructions per cycle.
    pub(super) const CHAINS: usize = 20;

    /// Defines a loop of an instruction whose intrinsic the oldest Rust does not have.
    macro_rules! instruction {
        ($name:ident, $feature:literal, $assembly:literal) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name(iterations: usize) {
                let (a, b) = black_box((vdupq_n_s8(3), vdupq_n_s8(5)));
                let mut chains = [vdupq_n_s32(0); CHAINS];
                for _ in 0..iterations {
                    chains.iter_mut().for_each(|chain| {
                        // SAFETY: the function has the instruction's feature; it only computes.
                        unsafe {
                            asm!($assembly, inout(vreg) *chain, in(vreg) a, in(vreg) b,
                                options(pure, nomem, nostack, preserves_flags));
                        }
                    });
                }
                black_box(chains);
            }
        };
    }

    instruction!(smmla, "i8mm", "smmla {:v}.4s, {:v}.16b, {:v}.16b");
    instruction!(sdot, "dotprod", "sdot {:v}.4s, {:v}.16b, {:v}.16b");

    /// Only the product: how often sums are widened depends on the kernel.
    pub(super) fn smlal(iterations: usize) {
        let b = black_box([5_i8; 8]);
        // SAFETY: NEON is part of the target; the array has eight elements.
        unsafe {
            let b = vld1_s8(b.as_ptr());
            let mut chains = [vdupq_n_s16(0); CHAINS];
            for _ in 0..iterations {
                chains.iter_mut().for_each(|chain| *chain = vmlal_s8(*chain, b, b));
            }
            black_box(chains);
        }
    }
}

/// Returns how long all threads of this process have waited for a core so far, or `None` if the system does not tell.
pub(crate) fn waited() -> Option<Duration> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanoseconds.sum()))
}

/// Returns the most memory in bytes that was resident since the start or [`reset_peak_resident`], or `None` if the
/// system does not tell.
pub(crate) fn peak_resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Resets the peak of resident memory, if the system can.
pub(crate) fn reset_peak_resident() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
