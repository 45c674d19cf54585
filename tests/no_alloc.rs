//! Nothing in the library allocates: neither opening a model, nor planning, nor the engine, the tokenizer or the
//! sampler. The plan's memory is exactly the memory that the engine uses.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::Memory;
use common::playback::hash;
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::cache::SnapshotOptions;
use gleed::conversation::{Conversation, ConversationLimits, Desk, DeskLimits, Entry, Keep, Script};
use gleed::mem::{ALIGN, MemoryError};
use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::tensor::Dtype;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};
use gleed::turns::{Message, Role, TurnFormat};
use gleed::{Budget, Deadline, Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, SeqId, Step, Window};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// Bytes that the thread has allocated and not freed.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// An allocator that counts the calls of each thread.
struct Counting;

// SAFETY: all calls go to the system's allocator with unchanged arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`, and `ptr` came from `System`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(taken: usize, given: usize) {
    // This is not counted while a thread ends and its variables are gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    let _ = TAKEN.try_with(|bytes| bytes.set(bytes.get().wrapping_add(taken).wrapping_sub(given)));
}

/// Returns the number of allocator calls of this thread while `f` runs, and the result of `f`.
fn allocations<R>(f: impl FnOnce() -> R) -> (usize, R) {
    let before = COUNT.get();
    let result = f();
    (COUNT.get() - before, result)
}

fn without_allocation<R>(what: &str, f: impl FnOnce() -> R) -> R {
    let (count, result) = allocations(f);
    assert_eq!(count, 0, "{what} allocates");
    result
}

fn models() -> [SyntheticModel; 3] {
    let small = |model| SyntheticModel { hidden: 32, ffn: 32, vocab: 300, ..model };
    [
        small(SyntheticModel::llama()),
        SyntheticModel { weights: Dtype::Q8_0, ..small(SyntheticModel::qwen3()) },
        SyntheticModel { weights: Dtype::Q4_K, hidden: 256, ffn: 256, head_dim: 64, ..small(SyntheticModel::llama()) },
    ]
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))).0, 2);
}

/// A session, which allocates, frees everything, also if it is dropped in the middle of a text.
#[cfg(feature = "std")]
#[test]
fn a_session_gives_its_memory_back() {
    use gleed::session::SessionOptions;
    let use_it = || {
        let before = TAKEN.get();
        let limits = Limits { context: 128, workers: 1, ..Limits::default() };
        let options = SessionOptions { limits, ..SessionOptions::default() };
        let mut session = gleed::Session::with("examples/assets/gleed-tales-q8_0.gguf", options).unwrap();
        session.tell("Once").unwrap().take(2).for_each(|piece| drop(piece.unwrap()));
        session.ask("Who?").unwrap().take(2).for_each(|piece| drop(piece.unwrap()));
        TAKEN.get().wrapping_sub(before)
    };
    use_it();
    let before = TAKEN.get();
    let taken: usize = (0..3).map(|_| use_it()).sum();
    assert!(taken > 3 * 500_000, "{taken} bytes in three sessions");
    assert_eq!(TAKEN.get(), before);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    assert!(!maps.contains("gleed-tales-q8_0.gguf"), "the file is still mapped");
}

#[test]
fn nothing_allocates() {
    for synthetic in models() {
        let file = synthetic.bytes();
        for kv_kind in KvKind::ALL {
            let model = without_allocation("Model::open", || Model::open(&file)).unwrap();
            let limits = Limits { sequences: 4, context: 64, rows: 7, logit_rows: 3, kv_kind, ..Limits::default() };
            let limits = Limits { prefix_cache: true, ..limits };
            let plan = without_allocation("Plan::new", || Plan::new(&model, &limits)).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut snapshot = vec![0; 1 << 20];
            let mut rows = vec![0.0; 64 * model.config().layer(0).kv.width()];
            let (k, v) = (&mut rows.clone(), &mut rows);
            let bytes = memory.bytes();
            let mut engine = without_allocation("Engine::new", || Engine::new(&model, &plan, bytes)).unwrap();
            without_allocation("the engine", || story(&mut engine, &mut snapshot, k, v)).unwrap();
        }
    }
}

static CLOCK: fn() -> u64 = || 7;

