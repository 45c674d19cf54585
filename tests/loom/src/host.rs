//! The pool, as it is in the library.

#[path = "../../../src/host/pool.rs"]
pub mod pool;

/// Nothing forks here.
mod fork {
    #[derive(Clone, Copy)]
    pub(super) struct Process;

    impl Process {
        pub(super) fn current() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn is_current(self) -> bool {
            true
        }
    }
}

/// No time passes here.
mod turn {
    pub(super) fn between_jobs() {}

    pub(super) fn leaves_job() -> bool {
        false
    }
}
