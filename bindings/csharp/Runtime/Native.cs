// The functions and structs of gleed.h that this binding uses, under their names in gleed.h. tests/Layout.cs compares all of them with the
// header and with a C compiler.
using System;
using System.Runtime.InteropServices;

namespace Gleed
{
    internal static unsafe class Native
    {
        const string Library = "gleed";
        const CallingConvention C = CallingConvention.Cdecl;

        internal const uint GLEED_ABI_VERSION = 1;
        internal const uint GLEED_NO_TOKEN = uint.MaxValue;
        internal const uint GLEED_NO_TURNS = uint.MaxValue;
        internal const uint GLEED_NO_STOP = uint.MaxValue;
        internal const uint GLEED_LOGITS_LAST = 0;
        internal const uint GLEED_ENCODE_ADD_SPECIAL = 1;
        internal const uint GLEED_DECODE_RENDER_SPECIAL = 1;
        internal const uint GLEED_DECODE_CONTINUES = 2;
        internal const uint GLEED_AFTER_NOTHING = 0;
        internal const uint GLEED_ROLE_SYSTEM = 1;
        internal const uint GLEED_ROLE_USER = 2;
        internal const uint GLEED_ROLE_ASSISTANT = 3;
        internal const uint GLEED_AFTER_REPLY = 4;
        internal const uint GLEED_ROLE_TOOL = 5;
        internal const uint GLEED_GRAMMAR_SCHEMA = 0;
        internal const uint GLEED_GRAMMAR_GBNF = 1;
        internal const uint GLEED_GRAMMAR_REGEX = 2;
        internal const uint GLEED_GRAMMAR_CLOSE = 8;
        internal const uint GLEED_MASK_ENDS = 1;

#pragma warning disable 649 // The library writes these fields, or they stay 0.
        internal struct gleed_error
        {
            public uint struct_size;
            public int status;
            public ulong at, needed, given;
            public fixed byte text[96];
        }

        internal struct gleed_part
        {
            public byte* bytes;
            public UIntPtr len;
        }

        internal struct gleed_model_info
        {
            public uint struct_size, layers, vocab, context, hidden, ffn, heads, kv_heads, head_dim, reserved;
            public ulong fingerprint, file_bytes;
            public fixed byte architecture[32];
            public fixed byte name[96];
        }

        internal struct gleed_vocab_info
        {
            public uint struct_size, tokens, bos, eos, eot, eom, unknown, max_text, adds_bos, adds_eos;
        }

        internal struct gleed_config
        {
            public uint struct_size, sequences, context, rows, kv_kind, kv_type, kv_blocks, logit_rows, window_sinks, window_last, prefix_cache;
            public uint workers, level, adapters, adapter_rank, checkpoints, checkpoint_every;
        }

        internal struct gleed_plan_info
        {
            public uint struct_size, align;
            public ulong bytes, kv_bytes_per_token, kv_bytes, units_per_token;
            public uint sections, sequences, context, rows, logit_rows, kv_blocks, workers, level, adapters, adapter_rank, checkpoints;
            public uint checkpoint_every;
            public ulong state_bytes;
        }

        internal struct gleed_seq_info
        {
            public uint struct_size, tokens, queued, own_blocks, shared_blocks, is_busy;
            public ulong units_done, units_left, own_bytes, shared_bytes;
        }

        internal struct gleed_budget
        {
            public uint struct_size, reserved;
            public ulong units, deadline;
            public IntPtr clock, clock_ctx;
            public uint* cancel;
        }

        internal struct gleed_sampler_params
        {
            public uint struct_size, top_k;
            public float temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
            public uint penalty_window, reserved;
            public ulong seed;
        }

        internal struct gleed_snapshot_options
        {
            public uint struct_size, @base;
            public byte* state;
            public UIntPtr state_len;
            public uint checkpoints, reserved;
        }

        internal struct gleed_snapshot_info
        {
            public uint struct_size, tokens, @base, state_len;
            public ulong bytes, fingerprint;
            public fixed byte state[256];
        }

