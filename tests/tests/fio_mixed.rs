//! Reads and writes mixed, of sizes from one sector up and over two connections at once, so that
//! requests share blocks, with a cache smaller than the disk, so that blocks are reclaimed meanwhile.

use e2e::{Fio, Stack, StackSettings, scenario};

#[test]
fn mixed_sizes_over_two_connections_read_back_right() {
    scenario(&["fio", "nbdkit", "nbdcopy"], |lab| {
        let settings = StackSettings {
            image_mib: 192,
            flash_mib: 64,
            ..StackSettings::default()
        };
        let mut stack = Stack::start(lab, &settings)?;
        Fio::new(lab, "mixed", &stack.uri())
            .with("rw=randrw")
            .with("bssplit=512/20:3k/10:4k/40:20k/20:128k/10")
            .with("blockalign=512")
            .with("iodepth=16")
            .with("numjobs=2")
            .with("size=80m")
            .with("offset_increment=96m")
            .with("io_size=60m")
            .with("verify_backlog=256")
            .verified()
            .run()?;
        stack.check_disk_equals_origin(lab)?;
        // Once more, now that half of it comes from flash.
        stack.check_disk_equals_origin(lab)
    });
}
