//! Checks that functions with texts share: flags, lengths, UTF-8, room for the result.

use gleed::token::{TokenError, Tokenizer};

use crate::error::Failure;
use crate::status;

/// Returns the caller's flags, if all of them are known.
///
/// # Errors
/// [`status::E_VALUE`]
pub(crate) fn known_flags(given: u32, known: u32) -> Result<u32, Failure> {
    if given & !known == 0 {
        return Ok(given);
    }
    Err(Failure::new(status::E_VALUE, format_args!("flags {given:#x}, known are {known:#x}")).numbers(known, given))
}

/// Checks that a text of so many bytes is not too long to be encoded. The text is not read.
///
/// # Errors
/// [`status::E_TEXT_TOO_LONG`]
pub(crate) fn check_text_len(bytes: usize) -> Result<(), Failure> {
    let limit = Tokenizer::MAX_TEXT;
    if bytes > limit { Err(TokenError::TextTooLong { bytes, limit }.into()) } else { Ok(()) }
}

/// Returns bytes of the caller's as a text.
///
/// # Errors
/// [`status::E_TEXT`]
pub(crate) fn utf8(text: &[u8]) -> Result<&str, Failure> {
    core::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        Failure::new(status::E_TEXT, format_args!("the text is not UTF-8 at byte {at}")).at(at)
    })
}

/// Checks that the output of a call, which was tried without a buffer, fits a buffer of `given` elements.
pub(crate) fn check_fits(trial: Result<(), TokenError>, given: usize) -> Result<(), Failure> {
    match trial {
        Err(TokenError::OutputTooSmall { needed, .. }) if needed <= given => Ok(()),
        Err(TokenError::OutputTooSmall { needed, .. }) => Err(TokenError::OutputTooSmall { needed, given }.into()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}
