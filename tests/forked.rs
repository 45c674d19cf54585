//! A thread pool in the child of a process that has forked. The child has none of the pool's threads.
#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gleed::host::ThreadPool;
use gleed::par::Parallel;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

/// Runs `work` in a child process. Returns 0 if it returns true, and another number if it returns false, panics, or
/// takes longer than ten seconds.
fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls `work`, which waits for no lock that another thread of this process holds, and then ends.
    let child = unsafe { fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: the function takes no pointer.
        unsafe { alarm(10) };
        // The child is a copy of the test process, and a panic must not continue there.
        let result = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the function takes no pointer, and does not return.
        unsafe { _exit(result.map_or(2, |right| i32::from(!right))) };
    }
    let mut status = 0;
    // SAFETY: `status` is a live i32, to which the call writes.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Returns the number of slots that a run used. Each slot is called at most once.
fn slots_of_a_run(pool: &ThreadPool) -> usize {
    let count = AtomicUsize::new(0);
    pool.run(pool.slots(), &|_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    count.into_inner()
}

#[test]
fn the_caller_does_all_work_and_a_drop_returns() {
    for round in 0..20 {
        // The threads sleep, or they look for work.
        let spin = Duration::from_millis(if round % 2 == 0 { 0 } else { 50 });
        let pool = ThreadPool::with_spin(3, spin).unwrap();
        (0..50).for_each(|_| _ = slots_of_a_run(&pool));
        thread::sleep(Duration::from_millis(round % 4));
        let mut pool = Some(pool);
        let status = in_child(|| {
            let alone = (0..100).all(|_| slots_of_a_run(pool.as_ref().unwrap()) == 1);
            drop(pool.take());
            alone
        });
        assert_eq!(status, 0, "round {round}");
        // The parent, which has the threads, works as before.
        assert!((1..=3).contains(&slots_of_a_run(pool.as_ref().unwrap())));
    }
}

/// The process forks while another thread is inside of a run. The child sees a busy pool, with a job and workers that
/// will never finish it.
#[test]
fn a_fork_beside_a_run() {
    let pool = ThreadPool::with_spin(3, Duration::ZERO).unwrap();
    let (inside, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            pool.run(3, &|_| {
                inside.fetch_add(1, Ordering::SeqCst);
                while over.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
            });
        });
        while inside.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        let status = in_child(|| {
            let alone = (0..100).all(|_| slots_of_a_run(&pool) == 1);
            // SAFETY: the child ends before anybody uses this pool again, so it is not dropped twice in the child.
            drop(unsafe { core::ptr::read(&raw const pool) });
            alone
        });
        over.store(1, Ordering::SeqCst);
        assert_eq!(status, 0);
    });
}

/// A child that makes its own pool has threads again.
#[test]
fn a_pool_of_the_child() {
    let status = in_child(|| {
        let pool = ThreadPool::new(2).unwrap();
        let started = AtomicUsize::new(0);
        pool.run(2, &|_| {
            started.fetch_add(1, Ordering::SeqCst);
            while started.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
        true
    });
    assert_eq!(status, 0);
}
