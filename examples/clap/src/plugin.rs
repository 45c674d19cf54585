//! An instance of the plugin.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap_sys::events::*;
use clap_sys::ext::log::{CLAP_EXT_LOG, CLAP_LOG_ERROR, clap_host_log};
use clap_sys::ext::note_ports::*;
use clap_sys::ext::state::{CLAP_EXT_STATE, clap_plugin_state};
use clap_sys::host::clap_host;
use clap_sys::plugin::{clap_plugin, clap_plugin_descriptor};
use clap_sys::process::*;
use clap_sys::stream::{clap_istream, clap_ostream};

use crate::story::Story;

/// The pace on every machine: a story does not depend on the speed at which audio is rendered.
const TOKENS_PER_SECOND: f64 = 12.0;
/// The sample rate until a host sets one.
const FRAMES_PER_SECOND: f64 = 48_000.0;
/// Largest number of bytes of text in one message.
const TEXT_BYTES: usize = 200;
/// Largest size of a saved state. A story in a host's project file has about 100 KB.
const STATE_BYTES: usize = 64 << 20;
/// Semitones of a pentatonic scale over two octaves.
const SCALE: [i16; 10] = [0, 2, 4, 7, 9, 12, 14, 16, 19, 21];
const LOWEST_KEY: i16 = 60;

struct Plugin {
    plugin: clap_plugin,
    host: *const clap_host,
    model: CString,
    // The audio thread only tries to lock this. While a state is saved or loaded, buffers pass without text.
    voice: Mutex<Voice>,
}

/// The data that the audio thread uses.
struct Voice {
    story: Option<Story>,
    /// The key of the note that sounds.
    key: Option<i16>,
    message: [u8; 2 * TEXT_BYTES + 3],
}

pub fn new(descriptor: *const clap_plugin_descriptor, host: *const clap_host, model: CString) -> *const clap_plugin {
    let voice = Mutex::new(Voice { story: None, key: None, message: [0; 2 * TEXT_BYTES + 3] });
    let plugin = clap_plugin {
        desc: descriptor,
        plugin_data: std::ptr::null_mut(),
        init: Some(init),
        destroy: Some(destroy),
        activate: Some(activate),
        deactivate: Some(deactivate),
        start_processing: Some(start_processing),
        stop_processing: Some(stop_processing),
        reset: Some(reset),
        process: Some(process),
        get_extension: Some(get_extension),
        on_main_thread: Some(on_main_thread),
    };
    let made = Box::into_raw(Box::new(Plugin { plugin, host, model, voice }));
    // SAFETY: it has just been made, and nobody has it yet.
    unsafe {
        (*made).plugin.plugin_data = made.cast();
        &raw const (*made).plugin
    }
}

impl Plugin {
    /// # Safety
    /// `plugin` is a result of [`new`] that has not been destroyed.
    unsafe fn of<'a>(plugin: *const clap_plugin) -> &'a Plugin {
        // SAFETY: `new` wrote a pointer to the whole here. It is shared from then on; what changes is in a `Mutex`.
        unsafe { &*(*plugin).plugin_data.cast::<Plugin>() }
    }

    /// Locks the voice. It may wait, so it must not be called on the audio thread.
    fn voice(&self) -> MutexGuard<'_, Voice> {
        self.voice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an error to the host's log, if the host has one.
    fn complain(&self, why: &str) {
        let Ok(why) = CString::new(why) else { return };
        // SAFETY: the host outlives its plugins, and its extensions are what their names say.
        unsafe {
            let Some(get_extension) = (*self.host).get_extension else { return };
            let log = get_extension(self.host, CLAP_EXT_LOG.as_ptr()).cast::<clap_host_log>();
            if let Some(log) = log.as_ref().and_then(|log| log.log) {
                log(self.host, CLAP_LOG_ERROR, why.as_ptr());
            }
        }
    }
}

// SAFETY of all functions below: CLAP calls them with a plugin of `new` before `destroy`, and with pointers that live
// during the call.

unsafe extern "C" fn init(plugin: *const clap_plugin) -> bool {
    // SAFETY: see above.
    let plugin = unsafe { Plugin::of(plugin) };
    match Story::new(&plugin.model, FRAMES_PER_SECOND, TOKENS_PER_SECOND) {
        Ok(story) => plugin.voice().story = Some(story),
        Err(why) => {
            plugin.complain(&why);
            return false;
        }
    }
    true
}

