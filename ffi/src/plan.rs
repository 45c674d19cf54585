//! Plans: the sizes, sections and units of work of an engine that is not started yet.

use core::ffi::c_char;

use gleed::cache::BLOCK_TOKENS;

use crate::config::{gleed_config, level_number};
use crate::engine::{HEAD, plan};
use crate::error::{Failure, boundary, chars, gleed_error};
use crate::model::gleed_model;
use crate::object::Object;
use crate::ptr::small;
use crate::status;
use crate::versioned::{Versioned, out_struct};

/// The plan of an engine; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_plan_info {
    /// `sizeof(gleed_plan_info)`, set by the caller.
    pub struct_size: u32,
    /// Alignment of the memory.
    pub align: u32,
    /// Bytes of the memory.
    pub bytes: u64,
    /// Bytes of keys and values of one token, in all layers.
    pub kv_bytes_per_token: u64,
    /// Bytes of keys and values of all blocks.
    pub kv_bytes: u64,
    /// The most units of work for one token.
    pub units_per_token: u64,
    /// Sections of the memory.
    pub sections: u32,
    /// Sequences that can be open at a time. This and the following fields are the limits, with defaults filled in.
    pub sequences: u32,
    /// Tokens per sequence.
    pub context: u32,
    /// Rows per batch.
    pub rows: u32,
    /// The most rows of a batch that can have logits.
    pub logit_rows: u32,
    /// Blocks in the pool.
    pub kv_blocks: u32,
    /// Threads that work at the same time.
    pub workers: u32,
    /// Instruction set of the kernels: `GLEED_LEVEL_SCALAR` and so on.
    pub level: u32,
    /// LoRA adapters that can be loaded.
    pub adapters: u32,
    /// The largest rank of the adapters' matrices.
    pub adapter_rank: u32,
    /// Checkpoints of recurrent layers' states, of all sequences together.
    pub checkpoints: u32,
    /// A checkpoint is made every so many tokens.
    pub checkpoint_every: u32,
    /// Bytes of the recurrent layers' state of one sequence.
    pub state_bytes: u64,
}

/// A section of an engine's memory; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_section {
    /// `sizeof(gleed_section)`, set by the caller.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Byte offset from the start of the memory.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// What the section holds.
    pub name: [c_char; 40],
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_plan_info {
    /// Earlier structs ended with `level` and `adapter_rank`.
    const EARLIER: &'static [usize] = &[72, 80];
}
// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8, and 40 bytes: no gaps, and every bit
// pattern is one.
unsafe impl Versioned for gleed_section {}

/// Writes the plan of an engine to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_plan_describe(
    model: *const gleed_model,
    config: *const gleed_config,
    info: *mut gleed_plan_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed.h demands
        // the rest: no other call changes `model`, `config` is NULL or has as many bytes as its struct_size says, and
        // `info` has as many bytes as its struct_size says.
        let (model, config, info) =
            unsafe { (Object::get("model", model)?, gleed_config::read(config)?, out_struct("info", info)?) };
        let (plan, bytes) = plan(model, config)?;
        let limits = plan.limits();
        let block = plan.kv_block_bytes() as u64;
        info.write(gleed_plan_info {
            struct_size: 0,
            align: small(plan.alignment()),
            bytes: bytes as u64,
            kv_bytes_per_token: block / BLOCK_TOKENS as u64,
            kv_bytes: block.saturating_mul(limits.kv_blocks as u64),
            units_per_token: plan.units_per_token() as u64,
            sections: small(plan.sections().len().saturating_add(1)),
            sequences: small(limits.sequences),
            context: small(limits.context),
            rows: small(limits.rows),
            logit_rows: small(limits.logit_rows),
            kv_blocks: small(limits.kv_blocks),
            workers: small(limits.workers),
            level: level_number(limits.level),
            adapters: small(limits.adapters),
            adapter_rank: small(limits.adapter_rank),
            checkpoints: small(limits.checkpoints),
            checkpoint_every: small(limits.checkpoint_every),
            state_bytes: (model.config().recurrent.state_elements() as u64).saturating_mul(4),
        });
        Ok(status::OK)
    })
}

/// Writes a section of an engine's memory to `section`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_plan_section(
    model: *const gleed_model,
    config: *const gleed_config,
    index: usize,
    section: *mut gleed_section,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed.h demands
        // the rest: no other call changes `model`, `config` is NULL or has as many bytes as its struct_size says, and
        // `section` has as many bytes as its struct_size says.
        let (model, config, out) =
            unsafe { (Object::get("model", model)?, gleed_config::read(config)?, out_struct("section", section)?) };
        let (plan, _) = plan(model, config)?;
        let (offset, bytes, name) = match index.checked_sub(1) {
            None => (0, HEAD, "handle"),
            Some(index) => {
                let section = plan.sections().get(index).ok_or_else(|| past_the_end(plan.sections().len(), index))?;
                (HEAD.saturating_add(section.offset), section.bytes, section.name)
            }
        };
        let (offset, bytes) = (offset as u64, bytes as u64);
        out.write(gleed_section { struct_size: 0, reserved: 0, offset, bytes, name: chars(name) });
        Ok(status::OK)
    })
}

fn past_the_end(sections: usize, index: usize) -> Failure {
    let given = index.saturating_add(1);
    Failure::new(status::E_VALUE, format_args!("section {given}, the last one is {sections}")).numbers(sections, given)
}
