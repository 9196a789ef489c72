//! Bytes of the flash change under the daemon, and under a stopped one: every wrong block is noticed
//! by its checksum and fetched from the origin instead.

use anyhow::ensure;
use e2e::{OriginSettings, Stack, StackSettings, scenario};

/// Hardly larger than the disk, so that most of it has something on it that can rot.
const SETTINGS: StackSettings = StackSettings {
    image_mib: 64,
    flash_mib: 96,
    write_policy: "through",
    origin: OriginSettings {
        delay: None,
        failing_while: None,
        failing_with: None,
    },
    origin_keys: "",
    cache_keys: "",
    sections: String::new(),
};

/// Changed places: one in each 64 KiB behind the first MiB.
fn rot(stack: &Stack) -> anyhow::Result<()> {
    let places = ((1 << 20)..stack.flash.bytes()?).step_by(64 << 10);
    stack.flash.rot(places.map(|offset| offset + 1234), 64)
}

#[test]
fn rotten_blocks_are_fetched_from_the_origin() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &SETTINGS)?;
        stack.read_disk(lab)?;
        rot(&stack)?;
        let before = stack.origin.requests()?.len();
        stack.check_disk_equals_origin(lab)?;
        ensure!(
            !stack.origin.reads_since(before)?.is_empty(),
            "no block was rotten, so nothing was tested"
        );
        ensure!(stack.hearth().is_running(), "hearth ended");
        Ok(())
    });
}

#[test]
fn rot_while_the_daemon_is_away_is_noticed_too() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &SETTINGS)?;
        stack.read_disk(lab)?;
        stack.stop_hearth()?;
        rot(&stack)?;
        stack.start_hearth(lab)?;
        stack.check_disk_equals_origin(lab)
    });
}
