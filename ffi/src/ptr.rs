//! Pointers of the caller become references: the one place where lengths and NULL are looked at.

use core::alloc::Layout;
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
    // SAFETY: the caller's promise.
    Ok(unsafe { unread(what, ptr, len)?.read() })
}

/// Elements of the caller's that nobody has looked at: first comes what can be said of their number alone.
#[derive(Debug)]
pub struct Unread<'a, T> {
    ptr: *const T,
    len: usize,
    lent: PhantomData<&'a [T]>,
}

impl<'a, T> Unread<'a, T> {
    /// How many there are, if that is true.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements.
    ///
    /// # Safety
    /// They are initialised, and nobody writes to them during `'a`.
    pub unsafe fn read(self) -> &'a [T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: not NULL, aligned and no longer than isize::MAX bytes: `unread` has checked it. The rest is the caller's
        // promise.
        unsafe { slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// The `len` elements at `ptr`, not looked at. No elements are at any pointer, NULL included.
///
/// # Errors
/// As [`slice()`].
pub fn unread<'a, T>(what: &str, ptr: *const T, len: usize) -> Result<Unread<'a, T>, Failure> {
    if len > 0 {
        check(what, ptr, len)?;
    }
    Ok(Unread { ptr, len, lent: PhantomData })
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

impl Out<'_, *const f32> {
    /// Writes where a row is, and its length.
    pub fn write_row(self, len: Out<'_, usize>, row: &[f32]) {
        self.write(row.as_ptr());
        len.write(row.len());
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

/// The `len` elements at `ptr`, to be written to. No elements are at any pointer, NULL included.
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
    // SAFETY: not NULL, aligned and no longer than isize::MAX bytes: checked. The rest is the caller's promise. Elements
    // that the caller has not written to hold some value: they come from outside of this program's language.
    Ok(unsafe { slice::from_raw_parts_mut(ptr, len) })
}

/// Whether two buffers that are written to have no byte in common.
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

/// A struct of the ABI that starts with `uint32_t struct_size`.
///
/// # Safety
/// It starts with a `u32`, has no gaps, and takes every bit pattern: in its fields, and zeros.
pub unsafe trait Versioned: Copy {
    /// The sizes that the struct had in earlier versions of the header, the first of them first.
    const EARLIER: &'static [usize] = &[];
}

/// `struct_size` of the struct at `ptr`, if it is that of an earlier version, of this one, or larger.
///
/// # Safety
/// At a pointer that is not NULL and aligned is a `u32`.
unsafe fn size_of_given<T: Versioned>(what: &str, ptr: *const T) -> Result<usize, Failure> {
    check(what, ptr, 1)?;
    // SAFETY: not NULL and aligned for T, which starts with this field; the caller promises that it is there.
    let size = unsafe { ptr.cast::<u32>().read() };
    let (known, given) = (size_of::<T>(), usize::try_from(size).unwrap_or(usize::MAX));
    if (known..=MAX_STRUCT).contains(&given) || T::EARLIER.contains(&given) {
        return Ok(given);
    }
    let text = format_args!("{what}: struct_size is {given}, this version knows {known}");
    Err(Failure::new(status::E_STRUCT_SIZE, text).numbers(known, given))
}

/// A struct of the caller's. A caller with an earlier header has fewer fields than are known here: the others are 0. One
/// with a later header has more; they must be 0.
///
/// # Errors
/// [`status::E_NULL`], [`status::E_ALIGNMENT`]; [`status::E_STRUCT_SIZE`] for a size that no version has, one above
/// [`MAX_STRUCT`], or with bytes set that `T` does not have.
///
/// # Safety
/// Where a pointer passes the checks, `struct_size` bytes are at it, initialised, and nobody writes to them during the
/// call.
pub unsafe fn versioned<T: Versioned>(what: &str, ptr: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises `struct_size` bytes at a pointer that passes the checks: it is the first of them.
    let given = unsafe { size_of_given(what, ptr) }?;
    let known = size_of::<T>();
    let more = given.saturating_sub(known);
    // SAFETY: struct_size says that they are there, which the caller promises.
    let unknown = unsafe { slice(what, ptr.cast::<u8>().wrapping_add(known), more) }?;
    if unknown.iter().any(|&byte| byte != 0) {
        let text = format_args!("{what}: fields are set that this version does not know");
        return Err(Failure::new(status::E_STRUCT_SIZE, text).numbers(known, given));
    }
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: at most as many bytes as T has, and as many as struct_size says are there. T takes every bit pattern.
    unsafe {
        core::ptr::copy_nonoverlapping(ptr.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), given.min(known));
        Ok(value.assume_init())
    }
}

/// Where a struct goes, of which `struct_size` is the caller's. It gets as many of the fields as it has; fields that are
/// not known here are 0.
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
        // SAFETY: the caller of `out_struct` promised `given` bytes that nobody else uses; T has `known`, without gaps,
        // and `value` is none of them.
        unsafe {
            to.add(skip).copy_from_nonoverlapping(from.add(skip), self.given.min(known).saturating_sub(skip));
            to.add(self.given.min(known)).write_bytes(0, self.given.saturating_sub(known));
        }
    }
}

/// Where a struct goes.
///
/// # Errors
/// As [`versioned`], whatever the bytes after `struct_size` are.
///
/// # Safety
/// A pointer that passes the checks points to `struct_size` bytes that nobody else uses during `'a`.
pub unsafe fn out_struct<'a, T: Versioned>(what: &str, ptr: *mut T) -> Result<OutStruct<'a, T>, Failure> {
    // SAFETY: the caller promises `struct_size` bytes at a pointer that passes the checks: it is the first of them.
    let given = unsafe { size_of_given(what, ptr) }?;
    // The whole of a larger struct is in the address space, too.
    check(what, ptr.cast::<u8>(), given)?;
    Ok(OutStruct { place: ptr, given, lent: PhantomData })
}

/// A number of the library's as C sees it; none of those that are handed out this way is larger than 32 bits.
pub(crate) fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

pub(crate) fn check<T>(what: &str, ptr: *const T, len: usize) -> Result<(), Failure> {
    check_layout(what, ptr.addr(), Layout::new::<T>(), len)
}

/// [`check`] for any type: one function for all.
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
        // SAFETY: no elements are at any pointer, so nothing is promised.
        assert!(unsafe { slice::<u32>("ids", null(), 0) }.unwrap().is_empty());
        let mut words = [0u32; 3];
        // SAFETY: a pointer and the size of an array.
        assert_eq!(unsafe { memory("memory", words.as_mut_ptr().cast(), 12, 5, 4) }.unwrap().len(), 12);
        let mut result = 0u64;
        // SAFETY: a reference to a u64 that nobody else uses.
        unsafe { out("result", &mut result) }.unwrap().write(5);
        assert_eq!(result, 5);
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Words([u32; 3]);

    // SAFETY: integers of 4 bytes, which leave no gaps.
    unsafe impl Versioned for Words {
        const EARLIER: &'static [usize] = &[8];
    }

    #[test]
    fn structs_of_newer_headers_may_only_have_zeros_more() {
        let status = |words: &[u32; 5]| {
            // SAFETY: as many bytes as the first word says, where that is believed.
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
            // SAFETY: as many bytes as the first word says.
            unsafe { out_struct::<Words>("info", words.as_mut_ptr().cast()) }.unwrap().write(Words([0, 5, 6]));
            words
        };
        assert_eq!(written(8), [8, 5, 7, 7, 7]);
        assert_eq!(written(12), [12, 5, 6, 7, 7]);
        assert_eq!(written(16), [16, 5, 6, 0, 7]);
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
