//! What measurements depend on besides the program: the processor and its load.

use std::fs;
use std::process::Command;

/// Returns a value of `/proc/cpuinfo`, of the first of these names that it has.
pub fn cpuinfo(names: &[&str]) -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    let value =
        names.iter().find_map(|name| lines.clone().find(|(key, _)| key.trim() == *name)).map(|(_, value)| value);
    value.map(|value| value.trim().to_owned())
}

/// Returns the name that the system gives the processor.
pub fn processor_name() -> String {
    let name = cpuinfo(&["model name", "Model", "uarch", "CPU part"]);
    name.or_else(|| asked("sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Returns what a program of the system prints, or `None` if it fails or prints nothing.
pub fn asked(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    let answer = String::from_utf8(out.stdout).ok()?.trim().to_owned();
    (out.status.success() && !answer.is_empty()).then_some(answer)
}

/// Returns the average number of programs that wanted a processor in the last minute, this one included, or `None` if
/// the system does not tell.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok().or_else(|| asked("sysctl", &["-n", "vm.loadavg"]))?;
    text.trim_start_matches(['{', ' ']).split_whitespace().next()?.parse().ok()
}
