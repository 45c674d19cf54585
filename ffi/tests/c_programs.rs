//! C and C++ programs that are linked with the library: the mistakes suite, wrong arguments for every function, and a
//! program that was compiled with the first header.

mod common;
mod talk;

use std::fmt::Write;

use common::variants::with_predictor;
use common::{flags, library, manifest, model_file, program, run, temporary};

#[test]
fn every_mistake_is_answered() {
    let source = manifest("../tests/mistakes/mistakes.c");
    let Some(program) = program(&source, "mistakes", &flags("-std=c99")) else { return };
    assert_eq!(run(&program, &[model_file().as_os_str()]), "every mistake was answered\n");
}

#[test]
fn a_count_is_refused_before_anything_is_read() {
    let source = manifest("../tests/mistakes/counts.c");
    let Some(program) = program(&source, "counts", &flags("-std=c99")) else { return };
    let text = run(&program, &[model_file().as_os_str()]);
    assert_eq!(text, "every count was refused before anything was read\n");
}

#[test]
fn objects_are_refused_at_another_place_and_from_inside_of_their_calls() {
    let source = manifest("../tests/mistakes/objects.c");
    let Some(program) = program(&source, "objects", &flags("-std=c99")) else { return };
    assert_eq!(run(&program, &[model_file().as_os_str()]), "every object was where and when it was used\n");
}

#[test]
fn a_layer_guesses_from_c_and_checkpoints_are_saved() {
    let Some(program) = program(&manifest("../tests/mistakes/predict.c"), "predict", &flags("-std=c99")) else {
        return;
    };
    let file = temporary("predict.gguf");
    std::fs::write(&file, with_predictor().finish()).unwrap();
    assert_eq!(run(&program, &[file.as_os_str()]), "every text was the model's own\n");
}

#[test]
fn texts_follow_a_grammar_from_c() {
    let source = manifest("../tests/mistakes/structured.c");
    let Some(program) = program(&source, "structured", &flags("-std=c99")) else { return };
    let text = run(&program, &[model_file().as_os_str()]);
    let (answers, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(last, "every text followed its grammar");
    assert!(answers.lines().count() == 4, "{answers}");
    for answer in answers.lines() {
        assert!(answer.starts_with("{\"mood\":\"") && answer.ends_with('}'), "{answer}");
    }
}

#[test]
fn conversations_from_c_have_the_tokens_of_the_rust_api() {
    let source = manifest("../tests/mistakes/conversation.c");
    let Some(program) = program(&source, "conversation", &flags("-std=c99")) else { return };
    let text = run(&program, &[model_file().as_os_str()]);
    let lines = talk::lines(&std::fs::read(model_file()).unwrap());
    assert_eq!(text, lines + "every mistake was answered\n");
}

#[test]
fn everything_works_from_c() {
    let Some(program) = program(&manifest("tests/c/features.c"), "features", &flags("-std=c11")) else { return };
    assert_eq!(run(&program, &[model_file().as_os_str()]), "all of it works\n");
}

#[test]
fn a_program_with_the_first_header_still_runs() {
    let source = manifest("tests/old/first.c");
    let mut flags = flags("-std=c99");
    let old = format!("-I{}", manifest("tests/old").display());
    flags.push(&old);
    let Some(program) = program(&source, "first", &flags) else { return };
    assert_eq!(run(&program, &[model_file().as_os_str()]), "952 384 281 261 378 428 509 387\n");
}

#[test]
fn calls_take_as_much_stack_as_the_header_promises_at_most() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let Some(program) = program(&manifest("tests/c/stack.c"), "stack", &["-std=c11", "-O1"]) else { return };
    print!("{}", run(&program, &[model_file().as_os_str()]));
}

#[test]
fn the_cpp_wrapper_needs_neither_exceptions_nor_run_time_types() {
    let mut flags = flags("-std=c++17");
    flags.extend(["-fno-exceptions", "-fno-rtti"]);
    let Some(program) = program(&manifest("tests/c/wrapper.cpp"), "wrapper", &flags) else { return };
    let text = run(&program, &[model_file().as_os_str()]);
    assert_eq!(text, ", there was a little girl named Lily. She loved to\n");
}

/// One function of the header: its name, and the types and names of its parameters.
struct Function {
    name: String,
    parameters: Vec<(String, String)>,
}

/// The declarations of the header.
struct Header {
    functions: Vec<Function>,
    /// Opaque types, of which C knows only the name.
    objects: Vec<String>,
    /// Structs that begin with `struct_size`, without `gleed_error`, which functions check before all others.
    structs: Vec<String>,
}

