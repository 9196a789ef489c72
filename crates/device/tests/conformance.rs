//! The contract of `Device`, as one body that every form runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use block_io::{BufPool, FlashDone, FlashOp, FlashVerb, GuestBuffer, IoError, Place, Token};
use device::Device;
use device::faulty::Faulty;
use device::interleaved::Interleaved;
use device::memory::MemoryDevice;
use device::uring::{FlashFile, OpenError, UringDevice};
use medium::{Fault, Faults, Kind, Medium, MediumOptions};
use ring::Ring;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Duration, Instant, Offset, Prng};

const CAPACITY: Bytes = Bytes::mib(4);

/// A device, and what makes time pass for it.
struct Rig {
    device: Box<dyn Device>,
    pool: BufPool,
    ring: Option<Ring>,
    now: Instant,
    tokens: u64,
}

impl Rig {
    fn submit(&mut self, verb: FlashVerb) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.device.submit(FlashOp { token, verb }, self.now);
        token
    }

    fn write(&mut self, at: u64, byte: u8, length: usize, durable: bool) -> Token {
        let data = self.pool.copy_of(&vec![byte; length]);
        self.submit(FlashVerb::Write {
            offset: Offset::new(at),
            data,
            durable,
        })
    }

    fn read(&mut self, at: u64, length: u64) -> Token {
        let buf = self.pool.take(usize::try_from(length).unwrap());
        self.submit(FlashVerb::Read {
            offset: Offset::new(at),
            length: Bytes::new(length),
            buf,
        })
    }

    fn read_into(&mut self, at: u64, memory: &Rc<Lap>, range: std::ops::Range<usize>) -> Token {
        let memory: Rc<dyn GuestBuffer> = Rc::<Lap>::clone(memory);
        self.submit(FlashVerb::ReadInto {
            offset: Offset::new(at),
            place: Place::new(memory, range),
        })
    }

    /// Runs until `count` operations have ended.
    fn finish(&mut self, count: usize) -> BTreeMap<Token, FlashDone> {
        let mut all = BTreeMap::new();
        let mut done = Vec::new();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while all.len() < count {
            assert!(std::time::Instant::now() < deadline, "operations got lost");
            self.device.poll(self.now, &mut done);
            for one in done.drain(..) {
                let again = all.insert(one.token, one);
                assert!(again.is_none(), "an operation was handed back twice");
            }
            if all.len() == count {
                break;
            }
            if let Some(ring) = &self.ring {
                ring.submit_and_wait(Some(Duration::from_millis(100)))
                    .unwrap();
                ring.take_ready(&mut Vec::new());
                self.now = ring.now();
            } else {
                let next = self.device.next_deadline();
                self.now = self.now.max(next.expect("something is due"));
            }
        }
        all
    }

    fn one(&mut self) -> FlashDone {
        self.finish(1).into_values().next().unwrap()
    }
}

/// Memory that is not the device's to read into directly.
#[derive(Debug)]
struct Lap(RefCell<Vec<u8>>);

impl GuestBuffer for Lap {
    fn bytes(&self) -> usize {
        self.0.borrow().len()
    }
    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[at..at + into.len()]);
    }
    fn store(&self, at: usize, from: &[u8]) {
        self.0.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }
}

fn memory() -> Rig {
    rig(Box::new(MemoryDevice::open(&slow_medium())), None)
}

fn slow_medium() -> Medium {
    Medium::new(MediumOptions {
        latency_least: Duration::from_micros(20),
        latency_most: Duration::from_micros(200),
        ..MediumOptions::new(CAPACITY, 11)
    })
}

fn rig(device: Box<dyn Device>, ring: Option<Ring>) -> Rig {
    Rig {
        device,
        pool: BufPool::new(),
        ring,
        now: Instant::ZERO,
        tokens: 0,
    }
}

fn uring(folder: &tempfile::TempDir) -> (UringDevice, Ring) {
    let file = FlashFile::create(&folder.path().join("flash"), CAPACITY).unwrap();
    let ring = Ring::new(64).unwrap();
    (UringDevice::new(file, &ring, &BufPool::new()), ring)
}

