//! What a disk leaves behind when it is detached asks nothing of its origin any more.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use block_io::{BufPool, FlashDone, FlashOp, FlashVerb, IoError, OriginDone, OriginOp, OriginVerb};
use cache::{
    Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, Recovery, Request,
    RequestId, Verb, WritePolicy, format,
};
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Duration, Instant};

const FLASH: Bytes = Bytes::mib(2);
const DISK: Bytes = Bytes::mib(1);

/// A cache whose flash works at once and whose origins read zeroes and cannot be flushed.
struct Bench {
    flash: Vec<u8>,
    pool: BufPool,
    now: Instant,
    /// Origin operations of each disk slot.
    asked: Vec<DiskSlot>,
    ended: Vec<Effect>,
}

impl Bench {
    fn flash_op(&mut self, op: FlashOp) -> FlashDone {
        let mut buf = None;
        match op.verb {
            FlashVerb::Read {
                offset,
                length,
                buf: mut to,
            } => {
                let from = &self.flash[offset.to_usize()..][..length.to_usize()];
                to[..from.len()].copy_from_slice(from);
                buf = Some(to);
            }
            FlashVerb::Write { offset, data, .. } => {
                self.flash[offset.to_usize()..][..data.len()].copy_from_slice(&data);
            }
            FlashVerb::Flush => {}
        }
        FlashDone {
            token: op.token,
            buf,
            result: Ok(()),
        }
    }

    fn origin_op(&mut self, op: OriginOp) -> OriginDone {
        self.asked.push(op.disk);
        let result = match op.verb {
            OriginVerb::Flush => Err(IoError::Failed),
            _ => Ok(()),
        };
        OriginDone {
            token: op.token,
            buf: op.verb.into_buf(),
            result,
        }
    }

    fn open() -> (Self, Cache) {
        let mut bench = Self {
            flash: vec![0; FLASH.to_usize()],
            pool: BufPool::new(),
            now: Instant::ZERO,
            asked: Vec::new(),
            ended: Vec::new(),
        };
        let options = FormatOptions {
            segment_bytes: Bytes::kib(64),
            ..FormatOptions::new(FLASH, 7)
        };
        for (offset, bytes) in format(&options).unwrap() {
            bench.flash[offset.to_usize()..][..bytes.len()].copy_from_slice(&bytes);
        }
        let config = Config {
            trust_delay: Duration::from_millis(20),
            write_delay: Duration::from_millis(1),
            ..Config::default()
        };
        let mut recovery = Recovery::new(config, FLASH, None, bench.pool.clone(), bench.now);
        loop {
            if let Some(recovered) = recovery.finished() {
                return (bench, recovered.unwrap().cache);
            }
            let mut effects = Vec::new();
            recovery.take_effects(&mut effects);
            for effect in effects {
                let Effect::Flash(op) = effect else {
                    panic!("recovery uses the flash")
                };
                let done = bench.flash_op(op);
                recovery.flash_done(done, bench.now);
            }
        }
    }

    /// Carries effects out, then lets 5 ms pass.
    fn settle(&mut self, cache: &mut Cache) {
        for _ in 0..2 {
            loop {
                let mut effects = Vec::new();
                cache.take_effects(&mut effects);
                if effects.is_empty() {
                    break;
                }
                for effect in effects {
                    match effect {
                        Effect::Flash(op) => {
                            let done = self.flash_op(op);
                            cache.flash_done(done, self.now);
                        }
                        Effect::Origin(op) => {
                            let done = self.origin_op(op);
                            cache.origin_done(done, self.now);
                        }
                        other => self.ended.push(other),
                    }
                }
            }
            self.now = self.now + Duration::from_millis(5);
            cache.tick(self.now);
        }
        cache.self_check();
    }

    fn attach(&mut self, cache: &mut Cache, id: u128) -> DiskSlot {
        let command = Command::Attach {
            disk: DiskId::from_u128(id),
            name: "vda".into(),
            size: DISK,
            policy: WritePolicy::Through,
            read_only: false,
            fingerprint: None,
        };
        cache.control(ControlId(1), command, self.now);
        while self.ended.is_empty() {
            self.settle(cache);
        }
        match self.ended.pop() {
            Some(Effect::ControlDone {
                result: Ok(ControlOutcome::Attached { disk, .. }),
                ..
            }) => disk,
            other => panic!("the disk is attached, not {other:?}"),
        }
    }

    fn detach(&mut self, cache: &mut Cache, disk: DiskSlot) {
        let command = Command::Detach {
            disk,
            fingerprint: None,
        };
        cache.control(ControlId(2), command, self.now);
        while self.ended.is_empty() {
            self.settle(cache);
        }
        assert!(matches!(
            self.ended.pop(),
            Some(Effect::ControlDone { result: Ok(_), .. })
        ));
    }

    fn ask(&mut self, cache: &mut Cache, disk: DiskSlot, verb: Verb) {
        let id = RequestId(1);
        cache.request(Request { id, disk, verb }, self.now);
        while self.ended.is_empty() {
            self.settle(cache);
        }
        assert!(matches!(
            self.ended.pop(),
            Some(Effect::Reply { result: Ok(_), .. })
        ));
    }

    fn read(&mut self, cache: &mut Cache, disk: DiskSlot, block: u64) {
        let verb = Verb::Read {
            offset: Bytes::new(block * BLOCK_BYTES),
            length: Bytes::new(BLOCK_BYTES),
        };
        self.ask(cache, disk, verb);
    }
}

#[test]
fn survivors_of_a_disk_that_was_detached_ask_for_no_flush_of_its_origin() {
    let (mut bench, mut cache) = Bench::open();
    let gone = bench.attach(&mut cache, 1);
    // Eight blocks that the origin may lose, since it cannot be flushed, and that are worth
    // keeping, since they are read again.
    for block in 0..8 {
        bench.read(&mut cache, gone, block);
        let verb = Verb::Write {
            offset: Bytes::new(block * BLOCK_BYTES),
            data: bench.pool.copy_of(&[1; 4096]),
            fua: false,
        };
        bench.ask(&mut cache, gone, verb);
        bench.read(&mut cache, gone, block);
    }
    bench.detach(&mut cache, gone);
    let given_up = cache.stats().never_trusted;
    bench.asked.clear();

    // Another disk needs the room.
    let other = bench.attach(&mut cache, 2);
    for block in (0..8).flat_map(|_| 0..DISK.get() / BLOCK_BYTES) {
        bench.read(&mut cache, other, block);
    }
    for _ in 0..10 {
        bench.settle(&mut cache);
    }

    assert!(
        bench.asked.iter().all(|disk| *disk == other),
        "an origin that nobody serves was asked for something"
    );
    assert!(
        cache.stats().never_trusted > given_up,
        "a survivor of the disk that is gone was moved"
    );
}