unsafe extern "C" fn destroy(plugin: *const clap_plugin) {
    // SAFETY: the pointer is one of `Box::into_raw`, and a host destroys a plugin once.
    drop(unsafe { Box::from_raw((*plugin).plugin_data.cast::<Plugin>()) });
}

/// Takes the memory for processing. The story goes on.
unsafe extern "C" fn activate(plugin: *const clap_plugin, sample_rate: f64, _: u32, _: u32) -> bool {
    // SAFETY: see above.
    let plugin = unsafe { Plugin::of(plugin) };
    let mut voice = plugin.voice();
    voice.key = None;
    let Some(story) = &mut voice.story else { return false };
    if !(sample_rate.is_finite() && sample_rate > 0.0) {
        return false;
    }
    let saved = story.save();
    if let Err(why) = story.activate(sample_rate, TOKENS_PER_SECOND) {
        plugin.complain(&why);
        return false;
    }
    saved.and_then(|saved| story.load(&saved)).is_ok()
}

unsafe extern "C" fn deactivate(_: *const clap_plugin) {}

unsafe extern "C" fn start_processing(_: *const clap_plugin) -> bool {
    true
}

unsafe extern "C" fn stop_processing(_: *const clap_plugin) {}

/// Ends the note that sounds. It runs on the audio thread.
unsafe extern "C" fn reset(plugin: *const clap_plugin) {
    // SAFETY: see above.
    if let Ok(mut voice) = unsafe { Plugin::of(plugin) }.voice.try_lock() {
        voice.key = None;
    }
}

unsafe extern "C" fn on_main_thread(_: *const clap_plugin) {}

/// Computes for a buffer. It allocates nothing, opens no files and waits for no locks.
unsafe extern "C" fn process(plugin: *const clap_plugin, process: *const clap_process) -> clap_process_status {
    // SAFETY: see above.
    let (plugin, process) = unsafe { (Plugin::of(plugin), &*process) };
    let Ok(mut voice) = plugin.voice.try_lock() else { return CLAP_PROCESS_CONTINUE };
    let Voice { story: Some(story), key, message } = &mut *voice else { return CLAP_PROCESS_ERROR };
    let Ok(text) = story.process(process.frames_count) else { return CLAP_PROCESS_ERROR };
    if text.is_empty() || process.out_events.is_null() {
        return CLAP_PROCESS_CONTINUE;
    }
    // SAFETY: the host's list lives during the call.
    let events = unsafe { &*process.out_events };
    if let Some(key) = key.take() {
        push(events, &note(CLAP_EVENT_NOTE_OFF, key, 0.0));
    }
    let next = key_of(text);
    // The first piece of a word is louder than the others.
    if push(events, &note(CLAP_EVENT_NOTE_ON, next, if text.starts_with(b" ") { 0.9 } else { 0.6 })) {
        *key = Some(next);
    }
    for text in text.chunks(TEXT_BYTES) {
        let len = spell(text, message);
        let header = header::<clap_event_midi_sysex>(CLAP_EVENT_MIDI_SYSEX);
        push(events, &clap_event_midi_sysex { header, port_index: 0, buffer: message.as_ptr(), size: len });
    }
    CLAP_PROCESS_CONTINUE
}

/// An event of CLAP, which begins with its header.
trait Event {}
impl Event for clap_event_note {}
impl Event for clap_event_midi_sysex {}

/// Gives an event to the host, which copies it. Returns whether the host had room.
fn push<T: Event>(events: &clap_output_events, event: &T) -> bool {
    // SAFETY: an event begins with its header, which says how large it is.
    events.try_push.is_some_and(|push| unsafe { push(events, (event as *const T).cast()) })
}

fn header<T: Event>(type_: clap_event_type) -> clap_event_header {
    clap_event_header { size: size_of::<T>() as u32, time: 0, space_id: CLAP_CORE_EVENT_SPACE_ID, type_, flags: 0 }
}

fn note(kind: clap_event_type, key: i16, velocity: f64) -> clap_event_note {
    clap_event_note { header: header::<clap_event_note>(kind), note_id: -1, port_index: 0, channel: 0, key, velocity }
}

