//! The limits of an engine, as C states them.

use gleed::kernels::Level;
use gleed::{KvElement, KvKind, KvType, Limits};

use crate::error::Failure;
use crate::status;
use crate::versioned::{Versioned, versioned_or_null};

/// Cache kind: blocks are handed out on demand from one pool.
pub const GLEED_KV_PAGED: u32 = 0;
/// Cache kind: one contiguous run of blocks is reserved per sequence.
pub const GLEED_KV_BASIC: u32 = 1;
/// Cache kind: no cache, every call computes the whole sequence again.
pub const GLEED_KV_OFF: u32 = 2;

/// Elements of keys and values have 2 bytes.
pub const GLEED_KV_F16: u32 = 0;
/// Elements of keys and values have 4 bytes.
pub const GLEED_KV_F32: u32 = 1;
/// Elements of keys and values have 8.5 bits.
pub const GLEED_KV_Q8_0: u32 = 2;
/// Elements of keys and values have 4.5 bits.
pub const GLEED_KV_Q4_0: u32 = 3;

/// Returns the `kv_type` for keys of type `k` and values of type `v`: `k` in the first byte, `v` plus 1 in the second.
#[allow(non_snake_case)]
pub const fn GLEED_KV_TYPES(k: u32, v: u32) -> u32 {
    k | (v + 1) << 8
}

/// Names of the levels, by their numbers. Number 0 stands for the best level that the machine has.
const LEVELS: [&str; 10] = ["best", "scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "simd128", "i8mm", "amx"];

/// The fastest level that the machine has.
pub const GLEED_LEVEL_BEST: u32 = 0;
/// Plain code, on every machine.
pub const GLEED_LEVEL_SCALAR: u32 = 1;
/// AVX2 and F16C.
pub const GLEED_LEVEL_AVX2: u32 = 2;
/// AVX2, F16C and AVX-VNNI.
pub const GLEED_LEVEL_AVXVNNI: u32 = 3;
/// AVX-512 F, BW, VL, VNNI.
pub const GLEED_LEVEL_AVX512: u32 = 4;
/// NEON.
pub const GLEED_LEVEL_NEON: u32 = 5;
/// NEON with the dot product of bytes.
pub const GLEED_LEVEL_DOTPROD: u32 = 6;
/// SIMD of WebAssembly.
pub const GLEED_LEVEL_SIMD128: u32 = 7;
/// NEON with the dot product and the product of matrices of bytes.
pub const GLEED_LEVEL_I8MM: u32 = 8;
/// AVX-512 F, BW, VL, VNNI, and AMX with bytes, after [`gleed_allow_amx`].
pub const GLEED_LEVEL_AMX: u32 = 9;

/// Asks the operating system to let this process use AMX. Returns 1 if the process may use it, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_allow_amx() -> u32 {
    u32::from(Level::allow_amx())
}

/// The limits of an engine; see `include/gleed.h`. 0 stands for the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_config {
    /// `sizeof(gleed_config)`, set by the caller.
    pub struct_size: u32,
    /// Sequences that can be open at a time.
    pub sequences: u32,
    /// Tokens per sequence.
    pub context: u32,
    /// Rows per batch.
    pub rows: u32,
    /// How keys and values are kept: `GLEED_KV_PAGED` and so on.
    pub kv_kind: u32,
    /// Element type of keys and values: `GLEED_KV_F16` and so on, or two of these by `GLEED_KV_TYPES`.
    pub kv_type: u32,
    /// Blocks of 16 tokens in the pool.
    pub kv_blocks: u32,
    /// The most rows of a batch that can have logits.
    pub logit_rows: u32,
    /// How many of the first tokens stay visible beside the window.
    pub window_sinks: u32,
    /// How many of the last tokens are visible; 0: all.
    pub window_last: u32,
    /// 1: blocks can be found by their tokens, and prompts reuse them.
    pub prefix_cache: u32,
    /// Threads that work at the same time.
    pub workers: u32,
    /// Instruction set of the kernels: `GLEED_LEVEL_BEST` and so on.
    pub level: u32,
    /// LoRA adapters that can be loaded.
    pub adapters: u32,
    /// The largest rank of the adapters' matrices.
    pub adapter_rank: u32,
    /// Checkpoints of recurrent layers' states, of all sequences together.
    pub checkpoints: u32,
    /// A checkpoint is made every so many tokens.
    pub checkpoint_every: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_config {
    /// Earlier structs ended with `kv_blocks`, `level` and `adapter_rank`.
    const EARLIER: &'static [usize] = &[28, 52, 60];
}

