//! Block status covers what was asked, in order, without gaps.

use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn block_status_describes_the_range_that_was_asked_for() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        nbdsh(
            Some(&stack.uri()),
            r"
assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
lengths = []

def keep(context, offset, entries, error):
    assert context == nbd.CONTEXT_BASE_ALLOCATION
    assert offset == 1 << 20
    lengths.extend(entries[0::2])
    assert all(flags & ~(nbd.STATE_HOLE | nbd.STATE_ZERO) == 0 for flags in entries[1::2])
    return 0

h.block_status(1 << 20, 1 << 20, keep)
assert lengths and all(length > 0 for length in lengths), lengths
",
        )?;
        Ok(())
    });
}
