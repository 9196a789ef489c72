//! A cache with one disk under write-back, and everything around it that a test can hold or break.

mod ask;
mod hold;
mod late;
mod ship;

use block_io::{
    Buf, BufPool, FlashDone, FlashOp, FlashVerb, IoError, OriginDone, OriginOp, OriginVerb,
    Payload, Slice, Token,
};
use cache::{
    Borrowed, Cache, Command, Config, ControlError, ControlId, ControlOutcome, Effect,
    FormatOptions, NotLent, OfDirty, OwnerRecord, Recovery, Tenure, WriteBack, WritePolicy, format,
};
use medium::FlashBytes;
use std::collections::BTreeMap;
use units::{BLOCK_BYTES, Bytes, DiskSlot, Duration, Instant, Offset};

const FLASH: Bytes = Bytes::mib(8);
const DISK: usize = 16 << 20;

/// What waits goes to the origin only when it is told to.
pub(crate) fn lazy() -> WriteBack {
    WriteBack {
        age_max: Duration::from_secs(1000),
        idle_after: Duration::from_secs(1000),
        ..WriteBack::default()
    }
}

/// A block with the same byte everywhere.
pub(crate) fn page(byte: u8) -> Vec<u8> {
    vec![byte; 4096]
}

#[allow(clippy::struct_excessive_bools, reason = "switches of a test bench")]
pub(crate) struct Rig {
    cache: Option<Cache>,
    pub(crate) disk: DiskSlot,
    /// How much of the origin the disk has when it is attached.
    pub(crate) size: Bytes,
    pool: BufPool,
    now: Instant,
    flash: Vec<u8>,
    flash_durable: Vec<u8>,
    origin: Vec<u8>,
    origin_durable: Vec<u8>,
    pub(crate) record: Option<OwnerRecord>,
    /// The origin's, at attach and detach.
    pub(crate) fingerprint: Option<u128>,
    /// What the origin was asked, writes and flushes in their order.
    pub(crate) told: Vec<OriginVerb>,
    /// The origin's first so many blocks are remembered after each write to it.
    pub(crate) watch: u64,
    /// What they began with each time.
    pub(crate) seen: Vec<Vec<u32>>,
    pub(crate) hold_flash: bool,
    pub(crate) hold_flash_writes: bool,
    /// Flushes of the flash wait, everything else on it goes on: its durable writes vouch for
    /// themselves only.
    pub(crate) hold_flash_flush: bool,
    /// Writes of the journal wait, everything else on the flash goes on.
    pub(crate) hold_journal: bool,
    pub(crate) hold_reads: bool,
    pub(crate) hold_writes: bool,
    pub(crate) hold_flush: bool,
    /// Records that say `closed` wait for [`Rig::answer_closing`].
    pub(crate) hold_closing: bool,
    closing: Vec<(Token, OwnerRecord)>,
    pub(crate) origin_error: Option<IoError>,
    /// Writes to the origin are given up, and carried out when the next read comes.
    pub(crate) gives_up: bool,
    late: Vec<OriginOp>,
    /// Flushes of the origin fail, and what was written since the last good one is gone: a kernel that
    /// could not write its pages, and has dropped them.
    pub(crate) flush_loses: bool,
    pub(crate) flash_write_error: bool,
    pub(crate) flash_read_error: bool,
    pub(crate) retire_error: bool,
    pub(crate) least: Option<u64>,
    pub(crate) own_error: bool,
    /// It has made a record that is closed all the same.
    pub(crate) own_lands: bool,
    pub(crate) write_delay: Duration,
    /// Memory that is not ours cannot be filled.
    pub(crate) memory_error: bool,
    held_flash: Vec<FlashOp>,
    held_origin: Vec<OriginOp>,
    replies: BTreeMap<u64, Result<Payload, IoError>>,
    /// What came from elsewhere than the flash for reads into memory of the asker.
    pub(crate) in_place: BTreeMap<u64, Vec<(usize, Slice)>>,
    outcomes: BTreeMap<u64, Result<ControlOutcome, ControlError>>,
    /// What another host was answered last.
    lent: Option<Result<Borrowed, NotLent>>,
    /// What the guest is told of, as first blocks and numbers of blocks.
    pub(crate) expected: Vec<(u64, u64)>,
    next: u64,
}

fn at(offset: Offset, length: usize) -> std::ops::Range<usize> {
    offset.to_usize()..offset.to_usize() + length
}

fn config(write_delay: Duration) -> Config {
    Config {
        write_delay,
        trust_delay: Duration::from_millis(50),
        ..Config::default()
    }
}

impl FlashBytes for Rig {
    fn load(&mut self, offset: Offset, into: &mut [u8]) -> Result<(), IoError> {
        into.copy_from_slice(&self.flash[at(offset, into.len())]);
        failing(self.flash_read_error)
    }

