//! The models that loom tries: jobs on a pool, tiles that several threads take, and the loop over tiles.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom::cell::UnsafeCell;

use crate::host::pool::ThreadPool;
use crate::mem::{Claims, Matrix};
use crate::par::{Budget, Parallel, Watch, for_each_tile};

pub const ALL: [(&str, fn()); 9] = [
    ("one_job", || jobs(2, 1)),
    ("two_jobs", || jobs(2, 2)),
    ("three_threads", || jobs(3, 1)),
    ("two_callers", two_callers),
    ("drop_at_once", || drop(pool(2))),
    ("a_panic", a_panic),
    ("tiles", tiles),
    ("claims", claims),
    ("loop_over_tiles", loop_over_tiles),
];

/// Runs a model in all orders of its threads. Returns the number of orders.
pub fn try_all(preemptions: usize, model: fn()) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    count.load(Ordering::Relaxed)
}

/// An element that loom watches. It reports an error if two threads write it at the same time.
struct Watched(UnsafeCell<usize>);

impl Watched {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add(&self) {
        // SAFETY: loom ends the run if another thread uses the element at the same time.
        self.0.with_mut(|number| unsafe { *number += 1 });
    }

    fn get(&self) -> usize {
        // SAFETY: loom ends the run if another thread writes the element at the same time.
        self.0.with(|number| unsafe { *number })
    }
}

// SAFETY: threads may share the element because loom checks every access and ends the run if two are at the same time.
unsafe impl Sync for Watched {}

fn pool(threads: usize) -> ThreadPool {
    ThreadPool::with_spin(threads, Duration::ZERO).expect("threads")
}

/// Runs jobs one after the other. The slots of a body live only for its job, so a worker that is late is an error.
fn jobs(threads: usize, jobs: usize) {
    let pool = pool(threads);
    for _ in 0..jobs {
        let slots: Vec<Watched> = (0..threads).map(|_| Watched::new()).collect();
        pool.run(threads, &|slot| slots[slot].add());
        assert_eq!(slots[0].get(), 1, "the caller works, too");
        assert!(slots.iter().all(|slot| slot.get() <= 1), "each slot once");
    }
}

/// Two threads call the pool at once. One shares its job, and the other runs its job alone.
fn two_callers() {
    let pool = loom::sync::Arc::new(pool(2));
    let other = loom::sync::Arc::clone(&pool);
    let caller = loom::thread::spawn(move || run_once(&other));
    run_once(&pool);
    caller.join().expect("no panic");
}

fn run_once(pool: &ThreadPool) {
    let slots = [Watched::new(), Watched::new()];
    pool.run(2, &|slot| slots[slot].add());
    assert_eq!(slots[0].get(), 1);
}

/// A body that panics ends its job, and the pool takes the next one.
fn a_panic() {
    let pool = pool(2);
    let run = || pool.run(2, &|_| std::panic::resume_unwind(Box::new(7)));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert!(result.is_err_and(|panic| panic.downcast_ref() == Some(&7)));
    run_once(&pool);
}

/// Two threads take tiles of a matrix until none is left. Each element is in exactly one tile.
fn tiles() {
    let mut elements: Vec<Watched> = (0..6).map(|_| Watched::new()).collect();
    {
        let tiles = Matrix::new(&mut elements, 3, 2).and_then(|matrix| matrix.tiles(2, 1, 0..9)).expect("tiles");
        let fill = || {
            while let Some(mut tile) = tiles.next() {
                tile.rows().for_each(|row| tile.row_mut(row).expect("a row of the tile").iter().for_each(Watched::add));
            }
        };
        both(&fill);
    }
    assert!(elements.iter().all(|element| element.get() == 1));
}

/// Two threads claim tiles by their indices.
fn claims() {
    let mut elements: Vec<Watched> = (0..3).map(|_| Watched::new()).collect();
    {
        let tiles = Matrix::new(&mut elements, 3, 1).and_then(Matrix::by_row).expect("tiles");
        let claims = Claims::new(tiles);
        let fill = || {
            for index in 0..3 {
                let Some(mut tile) = claims.take(index) else { continue };
                tile.row_mut(index).expect("a row of the tile").iter().for_each(Watched::add);
            }
        };
        both(&fill);
    }
    assert!(elements.iter().all(|element| element.get() == 1));
}

/// Two lanes on a pool of two threads.
fn loop_over_tiles() {
    let pool = pool(2);
    let mut elements: Vec<Watched> = (0..3).map(|_| Watched::new()).collect();
    {
        let mut scratch = [0.0; 2];
        let scratch = Matrix::new(&mut scratch, 2, 1).and_then(Matrix::by_row).expect("rows");
        let tiles = Matrix::new(&mut elements, 3, 1).and_then(Matrix::by_row).expect("tiles");
        let (one, two) = tiles.split_at(1);
        let left = for_each_tile(&pool, &[one, two], &scratch, &Watch::new(&Budget::default()), &|tile, _| {
            let row = tile.index();
            tile.row_mut(row).expect("a row of the tile").iter().for_each(Watched::add);
            Ok(())
        });
        assert_eq!(left, Ok(0));
    }
    assert!(elements.iter().all(|element| element.get() == 1));
}

/// Runs a body on two threads and waits for both.
fn both(body: &(dyn Fn() + Sync)) {
    // SAFETY: the thread is joined below, before the values that the body borrows are gone.
    let body: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(body) };
    let other = loom::thread::spawn(move || body());
    body();
    other.join().expect("no panic");
}
