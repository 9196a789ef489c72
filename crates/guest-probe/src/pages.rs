//! Pages in memory at addresses that direct I/O accepts, and files opened for it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::pattern::PAGE_BYTES;

/// Linux's flag for I/O past the page cache, the same on x86 and most others.
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") {
    0o200_000
} else {
    0o40_000
};

/// One page, aligned to its size.
#[repr(align(4096))]
pub(crate) struct Page(pub(crate) [u8; PAGE_BYTES]);

impl Page {
    /// A page of zeroes.
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self([0; PAGE_BYTES]))
    }
}

/// Opens a file or disk past the page cache.
pub(crate) fn open_direct(path: &Path, writable: bool) -> std::io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(writable)
        .custom_flags(O_DIRECT)
        .open(path)
}

/// Reads page number `index` of `file`.
pub(crate) fn read(file: &File, page: &mut Page, index: u64) -> std::io::Result<()> {
    file.read_exact_at(&mut page.0, index * PAGE_BYTES as u64)
}

/// Writes page number `index` of `file`.
pub(crate) fn write(file: &File, page: &Page, index: u64) -> std::io::Result<()> {
    file.write_all_at(&page.0, index * PAGE_BYTES as u64)
}

/// Durations of single operations, kept for their percentiles.
#[derive(Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Runs one operation and keeps how long it took.
    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let outcome = operation();
        self.0.push(began.elapsed());
        outcome
    }

    /// `p50_us=.. p99_us=.. max_us=..`, or nothing if no operation ran.
    pub(crate) fn summary(mut self) -> String {
        self.0.sort_unstable();
        let Some(last) = self.0.len().checked_sub(1) else {
            return String::new();
        };
        let at = |percent: usize| self.0[last * percent / 100].as_micros();
        format!("p50_us={} p99_us={} max_us={}", at(50), at(99), at(100))
    }
}
