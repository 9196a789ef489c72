//! Quantities for people: three digits that matter, and a unit.

use units::number::{count_near, real};

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

/// A length of time in seconds: three digits below a minute, such as `84.2us`; two units up to ten days, such as
/// `12min 5s` or `3d 4h`; then days, and years from two on.
pub fn time(seconds: f64) -> String {
    const MINUTE: f64 = 59.95;
    if seconds <= 0.0 {
        return "0s".to_owned();
    }
    match seconds {
        s if s < 999.5e-9 => format!("{}ns", three_digits(s * 1e9)),
        s if s < 999.5e-6 => format!("{}us", three_digits(s * 1e6)),
        s if s < 999.5e-3 => format!("{}ms", three_digits(s * 1e3)),
        s if s < MINUTE => format!("{}s", three_digits(s)),
        s => long_time(count_near(s)),
    }
}

/// A minute or more.
fn long_time(whole: u64) -> String {
    const DAY: u64 = 86_400;
    const YEAR: u64 = 365 * DAY;
    let two = |large: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit} {small}{smaller}"),
    };
    match whole {
        s if s < 3_600 => two(s / 60, "min", s % 60, "s"),
        s if s < DAY => two(s / 3_600, "h", s / 60 % 60, "min"),
        s if s < 10 * DAY => two(s / DAY, "d", s / 3_600 % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 100 * YEAR => format!("{:.1} years", real(s) / real(YEAR)),
        _ => "over 100 years".to_owned(),
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
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(0, 0), "-");
    }

    #[test]
    fn a_time_is_in_the_units_that_say_most() {
        const YEAR: f64 = 365.0 * 86_400.0;
        for (seconds, words) in [
            (0.0, "0s"),
            (0.000_084_2, "84.2us"),
            (12.0, "12.0s"),
            (59.94, "59.9s"),
            (59.96, "1min"),
            (61.0, "1min 1s"),
            (3_599.7, "1h"),
            (3_725.0, "1h 2min"),
            (90_000.0, "1d 1h"),
            (0.5 * YEAR, "182d"),
            (7.25 * YEAR, "7.2 years"),
            (1e30, "over 100 years"),
        ] {
            assert_eq!(time(seconds), words, "{seconds}");
        }
    }
}
