//! Why no VM can be made of a trace, and what to give instead.

use units::Duration;

/// Windows that a trace has at least: with fewer a VM would be the same again within half a day.
pub(super) const TRACE_WINDOWS_MIN: usize = 6;

/// Why no VM can be made of a trace.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum TraceDemandError {
    /// A format without times.
    #[error(
        "{0} tells no times, but demand is by windows of time: give a trace whose format has times"
    )]
    NoTimes(String),
    /// Too few windows.
    #[error(
        "{trace} is too short: {windows} whole windows of {window} in {}, and at least {TRACE_WINDOWS_MIN} are \
         needed; give {}", seconds(*.span), longer_or_shorter(*.span)
    )]
    TooShort {
        /// The trace.
        trace: String,
        /// Its whole windows.
        windows: usize,
        /// How long they are.
        window: Duration,
        /// How long the trace is.
        span: Duration,
    },
    /// Nothing is worth caching.
    #[error(
        "{trace}: no block is used twice within {window}, so nothing is worth caching; leave it out, or give longer \
         windows"
    )]
    NoReuse {
        /// The trace.
        trace: String,
        /// How long its windows are.
        window: Duration,
    },
    /// No trace at all.
    #[error("no trace to take demand from: give at least one")]
    NoTrace,
    /// Traces of writes alone.
    #[error("nothing is read in these traces, so there are no hits to count: give one that reads")]
    NothingRead,
}

/// The whole seconds of a time.
const fn seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_nanos() / 1_000_000_000)
}

/// What to give instead of a trace that is too short.
fn longer_or_shorter(span: Duration) -> String {
    let window = seconds(Duration::from_nanos(
        span.as_nanos() / TRACE_WINDOWS_MIN as u64,
    ));
    if window == Duration::ZERO {
        return "a longer trace".to_owned();
    }
    format!("a longer trace, or windows of demand of at most {window}")
}
