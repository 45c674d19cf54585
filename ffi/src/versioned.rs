//! Structs of the caller's that begin with `uint32_t struct_size`. In earlier headers they have fewer fields, in later
//! headers more.

use core::alloc::Layout;
use core::marker::PhantomData;

use crate::error::Failure;
use crate::ptr::{check, check_layout, slice};
use crate::status;

/// The largest `struct_size` that is believed: no later version has a struct this large.
pub const MAX_STRUCT: usize = 1024;

/// A struct of the ABI that starts with `uint32_t struct_size`.
///
/// # Safety
/// The struct starts with a `u32` and has no gaps. Every bit pattern is valid in its fields, zeros included.
pub unsafe trait Versioned: Copy {
    /// The sizes that the struct had in earlier versions of the header, the earliest first.
    const EARLIER: &'static [usize] = &[];
}

/// Returns `struct_size` of the struct at `ptr`, if it is the size in an earlier version, in this one, or larger.
///
/// # Safety
/// At a pointer that is not NULL and aligned is a `u32`.
unsafe fn size_of_given<T: Versioned>(what: &str, ptr: *const T) -> Result<usize, Failure> {
    // SAFETY: the caller promises a `u32` at a pointer that is not NULL and aligned for T, as this one asks for.
    unsafe { size_of_any(what, ptr.cast(), Layout::new::<T>(), T::EARLIER) }
}

/// Does what [`size_of_given`] does, for a struct that is given by its layout. One function serves all types.
///
/// # Safety
/// At a pointer that is not NULL and aligned for `layout` is a `u32`.
unsafe fn size_of_any(what: &str, ptr: *const u32, layout: Layout, earlier: &[usize]) -> Result<usize, Failure> {
    check_layout(what, ptr.addr(), layout, 1)?;
    // SAFETY: `check_layout` has found that it is not NULL and aligned for the struct, which starts with this field;
    // the caller promises that the field is there.
    let size = unsafe { ptr.read() };
    let (known, given) = (layout.size(), usize::try_from(size).unwrap_or(usize::MAX));
    if (known..=MAX_STRUCT).contains(&given) || earlier.contains(&given) {
        return Ok(given);
    }
    let text = format_args!("{what}: struct_size is {given}, this version knows {known}");
    Err(Failure::new(status::E_STRUCT_SIZE, text).numbers(known, given))
}

/// Returns a struct of the caller's. A caller with an earlier header gives fewer fields than are known here: the others
/// are 0. A caller with a later header gives more fields, which must be 0.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`]; [`status::E_STRUCT_SIZE`] for a size that no version has, one above
/// [`MAX_STRUCT`], or with bytes set that `T` does not have.
///
/// # Safety
/// Where a pointer passes the checks, `struct_size` bytes are at it, initialised, and nobody writes to them during the
/// call.
pub unsafe fn versioned<T: Versioned>(what: &str, ptr: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises at least a `struct_size` at a pointer that is not NULL and aligned.
    let given = unsafe { size_of_given(what, ptr) }?;
    let known = size_of::<T>();
    let more = given.saturating_sub(known);
    // SAFETY: these are the bytes from `known` to struct_size, and the caller promises as many as struct_size says.
    let unknown = unsafe { slice(what, ptr.cast::<u8>().wrapping_add(known), more) }?;
    if unknown.iter().any(|&byte| byte != 0) {
        let text = format_args!("{what}: fields are set that this version does not know");
        return Err(Failure::new(status::E_STRUCT_SIZE, text).numbers(known, given));
    }
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `given.min(known)` is at most the bytes of T, to which they go, and at most struct_size, as many as the
    // caller promises. T takes every bit pattern, as `Versioned` promises, and the bytes that are not copied are 0.
    unsafe {
        core::ptr::copy_nonoverlapping(ptr.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), given.min(known));
        Ok(value.assume_init())
    }
}

/// Returns a struct of the caller's as [`versioned`] does; `None` at NULL.
///
/// # Errors
/// As [`versioned`], but for NULL.
///
/// # Safety
/// As [`versioned`].
pub unsafe fn versioned_or_null<T: Versioned>(what: &str, ptr: *const T) -> Result<Option<T>, Failure> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises what `versioned` asks for: as many bytes as struct_size says.
    unsafe { versioned(what, ptr) }.map(Some)
}

