//! A small thread pool.
//!
//! [`Parallel::run`] opens a job, works on it itself as slot 0, closes it, and waits for the workers that have joined
//! by then. A worker that is late finds the job closed, and nobody waits for it. So on a busy machine the pool loses
//! only its share of the processors. [`turn`] says how it shares them. A worker without work spins for a short time,
//! then yields to other threads, and then sleeps.
#![allow(unsafe_code)]

use std::any::Any;
use std::boxed::Box;
use std::fmt;
use std::format;
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::PoisonError;
use std::time::Duration;
use std::vec::Vec;

use super::fork::Process;
use super::turn;
use crate::par::Parallel;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Builder, Condvar, Instant, JoinHandle, LOOKS, Mutex,
    MutexGuard, Ordering, spin_loop, yield_now,
};

/// The most threads that a pool can have.
pub const MAX_THREADS: usize = 1024;

/// Time that a thread without work spins before it sleeps, longer than the gaps between the jobs of one token.
const SPIN: Duration = Duration::from_micros(100);
/// Time that a thread without work keeps the processor, longer than most gaps between jobs. A thread that yields may be
/// away for milliseconds, and would miss the next job.
const KEEP: Duration = Duration::from_micros(30);

/// The body of a job, as [`Parallel::run`] receives it.
type Body<'a> = &'a (dyn Fn(usize) + Sync);

