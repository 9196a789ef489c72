use super::*;
use crate::target::whole;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use units::Prng;
use workload::{Flaw, Region, Shape, Spread, SyncEvery};

/// A disk in memory that answers in any order, and may lie.
#[derive(Default)]
struct Disk {
    bytes: Vec<u8>,
    waiting: VecDeque<(usize, Request, Vec<u8>)>,
    read: Vec<Vec<u8>>,
    log: Vec<Request>,
    in_flight_most: usize,
    lost_writes: Option<u64>,
    fails_at: Option<u64>,
    dice: Option<Prng>,
}

struct Fake(Rc<RefCell<Disk>>);

impl Target for Fake {
    fn submit(&mut self, slot: usize, request: Request, data: Option<&[u8]>) -> io::Result<()> {
        let mut disk = self.0.borrow_mut();
        let data = data.map(<[u8]>::to_vec).unwrap_or_default();
        disk.log.push(request);
        disk.waiting.push_back((slot, request, data));
        let most = disk.in_flight_most.max(disk.waiting.len());
        disk.in_flight_most = most;
        Ok(())
    }

    fn wait(&mut self, _: Duration, done: &mut Vec<Done>) -> io::Result<()> {
        let disk = &mut *self.0.borrow_mut();
        let dice = disk.dice.get_or_insert_with(|| Prng::new(1));
        let picked = usize::try_from(dice.below(disk.waiting.len().max(1) as u64)).unwrap();
        let Some((slot, request, data)) = disk.waiting.remove(picked) else {
            return Ok(());
        };
        let mut result = whole(Ok(1), 1);
        match request {
            Request::Read { offset, length } => {
                let at = usize::try_from(offset).unwrap();
                disk.read.resize(64, Vec::new());
                disk.read[slot] = disk.bytes[at..at + length as usize].to_vec();
            }
            Request::Write { offset, .. } if disk.lost_writes == Some(offset) => {
                disk.lost_writes = None;
            }
            Request::Write { offset, .. } if disk.fails_at == Some(offset) => {
                result = Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Request::Write { offset, .. } => {
                let at = usize::try_from(offset).unwrap();
                disk.bytes[at..at + data.len()].copy_from_slice(&data);
            }
            Request::Trim { .. } | Request::WriteZeroes { .. } | Request::Flush { .. } => {}
        }
        done.push(Done { slot, result });
        Ok(())
    }

    fn fetch(&mut self, slot: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow().read[slot][..into.len()]);
    }
}

const REGION: Region = Region {
    offset: 0,
    length: 256 << 10,
};

fn orders(shape: Shape) -> Orders {
    Orders {
        plan: Plan {
            shape,
            sizes: "4k".parse().unwrap(),
            spread: Spread::Uniform,
            each_once: true,
            region: REGION,
            read_percent: 50,
            sync: None,
            bytes: Some(1 << 20),
            seed: 5,
        },
        depth: 8,
        runtime: None,
        ramp: Duration::ZERO,
        rates: Rates::default(),
        ledger: None,
        read_back: true,
    }
}

fn verified(shape: Shape) -> Orders {
    Orders {
        ledger: Ledger::new(REGION, 4096, 5, false),
        ..orders(shape)
    }
}

fn disk() -> Disk {
    Disk {
        bytes: vec![0; 256 << 10],
        ..Disk::default()
    }
}

fn run(orders: Orders, disk: Disk) -> (JobOutcome, Disk) {
    let disk = Rc::new(RefCell::new(disk));
    let shared = Shared::default();
    let target = Box::new(Fake(Rc::clone(&disk)));
    let outcome = Job::new(orders, target, &shared).run();
    (outcome, disk.take())
}

#[test]
fn a_job_moves_what_it_was_told_and_keeps_its_depth() {
    let (outcome, disk) = run(orders(Shape::RandRead), disk());
    let [reads, writes, trims] = &outcome.directions;
    assert_eq!((reads.bytes, reads.times.count()), (1 << 20, 256));
    assert_eq!((writes.bytes, trims.bytes), (0, 0));
    assert_eq!(disk.in_flight_most, 8);
    assert!(outcome.error.is_none() && outcome.verified.is_none());
}

#[test]
fn verified_writes_are_read_back_and_nothing_is_wrong() {
    for shape in [Shape::RandRw, Shape::RandWrite, Shape::Rw, Shape::Write] {
        let (outcome, _) = run(verified(shape), disk());
        let verified = outcome.verified.unwrap();
        assert_eq!((verified.wrong, verified.findings.len()), (0, 0));
        assert!(verified.right >= 60, "{shape}: {verified:?}");
        // What was read back is not among the reads of the load.
        let moved: u64 = outcome.directions.iter().map(|tally| tally.bytes).sum();
        assert_eq!(moved, 1 << 20);
    }
}

#[test]
fn a_lost_write_is_found_where_it_was_lost() {
    let lying = Disk {
        lost_writes: Some(40960),
        ..disk()
    };
    let mut orders = verified(Shape::Write);
    orders.plan.bytes = Some(256 << 10);
    let (outcome, _) = run(orders, lying);
    let verified = outcome.verified.unwrap();
    assert_eq!((verified.right, verified.wrong), (63, 1));
    assert_eq!(verified.findings[0].offset, 40960);
    assert_eq!(verified.findings[0].flaw, Flaw::NoPattern(0));
}

#[test]
fn verified_requests_never_overlap_a_write_in_flight() {
    let mut orders = verified(Shape::RandRw);
    orders.plan.sizes = "4k/50:32k/50".parse().unwrap();
    orders.plan.each_once = false;
    orders.plan.bytes = Some(16 << 20);
    let (outcome, disk) = run(orders, disk());
    let verified = outcome.verified.unwrap();
    // Answers come in any order, so an overlap would show as a wrong block.
    assert_eq!(verified.wrong, 0, "{:?}", verified.findings);
    assert!(disk.in_flight_most > 1);
}

#[test]
fn the_first_error_ends_the_job_and_says_where() {
    let failing = Disk {
        fails_at: Some(8192),
        ..disk()
    };
    let (outcome, disk) = run(orders(Shape::Write), failing);
    let error = outcome.error.unwrap();
    assert_eq!(error.number(), libc::EIO);
    let said = "a write of 4096 bytes at offset 8192 failed";
    assert_eq!(error.to_string(), said);
    assert!(disk.log.len() < 64, "{}", disk.log.len());
    assert!(disk.waiting.is_empty(), "what was in flight is waited for");
}

#[test]
fn syncs_are_counted_apart() {
    let mut orders = orders(Shape::Write);
    orders.plan.sync = Some(SyncEvery {
        writes: 16,
        data_only: false,
    });
    let (outcome, disk) = run(orders, disk());
    assert_eq!(outcome.syncs.times.count(), 16);
    assert_eq!(outcome.directions[1].times.count(), 256);
    let syncs = disk.log.iter();
    let syncs = syncs.filter(|request| matches!(request, Request::Flush { data_only: false }));
    assert_eq!(syncs.count(), 16);
}

#[test]
fn a_paced_load_lasts_as_long_as_it_was_told_though_nothing_was_due_at_the_end() {
    let mut orders = orders(Shape::RandRead);
    orders.runtime = Some(Duration::from_millis(20));
    orders.rates.requests = Some(1);
    let (outcome, _) = run(orders, disk());
    assert_eq!(outcome.directions[0].times.count(), 1);
    assert!(outcome.elapsed_ns >= 20_000_000, "{}", outcome.elapsed_ns);
}
