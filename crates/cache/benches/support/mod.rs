//! What the benchmarks of the cache share.

use block_io::{OriginDone, OriginOp, OriginVerb};

/// An origin of zeroes that answers at once.
pub(crate) fn origin(op: OriginOp) -> OriginDone {
    let buf = match op.verb {
        OriginVerb::Read { mut buf, .. } => {
            buf.fill(0);
            Some(buf)
        }
        _ => None,
    };
    OriginDone {
        token: op.token,
        buf,
        result: Ok(()),
        volatile: false,
    }
}

/// CPU time of this thread: other work on the machine does not count.
pub(crate) fn cpu_nanos() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