/// Returns the key for a text. The same text has the same key.
fn key_of(text: &[u8]) -> i16 {
    let sum = text.iter().fold(0_usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    LOWEST_KEY + SCALE[sum % SCALE.len()]
}

/// Writes a system-exclusive message with the manufacturer number for private use, and returns its number of bytes.
/// Data bytes have only 7 bits, so a byte of text becomes two of them, the upper half first.
fn spell(text: &[u8], message: &mut [u8; 2 * TEXT_BYTES + 3]) -> u32 {
    let halves = text.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let all = [0xf0, 0x7d].into_iter().chain(halves).chain([0xf7]);
    message.iter_mut().zip(all).map(|(place, byte)| *place = byte).count() as u32
}

unsafe extern "C" fn get_extension(_: *const clap_plugin, id: *const c_char) -> *const c_void {
    if id.is_null() {
        return null();
    }
    // SAFETY: CLAP gives a text that ends with 0.
    let id = unsafe { CStr::from_ptr(id) };
    if id == CLAP_EXT_NOTE_PORTS {
        (&raw const NOTE_PORTS).cast()
    } else if id == CLAP_EXT_STATE {
        (&raw const STATE).cast()
    } else {
        null()
    }
}

static NOTE_PORTS: clap_plugin_note_ports =
    clap_plugin_note_ports { count: Some(note_ports_count), get: Some(note_ports_get) };

unsafe extern "C" fn note_ports_count(_: *const clap_plugin, is_input: bool) -> u32 {
    u32::from(!is_input)
}

unsafe extern "C" fn note_ports_get(
    _: *const clap_plugin,
    index: u32,
    is_input: bool,
    info: *mut clap_note_port_info,
) -> bool {
    if index != 0 || is_input || info.is_null() {
        return false;
    }
    // The text is sent as MIDI. Hosts pass it on because the port supports MIDI, too.
    let (both, clap) = (CLAP_NOTE_DIALECT_CLAP | CLAP_NOTE_DIALECT_MIDI, CLAP_NOTE_DIALECT_CLAP);
    let mut port = clap_note_port_info { id: 0, supported_dialects: both, preferred_dialect: clap, name: [0; 256] };
    for (place, &byte) in port.name.iter_mut().zip(b"Story") {
        *place = byte as c_char;
    }
    // SAFETY: the host has room for one.
    unsafe { info.write(port) };
    true
}

static STATE: clap_plugin_state = clap_plugin_state { save: Some(state_save), load: Some(state_load) };

unsafe extern "C" fn state_save(plugin: *const clap_plugin, stream: *const clap_ostream) -> bool {
    // SAFETY: see above.
    let (plugin, stream) = unsafe { (Plugin::of(plugin), &*stream) };
    let saved = plugin.voice().story.as_mut().map(Story::save);
    let (Some(Ok(saved)), Some(write)) = (saved, stream.write) else { return false };
    let mut rest = saved.as_slice();
    while !rest.is_empty() {
        // SAFETY: the stream is the host's, and `rest` has as many bytes as are given.
        let written = unsafe { write(stream, rest.as_ptr().cast(), rest.len() as u64) };
        match usize::try_from(written).ok().and_then(|written| rest.get(written..)) {
            Some(more) if written > 0 => rest = more,
            _ => return false,
        }
    }
    true
}

unsafe extern "C" fn state_load(plugin: *const clap_plugin, stream: *const clap_istream) -> bool {
    // SAFETY: see above.
    let (plugin, stream) = unsafe { (Plugin::of(plugin), &*stream) };
    let Some(read) = stream.read else { return false };
    let (mut bytes, mut buffer) = (Vec::new(), [0_u8; 4096]);
    loop {
        // SAFETY: the stream is the host's, and the buffer has as many bytes as are given.
        let count = unsafe { read(stream, buffer.as_mut_ptr().cast(), buffer.len() as u64) };
        match usize::try_from(count).ok().and_then(|count| buffer.get(..count)) {
            Some([]) => break,
            Some(more) if bytes.len() + more.len() <= STATE_BYTES => bytes.extend_from_slice(more),
            _ => return false,
        }
    }
    plugin.voice().story.as_mut().is_some_and(|story| story.load(&bytes).is_ok())
}