fn on_every_form(body: fn(&mut Rig)) {
    body(&mut memory());
    let faultless = Faulty::new(MemoryDevice::open(&slow_medium()), Faults::new(1));
    body(&mut rig(Box::new(faultless), None));
    let interleaved = Interleaved::new(MemoryDevice::open(&slow_medium()));
    body(&mut rig(Box::new(interleaved), None));
    let folder = tempfile::tempdir().unwrap();
    let (device, ring) = uring(&folder);
    body(&mut rig(Box::new(device), Some(ring)));
    let folder = tempfile::tempdir().unwrap();
    let (device, ring) = uring(&folder);
    body(&mut rig(
        Box::new(Faulty::new(device, Faults::new(1))),
        Some(ring),
    ));
}

#[test]
fn what_was_written_is_read() {
    on_every_form(|rig| {
        assert_eq!(rig.device.capacity(), CAPACITY);
        for (at, byte, length) in [(0, 1, 4096), (8192, 2, 65536), (1 << 20, 3, 3 << 20)] {
            rig.write(at, byte, length, false);
            assert_eq!(rig.one().result, Ok(()));
        }
        rig.read(8192, 65536);
        let done = rig.one();
        assert_eq!(done.result, Ok(()));
        assert!(done.buf.unwrap()[..65536].iter().all(|b| *b == 2));
        rig.read(4 << 19, 8192);
        assert!(rig.one().buf.unwrap()[..8192].iter().all(|b| *b == 3));
        rig.read(4096, 4096);
        assert!(rig.one().buf.unwrap()[..4096].iter().all(|b| *b == 0));
    });
}

