//! The latency model by hand-worked times.

use super::*;
use crate::destaged::{Destaged, LogRoom};
use trace::{Record, VolumeIndex};
use units::{DiskSlot, Offset};

const BLOCK: Bytes = Bytes::new(4096);

fn model(write_policy: WritePolicy, arrival: Arrival) -> LatencyModel {
    let free = "iops=unlimited,bandwidth=unlimited,parallel=unlimited";
    let settings = LatencySettings {
        flash: format!("{free},read=100us,write=10us").parse().unwrap(),
        origin: format!("{free},read=1ms,write=2ms").parse().unwrap(),
        arrival,
    };
    LatencyModel::new(&settings, write_policy, BLOCK, 0)
}

fn record(op: Op, time_us: u64, blocks: u64) -> Record {
    Record {
        time_us,
        offset: Offset::ZERO,
        length: Bytes::new(4096 * blocks),
        response_us: None,
        volume: VolumeIndex::default(),
        op,
        hash: None,
    }
}

fn near(nanos: u64, expected_us: f64) -> bool {
    (real(nanos) / 1000.0 / expected_us - 1.0).abs() < 0.002
}

fn ask(model: &mut LatencyModel, record: &Record, blocks: &[u8]) {
    evict(model, record, blocks, 0);
}

/// A request whose blocks evict so many dirty ones in place.
fn evict(model: &mut LatencyModel, record: &Record, blocks: &[u8], evicted: u32) {
    let asked = Asked {
        record,
        blocks,
        room: None,
        evicted,
    };
    model.request(&asked, std::iter::empty());
}

const ORIGINAL: Arrival = Arrival::Timed { speed: 1.0 };

#[test]
fn a_request_is_answered_when_its_slowest_part_is() {
    let mut model = model(WritePolicy::Through, ORIGINAL);
    ask(&mut model, &record(Op::Read, 0, 2), &[HIT, STORED]);
    assert!(near(model.times.reads.max(), 1000.0));
    model.start_counting();
    ask(&mut model, &record(Op::Read, 9000, 2), &[HIT, HIT]);
    assert!(near(model.times.reads.max(), 100.0));
}

#[test]
fn a_write_waits_for_what_its_policy_promises() {
    for (policy, blocks, expected_us) in [
        (WritePolicy::Around, [0, HIT], 2000.0),
        (WritePolicy::Through, [STORED, HIT | STORED], 2000.0),
        (WritePolicy::Back, [STORED, HIT | STORED], 10.0),
        (WritePolicy::Back, [STORED, 0], 2000.0),
    ] {
        let mut model = model(policy, ORIGINAL);
        ask(&mut model, &record(Op::Write, 0, 2), &blocks);
        assert!(near(model.times.writes.max(), expected_us), "{policy:?}");
    }
}

#[test]
fn a_depth_of_two_answers_two_in_the_time_of_one() {
    let mut model = model(WritePolicy::Through, Arrival::Depth(2));
    for _ in 0..100 {
        ask(&mut model, &record(Op::Read, 0, 1), &[HIT]);
    }
    assert_eq!(model.times.ended, 50 * 100_000);
}

#[test]
fn twice_the_speed_halves_the_time() {
    let mut model = model(WritePolicy::Through, Arrival::Timed { speed: 2.0 });
    ask(&mut model, &record(Op::Read, 500, 1), &[HIT]);
    ask(&mut model, &record(Op::Read, 10_500, 1), &[HIT]);
    assert_eq!(model.times.ended, 5_000_000 + 100_000);
}

#[test]
fn a_fill_takes_the_flash_when_the_origin_has_answered() {
    let settings = LatencySettings {
        flash: "read=100us,write=500us,parallel=1,bandwidth=unlimited,iops=unlimited"
            .parse()
            .unwrap(),
        origin: "read=1ms,write=2ms,bandwidth=unlimited".parse().unwrap(),
        arrival: ORIGINAL,
    };
    let mut model = LatencyModel::new(&settings, WritePolicy::Through, BLOCK, 0);
    ask(&mut model, &record(Op::Read, 0, 1), &[STORED]);
    // The fill holds the flash from 1,000 us to 1,500 us.
    ask(&mut model, &record(Op::Read, 900, 1), &[HIT]);
    ask(&mut model, &record(Op::Read, 1100, 1), &[HIT]);
    assert!(near(model.times.reads.min(), 100.0));
    assert!(near(model.times.reads.value_at_quantile(0.5), 500.0));
    assert_eq!(model.times.ended, 1_600_000);
}

