//! The code that all boards share. `machine` prints, counts and ends the program, and calls `run` after a reset.

use core::fmt::Write;
use core::panic::PanicInfo;
use core::ptr::{addr_of, addr_of_mut};

use crate::machine::{self, Machine};
use crate::story::{Host, Line, Memory, tell};

static mut MEMORY: Memory = Memory::NEW;

/// Tells the story, and prints the memory and the instructions that it took. It must be called only once.
pub fn run(machine: Machine) -> ! {
    // SAFETY: there is one thread, and it comes here once.
    let memory = unsafe { &mut *addr_of_mut!(MEMORY) };
    let mut board = Board { machine, tokens: 0, instructions: 0 };
    match tell(&mut board, memory) {
        Ok(figures) => {
            let flash = machine::flash();
            let code = flash - figures.model;
            let (stack, per_token) = (stack_used(), board.instructions / board.tokens.max(1));
            let _ = writeln!(
                Line(&mut board),
                "flash {flash} bytes ({code} of them not the model), arena {} bytes, stack {stack} bytes, {per_token} \
                 instructions per token",
                figures.arena,
            );
            machine::exit(true)
        }
        Err(error) => {
            let _ = writeln!(Line(&mut board), "\n{error}");
            machine::exit(false)
        }
    }
}

struct Board {
    machine: Machine,
    tokens: u64,
    instructions: u64,
}

impl Host for Board {
    fn print(&mut self, text: &str) {
        self.machine.print(text);
    }

    fn decode<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = self.machine.clock();
        let result = work();
        self.instructions += self.machine.instructions_since(start);
        self.tokens += 1;
        result
    }
}

/// Returns the number of bytes of the stack that were ever written to. The rest still has the paint from before `run`.
fn stack_used() -> usize {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    let (start, end) = (addr_of!(_stack_start), addr_of!(_stack_end));
    let mut at = end;
    // SAFETY: words of RAM between the two ends of the stack.
    while at < start && unsafe { at.read_volatile() } == machine::STACK_PAINT {
        at = at.wrapping_add(1);
    }
    start as usize - at as usize
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    machine::exit(false)
}
