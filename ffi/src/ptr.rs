//! Pointers of the caller become references: the one place where lengths and NULL are looked at.

use core::fmt;
use core::marker::PhantomData;
use core::slice;

use gleed::mem::MemoryError;

use crate::error::Failure;
use crate::status;

/// The largest `struct_size` that is believed: no later version has a struct this large.
pub const MAX_STRUCT: usize = 1024;

/// The `len` elements at `ptr`. No elements are at any pointer, NULL included.
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
    // SAFETY: not NULL, aligned and no longer than isize::MAX bytes: checked. The rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(ptr, len) })
}

/// The `len` bytes at `ptr`, to be written to: at least `needed` of them, at a multiple of `align`. Memory that is
/// refused may be in use.
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
    // SAFETY: not NULL and no longer than isize::MAX bytes: checked. The rest is the caller's promise. Bytes that
    // the caller has not written to hold some value: they come from outside of this program's language.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// Whether memory is as large and as aligned as it must be.
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

/// Where a result goes. It holds no reference: two results may go to the same place.
#[derive(Debug)]
pub struct Out<'a, T> {
    place: *mut T,
    lent: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    /// Writes the result.
    pub fn write(self, value: T) {
        // SAFETY: not NULL and aligned, and the caller of `out` promised that a T fits there.
        unsafe { self.place.write(value) }
    }
}

/// Where a result goes.
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

/// A struct of the caller's that starts with `uint32_t struct_size`. A caller with a newer header has more
/// fields than are known here; they must be 0.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`]; [`status::E_STRUCT_SIZE`] for a size below that of `T` or
/// above [`MAX_STRUCT`], or with bytes set that `T` does not have.
///
/// # Safety
/// `T` starts with a `u32` and consists of integers without gaps. Where a pointer passes the checks,
/// `struct_size` bytes are at it, initialised, and nobody writes to them during the call.
pub unsafe fn versioned<T: Copy>(what: &str, ptr: *const T) -> Result<T, Failure> {
    check(what, ptr, 1)?;
    // SAFETY: not NULL and aligned for T, which starts with this field; the caller promises that it is there.
    let size = unsafe { ptr.cast::<u32>().read() };
    let (known, given) = (size_of::<T>(), usize::try_from(size).unwrap_or(usize::MAX));
    let refuse = |text: fmt::Arguments<'_>| Err(Failure::new(status::E_STRUCT_SIZE, text).numbers(known, given));
    if !(known..=MAX_STRUCT).contains(&given) {
        return refuse(format_args!("{what}: struct_size is {given}, this version knows {known}"));
    }
    // SAFETY: struct_size says that they are there, which the caller promises.
    let unknown = unsafe { slice(what, ptr.cast::<u8>().wrapping_add(known), given - known) }?;
    if unknown.iter().any(|&byte| byte != 0) {
        return refuse(format_args!("{what}: fields are set that this version does not know"));
    }
    // SAFETY: not NULL, aligned, and at least as many bytes as T has; T takes every bit pattern.
    Ok(unsafe { ptr.read() })
}

pub(crate) fn check<T>(what: &str, ptr: *const T, len: usize) -> Result<(), Failure> {
    if ptr.is_null() {
        return Err(Failure::new(status::E_NULL, format_args!("{what} is NULL")));
    }
    if !ptr.is_aligned() {
        let text = format_args!("{what} must be at a multiple of {} bytes", align_of::<T>());
        return Err(Failure::new(status::E_ALIGNMENT, text).numbers(align_of::<T>(), ptr.addr()));
    }
    let most = (usize::MAX - ptr.addr()).min(isize::MAX.unsigned_abs());
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= most => Ok(()),
        _ => {
            let text = format_args!("{what}: {len} elements pass the end of the address space");
            Err(Failure::new(status::E_LENGTH, text).numbers(most.checked_div(size_of::<T>()).unwrap_or(0), len))
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
        // SAFETY: no elements.
        assert!(unsafe { slice::<u32>("ids", null(), 0) }.unwrap().is_empty());
        let mut words = [0u32; 3];
        // SAFETY: a pointer and the size of an array.
        assert_eq!(unsafe { memory("memory", words.as_mut_ptr().cast(), 12, 5, 4) }.unwrap().len(), 12);
        let mut result = 0u64;
        // SAFETY: a pointer to a u64.
        unsafe { out("result", &mut result) }.unwrap().write(5);
        assert_eq!(result, 5);
    }

    #[test]
    fn structs_of_newer_headers_may_only_have_zeros_more() {
        let status = |words: &[u32; 4]| {
            // SAFETY: as many bytes as the first word says, where that is believed.
            unsafe { versioned::<[u32; 2]>("config", words.as_ptr().cast()) }.map_err(|failure| failure.status())
        };
        assert_eq!(status(&[8, 5, 9, 9]), Ok([8, 5]));
        assert_eq!(status(&[16, 5, 0, 0]), Ok([16, 5]));
        for words in [[16, 5, 0, 1], [13, 5, 0, 1], [7, 5, 0, 0], [0, 5, 0, 0], [1025, 5, 0, 0], [u32::MAX, 5, 0, 0]] {
            assert_eq!(status(&words), Err(status::E_STRUCT_SIZE), "{words:?}");
        }
    }

    #[test]
    fn bad_pointers_are_refused() {
        let ids = [1u32, 2, 3];
        let odd = ids.as_ptr().wrapping_byte_add(1);
        // SAFETY: all of them fail the checks, so nothing is promised.
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
