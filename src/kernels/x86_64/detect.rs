//! CPUID and XCR0: what the processor has and the operating system saves.

use core::arch::x86_64::{__cpuid_count, _xgetbv, CpuidResult};

/// AVX2, FMA and F16C, with registers of 256 bits saved.
pub(in crate::kernels) fn has_avx2() -> bool {
    const FMA: u32 = 1 << 12;
    const F16C: u32 = 1 << 29;
    const AVX2: u32 = 1 << 5;
    saved(0x6) && leaf_1() & (FMA | F16C) == FMA | F16C && leaf_7().0 & AVX2 != 0
}

/// AVX-VNNI beside AVX2, FMA and F16C.
pub(in crate::kernels) fn has_avxvnni() -> bool {
    const AVX_VNNI: u32 = 1 << 4;
    // Leaf 7 names its last part in EAX.
    has_avx2() && cpuid(7, 0).eax >= 1 && cpuid(7, 1).eax & AVX_VNNI != 0
}

/// AVX-512 F, BW, VL and VNNI beside AVX2, FMA and F16C, with registers of 512 bits and masks saved.
pub(in crate::kernels) fn has_avx512() -> bool {
    const F: u32 = 1 << 16;
    const BW: u32 = 1 << 30;
    const VL: u32 = 1 << 31;
    const VNNI: u32 = 1 << 11;
    let (ebx, ecx) = leaf_7();
    has_avx2() && saved(0xe6) && ebx & (F | BW | VL) == F | BW | VL && ecx & VNNI != 0
}

/// AMX with bytes beside AVX-512 F, BW, VL and VNNI, with tiles saved, in a process that has the permission to use
/// them.
pub(in crate::kernels) fn has_amx() -> bool {
    has_tiles() && tiles_are_allowed()
}

/// Asks the system to let this process use tiles, and returns whether it may.
pub(in crate::kernels) fn allow_amx() -> bool {
    const REQUEST: usize = 0x1023;
    if !has_tiles() {
        return false;
    }
    permission(REQUEST, TILE_DATA);
    tiles_are_allowed()
}

/// The number of the tiles among the parts of a processor's state.
const TILE_DATA: usize = 18;

/// What the processor has and the system can save.
fn has_tiles() -> bool {
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    has_avx512() && saved(0x6_0000) && cpuid(7, 0).edx & (TILE | INT8) == TILE | INT8
}

/// Linux saves tiles for a process that has asked for it; any other process is stopped at the first instruction.
fn tiles_are_allowed() -> bool {
    const PERMITTED: usize = 0x1022;
    let mut parts = 0_u64;
    permission(PERMITTED, (&raw mut parts).expose_provenance()) == 0 && parts & (1 << TILE_DATA) != 0
}

/// Calls `arch_prctl` of Linux. Returns 0, or a negative number where there is no such thing.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn permission(operation: usize, argument: usize) -> isize {
    const ARCH_PRCTL: isize = 158;
    let mut result = ARCH_PRCTL;
    // SAFETY: both operations are about permissions for states of the processor: one takes the number of a state, the
    // other writes a u64, which the caller gives the address of. The kernel changes no other memory, and no registers
    // but these.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") operation,
            in("rsi") argument,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn permission(_: usize, _: usize) -> isize {
    -1
}

/// Whether the processor is one of AMD, or of Hygon, which builds AMD's.
pub(in crate::kernels) fn is_amd() -> bool {
    let CpuidResult { ebx, ecx, edx, .. } = cpuid(0, 0);
    let name = [ebx, edx, ecx].map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Whether the system saves these parts of the processor's state.
fn saved(mask: u64) -> bool {
    const OSXSAVE: u32 = 1 << 27;
    if leaf_1() & OSXSAVE == 0 {
        return false;
    }
    #[target_feature(enable = "xsave")]
    fn control_register() -> u64 {
        // SAFETY: register 0 exists on every processor that has the instruction.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: OSXSAVE says that the processor has the instruction and the system allows it.
    (unsafe { control_register() }) & mask == mask
}

/// ECX of leaf 1.
fn leaf_1() -> u32 {
    cpuid(1, 0).ecx
}

/// EBX and ECX of leaf 7, where there is one.
fn leaf_7() -> (u32, u32) {
    if cpuid(0, 0).eax < 7 {
        return (0, 0);
    }
    let leaf = cpuid(7, 0);
    (leaf.ebx, leaf.ecx)
}

#[allow(unused_unsafe)] // the function became safe after the oldest Rust that this builds with
fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { __cpuid_count(leaf, subleaf) }
}
