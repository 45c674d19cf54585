//! A Cortex-M4F: semihosting prints, SysTick counts.

use core::fmt::Write;
use core::panic::PanicInfo;
use core::ptr::{addr_of, addr_of_mut};

use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use cortex_m_semihosting::hio::{self, HostStream};

use crate::story::{Host, Line, Memory, tell};

static mut MEMORY: Memory = Memory::NEW;

#[entry]
fn main() -> ! {
    // SAFETY: there is one thread, and it comes here once.
    let memory = unsafe { &mut *addr_of_mut!(MEMORY) };
    let Ok(output) = hio::hstdout() else { exit(false) };
    let mut board = Board { output, clock: Clock::start(), tokens: 0, ticks: 0 };
    match tell(&mut board, memory) {
        Ok(figures) => {
            let code = flash() - figures.model;
            let (stack, per_token) = (stack_used(), instructions(board.ticks) / board.tokens.max(1));
            let _ = writeln!(
                Line(&mut board),
                "flash {} bytes ({code} of them not the model), arena {} bytes, stack {stack} bytes, {per_token} \
                 instructions per token",
                code + figures.model,
                figures.arena,
            );
            exit(true)
        }
        Err(error) => {
            let _ = writeln!(Line(&mut board), "\n{error}");
            exit(false)
        }
    }
}

struct Board {
    output: HostStream,
    clock: Clock,
    tokens: u64,
    ticks: u64,
}

impl Host for Board {
    fn print(&mut self, text: &str) {
        let _ = self.output.write_str(text);
    }

    fn decode<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = self.clock.now();
        let result = work();
        self.ticks += u64::from(self.clock.since(start));
        self.tokens += 1;
        result
    }
}

/// SysTick at the processor's 25 MHz. It counts 24 bits down: enough for 670 million instructions.
struct Clock;

impl Clock {
    const CONTROL: *mut u32 = 0xe000_e010 as *mut u32;
    const RELOAD: *mut u32 = 0xe000_e014 as *mut u32;
    const CURRENT: *mut u32 = 0xe000_e018 as *mut u32;
    const MAX: u32 = 0x00ff_ffff;

    fn start() -> Self {
        // SAFETY: the registers of SysTick, which nobody else uses: processor clock, no interrupt, enabled.
        unsafe {
            Self::RELOAD.write_volatile(Self::MAX);
            Self::CURRENT.write_volatile(0);
            Self::CONTROL.write_volatile(0b101);
        }
        Self
    }

    fn now(&self) -> u32 {
        // SAFETY: as above.
        unsafe { Self::CURRENT.read_volatile() }
    }

    fn since(&self, start: u32) -> u32 {
        start.wrapping_sub(self.now()) & Self::MAX
    }
}

/// With `-icount shift=0` the emulator's clock advances by a nanosecond per instruction, and SysTick every 40.
fn instructions(ticks: u64) -> u64 {
    ticks * 40
}

/// Bytes of the image: code, constants with the model, and what RAM starts with.
fn flash() -> usize {
    unsafe extern "C" {
        static __vector_table: u8;
        static __sidata: u8;
        static __sdata: u8;
        static __edata: u8;
    }
    addr_of!(__sidata) as usize - addr_of!(__vector_table) as usize + addr_of!(__edata) as usize
        - addr_of!(__sdata) as usize
}

/// Bytes of the stack that were ever written to: the rest has what cortex-m-rt painted it with.
fn stack_used() -> usize {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    let (start, end) = (addr_of!(_stack_start), addr_of!(_stack_end));
    let mut at = end;
    // SAFETY: words of RAM between the two ends of the stack.
    while at < start && unsafe { at.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        at = at.wrapping_add(1);
    }
    start as usize - at as usize
}

fn exit(success: bool) -> ! {
    debug::exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    loop {
        core::hint::spin_loop();
    }
}

#[exception]
unsafe fn HardFault(_: &ExceptionFrame) -> ! {
    exit(false)
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(false)
}
