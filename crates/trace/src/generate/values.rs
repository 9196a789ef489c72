//! The values of a generator's keys: counts, shares, sizes, times, names, zones. An error says what is expected.

use super::dice;
use super::place::Zone;
use crate::limits::REQUEST_BYTES_MAX;
use units::{Bytes, Duration, SECTOR_BYTES};

/// A positive count: `10M`, `64Ki`, `1000`.
pub(super) fn count(text: &str, most: u64) -> Result<u64, String> {
    let expected = || format!("a number from 1 to {most}, such as 1000, 10M (10^7) or 64Ki (2^16)");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let factor: u64 = match &text[digits..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(expected()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    number
        .checked_mul(factor)
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(expected)
}

/// A positive count that is small.
pub(super) fn few(text: &str, most: u32) -> Result<u32, String> {
    let count = count(text, u64::from(most))?;
    Ok(u32::try_from(count).unwrap_or(most))
}

pub(super) fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let inside = number.filter(|number| (least..=most).contains(number));
    inside.ok_or_else(|| format!("a number from {least} to {most}"))
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    number(text, 0.0, 1.0)
}

pub(super) fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size.is_zero() || !size.is_multiple_of(SECTOR_BYTES) {
        return Err("a multiple of 512 bytes, such as 4KiB".to_owned());
    }
    Ok(size)
}

pub(super) fn time(text: &str) -> Result<u64, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    Ok(time.as_nanos() / 1000)
}

pub(super) fn name(text: &str) -> Result<String, String> {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || !text.chars().all(fit) {
        return Err("letters, digits, '-', '_' and '.'".to_owned());
    }
    Ok(text.to_owned())
}

/// `4KiB`, or `4KiB:60/64KiB:40`.
pub(super) fn sizes(text: &str) -> Result<Vec<(Bytes, f64)>, String> {
    let mut sizes = Vec::new();
    for one in text.split('/') {
        let (bytes, weight) = one.split_once(':').unwrap_or((one, "1"));
        let bytes = size(bytes)?;
        if bytes > REQUEST_BYTES_MAX {
            return Err(format!("a request has at most {REQUEST_BYTES_MAX}"));
        }
        sizes.push((bytes, number(weight, 0.0, 1e9)?));
    }
    if sizes.iter().all(|(_, weight)| *weight <= 0.0) {
        return Err("one of the weights must not be zero".to_owned());
    }
    Ok(sizes)
}

/// `60/10:30/20:8/30:2/40`: per cent of the accesses, per cent of the range. A range that is left out
/// shares what the others leave; so do the accesses.
pub(super) fn zones(text: &str) -> Result<Vec<Zone>, String> {
    let expected =
        "zones such as 60/10:30/20:10/70, per cent of accesses and of range, each 100 in all";
    let mut pairs: Vec<[Option<f64>; 2]> = Vec::new();
    for zone in text.split(':') {
        let (accesses, range) = zone.split_once('/').unwrap_or((zone, ""));
        let per_cent = |text: &str| match text {
            "" => Ok(None),
            text => number(text, 0.0, 100.0).map(Some),
        };
        pairs.push([per_cent(accesses)?, per_cent(range)?]);
    }
    for side in 0..2 {
        let given: f64 = pairs.iter().filter_map(|pair| pair[side]).sum();
        let open = pairs.iter().filter(|pair| pair[side].is_none()).count();
        let rest = 100.0 - given;
        if rest < -1e-6 || (open == 0 && rest > 1e-6) {
            return Err(expected.to_owned());
        }
        let each = rest.max(0.0) / dice::real(open.max(1) as u64);
        for pair in &mut pairs {
            pair[side].get_or_insert(each);
        }
    }
    let zone = |pair: &[Option<f64>; 2]| Zone {
        accesses: pair[0].unwrap_or(0.0) / 100.0,
        range: pair[1].unwrap_or(0.0) / 100.0,
    };
    Ok(pairs.iter().map(zone).collect())
}
