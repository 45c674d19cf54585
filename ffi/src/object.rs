//! Objects in the caller's memory, to which the opaque pointers of the ABI lead.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use gleed::mem::{ALIGN, MemoryError};

use crate::error::Failure;
use crate::ptr;
use crate::status;

/// A type of objects to which C holds opaque pointers.
pub trait Opaque {
    /// The magic word before an object of this type, by which it is recognised.
    const MAGIC: u64;
}

/// An object behind the head by which it is recognised. It is never dropped: the caller just uses its memory for
/// something else.
#[repr(C)]
#[derive(Debug)]
pub struct Object<T> {
    head: Head,
    value: T,
}

/// The head before every object.
#[repr(C)]
#[derive(Debug)]
struct Head {
    magic: u64,
    /// The address where the object was made. Objects point into their own memory, so a copy elsewhere is no object.
    address: usize,
    /// Number of calls that look at the object while they call the host; [`ALONE`] during a call that changes it.
    calls: AtomicU32,
}

/// Value of [`Head::calls`] while a call has the object for itself.
const ALONE: u32 = u32::MAX;

impl<T> Object<T> {
    /// Bytes at the start of an object's memory that the object itself takes. The memory that it uses follows.
    pub const HEAD: usize = {
        assert!(align_of::<Self>() <= ALIGN);
        size_of::<Self>().next_multiple_of(ALIGN)
    };

    /// Returns the bytes of an object and of the `bytes` that it uses behind itself.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn with_head(bytes: usize) -> Result<usize, MemoryError> {
        bytes.checked_add(Self::HEAD).ok_or(MemoryError::TooLarge)
    }

    /// Returns the memory of the object itself, and the memory that it uses behind itself.
    pub fn halves(memory: &mut [u8]) -> (&mut [u8], &mut [u8]) {
        memory.split_at_mut_checked(Self::HEAD).unwrap_or_default()
    }
}

impl<T: Opaque> Object<T> {
    /// Puts an object at the start of `memory`.
    ///
    /// # Errors
    /// As [`ptr::fits`].
    pub fn place(memory: &mut [u8], value: T) -> Result<*mut Self, MemoryError> {
        ptr::fits(memory.as_ptr(), memory.len(), size_of::<Self>(), align_of::<Self>())?;
        let place = memory.as_mut_ptr().cast::<Self>();
        let head = Head { magic: T::MAGIC, address: place.addr(), calls: AtomicU32::new(0) };
        // SAFETY: the memory is borrowed exclusively; `fits` has found that it is as large as an object and aligned
        // for one.
        unsafe { place.write(Self { head, value }) };
        Ok(place)
    }

    /// Puts an object at the start of the caller's `memory`, which becomes the object's.
    ///
    /// # Errors
    /// As [`ptr::memory`].
    ///
    /// # Safety
    /// As [`ptr::memory`], for as long as anybody uses the object.
    pub unsafe fn place_at(memory: *mut c_void, len: usize, value: T) -> Result<*mut Self, Failure> {
        let (needed, align) = (size_of::<Self>(), align_of::<Self>());
        // SAFETY: the caller promises what `memory` asks for: where the bytes pass its checks, nobody else uses them.
        let memory = unsafe { ptr::memory("memory", memory.cast(), len, needed, align) }?;
        Ok(Self::place(memory, value)?)
    }

    /// Returns the object at a pointer of the caller's.
    ///
    /// # Errors
    /// [`status::E_NULL`], [`status::E_ALIGNMENT`], [`status::E_OBJECT`]; [`status::E_REENTRANT`] during a call that
    /// changes the object.
    ///
    /// # Safety
    /// At a pointer that passes the checks for NULL and alignment is an initialised `u64`. If that is
    /// [`Opaque::MAGIC`], an object from [`Object::place`] or a copy of one is there, still valid during `'a`, and
    /// nobody changes it.
    pub unsafe fn get<'a>(what: &str, object: *const Self) -> Result<&'a T, Failure> {
        // SAFETY: the caller promises a `u64` at a pointer that is not NULL and aligned, and a whole object after the
        // magic word; an object starts with its head.
        unsafe { check(what, object.cast(), Layout::new::<Self>(), T::MAGIC, Use::Look) }?;
        // SAFETY: `check` has found that it is not NULL, aligned, and has the magic word and its own address. No call
        // that changes it runs (the count says so), and the caller promises that none begins during `'a`.
        Ok(unsafe { &(*object).value })
    }

