//! A host's own policy for the cache: functions of the host rank the candidates.

use core::ffi::c_void;

use gleed::SeqId;
use gleed::cache::{BlockChoice, BlockId, HostPolicy, IdleSequences};

use crate::engine::{gleed_engine, policy_place};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::small;
use crate::sequence::{gleed_seq, gleed_seq_info, seq_info};
use crate::status;
use crate::versioned::{Versioned, versioned_or_null};

/// The rank of a sequence that must not be closed.
pub const GLEED_RANK_NEVER: u64 = u64::MAX;

/// A block that could be chosen; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_block_info {
    /// `sizeof(gleed_block_info)`.
    pub struct_size: u32,
    /// The number of the block in its pool.
    pub block: u32,
    /// The layer group whose pool it is.
    pub group: u32,
    /// The sequence that gets the block.
    pub seq: gleed_seq,
    /// 1: the block has tokens of a cached prefix.
    pub is_cached: u32,
    /// Position of the first of these tokens.
    pub position: u32,
    /// These 16 tokens; NULL if the block holds none.
    pub tokens: *const u32,
}

/// Returns the host's rank of a sequence: the sequence with the lowest rank is closed first.
pub type gleed_rank_seq =
    Option<unsafe extern "C" fn(ctx: *mut c_void, seq: gleed_seq, info: *const gleed_seq_info) -> u64>;

/// Returns the host's rank of a block: the block with the lowest rank is chosen.
pub type gleed_rank_block = Option<unsafe extern "C" fn(ctx: *mut c_void, block: *const gleed_block_info) -> u64>;

/// A host's policy; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_cache_policy {
    /// `sizeof(gleed_cache_policy)`, set by the caller.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Ranks the sequences that could be closed.
    pub close: gleed_rank_seq,
    /// Ranks the blocks of cached prefixes, one of which is evicted.
    pub evict: gleed_rank_block,
    /// Ranks the free blocks, one of which is handed out.
    pub hand_out: gleed_rank_block,
    /// The first argument of all three.
    pub ctx: *mut c_void,
}

// SAFETY: integers, the first the size, and pointers: no gaps with pointers of 4 or 8 bytes. A NULL pointer to a
// function is `None`; the header demands that any other pointer leads to a function.
unsafe impl Versioned for gleed_cache_policy {}

/// The host's policy as an engine keeps it.
#[derive(Debug)]
pub(crate) struct Policy {
    policy: gleed_cache_policy,
}

// SAFETY: the engine calls it only from the thread that the engine is used on, one call at a time. What else happens
// with `ctx` is up to the host.
unsafe impl Send for Policy {}

// SAFETY: a shared reference to a `Policy` gives access to nothing: `HostPolicy`, through which the engine uses it,
// takes it exclusively.
unsafe impl Sync for Policy {}

impl Policy {
    /// Returns the block with the lowest rank; without a function that ranks, the cache's own choice.
    fn lowest(&self, rank: gleed_rank_block, choice: &BlockChoice<'_>) -> BlockId {
        let Some(rank) = rank else { return choice.default() };
        let ranked = choice.iter().map(|(block, meta)| {
            let info = gleed_block_info {
                struct_size: small(size_of::<gleed_block_info>()),
                block,
                group: small(choice.group()),
                seq: choice.seq().to_bits(),
                is_cached: meta.is_cached().into(),
                position: small(meta.index().map_or(0, |index| index.saturating_mul(meta.tokens().len()))),
                tokens: if meta.is_cached() { meta.tokens().as_ptr() } else { core::ptr::null() },
            };
            // SAFETY: gleed.h demands that the function may be called with `ctx` as long as the engine has it. `info`
            // and the tokens, which lie in the pool, live until it returns.
            (unsafe { rank(self.policy.ctx, &info) }, block)
        });
        lowest(ranked).unwrap_or(choice.default())
    }
}

impl HostPolicy for Policy {
    fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
        let Some(rank) = self.policy.close else { return idle.default() };
        let ranked = idle.iter().filter_map(|seq| {
            let info = seq_info(&idle.stats(seq)?, None, false);
            // SAFETY: gleed.h demands that the function may be called with `ctx` as long as the engine has it. `info`
            // lives until it returns.
            Some((unsafe { rank(self.policy.ctx, seq.to_bits(), &info) }, seq))
        });
        lowest(ranked.filter(|&(rank, _)| rank != GLEED_RANK_NEVER))
    }

    fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        self.lowest(self.policy.evict, choice)
    }

    fn hand_out(&mut self, choice: &BlockChoice<'_>) -> BlockId {
        self.lowest(self.policy.hand_out, choice)
    }
}

/// Returns the candidate with the lowest rank. Among equal ranks it is the first one, which the cache itself would
/// choose first.
fn lowest<T>(ranked: impl Iterator<Item = (u64, T)>) -> Option<T> {
    let lower = |best: Option<(u64, T)>, (rank, it)| match best {
        Some((lowest, best)) if lowest <= rank => Some((lowest, best)),
        _ => Some((rank, it)),
    };
    ranked.fold(None, lower).map(|(_, it)| it)
}

/// Sets the policy of an engine's cache; NULL: the library chooses.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_cache_policy(
    engine: *mut gleed_engine,
    policy: *const gleed_cache_policy,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: nothing but this call uses `engine`, and `policy` is NULL or has as many bytes as its struct_size
        // says.
        let (mut inner, policy) = unsafe { (Object::get_mut("engine", engine)?, versioned_or_null("policy", policy)?) };
        if let Some(gleed_cache_policy { reserved: given @ 1.., .. }) = policy {
            return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, given));
        }
        // The engine does not point to the old policy while the new one is written over it.
        inner.set_host_policy(None);
        let Some(policy) = policy else { return Ok(status::OK) };
        let place = policy_place(engine);
        // SAFETY: `get_mut` has found an engine, which lies at the start of a `Head` with room for a policy
        // (`gleed_engine_init` has measured the memory). Nothing else points there: the engine has just forgotten its
        // policy.
        let kept = unsafe {
            place.write(Policy { policy });
            &mut *place
        };
        inner.set_host_policy(Some(kept));
        Ok(status::OK)
    })
}
