//! All functions of the library that take a pointer, grouped by their number of arguments.

use gleed_ffi::*;

use super::arguments::{Argument, Caller};

/// Makes arguments for a function by their types, and calls it.
pub type Call = fn(&mut Caller<'_, '_>) -> i32;

macro_rules! functions {
    ($($caller:ident: $($function:ident)*;)*) => {
        /// The functions by their names.
        pub const ALL: &[(&str, Call)] = &[$($((stringify!($function), |caller| $caller(caller, $function)),)*)*];
    };
}

macro_rules! callers {
    ($($caller:ident $($argument:ident)*;)*) => {$(
        #[allow(non_snake_case, clippy::too_many_arguments)]
        fn $caller<$($argument: Argument),*>(caller: &mut Caller<'_, '_>, function: unsafe extern "C" fn($($argument),*) -> i32) -> i32 {
            $(let $argument = $argument::make(caller);)*
            // SAFETY: each pointer is NULL, misaligned, or leads to at least as many elements as any count among the
            // arguments says. These elements stay until the end of the run if the library may keep them. Handles are
            // objects that were made in this run.
            caller.run(|| unsafe { function($($argument),*) })
        }
    )*};
}

callers! {
    call_2 A B;
    call_3 A B C;
    call_4 A B C D;
    call_5 A B C D E;
    call_6 A B C D E F;
    call_7 A B C D E F G;
    call_8 A B C D E F G H;
    call_9 A B C D E F G H I;
    call_10 A B C D E F G H I J;
    call_11 A B C D E F G H I J K;
    call_12 A B C D E F G H I J K L;
}

functions! {
    call_2:
        gleed_engine_reset_metrics gleed_matcher_reset;
    call_3:
        gleed_adapter_describe gleed_adapter_size gleed_calls_size gleed_cancel gleed_checkpoint gleed_conversation_seq
        gleed_detokenizer_size gleed_engine_describe gleed_grammar_build_finish gleed_grammar_build_size
        gleed_grammar_build_step gleed_matcher_bytes_to_end gleed_matcher_is_end gleed_matcher_is_free
        gleed_matcher_rewind gleed_engine_metrics
        gleed_matcher_rewindable gleed_matcher_snapshot_size gleed_model_describe gleed_model_size gleed_reset
        gleed_sampler_accept gleed_sampler_set_state gleed_sampler_size gleed_sampler_state gleed_seq_close gleed_seq_open
        gleed_set_executor gleed_step gleed_stops_size gleed_tokenizer_describe gleed_trie_build_finish gleed_trie_build_size
        gleed_trie_build_step gleed_trie_mask_len gleed_turns_describe gleed_writing_describe;
    call_4:
        gleed_argmax gleed_calls_named gleed_can_extend gleed_engine_load_adapter gleed_grammar_build_place gleed_grammar_build_plan gleed_guesses_end gleed_guesses_layer gleed_guesses_see gleed_guesses_take
        gleed_matcher_plan gleed_matcher_restore
        gleed_model_split_size gleed_plan_describe gleed_rewind gleed_sampler_set_biases gleed_selftest gleed_seq_describe
        gleed_snapshot_describe gleed_stops_finish gleed_tokenizer_size gleed_trie_build_place gleed_trie_build_plan
        gleed_turns_find gleed_turns_named gleed_writing_follow gleed_writing_plan;
    call_5:
        gleed_computed_at gleed_conversation_plan gleed_desk_plan gleed_detokenizer_finish gleed_fork gleed_guesses_logits
        gleed_guesses_plan gleed_logits
        gleed_matcher_accept gleed_matcher_accept_text gleed_matcher_forced gleed_matcher_fork gleed_matcher_snapshot
        gleed_model_embedding gleed_model_predictor gleed_pin gleed_plan gleed_plan_section gleed_sampler_init gleed_seq_adapter gleed_seq_set_adapter
        gleed_snapshot_size gleed_stops_push gleed_token_kind gleed_tokenizer_init gleed_turns_calls gleed_turns_is_stop
        gleed_unpin gleed_vocab_find gleed_writing_accept gleed_writing_rewind gleed_writing_state;
    call_6:
        gleed_conversation_fork gleed_conversation_saved_entries gleed_decode_step gleed_desk_init gleed_detokenizer_init
        gleed_engine_init gleed_matcher_init gleed_model_open gleed_model_open_split gleed_model_string gleed_queue
        gleed_restore gleed_reuse gleed_seq_tokens gleed_stops_init gleed_trie_plan;
    call_7:
        gleed_adapter_open gleed_conversation_init gleed_conversation_saved_size gleed_detokenize gleed_guesses_queue
        gleed_hidden gleed_log_probs
        gleed_make_room gleed_matcher_mask gleed_materialize gleed_prefill gleed_prefill_prompt gleed_push_row gleed_result
        gleed_set_prefill gleed_snapshot gleed_snapshot_read gleed_snapshot_write gleed_trie_build_init gleed_trie_init;
    call_8:
        gleed_calls_init gleed_calls_next gleed_conversation_load gleed_embed gleed_grammar_plan gleed_guesses_init gleed_guesses_prefill
        gleed_matcher_mask_within
        gleed_sample gleed_unspelled gleed_writing_fork gleed_writing_init gleed_writing_mask;
    call_9:
        gleed_conversation_save gleed_embed_texts gleed_grammar_build_init gleed_grammar_init gleed_guesses_queue_layer gleed_matcher_forced_tokens gleed_sampler_bias_text
        gleed_writing_forced_tokens;
    call_10:
        gleed_conversation_update gleed_encode gleed_sample_masked;
    call_11:
        gleed_writing_resume;
    call_12:
        gleed_turns_encode;
}