    /// Does what [`Object::get`] does, for a call that calls the host. Until that call ends, nobody can change the
    /// object.
    ///
    /// # Errors
    /// As [`Object::get`].
    ///
    /// # Safety
    /// As [`Object::get`].
    pub unsafe fn share<'a>(what: &str, object: *const Self) -> Result<Shared<'a, T>, Failure> {
        // SAFETY: the caller promises a `u64` at a pointer that is not NULL and aligned, and a whole object after the
        // magic word; an object starts with its head.
        let calls = unsafe { check(what, object.cast(), Layout::new::<Self>(), T::MAGIC, Use::Share) }?;
        // SAFETY: `check` has found that it is not NULL, aligned, and has the magic word and its own address. No call
        // that changes it runs, and until the count is given back none can begin.
        Ok(Shared { value: unsafe { &(*object).value }, calls })
    }

    /// Returns the object at a pointer of the caller's, to be changed.
    ///
    /// # Errors
    /// As [`Object::get`]; [`status::E_REENTRANT`] also during any call that looks at the object and calls the host.
    ///
    /// # Safety
    /// As [`Object::get`], and nobody else uses the object during `'a`, except through functions of this type.
    pub unsafe fn get_mut<'a>(what: &str, object: *mut Self) -> Result<Alone<'a, T>, Failure> {
        // SAFETY: the caller promises a `u64` at a pointer that is not NULL and aligned, and a whole object after the
        // magic word; an object starts with its head.
        let calls = unsafe { check(what, object.cast_const().cast(), Layout::new::<Self>(), T::MAGIC, Use::Change) }?;
        // SAFETY: `check` has found that it is not NULL, aligned, and has the magic word and its own address. No
        // other call has a reference, as the caller promises; until this one is given back, they are refused.
        Ok(Alone { value: unsafe { &mut (*object).value }, calls })
    }
}

/// An object that a call changes. When this is dropped, other calls may use the object.
#[derive(Debug)]
pub struct Alone<'a, T> {
    value: &'a mut T,
    calls: &'a AtomicU32,
}

impl<T> Deref for Alone<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Alone<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Drop for Alone<'_, T> {
    fn drop(&mut self) {
        self.calls.store(0, Ordering::Release);
    }
}

/// An object that a call looks at while the host may make other calls. When this is dropped, the object may be changed.
#[derive(Debug)]
pub struct Shared<'a, T> {
    value: &'a T,
    calls: &'a AtomicU32,
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Drop for Shared<'_, T> {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Release);
    }
}

/// What a call does with an object.
#[derive(Clone, Copy, Debug)]
enum Use {
    /// The call looks at the object and does not call the host.
    Look,
    /// The call looks at the object while the host may make other calls.
    Share,
    /// The call changes the object.
    Change,
}

impl Use {
    /// Returns whether the count of calls lets this use begin. If so, `Share` and `Change` are entered in the count.
    fn begin(self, calls: &AtomicU32) -> bool {
        let more = |calls: u32| calls.checked_add(1).filter(|&calls| calls != ALONE);
        match self {
            Self::Look => calls.load(Ordering::Acquire) != ALONE,
            Self::Share => calls.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok(),
            Self::Change => calls.compare_exchange(0, ALONE, Ordering::Acquire, Ordering::Relaxed).is_ok(),
        }
    }
}

