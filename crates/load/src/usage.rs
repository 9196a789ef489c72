//! What a thread has used of the machine.

#![allow(
    unsafe_code,
    reason = "getrusage has no safe wrapper; it fills a plain structure"
)]

use std::mem;

/// Processor time in nanoseconds and counts, of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode.
    pub user_ns: u64,
    /// Time in the kernel.
    pub system_ns: u64,
    /// Switches to other threads, wanted or not.
    pub switches: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
}

impl Usage {
    /// The calling thread's, so far.
    pub(crate) fn of_thread() -> Self {
        // SAFETY: rusage is plain integers, for which all zeroes is a value.
        let mut usage: libc::rusage = unsafe { mem::zeroed() };
        // SAFETY: the structure is ours and is written only during the call.
        let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        assert!(result == 0, "a thread can ask for its own usage");
        let nanos = |time: libc::timeval| {
            let micros = time.tv_sec * 1_000_000 + time.tv_usec;
            u64::try_from(micros).unwrap_or(0) * 1000
        };
        let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
        Self {
            user_ns: nanos(usage.ru_utime),
            system_ns: nanos(usage.ru_stime),
            switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
            major_faults: count(usage.ru_majflt),
            minor_faults: count(usage.ru_minflt),
        }
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            switches: self.switches.saturating_sub(earlier.switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            switches: self.switches + other.switches,
            major_faults: self.major_faults + other.major_faults,
            minor_faults: self.minor_faults + other.minor_faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time() {
        let before = Usage::of_thread();
        let mut used = Usage::default();
        let mut sum = 0_u64;
        while used.user_ns + used.system_ns < 1_000_000 {
            sum = (0..100_000).fold(sum, u64::wrapping_add);
            used = Usage::of_thread().since(before);
        }
        assert!(used.plus(used).user_ns == 2 * used.user_ns, "{sum}");
    }
}