    fn store(&mut self, offset: Offset, data: &[u8], durable: bool) -> Result<(), IoError> {
        failing(self.flash_write_error)?;
        self.flash[at(offset, data.len())].copy_from_slice(data);
        if durable {
            self.flash_durable[at(offset, data.len())].copy_from_slice(data);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.flash_durable.copy_from_slice(&self.flash);
        Ok(())
    }
}

fn failing(fails: bool) -> Result<(), IoError> {
    if fails { Err(IoError::Failed) } else { Ok(()) }
}

impl Rig {
    pub(crate) fn new(settings: WriteBack) -> Self {
        Self::with_flash(FLASH, settings)
    }

    pub(crate) fn with_flash(flash: Bytes, settings: WriteBack) -> Self {
        let mut rig = Self::bare(flash);
        rig.attach(WritePolicy::Back, settings).unwrap();
        rig
    }

    pub(crate) fn through() -> Self {
        let mut rig = Self::bare(FLASH);
        rig.attach(WritePolicy::Through, WriteBack::default())
            .unwrap();
        rig
    }

    pub(crate) fn bare(size: Bytes) -> Self {
        Self::named(7, size)
    }

    /// One whose cache has this number.
    pub(crate) fn named(uuid: u128, size: Bytes) -> Self {
        let mut flash = vec![0; size.to_usize()];
        let options = FormatOptions {
            segment_bytes: if size > FLASH {
                Bytes::mib(4)
            } else {
                Bytes::kib(256)
            },
            ..FormatOptions::new(size, uuid)
        };
        for (offset, bytes) in format(&options).unwrap() {
            flash[at(offset, bytes.len())].copy_from_slice(&bytes);
        }
        let mut rig = Self {
            cache: None,
            disk: DiskSlot::new(0),
            size: Bytes::new(DISK as u64),
            pool: BufPool::new(),
            now: Instant::from_nanos(1),
            flash_durable: flash.clone(),
            flash,
            origin: vec![0; DISK],
            origin_durable: vec![0; DISK],
            record: None,
            fingerprint: None,
            told: Vec::new(),
            watch: 0,
            seen: Vec::new(),
            hold_flash: false,
            hold_flash_writes: false,
            hold_flash_flush: false,
            hold_journal: false,
            hold_reads: false,
            hold_writes: false,
            hold_flush: false,
            hold_closing: false,
            closing: Vec::new(),
            origin_error: None,
            gives_up: false,
            late: Vec::new(),
            flush_loses: false,
            flash_write_error: false,
            flash_read_error: false,
            retire_error: false,
            least: None,
            own_error: false,
            own_lands: false,
            write_delay: Duration::from_millis(5),
            memory_error: false,
            held_flash: Vec::new(),
            held_origin: Vec::new(),
            replies: BTreeMap::new(),
            in_place: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            lent: None,
            expected: Vec::new(),
            next: 0,
        };
        rig.recover();
        rig
    }

    fn recover(&mut self) {
        let size = Bytes::new(self.flash.len() as u64);
        let mut recovery = Recovery::new(
            config(self.write_delay),
            size,
            self.least,
            self.pool.clone(),
            self.now,
        );
        loop {
            if let Some(recovered) = recovery.finished() {
                self.cache = Some(recovered.unwrap().cache);
                return;
            }
            let mut effects = Vec::new();
            recovery.take_effects(&mut effects);
            for effect in effects {
                if let Effect::Flash(op) = effect {
                    if self.holds_on_flash(&op) {
                        self.held_flash.push(op);
                        continue;
                    }
                    let done = self.flash_op(op);
                    recovery.flash_done(done, self.now);
                }
            }
        }
    }

    pub(crate) fn cache_mut(&mut self) -> &mut Cache {
        self.cache.as_mut().unwrap()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    fn flash_op(&mut self, op: FlashOp) -> FlashDone {
        match op.verb {
            FlashVerb::ReadInto { place, .. } if self.memory_error => FlashDone {
                token: op.token,
                place: Some(place),
                buf: None,
                result: Err(IoError::Failed),
            },
            _ => medium::carry_out(self, op),
        }
    }

    fn origin_op(&mut self, op: OriginOp) -> OriginDone {
        let mut done = OriginDone {
            token: op.token,
            buf: None,
            result: Ok(()),
            volatile: false,
            passes: false,
        };
        let fails = self.origin_error;
        match op.verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => done.buf = Some(self.origin_read(offset, length, buf)),
            _ if fails.is_some() => done.result = Err(fails.unwrap()),
            OriginVerb::Write {
                offset, data, fua, ..
            } => {
                self.origin[at(offset, data.len())].copy_from_slice(&data);
                if fua {
                    self.origin_durable[at(offset, data.len())].copy_from_slice(&data);
                }
            }
            OriginVerb::Discard { offset, length } => {
                self.origin[at(offset, length.to_usize())].fill(0);
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                fua,
                ..
            } => {
                self.origin[at(offset, length.to_usize())].fill(0);
                if fua {
                    self.origin_durable[at(offset, length.to_usize())].fill(0);
                }
            }
            OriginVerb::Flush if self.flush_loses => {
                self.origin.copy_from_slice(&self.origin_durable);
                done.result = Err(IoError::Failed);
            }
            OriginVerb::Flush => self.origin_durable.copy_from_slice(&self.origin),
        }
        done
    }

