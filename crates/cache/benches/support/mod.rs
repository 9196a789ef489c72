//! What the benchmarks of the cache share.

/// CPU time of this thread: other work on the machine does not count.
pub(crate) fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
