//! How a store behaves.

use units::{Bytes, Duration};

/// How a store behaves. All have defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How long an incomplete chunk waits for more blocks before it is written.
    pub write_delay: Duration,
    /// How long a rewritten block must rest before its copy is trusted after a crash again.
    pub trust_delay: Duration,
    /// How long an operation of the flash may take: its caller is to look at it then.
    pub flash_timeout: Duration,
    /// Bytes of blocks that may wait in memory to be written to flash; above it none is taken in.
    pub write_buffer: Bytes,
    /// The reclaim policy.
    pub reclaim: policy::reclaim::Kind,
    /// Places that retained memory has for chunks of dirty logs: as many chunks can be gathered, or
    /// be on their way to flash, at a time.
    pub retained_places: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            write_delay: Duration::from_secs(1),
            trust_delay: Duration::from_secs(10),
            flash_timeout: Duration::from_secs(2),
            write_buffer: Bytes::mib(64),
            reclaim: policy::reclaim::Kind::default(),
            retained_places: 64,
        }
    }
}