fn header() -> Header {
    let header = std::fs::read_to_string(manifest("../include/gleed.h")).unwrap();
    let mut code = String::new();
    for (index, part) in header.split("/*").enumerate() {
        code.push_str(if index == 0 { part } else { part.split_once("*/").unwrap().1 });
    }
    let types = || code.split("typedef struct ").skip(1);
    let objects = types().filter_map(|rest| rest.split_once(';')?.0.split_once(' '));
    let objects = objects.filter(|(name, again)| name == again).map(|(name, _)| name.to_owned()).collect();
    let structs = types().filter_map(|rest| rest.split_once('{'));
    let structs = structs.filter(|(_, fields)| fields.trim_start().starts_with("uint32_t struct_size;"));
    let structs = structs.map(|(name, _)| name.trim().to_owned()).filter(|name| name != "gleed_error").collect();
    Header { functions: functions(&code), objects, structs }
}

/// Returns the functions that return a status, from C text without comments.
fn functions(code: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for part in code.split("\ngleed_status gleed_").skip(1) {
        let (name, rest) = part.split_once('(').unwrap();
        let parameters = rest.split_once(')').unwrap().0.split(',').map(|parameter| {
            let parameter = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
            let start = parameter.rfind([' ', '*']).unwrap() + 1;
            (parameter[..start].trim().to_owned(), parameter[start..].to_owned())
        });
        functions.push(Function { name: format!("gleed_{name}"), parameters: parameters.collect() });
    }
    functions
}

/// Returns the right argument for a parameter in the generated program: a constant, or a variable of `arguments.c`.
fn right(function: &str, kind: &str, name: &str) -> String {
    match (function, kind, name) {
        ("gleed_adapter_open", _, "bytes") => "adapter_file".to_owned(),
        ("gleed_adapter_open", _, "len") => "adapter_len".to_owned(),
        (_, "float", _) => "1.0f".to_owned(),
        ("gleed_model_open", _, "bytes") => "file".to_owned(),
        ("gleed_model_open", _, "len") => "file_len".to_owned(),
        // An engine cannot be two arguments of a call.
        (_, "gleed_engine *", "layer") => "some_gleed_layer".to_owned(),
        ("gleed_selftest", _, "level") => "GLEED_LEVEL_SCALAR".to_owned(),
        ("gleed_token_kind" | "gleed_detokenize" | "gleed_sampler_accept", "uint32_t", _) => "5".to_owned(),
        ("gleed_grammar_plan" | "gleed_grammar_init" | "gleed_grammar_build_init", _, "text") => "\"{}\"".to_owned(),
        ("gleed_grammar_plan" | "gleed_grammar_init" | "gleed_grammar_build_init", _, "text_len") => "2".to_owned(),
        ("gleed_calls_init", _, "tools") => "\"[]\"".to_owned(),
        ("gleed_calls_init", _, "tools_len") => "2".to_owned(),
        (_, "uint32_t", "most") => "1".to_owned(),
        (_, "uint32_t *", "scratch") => "large".to_owned(),
        (
            "gleed_grammar_plan"
            | "gleed_grammar_init"
            | "gleed_grammar_build_init"
            | "gleed_trie_plan"
            | "gleed_trie_init"
            | "gleed_trie_build_init",
            _,
            "scratch_len",
        ) => "sizeof large / sizeof *large".to_owned(),
        (_, "uint32_t *", "tokens") => "ids".to_owned(),
        (_, "char *", "text") => "out_text".to_owned(),
        (_, _, "error") => "&error".to_owned(),
        (_, "size_t", "index" | "keep") => "0".to_owned(),
        // No call comes as far as using the memory.
        (_, "size_t", "memory_len") => "(size_t)1 << 40".to_owned(),
        (_, "float *", "values") => "outputs.keys + 4".to_owned(),
        (_, "size_t", _) => "1".to_owned(),
        (_, "uint32_t" | "uint64_t", _) => "0".to_owned(),
        (_, "const float *", _) => "in_logits".to_owned(),
        _ => format!("a_{}", kind.replace("const ", "const_").replace(" *", "_p").replace('*', "p").replace(' ', "_")),
    }
}

