//! The thresholds of Algorithm 1.

/// What decides which files matter, and when files leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Uses from which on a file comes into a map (`USAGE_THRESHOLD`).
    pub usage_threshold: u32,
    /// Part of the guest's cache memory that mapped files may have, in percent (`MEM_THRESHOLD`).
    pub memory_percent: u32,
    /// Files of the history.
    pub files_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            usage_threshold: 2,
            memory_percent: 50,
            files_max: crate::FILES_MAX,
        }
    }
}