/// Checks that an object is at a pointer, was made there, and can be used as `how` says. Returns its count of calls.
/// One function serves all types of objects.
///
/// # Safety
/// At a pointer that is not NULL and is aligned for `layout` is an initialised `u64`. If that is `magic`, a whole
/// [`Head`] is there during `'a`.
unsafe fn check<'a>(
    what: &str,
    object: *const Head,
    layout: Layout,
    magic: u64,
    how: Use,
) -> Result<&'a AtomicU32, Failure> {
    ptr::check_layout(what, object.addr(), layout, 1)?;
    // SAFETY: `check_layout` has found that it is not NULL and aligned; the caller promises that the word is there.
    if unsafe { (&raw const (*object).magic).read() } != magic {
        let text = format_args!("{what} is not one, or its memory was used for something else");
        return Err(Failure::new(status::E_OBJECT, text));
    }
    // SAFETY: the magic word is there, so the caller promises a whole head, and nobody ever changes the address in it.
    let address = unsafe { (&raw const (*object).address).read() };
    if address != object.addr() {
        let text = format_args!("{what} was moved: it is valid only where it was made");
        return Err(Failure::new(status::E_OBJECT, text).numbers(address, object.addr()));
    }
    // SAFETY: the magic word is there, so the caller promises a whole head, and its own address is in it: `place`
    // made it here. Since then the count is only changed atomically, so a shared reference to it is sound.
    let calls = unsafe { &(*object).calls };
    if !how.begin(calls) {
        let text = format_args!("{what} is in use by a call that has not returned");
        return Err(Failure::new(status::E_REENTRANT, text));
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Opaque for u16 {
        const MAGIC: u64 = 77;
    }

    /// Returns memory as bytes, aligned for objects.
    fn bytes(memory: &mut [u64; 8]) -> &mut [u8] {
        // SAFETY: the bytes of the array, which is borrowed for as long.
        unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), size_of_val(memory)) }
    }

    #[test]
    fn objects_are_recognised() {
        let mut memory = [0u64; 8];
        let bytes = bytes(&mut memory);
        let (needed, given) = (size_of::<Object<u16>>(), 15);
        assert_eq!(Object::place(&mut bytes[..15], 5u16).unwrap_err(), MemoryError::TooSmall { needed, given });
        let off = Object::place(&mut bytes[1..], 5u16).unwrap_err();
        assert_eq!(off, MemoryError::Misaligned { needed: 8, off_by: 1 });
        let object = Object::place(bytes, 5u16).unwrap();
        // SAFETY: `object` was just placed in `memory`, which lives longer and which nothing else uses. The other
        // pointers are NULL, misaligned, or lead to initialised words of `memory`.
        unsafe {
            *Object::get_mut("thing", object).unwrap() += 1;
            assert_eq!(*Object::get("thing", object).unwrap(), 6);
            let other = object.cast::<u64>().wrapping_add(4).cast::<Object<u16>>();
            let failures = [
                Object::get("thing", other).unwrap_err(),
                Object::get("thing", object.wrapping_byte_add(1)).unwrap_err(),
                Object::<u16>::get("thing", core::ptr::null()).unwrap_err(),
            ];
            assert_eq!(failures.map(|f| f.status()), [status::E_OBJECT, status::E_ALIGNMENT, status::E_NULL]);
        }
    }

    #[test]
    fn a_copy_of_an_object_is_none() {
        let mut memory = [0u64; 8];
        let object = Object::place(bytes(&mut memory), 5u16).unwrap();
        // SAFETY: `object` was just placed in `memory`, which lives longer and which nothing else uses. Behind it are
        // enough words for a copy of it.
        unsafe {
            let copy = object.cast::<u64>().wrapping_add(4).cast::<Object<u16>>();
            object.copy_to_nonoverlapping(copy, 1);
            assert_eq!(Object::get("thing", copy).unwrap_err().status(), status::E_OBJECT);
            assert_eq!(Object::get_mut("thing", copy).unwrap_err().status(), status::E_OBJECT);
            assert_eq!(Object::share("thing", copy).unwrap_err().status(), status::E_OBJECT);
            assert_eq!(*Object::get("thing", object).unwrap(), 5);
        }
    }

    #[test]
    fn an_object_in_use_is_refused_until_its_call_ends() {
        let mut memory = [0u64; 8];
        let object = Object::place(bytes(&mut memory), 5u16).unwrap();
        let refused = |failure: Failure| assert_eq!(failure.status(), status::E_REENTRANT);
        // SAFETY: `object` was just placed in `memory`, which lives longer and which nothing else uses.
        unsafe {
            let alone = Object::get_mut("thing", object).unwrap();
            refused(Object::get("thing", object).unwrap_err());
            refused(Object::get_mut("thing", object).unwrap_err());
            refused(Object::share("thing", object).unwrap_err());
            drop(alone);
            let shared = (Object::share("thing", object).unwrap(), Object::share("thing", object).unwrap());
            assert_eq!(*Object::get("thing", object).unwrap(), 5);
            refused(Object::get_mut("thing", object).unwrap_err());
            drop(shared.0);
            refused(Object::get_mut("thing", object).unwrap_err());
            drop(shared.1);
            assert_eq!(*Object::get_mut("thing", object).unwrap(), 5);
        }
    }
}
