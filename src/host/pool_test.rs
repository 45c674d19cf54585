//! The pool: no work is lost or done twice, a panic reaches the caller, and the caller sleeps until all work is done.

use std::thread;

use super::*;
use crate::mem::Matrix;

/// Fills 96 tiles on the pool. Returns whether each element was written once.
fn fills(pool: &ThreadPool, data: &mut [u32]) -> bool {
    data.fill(0);
    let tiles = Matrix::new(data, 24, 64).unwrap().tiles(2, 8, 0..usize::MAX).unwrap();
    pool.run(pool.slots(), &|_| {
        while let Some(mut tile) = tiles.next() {
            for row in tile.rows() {
                for value in tile.row_mut(row).unwrap() {
                    *value += row as u32 + 1;
                }
            }
        }
    });
    data.chunks(64).enumerate().all(|(row, values)| values.iter().all(|&value| value == row as u32 + 1))
}

#[test]
fn no_work_is_lost_or_done_twice() {
    let mut data = vec![0; 24 * 64];
    for threads in 1..=4 {
        for spin in [Duration::ZERO, SPIN] {
            let pool = ThreadPool::with_spin(threads, spin).unwrap();
            assert_eq!(pool.slots(), threads);
            for round in 0..400 {
                assert!(fills(&pool, &mut data), "{threads} threads, round {round}");
                if round % 100 == 50 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

#[test]
fn each_slot_is_called_at_most_once_and_slot_0_always() {
    let pool = ThreadPool::new(4).unwrap();
    for slots in [0, 1, 2, 4, 9] {
        for _ in 0..100 {
            let calls: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
            pool.run(slots, &|slot| {
                calls[slot].fetch_add(1, Ordering::Relaxed);
            });
            let calls: Vec<usize> = calls.into_iter().map(AtomicUsize::into_inner).collect();
            assert_eq!(calls[0], 1);
            assert!(calls.iter().all(|&n| n <= 1));
            assert!(calls.iter().skip(slots.max(1)).all(|&n| n == 0), "{slots} slots");
        }
    }
}

#[test]
fn workers_do_take_part() {
    let pool = ThreadPool::new(2).unwrap();
    let started = AtomicUsize::new(0);
    // Each side waits for the other one, so a caller without workers would wait for ever.
    pool.run(2, &|_| {
        started.fetch_add(1, Ordering::SeqCst);
        while started.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    });
}

#[test]
fn the_caller_sleeps_until_a_slow_worker_is_done() {
    let pool = ThreadPool::new(2).unwrap();
    let started = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    for round in 1..=3 {
        pool.run(2, &|slot| {
            started.fetch_add(1, Ordering::SeqCst);
            while started.load(Ordering::SeqCst) < 2 * round {
                thread::yield_now();
            }
            if slot == 1 {
                thread::sleep(Duration::from_millis(5));
                finished.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert_eq!(finished.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_run_inside_a_run_has_one_slot() {
    let pool = ThreadPool::new(2).unwrap();
    let count = AtomicUsize::new(0);
    pool.run(2, &|slot| {
        if slot == 0 {
            pool.run(2, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(count.into_inner(), 1);
}

#[test]
fn several_threads_share_the_pool() {
    let pool = ThreadPool::new(3).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut data = vec![0; 24 * 64];
                assert!((0..100).all(|_| fills(&pool, &mut data)));
            });
        }
    });
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    let pool = ThreadPool::new(2).unwrap();
    for wrong in 0..2 {
        let started = AtomicUsize::new(0);
        let run = || {
            pool.run(2, &|slot| {
                started.fetch_add(1, Ordering::SeqCst);
                while started.load(Ordering::SeqCst) < 2 {
                    thread::yield_now();
                }
                if slot == wrong {
                    panic::resume_unwind(Box::new(slot));
                }
            })
        };
        let panic = panic::catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&wrong));
        assert!(fills(&pool, &mut vec![0; 24 * 64]));
    }
}

#[test]
fn the_number_of_threads_is_checked() {
    for wrong in [0, MAX_THREADS + 1, usize::MAX] {
        assert_eq!(ThreadPool::new(wrong).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
