//! What the library says about itself.

use core::ffi::{CStr, c_char};

use crate::status;

/// The number of the ABI: it changes only when programs have to be compiled again.
pub const GLEED_ABI_VERSION: u32 = 1;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// The library's version, "0.1.0" for example. Static, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_version() -> *const c_char {
    VERSION.as_ptr()
}

/// [`GLEED_ABI_VERSION`] of the library that is linked.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_abi_version() -> u32 {
    GLEED_ABI_VERSION
}

/// The version of the arithmetic: equal numbers mean equal bits.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_arithmetic_version() -> u32 {
    gleed::num::ARITHMETIC_VERSION
}

/// A short English text for a status. Static, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_status_text(status: i32) -> *const c_char {
    status::text(status).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_package_version() {
        assert_eq!(VERSION.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
    }
}
