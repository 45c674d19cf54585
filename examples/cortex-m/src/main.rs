//! Tells a story with a model in flash and an arena in RAM, and prints the hash of all logits. It runs on a Cortex-M4F,
//! on a riscv32, and, to compare the hashes, on the machine that compiles it.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod board;
#[cfg(all(target_os = "none", target_arch = "arm"))]
#[path = "cortex_m.rs"]
mod machine;
#[cfg(all(target_os = "none", target_arch = "riscv32"))]
#[path = "riscv32.rs"]
mod machine;
mod story;

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    use std::io::Write;

    struct Terminal;

    impl story::Host for Terminal {
        fn print(&mut self, text: &str) {
            print!("{text}");
            // A closed terminal is no reason to stop.
            let _ = std::io::stdout().flush();
        }
    }

    let mut memory = Box::new(story::Memory::NEW);
    match story::tell(&mut Terminal, &mut memory) {
        Ok(_) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\n{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
