use super::*;
use crate::replay::feed;
use crate::target::Geometry;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;

/// A target that takes note, and answers when the test says so.
#[derive(Clone, Default)]
struct Fake(Rc<RefCell<Vec<(usize, Request)>>>);

impl Target for Fake {
    fn submit(&mut self, slot: usize, request: Request, _: Option<&[u8]>) -> io::Result<()> {
        self.0.borrow_mut().push((slot, request));
        Ok(())
    }

    fn wait(&mut self, _: Duration, _: &mut Vec<Done>) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn fetch(&mut self, _: usize, _: &mut [u8]) {
        unreachable!("nobody looks at the bytes of a replay")
    }
}

const GEOMETRY: Geometry = Geometry {
    size: 1 << 20,
    unit: 512,
    request_max: 1 << 20,
    erase_max: 1 << 20,
    depth_max: 8,
    read_only: false,
    can_trim: false,
    can_zero: true,
    can_flush: true,
};

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(77 + ms * MS)
}

fn asked(ms: u64, kind: Kind, offset: u64) -> Asked {
    let length = if kind == Kind::Flush { 0 } else { 4096 };
    Asked {
        at: Duration::from_millis(ms),
        kind,
        offset,
        length,
    }
}

struct Stage {
    fake: Fake,
    shared: Shared,
}

impl Stage {
    fn new() -> Self {
        Self {
            fake: Fake::default(),
            shared: Shared::default(),
        }
    }

    /// A player that begins at 0 ms.
    fn player(&self, depth: usize, speed: &str, trace: Vec<io::Result<Asked>>) -> Player<'_> {
        let orders = Orders {
            depth,
            speed: speed.parse().unwrap(),
            runtime: Some(Duration::from_millis(1000)),
            fit: Fit::new(&GEOMETRY, 1 << 20),
        };
        let (batches, receiver) = sync_channel(4);
        feed::read(trace.into_iter(), &batches);
        let target = Box::new(self.fake.clone());
        let mut player = Player::new(orders, target, Feed::new(receiver), &self.shared);
        player.begin(at(0));
        player
    }

    fn offsets(&self) -> Vec<u64> {
        let log = self.fake.0.borrow();
        let offset = |(_, request): &(usize, Request)| match request {
            Request::Read { offset, .. } => *offset,
            other => panic!("{other:?}"),
        };
        log.iter().map(offset).collect()
    }

    /// All that is in flight is answered.
    fn answer(&self, player: &mut Player<'_>, now: Instant) {
        let slots = self.fake.0.borrow_mut().drain(..).collect::<Vec<_>>();
        let done = |(slot, _)| Done {
            slot,
            result: Ok(()),
        };
        player.take_in(&mut slots.into_iter().map(done).collect(), now);
    }
}

fn reads(times_ms: &[u64]) -> Vec<io::Result<Asked>> {
    let offsets = (0..).map(|place| place * 4096);
    let pairs = times_ms.iter().zip(offsets);
    pairs
        .map(|(ms, at)| Ok(asked(*ms, Kind::Read, at)))
        .collect()
}

#[test]
fn requests_begin_at_their_times() {
    let stage = Stage::new();
    let mut player = stage.player(8, "1", reads(&[0, 10, 10, 30]));
    assert_eq!(player.fill(at(0)).unwrap(), Duration::from_millis(10));
    assert_eq!(stage.offsets(), [0]);
    player.fill(at(9)).unwrap();
    assert_eq!(stage.offsets().len(), 1);
    assert_eq!(player.fill(at(10)).unwrap(), Duration::from_millis(20));
    assert_eq!(stage.offsets(), [0, 4096, 8192]);
    assert_eq!(player.outcome.late_requests, 0);
}

#[test]
fn ten_times_as_fast_is_a_tenth_of_the_time() {
    let stage = Stage::new();
    let mut player = stage.player(8, "10", reads(&[0, 10, 20, 30]));
    assert_eq!(player.fill(at(0)).unwrap(), Duration::from_millis(1));
    player.fill(at(2)).unwrap();
    assert_eq!(stage.offsets().len(), 3);
}

