//! Conversion of the caller's pointers into references: the one place where NULL, alignment and lengths are checked.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::slice;

use gleed::mem::MemoryError;

use crate::error::Failure;
use crate::status;

/// Returns the `len` elements at `ptr`. If `len` is 0, `ptr` may be any pointer, NULL included.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`], [`status::E_LENGTH`].
///
/// # Safety
/// Where `len` elements at `ptr` pass the checks, they are initialised and nobody writes to them during `'a`.
pub unsafe fn slice<'a, T>(what: &str, ptr: *const T, len: usize) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(what, ptr, len)?;
    // SAFETY: `check` has found that it is not NULL, aligned and no longer than isize::MAX bytes. That the elements are
    // there, and that nobody writes to them, is what the caller of this function promises.
    Ok(unsafe { slice::from_raw_parts(ptr, len) })
}

/// Elements of the caller's that were not read yet: their number is checked before.
#[derive(Debug)]
pub struct Unread<'a, T> {
    ptr: *const T,
    len: usize,
    lent: PhantomData<&'a [T]>,
}

impl<'a, T> Unread<'a, T> {
    /// Returns the elements, if `takes`, which gets their number, accepts so many.
    ///
    /// # Errors
    /// Those of `takes`; then nothing was read.
    pub fn read_if<E>(self, takes: impl FnOnce(usize) -> Result<(), E>) -> Result<&'a [T], E> {
        takes(self.len)?;
        if self.len == 0 {
            return Ok(&[]);
        }
        // SAFETY: `unread` has found that they are not at NULL, aligned and no longer than isize::MAX bytes. `takes`
        // has accepted their number: for that case the caller of `unread` promised that they are there and that nobody
        // writes to them.
        Ok(unsafe { slice::from_raw_parts(self.ptr, self.len) })
    }
}

/// Returns the `len` elements at `ptr`, which are not read yet. If `len` is 0, `ptr` may be any pointer, NULL included.
///
/// # Errors
/// As [`slice()`].
///
/// # Safety
/// As [`slice()`], but only if [`Unread::read_if`] accepts the number of elements.
pub unsafe fn unread<'a, T>(what: &str, ptr: *const T, len: usize) -> Result<Unread<'a, T>, Failure> {
    if len > 0 {
        check(what, ptr, len)?;
    }
    Ok(Unread { ptr, len, lent: PhantomData })
}

/// Returns the `len` bytes at `ptr`, to be written to. There must be at least `needed` bytes, at a multiple of `align`.
/// Memory that is refused may be in use.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_LENGTH`], and as [`fits`].
///
/// # Safety
/// Where `len` bytes at `ptr` pass the checks, they are memory of the caller's that nobody else uses during `'a`.
pub unsafe fn memory<'a>(
    what: &str,
    ptr: *mut u8,
    len: usize,
    needed: usize,
    align: usize,
) -> Result<&'a mut [u8], Failure> {
    fits(ptr, len, needed, align)?;
    check(what, ptr, len)?;
    // SAFETY: `check` has found that it is not NULL and no longer than isize::MAX bytes. That nobody else uses the
    // bytes is what the caller of this function promises. Bytes that C has not written to hold some value: they come
    // from outside of this program's language.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// Checks that memory is as large and as aligned as it must be.
///
/// # Errors
/// [`MemoryError::TooSmall`], [`MemoryError::Misaligned`].
pub fn fits(ptr: *const u8, given: usize, needed: usize, align: usize) -> Result<(), MemoryError> {
    if given < needed {
        return Err(MemoryError::TooSmall { needed, given });
    }
    match ptr.addr().checked_rem(align) {
        None | Some(0) => Ok(()),
        Some(off_by) => Err(MemoryError::Misaligned { needed: align, off_by }),
    }
}

/// The place of a result. It holds no reference: two results may have the same place.
#[derive(Debug)]
pub struct Out<'a, T> {
    place: *mut T,
    lent: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Writes the result.
    pub fn write(self, value: T) {
        // SAFETY: `out` has found that it is not NULL and aligned; its caller promised that a T fits there.
        unsafe { self.place.write(value) }
    }
}

/// Returns the place of a result.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`].
///
/// # Safety
/// A pointer that passes the checks points to memory for a `T` that nobody else uses during `'a`.
pub unsafe fn out<'a, T>(what: &str, ptr: *mut T) -> Result<Out<'a, T>, Failure> {
    check(what, ptr, 1)?;
    Ok(Out { place: ptr, lent: PhantomData })
}

/// Returns the place of a result that the caller may not want; `None` at NULL.
///
/// # Errors
/// [`status::E_ALIGNMENT`].
///
/// # Safety
/// As [`out`].
pub unsafe fn out_or_null<'a, T>(what: &str, ptr: *mut T) -> Result<Option<Out<'a, T>>, Failure> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises what `out` asks for: a pointer that passes the checks has room for a T.
    unsafe { out(what, ptr) }.map(Some)
}

