//! nbdcopy in both directions, with several connections and many requests in flight.

use std::process::Command;

use e2e::{Image, Stack, StackSettings, run, scenario};

#[test]
fn a_disk_is_copied_out_and_in() {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(
            lab,
            &StackSettings {
                image_mib: 48,
                ..StackSettings::default()
            },
        )?;
        let uri = stack.uri();
        stack.check_disk_equals_origin(lab)?;
        // Other content over a disk that is cached by now.
        let other = Image::new(lab, "other.raw", 49)?;
        let file = std::fs::File::options().write(true).open(other.path())?;
        file.set_len(48 << 20)?;
        let bytes = std::fs::read(other.path())?;
        let reversed: Vec<u8> = bytes.chunks(4096).rev().flatten().copied().collect();
        std::fs::write(other.path(), &reversed)?;
        run(Command::new("nbdcopy")
            .args(["--connections=4", "--requests=64", "--flush"])
            .arg(other.path())
            .arg(&uri))?;
        anyhow::ensure!(
            std::fs::read(stack.image.path())? == reversed,
            "the origin has other bytes than were copied in"
        );
        stack.check_disk_equals_origin(lab)
    });
}
