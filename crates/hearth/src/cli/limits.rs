//! The limits of a disk, for people.

use crate::terminal::quantity;
use api::limits::DiskLimits;
use std::fmt::Write as _;

/// What the guests of a disk may ask in a second, and what has waited for that.
pub(super) fn words(limits: &DiskLimits) -> String {
    let iops = limits.iops.map(|iops| format!("{iops} requests/s"));
    let bytes = limits.bytes_per_second;
    let bytes = bytes.map(|bytes| format!("{}/s", quantity::bytes(bytes)));
    let both: Vec<String> = iops.into_iter().chain(bytes).collect();
    let mut words = both.join(" and ");
    if both.is_empty() {
        "none".clone_into(&mut words);
    } else {
        let _ = write!(words, ", burst {}", quantity::time(limits.burst_seconds));
    }
    if limits.throttled_requests + limits.waiting_requests > 0 {
        let _ = write!(
            words,
            "; {} requests have waited {} in all, {} wait now",
            limits.throttled_requests,
            quantity::time(limits.throttled_seconds),
            limits.waiting_requests
        );
    }
    words
}