/// Threads that wait for work. Dropping the pool ends and joins them.
///
/// Several threads may call [`Parallel::run`] at once, and so may a body. One job at a time is shared, and the others
/// run on their calling threads alone. A call allocates nothing. If a body panics, the other bodies of its job run to
/// their end, and then the panic continues in the caller.
///
/// In a child that `fork` has made from the process, these threads do not exist. Every call there runs on its calling
/// thread alone, and dropping the pool waits for no thread. (A body must not call `fork` and return in both processes.)
///
/// ```
/// use gleed::host::{AlignedBytes, ThreadPool};
/// use gleed::{Engine, Limits, Model, Plan};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
/// # let model = Model::open(&file)?;
/// let threads = ThreadPool::new(2)?;
/// let plan = Plan::new(&model, &Limits { context: 128, workers: 2, ..Limits::default() })?;
/// let mut memory = AlignedBytes::new(plan.bytes());
/// let mut engine = Engine::new(&model, &plan, memory.bytes())?;
/// engine.set_parallel(&threads);
/// # let seq = engine.open()?;
/// # engine.prefill(seq, &[1, 414, 435, 261, 385])?;
/// # Ok(())
/// # }
/// ```
pub struct ThreadPool {
    /// The process in which the threads exist.
    process: Process,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl ThreadPool {
    /// Starts a pool of `threads` threads, from 1 to [`MAX_THREADS`]. The caller of [`Parallel::run`] is one of them.
    ///
    /// # Errors
    /// `InvalidInput` for another number, or the error of the system if a thread cannot be started.
    pub fn new(threads: usize) -> io::Result<Self> {
        Self::with_spin(threads, SPIN)
    }

    /// Starts a pool as [`ThreadPool::new`] does. `spin` is the time that a thread without work spins before it sleeps.
    /// [`ThreadPool::new`] uses 100 µs.
    ///
    /// # Errors
    /// The errors of [`ThreadPool::new`].
    pub fn with_spin(threads: usize, spin: Duration) -> io::Result<Self> {
        Self::start(threads, spin, || ())
    }

    /// Starts a pool as [`ThreadPool::new`] does. One of the threads calls `first` first, and no job waits for it
    /// meanwhile.
    pub(super) fn with_first(threads: usize, first: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        Self::start(threads, SPIN, first)
    }

    fn start(threads: usize, spin: Duration, first: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        if !(1..=MAX_THREADS).contains(&threads) {
            let message = format!("a thread pool has from 1 to {MAX_THREADS} threads, not {threads}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let (process, shared) = (Process::current()?, Arc::new(Shared::new(spin)));
        let mut pool = Self { process, shared, workers: Vec::with_capacity(threads - 1) };
        let mut first = Some(first);
        for _ in 1..threads {
            let (shared, first) = (Arc::clone(&pool.shared), first.take());
            let work = move || {
                if let Some(first) = first {
                    first();
                }
                shared.work();
            };
            // If this fails, dropping the pool ends the threads that have been started.
            pool.workers.push(Builder::new().name("gleed".into()).spawn(work)?);
        }
        Ok(pool)
    }
}

impl Parallel for ThreadPool {
    fn run(&self, slots: usize, body: Body<'_>) {
        let slots = slots.min(self.slots());
        if slots <= 1 || !self.process.is_current() || self.shared.busy.swap(true, Ordering::Acquire) {
            return body(0);
        }
        self.shared.open(slots, &body);
        self.shared.call(0, body);
        self.shared.close();
        let panic = self.shared.lock().take();
        self.shared.busy.store(false, Ordering::Release);
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }

    fn slots(&self) -> usize {
        self.workers.len() + 1
    }

    fn leaves(&self) -> bool {
        turn::leaves_job()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The threads do not exist here, although one of them may have held the lock. The system has nothing of
            // them to free.
            self.workers.drain(..).for_each(mem::forget);
            return;
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        {
            let _guard = self.shared.lock();
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // A worker catches the panics of bodies and does not panic itself.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadPool({} threads)", self.slots())
    }
}

/// A guard that holds the lock of [`Shared::panic`].
type Guard<'l> = MutexGuard<'l, Option<Box<dyn Any + Send>>>;

/// One worker in the count of joined workers in [`Shared::state`].
const JOINED: u32 = 1 << 20;

struct Shared {
    /// The job: the next slot in bits 0..10, the number of slots in bits 10..20, and above them the number of workers
    /// that have joined and not finished. The job is open while the next slot is below the number of slots.
    state: AtomicU32,
    /// Address of the open job's body: a `*const Body`.
    body: AtomicPtr<()>,
    /// Whether a call of `run` uses the pool.
    busy: AtomicBool,
    /// Whether the workers are to end.
    stop: AtomicBool,
    /// Number of workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// Whether the caller sleeps or is about to.
    caller_sleeps: AtomicBool,
    /// The first panic of the job. Its lock is also held to sleep and to wake up.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    wake: Condvar,
    finished: Condvar,
    spin: Duration,
}

impl Shared {
    fn new(spin: Duration) -> Self {
        Self {
            state: AtomicU32::new(0),
            body: AtomicPtr::default(),
            busy: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            panic: Mutex::new(None),
            wake: Condvar::new(),
            finished: Condvar::new(),
            spin,
        }
    }

    /// Offers slots from 1 on to the workers. The caller has set `busy`, and `body` lives until [`Shared::close`].
    fn open(&self, slots: usize, body: &Body<'_>) {
        self.body.store(core::ptr::from_ref(body).cast_mut().cast(), Ordering::Relaxed);
        self.state.store((slots as u32) << 10 | 1, Ordering::SeqCst);
        // With sequential consistency, either this load sees the sleeper, or the sleeper sees the job before it sleeps.
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        if sleepers > 0 {
            let _guard = self.lock();
            for _ in 0..sleepers.min(slots - 1) {
                self.wake.notify_one();
            }
        }
    }

    /// Takes the job back and waits for the workers that have joined it.
    fn close(&self) {
        self.state.fetch_and(!(JOINED - 1), Ordering::SeqCst);
        let finished = || self.state.load(Ordering::SeqCst) == 0;
        if !self.spin_until(finished) {
            self.caller_sleeps.store(true, Ordering::SeqCst);
            self.wait(&self.finished, self.lock(), || !finished());
            self.caller_sleeps.store(false, Ordering::SeqCst);
        }
    }

    /// Runs a worker until the pool is dropped.
    fn work(&self) {
        loop {
            turn::between_jobs();
            let mut slot = None;
            let stopped = || self.stop.load(Ordering::SeqCst);
            let found = self.spin_until(|| {
                slot = self.join();
                slot.is_some() || stopped()
            });
            match slot {
                Some(slot) => self.call_joined(slot),
                None if found => return,
                None => self.sleep(),
            }
        }
    }

    /// Joins the open job and returns its next slot, or `None` if no job is open.
    fn join(&self) -> Option<usize> {
        let mut state = self.state.load(Ordering::SeqCst);
        while is_open(state) {
            // The job may have been closed and another one opened since the load. If the state is the same again, the
            // worker joins that other job.
            match self.state.compare_exchange_weak(state, state + JOINED + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(next_slot(state) as usize),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Runs a slot of the job that this worker has joined, and leaves the job.
    fn call_joined(&self, slot: usize) {
        // SAFETY: `open` stored the address of a `Body` on the stack of `run` before it stored the state
        // that this worker's exchange has read and counted itself in, so the load sees that address.
        // `run` stays in `close`, with the `Body` and what it borrows alive, until every worker that
        // has been counted in is counted out, which happens below, after the last use.
        let body = unsafe { *self.body.load(Ordering::Relaxed).cast::<Body<'_>>() };
        self.call(slot, body);
        let before = self.state.fetch_sub(JOINED, Ordering::SeqCst);
        // As in `open`: either this load sees that the caller sleeps, or the caller sees that the job is finished.
        if before == JOINED && self.caller_sleeps.load(Ordering::SeqCst) {
            let _guard = self.lock();
            self.finished.notify_one();
        }
    }

    /// Calls the body and keeps its panic for the caller.
    fn call(&self, slot: usize, body: Body<'_>) {
        // Only a host that catches a panic sees the data that the panic leaves half done.
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| body(slot))) {
            self.lock().get_or_insert(panic);
        }
    }

    fn sleep(&self) {
        let guard = self.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let idle = || !is_open(self.state.load(Ordering::SeqCst)) && !self.stop.load(Ordering::SeqCst);
        self.wait(&self.wake, guard, idle);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits, holding the lock whenever it is awake, while `holds` returns true.
    fn wait(&self, woken: &Condvar, mut guard: Guard<'_>, holds: impl Fn() -> bool) {
        while holds() {
            guard = woken.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls `ready` repeatedly for the spin time of the pool. Returns whether it returned true.
    fn spin_until(&self, mut ready: impl FnMut() -> bool) -> bool {
        let mut start = None;
        loop {
            for _ in 0..LOOKS {
                if ready() {
                    return true;
                }
                spin_loop();
            }
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited >= self.spin {
                return false;
            }
            if waited >= KEEP {
                // Another thread that needs this processor goes first. It may be the thread that is waited for.
                yield_now();
            }
        }
    }

    fn lock(&self) -> Guard<'_> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn next_slot(state: u32) -> u32 {
    state & 0x3ff
}

fn is_open(state: u32) -> bool {
    next_slot(state) < state >> 10 & 0x3ff
}

#[cfg(test)]
#[path = "pool_test.rs"]
mod tests;
