//! An error of the origin is an error of the guest's request, is not remembered, and no block of a
//! failed write is served from an older copy.

use e2e::{OriginSettings, Stack, StackSettings, nbdsh, scenario};

#[test]
fn origin_errors_reach_the_guest_and_pass_with_their_cause() {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let failing = lab.path("failing");
        let origin = OriginSettings {
            failing_while: Some(failing.clone()),
            ..OriginSettings::default()
        };
        let mut stack = Stack::start(
            lab,
            &StackSettings {
                origin,
                ..StackSettings::default()
            },
        )?;
        let script = format!(
            r"
import errno, os

def fails(call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == errno.EIO, error
        return
    raise AssertionError('it should have failed')

old = h.pread(4096, 0)
open('{0}', 'w').close()
assert h.pread(4096, 0) == old, 'a hit needs no origin'
fails(lambda: h.pread(4096, 16 << 20))
fails(lambda: h.pwrite(b'n' * 4096, 0))
os.unlink('{0}')
now = h.pread(4096, 0)
assert now in (old, b'n' * 4096), 'a failed write left something else'
assert len(h.pread(4096, 16 << 20)) == 4096
h.pwrite(b'm' * 4096, 0)
assert h.pread(4096, 0) == b'm' * 4096
",
            failing.display()
        );
        nbdsh(Some(&stack.uri()), &script)?;
        stack.check_disk_equals_origin(lab)
    });
}