impl gleed_config {
    /// Returns the config at a pointer; `None` at NULL.
    ///
    /// # Errors
    /// As [`versioned_or_null`].
    ///
    /// # Safety
    /// As [`versioned_or_null`].
    pub unsafe fn read(config: *const Self) -> Result<Option<Self>, Failure> {
        // SAFETY: the caller promises what `versioned_or_null` asks for: NULL, or as many bytes as struct_size says.
        unsafe { versioned_or_null("config", config) }
    }

    /// Returns the limits that a config asks for. `None` asks for the defaults.
    ///
    /// # Errors
    /// [`status::E_VALUE`] for a kind, type or level that does not exist, or a `prefix_cache` that is neither 0 nor 1.
    pub fn limits(config: Option<Self>) -> Result<Limits, Failure> {
        let mut limits = Limits::default();
        let Some(config) = config else { return Ok(limits) };
        let set = |limit: &mut usize, value: u32| {
            if value != 0 {
                *limit = usize::try_from(value).unwrap_or(usize::MAX);
            }
        };
        set(&mut limits.sequences, config.sequences);
        set(&mut limits.context, config.context);
        set(&mut limits.rows, config.rows);
        set(&mut limits.kv_blocks, config.kv_blocks);
        set(&mut limits.logit_rows, config.logit_rows);
        set(&mut limits.workers, config.workers);
        set(&mut limits.adapters, config.adapters);
        set(&mut limits.adapter_rank, config.adapter_rank);
        set(&mut limits.checkpoints, config.checkpoints);
        set(&mut limits.checkpoint_every, config.checkpoint_every);
        set(&mut limits.window.sinks, config.window_sinks);
        set(&mut limits.window.last, config.window_last);
        limits.prefix_cache = match config.prefix_cache {
            0 => false,
            1 => true,
            given => return Err(unknown("prefix_cache", 1, given)),
        };
        limits.level = level(config.level)?;
        limits.kv_kind = match config.kv_kind {
            GLEED_KV_PAGED => KvKind::Paged,
            GLEED_KV_BASIC => KvKind::Basic,
            GLEED_KV_OFF => KvKind::Off,
            given => return Err(unknown("kv_kind", GLEED_KV_OFF, given)),
        };
        let element = |number| match number {
            GLEED_KV_F16 => Ok(KvElement::F16),
            GLEED_KV_F32 => Ok(KvElement::F32),
            GLEED_KV_Q8_0 => Ok(KvElement::Q8_0),
            GLEED_KV_Q4_0 => Ok(KvElement::Q4_0),
            given => {
                let text = format_args!("kv_type has a type {given}, there are 0 to {GLEED_KV_Q4_0}");
                Err(Failure::new(status::E_VALUE, text).numbers(GLEED_KV_Q4_0, config.kv_type))
            }
        };
        let k = element(config.kv_type & 0xff)?;
        limits.kv_type = KvType { k, v: (config.kv_type >> 8).checked_sub(1).map_or(Ok(k), element)? };
        Ok(limits)
    }
}

/// Returns the level with this number.
///
/// # Errors
/// [`status::E_VALUE`] if no level has this number, or the machine does not have the level.
pub(crate) fn level(number: u32) -> Result<Level, Failure> {
    if number == GLEED_LEVEL_BEST {
        return Ok(Level::detect());
    }
    let most = LEVELS.len() - 1;
    let name = usize::try_from(number).ok().and_then(|number| LEVELS.get(number));
    let name = name.ok_or_else(|| unknown("level", most as u32, number))?;
    Level::from_name(name).map_err(|_| {
        Failure::new(status::E_VALUE, format_args!("this machine has no level {name}")).numbers(most, number)
    })
}

/// Returns the number of a level.
pub(crate) fn level_number(level: Level) -> u32 {
    LEVELS.iter().position(|name| *name == level.name()).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

fn unknown(name: &str, max: u32, given: u32) -> Failure {
    Failure::new(status::E_VALUE, format_args!("{name} is {given}, it must be 0 to {max}")).numbers(max, given)
}
