//! A Cortex-M4F, the emulator's mps2-an386: semihosting prints, SysTick counts.

use core::fmt::Write;
use core::ptr::addr_of;

use cortex_m_rt::{ExceptionFrame, entry, exception};
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use cortex_m_semihosting::hio::{self, HostStream};

/// The word with which cortex-m-rt has painted the stack.
pub const STACK_PAINT: u32 = cortex_m_rt::STACK_PAINT_VALUE;

#[entry]
fn main() -> ! {
    let Ok(output) = hio::hstdout() else { exit(false) };
    crate::board::run(Machine { output, clock: Clock::start() })
}

pub struct Machine {
    output: HostStream,
    clock: Clock,
}

impl Machine {
    pub fn print(&mut self, text: &str) {
        let _ = self.output.write_str(text);
    }

    pub fn clock(&self) -> u32 {
        self.clock.now()
    }

    /// With `-icount shift=0` the emulator's clock advances by a nanosecond per instruction, and SysTick every 40.
    pub fn instructions_since(&self, start: u32) -> u64 {
        u64::from(self.clock.since(start)) * 40
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
        // SAFETY: the counter of SysTick, a register that every Cortex-M4 has. Reading it changes nothing that matters
        // here.
        unsafe { Self::CURRENT.read_volatile() }
    }

    fn since(&self, start: u32) -> u32 {
        start.wrapping_sub(self.now()) & Self::MAX
    }
}

/// Returns the bytes of the image: code, constants with the model, and the initial values of RAM.
pub fn flash() -> usize {
    unsafe extern "C" {
        static __vector_table: u8;
        static __sidata: u8;
        static __sdata: u8;
        static __edata: u8;
    }
    addr_of!(__sidata) as usize - addr_of!(__vector_table) as usize + addr_of!(__edata) as usize
        - addr_of!(__sdata) as usize
}

pub fn exit(success: bool) -> ! {
    debug::exit(if success { EXIT_SUCCESS } else { EXIT_FAILURE });
    loop {
        core::hint::spin_loop();
    }
}

#[exception]
unsafe fn HardFault(_: &ExceptionFrame) -> ! {
    exit(false)
}
