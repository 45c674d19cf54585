//! A bump arena over the caller's bytes.
//!
//! The same code measures (over [`Arena::measuring`], where every slice is empty) and carves (over [`Arena::new`]), so
//! the two cannot disagree.

use core::fmt;

use bytemuck::Pod;

/// Alignment of the caller's memory and of every section in it, in bytes: a cache line.
pub const ALIGN: usize = 64;

/// A named part of the caller's memory.
///
/// [Example](crate::mem#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name of the contents.
    pub name: &'static str,
    /// Distance from the start of the caller's memory, in bytes; a multiple of [`ALIGN`].
    pub offset: usize,
    /// The size in bytes, without the padding after the section.
    pub bytes: usize,
}

/// A reason why the caller's memory cannot be used.
///
/// [Example](crate::mem#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// The memory is smaller than the plan.
    TooSmall {
        /// Number of bytes that are needed.
        needed: usize,
        /// Number of bytes that were given.
        given: usize,
    },
    /// The memory does not start at a multiple of [`ALIGN`].
    Misaligned {
        /// Alignment that is needed, in bytes.
        needed: usize,
        /// Number of bytes from the last aligned address to the start of the memory.
        off_by: usize,
    },
    /// The requested sizes exceed the addresses of this machine.
    TooLarge,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooSmall { needed, given } => write!(f, "memory too small: {needed} bytes needed, {given} given"),
            Self::Misaligned { needed, off_by } => {
                write!(f, "memory must start at a multiple of {needed} bytes, it is off by {off_by}")
            }
            Self::TooLarge => f.write_str("the limits need more memory than this machine can address"),
        }
    }
}

impl core::error::Error for MemoryError {}

/// Hands out typed slices of one piece of memory, one after the other.
///
/// [Example](crate::mem#example).
#[derive(Debug)]
pub struct Arena<'a> {
    /// The memory that is not handed out yet, or `None` while measuring.
    rest: Option<&'a mut [u8]>,
    given: usize,
    used: usize,
    sections: heapless::Vec<Section, 48>,
}

impl<'a> Arena<'a> {
    /// Returns an arena that only counts: its slices are empty.
    pub const fn measuring() -> Self {
        Self { rest: None, given: 0, used: 0, sections: heapless::Vec::new() }
    }

    /// Returns an arena over `memory`, which must start at a multiple of [`ALIGN`]. The bytes are not touched.
    ///
    /// # Errors
    /// [`MemoryError::Misaligned`].
    pub fn new(memory: &'a mut [u8]) -> Result<Self, MemoryError> {
        let off_by = memory.as_ptr().addr() % ALIGN;
        if off_by != 0 {
            return Err(MemoryError::Misaligned { needed: ALIGN, off_by });
        }
        Ok(Self { given: memory.len(), rest: Some(memory), used: 0, sections: heapless::Vec::new() })
    }

    /// Returns the next `len` elements. They start at a multiple of [`ALIGN`] and contain what the memory held. The
    /// slice is empty while measuring.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`] if the size overflows, and [`MemoryError::TooSmall`] if it does not fit. The arena
    /// does not change then.
    pub fn slice<T: Pod>(&mut self, name: &'static str, len: usize) -> Result<&'a mut [T], MemoryError> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(MemoryError::TooLarge)?;
        match self.take(name, bytes)? {
            // This is the case while measuring, too. An empty slice of bytes need not have the alignment of elements.
            [] => Ok(&mut []),
            taken => bytemuck::try_cast_slice_mut(taken).map_err(|_| MemoryError::TooLarge),
        }
    }

    /// Hands out the next bytes, or none while measuring.
    #[inline(never)] // compiled once for all types of elements
    fn take(&mut self, name: &'static str, bytes: usize) -> Result<&'a mut [u8], MemoryError> {
        let padded = bytes.checked_next_multiple_of(ALIGN).ok_or(MemoryError::TooLarge)?;
        let end = self.used.checked_add(padded).ok_or(MemoryError::TooLarge)?;
        if isize::try_from(end).is_err() {
            return Err(MemoryError::TooLarge);
        }
        let too_small = MemoryError::TooSmall { needed: end, given: self.given };
        if self.rest.as_ref().is_some_and(|rest| rest.len() < padded) {
            return Err(too_small);
        }
        let taken = match self.rest.take() {
            None => &mut [],
            Some(rest) => {
                let (taken, rest) = rest.split_at_mut_checked(padded).ok_or(too_small)?;
                self.rest = Some(rest);
                taken.get_mut(..bytes).ok_or(too_small)?
            }
        };
        if bytes > 0 {
            // A full report loses names and no memory. The engine has fewer sections than fit.
            let _ = self.sections.push(Section { name, offset: self.used, bytes });
        }
        self.used = end;
        Ok(taken)
    }

    /// Returns the number of bytes handed out so far, with padding.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns the slices handed out so far, in order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk<'a>(arena: &mut Arena<'a>) -> Result<(&'a mut [u32], &'a mut [f64]), MemoryError> {
        Ok((arena.slice("ids", 3)?, arena.slice("sums", 20)?))
    }

