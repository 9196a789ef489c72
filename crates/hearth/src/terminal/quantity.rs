//! Quantities for people: three digits that matter, and a unit.

use units::number::real;

/// A quantity of bytes, such as `3.42GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut scaled = real(count);
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{count}B");
    }
    format!("{}{}", three_digits(scaled), UNITS[unit])
}

/// A number of things, such as `1 disk` or `2 disks`.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A count, such as `12.3k`.
pub fn count(count: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut unit = 0;
    let mut scaled = count;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    if unit == 0 && (scaled.fract() == 0.0 || scaled >= 100.0) {
        return format!("{scaled:.0}");
    }
    format!("{}{}", three_digits(scaled), UNITS[unit])
}

/// A span of time, such as `84.2us`.
pub fn seconds(seconds: f64) -> String {
    if seconds <= 0.0 {
        return "0s".to_owned();
    }
    let (scaled, unit) = match seconds {
        s if s < 999.5e-9 => (s * 1e9, "ns"),
        s if s < 999.5e-6 => (s * 1e6, "us"),
        s if s < 999.5e-3 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{}{unit}", three_digits(scaled))
}

/// How long something has run, such as `3d 4h` or `12min`.
pub fn uptime(seconds: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(seconds).map_or(0, |d| d.as_secs());
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole}s"),
        (0, 0, _) => format!("{minutes}min"),
        (0, _, _) => format!("{hours}h {minutes}min"),
        _ => format!("{days}d {hours}h"),
    }
}

/// A part of a whole in percent, or a dash where there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    share(real(part) / real(whole))
}

/// A share from 0 to 1, in percent.
pub fn share(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Bytes of a second, the rest of one left out.
pub fn rate(per_second: f64) -> String {
    let whole = std::time::Duration::try_from_secs_f64(per_second.max(0.0));
    bytes(whole.map_or(u64::MAX, |whole| whole.as_secs()))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_matter() {
        assert_eq!(bytes(0), "0B");
        assert_eq!(bytes(999), "999B");
        assert_eq!(bytes(1023), "1.00KiB");
        assert_eq!(bytes(3_670_016), "3.50MiB");
        assert_eq!(count(7.0), "7");
        assert_eq!(count(12_345.0), "12.3k");
        assert_eq!(count(0.5), "0.50");
        assert_eq!(seconds(0.000_084_2), "84.2us");
        assert_eq!(seconds(0.0), "0s");
        assert_eq!(seconds(12.0), "12.0s");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(0, 0), "-");
        assert_eq!(uptime(59.9), "59s");
        assert_eq!(uptime(90_000.0), "1d 1h");
    }
}
