//! `include/gleed.h` and the Rust side declare the same functions with their types, structs and numbers. The header
//! compiles in every language that it supports.

mod header;

use std::collections::BTreeMap;
use std::mem::{align_of, offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use header::{declared, exported, without_comments};

use gleed_ffi::error::gleed_error;
use gleed_ffi::{
    gleed_adapter_info, gleed_bias, gleed_block_info, gleed_budget, gleed_cache_policy, gleed_calls_part, gleed_config,
    gleed_conversation_limits, gleed_desk_limits, gleed_engine_info, gleed_entry, gleed_executor,
    gleed_grammar_options, gleed_keep, gleed_matcher_limits, gleed_message, gleed_metrics, gleed_model_info,
    gleed_part, gleed_passes, gleed_plan_info, gleed_sampler_params, gleed_script, gleed_section, gleed_seq_info,
    gleed_shown, gleed_snapshot_info, gleed_snapshot_options, gleed_string, gleed_times, gleed_turns_info,
    gleed_update, gleed_vocab_info, gleed_writing_info, status,
};

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn header() -> String {
    let text = std::fs::read_to_string(manifest("../include/gleed.h")).unwrap();
    without_comments(&text)
}

fn ffi_source() -> String {
    let mut files: Vec<_> = std::fs::read_dir(manifest("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn functions_are_declared_as_they_are_defined() {
    let declared: BTreeMap<_, _> = declared(&header())
        .into_iter()
        .map(|(name, declaration)| (name, declaration.replace("gleed_status ", "int32_t ")))
        .collect();
    let exported = exported(&ffi_source());
    assert!(exported.len() >= 112);
    assert_eq!(declared, exported);
}

/// Returns what the header says of a function's errors, with what it says of those of the functions that it names there.
fn errors(header: &str, function: &str) -> String {
    let (before, _) = header.split_once(&format!("\ngleed_status {function}(")).unwrap();
    let (_, comment) = before.rsplit_once("/*").unwrap();
    let (_, stated) = comment.split_once("Errors").unwrap();
    let stated = stated.split("\n *   After").next().unwrap();
    let named = stated.split("As gleed_").skip(1).map(|rest| rest.split([' ', '.', ',', ';']).next().unwrap());
    named.fold(stated.to_owned(), |all, name| all + &errors(header, &format!("gleed_{name}")))
}

/// `tests/mistakes/predict.c` calls these functions with such an engine.
#[test]
fn calls_that_take_tokens_state_that_a_layer_refuses_them() {
    let header = std::fs::read_to_string(manifest("../include/gleed.h")).unwrap();
    for function in [
        "gleed_prefill",
        "gleed_decode_step",
        "gleed_prefill_at",
        "gleed_prefill_prompt",
        "gleed_queue",
        "gleed_queue_at",
        "gleed_embed",
        "gleed_embed_texts",
        "gleed_log_probs",
        "gleed_guesses_queue",
    ] {
        let stated = errors(&header, function);
        assert!(stated.contains("GLEED_E_VALUE") && stated.contains("gleed_model_predictor"), "{function}: {stated}");
    }
}

/// Returns the number of lines of every `unsafe` block in Rust source text, in order. Unit tests in it are left out.
fn unsafe_blocks(source: &str) -> Vec<usize> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = || code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines().map(|line| format!("{line}\n")).collect::<String>();
    let block = |rest: &str| {
        let mut depth = 1_u32;
        let end = rest.find(|c| {
            depth = depth + u32::from(c == '{') - u32::from(c == '}');
            depth == 0
        });
        rest[..end.unwrap_or(rest.len())].trim().lines().count()
    };
    code.split("unsafe {").skip(1).map(block).collect()
}

/// Returns the functions in Rust source text that have an `error` and whose body is anything but one `boundary!`.
fn without_boundary(source: &str) -> Vec<&str> {
    let functions = source.split("\npub unsafe extern \"C\" fn ").skip(1);
    let bodies = functions.filter_map(|text| text.split_once("\n}\n")?.0.split_once(") -> i32 {\n"));
    let with_error = bodies.filter(|(signature, _)| signature.contains("error: *mut gleed_error"));
    let wrong =
        with_error.filter(|(_, body)| !body.starts_with("    boundary!(error, || {\n") || !body.ends_with("\n    })"));
    wrong.filter_map(|(signature, _)| signature.split('(').next()).collect()
}

#[test]
fn functions_are_one_boundary_each_in_which_unsafe_is_what_converts_pointers() {
    let source = ffi_source();
    // gleed_decode_step calls gleed_prefill with one token.
    assert_eq!(without_boundary(&source), ["gleed_decode_step"]);
    for file in std::fs::read_dir(manifest("src")).unwrap().map(|entry| entry.unwrap().path()) {
        let blocks = unsafe_blocks(&std::fs::read_to_string(&file).unwrap());
        assert!(blocks.iter().all(|&lines| lines <= 7), "{}: {blocks:?} lines", file.display());
    }
    let lines = source.split("\npub unsafe extern \"C\" fn ").skip(1).map(|text| text.split("\n}\n").next().unwrap());
    let longest = lines.max_by_key(|text| text.lines().count()).unwrap();
    assert!(longest.lines().count() <= 45, "{longest}");
}

#[test]
fn the_scanner_of_unsafe_notices_what_is_wrong() {
    let source = "\npub unsafe extern \"C\" fn gleed_x(\n    error: *mut gleed_error,\n) -> i32 {\n    // SAFETY: x.\n    \
                  unsafe {\n        run(error, || {\n            // Why.\n            Ok(1)\n        })\n    }\n}\n";
    assert_eq!((without_boundary(source), unsafe_blocks(source)), (vec!["gleed_x"], vec![3]));
    let better = "\npub unsafe extern \"C\" fn gleed_x(error: *mut gleed_error) -> i32 {\n    boundary!(error, || {\n        \
                  let x = unsafe { f() };\n        Ok(1)\n    })\n}\n";
    assert_eq!((without_boundary(better), unsafe_blocks(better)), (vec![], vec![1]));
}

#[test]
fn the_comparison_notices_differences() {
    let rust = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn gleed_x(\n    bytes: *const u8,\n    len: usize,\n    \
                out: *mut *const gleed_model,\n) -> i32 {";
    let c = "int32_t gleed_x(const uint8_t *bytes,\n   size_t len, const gleed_model **out);";
    assert_eq!(exported(rust), declared(c));
    assert_ne!(exported(rust), declared(&c.replace("size_t", "uint32_t")));
    assert_ne!(exported(rust), declared(&c.replace("const uint8_t", "uint8_t")));
    assert_ne!(exported(rust), declared(&c.replace("gleed_x", "gleed_y")));
}

/// Returns lines of C that compile only if struct layouts and numbers are those of the Rust side.
fn assertions() -> String {
    let mut lines = vec!["#include \"gleed.h\"".to_owned()];
    let mut equal = |c: String, rust: i128| {
        let sign = if rust > i128::from(i64::MAX) { "u" } else { "" };
        lines.push(format!("_Static_assert({c} == {rust}{sign}, \"{c}\");"));
    };
    macro_rules! layout {
        ($($name:ident { $($field:ident),* $(,)? })*) => {
            $(equal(format!("sizeof({})", stringify!($name)), size_of::<$name>() as i128);
            equal(format!("_Alignof({})", stringify!($name)), align_of::<$name>() as i128);
            $(equal(
                format!("offsetof({}, {})", stringify!($name), stringify!($field)),
                offset_of!($name, $field) as i128,
            );)*)*
        };
    }
    layout! {
        gleed_error { struct_size, status, at, needed, given, text }
        gleed_config {
            struct_size, sequences, context, rows, kv_kind, kv_type, kv_blocks, logit_rows, window_sinks, window_last,
            prefix_cache, workers, level, adapters, adapter_rank, checkpoints, checkpoint_every,
        }
        gleed_model_info {
            struct_size, layers, vocab, context, hidden, ffn, heads, kv_heads, head_dim, reserved, fingerprint,
            file_bytes, architecture, name,
        }
        gleed_plan_info {
            struct_size, align, bytes, kv_bytes_per_token, kv_bytes, units_per_token, sections, sequences, context, rows,
            logit_rows, kv_blocks, workers, level, adapters, adapter_rank, checkpoints, checkpoint_every, state_bytes,
        }
        gleed_adapter_info { struct_size, rank }
        gleed_section { struct_size, reserved, offset, bytes, name }
        gleed_engine_info {
            struct_size, sequences, blocks, blocks_used, blocks_free, blocks_reclaimable, blocks_pinned,
            blocks_high_water, is_busy, results, kv_bytes, kv_bytes_used, kv_bytes_high_water, prefix_lookups,
            prefix_hits, prefix_hit_tokens, prefix_missed_tokens,
        }
        gleed_executor { struct_size, slots, parallel_for, ctx }
        gleed_block_info { struct_size, block, group, seq, is_cached, position, tokens }
        gleed_cache_policy { struct_size, reserved, close, evict, hand_out, ctx }
        gleed_seq_info {
            struct_size, tokens, queued, own_blocks, shared_blocks, is_busy, units_done, units_left, own_bytes,
            shared_bytes,
        }
        gleed_budget { struct_size, reserved, units, deadline, clock, clock_ctx, cancel }
        gleed_times { count, sum, min, max }
        gleed_passes { count, rows, times, p50, p99 }
        gleed_metrics {
            struct_size, reserved, prefill, decode, mixed, dropped, first_token, decode_tokens, rows_again, saved_prefix,
            saved_fork, saved_checkpoint, saved_conversation, guesses_proposed, guesses_accepted, steps, yields, overshoot,
            blocks_used, blocks_high_water, slots_used, slots_high_water,
        }
        gleed_snapshot_options { struct_size, base, state, state_len, checkpoints, reserved }
        gleed_snapshot_info { struct_size, tokens, base, state_len, bytes, fingerprint, state }
        gleed_sampler_params {
            struct_size, top_k, temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty,
            penalty_window, reserved, seed,
        }
        gleed_bias { token, bias }
        gleed_part { bytes, len }
        gleed_message { role, reserved, text, text_len }
        gleed_turns_info { struct_size, writes_bos, name }
        gleed_entry { role, reserved, text, text_len, name, name_len, id, id_len }
        gleed_desk_limits { struct_size, context, text, word, replies, entries }
        gleed_conversation_limits { struct_size, replies, tokens, reserved }
        gleed_script { struct_size, format, think, flags, tools, tools_len, tool_format, tool_format_len }
        gleed_keep { struct_size, room, first, last, target, reserved, summary, summary_ctx }
        gleed_update { struct_size, position, tokens, tokens_len, left_out, left_out_len }
        gleed_grammar_options {
            struct_size, kind, whitespace, flags, states, reserved, ignore, ignore_len, calls, choice, thoughts, call_flags, tool,
            tool_len, tokenizer
        }
        gleed_matcher_limits { struct_size, items, nodes, depth, past, reserved }
        gleed_writing_info { struct_size, seq, begin, end, is_end, reserved, bytes_to_end }
        gleed_string { text, text_len }
        gleed_shown { struct_size, stop, held, held_len, text_len }
        gleed_calls_part {
            struct_size, kind, wrong, reserved, at, len, name_at, name_len, id_at, id_len, arguments_at, arguments_len,
            json_len, wrong_at,
        }
        gleed_vocab_info { struct_size, tokens, bos, eos, eot, eom, unknown, max_text, adds_bos, adds_eos }
    }
    for &(name, number) in status::ALL {
        equal(format!("GLEED_{name}"), i128::from(number));
    }
    macro_rules! constants {
        ($($name:ident)*) => { $(equal(stringify!($name).to_owned(), i128::from(gleed_ffi::$name));)* };
    }
    constants! {
        GLEED_ABI_VERSION GLEED_KV_PAGED GLEED_KV_BASIC GLEED_KV_OFF GLEED_KV_F16 GLEED_KV_F32 GLEED_KV_Q8_0 GLEED_KV_Q4_0
        GLEED_LEVEL_BEST GLEED_LEVEL_SCALAR GLEED_LEVEL_AVX2 GLEED_LEVEL_AVXVNNI GLEED_LEVEL_AVX512 GLEED_LEVEL_NEON
        GLEED_LEVEL_DOTPROD GLEED_LEVEL_SIMD128 GLEED_LEVEL_I8MM GLEED_LEVEL_AMX GLEED_LOGITS_LAST GLEED_LOGITS_ALL GLEED_LOGITS_LAST_HIDDEN
        GLEED_LOGITS_HIDDEN GLEED_POOLING_MEAN GLEED_POOLING_LAST GLEED_POOLING_CLS GLEED_POOLING_RANK GLEED_POOLING_MODEL GLEED_ENCODE_ADD_SPECIAL GLEED_ENCODE_PARSE_SPECIAL GLEED_ENCODE_EXACT GLEED_ENCODE_CONTINUES GLEED_DECODE_RENDER_SPECIAL GLEED_DECODE_CONTINUES GLEED_NO_TOKEN
        GLEED_TOKEN_UNDEFINED GLEED_TOKEN_NORMAL GLEED_TOKEN_UNKNOWN GLEED_TOKEN_CONTROL GLEED_TOKEN_USER_DEFINED
        GLEED_TOKEN_UNUSED GLEED_TOKEN_BYTE GLEED_NO_TURNS GLEED_AFTER_NOTHING GLEED_ROLE_SYSTEM GLEED_ROLE_USER
        GLEED_ROLE_ASSISTANT GLEED_AFTER_REPLY GLEED_TURNS_ADD_BOS GLEED_TURNS_REPLY
        GLEED_ROLE_TOOL GLEED_THINK_DEFAULT GLEED_THINK_NO GLEED_THINK_YES GLEED_SCRIPT_NO_BOS GLEED_SCRIPT_KEEP_THOUGHTS
        GLEED_GRAMMAR_SCHEMA GLEED_GRAMMAR_GBNF GLEED_GRAMMAR_REGEX GLEED_WHITESPACE_BOUNDED GLEED_WHITESPACE_COMPACT
        GLEED_WHITESPACE_SPACED GLEED_WHITESPACE_ANY GLEED_GRAMMAR_CLOSED GLEED_GRAMMAR_ONE_OF_AS_ANY_OF
        GLEED_GRAMMAR_ALL_ESCAPES GLEED_GRAMMAR_CLOSE GLEED_MASK_ENDS GLEED_NO_STOP GLEED_NO_CALLS GLEED_THOUGHTS_THINK GLEED_THOUGHTS_CHANNEL
        GLEED_THOUGHTS_BRACKETS GLEED_THOUGHTS_SEED GLEED_THOUGHTS_OPEN GLEED_PART_NONE GLEED_PART_TEXT GLEED_PART_THOUGHT GLEED_PART_CALL
        GLEED_PART_WRONG GLEED_CALL_RIGHT GLEED_CALL_INCOMPLETE GLEED_CALL_INVALID GLEED_CALL_TOO_DEEP
        GLEED_CALL_POSITIONAL GLEED_CALL_UNKNOWN_TOOL GLEED_CALL_NO_OBJECT GLEED_CALL_MISSING
        GLEED_CALL_UNKNOWN_ARGUMENT GLEED_CALL_TYPE GLEED_CALL_VALUE GLEED_NO_END
        GLEED_RANK_NEVER
    }
    let types = gleed_ffi::GLEED_KV_TYPES(gleed_ffi::GLEED_KV_Q8_0, gleed_ffi::GLEED_KV_F16);
    equal("GLEED_KV_TYPES(GLEED_KV_Q8_0, GLEED_KV_F16)".to_owned(), i128::from(types));
    lines.join("\n") + "\n"
}

/// Compiles `source` with the system's C or C++ compiler and these flags. Returns the compiler's messages if it refuses
/// the source, and `None` if there is no such compiler.
fn compile(source: &str, file: &str, flags: &[&str]) -> Option<Result<(), String>> {
    let (variable, default) = if file.ends_with(".cpp") { ("CXX", "c++") } else { ("CC", "cc") };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&path, source).unwrap();
    let mut command = Command::new(&compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]).arg(manifest("../include"));
    let Ok(output) = command.args(flags).arg(&path).output() else {
        println!("skipped: no compiler {compiler}");
        return None;
    };
    Some(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) })
}

