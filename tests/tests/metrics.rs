//! What the daemon counts agrees with what the origin and the clients saw.

use anyhow::{Context, ensure};
use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn hits_and_misses_are_counted_a_block_each() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(
            Some(&uri),
            "h.pread(1 << 20, 0)\nh.pread(1 << 20, 0)\nh.pwrite(b'x' * 8192, 0)",
        )?;
        let disk = stack.hearth().json(&["disk", "show", Stack::DISK])?;
        let counter = |name: &str| {
            disk["counters"][name]
                .as_u64()
                .with_context(|| format!("{name} in {disk}"))
        };
        ensure!(counter("read_block_misses")? == 256, "{disk}");
        ensure!(counter("read_block_hits")? == 256, "{disk}");
        ensure!(counter("read_bytes")? == 2 << 20, "{disk}");
        ensure!(counter("written_bytes")? == 8192, "{disk}");
        let from_origin: u64 = stack
            .origin
            .reads_since(0)?
            .iter()
            .map(|request| request.length)
            .sum();
        ensure!(
            counter("origin_read_bytes")? == from_origin,
            "the origin counted {from_origin}: {disk}"
        );
        ensure!(counter("failed_requests")? == 0, "{disk}");
        Ok(())
    });
}
