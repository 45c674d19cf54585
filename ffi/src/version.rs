//! Versions of the library, and texts for statuses.

use core::ffi::{CStr, c_char};

use crate::status;

/// The version of the ABI. It changes only when programs have to be compiled again.
pub const GLEED_ABI_VERSION: u32 = 1;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// Returns the library's version, "0.1.0" for example. The text is static and never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns [`GLEED_ABI_VERSION`] of the library that is linked.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_abi_version() -> u32 {
    GLEED_ABI_VERSION
}

/// Returns the version of the arithmetic. Libraries with equal numbers compute equal bits.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_arithmetic_version() -> u32 {
    gleed::num::ARITHMETIC_VERSION
}

/// Returns a short English text for a status. The text is static and never NULL.
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
