//! How long things may take before a test gives up. Generous: the machine may be busy, and a test
//! that passes never waits for them.

use std::time::Duration;

/// For a server to listen, a process to end, a counter to move.
pub const SHORT: Duration = Duration::from_mins(1);

/// For a guest on an emulated CPU, or a client that moves a whole disk.
pub const LONG: Duration = Duration::from_mins(5);

/// Between two looks while waiting.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Lines of each log that a failed test prints.
pub(crate) const LOG_LINES_SHOWN: usize = 25;
