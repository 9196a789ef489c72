//! The flash is put back as it was at an earlier time (a restored snapshot, a disk that was pulled
//! and returned) after the disk has been written without it: nothing old may be served.

use std::process::Command;

use e2e::{Stack, StackSettings, run, scenario};

#[test]
fn an_older_flash_put_back_serves_nothing_stale() {
    scenario(&["qemu-io", "nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        stack.read_disk(lab)?;
        stack.stop_hearth()?;
        let older = stack.flash.content()?;
        stack.start_hearth(lab)?;
        let uri = stack.uri();
        run(Command::new("qemu-io")
            .args(["-f", "raw", "-c", "write -P 0x77 0 32M", "-c", "flush"])
            .arg(&uri))?;
        stack.stop_hearth()?;
        std::fs::write(stack.flash.path(), older)?;
        stack.start_hearth(lab)?;
        run(Command::new("qemu-io")
            .args(["-f", "raw", "-r", "-c", "read -P 0x77 0 32M"])
            .arg(stack.uri()))?;
        stack.check_disk_equals_origin(lab)
    });
}
