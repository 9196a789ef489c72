//! NBD's cache command brings a range to flash: reading it afterwards asks the origin for nothing.

use anyhow::ensure;
use e2e::{SHORT, Stack, StackSettings, nbdsh, scenario, wait_until};

#[test]
fn a_prefetched_range_is_read_without_the_origin() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(Some(&uri), "h.cache(4 << 20, 8 << 20)")?;
        // The answer does not promise that all of it is there yet.
        wait_until(
            "the prefetched range to be served without the origin",
            SHORT,
            || {
                let before = stack.origin.requests()?.len();
                nbdsh(Some(&uri), "h.pread(4 << 20, 8 << 20)")?;
                Ok(stack.origin.reads_since(before)?.is_empty())
            },
        )?;
        ensure!(stack.hearth().is_running(), "hearth ended");
        Ok(())
    });
}