/// The places of a size and an alignment.
#[derive(Debug)]
pub struct OutLayout<'a> {
    size: Out<'a, usize>,
    align: Out<'a, usize>,
}

impl OutLayout<'_> {
    /// Writes both.
    pub fn write(self, size: usize, align: usize) {
        self.size.write(size);
        self.align.write(align);
    }
}

/// Returns the places of the size and the alignment of memory.
///
/// # Errors
/// As [`out`], for `size` and then for `align`.
///
/// # Safety
/// As [`out`], for both.
pub unsafe fn out_layout<'a>(size: *mut usize, align: *mut usize) -> Result<OutLayout<'a>, Failure> {
    // SAFETY: the caller promises that a number fits at each of them that passes the checks of `out`.
    let (size, align) = unsafe { (out("size", size)?, out("align", align)?) };
    Ok(OutLayout { size, align })
}

/// The places of a pointer to a row and of the row's length.
#[derive(Debug)]
pub struct OutRow<'a> {
    place: Out<'a, *const f32>,
    len: Out<'a, usize>,
}

impl OutRow<'_> {
    /// Writes the pointer to a row, and its length.
    pub fn write(self, row: &[f32]) {
        self.place.write(row.as_ptr());
        self.len.write(row.len());
    }
}

/// Returns the places of a pointer to a row and of the row's length. `what` are the names of the two arguments.
///
/// # Errors
/// As [`out`], for `place` and then for `len`.
///
/// # Safety
/// As [`out`], for both.
pub unsafe fn out_row<'a>(what: [&str; 2], place: *mut *const f32, len: *mut usize) -> Result<OutRow<'a>, Failure> {
    let [what, what_len] = what;
    // SAFETY: the caller promises, if they pass the checks of `out`, that a pointer fits at `place` and a number at
    // `len`.
    let (place, len) = unsafe { (out(what, place)?, out(what_len, len)?) };
    Ok(OutRow { place, len })
}

/// Returns the `len` elements at `ptr`, to be written to. If `len` is 0, `ptr` may be any pointer, NULL included.
///
/// # Errors
/// As [`slice()`].
///
/// # Safety
/// Where `len` elements at `ptr` pass the checks, they are memory of the caller's that nobody else uses during `'a`,
/// and `T` takes every bit pattern.
pub unsafe fn slice_mut<'a, T>(what: &str, ptr: *mut T, len: usize) -> Result<&'a mut [T], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(what, ptr, len)?;
    // SAFETY: `check` has found that it is not NULL, aligned and no longer than isize::MAX bytes. That nobody else uses
    // the elements is what the caller of this function promises. Elements that C has not written to hold some value:
    // they come from outside of this program's language.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// Writes `len` copies of a value to the beginning of `memory`, and returns them.
///
/// # Errors
/// As [`fits`].
pub(crate) fn filled<T: Copy>(memory: &mut [u8], len: usize, value: T) -> Result<&mut [T], MemoryError> {
    let needed = len.checked_mul(size_of::<T>()).ok_or(MemoryError::TooLarge)?;
    fits(memory.as_ptr(), memory.len(), needed, align_of::<T>())?;
    let places = memory.as_mut_ptr().cast::<T>();
    for index in 0..len {
        // SAFETY: `fits` has found that `len` values fit the memory, which is aligned for them and borrowed
        // exclusively.
        unsafe { places.add(index).write(value) };
    }
    // SAFETY: the loop has written `len` values there. The memory is borrowed exclusively by the new slice, which takes
    // its place.
    Ok(unsafe { slice::from_raw_parts_mut(places, len) })
}

/// Checks that two buffers that are written to have no byte in common.
///
/// # Errors
/// [`status::E_VALUE`].
pub fn disjoint<T>(what: &str, a: *const T, b: *const T, len: usize) -> Result<(), Failure> {
    let bytes = len.saturating_mul(size_of::<T>());
    if len == 0 || a.addr().abs_diff(b.addr()) >= bytes {
        return Ok(());
    }
    Err(Failure::new(status::E_VALUE, format_args!("{what} overlap")))
}

/// Returns a number of the library as C sees it. No number that is handed out this way needs more than 32 bits.
pub fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(crate) fn check<T>(what: &str, ptr: *const T, len: usize) -> Result<(), Failure> {
    check_layout(what, ptr.addr(), Layout::new::<T>(), len)
}

