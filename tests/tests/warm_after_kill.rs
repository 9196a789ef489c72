//! After `kill -9` at least 99 of 100 cached blocks are still there, and all are right.

use std::time::Duration;

use anyhow::ensure;
use e2e::{Request, Stack, StackSettings, scenario, wait_until};

const DISK_BLOCKS: usize = 64 << 8;

#[test]
fn a_killed_daemon_comes_back_warm() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let settings = StackSettings {
            cache_keys: "write_delay = '100ms'\n",
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        stack.read_disk(lab)?;
        // Blocks wait in memory for `write_delay` before they are on flash; a kill within that time
        // loses them by design. From outside, quiet flash is a file whose time of change stays.
        let mut last = (std::time::SystemTime::UNIX_EPOCH, std::time::Instant::now());
        wait_until("the flash to be quiet for a second", e2e::SHORT, || {
            let changed = std::fs::metadata(stack.flash.path())?.modified()?;
            if changed != last.0 {
                last = (changed, std::time::Instant::now());
            }
            Ok(last.1.elapsed() > Duration::from_secs(1))
        })?;
        stack.kill_hearth()?;
        let before = stack.origin.requests()?.len();
        stack.start_hearth(lab)?;
        stack.check_disk_equals_origin(lab)?;
        let again = Request::blocks(&stack.origin.reads_since(before)?).len();
        ensure!(
            again * 100 <= DISK_BLOCKS,
            "{again} of {DISK_BLOCKS} blocks were read from the origin again"
        );
        Ok(())
    });
}