    fn aligned(memory: &mut [u8]) -> &mut [u8] {
        let start = memory.as_ptr().align_offset(ALIGN);
        &mut memory[start..]
    }

    #[test]
    fn measuring_and_carving_agree() {
        let mut measuring = Arena::measuring();
        let (ids, sums) = walk(&mut measuring).unwrap();
        assert!(ids.is_empty() && sums.is_empty());
        assert_eq!(measuring.used(), 64 + 192);

        let mut memory = vec![7u8; measuring.used() + ALIGN];
        let memory = &mut aligned(&mut memory)[..measuring.used()];
        let mut arena = Arena::new(memory).unwrap();
        let (ids, sums) = walk(&mut arena).unwrap();
        assert_eq!((ids.len(), sums.len()), (3, 20));
        assert_eq!(ids[0], 0x0707_0707);
        assert_eq!(arena.sections(), measuring.sections());
        assert_eq!(arena.used(), measuring.used());
    }

    /// Checks all small lengths of three slices: they follow each other, aligned, and the measured size is the carved
    /// one.
    #[test]
    fn every_small_arena_is_as_measured() {
        let mut memory = vec![0u8; 3 * 640];
        let memory = aligned(&mut memory);
        for (bytes, words) in (0..=70).flat_map(|bytes| (0..=70).map(move |words| (bytes, words))) {
            let longs = (bytes + words) % 70;
            let walk = |arena: &mut Arena<'_>| {
                let lens =
                    (arena.slice::<u8>("b", bytes).map(|b| b.len()), arena.slice::<u32>("w", words).map(|w| w.len()));
                (lens, arena.slice::<u64>("l", longs).map(|l| l.len()))
            };
            let mut measuring = Arena::measuring();
            assert_eq!(walk(&mut measuring), ((Ok(0), Ok(0)), Ok(0)));
            let (needed, mut offset) = (measuring.used(), 0);
            let mut arena = Arena::new(&mut memory[..needed]).unwrap();
            assert_eq!(walk(&mut arena), ((Ok(bytes), Ok(words)), Ok(longs)));
            let sizes = [bytes, 4 * words, 8 * longs].into_iter().filter(|&size| size > 0);
            assert!(arena.sections().iter().map(|section| section.bytes).eq(sizes));
            for section in arena.sections() {
                assert_eq!(section.offset, offset);
                offset += section.bytes.next_multiple_of(ALIGN);
            }
            assert_eq!((offset, arena.sections()), (needed, measuring.sections()));
            // One byte less is too little.
            if needed > 0 {
                let (lens, longs) = walk(&mut Arena::new(&mut memory[..needed - 1]).unwrap());
                assert!(lens.0.is_err() || lens.1.is_err() || longs.is_err());
            }
        }
    }

    /// Checks sizes around the largest size that an object can have, behind slices of some sizes.
    #[test]
    fn sizes_that_no_machine_can_address_are_refused() {
        const MOST: usize = isize::MAX as usize;
        for before in [0, 1, 64, 65, 4096] {
            for len in MOST - 200 - before..=MOST + 3 {
                let mut arena = Arena::measuring();
                arena.slice::<u8>("before", before).unwrap();
                let end = arena.used() as u128 + (len as u128).next_multiple_of(ALIGN as u128);
                let fits = end <= MOST as u128;
                let sliced = arena.slice::<u8>("x", len).map(|x| x.len());
                assert_eq!(sliced, if fits { Ok(0) } else { Err(MemoryError::TooLarge) }, "{before} {len}");
            }
        }
        for len in (usize::MAX / 8 - 20..=usize::MAX / 8 + 20).chain(usize::MAX - 20..=usize::MAX) {
            assert_eq!(Arena::measuring().slice::<u64>("x", len), Err(MemoryError::TooLarge));
        }
    }

    #[test]
    fn errors_say_what_was_needed() {
        let mut memory = vec![0u8; 256 + ALIGN];
        let memory = aligned(&mut memory);
        let mut arena = Arena::new(&mut memory[..255]).unwrap();
        assert_eq!(walk(&mut arena).unwrap_err(), MemoryError::TooSmall { needed: 256, given: 255 });
        // After a refusal, a slice that fits can still be taken.
        let mut arena = Arena::new(&mut memory[..128]).unwrap();
        assert_eq!(arena.slice::<u8>("x", 129).unwrap_err(), MemoryError::TooSmall { needed: 192, given: 128 });
        assert_eq!(arena.slice::<u8>("y", 128).map(|bytes| bytes.len()), Ok(128));
        let error = Arena::new(&mut memory[1..]).unwrap_err();
        assert_eq!(error, MemoryError::Misaligned { needed: 64, off_by: 1 });
        assert_eq!(Arena::measuring().slice::<u64>("x", usize::MAX / 4).unwrap_err(), MemoryError::TooLarge);
    }
}