#[test]
fn many_operations_in_flight_each_end_once() {
    on_every_form(|rig| {
        let mut dice = Prng::new(5);
        let mut expect = BTreeMap::new();
        for block in 0..200_u8 {
            let durable = dice.one_in(16);
            rig.write(u64::from(block) * 4096, block, 4096, durable);
        }
        assert!(rig.finish(200).values().all(|d| d.result == Ok(())));
        for _ in 0..400 {
            let block = dice.below(200);
            let token = rig.read(block * 4096, 4096);
            expect.insert(token, u8::try_from(block).unwrap());
        }
        rig.submit(FlashVerb::Flush);
        for (token, done) in rig.finish(401) {
            assert_eq!(done.result, Ok(()));
            match expect.get(&token) {
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
fn durable_writes_and_flushes_that_share_syncs_each_end_once() {
    on_every_form(|rig| {
        for round in 0..4_u8 {
            for block in 0..20_u64 {
                rig.write(block * 8192, round, 8192, block % 3 < 2);
                if block % 5 == 0 {
                    rig.submit(FlashVerb::Flush);
                }
            }
            assert!(rig.finish(24).values().all(|done| done.result == Ok(())));
        }
        rig.read(0, 20 * 8192);
        assert!(rig.one().buf.unwrap()[..20 * 8192].iter().all(|b| *b == 3));
    });
}

#[test]
fn a_durable_write_that_is_invalid_ends_so_beside_others() {
    on_every_form(|rig| {
        let good = rig.write(0, 1, 8192, true);
        let bad = rig.write(CAPACITY.get() - 4096, 2, 8192, true);
        let all = rig.finish(2);
        assert_eq!(all[&good].result, Ok(()));
        assert_eq!(all[&bad].result, Err(IoError::Invalid));
    });
}

#[test]
fn a_bad_range_ends_as_invalid_and_touches_nothing() {
    on_every_form(|rig| {
        let end = CAPACITY.get();
        for (at, length) in [(end, 4096), (end - 4096, 8192), (u64::MAX - 4095, 4096)] {
            rig.read(at, length);
            let done = rig.one();
            assert_eq!(done.result, Err(IoError::Invalid));
            assert!(done.buf.is_some());
            rig.write(at, 9, usize::try_from(length).unwrap(), false);
            assert_eq!(rig.one().result, Err(IoError::Invalid));
        }
        rig.read(end - 4096, 4096);
        assert!(rig.one().buf.unwrap()[..4096].iter().all(|b| *b == 0));
    });
}

#[test]
fn a_durable_write_and_a_flush_survive_a_power_cut() {
    for seed in 0..50 {
        let medium = Medium::new(MediumOptions::new(CAPACITY, seed));
        let mut before = rig(Box::new(MemoryDevice::open(&medium)), None);
        before.write(0, 1, 8192, true);
        before.write(65536, 2, 8192, false);
        before.finish(2);
        before.submit(FlashVerb::Flush);
        before.write(131_072, 3, 8192, false);
        before.finish(2);
        medium.crash();
        let mut after = rig(Box::new(MemoryDevice::open(&medium)), None);
        after.read(0, 8192);
        assert!(after.one().buf.unwrap()[..8192].iter().all(|b| *b == 1));
        after.read(65536, 8192);
        assert!(after.one().buf.unwrap()[..8192].iter().all(|b| *b == 2));
    }
}

#[test]
fn a_plan_of_faults_is_followed_on_real_flash() {
    let folder = tempfile::tempdir().unwrap();
    let (device, ring) = uring(&folder);
    let faults = Faults::new(3);
    let mut rig = rig(Box::new(Faulty::new(device, faults.clone())), Some(ring));
    faults.on(Kind::Write, 2, Fault::Error(IoError::NoSpace));
    faults.on(Kind::Read, 1, Fault::Rot);
    faults.on(Kind::Flush, 1, Fault::Error(IoError::Failed));
    rig.write(0, 1, 4096, false);
    assert_eq!(rig.one().result, Ok(()));
    rig.write(0, 1, 4096, false);
    assert_eq!(rig.one().result, Err(IoError::NoSpace));
    rig.read(0, 4096);
    let done = rig.one();
    let flipped: u32 = done.buf.unwrap()[..4096]
        .iter()
        .map(|b| (b ^ 1).count_ones())
        .sum();
    assert_eq!((done.result, flipped), (Ok(()), 1));
    rig.submit(FlashVerb::Flush);
    assert_eq!(rig.one().result, Err(IoError::Failed));
    assert_eq!(faults.injected(), 3);
}

#[test]
fn a_file_cut_short_under_us_is_an_error_not_a_short_read() {
    let folder = tempfile::tempdir().unwrap();
    let (device, ring) = uring(&folder);
    let mut rig = rig(Box::new(device), Some(ring));
    let path = folder.path().join("flash");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4096 + 2048).unwrap();
    rig.read(4096, 4096);
    assert_eq!(rig.one().result, Err(IoError::Failed));
    rig.read(1 << 20, 4096);
    assert_eq!(rig.one().result, Err(IoError::Failed));
}

#[test]
fn flash_has_one_user_and_is_a_file_or_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flash");
    let missing = FlashFile::open(&path);
    assert!(matches!(missing, Err(OpenError::Unavailable { .. })));
    let first = FlashFile::create(&path, CAPACITY).unwrap();
    assert_eq!(first.capacity(), CAPACITY);
    assert!(matches!(
        FlashFile::open(&path),
        Err(OpenError::InUse { .. })
    ));
    drop(first);
    assert!(FlashFile::open(&path).is_ok());
    let folder = FlashFile::open(folder.path());
    assert!(matches!(folder, Err(OpenError::NotStorage { .. })));
}

#[test]
fn making_flash_again_keeps_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (device, ring) = uring(&folder);
    let mut first = rig(Box::new(device), Some(ring));
    first.write(4096, 7, 4096, true);
    assert_eq!(first.one().result, Ok(()));
    drop(first);
    let (device, ring) = uring(&folder);
    let mut second = rig(Box::new(device), Some(ring));
    second.read(4096, 4096);
    assert!(second.one().buf.unwrap()[..4096].iter().all(|b| *b == 7));
}

#[test]
fn a_place_is_filled_and_comes_back() {
    on_every_form(|rig| {
        rig.write(8192, 7, 8192, false);
        rig.one();
        let lap = Rc::new(Lap(RefCell::new(vec![1; 4 * 4096])));
        let token = rig.read_into(8192, &lap, 4096..12288);
        let done = rig.one();
        assert_eq!((done.token, done.result), (token, Ok(())));
        assert!(done.buf.is_none());
        assert_eq!(done.place.unwrap().range(), 4096..12288);
        let expected = [vec![1; 4096], vec![7; 8192], vec![1; 4096]].concat();
        assert_eq!(*lap.0.borrow(), expected);

        rig.read_into(CAPACITY.get(), &lap, 0..4096);
        let done = rig.one();
        assert_eq!(done.result, Err(IoError::Invalid));
        assert!(done.place.is_some(), "it comes back on failure too");
        assert_eq!(*lap.0.borrow(), expected);
    });
}
