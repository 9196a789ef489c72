//! A cache whose flash and origins carry out every operation at once.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use block_io::{BufPool, IoError, OriginDone, OriginOp, OriginVerb};
use cache::{
    Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, OfDirty, Recovery,
    Request, RequestId, Verb, WriteBack, WritePolicy, format,
};
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Duration, Instant, Offset, TenantSlot};

/// Flash and origins that work at once; the origins read zeroes.
pub(crate) struct Bench {
    flash: Vec<u8>,
    pub(crate) pool: BufPool,
    pub(crate) now: Instant,
    /// How long [`Bench::settle`] lets pass.
    pub(crate) pause: Duration,
    /// Whether origins can be flushed.
    pub(crate) flushes: bool,
    /// Whose origin was asked for something.
    pub(crate) asked: Vec<DiskSlot>,
    ended: Vec<Effect>,
}

impl Bench {
    fn origin_op(&mut self, op: OriginOp) -> OriginDone {
        self.asked.push(op.disk);
        let result = match op.verb {
            OriginVerb::Flush if !self.flushes => Err(IoError::Failed),
            _ => Ok(()),
        };
        OriginDone {
            token: op.token,
            buf: op.verb.into_buf(),
            result,
            volatile: false,
        }
    }

    /// A new cache on flash of this size.
    pub(crate) fn open(flash: Bytes, segment: Bytes, config: Config) -> (Self, Cache) {
        let mut bench = Self {
            flash: vec![0; flash.to_usize()],
            pool: BufPool::new(),
            now: Instant::ZERO,
            pause: Duration::ZERO,
            flushes: true,
            asked: Vec::new(),
            ended: Vec::new(),
        };
        let options = FormatOptions {
            segment_bytes: segment,
            ..FormatOptions::new(flash, 7)
        };
        for (offset, bytes) in format(&options).unwrap() {
            bench.flash[offset.to_usize()..][..bytes.len()].copy_from_slice(&bytes);
        }
        let mut recovery = Recovery::new(config, flash, None, bench.pool.clone(), bench.now);
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
                let done = medium::carry_out(&mut bench.flash, op);
                recovery.flash_done(done, bench.now);
            }
        }
    }

    fn carry_out(&mut self, cache: &mut Cache) {
        let mut effects = Vec::new();
        loop {
            cache.take_effects(&mut effects);
            if effects.is_empty() {
                return;
            }
            for effect in effects.drain(..) {
                match effect {
                    Effect::Flash(op) => {
                        let done = medium::carry_out(&mut self.flash, op);
                        cache.flash_done(done, self.now);
                    }
                    Effect::Origin(op) => {
                        let done = self.origin_op(op);
                        cache.origin_done(done, self.now);
                    }
                    Effect::Own { token, .. } => cache.owned(token, true, self.now),
                    Effect::Damaged { .. } => {}
                    other => self.ended.push(other),
                }
            }
        }
    }

    /// Carries everything out, then lets the pause pass.
    pub(crate) fn settle(&mut self, cache: &mut Cache) {
        self.carry_out(cache);
        if self.pause > Duration::ZERO {
            self.now = self.now + self.pause;
            cache.tick(self.now);
            self.carry_out(cache);
        }
    }

    pub(crate) fn attach(&mut self, cache: &mut Cache, id: u128, size: Bytes) -> DiskSlot {
        self.attach_to(cache, id, size, "vm", false)
    }

    /// Attaches a disk of this tenant, or a base image.
    pub(crate) fn attach_to(
        &mut self,
        cache: &mut Cache,
        id: u128,
        size: Bytes,
        tenant: &str,
        shared: bool,
    ) -> DiskSlot {
        let command = Command::Attach {
            disk: DiskId::from_u128(id),
            name: "vda".into(),
            size,
            policy: WritePolicy::Through,
            read_only: shared,
            tenant: tenant.into(),
            shared,
            fingerprint: None,
            owner: None,
            write_back: WriteBack::default(),
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

    pub(crate) fn detach(&mut self, cache: &mut Cache, disk: DiskSlot) {
        let command = Command::Detach {
            disk,
            fingerprint: None,
            dirty: OfDirty::Refuse,
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

    pub(crate) fn ask(&mut self, cache: &mut Cache, disk: DiskSlot, verb: Verb) {
        self.ask_for(cache, disk, TenantSlot::new(0), verb);
    }

    /// A request of this VM.
    pub(crate) fn ask_for(
        &mut self,
        cache: &mut Cache,
        disk: DiskSlot,
        vm: TenantSlot,
        verb: Verb,
    ) {
        let id = RequestId(1);
        cache.request(Request { id, disk, vm, verb }, self.now);
        while self.ended.is_empty() {
            self.settle(cache);
        }
        assert!(matches!(
            self.ended.pop(),
            Some(Effect::Reply { result: Ok(_), .. })
        ));
    }

    pub(crate) fn read(&mut self, cache: &mut Cache, disk: DiskSlot, block: u64) {
        let verb = Verb::Read {
            offset: Offset::new(block * BLOCK_BYTES),
            length: Bytes::new(BLOCK_BYTES),
        };
        self.ask(cache, disk, verb);
    }

    pub(crate) fn write(&mut self, cache: &mut Cache, disk: DiskSlot, block: u64) {
        let verb = Verb::Write {
            offset: Offset::new(block * BLOCK_BYTES),
            data: self.pool.copy_of(&[1; 4096]),
            fua: false,
        };
        self.ask(cache, disk, verb);
    }
}
