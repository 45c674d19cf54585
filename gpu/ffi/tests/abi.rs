//! `include/gleed_gpu.h` and the Rust side say the same: functions and their types, structs, numbers.

#[path = "../../../ffi/tests/header/mod.rs"]
mod header;

use std::collections::BTreeMap;
use std::mem::{align_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use gleed_gpu_ffi::{
    GLEED_GPU_ANY, GLEED_GPU_DX12, GLEED_GPU_METAL, GLEED_GPU_VULKAN, gleed_gpu_buffer, gleed_gpu_choice,
    gleed_gpu_info, gleed_gpu_plan_info, gleed_gpu_use, status,
};
use header::{declared, exported, without_comments};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text() -> String {
    without_comments(&std::fs::read_to_string(file("../../include/gleed_gpu.h")).unwrap())
}

#[test]
fn functions_are_declared_as_they_are_defined() {
    let declared: BTreeMap<_, _> = declared(&text())
        .into_iter()
        .map(|(name, declaration)| (name, declaration.replace("gleed_status ", "int32_t ")))
        .collect();
    let sources = std::fs::read_dir(file("src")).unwrap().map(|entry| entry.unwrap().path());
    let sources: String = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let exported = exported(&sources);
    assert_eq!(exported.len(), 13);
    assert_eq!(declared, exported);
}

#[test]
fn numbers_are_those_of_the_header() {
    let header = text();
    let defined = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define GLEED_{name} ")));
        let value = line.unwrap_or_else(|| panic!("GLEED_{name} is not defined")).trim();
        value.trim_matches(['(', ')', 'u']).parse::<i64>().unwrap()
    };
    for &(name, number) in status::GPU {
        assert_eq!(defined(name), i64::from(number), "{name}");
        assert!(status::ALL.iter().all(|&(_, other)| other != number), "{name}");
    }
    assert_eq!(header.matches("#define GLEED_E_").count(), status::GPU.len());
    let backends = [
        ("GPU_ANY", GLEED_GPU_ANY),
        ("GPU_VULKAN", GLEED_GPU_VULKAN),
        ("GPU_METAL", GLEED_GPU_METAL),
        ("GPU_DX12", GLEED_GPU_DX12),
    ];
    assert!(backends.iter().all(|&(name, number)| defined(name) == i64::from(number)));
}

/// The C compiler lays structs out as Rust does.
#[test]
fn structs_have_one_layout() {
    let mut program = String::from("#include \"gleed_gpu.h\"\n");
    let mut add = |name: &str, size: usize, align: usize| {
        program.push_str(&format!(
            "_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");\n"
        ));
    };
    macro_rules! all {
        ($($name:ident),*) => { $(add(stringify!($name), size_of::<$name>(), align_of::<$name>());)* };
    }
    all!(gleed_gpu_choice, gleed_gpu_info, gleed_gpu_plan_info, gleed_gpu_buffer, gleed_gpu_use);
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu_layout.c");
    std::fs::write(&source, program).unwrap();
    for (compiler, standard) in [("cc", "-std=c11"), ("c++", "-std=c++17")] {
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
        command.arg(file("../../include"));
        // C++ has other names for these checks: there the header alone is compiled.
        match compiler {
            "cc" => command.arg(&source),
            _ => command.args(["-x", "c++", "-Wno-pragma-once-outside-header"]).arg(file("../../include/gleed_gpu.h")),
        };
        let Ok(output) = command.output() else {
            println!("skipped: no compiler {compiler}");
            continue;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
