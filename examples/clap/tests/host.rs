//! A host for tests. It loads the plugin as a `.clap`, activates it and runs buffers. An allocation during a buffer
//! ends the process.
//!
//! To check this, it replaces malloc, which systems with glibc allow.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use clap_sys::entry::clap_plugin_entry;
use clap_sys::events::*;
use clap_sys::ext::log::{CLAP_EXT_LOG, clap_host_log, clap_log_severity};
use clap_sys::ext::note_ports::{
    CLAP_EXT_NOTE_PORTS, CLAP_NOTE_DIALECT_CLAP, clap_note_port_info, clap_plugin_note_ports,
};
use clap_sys::ext::state::{CLAP_EXT_STATE, clap_plugin_state};
use clap_sys::factory::plugin_factory::{CLAP_PLUGIN_FACTORY_ID, clap_plugin_factory};
use clap_sys::host::clap_host;
use clap_sys::plugin::clap_plugin;
use clap_sys::process::*;
use clap_sys::stream::{clap_istream, clap_ostream};
use clap_sys::version::CLAP_VERSION;

// ---- Memory ------------------------------------------------------------------------------------------------

thread_local! {
    static IN_BUFFER: Cell<bool> = const { Cell::new(false) };
    /// Number of bytes that this thread has allocated and not freed.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

/// Ends the process if a buffer runs, because a plugin must not allocate then.
fn forbid() {
    if IN_BUFFER.get() {
        IN_BUFFER.set(false);
        eprintln!("memory was asked for during a buffer");
        std::process::abort();
    }
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
    fn malloc_usable_size(memory: *mut c_void) -> usize;
}

fn took(memory: *mut c_void) -> *mut c_void {
    // SAFETY: it is what glibc has just given, or NULL, which has 0 bytes.
    TAKEN.set(TAKEN.get().wrapping_add(unsafe { malloc_usable_size(memory) }));
    memory
}

/// # Safety
/// `memory` is one of glibc's that has not been given back, or NULL.
unsafe fn gives(memory: *mut c_void) {
    // SAFETY: the caller promises it.
    TAKEN.set(TAKEN.get().wrapping_sub(unsafe { malloc_usable_size(memory) }));
}

// SAFETY of these: what the caller promises for the function of this name is what glibc's own asks for.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    forbid();
    // SAFETY: see above.
    took(unsafe { __libc_malloc(size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    forbid();
    // SAFETY: see above.
    took(unsafe { __libc_calloc(count, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    forbid();
    // SAFETY: see above.
    unsafe {
        gives(memory);
        took(__libc_realloc(memory, size))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    forbid();
    // SAFETY: see above.
    took(unsafe { __libc_memalign(align, size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(memory: *mut *mut c_void, align: usize, size: usize) -> i32 {
    forbid();
    // SAFETY: see above; the caller has room for the pointer.
    unsafe {
        *memory = took(__libc_memalign(align, size));
        if (*memory).is_null() { 12 } else { 0 }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(memory: *mut c_void) {
    forbid();
    // SAFETY: see above.
    unsafe {
        gives(memory);
        __libc_free(memory);
    }
}

// ---- The host ----------------------------------------------------------------------------------------------

static LOG: clap_host_log = clap_host_log { log: Some(log) };
static LOGGED: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" fn log(_: *const clap_host, _: clap_log_severity, message: *const c_char) {
    // SAFETY: a text that ends with 0.
    *LOGGED.lock().unwrap() = unsafe { CStr::from_ptr(message) }.to_str().unwrap().to_owned();
}

unsafe extern "C" fn host_extension(_: *const clap_host, id: *const c_char) -> *const c_void {
    // SAFETY: a text that ends with 0.
    if unsafe { CStr::from_ptr(id) } == CLAP_EXT_LOG { (&raw const LOG).cast() } else { null() }
}

unsafe extern "C" fn nothing(_: *const clap_host) {}

static HOST: clap_host = clap_host {
    clap_version: CLAP_VERSION,
    host_data: null_mut(),
    name: c"test".as_ptr(),
    vendor: c"".as_ptr(),
    url: c"".as_ptr(),
    version: c"1".as_ptr(),
    get_extension: Some(host_extension),
    request_restart: Some(nothing),
    request_process: Some(nothing),
    request_callback: Some(nothing),
};

/// A folder with `Gleed.clap` and, if it is wanted, the model beside it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, has_model: bool) -> Self {
        let folder = env::temp_dir().join(format!("gleed-clap-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // The library is built beside the folder of the test programs.
        let built = env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("libgleed_clap.so");
        fs::copy(built, folder.join("Gleed.clap")).unwrap();
        if has_model {
            let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/gleed-tales-q8_0.gguf");
            fs::copy(model, folder.join("Gleed.gguf")).unwrap();
        }
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// An initialized plugin from the file.
struct Loaded {
    plugin: *const clap_plugin,
    entry: *const clap_plugin_entry,
    // The last field, so that the code is unloaded after the plugin.
    _library: libloading::Library,
}

// SAFETY: the tests call from other threads only what CLAP lets a host call there.
unsafe impl Sync for Loaded {}

impl Loaded {
    /// Makes a plugin. An error is the text that the plugin has logged.
    fn new(folder: &Folder) -> Result<Self, String> {
        let path = folder.0.join("Gleed.clap");
        let path_c = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the file is the plugin, which this package builds; calls are in CLAP's order, with arguments that
        // live during them.
        unsafe {
            let library = libloading::Library::new(&path).unwrap();
            let entry = *library.get::<*const clap_plugin_entry>(b"clap_entry\0").unwrap();
            assert!((*entry).init.unwrap()(path_c.as_ptr()));
            assert!((*entry).get_factory.unwrap()(c"nonsense".as_ptr()).is_null());
            let factory = (*entry).get_factory.unwrap()(CLAP_PLUGIN_FACTORY_ID.as_ptr()).cast::<clap_plugin_factory>();
            assert_eq!((*factory).get_plugin_count.unwrap()(factory), 1);
            assert!((*factory).get_plugin_descriptor.unwrap()(factory, 1).is_null());
            let descriptor = (*factory).get_plugin_descriptor.unwrap()(factory, 0);
            assert_eq!(CStr::from_ptr((*descriptor).name).to_str().unwrap(), "Gleed Story");
            assert_eq!(CStr::from_ptr(*(*descriptor).features).to_str().unwrap(), "note-effect");
            assert!((*(*descriptor).features.add(1)).is_null());
            let create = (*factory).create_plugin.unwrap();
            assert!(create(factory, &HOST, c"org.gleed.other".as_ptr()).is_null());
            let plugin = create(factory, &HOST, (*descriptor).id);
            let loaded = Self { plugin, entry, _library: library };
            if !(*plugin).init.unwrap()(plugin) {
                return Err(std::mem::take(&mut LOGGED.lock().unwrap()));
            }
            Ok(loaded)
        }
    }

    fn activate(&self, sample_rate: f64) -> bool {
        // SAFETY: on the main thread, and not while a buffer runs.
        unsafe {
            (*self.plugin).activate.unwrap()(self.plugin, sample_rate, 1, 4096)
                && (*self.plugin).start_processing.unwrap()(self.plugin)
        }
    }

    fn deactivate(&self) {
        // SAFETY: on the main thread, and not while a buffer runs.
        unsafe {
            (*self.plugin).stop_processing.unwrap()(self.plugin);
            (*self.plugin).deactivate.unwrap()(self.plugin);
        }
    }

    fn extension<T>(&self, id: &CStr) -> &T {
        // SAFETY: the extension of a name has the type that CLAP says.
        unsafe { &*(*self.plugin).get_extension.unwrap()(self.plugin, id.as_ptr()).cast::<T>() }
    }

    /// Runs a buffer in which allocation is forbidden. Events go to `heard`, which has room for them.
    fn process(&self, frames: u32, heard: &mut Heard) -> clap_process_status {
        let events = clap_output_events { ctx: (heard as *mut Heard).cast(), try_push: Some(try_push) };
        let process = clap_process {
            steady_time: -1,
            frames_count: frames,
            transport: null(),
            audio_inputs: null(),
            audio_outputs: null_mut(),
            audio_inputs_count: 0,
            audio_outputs_count: 0,
            in_events: null(),
            out_events: &events,
        };
        heard.reserve();
        let started = Instant::now();
        IN_BUFFER.set(true);
        // SAFETY: one thread runs buffers of an activated plugin, and what `process` names lives during the call.
        let status = unsafe { (*self.plugin).process.unwrap()(self.plugin, &process) };
        IN_BUFFER.set(false);
        heard.longest = heard.longest.max(started.elapsed());
        status
    }

    fn save(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let stream = clap_ostream { ctx: (&raw mut bytes).cast(), write: Some(write) };
        // SAFETY: the stream lives during the call.
        assert!(unsafe { self.extension::<clap_plugin_state>(CLAP_EXT_STATE).save.unwrap()(self.plugin, &stream) });
        bytes
    }

    fn load(&self, mut bytes: &[u8]) -> bool {
        let stream = clap_istream { ctx: (&raw mut bytes).cast(), read: Some(read) };
        // SAFETY: the stream lives during the call.
        unsafe { self.extension::<clap_plugin_state>(CLAP_EXT_STATE).load.unwrap()(self.plugin, &stream) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: nothing uses the plugin any more.
        unsafe {
            (*self.plugin).destroy.unwrap()(self.plugin);
            (*self.entry).deinit.unwrap()();
        }
    }
}

/// Writes only some bytes at a time, as a stream may do.
unsafe extern "C" fn write(stream: *const clap_ostream, bytes: *const c_void, size: u64) -> i64 {
    let size = size.min(1000) as usize;
    // SAFETY: `save` put a `Vec` there, and the plugin gives so many bytes.
    unsafe { (*(*stream).ctx.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes.cast(), size)) };
    size as i64
}

unsafe extern "C" fn read(stream: *const clap_istream, bytes: *mut c_void, size: u64) -> i64 {
    // SAFETY: `load` put a slice there, and the plugin has room for `size` bytes.
    unsafe {
        let rest = &mut *(*stream).ctx.cast::<&[u8]>();
        let (now, later) = rest.split_at(rest.len().min(size as usize).min(777));
        std::ptr::copy_nonoverlapping(now.as_ptr(), bytes.cast(), now.len());
        *rest = later;
        now.len() as i64
    }
}

/// The output of a plugin.
#[derive(Default)]
struct Heard {
    text: Vec<u8>,
    ons: Vec<i16>,
    offs: Vec<i16>,
    longest: Duration,
}

impl Heard {
    /// Reserves memory, so that `try_push` need not allocate.
    fn reserve(&mut self) {
        self.text.reserve(4096);
        self.ons.reserve(16);
        self.offs.reserve(16);
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap()
    }
}

unsafe extern "C" fn try_push(events: *const clap_output_events, event: *const clap_event_header) -> bool {
    // SAFETY: `process` put a `Heard` there; an event has the type and the size of its header.
    unsafe {
        let heard = &mut *(*events).ctx.cast::<Heard>();
        assert_eq!((*event).space_id, CLAP_CORE_EVENT_SPACE_ID);
        match (*event).type_ {
            CLAP_EVENT_NOTE_ON | CLAP_EVENT_NOTE_OFF => {
                assert_eq!((*event).size as usize, size_of::<clap_event_note>());
                let note = &*event.cast::<clap_event_note>();
                assert!((0..128).contains(&note.key) && (0.0..=1.0).contains(&note.velocity));
                if (*event).type_ == CLAP_EVENT_NOTE_ON { &mut heard.ons } else { &mut heard.offs }.push(note.key);
            }
            CLAP_EVENT_MIDI_SYSEX => {
                assert_eq!((*event).size as usize, size_of::<clap_event_midi_sysex>());
                let message = &*event.cast::<clap_event_midi_sysex>();
                let bytes = std::slice::from_raw_parts(message.buffer, message.size as usize);
                let [0xf0, 0x7d, halves @ .., 0xf7] = bytes else { panic!("{bytes:?}") };
                assert!(halves.iter().all(|&half| half < 16));
                heard.text.extend(halves.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
            }
            other => panic!("an event of type {other}"),
        }
    }
    true
}

/// Runs buffers of these lengths, again and again, until `frames` frames have passed.
fn run(loaded: &Loaded, lengths: &[u32], frames: u64, heard: &mut Heard) {
    let mut passed = 0;
    for &length in lengths.iter().cycle() {
        if passed >= frames {
            return;
        }
        assert_eq!(loaded.process(length, heard), CLAP_PROCESS_CONTINUE);
        passed += u64::from(length);
    }
}

// ---- Tests -------------------------------------------------------------------------------------------------

const SECOND: u64 = 48_000;

#[test]
fn a_story_comes_as_notes_and_as_text() {
    let folder = Folder::new("story", true);
    let loaded = Loaded::new(&folder).unwrap();
    let ports = loaded.extension::<clap_plugin_note_ports>(CLAP_EXT_NOTE_PORTS);
    // SAFETY: there is room for the description of a port.
    unsafe {
        assert_eq!((ports.count.unwrap()(loaded.plugin, true), ports.count.unwrap()(loaded.plugin, false)), (0, 1));
        let mut port: clap_note_port_info = std::mem::zeroed();
        assert!(
            ports.get.unwrap()(loaded.plugin, 0, false, &mut port)
                && !ports.get.unwrap()(loaded.plugin, 1, false, &mut port)
        );
        assert_eq!(port.preferred_dialect, CLAP_NOTE_DIALECT_CLAP);
        assert!((*loaded.plugin).get_extension.unwrap()(loaded.plugin, c"clap.gui".as_ptr()).is_null());
    }
    assert!(!loaded.activate(f64::NAN) && loaded.activate(48_000.0));
    let mut stories = Vec::new();
    for lengths in [&[64][..], &[512], &[64, 512, 1, 300, 128]] {
        assert!(loaded.load(&[]));
        let mut heard = Heard::default();
        run(&loaded, lengths, 10 * SECOND, &mut heard);
        assert!(heard.text().starts_with("Once upon a time, there was a "), "{}", heard.text());
        // Each piece has a note, and each note ends where the next one begins.
        assert!(heard.ons.len() > 60 && heard.offs.len() >= heard.ons.len() - 1);
        println!("buffers of {lengths:?}: {} notes; the longest one took {:?}", heard.ons.len(), heard.longest);
        stories.push(heard.text().to_owned());
    }
    // The pace is that of the audio for all lengths of buffers. The cut into buffers moves a piece by at most one
    // buffer.
    let shortest = stories.iter().map(String::len).min().unwrap();
    assert!(stories.iter().all(|story| story.len() < shortest + 40), "{stories:?}");
    loaded.deactivate();
}

#[test]
fn what_is_destroyed_gives_its_memory_back() {
    let folder = Folder::new("memory", true);
    // Ends a plugin in the middle of a story, as a host may do. Returns the bytes that an instance takes.
    let use_it = || {
        let before = TAKEN.get();
        let loaded = Loaded::new(&folder).unwrap();
        assert!(loaded.activate(48_000.0));
        run(&loaded, &[256], SECOND, &mut Heard::default());
        TAKEN.get().wrapping_sub(before)
    };
    use_it();
    let before = TAKEN.get();
    let taken: usize = (0..20).map(|_| use_it()).sum();
    let kept = TAKEN.get().wrapping_sub(before) as isize;
    println!("20 instances take {taken} bytes, and keep {kept}");
    assert!(taken > 20 * 3_000_000 && kept < 10_000, "20 instances take {taken} bytes, and keep {kept}");
}

#[test]
fn a_story_goes_on_from_a_project_file() {
    let folder = Folder::new("state", true);
    let (one, two) = (Loaded::new(&folder).unwrap(), Loaded::new(&folder).unwrap());
    assert_eq!(one.save(), []);
    assert!(one.activate(48_000.0) && two.activate(44_100.0));
    let (mut before, mut after, mut again) = (Heard::default(), Heard::default(), Heard::default());
    run(&one, &[256], 4 * SECOND, &mut before);
    let saved = one.save();
    println!("{} bytes after {:?}", saved.len(), before.text());
    run(&one, &[256], 4 * SECOND, &mut after);
    assert!(after.text().len() > 80);
    // Another instance with another sample rate loads the state while it tells another story.
    run(&two, &[100], SECOND, &mut Heard::default());
    assert!(two.load(&saved));
    run(&two, &[512], 4 * SECOND, &mut again);
    let both = after.text().len().min(again.text().len());
    assert!(both > 80);
    assert_eq!(after.text()[..both], again.text()[..both]);
    // Damaged bytes change nothing.
    let mut wrong = saved.clone();
    for place in [0, 40, saved.len() / 2, saved.len() - 1] {
        wrong[place] ^= 1;
        assert!(!two.load(&wrong), "byte {place}");
        wrong[place] ^= 1;
    }
    assert!(!two.load(&saved[..saved.len() - 1]) && !two.load(b"no story"));
    assert!(two.load(&wrong));
    // The story also goes on after the plugin is activated again with another rate.
    two.deactivate();
    assert!(two.activate(96_000.0));
    let mut later = Heard::default();
    run(&two, &[512], 8 * SECOND, &mut later);
    let both = after.text().len().min(later.text().len());
    assert_eq!(after.text()[..both], later.text()[..both]);
}

#[test]
fn a_state_is_saved_while_audio_runs() {
    let folder = Folder::new("threads", true);
    let loaded = Loaded::new(&folder).unwrap();
    assert!(loaded.activate(48_000.0));
    let begin = "Once upon a time, there was a ";
    let (is_over, told, loaded) = (AtomicBool::new(false), AtomicUsize::new(0), &loaded);
    thread::scope(|scope| {
        let audio = scope.spawn(|| {
            let mut heard = Heard::default();
            while !is_over.load(Ordering::Relaxed) {
                run(loaded, &[128], SECOND / 10, &mut heard);
                told.store(heard.text.len(), Ordering::Relaxed);
            }
            heard
        });
        // The loaded state must be one after the beginning. A busy machine may need more saves to get there.
        let (mut saved, mut saves, mut is_later) = (Vec::new(), 0, false);
        while saves < 50 || !is_later {
            assert!(!audio.is_finished(), "audio ended");
            is_later = told.load(Ordering::Relaxed) > begin.len();
            saved = loaded.save();
            saves += 1;
            thread::sleep(Duration::from_millis(2));
        }
        assert!(loaded.load(&saved));
        is_over.store(true, Ordering::Relaxed);
        let heard = audio.join().unwrap();
        assert!(heard.text().starts_with(begin), "{saves} saves: {}", heard.text());
    });
}

#[test]
fn a_model_that_is_missing_is_said() {
    let folder = Folder::new("missing", false);
    let why = Loaded::new(&folder).err().unwrap();
    assert!(why.ends_with("Gleed.gguf cannot be read"), "{why}");
    fs::write(folder.0.join("Gleed.gguf"), "no model").unwrap();
    let why = Loaded::new(&folder).err().unwrap();
    assert!(why.contains("not a GGUF file"), "{why}");
}

/// Ends its process, which the test below starts.
#[test]
#[ignore]
fn memory_in_a_buffer() {
    IN_BUFFER.set(true);
    drop(std::hint::black_box(vec![1, 2, 3]));
    IN_BUFFER.set(false);
}

#[test]
fn memory_in_a_buffer_is_noticed() {
    let out = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "memory_in_a_buffer", "--nocapture"])
        .output()
        .unwrap();
    assert!(!out.status.success());
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(told.contains("memory was asked for during a buffer"), "{told}");
}
