//! Engines: the memory that they need, their start, and their state in numbers.

use core::ffi::c_void;

use gleed::cache::PoolStats;
use gleed::mem::{ALIGN, MemoryError};
use gleed::{Engine, Model, Plan};

use crate::config::gleed_config;
use crate::error::{Failure, boundary, gleed_error};
use crate::executor::Executor;
use crate::metrics::HostClock;
use crate::model::gleed_model;
use crate::object::{Object, Opaque};
use crate::policy::Policy;
use crate::ptr::{memory, out, out_layout, small};
use crate::status;
use crate::versioned::{Versioned, out_struct};

impl Opaque for Engine<'static, 'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedE01");
}

/// An engine at the head of its memory. The memory of its plan follows the head at the next multiple of [`ALIGN`].
pub type gleed_engine = Object<Engine<'static, 'static>>;

/// The head of an engine's memory. The fields behind `engine` are not initialised before the host sets them.
#[repr(C)]
struct Head {
    engine: gleed_engine,
    /// The host's threads, which [`crate::gleed_set_executor`] sets.
    executor: Executor,
    /// The host's clock, which [`crate::gleed_set_clock`] sets.
    clock: HostClock,
    /// The host's policy, which [`crate::gleed_set_cache_policy`] sets.
    policy: Policy,
}

/// Bytes of the head of an engine's memory; the plan's bytes follow.
pub const HEAD: usize = size_of::<Head>().next_multiple_of(ALIGN);

const _: () = assert!(align_of::<Head>() <= ALIGN);

/// Returns the place in an engine's head of the host's executor, to which the engine points.
pub(crate) fn executor_place(engine: *mut gleed_engine) -> *mut Executor {
    engine.cast::<u8>().wrapping_add(core::mem::offset_of!(Head, executor)).cast()
}

/// Returns the place in an engine's head of the host's clock, to which the engine points.
pub(crate) fn clock_place(engine: *mut gleed_engine) -> *mut HostClock {
    engine.cast::<u8>().wrapping_add(core::mem::offset_of!(Head, clock)).cast()
}

/// Returns the place in an engine's head of the host's policy, to which the engine points.
pub(crate) fn policy_place(engine: *mut gleed_engine) -> *mut Policy {
    engine.cast::<u8>().wrapping_add(core::mem::offset_of!(Head, policy)).cast()
}

/// The state of an engine; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_engine_info {
    /// `sizeof(gleed_engine_info)`, set by the caller.
    pub struct_size: u32,
    /// Open sequences.
    pub sequences: u32,
    /// Blocks in all pools.
    pub blocks: u32,
    /// Blocks that a sequence or a pin holds.
    pub blocks_used: u32,
    /// Blocks that hold nothing.
    pub blocks_free: u32,
    /// Blocks of cached prefixes that no sequence and no pin holds.
    pub blocks_reclaimable: u32,
    /// Blocks that have a pin.
    pub blocks_pinned: u32,
    /// The most blocks that were used at a time.
    pub blocks_high_water: u32,
    /// 1 while any sequence has unfinished work.
    pub is_busy: u32,
    /// Rows of the last batch that have logits.
    pub results: u32,
    /// Bytes of keys and values of all blocks.
    pub kv_bytes: u64,
    /// Bytes of keys and values of used blocks.
    pub kv_bytes_used: u64,
    /// The most such bytes that were used at a time.
    pub kv_bytes_high_water: u64,
    /// How often a cached prefix was looked up.
    pub prefix_lookups: u64,
    /// How often a look-up found a cached prefix.
    pub prefix_hits: u64,
    /// Tokens that look-ups found.
    pub prefix_hit_tokens: u64,
    /// Tokens that look-ups did not find.
    pub prefix_missed_tokens: u64,
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_engine_info {}

/// Returns the size and alignment of the memory that [`gleed_engine_init`] needs, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_plan(
    model: *const gleed_model,
    config: *const gleed_config,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed.h demands
        // the rest: no other call changes `model`, and `size` and `align` are places for results that nothing else
        // uses, and `config` is NULL or has as many bytes as its struct_size says.
        let (model, layout, config) =
            unsafe { (Object::get("model", model)?, out_layout(size, align)?, gleed_config::read(config)?) };
        let (_, bytes) = plan(model, config)?;
        layout.write(bytes, ALIGN);
        Ok(status::OK)
    })
}

/// Starts an engine without sequences in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_init(
    model: *const gleed_model,
    config: *const gleed_config,
    memory: *mut c_void,
    memory_len: usize,
    engine: *mut *mut gleed_engine,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed.h demands
        // the rest: no other call changes `model`, and `engine` is a place for a result that nothing else uses, and
        // `config` is NULL or has as many bytes as its struct_size says.
        let (model, engine, config) =
            unsafe { (Object::get("model", model)?, out("engine", engine)?, gleed_config::read(config)?) };
        let (plan, bytes) = plan(model, config)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the engine is used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, bytes, ALIGN) }?;
        engine.write(place(model, &plan, memory)?);
        Ok(status::OK)
    })
}

/// Puts an engine at the start of the memory. An engine is large. This is a function of its own so that copies of the
/// engine are not on the stack while the plan is made.
#[inline(never)]
fn place(model: &Model<'static>, plan: &Plan, memory: &'static mut [u8]) -> Result<*mut gleed_engine, Failure> {
    let (head, rest) = memory.split_at_mut_checked(HEAD).unwrap_or_default();
    Ok(Object::place(head, Engine::new(model, plan, rest)?)?)
}

/// Returns the plan for a model and a config, and the bytes of head and plan together.
pub(crate) fn plan(model: &Model<'_>, config: Option<gleed_config>) -> Result<(Plan, usize), Failure> {
    let plan = Plan::new(model, &gleed_config::limits(config)?)?;
    let bytes = plan.bytes().checked_add(HEAD).ok_or(MemoryError::TooLarge)?;
    Ok((plan, bytes))
}

/// Writes the state of an engine to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_describe(
    engine: *const gleed_engine,
    info: *mut gleed_engine_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: no other call changes `engine`, and `info` has as many bytes as its struct_size says.
        let (engine, info) = unsafe { (Object::get("engine", engine)?, out_struct("info", info)?) };
        let stats = engine.stats();
        let blocks = |of: fn(&PoolStats) -> usize| small(stats.pools.iter().map(of).fold(0, usize::saturating_add));
        let bytes = |of: fn(&PoolStats) -> usize| {
            let bytes = |pool: &PoolStats| (of(pool) as u64).saturating_mul(pool.block_bytes as u64);
            stats.pools.iter().map(bytes).fold(0, u64::saturating_add)
        };
        info.write(gleed_engine_info {
            struct_size: 0,
            sequences: small(stats.sequences),
            blocks: blocks(|pool| pool.total),
            blocks_used: blocks(|pool| pool.used),
            blocks_free: blocks(|pool| pool.free),
            blocks_reclaimable: blocks(|pool| pool.reclaimable),
            blocks_pinned: blocks(|pool| pool.pinned),
            blocks_high_water: blocks(|pool| pool.high_water),
            is_busy: engine.is_busy().into(),
            results: small(engine.results().count()),
            kv_bytes: bytes(|pool| pool.total),
            kv_bytes_used: bytes(|pool| pool.used),
            kv_bytes_high_water: bytes(|pool| pool.high_water),
            prefix_lookups: stats.prefix.lookups,
            prefix_hits: stats.prefix.hits,
            prefix_hit_tokens: stats.prefix.hit_tokens,
            prefix_missed_tokens: stats.prefix.missed_tokens,
        });
        Ok(status::OK)
    })
}
