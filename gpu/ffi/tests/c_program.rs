//! A C program calls every function of `include/gleed_gpu.h`, and gets the bits of the CPU.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles the program with the static library. Returns `None` where there is no C compiler.
fn program(compiler: &str, standard: &str, name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let library = tests.with_file_name("libgleed_gpu_ffi.a");
    assert!(library.exists(), "{} is not there: `cargo test -p gleed-gpu-ffi` builds it", library.display());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| compiler.to_owned()));
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-I"]).arg(file("../../include"));
    command.arg(file("tests/c/gpu.c")).arg(&library).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let Ok(output) = command.output() else {
        println!("skipped: no compiler {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn c_gets_the_bits_of_the_cpu() {
    let Some(program) = program("cc", "-std=c99", "gpu") else { return };
    // The second model needs other kernels. The others have recurrent layers: a short convolution, the gated delta rule,
    // Mamba-2 beside attention.
    let models = [
        "examples/assets/gleed-tales-q8_0.gguf",
        "tests/data/more/mixtral.gguf",
        "tests/data/recurrent/lfm2.gguf",
        "tests/data/recurrent/qwen35.gguf",
        "tests/data/recurrent/falcon-h1.gguf",
    ];
    let output = Command::new(program).args(models.map(|model| file("../..").join(model))).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}{err}");
    if output.status.code() == Some(77) {
        assert!(std::env::var("GLEED_REQUIRE_GPU").as_deref() != Ok("1"), "{err}");
        println!("skipped: there is no GPU");
        return;
    }
    assert!(output.status.success() && out.ends_with("one hash\n"), "{}\n{err}", output.status);
}
