#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::memory::MemoryOrigin;
use medium::{Medium, MediumOptions};
use units::{DiskSlot, Offset, Prng};

const SECTORS: u64 = 16;
const SECTOR: u64 = 512;
const LIMIT: Duration = Duration::from_micros(100);

/// A change that was asked for: what it was in the order of all, and what became of it.
#[derive(Debug)]
struct Change {
    first: u64,
    end: u64,
    outcome: Option<Result<(), IoError>>,
}

/// A read: the sectors, and the newest change of each that had been acknowledged when the read was asked for.
#[derive(Debug)]
struct Read {
    first: u64,
    floors: Vec<usize>,
}

/// Operations on a slow origin, and what they may see.
struct Check {
    origin: Timed<MemoryOrigin>,
    pool: BufPool,
    now: Instant,
    tokens: u64,
    /// The first "change" is the empty medium.
    changes: Vec<Change>,
    changing: BTreeMap<Token, usize>,
    reading: BTreeMap<Token, Read>,
    deadlines: BTreeMap<Token, Instant>,
    /// The newest change of each sector that was acknowledged or read.
    floors: Vec<usize>,
    timed_out: usize,
    volatile: usize,
}

impl Check {
    fn new(seed: u64) -> Self {
        let size = Bytes::new(SECTORS * SECTOR);
        let medium = Medium::new(MediumOptions {
            latency_least: Duration::from_micros(1),
            latency_most: Duration::from_micros(200),
            ..MediumOptions::new(size, seed)
        });
        let pool = BufPool::new();
        let inner = MemoryOrigin::open(&medium);
        let origin = Timed::new(inner, "memory".to_owned(), LIMIT, &pool);
        Self {
            origin,
            pool,
            now: Instant::ZERO,
            tokens: 0,
            changes: vec![Change {
                first: 0,
                end: SECTORS,
                outcome: Some(Ok(())),
            }],
            changing: BTreeMap::new(),
            reading: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            floors: vec![0; usize::try_from(SECTORS).unwrap()],
            timed_out: 0,
            volatile: 0,
        }
    }

    fn ask(&mut self, verb: OriginVerb) -> Token {
        self.tokens += 1;
        let token = Token(1_000_000 + self.tokens);
        let disk = DiskSlot::new(0);
        self.origin.submit(OriginOp { token, disk, verb }, self.now);
        self.deadlines.insert(token, self.now + LIMIT);
        token
    }

    fn write(&mut self, first: u64, sectors: u64) {
        let index = self.changes.len();
        let mut bytes = vec![0; usize::try_from(sectors * SECTOR).unwrap()];
        for sector in bytes.chunks_mut(usize::try_from(SECTOR).unwrap()) {
            sector[..8].copy_from_slice(&(index as u64).to_le_bytes());
        }
        let token = self.ask(OriginVerb::Write {
            offset: Offset::new(first * SECTOR),
            data: self.pool.copy_of(&bytes),
            fua: false,
        });
        self.changes.push(Change {
            first,
            end: first + sectors,
            outcome: None,
        });
        self.changing.insert(token, index);
    }

    fn read(&mut self, first: u64, sectors: u64) {
        let floors =
            (first..first + sectors).map(|sector| self.floors[usize::try_from(sector).unwrap()]);
        let floors = floors.collect();
        let token = self.ask(OriginVerb::Read {
            offset: Offset::new(first * SECTOR),
            length: Bytes::new(sectors * SECTOR),
            buf: self.pool.take(usize::try_from(sectors * SECTOR).unwrap()),
        });
        self.reading.insert(token, Read { first, floors });
    }

