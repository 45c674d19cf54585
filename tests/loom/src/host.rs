//! The library's pool.

#[path = "../../../src/host/pool.rs"]
pub mod pool;

/// In this test no process forks.
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

/// In this test no time passes.
mod turn {
    pub(super) fn between_jobs() {}

    pub(super) fn leaves_job() -> bool {
        false
    }
}
