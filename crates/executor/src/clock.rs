//! This host's clock, as records have it.

use std::time::{SystemTime, UNIX_EPOCH};
use units::Instant;

/// Nanoseconds since 1970.
pub(crate) fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
