//! The contract of `Origin`, as one body that every form runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use block_io::{IoError, OriginVerb};
use medium::{Fault, Faults, Kind, Medium, MediumOptions};
use origin::faulty::Faulty;
use origin::memory::MemoryOrigin;
use support::{Form, Rig, SIZE, bodies, memory_rig, on_every_form};
use units::{Bytes, Offset};

#[test]
fn what_was_written_is_read_to_the_sector() {
    on_every_form(bodies::what_was_written_is_read_to_the_sector);
}

#[test]
fn a_slice_that_begins_anywhere_in_its_buffer_is_written() {
    on_every_form(bodies::a_slice_that_begins_anywhere_in_its_buffer_is_written);
}

#[test]
fn neighbouring_sectors_written_together_keep_apart() {
    on_every_form(bodies::neighbouring_sectors_written_together_keep_apart);
}

#[test]
fn many_operations_in_flight_each_end_once() {
    on_every_form(bodies::many_operations_in_flight_each_end_once);
}

#[test]
fn zeroed_ranges_read_as_zero_and_nothing_else_does() {
    on_every_form(bodies::zeroed_ranges_read_as_zero_and_nothing_else_does);
}

#[test]
fn a_discard_touches_nothing_outside_its_range() {
    on_every_form(bodies::a_discard_touches_nothing_outside_its_range);
}

#[test]
fn a_bad_range_ends_as_invalid_and_touches_nothing() {
    on_every_form(bodies::a_bad_range_ends_as_invalid_and_touches_nothing);
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
