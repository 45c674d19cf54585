//! What figures depend on beside the program: the processor, and what else computes on it.

use std::fs;
use std::process::Command;

/// A value of `/proc/cpuinfo`: the first that has one of these names.
pub fn cpuinfo(names: &[&str]) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    let value =
        names.iter().find_map(|name| lines.clone().find(|(key, _)| key.trim() == *name)).map(|(_, value)| value);
    value.map(|value| value.trim().to_owned())
}

/// The name that the system has for the processor.
pub fn processor_name() -> String {
    let name = cpuinfo(&["model name", "Model", "uarch", "CPU part"]);
    name.or_else(|| asked("sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// What a program of the system answers, where there is one.
pub fn asked(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    let answer = String::from_utf8(out.stdout).ok()?.trim().to_owned();
    (out.status.success() && !answer.is_empty()).then_some(answer)
}

/// How many programs wanted a processor in the last minute, on average, this one too. `None` where the system does not
/// tell.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok().or_else(|| asked("sysctl", &["-n", "vm.loadavg"]))?;
    text.trim_start_matches(['{', ' ']).split_whitespace().next()?.parse().ok()
}
