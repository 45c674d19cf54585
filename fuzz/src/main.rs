//! All fuzz targets in one program, because linking each of them alone takes longer than a short run of all.
//! `GLEED_FUZZ_TARGET` names the target to run.
#![no_main]
#![allow(unsafe_code)]

mod support;
mod targets;

use std::sync::LazyLock;

/// The target that the environment names.
static TARGET: LazyLock<targets::Target> = LazyLock::new(|| {
    let names: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
    let wanted = std::env::var("GLEED_FUZZ_TARGET").unwrap_or_default();
    let found = targets::ALL.iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("GLEED_FUZZ_TARGET is '{wanted}', the targets are {names:?}")).1
});

// A target makes some things only once. This call makes them before the clock of the first input runs.
libfuzzer_sys::fuzz_target!(init: (*TARGET)(&[]), |data: &[u8]| (*TARGET)(data));