        internal struct gleed_entry
        {
            public uint role, reserved;
            public byte* text;
            public UIntPtr text_len;
            public byte* name;
            public UIntPtr name_len;
            public byte* id;
            public UIntPtr id_len;
        }

        internal struct gleed_desk_limits
        {
            public uint struct_size, context, text, word, replies, entries;
        }

        internal struct gleed_script
        {
            public uint struct_size, format, think, flags;
            public byte* tools;
            public UIntPtr tools_len;
            public byte* tool_format;
            public UIntPtr tool_format_len;
        }

        internal struct gleed_keep
        {
            public uint struct_size, room, first, last, target, reserved;
            public IntPtr summary, summary_ctx;
        }

        internal struct gleed_update
        {
            public uint struct_size, position;
            public uint* tokens;
            public UIntPtr tokens_len, left_out, left_out_len;
        }

        internal struct gleed_grammar_options
        {
            public uint struct_size, kind, whitespace, flags, states, reserved;
            public byte* ignore;
            public UIntPtr ignore_len;
            public uint calls, choice, thoughts, call_flags;
            public byte* tool;
            public UIntPtr tool_len;
            public IntPtr tokenizer;
        }

        internal struct gleed_string
        {
            public byte* text;
            public UIntPtr text_len;
        }

        internal struct gleed_shown
        {
            public uint struct_size, stop;
            public byte* held;
            public UIntPtr held_len, text_len;
        }
#pragma warning restore 649

        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr gleed_status_text(int status);
        [DllImport(Library, CallingConvention = C)] internal static extern uint gleed_abi_version();
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr gleed_version();
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_model_split_size(UIntPtr count, out UIntPtr size, out UIntPtr align,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_model_open_split(gleed_part* parts, UIntPtr count, IntPtr memory,
            UIntPtr memory_len, out IntPtr model, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_model_describe(Held model, ref gleed_model_info info, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_tokenizer_size(Held model, out UIntPtr size, out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_tokenizer_init(Held model, IntPtr memory, UIntPtr memory_len,
            out IntPtr tokenizer, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_tokenizer_describe(Held tokenizer, ref gleed_vocab_info info, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_encode(Held tokenizer, byte* text, UIntPtr text_len, uint flags,
            uint* scratch, UIntPtr scratch_len, uint* tokens, UIntPtr tokens_len, out UIntPtr count, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_token_kind(Held tokenizer, uint token, out uint kind, out uint is_end,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_plan(Held model, ref gleed_config config, out UIntPtr size,
            out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_plan_describe(Held model, ref gleed_config config, ref gleed_plan_info info,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_engine_init(Held model, ref gleed_config config, IntPtr memory,
            UIntPtr memory_len, out IntPtr engine, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_seq_open(Held engine, out uint seq, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_seq_close(Held engine, uint seq, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_reset(Held engine, uint seq, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_fork(Held engine, uint seq, UIntPtr keep, out uint fork, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_rewind(Held engine, uint seq, UIntPtr keep, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_seq_describe(Held engine, uint seq, ref gleed_seq_info info, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_seq_tokens(Held engine, uint seq, UIntPtr first, uint* tokens, UIntPtr count,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_can_extend(Held engine, uint seq, UIntPtr tokens, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_prefill(Held engine, uint seq, uint* tokens, UIntPtr count,
            out float* logits, out UIntPtr logits_len, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_queue(Held engine, uint seq, uint* tokens, UIntPtr count, uint logits,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_step(Held engine, ref gleed_budget budget, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_cancel(Held engine, uint seq, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_result(Held engine, UIntPtr index, out uint seq, out uint position,
            out float* logits, out UIntPtr logits_len, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_snapshot_size(Held engine, uint seq, ref gleed_snapshot_options options,
            out UIntPtr size, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_snapshot(Held engine, uint seq, ref gleed_snapshot_options options,
            byte* bytes, UIntPtr len, out UIntPtr written, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_restore(Held engine, uint* @base, byte* bytes, UIntPtr len, out uint seq,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_snapshot_describe(byte* bytes, UIntPtr len, ref gleed_snapshot_info info,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sampler_size(out UIntPtr size, out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sampler_init(ref gleed_sampler_params @params, IntPtr memory,
            UIntPtr memory_len, out IntPtr sampler, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sampler_accept(Held sampler, uint token, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sampler_state(Held sampler, out ulong state, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sampler_set_state(Held sampler, ulong state, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sample(Held sampler, float* logits, UIntPtr logits_len, ulong* scratch,
            UIntPtr scratch_len, out uint token, float* probability, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_sample_masked(Held sampler, float* logits, UIntPtr logits_len, uint* mask,
            UIntPtr mask_len, ulong* scratch, UIntPtr scratch_len, out uint token, float* probability, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_detokenizer_size(out UIntPtr size, out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_detokenizer_init(Held tokenizer, uint flags, IntPtr memory,
            UIntPtr memory_len, out IntPtr detokenizer, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_detokenize(Held detokenizer, Held tokenizer, uint token, byte* text,
            UIntPtr text_len, out UIntPtr written, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_detokenizer_finish(Held detokenizer, byte* text, UIntPtr text_len,
            out UIntPtr written, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_turns_find(Held model, Held tokenizer, out uint format, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_turns_named(byte* name, UIntPtr name_len, out uint format, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_turns_is_stop(Held tokenizer, uint format, uint token, out uint is_stop,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_desk_plan(Held tokenizer, out UIntPtr size, out UIntPtr align,
            ref gleed_desk_limits limits, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_desk_init(Held tokenizer, ref gleed_desk_limits limits, IntPtr memory,
            UIntPtr memory_len, out IntPtr desk, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_conversation_plan(Held engine, out UIntPtr size, out UIntPtr align,
            IntPtr limits, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_conversation_init(Held engine, uint seq, IntPtr limits, IntPtr memory,
            UIntPtr memory_len, out IntPtr conversation, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_conversation_update(Held conversation, Held engine, Held tokenizer,
            Held desk, gleed_entry* entries, UIntPtr entries_len, ref gleed_script script, gleed_keep* keep, ref gleed_update update, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_grammar_plan(byte* text, UIntPtr text_len, uint* scratch,
            UIntPtr scratch_len, out UIntPtr size, out UIntPtr align, ref gleed_grammar_options options, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_grammar_init(byte* text, UIntPtr text_len, uint* scratch,
            UIntPtr scratch_len, ref gleed_grammar_options options, IntPtr memory, UIntPtr memory_len, out IntPtr grammar, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_trie_plan(Held tokenizer, uint* scratch, UIntPtr scratch_len,
            out UIntPtr size, out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_trie_init(Held tokenizer, uint* scratch, UIntPtr scratch_len, IntPtr memory,
            UIntPtr memory_len, out IntPtr trie, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_matcher_plan(out UIntPtr size, out UIntPtr align, IntPtr limits, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_matcher_init(Held grammar, IntPtr limits, IntPtr memory, UIntPtr memory_len,
            out IntPtr matcher, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_matcher_accept(Held matcher, Held tokenizer, uint token, out uint accepted,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_matcher_mask(Held matcher, Held trie, ulong units, uint flags, uint* mask,
            UIntPtr mask_len, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_matcher_mask_within(Held matcher, Held trie, ulong within, ulong units,
            uint flags, uint* mask, UIntPtr mask_len, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_stops_size(out UIntPtr size, out UIntPtr align, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_stops_init(gleed_string* strings, UIntPtr count, IntPtr memory,
            UIntPtr memory_len, out IntPtr stops, ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_stops_push(Held stops, byte* text, UIntPtr text_len, ref gleed_shown shown,
            ref gleed_error error);
        [DllImport(Library, CallingConvention = C)] internal static extern int gleed_stops_finish(Held stops, out byte* held, out UIntPtr held_len, ref gleed_error error);
    }
}