#[test]
fn as_fast_as_can_be_is_bound_by_the_depth_and_never_late() {
    let stage = Stage::new();
    let mut player = stage.player(2, "max", reads(&[0, 5000, 9000]));
    player.fill(at(0)).unwrap();
    assert_eq!(stage.offsets().len(), 2);
    stage.answer(&mut player, at(40));
    player.fill(at(40)).unwrap();
    assert_eq!(stage.offsets(), [8192]);
    assert_eq!(player.outcome.late_requests, 0);
    assert_eq!(player.outcome.of(Kind::Read).latency.most(), 40 * MS);
}

#[test]
fn who_waits_for_room_is_late_and_its_latency_counts_from_its_time() {
    let stage = Stage::new();
    let mut player = stage.player(1, "1", reads(&[0, 10, 20]));
    player.fill(at(0)).unwrap();
    player.fill(at(20)).unwrap();
    assert_eq!(stage.offsets(), [0], "one at a time");
    stage.answer(&mut player, at(25));
    player.fill(at(25)).unwrap();
    assert_eq!(stage.offsets(), [4096], "due at 10 ms");
    stage.answer(&mut player, at(26));
    player.fill(at(26)).unwrap();
    stage.answer(&mut player, at(27));
    let outcome = &player.outcome;
    assert_eq!((outcome.begun_requests, outcome.late_requests), (3, 2));
    assert_eq!(outcome.lateness.most(), 15 * MS);
    let read = outcome.of(Kind::Read);
    assert_eq!(
        (read.latency.least(), read.latency.most()),
        (7 * MS, 25 * MS)
    );
    assert_eq!((read.service.least(), read.service.most()), (MS, 25 * MS));
}

#[test]
fn a_millisecond_is_not_late() {
    let stage = Stage::new();
    let mut player = stage.player(8, "1", reads(&[0, 10, 20]));
    player.fill(at(11)).unwrap();
    assert_eq!(player.outcome.late_requests, 1, "only what was due at 0");
    assert_eq!(player.outcome.begun_requests, 2);
}

#[test]
fn kinds_are_asked_as_the_target_knows_them() {
    let stage = Stage::new();
    let kinds = [Kind::Write, Kind::Flush, Kind::Discard, Kind::WriteZeroes];
    let trace = kinds.map(|kind| Ok(asked(0, kind, 4096)));
    let mut player = stage.player(8, "1", trace.into());
    player.fill(at(0)).unwrap();
    let log: Vec<Request> = stage.fake.0.borrow().iter().map(|(_, r)| *r).collect();
    let (offset, length) = (4096, 4096);
    let expected = [
        Request::Write { offset, length },
        Request::Flush { data_only: true },
        Request::WriteZeroes { offset, length },
    ];
    assert_eq!(log, expected);
    assert_eq!(player.outcome.unknown_requests, 1, "it cannot trim");
    assert!(player.over, "that was all");
}

#[test]
fn time_and_whoever_watches_end_it() {
    let stage = Stage::new();
    let mut player = stage.player(8, "1", reads(&[0, 10, 20]));
    player.fill(at(1000)).unwrap();
    assert!(player.over && stage.offsets().is_empty());
    let mut player = stage.player(8, "1", reads(&[0, 10, 20]));
    stage.shared.stop.store(true, Ordering::Relaxed);
    player.fill(at(0)).unwrap();
    assert!(player.over && stage.offsets().is_empty());
}

#[test]
fn what_was_read_before_a_fault_of_the_trace_is_replayed() {
    let stage = Stage::new();
    let mut trace = reads(&[0, 0]);
    trace.push(Err(io::ErrorKind::InvalidData.into()));
    let mut player = stage.player(8, "1", trace);
    player.fill(at(0)).unwrap();
    assert_eq!(stage.offsets().len(), 2);
    assert!(matches!(player.outcome.error, Some(JobError::Trace { .. })));
}

#[test]
fn a_target_that_is_gone_ends_it() {
    let stage = Stage::new();
    let outcome = stage.player(8, "max", reads(&[0])).run();
    assert!(matches!(outcome.error, Some(JobError::Gone { .. })));
}