fn slow_origin(arrival: Arrival) -> LatencyModel {
    let settings = LatencySettings {
        flash: "read=100us,write=20us,bandwidth=unlimited,iops=unlimited"
            .parse()
            .unwrap(),
        origin: "read=1ms,write=2ms,parallel=1,bandwidth=unlimited,iops=unlimited"
            .parse()
            .unwrap(),
        arrival,
    };
    LatencyModel::new(&settings, WritePolicy::Back, BLOCK, 0)
}

#[test]
fn a_write_waits_for_the_dirty_block_that_it_evicts() {
    let mut model = slow_origin(ORIGINAL);
    evict(&mut model, &record(Op::Write, 0, 1), &[STORED], 1);
    // The origin is busy with the evicted block from 100 us to 2,100 us.
    ask(&mut model, &record(Op::Read, 200, 1), &[STORED]);
    assert_eq!(model.times.ended, 3_100_000);
    assert_eq!(model.times.writes.len(), 0, "nobody has looked since");
    model.finish();
    assert!(near(model.times.writes.max(), 2120.0));
}

#[test]
fn a_read_does_not_wait_for_the_dirty_block_that_its_fill_evicts() {
    let mut model = slow_origin(ORIGINAL);
    evict(&mut model, &record(Op::Read, 0, 1), &[STORED], 1);
    assert!(near(model.times.reads.max(), 1000.0));
    // The origin writes the evicted block from 1,000 us to 3,000 us.
    ask(&mut model, &record(Op::Read, 1500, 1), &[0]);
    assert!(near(model.times.reads.max(), 2500.0));
}

#[test]
fn writes_that_evict_are_as_many_as_the_origin_takes() {
    let mut model = slow_origin(Arrival::Depth(8));
    for _ in 0..100 {
        evict(&mut model, &record(Op::Write, 0, 1), &[STORED], 1);
    }
    model.finish();
    assert_eq!(model.times.ended, 100_000 + 100 * 2_000_000 + 20_000);
}

const DISK: DiskSlot = DiskSlot::new(0);

/// Writes a block to a log of so many records, after what the log has done.
fn log(model: &mut LatencyModel, time_us: u64, records: u64, done: &[Destaged]) {
    let asked = Asked {
        record: &record(Op::Write, time_us, 1),
        blocks: &[STORED | DIRTY],
        room: Some(LogRoom {
            disk: DISK,
            records,
        }),
        evicted: 0,
    };
    let at = units::Instant::from_nanos(time_us * 1000);
    let done: Vec<Done> = done
        .iter()
        .map(|what| Done {
            disk: DISK,
            at,
            what: *what,
        })
        .collect();
    model.request(&asked, done.iter());
}

#[test]
fn a_burst_that_fits_in_the_log_waits_for_flash_alone() {
    let mut model = slow_origin(Arrival::Depth(1));
    for _ in 0..8 {
        log(&mut model, 0, 8, &[]);
    }
    assert!(near(model.times.writes.max(), 20.0));
}

#[test]
fn a_write_that_finds_no_room_waits_until_the_origin_is_flushed() {
    let mut model = slow_origin(ORIGINAL);
    for time_us in 0..4 {
        log(&mut model, time_us, 4, &[]);
    }
    let settled = Destaged::Settled {
        records: 4,
        flushed: true,
    };
    log(&mut model, 100, 4, &[Destaged::Run(4), settled]);
    model.finish();
    // Flash is read for 100 us, the origin written and flushed for 2,000 us each, flash written for 20 us.
    assert!(near(model.times.writes.max(), 4120.0));
    assert!(near(model.times.writes.value_at_quantile(0.75), 20.0));
}

#[test]
fn a_read_shares_the_queue_of_the_origin_with_a_log() {
    let mut model = slow_origin(ORIGINAL);
    log(&mut model, 0, 4, &[]);
    let settled = Destaged::Settled {
        records: 1,
        flushed: false,
    };
    log(&mut model, 100, 4, &[Destaged::Run(1), settled]);
    // The origin is written from 200 us to 2,200 us.
    ask(&mut model, &record(Op::Read, 300, 1), &[0]);
    assert!(near(model.times.reads.max(), 2900.0));
}

#[test]
fn a_clock_that_steps_back_stands_still() {
    let mut model = model(WritePolicy::Through, ORIGINAL);
    for time_us in [5000, 9000, 0, 9001] {
        ask(&mut model, &record(Op::Read, time_us, 1), &[HIT]);
    }
    assert_eq!(model.times.ended, 4_001_000 + 100_000);
    assert_eq!(model.times.reads.len(), 4);
}