/// Makes every call of the engine.
fn story(engine: &mut Engine<'_, '_>, snapshot: &mut [u8], k: &mut [f32], v: &mut [f32]) -> Result<(), EngineError> {
    engine.set_clock(Some(&CLOCK));
    let seq = engine.open()?;
    let tokens: [u32; 37] = std::array::from_fn(|i| i as u32);
    engine.prefill(seq, &tokens)?;
    engine.decode_step(seq, 9)?;
    engine.prefill_rows(seq, &tokens[..9], |_, _| {})?;
    engine.rewind(seq, 37)?;
    let fork = engine.fork(seq, 21)?;
    engine.queue(fork, 21, &tokens[..10], Logits::All)?;
    while engine.step(3)? != Step::Idle {
        std::hint::black_box(engine.results().count());
    }
    engine.queue(fork, 31, &tokens[..10], Logits::Last)?;
    let _ = engine.step(9)?;
    let (ticks, cancel) = (AtomicU64::new(0), AtomicBool::new(false));
    let until = Some(Deadline { clock: &|| ticks.fetch_add(1, Ordering::Relaxed), at: 5 });
    assert_eq!(engine.step(Budget { until, cancel: Some(&cancel), ..Budget::default() })?, Step::Yielded);
    cancel.store(true, Ordering::Relaxed);
    assert_eq!(engine.step(Budget { until, cancel: Some(&cancel), ..Budget::default() })?, Step::Cancelled);
    engine.cancel(fork)?;
    let length = engine.snapshot(seq, snapshot)?;
    let restored = engine.restore(&snapshot[..length])?;
    engine.decode_step(restored, 3)?;
    engine.close(restored)?;
    let restored = stream(engine, seq, snapshot)?;
    engine.decode_step(restored, 3)?;
    let width = engine.model().config().layer(0).kv.width();
    engine.cache().materialize(seq, 1, &mut k[..37 * width], &mut v[..37 * width])?;
    let set = engine.open()?;
    let cache = engine.cache_mut()?;
    if cache.kind() != KvKind::Off {
        for layer in 0..cache.num_layers() {
            cache.set_prefill(set, layer, &k[..37 * width], &v[..37 * width])?;
        }
    }
    engine.decode_step(set, 3)?;
    assert!(engine.decode_step(set, 1 << 30).is_err());
    assert!(engine.prefill(set, &[1; 65]).is_err());
    assert!(engine.open().is_err());
    engine.reset(set)?;
    engine.close(seq)?;
    engine.prefill_prompt(set, &tokens)?;
    let pinned = engine.pin(&tokens)?;
    engine.reset(set)?;
    let reused = engine.reuse(set, &tokens)?;
    assert_eq!((pinned, reused), if engine.stats().pools[0].pinned > 0 { (32, 32) } else { (0, 0) });
    engine.unpin(&tokens[..pinned])?;
    assert_eq!(engine.cache().check(), Ok(()));
    std::hint::black_box(engine.sequence_stats(fork)?);
    std::hint::black_box(engine.make_room(set, 16, |_, _| true)?);
    assert!(engine.metrics().prefill.count > 0);
    engine.reset_metrics();
    engine.close(set)
}

/// Writes a delta through a callback and reads it again. Once the callback fails.
fn stream(engine: &mut Engine<'_, '_>, seq: SeqId, buffer: &mut [u8]) -> Result<SeqId, EngineError> {
    let mut written = 0;
    let options = SnapshotOptions { base: 16, state: &[7; 32], checkpoints: 0 };
    let sink = |bytes: &[u8]| {
        buffer[written..][..bytes.len()].copy_from_slice(bytes);
        written += bytes.len();
        Ok::<(), ()>(())
    };
    engine.write_snapshot(seq, &options, sink).unwrap();
    let source = |buffer: &[u8], place: &mut [u8], at: &mut usize| {
        let count = place.len().min(100).min(written - *at);
        place[..count].copy_from_slice(&buffer[*at..][..count]);
        *at += count;
        Ok::<usize, ()>(count)
    };
    buffer[written - 20] ^= 1;
    let mut at = 0;
    assert!(engine.read_snapshot(Some(seq), |place| source(buffer, place, &mut at)).is_err());
    buffer[written - 20] ^= 1;
    at = 0;
    let (restored, header) = engine.read_snapshot(Some(seq), |place| source(buffer, place, &mut at)).unwrap();
    assert_eq!(header.state(), [7; 32]);
    Ok(restored)
}

