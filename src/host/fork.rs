//! Recognizes the child of a process that has called `fork`.
//!
//! A child has only the thread that called `fork`. Code that has started threads asks here whether they still exist.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks between this process and the first process that called [`system::watch`].
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, as distinct from its children.
#[derive(Clone, Copy)]
pub(super) struct Process {
    forks: u32,
}

impl Process {
    /// Returns the calling process.
    ///
    /// # Errors
    /// The error of the system if it has no memory for a fork handler.
    pub(super) fn current() -> io::Result<Self> {
        system::watch()?;
        Ok(Self { forks: FORKS.load(Ordering::Relaxed) })
    }

    /// Returns whether the calling process is this one, and not a child that `fork` has made from it.
    pub(super) fn is_current(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

/// Systems that have `fork`. (Miri does not have it.)
#[cfg(all(
    not(miri),
    any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "illumos",
        target_os = "solaris",
    )
))]
mod system {
    use std::ffi::c_int;
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering;

    type Handler = Option<extern "C" fn()>;

    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    extern "C" fn in_child() {
        super::FORKS.fetch_add(1, Ordering::Relaxed);
    }

    /// Registers the handler by which children count themselves in `FORKS`.
    pub(super) fn watch() -> io::Result<()> {
        static REGISTERED: OnceLock<c_int> = OnceLock::new();
        // SAFETY: the signature is that of POSIX, and a handler may be absent. The one given lives as long as the
        // program, touches one atomic number, and so may run in the child of a process with several threads.
        let error = *REGISTERED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(in_child)) });
        if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

#[cfg(any(
    miri,
    not(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "illumos",
        target_os = "solaris",
    ))
))]
mod system {
    /// Does nothing: there is no `fork` here.
    pub(super) fn watch() -> std::io::Result<()> {
        Ok(())
    }
}
