//! The kernels as C++, compiled by a compiler that may fuse, reorder and simplify floats as it likes (`-Ofast -mfma`),
//! and flushes subnormal numbers: the barrier holds, and all bits are those of the scalar code.

#[path = "adversary/translate.rs"]
mod translate;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use gleed_gpu::selftest::{Answer, Data, Machine, kernel_on};
use gleed_gpu::{GpuError, Kernel};
use translate::translate;

/// Returns the compiler, with all liberties. Prints a message and returns `None` where there is no compiler, or where
/// the processor has no fused multiply-add.
fn compiler() -> Option<Command> {
    let name = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if Command::new(&name).arg("--version").output().is_err() {
        println!("skipped: no compiler {name}");
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-std=c++20", "-Ofast", "-ffp-contract=fast", "-w"]);
    #[cfg(target_arch = "x86_64")]
    {
        if !std::is_x86_feature_detected!("fma") {
            println!("skipped: the processor has no fused multiply-add");
            return None;
        }
        command.arg("-mfma");
    }
    Some(command)
}

/// A kernel that runs in a process of its own.
struct Program(Mutex<Child>);

impl Program {
    fn new(name: &str, wgsl: &str) -> Option<Self> {
        let mut command = compiler()?;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adversary");
        std::fs::create_dir_all(&folder).unwrap();
        let name: String = name.chars().filter(|c| c.is_alphanumeric() || *c == '_').collect();
        let (source, program): (PathBuf, _) = (folder.join(format!("{name}.cpp")), folder.join(&name));
        std::fs::write(&source, translate(wgsl)).unwrap();
        command
            .arg("-I")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adversary"))
            .arg(&source)
            .arg("-o")
            .arg(&program);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        Some(Self(Mutex::new(child)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let child = self.0.get_mut().unwrap();
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

impl Machine for Program {
    fn run<'a>(&'a self, _: Kernel, buffers: &'a [Data], grid: [u32; 3]) -> Answer<'a> {
        Box::pin(std::future::ready(Ok(self.answer(buffers, grid))))
    }
}

impl Program {
    fn answer(&self, buffers: &[Data], grid: [u32; 3]) -> Vec<Vec<u32>> {
        let mut request: Vec<u32> = grid.into_iter().chain([buffers.len() as u32]).collect();
        for data in buffers {
            request.push(data.words.len() as u32);
            request.extend(&data.words);
        }
        let mut child = self.0.lock().unwrap();
        let input = child.stdin.as_mut().unwrap();
        input.write_all(bytemuck::cast_slice(&request)).and_then(|()| input.flush()).unwrap();
        let output = child.stdout.as_mut().unwrap();
        let mut back = Vec::new();
        for data in buffers {
            let mut words = vec![0_u32; data.words.len() + 1];
            output.read_exact(bytemuck::cast_slice_mut(&mut words)).unwrap();
            assert_eq!(words.remove(0) as usize, data.words.len());
            if data.is_back {
                back.push(words);
            }
        }
        back
    }
}

#[test]
fn kernels_survive_a_compiler_that_takes_every_liberty() {
    if compiler().is_none() {
        return;
    }
    let (waiting, wrong) = (Mutex::new(Kernel::all()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(kernel) = next() {
                    let program = Program::new(&format!("{kernel:?}"), &kernel.source().unwrap()).unwrap();
                    for seed in [0, 1, 2] {
                        if let Err(error) = kernel_on(&program, kernel, seed) {
                            wrong.lock().unwrap().push(format!("{kernel:?} {seed}: {error}"));
                        }
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Without the barrier the same compiler changes results.
#[test]
fn without_the_barrier_results_change() {
    let kernel = Kernel::Attend;
    let source = kernel.source().unwrap();
    let (from, to) = ("return bitcast<f32>(bitcast<u32>(x) ^ ZERO);", "return x;");
    assert!(source.contains(from));
    let Some(program) = Program::new("attend_without", &source.replace(from, to).replace("^ ZERO", "")) else {
        return;
    };
    let found = kernel_on(&program, kernel, 0);
    assert!(matches!(found, Err(GpuError::Unfit { .. })), "{found:?}");
}
