//! Samplers: from logits to a token.

use core::ffi::{c_char, c_void};

use gleed::sample::{MAX_BIASES, Sampler, SamplerParams, argmax};

use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{out, out_layout, out_or_null, slice, slice_mut, unread};
use crate::status;
use crate::text::{check_text_len, utf8};
use crate::tokenizer::gleed_tokenizer;
use crate::versioned::{Versioned, versioned_or_null};

impl Opaque for Sampler {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedS01");
}

/// A sampler: parameters, the last accepted tokens, and a random generator.
pub type gleed_sampler = Object<Sampler>;

/// How to choose a token; see `include/gleed.h`. 0 stands for the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_sampler_params {
    /// `sizeof(gleed_sampler_params)`, set by the caller.
    pub struct_size: u32,
    /// Keeps this many of the most probable tokens; 0: all.
    pub top_k: u32,
    /// Divides the logits; 0: the most probable token is taken.
    pub temperature: f32,
    /// Keeps the most probable tokens that together have this probability; 0: all.
    pub top_p: f32,
    /// Keeps tokens with at least `min_p` times the largest probability.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of repeated tokens; 0 stands for 1, which does nothing.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of a repeated token for each time it occurs.
    pub frequency_penalty: f32,
    /// Subtracted from the logit of a repeated token once.
    pub presence_penalty: f32,
    /// Number of last accepted tokens that the penalties count; 0: 64.
    pub penalty_window: u32,
    /// 0.
    pub reserved: u32,
    /// Start of the random generator.
    pub seed: u64,
}

// SAFETY: numbers, the first the size and the 8-byte one at a multiple of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_sampler_params {}

/// A number that is added to the logit of a token.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_bias {
    /// The token.
    pub token: u32,
    /// The number that is added; -infinity bans the token.
    pub bias: f32,
}

impl From<gleed_sampler_params> for SamplerParams {
    fn from(params: gleed_sampler_params) -> Self {
        let default = Self::default();
        let or = |value: f32, default: f32| if value == 0.0 { default } else { value };
        let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            temperature: params.temperature,
            top_k: count(params.top_k),
            top_p: or(params.top_p, default.top_p),
            min_p: params.min_p,
            repetition_penalty: or(params.repetition_penalty, default.repetition_penalty),
            frequency_penalty: params.frequency_penalty,
            presence_penalty: params.presence_penalty,
            penalty_window: if params.penalty_window == 0 {
                default.penalty_window
            } else {
                count(params.penalty_window)
            },
            seed: params.seed,
        }
    }
}

/// Returns the size and alignment of the memory of a sampler, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_sampler>(), align_of::<gleed_sampler>());
        Ok(status::OK)
    })
}

/// Starts a sampler in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_init(
    params: *const gleed_sampler_params,
    memory: *mut c_void,
    memory_len: usize,
    sampler: *mut *mut gleed_sampler,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `sampler` is a place
        // for a result that nothing else uses, and `params` is NULL or has as many bytes as its struct_size says.
        let (place, params) = unsafe { (out("sampler", sampler)?, versioned_or_null("params", params)?) };
        let reserved = params.map_or(0, |params| params.reserved);
        if reserved != 0 {
            return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, reserved));
        }
        let sampler = Sampler::new(params.map_or_else(SamplerParams::default, SamplerParams::from))?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the sampler is used.
        place.write(unsafe { Object::place_at(memory, memory_len, sampler) }?);
        Ok(status::OK)
    })
}

/// Replaces all biases of a sampler.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_set_biases(
    sampler: *mut gleed_sampler,
    biases: *const gleed_bias,
    count: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `sampler` are checked here. gleed.h demands the
        // rest: nothing but this call uses `sampler`, and `count` biases are at `biases` if so many can be taken.
        let (mut sampler, biases) = unsafe { (Object::get_mut("sampler", sampler)?, unread("biases", biases, count)?) };
        let biases = biases.read_if(|count| {
            let text = format_args!("at most {MAX_BIASES} biases, {count} given");
            let too_many = || Failure::new(status::E_VALUE, text).numbers(MAX_BIASES, count);
            if count <= MAX_BIASES { Ok(()) } else { Err(too_many()) }
        })?;
        let mut pairs = [(0, 0.0); MAX_BIASES];
        let pairs = pairs.get_mut(..biases.len()).unwrap_or_default();
        for (pair, bias) in pairs.iter_mut().zip(biases) {
            *pair = (bias.token, bias.bias);
        }
        sampler.set_biases(pairs)?;
        Ok(status::OK)
    })
}

