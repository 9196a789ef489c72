//! QEMU's tools on a Hearth disk: info, io with patterns, convert and compare.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{Stack, StackSettings, run, scenario};

#[test]
fn qemu_img_and_qemu_io_see_a_normal_disk() {
    scenario(&["qemu-img", "qemu-io", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        let output = run(Command::new("qemu-img")
            .args(["info", "--output=json", "-f", "raw"])
            .arg(&uri))?;
        let info: serde_json::Value =
            serde_json::from_str(&output.stdout).context("qemu-img's JSON")?;
        ensure!(info["virtual-size"] == stack.image.bytes(), "{info}");

        let io = |command: &str| {
            run(Command::new("qemu-io")
                .args(["-f", "raw", "-c", command])
                .arg(&uri))
        };
        io("write -P 0x11 0 1M")?;
        io("write -P 0x22 100k 4k")?;
        io("write -z 200k 64k")?;
        io("discard 512k 64k")?;
        io("read -P 0x11 0 100k")?;
        io("read -P 0x22 100k 4k")?;
        io("read -P 0 200k 64k")?;
        io("flush")?;

        let copy = lab.path("copy.qcow2");
        run(Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", "qcow2"])
            .arg(&uri)
            .arg(&copy))?;
        run(Command::new("qemu-img")
            .args(["compare", "-f", "qcow2", "-F", "raw"])
            .arg(&copy)
            .arg(stack.image.path()))?;
        Ok(())
    });
}
