//! Tenants on a simulated log, and requests for them.

#![allow(dead_code, reason = "each test uses what it needs")]
#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use policy::reclaim::Kind;
use simulator::divided_log::{Admission, DividedLog, Outcome};
use simulator::simulated_store::SimulatedStore;
use tenancy::{Capacity, Request, Settings, TenantSettings};
use units::{BlockIndex, Bytes, DiskSlot, Duration, Instant, TenantSlot};

/// Segments of 16 pages, of which 14 hold blocks.
pub(crate) const SEGMENT: Bytes = Bytes::kib(64);

pub(crate) fn vm(number: u16) -> TenantSlot {
    TenantSlot::new(number)
}

pub(crate) fn disk(number: u16) -> DiskSlot {
    DiskSlot::new(number)
}

pub(crate) fn seconds(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

pub(crate) fn log(segments: u32) -> SimulatedStore {
    SimulatedStore::new(segments * 16, SEGMENT, Kind::Clock).unwrap()
}

/// A log of which tenants can hold so many segments.
pub(crate) fn log_of(segments: u32) -> SimulatedStore {
    let logs = (segments..).map(log);
    let mut fitting =
        logs.skip_while(|log| Capacity::of(log.facts().geometry()).segments < segments);
    fitting.next().unwrap()
}

/// A cache of so many segments whose tenants have a disk of their own each, of the same number.
pub(crate) fn host(segments: u32, settings: Settings, tenants: &[TenantSettings]) -> DividedLog {
    let log = log_of(segments);
    let capacity = Capacity::of(log.facts().geometry());
    let admission = Admission::new(Some(settings), capacity, Instant::ZERO).unwrap();
    let mut host = DividedLog::new(log, admission);
    for (number, settings) in (0..).zip(tenants) {
        host.change(|admission| admission.attach(vm(number), settings.clone()))
            .unwrap();
        host.set_owner(disk(number), vm(number));
    }
    host
}

/// Blocks of different disks have different names.
pub(crate) fn key(number: u16, block: u64) -> u32 {
    u32::try_from(block * 8).unwrap() + u32::from(number) % 8
}

pub(crate) fn request(number: u16, first: u64, count: u64, write: bool, now: Instant) -> Request {
    Request {
        vm: vm(number),
        tenant: vm(number),
        disk: disk(number),
        first: BlockIndex::new(first),
        count,
        write,
        now,
    }
}

/// Reads blocks of a tenant's disk in one request.
pub(crate) fn read(
    host: &mut DividedLog,
    number: u16,
    first: u64,
    count: u64,
    now: Instant,
) -> Vec<Outcome> {
    host.advance(now);
    let arrival = host.arrives(&request(number, first, count, false, now));
    let keys: Vec<u32> = (first..first + count)
        .map(|block| key(number, block))
        .collect();
    let mut outcomes = vec![None; keys.len()];
    host.read_run(&arrival, disk(number), &keys, |at, outcome| {
        outcomes[at] = Some(outcome);
    });
    outcomes.into_iter().map(Option::unwrap).collect()
}

/// Writes one block of a tenant's disk.
pub(crate) fn write(host: &mut DividedLog, number: u16, block: u64, now: Instant) -> Outcome {
    host.advance(now);
    let arrival = host.arrives(&request(number, block, 1, true, now));
    host.write(&arrival, disk(number), key(number, block), true)
}