/// The place of a struct whose `struct_size` the caller has set. It gets the fields for which it has room. Fields that
/// are not known here get zeros.
#[derive(Debug)]
pub struct OutStruct<'a, T> {
    place: *mut T,
    given: usize,
    lent: PhantomData<&'a mut T>,
}

impl<T: Versioned> OutStruct<'_, T> {
    /// Writes the result, all but its `struct_size`.
    pub fn write(self, value: T) {
        let (known, skip) = (size_of::<T>(), size_of::<u32>());
        let (to, from) = (self.place.cast::<u8>(), (&raw const value).cast::<u8>());
        // SAFETY: the caller of `out_struct` promised `given` bytes that nobody else uses, and both calls stay below
        // that. T has `known` bytes without gaps, so all that are copied are initialised; `value` lies in this
        // function.
        unsafe {
            to.add(skip).copy_from_nonoverlapping(from.add(skip), self.given.min(known).saturating_sub(skip));
            to.add(self.given.min(known)).write_bytes(0, self.given.saturating_sub(known));
        }
    }
}

/// Returns the place of a struct.
///
/// # Errors
/// As [`versioned`], whatever the bytes after `struct_size` are.
///
/// # Safety
/// A pointer that passes the checks points to `struct_size` bytes that nobody else uses during `'a`.
pub unsafe fn out_struct<'a, T: Versioned>(what: &str, ptr: *mut T) -> Result<OutStruct<'a, T>, Failure> {
    // SAFETY: the caller promises at least a `struct_size` at a pointer that passes the checks.
    let given = unsafe { size_of_given(what, ptr) }?;
    // A struct that is larger than `T` must be in the address space as a whole, too.
    check(what, ptr.cast::<u8>(), given)?;
    Ok(OutStruct { place: ptr, given, lent: PhantomData })
}

/// Returns the place of a struct that the caller may not want; `None` at NULL.
///
/// # Errors
/// As [`out_struct`], but for NULL.
///
/// # Safety
/// As [`out_struct`].
pub unsafe fn out_struct_or_null<'a, T: Versioned>(
    what: &str,
    ptr: *mut T,
) -> Result<Option<OutStruct<'a, T>>, Failure> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises what `out_struct` asks for: `struct_size` bytes that nobody else uses.
    unsafe { out_struct(what, ptr) }.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Words([u32; 3]);

    // SAFETY: three integers of 4 bytes, of which the first is the size.
    unsafe impl Versioned for Words {
        const EARLIER: &'static [usize] = &[8];
    }

    #[test]
    fn structs_of_newer_headers_may_only_have_zeros_more() {
        let status = |words: &[u32; 5]| {
            // SAFETY: as many bytes are there as the first word says, if that size is accepted.
            unsafe { versioned::<Words>("config", words.as_ptr().cast()) }.map_err(|failure| failure.status())
        };
        assert_eq!(status(&[12, 5, 6, 9, 9]), Ok(Words([12, 5, 6])));
        assert_eq!(status(&[20, 5, 6, 0, 0]), Ok(Words([20, 5, 6])));
        assert_eq!(status(&[8, 5, 6, 9, 9]), Ok(Words([8, 5, 0])));
        for size in [0, 4, 7, 9, 11, 1025, u32::MAX] {
            assert_eq!(status(&[size, 5, 0, 0, 0]), Err(status::E_STRUCT_SIZE), "{size}");
        }
        for words in [[20, 5, 0, 0, 1], [17, 5, 0, 0, 1], [16, 5, 0, 1, 0]] {
            assert_eq!(status(&words), Err(status::E_STRUCT_SIZE), "{words:?}");
        }
    }

    #[test]
    fn structs_get_what_they_have_room_for() {
        let written = |size| {
            let mut words = [size, 7, 7, 7, 7];
            // SAFETY: as many bytes are there as the first word says.
            unsafe { out_struct::<Words>("info", words.as_mut_ptr().cast()) }.unwrap().write(Words([0, 5, 6]));
            words
        };
        assert_eq!(written(8), [8, 5, 7, 7, 7]);
        assert_eq!(written(12), [12, 5, 6, 7, 7]);
        assert_eq!(written(16), [16, 5, 6, 0, 7]);
    }
}