/// Parameters that may be NULL.
const OPTIONAL: &[(&str, &str)] = &[
    ("", "error"),
    ("", "config"),
    ("", "options"),
    ("", "base"),
    ("", "ctx"),
    ("", "consent"),
    ("", "limits"),
    ("gleed_sampler_init", "params"),
    ("gleed_step", "budget"),
    ("gleed_guesses_queue_layer", "budget"),
    ("gleed_set_executor", "executor"),
    ("gleed_set_cache_policy", "policy"),
    ("gleed_sample", "probability"),
    ("gleed_sample_masked", "probability"),
    ("gleed_snapshot_read", "info"),
    ("gleed_conversation_update", "keep"),
];

/// Returns calls of a function with one wrong argument each, and the status that each call must return.
fn wrong_calls(header: &Header, function: &Function) -> Vec<(&'static str, String)> {
    let mut calls = Vec::new();
    let arguments: Vec<String> =
        function.parameters.iter().map(|(kind, name)| right(&function.name, kind, name)).collect();
    for (index, (kind, name)) in function.parameters.iter().enumerate() {
        let mut call = |status, argument: String| {
            let mut arguments = arguments.clone();
            arguments[index] = argument;
            calls.push((status, format!("{}({})", function.name, arguments.join(", "))));
        };
        let base = kind.trim_start_matches("const ").trim_end_matches([' ', '*']).to_owned();
        let pointers = kind.matches('*').count();
        let is_callback = ["gleed_sink", "gleed_source"].contains(&kind.as_str());
        let optional = OPTIONAL.iter().any(|&(of, what)| what == name && (of.is_empty() || of == function.name));
        if (pointers > 0 || is_callback) && !optional {
            call("GLEED_E_NULL", "NULL".to_owned());
        }
        if name == "memory" {
            call("GLEED_E_MEMORY_MISALIGNED", format!("(char *){} + 1", arguments[index]));
        } else if pointers > 0 && !["char", "uint8_t", "void"].contains(&base.as_str()) {
            call("GLEED_E_ALIGNMENT", format!("({kind})(const void *)((const char *)({}) + 1)", arguments[index]));
        } else if pointers > 1 {
            call("GLEED_E_ALIGNMENT", format!("({kind})(void *)((char *)({}) + 1)", arguments[index]));
        }
        if header.objects.contains(&base) && pointers == 1 {
            call("GLEED_E_OBJECT", format!("({kind})(const void *)zeros"));
            call("GLEED_E_OBJECT", format!("({kind})moved_{base}"));
            for other in header.objects.iter().filter(|&other| *other != base) {
                call("GLEED_E_OBJECT", format!("({kind})(const void *)some_{other}"));
            }
        }
        if header.structs.contains(&base) {
            for size in ["0", "4", &format!("(uint32_t)sizeof({base}) - 1"), "1025", "UINT32_MAX"] {
                call("GLEED_E_STRUCT_SIZE", format!("({kind})sized({size})"));
            }
            if kind.starts_with("const") {
                call("GLEED_E_STRUCT_SIZE", format!("({kind})longer((uint32_t)sizeof({base}))"));
            }
        }
        if name == "error" {
            call("GLEED_E_STRUCT_SIZE", "(gleed_error *)sized(127)".to_owned());
        }
        let follows_pointer = index > 0 && function.parameters[index - 1].0.ends_with('*');
        // These numbers are no lengths.
        let is_number = ["index", "keep"].contains(&name.as_str()) || function.name == "gleed_matcher_rewind";
        if kind == "size_t" && follows_pointer && !is_number {
            call("GLEED_E_LENGTH", "SIZE_MAX".to_owned());
        }
    }
    calls
}

/// A wrong argument of a call.
struct Wrong {
    /// Number of the group in which functions check it, less 1: see "Order" in the header.
    order: usize,
    /// Index of the parameter.
    index: usize,
    /// The status that a call with only this wrong argument returns.
    status: &'static str,
    argument: String,
}

