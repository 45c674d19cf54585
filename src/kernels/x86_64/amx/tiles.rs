//! The tiles of AMX: eight registers of up to 16 rows of 64 bytes. The compiler does not manage tiles, so the callers
//! of these functions choose them by number.

use core::arch::asm;

/// The shapes of all tiles, as the processor reads them.
#[derive(Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Returns shapes for tiles 0 to 7. Each is the number of rows, at most 16, and the bytes of a row, at most 64.
    pub(super) fn new(shapes: [(u8, u16); 8]) -> Self {
        let (mut rows, mut row_bytes) = ([0; 16], [0; 16]);
        for ((rows, row_bytes), shape) in rows.iter_mut().zip(&mut row_bytes).zip(shapes) {
            (*rows, *row_bytes) = shape;
        }
        Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }

    /// Returns the shapes that the tiles have on this thread.
    ///
    /// # Safety
    /// The processor has AMX and the process may use it.
    #[inline]
    pub(super) unsafe fn current() -> Self {
        let mut shapes = Self { palette: 0, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        // SAFETY: the caller promises the instruction; it writes the 64 bytes of `shapes`.
        unsafe { asm!("sttilecfg [{}]", in(reg) &raw mut shapes, options(nostack, preserves_flags)) };
        shapes
    }

    /// Gives the tiles the shapes that they had before. A function may leave other shapes to its caller, but llama.cpp,
    /// in the same process, sets its shapes once on each thread.
    ///
    /// # Safety
    /// `self` comes from [`Shapes::current`].
    #[inline]
    pub(super) unsafe fn restore(&self) {
        if self.palette != 0 {
            // SAFETY: the processor had these shapes, so it has the instruction, and they are valid.
            return unsafe { self.set() };
        }
        // SAFETY: `self` comes from `Shapes::current`, which needs AMX, too.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nomem, nostack, preserves_flags),
            );
        }
    }

    /// Gives the tiles these shapes, and sets all of their bytes to zero.
    ///
    /// # Safety
    /// The processor has AMX and the process may use it. Every tile has 1 to 16 rows of 4 to 64 bytes.
    #[inline]
    pub(super) unsafe fn set(&self) {
        // SAFETY: the caller promises the instruction and valid shapes; it reads the 64 bytes of `self`.
        unsafe {
            asm!(
                "ldtilecfg [{shapes}]",
                shapes = in(reg) self,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}

/// Loads tile `T` from rows in memory, which lie `stride` bytes apart.
///
/// # Safety
/// Tiles have shapes ([`Shapes::set`]), and the rows of the tile are readable.
#[inline(always)]
pub(super) unsafe fn load<const T: usize, E>(from: *const E, stride: usize) {
    // SAFETY: the caller promises the shapes, and so the instruction, and what is read. The compiler uses no tile.
    unsafe {
        asm!(
            "tileloadd tmm{t}, [{from} + {stride}*1]",
            t = const T,
            from = in(reg) from,
            stride = in(reg) stride,
            options(nostack, preserves_flags, readonly),
        );
    }
}

/// Stores tile `T` to successive rows of 64 bytes.
///
/// # Safety
/// Tiles have shapes ([`Shapes::set`]), and the rows of tile `T` have 64 bytes.
#[inline(always)]
pub(super) unsafe fn store<const T: usize>(to: *mut Sums) {
    // SAFETY: the caller promises the shapes, and so the instruction. `Sums` has room for 16 rows, the most there are.
    unsafe {
        asm!(
            "tilestored [{to} + {stride}*1], tmm{t}",
            t = const T,
            to = in(reg) to,
            stride = in(reg) 64_usize,
            options(nostack, preserves_flags),
        );
    }
}

/// Sets tile `T` to zero.
///
/// # Safety
/// Tiles have shapes ([`Shapes::set`]).
#[inline(always)]
pub(super) unsafe fn zero<const T: usize>() {
    // SAFETY: the caller promises the shapes, and so the instruction. The compiler uses no tile.
    unsafe { asm!("tilezero tmm{t}", t = const T, options(nomem, nostack, preserves_flags)) }
}

/// Adds the product of tile `A`, signed bytes, and tile `B`, signed bytes, to tile `C`, i32. A row of `B` has four
/// successive codes of each column.
///
/// # Safety
/// Tiles have shapes ([`Shapes::set`]): the rows of `A` have 4 n bytes, `B` has n rows, and `C` has as many rows as
/// `A`, with as many bytes as the rows of `B`.
#[inline(always)]
pub(super) unsafe fn dot_signed<const C: usize, const A: usize, const B: usize>() {
    // SAFETY: the caller promises the shapes, and so the instruction. The compiler uses no tile.
    unsafe {
        asm!(
            "tdpbssd tmm{c}, tmm{a}, tmm{b}",
            c = const C, a = const A, b = const B,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// As [`dot_signed`], with unsigned bytes in tile `B`.
///
/// # Safety
/// As for [`dot_signed`].
#[inline(always)]
pub(super) unsafe fn dot_unsigned<const C: usize, const A: usize, const B: usize>() {
    // SAFETY: the caller promises the shapes, and so the instruction. The compiler uses no tile.
    unsafe {
        asm!(
            "tdpbsud tmm{c}, tmm{a}, tmm{b}",
            c = const C, a = const A, b = const B,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Integer sums of a tile: 16 rows of activations, with 16 rows of weights each.
#[repr(C, align(64))]
pub(super) struct Sums(pub(super) [[i32; 16]; 16]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Level;

    #[test]
    fn shapes_of_others_come_back() {
        if !Level::allow_amx() {
            return;
        }
        let [others, ours] = [7, 16].map(|rows| Shapes::new([(rows, 64); 8]));
        // SAFETY: the machine has AMX and allows it; all rows are 1 to 16 and all bytes 4 to 64.
        unsafe {
            let none = Shapes::current();
            others.set();
            let before = Shapes::current();
            ours.set();
            before.restore();
            assert_eq!(Shapes::current(), others);
            none.restore();
            assert_eq!(Shapes::current(), none);
        }
    }
}
