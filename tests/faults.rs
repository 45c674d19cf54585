//! Faults of the host: executors that lose, repeat, reorder and overlap work, clocks that jump, callbacks that fail,
//! signals, a fork, threads that die, and a file that shrinks while it is mapped. Either the bits are those of a good
//! host, or the call is refused and its sequence is as before.
#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use common::Memory;
use common::synthetic::SyntheticModel;
use gleed::host::{MappedFile, ThreadPool};
use gleed::par::{Parallel, Serial};
use gleed::{Budget, Deadline, Engine, EngineError, Limits, Logits, Model, Plan, SeqId, Step};

type Body<'b> = &'b (dyn Fn(usize) + Sync);

/// An executor made of a function. The function gets the number of the run, the slots and the body.
struct Host<F>(F, AtomicUsize);

impl<F: Fn(usize, usize, Body<'_>) + Sync> Host<F> {
    fn new(run: F) -> Self {
        Self(run, AtomicUsize::new(0))
    }
}

impl<F: Fn(usize, usize, Body<'_>) + Sync> Parallel for Host<F> {
    fn run(&self, slots: usize, body: Body<'_>) {
        self.0(self.1.fetch_add(1, Ordering::SeqCst), slots, body);
    }

    fn slots(&self) -> usize {
        4
    }
}

fn model() -> Vec<u8> {
    SyntheticModel { layers: 2, vocab: 40, context: 64, ..SyntheticModel::llama() }.bytes()
}

fn with_engine<R>(play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    with_engine_on(&Serial, play)
}

