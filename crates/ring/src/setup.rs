//! Creating the kernel's ring with the best flags that it knows.

use crate::limits::COMPLETIONS_PER_SUBMISSION;
use io_uring::IoUring;
use std::io;

/// A ring of at least `entries` submission entries.
///
/// With `DEFER_TASKRUN` completions are processed when we ask for them instead of interrupting
/// us; kernels before 6.1 lack it and get the plain ring.
pub(crate) fn create(entries: u32) -> io::Result<IoUring> {
    let entries = entries.next_power_of_two();
    let completions = entries.saturating_mul(COMPLETIONS_PER_SUBMISSION);
    let deferred = IoUring::builder()
        .dontfork()
        .setup_clamp()
        .setup_cqsize(completions)
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries);
    let uring = match deferred {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_cqsize(completions)
            .build(entries)?,
        other => other?,
    };
    let parameters = uring.params();
    // The last came with Linux 5.13, as polls that go on did.
    if parameters.is_feature_nodrop()
        && parameters.is_feature_ext_arg()
        && parameters.is_feature_resource_tagging()
    {
        Ok(uring)
    } else {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel's io_uring is too old: Linux 5.13 or newer is needed",
        ))
    }
}
