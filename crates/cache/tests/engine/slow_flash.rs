//! Flash whose reads are late for a while is gone past, and taken back when it answers in time.

use crate::rig::{Rig, page};
use cache::Mode;
use units::Duration;

/// Longer than a read of the flash may take.
const LONG: Duration = Duration::from_secs(3);

/// A cache that has blocks 0 to 15 on flash, each with its number everywhere.
fn warm() -> Rig {
    let mut rig = Rig::through();
    for block in 0..16 {
        rig.fill_origin(block, u8::try_from(block).unwrap());
        rig.read(block).unwrap();
    }
    rig.pass(Duration::from_secs(1));
    rig
}

fn is_active(rig: &mut Rig) -> bool {
    matches!(rig.cache_mut().facts().status().mode, Mode::Active)
}

#[test]
fn slow_reads_cost_one_wait_and_the_flash_is_taken_back_warm() {
    let mut rig = warm();
    rig.hold_flash = true;
    let first = rig.begin_read(0);
    assert_eq!(rig.answer(first), None);
    rig.pass(LONG);
    assert_eq!(rig.bytes(first), Some(Ok(page(0))), "from the origin");
    assert!(rig.cache_mut().facts().bypasses_reads());
    // Nobody waits any more, for however long it takes.
    for round in 0..40 {
        let block = round % 16;
        let number = u8::try_from(block).unwrap();
        assert_eq!(rig.read(block), Ok(page(number)));
        rig.pass(Duration::from_secs(1));
    }
    assert!(is_active(&mut rig));
    rig.free();
    for _ in 0..10 {
        assert_eq!(rig.read(3), Ok(page(3)));
        rig.pass(Duration::from_secs(2));
    }
    assert!(!rig.cache_mut().facts().bypasses_reads());
    // All of it is there still: the origin is not asked.
    rig.hold_reads = true;
    for block in 0..16 {
        let number = u8::try_from(block).unwrap();
        assert_eq!(rig.read(block), Ok(page(number)));
    }
}

#[test]
fn what_is_written_while_reads_go_past_the_flash_is_read_back() {
    let mut rig = warm();
    rig.hold_flash = true;
    rig.begin_read(0);
    rig.pass(LONG);
    assert!(rig.cache_mut().facts().bypasses_reads());
    rig.free();
    rig.write(5, 99);
    assert_eq!(rig.read(5), Ok(page(99)));
    for _ in 0..10 {
        assert_eq!(rig.read(5), Ok(page(99)));
        rig.pass(Duration::from_secs(2));
    }
    assert!(!rig.cache_mut().facts().bypasses_reads());
    assert_eq!(rig.read(5), Ok(page(99)));
    assert_eq!(rig.read(6), Ok(page(6)));
}