    fn origin_read(&self, offset: Offset, length: Bytes, mut buf: Buf) -> Buf {
        let length = length.to_usize();
        buf[..length].copy_from_slice(&self.origin[at(offset, length)]);
        buf
    }

    /// What the origin is told, without the buffers of reads.
    fn note(&mut self, verb: &OriginVerb) {
        self.told.push(match verb {
            OriginVerb::Read { offset, length, .. } => OriginVerb::Read {
                offset: *offset,
                length: *length,
                buf: self.pool.take(1),
            },
            OriginVerb::Write { offset, data, fua } => OriginVerb::Write {
                offset: *offset,
                data: data.clone(),
                fua: *fua,
            },
            OriginVerb::Flush => OriginVerb::Flush,
            OriginVerb::Discard { offset, length } => OriginVerb::Discard {
                offset: *offset,
                length: *length,
            },
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => OriginVerb::WriteZeroes {
                offset: *offset,
                length: *length,
                may_unmap: *may_unmap,
                fua: *fua,
            },
        });
    }

    /// Carries out everything that is not held.
    pub(crate) fn drive(&mut self) {
        for op in std::mem::take(&mut self.held_flash) {
            self.carry_out(Effect::Flash(op));
        }
        for op in std::mem::take(&mut self.held_origin) {
            self.carry_out_origin(op);
        }
        loop {
            let mut effects = Vec::new();
            self.cache_mut().take_effects(&mut effects);
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Flash(op) if self.holds_on_flash(&op) => self.held_flash.push(op),
            Effect::Flash(op) => {
                let done = self.flash_op(op);
                self.cache_mut().flash_done(done, now);
            }
            Effect::Origin(op) => {
                self.note(&op.verb);
                self.carry_out_origin(op);
            }
            Effect::Reply { request, result } => {
                assert!(self.replies.insert(request.0, result).is_none());
            }
            Effect::ReplyInPlace { request, rest } => {
                assert!(self.in_place.insert(request.0, rest.into_vec()).is_none());
            }
            Effect::Retire { token, incarnation } => {
                let recorded = self.record_least(incarnation + 1);
                self.cache_mut().retired(token, recorded, now);
            }
            Effect::Reinstate { token, incarnation } => {
                let recorded = self.record_least(incarnation);
                self.cache_mut().reinstated(token, recorded, now);
            }
            Effect::Own { token, record, .. } if self.hold_closing && !record.open => {
                self.closing.push((token, record));
            }
            Effect::Own { token, record, .. } => {
                let recorded = !self.own_error;
                if recorded || (self.own_lands && !record.open) {
                    self.record = Some(record);
                }
                self.cache_mut().owned(token, recorded, now);
            }
            Effect::Retain(_) | Effect::Damaged(_) => {}
            Effect::Expected { first, count, .. } => self.expected.push((first.get(), count)),
            Effect::Lent { result, .. } => self.lent = Some(result),
            Effect::ControlDone { id, result } => {
                assert!(self.outcomes.insert(id.0, result).is_none());
            }
        }
    }

    /// The records that were held are made.
    pub(crate) fn answer_closing(&mut self) {
        let now = self.now;
        for (token, record) in std::mem::take(&mut self.closing) {
            self.record = Some(record);
            self.cache_mut().owned(token, true, now);
        }
        self.drive();
    }

    fn carry_out_origin(&mut self, op: OriginOp) {
        if self.holds(&op.verb) {
            self.held_origin.push(op);
        } else {
            let (done, now) = (self.late_origin_op(op), self.now);
            let begins = |block: u64| {
                let at = Bytes::new(block * BLOCK_BYTES).to_usize();
                u32::from_le_bytes(self.origin[at..at + 4].try_into().unwrap())
            };
            if self.watch > 0 {
                let seen = (0..self.watch).map(begins).collect();
                self.seen.push(seen);
            }
            self.cache_mut().origin_done(done, now);
        }
    }

    pub(crate) fn command(&mut self, command: Command) -> u64 {
        let (id, now) = (self.next(), self.now);
        self.cache_mut().control(ControlId(id), command, now);
        self.settle();
        id
    }

    pub(crate) fn attach(
        &mut self,
        policy: WritePolicy,
        write_back: WriteBack,
    ) -> Result<(), ControlError> {
        self.attach_as(Tenure::Owner, policy, write_back)
    }

    pub(crate) fn detach(&mut self, dirty: OfDirty) -> Result<(), ControlError> {
        let id = self.command(Command::Detach {
            disk: self.disk,
            fingerprint: self.fingerprint,
            dirty,
        });
        self.outcome(id).expect("a detach ends").map(drop)
    }

    /// The host loses power, and comes up again; the origin has lost nothing.
    pub(crate) fn power_cut(&mut self) {
        self.power_cut_with(lazy());
    }

    /// The same; the disk is attached with these settings.
    pub(crate) fn power_cut_with(&mut self, settings: WriteBack) {
        self.flash.copy_from_slice(&self.flash_durable);
        self.origin.copy_from_slice(&self.origin_durable);
        self.power_cut_of_nothing();
        self.attach(WritePolicy::Back, settings).unwrap();
    }
}