/// Adds biases for the tokens that spell a text.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_bias_text(
    sampler: *mut gleed_sampler,
    tokenizer: *const gleed_tokenizer,
    text: *const c_char,
    text_len: usize,
    bias: f32,
    scratch: *mut u32,
    scratch_len: usize,
    count: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `sampler` and `tokenizer` are checked here.
        // gleed.h demands the rest: nothing but this call uses `sampler`, no other call changes `tokenizer`, `text_len`
        // bytes are at `text` if so many can be taken, `scratch_len` elements at `scratch` are used by nothing else,
        // and `count` is a place for a result that nothing else uses.
        let (mut sampler, tokenizer, text, scratch, count) = unsafe {
            (
                Object::get_mut("sampler", sampler)?,
                Object::get("tokenizer", tokenizer)?,
                unread("text", text.cast::<u8>(), text_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out("count", count)?,
            )
        };
        let text = utf8(text.read_if(check_text_len)?)?;
        let (mut biased, mut found, mut added) = (sampler.clone(), 0_usize, Ok(()));
        tokenizer.each_spelling(text, scratch, &mut |tokens| {
            if added.is_ok() {
                added = biased.add_bias(tokens, bias);
                found = found.saturating_add(1);
            }
        })?;
        added?;
        *sampler = biased;
        count.write(found);
        Ok(status::OK)
    })
}

/// Adds a token to the text that the penalties count.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_accept(sampler: *mut gleed_sampler, token: u32, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `sampler` are checked here. gleed.h demands the rest:
        // nothing but this call uses `sampler`.
        let mut sampler = unsafe { Object::get_mut("sampler", sampler) }?;
        sampler.accept(token);
        Ok(status::OK)
    })
}

/// Returns the state of a sampler's random generator.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_state(
    sampler: *const gleed_sampler,
    state: *mut u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `sampler` are checked here. gleed.h demands the rest: no
        // other call changes `sampler`, and `state` is a place for a result that nothing else uses.
        let (sampler, state) = unsafe { (Object::get("sampler", sampler)?, out("state", state)?) };
        state.write(sampler.state());
        Ok(status::OK)
    })
}

/// Sets the state of a sampler's random generator to one that [`gleed_sampler_state`] returned.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sampler_set_state(
    sampler: *mut gleed_sampler,
    state: u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `sampler` are checked here. gleed.h demands the rest:
        // nothing but this call uses `sampler`.
        let mut sampler = unsafe { Object::get_mut("sampler", sampler) }?;
        sampler.set_state(state);
        Ok(status::OK)
    })
}

/// Chooses a token.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sample(
    sampler: *mut gleed_sampler,
    logits: *const f32,
    logits_len: usize,
    scratch: *mut u64,
    scratch_len: usize,
    token: *mut u32,
    probability: *mut f32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `sampler` are checked here. gleed.h demands the
        // rest: nothing but this call uses `sampler`, `logits_len` numbers are at `logits`, `scratch_len` elements at
        // `scratch` are used by nothing else, and `token` and, where it is not NULL, `probability` are places for
        // results that nothing else uses.
        let (mut sampler, logits, scratch, token, probability) = unsafe {
            (
                Object::get_mut("sampler", sampler)?,
                slice("logits", logits, logits_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out("token", token)?,
                out_or_null("probability", probability)?,
            )
        };
        let choice = sampler.sample(logits, scratch)?;
        token.write(choice.token);
        if let Some(probability) = probability {
            probability.write(choice.probability);
        }
        Ok(status::OK)
    })
}

/// Chooses a token among those that a mask allows.
///
/// # Safety
/// As `include/gleed.h` says.
#[cfg(feature = "grammar")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_sample_masked(
    sampler: *mut gleed_sampler,
    logits: *const f32,
    logits_len: usize,
    mask: *const u32,
    mask_len: usize,
    scratch: *mut u64,
    scratch_len: usize,
    token: *mut u32,
    probability: *mut f32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `sampler` are checked here. gleed.h demands the
        // rest: nothing but this call uses `sampler`, and `logits_len` numbers are at `logits` and `mask_len` at
        // `mask`.
        let (mut sampler, logits, mask) = unsafe {
            (Object::get_mut("sampler", sampler)?, slice("logits", logits, logits_len)?, slice("mask", mask, mask_len)?)
        };
        // SAFETY: NULL, alignment and the length are checked here. gleed.h demands the rest: `scratch_len` elements at
        // `scratch` are used by nothing else, and `token` and, where it is not NULL, `probability` are places for
        // results that nothing else uses.
        let (scratch, token, probability) = unsafe {
            (
                slice_mut("scratch", scratch, scratch_len)?,
                out("token", token)?,
                out_or_null("probability", probability)?,
            )
        };
        let choice = sampler.sample_masked(logits, mask, scratch)?;
        token.write(choice.token);
        if let Some(probability) = probability {
            probability.write(choice.probability);
        }
        Ok(status::OK)
    })
}

/// Returns the token with the largest logit.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_argmax(
    logits: *const f32,
    logits_len: usize,
    token: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `logits_len` numbers are at
        // `logits`, and `token` is a place for a result that nothing else uses.
        let (logits, token) = unsafe { (slice("logits", logits, logits_len)?, out("token", token)?) };
        token.write(argmax(logits)?);
        Ok(status::OK)
    })
}
