//! A write with FUA is durable at the origin before it is answered.

use std::process::Command;

use anyhow::ensure;
use e2e::{RequestKind, Stack, StackSettings, run, scenario};

#[test]
fn a_fua_write_reaches_the_origin_durably_and_survives_a_kill() {
    scenario(&["qemu-io", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        // Cached first, so that an older copy exists which must not come back.
        run(Command::new("qemu-io")
            .args(["-f", "raw", "-c", "read 1M 256k"])
            .arg(&uri))?;
        let before = stack.origin.requests()?.len();
        run(Command::new("qemu-io")
            .args(["-f", "raw", "-c", "write -f -P 0x5a 1M 64k"])
            .arg(&uri))?;
        let requests = stack.origin.requests()?.split_off(before);
        let written: u64 = requests
            .iter()
            .filter(|request| request.kind == RequestKind::Write)
            .map(|request| request.length)
            .sum();
        ensure!(
            written >= 64 << 10,
            "the origin saw {written} bytes written: {requests:?}"
        );
        let durable = requests
            .iter()
            .filter(|request| request.kind == RequestKind::Write)
            .all(|request| request.fua)
            || requests
                .iter()
                .any(|request| request.kind == RequestKind::Flush);
        ensure!(
            durable,
            "neither FUA nor a flush reached the origin: {requests:?}"
        );
        ensure!(
            stack
                .image
                .read(1 << 20, 64 << 10)?
                .iter()
                .all(|byte| *byte == 0x5a),
            "the image has other bytes"
        );

        stack.kill_hearth()?;
        stack.start_hearth(lab)?;
        run(Command::new("qemu-io")
            .args(["-f", "raw", "-r", "-c", "read -P 0x5a 1M 64k"])
            .arg(stack.uri()))?;
        Ok(())
    });
}
