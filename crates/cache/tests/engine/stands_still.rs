//! Whoever drives the cache stands still for a while: the flash is not blamed for it.

use crate::rig::{Rig, page};
use cache::Mode;
use units::Duration;

const FAR_TOO_LONG: Duration = Duration::from_secs(1000);

/// A cache that has block 0 on flash, and was asked to read it and to write it; the flash has not
/// answered.
fn waiting() -> (Rig, u64, u64) {
    let mut rig = Rig::through();
    rig.fill_origin(0, 7);
    assert_eq!(rig.read(0), Ok(page(7)));
    rig.pass(Duration::from_secs(1));
    rig.hold_flash = true;
    let read = rig.begin_read(0);
    let write = rig.begin_write(0, 8);
    assert_eq!(rig.answer(read), None, "it is on flash");
    assert_eq!(rig.answer(write), None, "it waits for the journal");
    (rig, read, write)
}

#[test]
fn a_pause_of_the_driver_is_not_taken_for_slow_flash() {
    let (mut rig, read, write) = waiting();
    rig.stand_still(FAR_TOO_LONG);
    assert_eq!(rig.cache_mut().facts().stats().flash_timeouts, 0);
    rig.free();
    assert_eq!(rig.bytes(read), Some(Ok(page(7))));
    assert_eq!(rig.answer(write), Some(Ok(())));
    assert!(matches!(
        rig.cache_mut().facts().status().mode,
        Mode::Active
    ));
    assert_eq!(rig.origin_block(0), page(8));
}

#[test]
fn flash_that_is_slow_after_a_pause_is_judged_by_its_own_time() {
    let (mut rig, read, write) = waiting();
    rig.stand_still(FAR_TOO_LONG);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.bytes(read), Some(Ok(page(7))), "the origin was asked");
    assert_eq!(rig.answer(write), Some(Ok(())), "it waits no longer");
    assert!(rig.cache_mut().facts().status().is_in_doubt);
}
