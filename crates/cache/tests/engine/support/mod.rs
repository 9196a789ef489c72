//! A cache whose flash and origins carry out every operation at once.

use block_io::{BufPool, FlashDone, FlashOp, IoError, OriginDone, OriginOp, OriginVerb};
use cache::{
    Borrowed, Cache, Command, Config, ControlId, ControlOutcome, Effect, FormatOptions, LoanId,
    LoanRequest, NotLent, OfDirty, Recovery, Request, RequestId, Tenure, Verb, WriteBack,
    WritePolicy, format,
};
use units::{BLOCK_BYTES, Bytes, DiskId, DiskSlot, Duration, Instant, Offset, TenantSlot};
use workbench::Surroundings;

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
    /// The bytes of each write of an origin.
    pub(crate) written: Vec<Bytes>,
    /// How writes of disks that are attached reach their origins, but for images.
    pub(crate) policy: WritePolicy,
    /// The same under write-back.
    pub(crate) write_back: WriteBack,
    pub(crate) tenure: Tenure,
    /// Damaged blocks that no origin has, as they were told.
    pub(crate) lost: u64,
    ended: Vec<Effect>,
}

impl Surroundings for Bench {
    fn flash(&mut self, op: FlashOp) -> FlashDone {
        medium::carry_out(&mut self.flash, op)
    }

    fn origin(&mut self, op: OriginOp) -> OriginDone {
        self.asked.push(op.disk);
        if let OriginVerb::Write { data, .. } = &op.verb {
            self.written.push(Bytes::new(data.len() as u64));
        }
        let fails = matches!(op.verb, OriginVerb::Flush) && !self.flushes;
        let mut done = workbench::origin_of_zeroes(op);
        if fails {
            done.result = Err(IoError::Failed);
        }
        done
    }
}

impl Bench {
    /// A new cache on flash of this size.
    pub(crate) fn open(flash: Bytes, segment: Bytes, config: Config) -> (Self, Cache) {
        let mut bench = Self {
            flash: vec![0; flash.to_usize()],
            pool: BufPool::new(),
            now: Instant::ZERO,
            pause: Duration::ZERO,
            flushes: true,
            asked: Vec::new(),
            written: Vec::new(),
            policy: WritePolicy::Through,
            write_back: WriteBack::default(),
            tenure: Tenure::Owner,
            lost: 0,
            ended: Vec::new(),
        };
        let options = FormatOptions {
            segment_bytes: segment,
            ..FormatOptions::new(flash, 7)
        };
        for (offset, bytes) in format(&options).unwrap() {
            bench.flash[offset.to_usize()..][..bytes.len()].copy_from_slice(&bytes);
        }
        let recovery = Recovery::new(config, flash, None, bench.pool.clone(), bench.now);
        let now = bench.now;
        let recovered = workbench::recover(recovery, &mut bench, now).unwrap();
        (bench, recovered.cache)
    }

    fn carry_out(&mut self, cache: &mut Cache) {
        let (now, mut ended) = (self.now, std::mem::take(&mut self.ended));
        let mut lost = 0;
        workbench::settle(cache, self, now, &mut Vec::new(), |effect| match effect {
            Effect::Damaged(damage) => lost += u64::from(damage.is_dirty),
            Effect::Retain(_) => {}
            Effect::ControlDone {
                id: ControlId(9 | 10),
                result,
            } => assert_eq!(result, Ok(ControlOutcome::Done)),
            effect => ended.push(effect),
        });
        self.lost += lost;
        self.ended = ended;
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
            policy: if shared {
                WritePolicy::Through
            } else {
                self.policy
            },
            read_only: shared,
            tenant: tenant.into(),
            shared,
            fingerprint: None,
            owner: None,
            write_back: self.write_back,
            tenure: self.tenure,
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

    /// What the cache lends.
    pub(crate) fn borrow(
        &mut self,
        cache: &mut Cache,
        request: LoanRequest,
    ) -> Result<Borrowed, NotLent> {
        cache.lend(LoanId(3), request, self.now);
        self.borrowed(cache)
    }

    /// Lets `meanwhile` happen before the flash has what a loan needs of it.
    pub(crate) fn borrow_while(
        &mut self,
        cache: &mut Cache,
        request: LoanRequest,
        meanwhile: impl FnOnce(&mut Self, &mut Cache),
    ) -> Result<Borrowed, NotLent> {
        cache.lend(LoanId(3), request, self.now);
        let mut effects = Vec::new();
        cache.take_effects(&mut effects);
        let Some(Effect::Flash(op)) = effects.pop() else {
            panic!("flash is read: {effects:?}");
        };
        meanwhile(self, cache);
        let done = self.flash(op);
        cache.flash_done(done, self.now);
        self.borrowed(cache)
    }

    /// Changes a bit in each page of the flash.
    pub(crate) fn spoil(&mut self) {
        for page in self.flash.chunks_mut(4096) {
            page[7] ^= 1;
        }
    }

    /// Changes a bit in each page of the flash that has these bytes.
    pub(crate) fn spoil_all(&mut self, bytes: &[u8; 4096]) {
        let pages = self.flash.chunks_mut(4096);
        pages
            .filter(|page| page[..] == bytes[..])
            .for_each(|page| page[7] ^= 1);
    }

    /// Carries out an operation that a test has held back.
    pub(crate) fn carry_out_flash(&mut self, op: FlashOp) -> FlashDone {
        self.flash(op)
    }

    fn borrowed(&mut self, cache: &mut Cache) -> Result<Borrowed, NotLent> {
        while self.ended.is_empty() {
            self.settle(cache);
        }
        match self.ended.pop() {
            Some(Effect::Lent {
                loan: LoanId(3),
                result,
            }) => result,
            other => panic!("the loan is answered, not {other:?}"),
        }
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

/// What a cache has decided of its blocks: how many are cached and staged, entered the flash, left it, were kept there and
/// were refused, and the bytes that were written for this disk.
pub(crate) fn decided(cache: &Cache, disk: DiskSlot) -> Vec<u64> {
    let (facts, stats) = (cache.facts(), cache.facts().stats());
    vec![
        facts.status().cached_blocks,
        facts.status().staged_blocks,
        stats.blocks_appended,
        stats.blocks_evicted,
        stats.blocks_kept,
        stats.not_admitted.refused.total(),
        facts.stats_of(disk).unwrap().flash_written_bytes,
    ]
}
