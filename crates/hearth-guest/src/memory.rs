//! How the guest's memory is: `/proc/meminfo` and `/proc/pressure/memory`.
//!
//! Pressure is read, not waited for with a trigger: the figure is fresh at each look, needs no descriptor, and
//! kernels on which triggers are privileged tell it too.

use guest_protocol::Memory;
use units::Duration;

/// The guest's memory now.
pub(crate) fn look() -> Memory {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    parse(&text("/proc/meminfo"), &text("/proc/pressure/memory"))
}

/// How long some task has waited for memory since the boot; none if the kernel does not tell.
pub(crate) fn stalled() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/pressure/memory").ok()?;
    some(&text, "total=").map(|us| Duration::from_micros(us.parse().unwrap_or(0)))
}

fn parse(meminfo: &str, pressure: &str) -> Memory {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        let kib: u64 = number.and_then(|text| text.parse().ok()).unwrap_or(0);
        kib.saturating_mul(1024)
    };
    Memory {
        available_bytes: kib("MemAvailable:"),
        cache_bytes: kib("Cached:"),
        pressure_hundredths: some(pressure, "avg10=").map_or(0, hundredths),
    }
}

fn some<'a>(pressure: &'a str, key: &str) -> Option<&'a str> {
    let line = pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
}

/// `1.25` as 125.
fn hundredths(text: &str) -> u32 {
    let (whole, part) = text.split_once('.').unwrap_or((text, "00"));
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    number(whole)
        .saturating_mul(100)
        .saturating_add(number(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal: 245912 kB\nMemAvailable:  100 kB\nCached:     20 kB\n";
    const PRESSURE: &str =
        "some avg10=1.25 avg60=0.10 avg300=0.00 total=70123\nfull avg10=9.00 total=1\n";

    #[test]
    fn the_kernels_figures_are_read() {
        let memory = parse(MEMINFO, PRESSURE);
        assert_eq!(memory.available_bytes, 100 << 10);
        assert_eq!(memory.cache_bytes, 20 << 10);
        assert_eq!(memory.pressure_hundredths, 125);
        assert_eq!(some(PRESSURE, "total="), Some("70123"));
    }

    #[test]
    fn a_kernel_that_tells_nothing_gives_zeros() {
        assert_eq!(parse("", ""), Memory::default());
    }
}
