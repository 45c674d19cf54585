//! Status numbers. They are part of the ABI: a number never changes its meaning and is never used again.
//!
//! 0 is done; > 0 are ordinary outcomes, after which the caller goes on; < 0 are errors, in blocks of 100
//! by what was wrong: -1 the call, -100 memory, -200 the file, -300 the model, -400 limits,
//! -500 sequences and rows, -600 results, -700 text, -800 snapshots.

use core::ffi::CStr;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: i32 = $number;)*

        /// Every status: its name in the header (without `GLEED_`) and its number.
        pub const ALL: &[(&str, i32)] = &[$((stringify!($name), $number)),*];

        /// A short English text, also for numbers that this version does not know.
        pub fn text(status: i32) -> &'static CStr {
            match status {
                $($number => $text,)*
                1.. => c"an outcome that this version does not know",
                _ => c"an error that this version does not know",
            }
        }
    };
}

statuses! {
    /// The call did what it was asked for.
    OK = 0, c"done";
    /// The budget is used up; the next call goes on where this one stopped.
    YIELDED = 1, c"the budget is used up, call again";
    /// No free block or slot; nothing has changed.
    FULL = 2, c"full, nothing has changed";
    /// A stop condition was met.
    STOPPED = 3, c"a stop condition was met";

    /// A pointer that must not be NULL is.
    E_NULL = -1, c"a pointer is NULL";
    /// `struct_size` is not that of a struct this version knows, or fields it does not know are set.
    E_STRUCT_SIZE = -2, c"struct_size is wrong, or fields that this version does not know are set";
    /// A pointer is not aligned for what it points to.
    E_ALIGNMENT = -3, c"a pointer is not aligned for its type";
    /// A pointer and a length together pass the end of the address space.
    E_LENGTH = -4, c"a length passes the end of the address space";
    /// An argument has a value that the function does not take.
    E_VALUE = -5, c"an argument is out of range";

    /// The memory is smaller than planned.
    E_MEMORY_TOO_SMALL = -100, c"the memory is too small";
    /// The memory does not start at a multiple of the planned alignment.
    E_MEMORY_MISALIGNED = -101, c"the memory is not aligned";
    /// The limits need more memory than the machine can address.
    E_MEMORY_TOO_LARGE = -102, c"more memory is needed than the machine can address";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_signs_mean_what_they_say() {
        for (i, &(name, number)) in ALL.iter().enumerate() {
            assert_eq!(name.starts_with("E_"), number < 0, "{name}");
            assert!(ALL[..i].iter().all(|&(_, other)| other != number), "{name}");
        }
        assert_eq!(text(E_LENGTH), c"a length passes the end of the address space");
        assert_eq!(text(i32::MAX), c"an outcome that this version does not know");
        assert_eq!(text(i32::MIN), c"an error that this version does not know");
    }
}
