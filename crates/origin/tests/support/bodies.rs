//! The contract of `Origin`, as bodies that every form runs.

use super::{Rig, SIZE};
use block_io::{IoError, OriginVerb};
use std::collections::BTreeMap;
use units::{Bytes, Offset, Prng};

/// One of them, and what it is called.
pub(crate) type Body = (&'static str, fn(&mut Rig));

/// All of them.
pub(crate) const ALL: [Body; 7] = [
    (
        "what_was_written_is_read_to_the_sector",
        what_was_written_is_read_to_the_sector,
    ),
    (
        "a_slice_that_begins_anywhere_in_its_buffer_is_written",
        a_slice_that_begins_anywhere_in_its_buffer_is_written,
    ),
    (
        "neighbouring_sectors_written_together_keep_apart",
        neighbouring_sectors_written_together_keep_apart,
    ),
    (
        "many_operations_in_flight_each_end_once",
        many_operations_in_flight_each_end_once,
    ),
    (
        "zeroed_ranges_read_as_zero_and_nothing_else_does",
        zeroed_ranges_read_as_zero_and_nothing_else_does,
    ),
    (
        "a_discard_touches_nothing_outside_its_range",
        a_discard_touches_nothing_outside_its_range,
    ),
    (
        "a_bad_range_ends_as_invalid_and_touches_nothing",
        a_bad_range_ends_as_invalid_and_touches_nothing,
    ),
];

pub(crate) fn what_was_written_is_read_to_the_sector(rig: &mut Rig) {
    assert_eq!(rig.origin.geometry().size, SIZE);
    for (at, byte, length) in [(0, 1, 4096), (512, 2, 512), (9216, 3, 66_048)] {
        rig.write(at, byte, length, false);
        assert_eq!(rig.one().result, Ok(()));
    }
    rig.expect(0, 512, 1);
    rig.expect(512, 512, 2);
    rig.expect(1024, 3072, 1);
    rig.expect(4096, 5120, 0);
    rig.expect(9216, 66_048, 3);
    rig.expect(9216 + 66_048, 512, 0);
}

pub(crate) fn a_slice_that_begins_anywhere_in_its_buffer_is_written(rig: &mut Rig) {
    let whole = rig.pool.copy_of(&[6; 8192]);
    let verb = OriginVerb::Write {
        offset: Offset::new(1024),
        data: whole.slice(5..5 + 1024),
        fua: true,
    };
    rig.submit(verb);
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(512, 512, 0);
    rig.expect(1024, 1024, 6);
    rig.expect(2048, 512, 0);
}

pub(crate) fn neighbouring_sectors_written_together_keep_apart(rig: &mut Rig) {
    for round in 0..20_u8 {
        for sector in 0..64_u8 {
            rig.write(u64::from(sector) * 512, round + sector, 512, false);
        }
        assert!(rig.finish(64).values().all(|d| d.result == Ok(())));
        for sector in 0..64_u8 {
            rig.expect(u64::from(sector) * 512, 512, round + sector);
        }
    }
}

pub(crate) fn many_operations_in_flight_each_end_once(rig: &mut Rig) {
    let mut dice = Prng::new(5);
    for block in 0..200_u8 {
        let fua = dice.one_in(16);
        rig.write(u64::from(block) * 4096, block, 4096, fua);
    }
    assert!(rig.finish(200).values().all(|d| d.result == Ok(())));
    let mut expected = BTreeMap::new();
    for _ in 0..400 {
        let block = dice.below(200);
        let token = rig.read(block * 4096, 4096);
        expected.insert(token, u8::try_from(block).unwrap());
    }
    rig.submit(OriginVerb::Flush);
    for (token, done) in rig.finish(401) {
        assert_eq!(done.result, Ok(()));
        match expected.get(&token) {
            Some(byte) => {
                let buf = done.buf.expect("a read's buffer comes back");
                assert!(buf[..4096].iter().all(|b| b == byte));
            }
            None => assert!(done.buf.is_none()),
        }
    }
}

pub(crate) fn zeroed_ranges_read_as_zero_and_nothing_else_does(rig: &mut Rig) {
    for (may_unmap, fua) in [(false, false), (true, false), (false, true), (true, true)] {
        rig.write(0, 9, 3 << 20, false);
        assert_eq!(rig.one().result, Ok(()));
        rig.submit(OriginVerb::WriteZeroes {
            offset: Offset::new(1536),
            length: Bytes::new((2 << 20) + 512),
            may_unmap,
            fua,
        });
        assert_eq!(rig.one().result, Ok(()));
        rig.expect(0, 1536, 9);
        rig.expect(1536, (2 << 20) + 512, 0);
        rig.expect(1536 + (2 << 20) + 512, 4096, 9);
    }
}

pub(crate) fn a_discard_touches_nothing_outside_its_range(rig: &mut Rig) {
    rig.write(0, 9, 1 << 20, false);
    assert_eq!(rig.one().result, Ok(()));
    rig.submit(OriginVerb::Discard {
        offset: Offset::new(2560),
        length: Bytes::kib(512),
    });
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(0, 2560, 9);
    rig.expect(2560 + (512 << 10), 4096, 9);
}

pub(crate) fn a_bad_range_ends_as_invalid_and_touches_nothing(rig: &mut Rig) {
    let end = SIZE.get();
    for (at, length) in [
        (end, 512),
        (end - 512, 1024),
        (100, 512),
        (0, 100),
        (u64::MAX - 511, 512),
    ] {
        rig.read(at, length);
        let done = rig.one();
        assert_eq!(done.result, Err(IoError::Invalid));
        assert!(done.buf.is_some());
        rig.write(at, 9, usize::try_from(length).unwrap(), false);
        assert_eq!(rig.one().result, Err(IoError::Invalid));
    }
    rig.expect(end - 512, 512, 0);
    rig.expect(0, 4096, 0);
}