/// Calls `play` with an engine on this executor.
fn with_engine_on<R>(parallel: &dyn Parallel, play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let file = model();
    let model = Model::open(&file).unwrap();
    let limits = Limits { sequences: 3, context: 64, rows: 9, logit_rows: 9, workers: 4, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_parallel(parallel);
    play(&mut engine)
}

const PROMPT: [u32; 20] = [1, 5, 9, 2, 7, 7, 3, 0, 11, 39, 4, 8, 15, 16, 23, 1, 2, 3, 4, 5];

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Computes a prompt and some tokens after it. Returns the logits of the last token.
fn story(engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<Vec<u32>, EngineError> {
    engine.prefill(seq, &PROMPT)?;
    (0..3).try_for_each(|token| engine.decode_step(seq, token).map(drop))?;
    engine.decode_step(seq, 30).map(bits)
}

fn expected() -> Vec<u32> {
    with_engine(|engine| {
        let seq = engine.open().unwrap();
        story(engine, seq).unwrap()
    })
}

/// Work in any order, repeated, at the same time, or on some slots only gives the same bits.
#[test]
fn executors_that_reorder_repeat_and_overlap() {
    let backwards = Host::new(|_, slots, body: Body<'_>| (0..slots).rev().for_each(body));
    let thrice = Host::new(|_, slots, body: Body<'_>| (0..3 * slots).for_each(|call| body(call / 3)));
    let first = Host::new(|_, _, body: Body<'_>| body(0));
    let last = Host::new(|_, slots, body: Body<'_>| body(slots - 1));
    let changing = Host::new(|run, slots, body: Body<'_>| body(run % slots));
    let unknown = Host::new(|_, slots, body: Body<'_>| [usize::MAX, slots, 0].into_iter().for_each(body));
    // Every slot twice, and all of them at the same time.
    let overlapping = Host::new(|_, slots, body: Body<'_>| {
        thread::scope(|scope| (0..2 * slots).for_each(|call| drop(scope.spawn(move || body(call % slots)))));
    });
    let nested = Host::new(|_, slots, body: Body<'_>| {
        thread::scope(|scope| drop(scope.spawn(|| (0..slots).for_each(body))));
    });
    let hosts: [(&str, &dyn Parallel); 8] = [
        ("backwards", &backwards),
        ("thrice", &thrice),
        ("the first slot", &first),
        ("the last slot", &last),
        ("another slot each time", &changing),
        ("slots that there are not", &unknown),
        ("all twice at the same time", &overlapping),
        ("on another thread", &nested),
    ];
    let expected = expected();
    for (what, host) in hosts {
        with_engine_on(host, |engine| {
            let seq = engine.open().unwrap();
            assert_eq!(story(engine, seq).as_ref(), Ok(&expected), "{what}");
            assert_eq!(engine.cache().check(), Ok(()), "{what}");
        });
    }
}

/// The n-th run calls no body, for every n until the story ends before it. The call is an error, commits no token, and
/// afterwards the bits are the same.
#[test]
fn executors_that_lose_work() {
    let expected = expected();
    let mut failing = 0;
    loop {
        let host = Host::new(|run, slots, body: Body<'_>| (0..if run == failing { 0 } else { slots }).for_each(body));
        let is_over = with_engine_on(&host, |engine| {
            let seq = engine.open().unwrap();
            let result = story(engine, seq);
            if let Ok(bits) = result {
                assert_eq!(bits, expected);
                return host.1.load(Ordering::SeqCst) <= failing;
            }
            assert!(matches!(result, Err(EngineError::Internal(_))), "{result:?}");
            let length = engine.seq_len(seq).unwrap();
            assert!(!engine.is_busy() || engine.cancel(seq).is_ok());
            assert_eq!(engine.cache().check(), Ok(()));
            assert_eq!(engine.seq_len(seq), Ok(length));
            // The committed tokens are intact: the sequence goes on, and so does another one.
            engine.set_parallel(&Serial);
            engine.rewind(seq, 0).unwrap();
            for seq in [seq, engine.open().unwrap()] {
                assert_eq!(story(engine, seq).as_ref(), Ok(&expected), "after run {failing}");
            }
            false
        });
        if is_over {
            break;
        }
        failing += 1;
    }
    assert!(failing > 10, "{failing} runs");
}

/// Threads of the host that die before they call the body, and an executor that panics in a run.
#[test]
fn threads_that_die() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let expected = expected();
    let dying = Host::new(|run, slots, body: Body<'_>| {
        thread::scope(|scope| {
            for slot in 1..slots {
                let call = move || {
                    assert!((run + slot) % 3 != 0, "a thread of the host dies");
                    body(slot);
                };
                // This host expects some of its threads to die.
                drop(scope.spawn(move || drop(catch_unwind(AssertUnwindSafe(call)))));
            }
            body(0);
        });
    });
    with_engine_on(&dying, |engine| {
        let seq = engine.open().unwrap();
        assert_eq!(story(engine, seq).as_ref(), Ok(&expected));
    });
    // The n-th run panics after a part of its work.
    for failing in (0..60).step_by(7) {
        let host = Host::new(|run, slots, body: Body<'_>| {
            body(0);
            assert!(run != failing, "the executor dies");
            (1..slots).for_each(body);
        });
        with_engine_on(&host, |engine| {
            let seq = engine.open().unwrap();
            let died = catch_unwind(AssertUnwindSafe(|| story(engine, seq))).is_err();
            if died {
                engine.set_parallel(&Serial);
                // If the interrupted step was not complete, it has failed, and its tokens can be cancelled.
                let left = engine.step(usize::MAX);
                assert!(matches!(left, Ok(_) | Err(EngineError::Internal(_))), "{left:?}");
                let _ = engine.cancel(seq);
                assert_eq!(engine.cache().check(), Ok(()));
                let other = engine.open().unwrap();
                assert_eq!(story(engine, other).as_ref(), Ok(&expected), "beside run {failing}");
            }
        });
    }
    std::panic::set_hook(hook);
}

/// Clocks that go backwards, jump, stand still, and overflow. Each step does at least one unit, and the bits are the
/// same.
#[test]
fn clocks_that_jump() {
    let expected = expected();
    let ticks = AtomicU64::new(0);
    let count = || ticks.fetch_add(1, Ordering::Relaxed) + 1;
    let backwards = || u64::MAX - count();
    let jumping = || count().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let standing = || 7;
    let stopped = || u64::MAX;
    let alternating = || if count() % 2 == 0 { 0 } else { u64::MAX };
    let clocks: [(&str, &(dyn Fn() -> u64 + Sync)); 5] = [
        ("backwards", &backwards),
        ("jumping", &jumping),
        ("standing", &standing),
        ("at its end", &stopped),
        ("alternating", &alternating),
    ];
    for ((what, clock), at) in clocks.into_iter().flat_map(|clock| [0, 7, u64::MAX].map(|at| (clock, at))) {
        ticks.store(0, Ordering::Relaxed);
        with_engine(|engine| {
            let seq = engine.open().unwrap();
            let (mut position, mut last, mut steps) = (0, Vec::new(), 0);
            for part in [&PROMPT[..], &[0], &[1], &[2], &[30]] {
                engine.queue(seq, position, part, Logits::Last).unwrap();
                position += part.len();
                loop {
                    steps += 1;
                    assert!(steps < 100_000, "{what}: the work does not end");
                    match engine.step(Budget::from(Deadline { clock, at })).unwrap() {
                        Step::Idle => break,
                        Step::Ready => engine.results().for_each(|(_, _, logits)| last = bits(logits)),
                        Step::Yielded | Step::Cancelled => {}
                    }
                }
            }
            assert_eq!(last, expected, "{what}, until {at}");
        });
    }
}

/// The callback for rows panics at its n-th call, for every n up to the last call. The same for the consent to close a
/// sequence.
#[test]
fn callbacks_that_die_at_every_call() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let expected = expected();
    let mut failing = 0;
    loop {
        let died = with_engine(|engine| {
            let seq = engine.open().unwrap();
            let mut calls = 0;
            let rows = |_: usize, _: &[f32]| {
                calls += 1;
                assert!(calls <= failing, "the host dies");
            };
            let died = catch_unwind(AssertUnwindSafe(|| engine.prefill_rows(seq, &PROMPT, rows))).is_err();
            let _ = engine.cancel(seq);
            assert_eq!(engine.cache().check(), Ok(()));
            let other = engine.open().unwrap();
            assert_eq!(story(engine, other).as_ref(), Ok(&expected), "beside call {failing}");
            died
        });
        if !died {
            break;
        }
        failing += 1;
    }
    assert_eq!(failing, PROMPT.len());
    for failing in 0..3 {
        with_engine(|engine| {
            let seqs: Vec<SeqId> = (0..3).map(|_| engine.open().unwrap()).collect();
            seqs.iter().for_each(|&seq| _ = engine.prefill(seq, &PROMPT[..9]).unwrap());
            let mut calls = 0;
            let consent = |_: SeqId, _: &_| {
                calls += 1;
                assert!(calls <= failing, "the host dies");
                false
            };
            let _ = catch_unwind(AssertUnwindSafe(|| engine.make_room(seqs[0], 60, consent)));
            assert_eq!(engine.cache().check(), Ok(()));
            assert!(seqs.iter().all(|&seq| engine.seq_len(seq) == Ok(9)), "nobody has consented");
            engine.reset(seqs[0]).unwrap();
            assert_eq!(story(engine, seqs[0]).as_ref(), Ok(&expected));
        });
    }
    std::panic::set_hook(hook);
}

/// The flag is set before the n-th unit, for every n until the story ends. Committed tokens stay, and the rest can go
/// on.
#[test]
fn a_flag_at_every_unit() {
    let expected = expected();
    for units in 1.. {
        let is_over = with_engine(|engine| {
            let (cancel, seq) = (AtomicBool::new(false), engine.open().unwrap());
            engine.queue(seq, 0, &PROMPT, Logits::Last).unwrap();
            let until = Budget { units, until: None, cancel: Some(&cancel) };
            let is_over = engine.step(until) == Ok(Step::Ready);
            cancel.store(true, Ordering::SeqCst);
            let stopped = engine.step(Budget { cancel: Some(&cancel), ..Budget::default() });
            assert!(matches!(stopped, Ok(Step::Cancelled | Step::Idle)), "{stopped:?}");
            while engine.step(usize::MAX).unwrap() != Step::Idle {}
            (0..3).for_each(|token| _ = engine.decode_step(seq, token).unwrap());
            assert_eq!(engine.decode_step(seq, 30).map(bits).as_ref(), Ok(&expected), "after {units} units");
            is_over
        });
        if is_over {
            break;
        }
    }
}

#[allow(non_camel_case_types)]
mod system {
    pub(crate) const SIGBUS: i32 = 7;
    pub(crate) const SIGALRM: i32 = 14;

    #[repr(C)]
    pub(crate) struct timeval {
        pub(crate) seconds: i64,
        pub(crate) micros: i64,
    }

    #[repr(C)]
    pub(crate) struct itimerval {
        pub(crate) interval: timeval,
        pub(crate) value: timeval,
    }

    unsafe extern "C" {
        pub(crate) fn fork() -> i32;
        pub(crate) fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        pub(crate) fn alarm(seconds: u32) -> u32;
        pub(crate) fn _exit(status: i32) -> !;
        pub(crate) fn setitimer(which: i32, new: *const itimerval, old: *mut itimerval) -> i32;
        pub(crate) fn signal(signal: i32, handler: extern "C" fn(i32)) -> usize;
        pub(crate) fn siginterrupt(signal: i32, flag: i32) -> i32;
    }
}

/// Returns the status of a child process that runs `work`: 0 if it returns true, 256 if it returns false, 512 if it
/// panics, and otherwise the number of the signal that ended it.
fn in_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls `work`, which waits for no lock that another thread of this process holds, and then ends.
    let child = unsafe { system::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: the function takes no pointer.
        unsafe { system::alarm(60) };
        let result = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the function takes no pointer, and does not return.
        unsafe { system::_exit(result.map_or(2, |right| i32::from(!right))) };
    }
    let mut status = 0;
    // SAFETY: `status` is a live i32, to which the call writes.
    assert_eq!(unsafe { system::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// A timer interrupts every system call thousands of times a second, while decoding on threads and reading files go on.
/// It runs in a child process, because signals affect a whole process.
#[test]
fn a_storm_of_signals() {
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }
    let expected = expected();
    let path = std::env::temp_dir().join(format!("gleed-storm-{}", std::process::id()));
    std::fs::write(&path, vec![9; 3 << 20]).unwrap();
    let status = in_child(|| {
        let every = || system::timeval { seconds: 0, micros: 100 };
        // SAFETY: the handler only adds to an atomic, and the timer is a live struct of the system's layout.
        unsafe {
            system::signal(system::SIGALRM, count);
            assert_eq!(system::siginterrupt(system::SIGALRM, 1), 0);
            let timer = system::itimerval { interval: every(), value: every() };
            assert_eq!(system::setitimer(0, &raw const timer, core::ptr::null_mut()), 0);
        }
        let pool = ThreadPool::with_spin(3, std::time::Duration::ZERO).unwrap();
        let mut rounds = 0;
        while SIGNALS.load(Ordering::Relaxed) < 300 || rounds < 5 {
            rounds += 1;
            let right = with_engine_on(&pool, |engine| {
                let seq = engine.open().unwrap();
                story(engine, seq).as_ref() == Ok(&expected)
            });
            let (copy, map) = (MappedFile::copy(&path).unwrap(), MappedFile::open(&path).unwrap());
            map.populate();
            if !right || copy.bytes() != map.bytes() || copy.bytes().len() != 3 << 20 {
                return false;
            }
        }
        true
    });
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status, 0);
}

/// The child of a fork continues where the parent was, with its parent's pool, and both have the same bits.
#[test]
fn an_engine_in_a_forked_child() {
    let expected = expected();
    let pool = ThreadPool::new(3).unwrap();
    with_engine_on(&pool, |engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &PROMPT).unwrap();
        let mut rest = || {
            (0..3).for_each(|token| _ = engine.decode_step(seq, token).unwrap());
            engine.decode_step(seq, 30).map(bits).as_ref() == Ok(&expected)
        };
        assert_eq!(in_child(&mut rest), 0);
        assert!(rest());
    });
}

/// As the documentation of `MappedFile` says, a mapped file that shrinks ends the process, but a copy does not.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_shrinks_while_it_is_mapped() {
    let path = std::env::temp_dir().join(format!("gleed-shrinks-{}", std::process::id()));
    let bytes = model();
    let play = |file: &MappedFile| {
        std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let model = Model::open(file.bytes()).unwrap();
        Plan::new(&model, &Limits::default()).is_ok()
    };
    std::fs::write(&path, &bytes).unwrap();
    // The mask removes the flag that says whether memory was dumped.
    assert_eq!(in_child(|| play(&MappedFile::open(&path).unwrap())) & 0x7f, system::SIGBUS);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(in_child(|| play(&MappedFile::copy(&path).unwrap())), 0);
    std::fs::remove_file(&path).unwrap();
}