#[test]
fn windows_allocate_nothing() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    for kv_kind in [KvKind::Basic, KvKind::Paged] {
        let window = Window { sinks: 3, last: 20 };
        let limits = Limits { sequences: 2, context: 64, window, rows: 7, kv_kind, ..Limits::default() };
        let plan = without_allocation("Plan::new", || Plan::new(&model, &limits)).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        without_allocation("a window", || {
            let seq = engine.open()?;
            engine.prefill(seq, &[4; 200])?;
            (0..50).try_for_each(|token| engine.decode_step(seq, token).map(drop))?;
            let fork = engine.fork(seq, 250)?;
            engine.prefill(fork, &[5; 60])?;
            assert!(engine.rewind(fork, 200).is_err() && engine.rewind(seq, 100).is_err());
            assert!(engine.queue(seq, 250, &[1; 100], Logits::Last).is_err());
            engine.reset(seq)
        })
        .unwrap();
    }
}

#[test]
fn text_and_sampling_allocate_nothing() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    let needed = without_allocation("Tokenizer::plan", || Tokenizer::plan(model.gguf())).unwrap();
    let mut memory = Memory::new(needed);
    let bytes = memory.bytes();
    let tokenizer = without_allocation("Tokenizer::new", || Tokenizer::new(model.gguf(), bytes)).unwrap();
    let text = "a story of an ant \u{e9} <s> and more";
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    let (mut ids, mut out) = (vec![0; 200], vec![0; 1000]);
    without_allocation("text", || {
        for parse_special in [false, true] {
            let options = EncodeOptions { parse_special, add_special: true, ..EncodeOptions::default() };
            let count = tokenizer.encode(text, options, &mut scratch, &mut ids).unwrap().ids;
            tokenizer.decode(&ids[..count], DecodeOptions::default(), &mut out).unwrap();
            let mut stream = Detokenizer::new(&tokenizer, DecodeOptions::default());
            for &id in &ids[..count] {
                stream.push(&tokenizer, id, &mut out).unwrap();
            }
            stream.finish();
        }
    });
    let logits: Vec<f32> = Rng::new(1).tokens(300, 1000).into_iter().map(|x| x as f32 / 100.0).collect();
    let mut scratch = vec![0; scratch_len(300)];
    without_allocation("sampling", || {
        let params = SamplerParams { temperature: 0.8, top_k: 40, top_p: 0.9, min_p: 0.01, ..SamplerParams::default() };
        let mut sampler = Sampler::new(params).unwrap();
        sampler.set_biases(&[(3, 1.0)]).unwrap();
        for _ in 0..20 {
            let choice = sampler.sample(&logits, &mut scratch).unwrap();
            std::hint::black_box(choice);
            sampler.accept(7);
        }
    });
}

#[test]
fn conversations_allocate_nothing() {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits { context: 200, sequences: 3, ..Limits::default() }).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let limits = DeskLimits { context: 200, text: 2000, word: 100, replies: 8 };
    let sizes = ConversationLimits { replies: 8, tokens: 200 };
    let mut memory = [plan.bytes(), Desk::plan(&tokenizer, &limits).unwrap()].map(Memory::new);
    let [memory, desk] = memory.each_mut();
    let mut talks: [_; 3] = std::array::from_fn(|_| Memory::new(Conversation::plan(&sizes).unwrap()));
    let [first, second, third] = talks.each_mut();
    let mut file = vec![0; 1 << 22];
    let says = |role, text| Entry::Message(Message { role, text });
    let entries = [says(Role::User, "Hi."), says(Role::Assistant, "Once"), says(Role::User, "And then?")];
    without_allocation("a conversation", || {
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let mut desk = Desk::new(&tokenizer, &limits, desk.bytes()).unwrap();
        let script = Script::new(TurnFormat::named("vicuna"), &tokenizer);
        let mut talk = Conversation::new(engine.open().unwrap(), &sizes, first.bytes()).unwrap();
        let new = talk.update(&mut engine, &script, &Keep::ALL, &entries[..1], &mut desk).unwrap();
        engine.prefill(talk.seq(), new.tokens).unwrap();
        engine.decode_step(talk.seq(), 414).unwrap();
        let mut fork = talk.fork(&mut engine, second.bytes()).unwrap();
        assert!(fork.update(&mut engine, &script, &Keep::ALL, &entries, &mut desk).unwrap().position > 10);
        let len = talk.save(&engine, &entries, &mut file).unwrap();
        let (mut talk, saved) = Conversation::load(&mut engine, &file[..len], &sizes, third.bytes()).unwrap();
        assert!(saved.entries().eq(entries));
        assert!(talk.update(&mut engine, &script, &Keep::ALL, &entries, &mut desk).unwrap().position > 10);
    });
}