/// Returns wrong arguments of a function, at most two for each parameter: one that is found by the first check of the
/// parameter, NULL for example, and one that is found by the last check.
fn wrong_arguments(header: &Header, function: &Function) -> Vec<Wrong> {
    let mut wrongs = Vec::new();
    for (index, (kind, name)) in function.parameters.iter().enumerate() {
        let base = kind.trim_start_matches("const ").trim_end_matches([' ', '*']).to_owned();
        let pointers = kind.matches('*').count();
        let is_callback = ["gleed_sink", "gleed_source"].contains(&kind.as_str());
        let optional = OPTIONAL.iter().any(|&(of, what)| what == name && (of.is_empty() || of == function.name));
        let order = match () {
            () if name == "error" => 0,
            () if header.objects.contains(&base) && pointers == 1 => 1,
            () if name == "memory" => 5,
            () if header.structs.contains(&base) => 3,
            () if pointers > 0 || is_callback => 2,
            () if kind == "gleed_seq" => 6,
            () if ["flags", "pooling", "logits", "format", "after", "level"].contains(&name.as_str()) => 4,
            () => continue,
        };
        let mut wrong = |status, argument: String| wrongs.push(Wrong { order, index, status, argument });
        if [2, 5].contains(&order) && !optional {
            wrong("GLEED_E_NULL", "NULL".to_owned());
        }
        match order {
            0 => wrong("GLEED_E_STRUCT_SIZE", "(gleed_error *)sized_again(127)".to_owned()),
            1 => wrong("GLEED_E_OBJECT", format!("({kind})(const void *)zeros")),
            3 => wrong("GLEED_E_STRUCT_SIZE", format!("({kind})sized(4)")),
            4 => wrong("GLEED_E_VALUE", "77".to_owned()),
            6 => wrong("GLEED_E_SEQUENCE", "0".to_owned()),
            _ => {}
        }
    }
    wrongs.sort_by_key(|wrong| (wrong.order, wrong.index));
    wrongs
}

/// Returns calls of a function with two wrong arguments each, and the status that each call must return. The header
/// says in which order arguments are checked.
fn doubly_wrong_calls(header: &Header, function: &Function) -> Vec<(&'static str, String)> {
    let (mut calls, wrongs) = (Vec::new(), wrong_arguments(header, function));
    for (place, first) in wrongs.iter().enumerate() {
        for second in wrongs.iter().skip(place + 1).filter(|second| second.index != first.index) {
            let mut arguments: Vec<String> =
                function.parameters.iter().map(|(kind, name)| right(&function.name, kind, name)).collect();
            arguments[first.index].clone_from(&first.argument);
            arguments[second.index].clone_from(&second.argument);
            calls.push((first.status, format!("{}({})", function.name, arguments.join(", "))));
        }
    }
    calls
}

#[test]
fn wrong_arguments_are_refused_by_every_function() {
    let header = header();
    assert!(header.functions.len() > 70 && header.objects.len() >= 6 && header.structs.len() >= 14);
    let mut calls = String::new();
    let mut count = 0;
    for (status, call) in header.functions.iter().flat_map(|function| wrong_calls(&header, function)) {
        writeln!(calls, "    REFUSED({status}, {call});").unwrap();
        count += 1;
    }
    assert!(count > 800, "{count}");
    let mut doubly = 0;
    for (status, call) in header.functions.iter().flat_map(|function| doubly_wrong_calls(&header, function)) {
        writeln!(calls, "    REFUSED({status}, {call});").unwrap();
        doubly += 1;
    }
    assert!(doubly > 500, "{doubly}");
    let source = temporary("arguments.c");
    let text = std::fs::read_to_string(manifest("tests/c/arguments.c")).unwrap();
    let (before, after) = text.split_once("/* CALLS */").unwrap();
    std::fs::write(&source, format!("{before}{calls}{after}")).unwrap();
    let mut flags = flags("-std=c11");
    // The calls pass misaligned pointers on purpose.
    flags.extend(["-Wno-cast-align", "-Wno-stringop-overflow", "-Wno-stringop-overread", "-fno-sanitize=alignment"]);
    let Some(program) = program(&source, "arguments", &flags) else { return };
    assert_eq!(run(&program, &[model_file().as_os_str()]), "refused, and nothing has changed\n");
}

/// Returns the names of the functions that `include/gleed.h` declares, sorted.
fn declared() -> Vec<String> {
    let mut names: Vec<String> = header().functions.into_iter().map(|function| function.name).collect();
    names.extend(
        ["version", "abi_version", "arithmetic_version", "status_text", "allow_amx"]
            .map(|name| format!("gleed_{name}")),
    );
    names.sort();
    names
}

#[test]
fn no_function_is_ever_removed() {
    let (listed, declared) = (std::fs::read_to_string(manifest("symbols.txt")).unwrap(), declared());
    let gone: Vec<&str> = listed.lines().filter(|name| !declared.iter().any(|other| other == name)).collect();
    assert!(gone.is_empty() && listed.lines().count() >= 112, "programs rely on {gone:?}");
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let library = library("libgleed_hosted.so");
    let Ok(output) = std::process::Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        println!("skipped: no nm");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    exported.sort_unstable();
    assert_eq!(exported, declared());
}
