//! The C ABI of gleed, declared and specified in `include/gleed.h`.
//!
//! Every function follows the same rules. It returns a frozen number ([`status`]); details go to a
//! struct of the caller's ([`error`]). Pointers with lengths become slices in one place ([`ptr`]), which
//! refuses what can be recognised as wrong: NULL, misaligned, past the end of the address space. Opaque
//! pointers lead to objects in the caller's memory that begin with a magic word ([`object`]). Outputs
//! are written only on success, and a call that fails changes nothing. There is no global or
//! thread-local state (std, where it is linked, has some of its own, which only a panic touches), and nothing here can
//! panic: `bare/check.sh` proves it by linking.
#![cfg_attr(not(test), no_std)]
#![allow(non_camel_case_types)] // the types have the names that C sees
#![allow(clippy::result_large_err)] // a failure carries its text: there is nowhere else to put it
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg(all(feature = "std", not(test)))]
extern crate std;

mod adapter;
mod config;
mod convert;
mod engine;
pub mod error;
mod executor;
mod hidden;
mod kv;
mod model;
pub mod object;
mod plan;
mod prefix;
pub mod ptr;
mod sampler;
mod selftest;
mod sequence;
mod snapshot;
pub mod status;
mod step;
mod text;
mod tokenizer;
mod turns;
mod version;

pub use adapter::{
    gleed_adapter, gleed_adapter_describe, gleed_adapter_info, gleed_adapter_open, gleed_adapter_size,
    gleed_engine_load_adapter, gleed_seq_adapter, gleed_seq_set_adapter,
};
pub use config::{
    GLEED_KV_BASIC, GLEED_KV_F16, GLEED_KV_F32, GLEED_KV_OFF, GLEED_KV_PAGED, GLEED_KV_Q4_0, GLEED_KV_Q8_0,
    GLEED_KV_TYPES, GLEED_LEVEL_AVX2, GLEED_LEVEL_AVX512, GLEED_LEVEL_AVXVNNI, GLEED_LEVEL_BEST, GLEED_LEVEL_DOTPROD,
    GLEED_LEVEL_NEON, GLEED_LEVEL_SCALAR, GLEED_LEVEL_SIMD128, gleed_config,
};
pub use engine::{HEAD, gleed_engine, gleed_engine_describe, gleed_engine_info, gleed_engine_init, gleed_plan};
pub use executor::{gleed_body, gleed_executor, gleed_parallel_for, gleed_set_executor};
pub use hidden::{GLEED_POOLING_LAST, GLEED_POOLING_MEAN, gleed_embed, gleed_hidden, gleed_log_probs};
pub use kv::{gleed_materialize, gleed_push_row, gleed_set_prefill};
pub use model::{
    gleed_model, gleed_model_describe, gleed_model_info, gleed_model_open, gleed_model_open_split, gleed_model_size,
    gleed_model_split_size, gleed_model_string, gleed_part,
};
pub use plan::{gleed_plan_describe, gleed_plan_info, gleed_plan_section, gleed_section};
pub use prefix::{gleed_consent, gleed_make_room, gleed_pin, gleed_prefill_prompt, gleed_reuse, gleed_unpin};
pub use sampler::{
    gleed_argmax, gleed_bias, gleed_sample, gleed_sampler, gleed_sampler_accept, gleed_sampler_init,
    gleed_sampler_params, gleed_sampler_set_biases, gleed_sampler_set_state, gleed_sampler_size, gleed_sampler_state,
};
pub use selftest::gleed_selftest;
pub use sequence::{
    gleed_can_extend, gleed_decode_step, gleed_fork, gleed_prefill, gleed_reset, gleed_rewind, gleed_seq,
    gleed_seq_close, gleed_seq_describe, gleed_seq_info, gleed_seq_open, gleed_seq_tokens,
};
pub use snapshot::{
    gleed_restore, gleed_sink, gleed_snapshot, gleed_snapshot_describe, gleed_snapshot_info, gleed_snapshot_options,
    gleed_snapshot_read, gleed_snapshot_size, gleed_snapshot_write, gleed_source,
};
pub use step::{
    GLEED_LOGITS_ALL, GLEED_LOGITS_HIDDEN, GLEED_LOGITS_LAST, GLEED_LOGITS_LAST_HIDDEN, gleed_budget, gleed_cancel,
    gleed_clock, gleed_logits, gleed_queue, gleed_result, gleed_step,
};
pub use tokenizer::{
    GLEED_DECODE_CONTINUES, GLEED_DECODE_RENDER_SPECIAL, GLEED_ENCODE_ADD_SPECIAL, GLEED_ENCODE_PARSE_SPECIAL,
    GLEED_NO_TOKEN, GLEED_TOKEN_BYTE, GLEED_TOKEN_CONTROL, GLEED_TOKEN_NORMAL, GLEED_TOKEN_UNDEFINED,
    GLEED_TOKEN_UNKNOWN, GLEED_TOKEN_UNUSED, GLEED_TOKEN_USER_DEFINED, gleed_detokenize, gleed_detokenizer,
    gleed_detokenizer_finish, gleed_detokenizer_init, gleed_detokenizer_size, gleed_encode, gleed_token_kind,
    gleed_tokenizer, gleed_tokenizer_describe, gleed_tokenizer_init, gleed_tokenizer_size, gleed_vocab_find,
    gleed_vocab_info,
};
pub use turns::{
    GLEED_AFTER_NOTHING, GLEED_AFTER_REPLY, GLEED_NO_TURNS, GLEED_ROLE_ASSISTANT, GLEED_ROLE_SYSTEM, GLEED_ROLE_USER,
    GLEED_TURNS_ADD_BOS, GLEED_TURNS_REPLY, gleed_message, gleed_turns_describe, gleed_turns_encode, gleed_turns_find,
    gleed_turns_info, gleed_turns_is_stop, gleed_turns_named,
};
pub use version::{GLEED_ABI_VERSION, gleed_abi_version, gleed_arithmetic_version, gleed_status_text, gleed_version};