/// Returns limits with all values that change the plan.
fn many_limits() -> impl Iterator<Item = Limits> {
    let base = Limits { sequences: 3, context: 50, rows: 5, logit_rows: 2, ..Limits::default() };
    let kinds = KvKind::ALL.into_iter().flat_map(|kind| KvType::ALL.map(|element| (kind, element)));
    kinds.flat_map(move |(kv_kind, kv_type)| {
        let base = Limits { kv_kind, kv_type, ..base };
        let window = Window { sinks: 2, last: 18 };
        [
            base,
            Limits { workers: 3, ..base },
            Limits { kv_blocks: 5, ..base },
            Limits { rows: 64, ..base },
            Limits { window, ..base },
            Limits { window, rows: 64, ..base },
            Limits { kv_blocks: 9, prefix_cache: true, ..base },
        ]
    })
}

#[test]
fn the_plan_is_exact() {
    let file = models()[1].bytes();
    let model = Model::open(&file).unwrap();
    for limits in many_limits() {
        let plan = Plan::new(&model, &limits).unwrap();
        let needed = plan.bytes();
        assert_eq!(plan.alignment(), ALIGN);
        let mut end = 0;
        for section in plan.sections() {
            assert_eq!(section.offset, end, "a gap before {}", section.name);
            end = (section.offset + section.bytes).next_multiple_of(ALIGN);
        }
        assert_eq!(end, needed);
        let mut memory = Memory::new(needed + ALIGN);
        let memory = memory.bytes();
        for given in [0, 1, needed / 2, needed - 1] {
            let error = Engine::new(&model, &plan, &mut memory[..given]).unwrap_err();
            assert_eq!(error, EngineError::Memory(MemoryError::TooSmall { needed, given }));
        }
        for off_by in [1, 4, 32] {
            let error = Engine::new(&model, &plan, &mut memory[off_by..]).unwrap_err();
            assert_eq!(error, EngineError::Memory(MemoryError::Misaligned { needed: ALIGN, off_by }));
        }
        // More memory is allowed, and stays unused.
        memory[needed..].fill(0x5a);
        assert!(Engine::new(&model, &plan, memory).is_ok());
        assert!(memory[needed..].iter().all(|&byte| byte == 0x5a));
        let mut engine = Engine::new(&model, &plan, &mut memory[..needed]).unwrap();
        let seq = engine.open().unwrap();
        engine.prefill(seq, &[1, 2, 3]).unwrap();
    }
}

/// A plan of another model is refused, or works.
#[test]
fn a_plan_of_another_model() {
    let files = models().map(|model| model.bytes());
    for ours in &files {
        for theirs in &files {
            let (model, other) = (Model::open(ours).unwrap(), Model::open(theirs).unwrap());
            let plan = Plan::new(&other, &Limits { context: 40, ..Limits::default() }).unwrap();
            let mut memory = Memory::new(plan.bytes());
            match Engine::new(&model, &plan, memory.bytes()) {
                Ok(mut engine) => {
                    let seq = engine.open().unwrap();
                    engine.prefill(seq, &[1; 40]).unwrap();
                }
                Err(EngineError::Memory(MemoryError::TooSmall { needed, given })) => assert!(needed > given),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_the_memory_held_does_not_matter() {
    for synthetic in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for limits in many_limits() {
            let plan = Plan::new(&model, &limits).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let hashes = [0x00, 0xff, 0xa5, 0x7f].map(|garbage| {
                memory.bytes().fill(garbage);
                let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
                let seq = engine.open().unwrap();
                let first = hash(engine.prefill(seq, &[5; 19]).unwrap());
                let fork = engine.fork(seq, 18).unwrap();
                let second = hash(engine.prefill(fork, &[6; 3]).unwrap());
                (first, second, hash(engine.decode_step(seq, 7).unwrap()))
            });
            assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{limits:?}");
        }
    }
}

#[test]
fn a_new_engine_does_not_touch_the_blocks() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    for limits in many_limits() {
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        memory.bytes().fill(0xc3);
        drop(Engine::new(&model, &plan, memory.bytes()).unwrap());
        let blocks = plan.sections().iter().filter(|section| section.name.starts_with("kv blocks"));
        for section in blocks.inspect(|section| assert!(section.bytes > 0)) {
            let bytes = &memory.bytes()[section.offset..][..section.bytes];
            assert!(bytes.iter().all(|&byte| byte == 0xc3), "{}", section.name);
        }
        assert!(plan.sections().iter().any(|section| section.name == "kv blocks"));
    }
}

#[test]
fn the_report_names_every_section() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits { context: 64, ..Limits::default() }).unwrap();
    let report = plan.to_string();
    for section in plan.sections() {
        assert!(report.contains(section.name), "{report}");
    }
    assert!(report.contains(&plan.bytes().to_string()));
}