    /// Time passes, and what ended is judged.
    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        let mut done = Vec::new();
        self.origin.poll(self.now, &mut done);
        for one in done {
            let deadline = self.deadlines.remove(&one.token).expect("it ends once");
            if one.result == Err(IoError::TimedOut) {
                assert!(deadline <= self.now, "it has all its time");
                self.timed_out += 1;
            }
            if let Some(index) = self.changing.remove(&one.token) {
                self.changes[index].outcome = Some(one.result);
                let Change { first, end, .. } = self.changes[index];
                if one.result.is_ok() {
                    self.raise(first, end, index);
                }
            } else if let Some(read) = self.reading.remove(&one.token) {
                let buf = one.buf.expect("a read's buffer comes back");
                if one.result.is_ok() {
                    self.judge(&read, &buf, one.volatile);
                }
            }
        }
        let overdue = self.deadlines.values().any(|deadline| *deadline < self.now);
        assert!(!overdue, "nothing is held for longer than the limit");
    }

    fn raise(&mut self, first: u64, end: u64, index: usize) {
        for floor in
            &mut self.floors[usize::try_from(first).unwrap()..usize::try_from(end).unwrap()]
        {
            *floor = (*floor).max(index);
        }
    }

    fn judge(&mut self, read: &Read, bytes: &[u8], volatile: bool) {
        let sectors = bytes.chunks(usize::try_from(SECTOR).unwrap());
        for ((sector, bytes), floor) in (read.first..).zip(sectors).zip(&read.floors) {
            let seen = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let seen = usize::try_from(seen).unwrap();
            assert!(
                seen >= *floor,
                "sector {sector}: {seen} came back after {floor}"
            );
            let was_given_up = self.changes[seen].outcome == Some(Err(IoError::TimedOut));
            self.volatile += usize::from(was_given_up && volatile);
            assert!(
                volatile || !was_given_up || *floor == seen,
                "who reads first what was given up is told"
            );
            self.raise(sector, sector + 1, seen);
        }
    }
}

#[test]
fn what_was_given_up_undoes_nothing_and_is_told_to_who_reads_it() {
    let (mut timed_out, mut volatile) = (0, 0);
    for seed in 0..400 {
        let mut dice = Prng::new(seed);
        let mut check = Check::new(seed);
        for _ in 0..150 {
            let first = dice.below(SECTORS);
            let sectors = 1 + dice.below((SECTORS - first).min(4));
            match dice.below(3) {
                0 => check.write(first, sectors),
                1 => check.read(first, sectors),
                _ => check.pass(Duration::from_micros(dice.below(40))),
            }
            check.pass(Duration::ZERO);
        }
        for _ in 0..40 {
            let due = check.origin.next_deadline();
            let time = due.map_or(Duration::ZERO, |due| due.since(check.now));
            check.pass(time);
        }
        assert!(check.deadlines.is_empty(), "everything ends");
        timed_out += check.timed_out;
        volatile += check.volatile;
    }
    assert!(timed_out > 1000 && volatile > 100, "{timed_out} {volatile}");
}

#[test]
fn only_a_flush_that_is_sent_afterwards_vouches_for_a_late_change() {
    let mut doubts = Doubts::default();
    let range = |offset, end| Range {
        offset,
        end,
        effect: Effect::Change,
    };
    let before = doubts.flush_sent();
    doubts.put(range(0, 8));
    doubts.flushed(before);
    assert!(doubts.has(&range(7, 9)) && !doubts.has(&range(8, 9)));
    let after = doubts.flush_sent();
    doubts.put(range(20, 21));
    doubts.flushed(after);
    assert!(!doubts.has(&range(0, 8)) && doubts.has(&range(0, 21)));
}

#[test]
fn many_ranges_in_doubt_are_one() {
    let mut doubts = Doubts::default();
    for n in 0..=DOUBTS_MAX as u64 {
        let offset = n * 10;
        doubts.put(Range {
            offset,
            end: offset + 1,
            effect: Effect::Change,
        });
    }
    let gap = Range {
        offset: 5,
        end: 6,
        effect: Effect::Read,
    };
    assert!(doubts.has(&gap) && doubts.ranges.len() == 1);
}

#[test]
fn the_condition_and_the_time_that_the_shard_stood_still() {
    let mut check = Check::new(1);
    check.origin.limit = Duration::from_nanos(1);
    check.write(0, 2);
    check.origin.stood_still(Duration::from_nanos(1));
    let mut done = Vec::new();
    check
        .origin
        .poll(Instant::ZERO + Duration::from_nanos(1), &mut done);
    assert!(done.is_empty(), "that time counts against nothing");
    check
        .origin
        .poll(Instant::ZERO + Duration::from_nanos(2), &mut done);
    assert_eq!(done[0].result, Err(IoError::TimedOut));
    let condition = check.origin.condition();
    assert!(!condition.connected && condition.late == Bytes::new(2 * SECTOR));
    assert_eq!(
        check.origin.grow(Bytes::new(1 << 20)),
        Err(IoError::TimedOut)
    );
    check.origin.poll(Instant::ZERO + LIMIT + LIMIT, &mut done);
    assert_eq!(check.origin.condition(), Condition::default());
}
