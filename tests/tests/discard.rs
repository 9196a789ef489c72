//! Discards and zeroes through the cache: what was cached before does not come back, not after a
//! kill either.

use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn zeroed_and_discarded_ranges_are_what_the_origin_has() {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let uri = stack.uri();
        nbdsh(
            Some(&uri),
            r"
h.pread(1 << 20, 0)
h.zero(65536, 8192)
h.zero(512, 200 * 512)
h.zero(65536, 262144, nbd.CMD_FLAG_NO_HOLE)
h.trim(65536, 524288)
for length, offset in ((65536, 8192), (512, 200 * 512), (65536, 262144)):
    assert h.pread(length, offset) == bytes(length), offset
",
        )?;
        stack.check_disk_equals_origin(lab)?;
        stack.kill_hearth()?;
        stack.start_hearth(lab)?;
        stack.check_disk_equals_origin(lab)
    });
}
