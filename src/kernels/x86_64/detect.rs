//! Detection by CPUID and XCR0: which instructions the processor has, and which registers the operating system saves.

use core::arch::x86_64::{__cpuid_count, _xgetbv, CpuidResult};

/// Returns whether there are AVX2, FMA and F16C, and registers of 256 bits are saved.
pub(in crate::kernels) fn has_avx2() -> bool {
    const FMA: u32 = 1 << 12;
    const F16C: u32 = 1 << 29;
    const AVX2: u32 = 1 << 5;
    saved(0x6) && leaf_1() & (FMA | F16C) == FMA | F16C && leaf_7().0 & AVX2 != 0
}

/// Returns whether there is AVX-VNNI beside AVX2, FMA and F16C.
pub(in crate::kernels) fn has_avxvnni() -> bool {
    const AVX_VNNI: u32 = 1 << 4;
    // EAX of leaf 7 is the number of its last subleaf.
    has_avx2() && cpuid(7, 0).eax >= 1 && cpuid(7, 1).eax & AVX_VNNI != 0
}

/// Returns whether there are AVX-512 F, BW, VL and VNNI beside AVX2, FMA and F16C, and registers of 512 bits and masks
/// are saved.
pub(in crate::kernels) fn has_avx512() -> bool {
    const F: u32 = 1 << 16;
    const BW: u32 = 1 << 30;
    const VL: u32 = 1 << 31;
    const VNNI: u32 = 1 << 11;
    let (ebx, ecx) = leaf_7();
    has_avx2() && saved(0xe6) && ebx & (F | BW | VL) == F | BW | VL && ecx & VNNI != 0
}

/// Returns whether there is AMX with bytes beside AVX-512 F, BW, VL and VNNI, tiles are saved, and the process may use
/// them.
pub(in crate::kernels) fn has_amx() -> bool {
    has_tiles() && tiles_are_allowed()
}

/// Asks the system for the permission to use tiles, and returns whether this process has it.
pub(in crate::kernels) fn allow_amx() -> bool {
    const REQUEST: usize = 0x1023;
    if !has_tiles() {
        return false;
    }
    permission(REQUEST, TILE_DATA);
    tiles_are_allowed()
}

/// Number of the tile data among the components of a processor's state.
const TILE_DATA: usize = 18;

/// Returns whether the processor has tiles, and the system can save them.
fn has_tiles() -> bool {
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    has_avx512() && saved(0x6_0000) && cpuid(7, 0).edx & (TILE | INT8) == TILE | INT8
}

/// Returns whether this process may use tiles. Linux saves them for a process that has asked for it. It stops any other
/// process at its first instruction for tiles.
fn tiles_are_allowed() -> bool {
    const PERMITTED: usize = 0x1022;
    let mut parts = 0_u64;
    permission(PERMITTED, (&raw mut parts).expose_provenance()) == 0 && parts & (1 << TILE_DATA) != 0
}

/// Calls `arch_prctl` of Linux. Returns 0, or a negative number where it fails or the system has no such call.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn permission(operation: usize, argument: usize) -> isize {
    const ARCH_PRCTL: isize = 158;
    let mut result = ARCH_PRCTL;
    // SAFETY: both operations are about permissions for states of the processor: one takes the number of a state, the
    // other writes a u64 at the address that the caller gives. The kernel changes no other memory, and no registers but
    // these.
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

/// Returns whether AMD made the processor, or Hygon, which builds AMD's designs.
pub(in crate::kernels) fn is_amd() -> bool {
    let CpuidResult { ebx, ecx, edx, .. } = cpuid(0, 0);
    let name = [ebx, edx, ecx].map(u32::to_le_bytes);
    matches!(name.as_flattened(), b"AuthenticAMD" | b"HygonGenuine")
}

/// Returns whether the system saves the parts of the processor's state that the mask names.
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

/// Returns ECX of leaf 1.
fn leaf_1() -> u32 {
    cpuid(1, 0).ecx
}

/// Returns EBX and ECX of leaf 7, or zeros where the processor has no such leaf.
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
