//! Callbacks that write to and read from a buffer.

/// Returns a sink that fills `buffer` from its start. It refuses bytes that do not fit.
pub(crate) fn into_slice(mut buffer: &mut [u8]) -> impl FnMut(&[u8]) -> bool {
    move |bytes| {
        let Some((place, rest)) = core::mem::take(&mut buffer).split_at_mut_checked(bytes.len()) else { return false };
        copy(place, bytes);
        buffer = rest;
        true
    }
}

/// Returns a source that gives `bytes` from their start.
pub(crate) fn from_slice(mut bytes: &[u8]) -> impl FnMut(&mut [u8]) -> Option<usize> {
    move |place| {
        let (given, rest) = bytes.split_at_checked(place.len()).unwrap_or((bytes, &[]));
        copy(place, given);
        bytes = rest;
        Some(given.len())
    }
}

/// Copies bytes until one of the slices ends.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from;
    }
}