#[test]
fn the_header_compiles_as_c_and_cpp() {
    let source = "#include \"gleed.h\"\n#include \"gleed.h\"\nint main(void) { return (int)gleed_abi_version(); }\n";
    for (file, standard) in [("c99.c", "-std=c99"), ("c11.c", "-std=c11"), ("cpp17.cpp", "-std=c++17")] {
        compile(source, file, &[standard]).unwrap_or(Ok(())).unwrap();
    }
    // No code runs here, so the compiler has to check the alignment: it must be 64, and not more by chance.
    let source = "#include \"gleed.h\"\nGLEED_ALIGNED(64) static uint8_t memory[100];\n\
                  char is_aligned[__alignof__(memory) == 64 ? 1 : -1];\nint main(void) { return (int)memory[0]; }\n";
    for (file, standard) in [("a99.c", "-std=c99"), ("a11.c", "-std=c11"), ("a17.cpp", "-std=c++17")] {
        compile(source, file, &[standard]).unwrap_or(Ok(())).unwrap();
    }
    // The header for a library without grammars compiles, and hides their declarations.
    let without = "#define GLEED_NO_GRAMMAR\n#include \"gleed.h\"\nint x = (int)sizeof(gleed_sampler_params);\n";
    compile(without, "without.c", &["-std=c99"]).unwrap_or(Ok(())).unwrap();
    let hidden = format!("{without}int y = (int)sizeof(gleed_shown);\n");
    assert!(compile(&hidden, "hidden.c", &["-std=c99"]).is_none_or(|result| result.is_err()));
    let refused = compile("#include \"gleed.h\"\nint x = GLEED_E_NO_SUCH;\n", "wrong.c", &["-std=c99"]);
    assert!(refused.is_none_or(|result| result.is_err()));
}

#[test]
fn layouts_and_numbers_agree() {
    let assertions = assertions();
    compile(&assertions, "layout.c", &["-std=c11"]).unwrap_or(Ok(())).unwrap();
    let wrong = assertions.replace("offsetof(gleed_error, needed) == 16", "offsetof(gleed_error, needed) == 20");
    assert_ne!(wrong, assertions);
    assert!(compile(&wrong, "layout_wrong.c", &["-std=c11"]).is_none_or(|result| result.is_err()));
}

#[test]
fn the_header_names_every_status() {
    let header = header();
    let body = header.split_once("enum {").unwrap().1.split_once('}').unwrap().0;
    let mut named: Vec<(String, i32)> = Vec::new();
    for constant in body.split(',') {
        let (name, number) = constant.split_once('=').unwrap();
        named.push((name.trim().replacen("GLEED_", "", 1), number.trim().parse().unwrap()));
    }
    let defined: Vec<_> = status::ALL.iter().map(|&(name, number)| (name.to_owned(), number)).collect();
    assert_eq!(named, defined);
}
