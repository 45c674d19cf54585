//! Pointers of the caller become references: the one place where lengths and NULL are looked at.

use core::mem::MaybeUninit;
use core::slice;

use crate::error::Failure;
use crate::status;

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

/// The `len` bytes at `ptr`, to be written to. No bytes are at any pointer, NULL included.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_LENGTH`].
///
/// # Safety
/// Where `len` bytes at `ptr` pass the checks, they are memory of the caller's that nobody else uses during `'a`.
pub unsafe fn memory<'a>(what: &str, ptr: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(what, ptr, len)?;
    // SAFETY: not NULL and no longer than isize::MAX bytes: checked. The rest is the caller's promise. Bytes that
    // the caller has not written to hold some value: they come from outside of this program's language.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// Where a result goes.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`].
///
/// # Safety
/// A pointer that passes the checks points to memory for a `T` that nobody else uses during `'a`.
pub unsafe fn out<'a, T>(what: &str, ptr: *mut T) -> Result<&'a mut MaybeUninit<T>, Failure> {
    check(what, ptr, 1)?;
    // SAFETY: not NULL and aligned: checked. The rest is the caller's promise; nothing is read.
    Ok(unsafe { &mut *ptr.cast() })
}

fn check<T>(what: &str, ptr: *const T, len: usize) -> Result<(), Failure> {
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
        // SAFETY: no bytes.
        assert!(unsafe { memory("memory", null_mut(), 0) }.unwrap().is_empty());
        let mut result = 0u64;
        // SAFETY: a pointer to a u64.
        unsafe { out("result", &mut result) }.unwrap().write(5);
        assert_eq!(result, 5);
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
                memory("memory", null_mut(), 1).unwrap_err(),
                memory("memory", core::ptr::without_provenance_mut(usize::MAX - 8), 10).unwrap_err(),
                out::<u32>("result", null_mut()).unwrap_err(),
            ]
        };
        let expected = [
            status::E_NULL,
            status::E_ALIGNMENT,
            status::E_LENGTH,
            status::E_LENGTH,
            status::E_NULL,
            status::E_LENGTH,
            status::E_NULL,
        ];
        assert_eq!(failures.map(|failure| failure.status()), expected);
    }
}
