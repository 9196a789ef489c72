//! The contract of `Origin`, as one body that every form runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::{IoError, OriginVerb};
use medium::{Fault, Faults, Kind, Medium, MediumOptions};
use origin::faulty::Faulty;
use origin::memory::MemoryOrigin;
use std::collections::BTreeMap;
use support::{Form, Rig, SIZE, memory_rig, on_every_form};
use units::{Bytes, Offset, Prng};

#[test]
fn what_was_written_is_read_to_the_sector() {
    on_every_form(|rig| {
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
    });
}

#[test]
fn a_slice_that_begins_anywhere_in_its_buffer_is_written() {
    on_every_form(|rig| {
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
    });
}

#[test]
fn neighbouring_sectors_written_together_keep_apart() {
    on_every_form(|rig| {
        for round in 0..20_u8 {
            for sector in 0..64_u8 {
                rig.write(u64::from(sector) * 512, round + sector, 512, false);
            }
            assert!(rig.finish(64).values().all(|d| d.result == Ok(())));
            for sector in 0..64_u8 {
                rig.expect(u64::from(sector) * 512, 512, round + sector);
            }
        }
    });
}

#[test]
fn many_operations_in_flight_each_end_once() {
    on_every_form(|rig| {
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
    });
}

#[test]
fn zeroed_ranges_read_as_zero_and_nothing_else_does() {
    on_every_form(|rig| {
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
    });
}

#[test]
fn a_discard_touches_nothing_outside_its_range() {
    on_every_form(|rig| {
        rig.write(0, 9, 1 << 20, false);
        assert_eq!(rig.one().result, Ok(()));
        rig.submit(OriginVerb::Discard {
            offset: Offset::new(2560),
            length: Bytes::kib(512),
        });
        assert_eq!(rig.one().result, Ok(()));
        rig.expect(0, 2560, 9);
        rig.expect(2560 + (512 << 10), 4096, 9);
    });
}

#[test]
fn a_bad_range_ends_as_invalid_and_touches_nothing() {
    on_every_form(|rig| {
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
    });
}

#[test]
fn a_read_only_origin_refuses_to_change() {
    for form in Form::all() {
        let mut rig = Rig::read_only(form);
        rig.write(0, 9, 512, false);
        assert_eq!(rig.one().result, Err(IoError::NotPermitted));
        rig.submit(OriginVerb::WriteZeroes {
            offset: Offset::ZERO,
            length: Bytes::new(512),
            may_unmap: true,
            fua: false,
        });
        assert_eq!(rig.one().result, Err(IoError::NotPermitted));
        rig.expect(0, 512, 0);
    }
}

#[test]
fn a_flush_and_fua_survive_a_power_cut_of_the_storage() {
    for seed in 0..50 {
        let medium = Medium::new(MediumOptions::new(SIZE, seed));
        let mut before = memory_rig(MemoryOrigin::open(&medium));
        before.write(0, 1, 8192, true);
        before.write(65_536, 2, 8192, false);
        before.finish(2);
        before.submit(OriginVerb::Flush);
        before.one();
        medium.crash();
        let mut after = memory_rig(MemoryOrigin::open(&medium));
        after.expect(0, 8192, 1);
        after.expect(65_536, 8192, 2);
    }
}

#[test]
fn a_plan_of_faults_is_followed() {
    let medium = Medium::new(MediumOptions::new(SIZE, 4));
    let faults = Faults::new(4);
    let mut rig = memory_rig(Faulty::new(MemoryOrigin::open(&medium), faults.clone()));
    faults.on(Kind::Zero, 1, Fault::Error(IoError::NoSpace));
    faults.on(Kind::Write, 1, Fault::Lose);
    faults.on(Kind::Read, 2, Fault::Stall);
    rig.submit(OriginVerb::Discard {
        offset: Offset::ZERO,
        length: Bytes::kib(4),
    });
    assert_eq!(rig.one().result, Err(IoError::NoSpace));
    rig.write(0, 9, 512, true);
    assert_eq!(rig.one().result, Ok(()));
    rig.expect(0, 512, 0);
    let stalled = rig.read(0, 512);
    let passes = rig.read(512, 512);
    let first = rig.one();
    assert_eq!(first.token, passes);
    faults.release();
    assert_eq!(rig.one().token, stalled);
}
