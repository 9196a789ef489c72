//! A flush reaches the origin, and not before the writes that were answered.

use anyhow::ensure;
use e2e::{RequestKind, Stack, StackSettings, nbdsh, scenario};

#[test]
fn a_flush_reaches_the_origin_after_the_writes_it_covers() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let before = stack.origin.requests()?.len();
        nbdsh(
            Some(&stack.uri()),
            "h.pwrite(b'a' * 8192, 65536)\nh.flush()",
        )?;
        let requests = stack.origin.requests()?.split_off(before);
        let write = requests
            .iter()
            .position(|request| request.kind == RequestKind::Write);
        let flush = requests
            .iter()
            .rposition(|request| request.kind == RequestKind::Flush);
        ensure!(
            write.is_some() && write < flush,
            "no flush after the write: {requests:?}"
        );
        Ok(())
    });
}
