//! Requests that no disk can answer get an error, and the connection goes on.

use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn impossible_requests_are_errors_and_harm_nothing() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        // libnbd checks requests itself unless told not to.
        nbdsh(
            Some(&stack.uri()),
            r"
import errno
h.set_strict_mode(0)
size = h.get_size()
before = h.pread(4096, 0)

def refused(call, *expected):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum in expected, f'{error.errnum} is none of {expected}'
        return
    raise AssertionError('it should have been refused')

refused(lambda: h.pread(4096, size), errno.EINVAL)
refused(lambda: h.pread(4096, size - 512), errno.EINVAL)
refused(lambda: h.pwrite(b'x' * 4096, size), errno.ENOSPC, errno.EINVAL)
refused(lambda: h.pwrite(b'x' * 4096, size - 512), errno.ENOSPC, errno.EINVAL)
refused(lambda: h.trim(4096, size), errno.EINVAL, errno.ENOSPC)
refused(lambda: h.zero(4096, size), errno.ENOSPC, errno.EINVAL)
refused(lambda: h.pread(511, 0), errno.EINVAL)
refused(lambda: h.pwrite(b'x' * 100, 0), errno.EINVAL)
refused(lambda: h.pwrite(b'x' * 512, 7), errno.EINVAL)
refused(lambda: h.pread(4096, 2 ** 63 - 4096), errno.EINVAL)
assert h.pread(4096, 0) == before, 'a refused write changed the disk'
assert len(h.pread(512, size - 512)) == 512, 'the last sector reads'
",
        )?;
        stack.check_disk_equals_origin(lab)
    });
}