/// Does what [`check`] does, for an element type that is given by its layout. One function serves all types.
pub(crate) fn check_layout(what: &str, addr: usize, element: Layout, len: usize) -> Result<(), Failure> {
    let (size, align) = (element.size(), element.align());
    if addr == 0 {
        return Err(Failure::new(status::E_NULL, format_args!("{what} is NULL")));
    }
    // An alignment is a power of two.
    if addr & (align - 1) != 0 {
        let text = format_args!("{what} must be at a multiple of {align} bytes");
        return Err(Failure::new(status::E_ALIGNMENT, text).numbers(align, addr));
    }
    let most = (usize::MAX - addr).min(isize::MAX.unsigned_abs());
    match len.checked_mul(size) {
        Some(bytes) if bytes <= most => Ok(()),
        _ => {
            let text = format_args!("{what}: {len} elements pass the end of the address space");
            Err(Failure::new(status::E_LENGTH, text).numbers(most.checked_div(size).unwrap_or(0), len))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::{null, null_mut};

    #[test]
    fn good_pointers_become_slices() {
        let ids = [1u32, 2, 3];
        // SAFETY: a pointer and the length of an array.
        assert_eq!(unsafe { slice("ids", ids.as_ptr(), 3) }.unwrap(), ids);
        // SAFETY: no elements are asked for, and NULL is allowed for none.
        assert!(unsafe { slice::<u32>("ids", null(), 0) }.unwrap().is_empty());
        let mut words = [0u32; 3];
        // SAFETY: a pointer and the size of an array.
        assert_eq!(unsafe { memory("memory", words.as_mut_ptr().cast(), 12, 5, 4) }.unwrap().len(), 12);
        let mut result = 0u64;
        // SAFETY: a pointer to a local u64 that nothing else uses meanwhile.
        unsafe { out("result", &mut result) }.unwrap().write(5);
        assert_eq!(result, 5);
    }

    #[test]
    fn memory_is_filled_where_it_is_large_enough_and_aligned() {
        let mut words = [7u64; 4];
        // SAFETY: the bytes of the array, which nothing else uses before the last of them is used.
        let bytes: &mut [u8] = unsafe { slice::from_raw_parts_mut(words.as_mut_ptr().cast(), 32) };
        assert_eq!(filled(bytes, 3, 5u64).unwrap(), [5; 3]);
        assert!(filled(bytes, 0, 5u64).unwrap().is_empty());
        assert_eq!(filled(bytes, 5, 5u64).unwrap_err(), MemoryError::TooSmall { needed: 40, given: 32 });
        assert_eq!(filled(bytes, usize::MAX, 5u64).unwrap_err(), MemoryError::TooLarge);
        let off = filled(&mut bytes[1..], 3, 5u64).unwrap_err();
        assert_eq!(off, MemoryError::Misaligned { needed: 8, off_by: 1 });
        assert_eq!(words, [5, 5, 5, 7]);
    }

    #[test]
    fn buffers_that_overlap_are_noticed() {
        let words = [0u32; 8];
        let at = |index| words.as_ptr().wrapping_add(index);
        assert!(disjoint("k and v", at(0), at(4), 4).is_ok() && disjoint("k and v", at(4), at(0), 4).is_ok());
        assert!(disjoint("k and v", at(0), at(0), 0).is_ok());
        assert!(disjoint("k and v", at(0), at(3), 4).is_err() && disjoint("k and v", at(2), at(2), 1).is_err());
    }

    #[test]
    fn bad_pointers_are_refused() {
        let ids = [1u32, 2, 3];
        let odd = ids.as_ptr().wrapping_byte_add(1);
        // SAFETY: all of the pointers fail the checks, so nothing needs to be promised.
        let failures = unsafe {
            [
                slice::<u32>("ids", null(), 1).unwrap_err(),
                slice("ids", odd, 1).unwrap_err(),
                slice("ids", ids.as_ptr(), usize::MAX / 4).unwrap_err(),
                slice("ids", ids.as_ptr(), usize::MAX).unwrap_err(),
                memory("memory", null_mut(), 1, 1, 1).unwrap_err(),
                memory("memory", null_mut(), 0, 1, 1).unwrap_err(),
                memory("memory", odd.cast_mut().cast(), 4, 4, 4).unwrap_err(),
                memory("memory", core::ptr::without_provenance_mut(usize::MAX - 7), 10, 8, 8).unwrap_err(),
                out::<u32>("result", null_mut()).unwrap_err(),
            ]
        };
        let expected = [
            status::E_NULL,
            status::E_ALIGNMENT,
            status::E_LENGTH,
            status::E_LENGTH,
            status::E_NULL,
            status::E_MEMORY_TOO_SMALL,
            status::E_MEMORY_MISALIGNED,
            status::E_LENGTH,
            status::E_NULL,
        ];
        assert_eq!(failures.map(|failure| failure.status()), expected);
    }
}
