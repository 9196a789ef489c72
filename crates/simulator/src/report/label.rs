//! Numbers as an axis or a table shows them.

/// What a number counts, and with it how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// A part of one.
    Part,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// Microseconds.
    Time,
    /// A number without a unit.
    Number,
}

/// A day in microseconds.
const DAY_US: f64 = 86_400e6;

impl Unit {
    /// A value by itself.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Part => percent_exact(value),
            Self::Bytes => bytes(value),
            Self::Count => count(value),
            Self::Time => time_us(value),
            Self::Number => decimals(value, 4),
        }
    }

    /// A value at an axis whose values are `step` apart: with the digits that tell it from its neighbours.
    pub(super) fn tick(self, value: f64, step: f64) -> String {
        match self {
            Self::Part => format!("{}%", decimals(value * 100.0, places(step * 100.0))),
            Self::Number => decimals(value, places(step)),
            Self::Time if value == 0.0 => "0".to_owned(),
            Self::Time if step >= DAY_US => format!("{} d", decimals(value / DAY_US, 1)),
            Self::Bytes | Self::Count | Self::Time => self.text(value),
        }
    }
}

/// Decimals with which multiples of `step` differ.
fn places(step: f64) -> usize {
    (0..6)
        .find(|places| step * 10_f64.powi(*places) >= 0.999)
        .and_then(|places| usize::try_from(places).ok())
        .unwrap_or(6)
}

/// At most so many digits behind the point, without zeroes at the end.
fn decimals(value: f64, most: usize) -> String {
    let text = format!("{value:.most$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A quantity of bytes: `512 KiB`, `1.5 GiB`.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"], " ")
}

/// A count: `12k`, `3.5M`.
pub(super) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"], "")
}

/// A part of one: `12.5%`.
pub(super) fn percent(value: f64) -> String {
    format!("{}%", trimmed(value * 100.0))
}

/// A part of one with two decimals in percent, for tables.
pub(super) fn percent_exact(value: f64) -> String {
    format!("{:.2}%", value * 100.0)
}

/// A span of time given in microseconds: `80 us`, `3 h`.
pub(super) fn time_us(value: f64) -> String {
    match value {
        v if v < 1000.0 => format!("{} us", trimmed(v)),
        v if v < 1e6 => format!("{} ms", trimmed(v / 1e3)),
        v if v < 120e6 => format!("{} s", trimmed(v / 1e6)),
        v if v < 7200e6 => format!("{} min", trimmed(v / 60e6)),
        v if v < 172_800e6 => format!("{} h", trimmed(v / 3600e6)),
        v => format!("{} d", trimmed(v / 86_400e6)),
    }
}

fn scaled(value: f64, base: f64, units: &[&str], space: &str) -> String {
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let space = if units[unit].is_empty() { "" } else { space };
    format!("{}{space}{}", trimmed(value), units[unit])
}

/// Three digits that matter, without zeroes behind the point.
pub(super) fn trimmed(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => decimals(value, 0),
        v if v >= 9.995 => decimals(value, 1),
        _ => decimals(value, 2),
    }
}

/// A text between tags or in an attribute.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_unit() {
        assert_eq!(bytes(4096.0), "4 KiB");
        assert_eq!(bytes(1.5 * 1024.0 * 1024.0), "1.5 MiB");
        assert_eq!(count(12_345.0), "12.3k");
        assert_eq!(count(0.25), "0.25");
        assert_eq!(percent(0.125), "12.5%");
        assert_eq!(time_us(80.0), "80 us");
        assert_eq!(time_us(7_200e6), "2 h");
    }

    #[test]
    fn ticks_have_the_digits_that_tell_them_apart() {
        assert_eq!(Unit::Part.tick(0.4, 0.2), "40%");
        assert_eq!(Unit::Part.tick(0.9972, 0.0002), "99.72%");
        assert_eq!(Unit::Part.tick(0.9974, 0.0002), "99.74%");
        assert_eq!(Unit::Number.tick(1.25, 0.05), "1.25");
        assert_eq!(Unit::Number.tick(2.0, 1.0), "2");
        assert_eq!(Unit::Bytes.tick(4096.0, 0.0), "4 KiB");
        assert_eq!(Unit::Time.tick(0.0, DAY_US), "0");
        assert_eq!(Unit::Time.tick(DAY_US, DAY_US), "1 d");
        assert_eq!(Unit::Time.tick(DAY_US, DAY_US / 2.0), "24 h");
    }

    #[test]
    fn no_text_becomes_a_tag() {
        assert_eq!(escape("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
    }
}
