//! Objects in the caller's memory: what the opaque pointers of the ABI lead to.

use core::alloc::Layout;

use gleed::mem::MemoryError;

use crate::error::Failure;
use crate::ptr;
use crate::status;

/// What C may hold a pointer to.
pub trait Opaque {
    /// The word before the object, by which it is recognised.
    const MAGIC: u64;
}

/// A magic word, and the object. It is never dropped: the caller just uses its memory for something else.
#[repr(C)]
#[derive(Debug)]
pub struct Object<T> {
    magic: u64,
    value: T,
}

impl<T: Opaque> Object<T> {
    /// Puts an object at the start of `memory`.
    ///
    /// # Errors
    /// As [`ptr::fits`].
    pub fn place(memory: &mut [u8], value: T) -> Result<*mut Self, MemoryError> {
        ptr::fits(memory.as_ptr(), memory.len(), size_of::<Self>(), align_of::<Self>())?;
        let place = memory.as_mut_ptr().cast::<Self>();
        // SAFETY: the memory is borrowed exclusively, as large as an object and aligned for one: checked.
        unsafe { place.write(Self { magic: T::MAGIC, value }) };
        Ok(place)
    }

    /// The object at a pointer of the caller's.
    ///
    /// # Errors
    /// [`status::E_NULL`], [`status::E_ALIGNMENT`], [`status::E_OBJECT`].
    ///
    /// # Safety
    /// At a pointer that passes the first two checks is an initialised `u64`. If that is [`Opaque::MAGIC`], it is an
    /// object from [`Object::place`], still valid during `'a`, and nobody changes it.
    pub unsafe fn get<'a>(what: &str, object: *const Self) -> Result<&'a T, Failure> {
        // SAFETY: the caller's promise; an object starts with its magic word.
        unsafe { check(what, object.cast(), Layout::new::<Self>(), T::MAGIC) }?;
        // SAFETY: not NULL, aligned, and with the magic word: checked. The rest is the caller's promise.
        Ok(unsafe { &(*object).value })
    }

    /// The object at a pointer of the caller's, to be changed.
    ///
    /// # Errors
    /// As [`Object::get`].
    ///
    /// # Safety
    /// As [`Object::get`], and nobody else uses it during `'a`.
    pub unsafe fn get_mut<'a>(what: &str, object: *mut Self) -> Result<&'a mut T, Failure> {
        // SAFETY: the caller's promise; an object starts with its magic word.
        unsafe { check(what, object.cast(), Layout::new::<Self>(), T::MAGIC) }?;
        // SAFETY: not NULL, aligned, and with the magic word: checked. The rest is the caller's promise.
        Ok(unsafe { &mut (*object).value })
    }
}

/// Whether a magic word is at a pointer, for an object of any type: one function for all.
///
/// # Safety
/// The object is aligned as a `u64` at least. At a pointer that is not NULL and aligned for it is an initialised `u64`.
unsafe fn check(what: &str, object: *const u64, layout: Layout, magic: u64) -> Result<(), Failure> {
    ptr::check_layout(what, object.addr(), layout, 1)?;
    // SAFETY: not NULL and aligned: checked; the caller promises that it is there.
    if unsafe { object.read() } == magic {
        return Ok(());
    }
    Err(Failure::new(status::E_OBJECT, format_args!("{what} is not one, or its memory was used for something else")))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Opaque for u16 {
        const MAGIC: u64 = 77;
    }

    #[test]
    fn objects_are_recognised() {
        let mut memory = [0u64; 3];
        // SAFETY: the bytes of the array, which is used through them only.
        let bytes: &mut [u8] = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), 24) };
        assert_eq!(Object::place(&mut bytes[..15], 5u16).unwrap_err(), MemoryError::TooSmall { needed: 16, given: 15 });
        let off = Object::place(&mut bytes[1..], 5u16).unwrap_err();
        assert_eq!(off, MemoryError::Misaligned { needed: 8, off_by: 1 });
        let object = Object::place(bytes, 5u16).unwrap();
        // SAFETY: an object that was just made, then words that are there.
        unsafe {
            *Object::get_mut("thing", object).unwrap() += 1;
            assert_eq!(*Object::get("thing", object).unwrap(), 6);
            let other = object.cast::<u64>().wrapping_add(2).cast::<Object<u16>>();
            let failures = [
                Object::get("thing", other).unwrap_err(),
                Object::get("thing", object.wrapping_byte_add(1)).unwrap_err(),
                Object::<u16>::get("thing", core::ptr::null()).unwrap_err(),
            ];
            assert_eq!(failures.map(|f| f.status()), [status::E_OBJECT, status::E_ALIGNMENT, status::E_NULL]);
        }
    }
}
