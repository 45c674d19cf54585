//! A CLAP plugin that tells a story: each piece is a note, and its text is in a system-exclusive message.
//!
//! The model is a file beside the plugin with the same name: `Gleed.clap` reads `Gleed.gguf`. The story itself is
//! `examples/plugin`. This crate adds the interface that CLAP asks for. It computes on the audio thread, a number of
//! units for each buffer, and never allocates there.
// The C functions that plugin.c calls.
use gleed_ffi as _;

mod plugin;
mod story;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::null;
use std::sync::Mutex;

use clap_sys::entry::clap_plugin_entry;
use clap_sys::factory::plugin_factory::{CLAP_PLUGIN_FACTORY_ID, clap_plugin_factory};
use clap_sys::host::clap_host;
use clap_sys::plugin::{clap_plugin, clap_plugin_descriptor};
use clap_sys::plugin_features::CLAP_PLUGIN_FEATURE_NOTE_EFFECT;
use clap_sys::version::{CLAP_VERSION, clap_version_is_compatible};

/// The symbol that a host looks for in the file.
#[allow(non_upper_case_globals)]
#[unsafe(no_mangle)]
pub static clap_entry: clap_plugin_entry = clap_plugin_entry {
    clap_version: CLAP_VERSION,
    init: Some(init),
    deinit: Some(deinit),
    get_factory: Some(get_factory),
};

/// The path of the model, set from `init` to `deinit`.
static MODEL: Mutex<Option<CString>> = Mutex::new(None);

static FACTORY: clap_plugin_factory = clap_plugin_factory {
    get_plugin_count: Some(get_plugin_count),
    get_plugin_descriptor: Some(get_plugin_descriptor),
    create_plugin: Some(create_plugin),
};

/// A list that ends with NULL, as CLAP defines it.
struct Features([*const c_char; 2]);

// SAFETY: the pointers are to constants.
unsafe impl Sync for Features {}

static FEATURES: Features = Features([CLAP_PLUGIN_FEATURE_NOTE_EFFECT.as_ptr(), null()]);

static DESCRIPTOR: clap_plugin_descriptor = clap_plugin_descriptor {
    clap_version: CLAP_VERSION,
    id: c"org.gleed.story".as_ptr(),
    name: c"Gleed Story".as_ptr(),
    vendor: c"Gleed".as_ptr(),
    url: c"".as_ptr(),
    manual_url: c"".as_ptr(),
    support_url: c"".as_ptr(),
    version: c"0.1.0".as_ptr(),
    description: c"Tells a story as notes and as text".as_ptr(),
    features: FEATURES.0.as_ptr(),
};

unsafe extern "C" fn init(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: CLAP gives a path in UTF-8 that ends with 0.
    let Ok(path) = unsafe { CStr::from_ptr(path) }.to_str() else { return false };
    let model = Path::new(path).with_extension("gguf");
    let Some(Ok(model)) = model.to_str().map(CString::new) else { return false };
    MODEL.lock().is_ok_and(|mut known| {
        *known = Some(model);
        true
    })
}

unsafe extern "C" fn deinit() {
    if let Ok(mut model) = MODEL.lock() {
        *model = None;
    }
}

unsafe extern "C" fn get_factory(id: *const c_char) -> *const c_void {
    // SAFETY: CLAP gives a text that ends with 0.
    if !id.is_null() && unsafe { CStr::from_ptr(id) } == CLAP_PLUGIN_FACTORY_ID {
        (&raw const FACTORY).cast()
    } else {
        null()
    }
}

unsafe extern "C" fn get_plugin_count(_: *const clap_plugin_factory) -> u32 {
    1
}

unsafe extern "C" fn get_plugin_descriptor(_: *const clap_plugin_factory, index: u32) -> *const clap_plugin_descriptor {
    if index == 0 { &DESCRIPTOR } else { null() }
}

unsafe extern "C" fn create_plugin(
    _: *const clap_plugin_factory,
    host: *const clap_host,
    id: *const c_char,
) -> *const clap_plugin {
    // SAFETY: CLAP gives a text that ends with 0, and a host that outlives its plugins.
    let is_wanted = unsafe {
        !id.is_null()
            && CStr::from_ptr(id) == CStr::from_ptr(DESCRIPTOR.id)
            && !host.is_null()
            && clap_version_is_compatible((*host).clap_version)
    };
    let model = MODEL.lock().ok().and_then(|model| model.clone());
    match model {
        Some(model) if is_wanted => plugin::new(&DESCRIPTOR, host, model),
        _ => null(),
    }
}
