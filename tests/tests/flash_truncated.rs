//! The flash file is cut to nothing while the daemon serves from it: the guest goes on from the
//! origin, without an error and without a wrong byte.

use anyhow::ensure;
use e2e::{Fio, Stack, StackSettings, scenario};

#[test]
fn a_truncated_flash_file_costs_speed_only() {
    scenario(&["fio", "nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        stack.read_disk(lab)?;
        stack.flash.truncate(0)?;
        stack.check_disk_equals_origin(lab)?;
        Fio::new(lab, "after", &stack.uri())
            .with("rw=randwrite")
            .with("bs=4k")
            .with("iodepth=8")
            .with("size=8m")
            .verified()
            .run()?;
        stack.check_disk_equals_origin(lab)?;
        ensure!(stack.hearth().is_running(), "hearth ended");
        Ok(())
    });
}
