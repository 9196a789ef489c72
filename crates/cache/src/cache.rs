//! The cache of a shard: events in, effects out.

use crate::admitter::{Admission, Admitter};
use crate::api::{Command, Config, ControlId, Effect, Request, RequestId, WritePolicy};
use crate::back::Backs;
use crate::disks::Disks;
use crate::division::{Division, admission_of};
use crate::fills::Fills;
use crate::flash_use::{FlashUse, Retirement};
use crate::guard::{Guard, holds};
use crate::jobs::Job;
use crate::lateness::LateWrites;
use crate::limits::TICK_MAX;
use crate::ports::{Ports, Wake};
use crate::prefetches::Prefetches;
use crate::purpose::OriginPurpose;
use crate::request::{Asked, Span};
use crate::slow_reads::SlowReads;
use crate::stats::{DiskStats, Stats};
use crate::tenants::Tenants;
use crate::under_way::{Aim, Reads};
use crate::writes::{Change, Writes};
use block_io::{BlockCipher, BufPool, GuestBuffer, IoError, OriginVerb, Payload, Token, Verb};
use block_store::Committed;
use std::rc::Rc;
use units::{Bytes, DiskId, DiskSlot, Duration, Instant, Map, TenantSlot};

/// The cache of a shard.
///
/// Its driver hands in requests, completions and the time, and carries out what
/// [`Cache::take_effects`] gives. Nothing happens in between: no clock, no I/O, no threads.
pub struct Cache {
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) flash: FlashUse,
    pub(crate) retirement: Retirement,
    pub(crate) late_writes: LateWrites,
    pub(crate) disks: Disks,
    pub(crate) tenants: Tenants,
    pub(crate) admission: Admission,
    pub(crate) reads: Reads,
    pub(crate) writes: Writes,
    pub(crate) fills: Fills,
    pub(crate) prefetches: Prefetches,
    pub(crate) slow_reads: SlowReads,
    /// Ciphers of disks that are about to be attached.
    pub(crate) coming_ciphers: Map<DiskId, Box<dyn BlockCipher>>,
    pub(crate) jobs: Vec<Job>,
    /// Disks under write-back.
    pub(crate) backs: Backs,
    /// Reads have begun or ended since [`Cache::pump`].
    is_pump_due: bool,
}

impl Cache {
    /// A cache without flash: every request goes to its origin. For a host whose flash cannot
    /// be used, so that its VMs go on.
    pub fn bypassed(config: Config, pool: BufPool, reason: String, now: Instant) -> Self {
        Self::new(config, Ports::new(pool, now), FlashUse::Absent { reason })
    }

    pub(crate) fn new(config: Config, ports: Ports, flash: FlashUse) -> Self {
        let settings = config.tenancy.clone();
        let admission = flash.as_ref().map_or_else(Admission::default, |flash| {
            admission_of(settings, flash, ports.now).unwrap_or_else(Admission::closed)
        });
        Self {
            config,
            ports,
            flash,
            retirement: Retirement::None,
            late_writes: LateWrites::default(),
            disks: Disks::new(),
            tenants: Tenants::default(),
            admission,
            reads: Reads::default(),
            writes: Writes::default(),
            fills: Fills::default(),
            prefetches: Prefetches::default(),
            slow_reads: SlowReads::default(),
            coming_ciphers: Map::default(),
            jobs: Vec::new(),
            backs: Backs::default(),
            is_pump_due: false,
        }
    }

    /// Lets a recovered cache begin its first checkpoint.
    pub(crate) fn open(&mut self, now: Instant) {
        self.ports.set_now(now);
        self.division().wake_for_window();
        self.pump();
    }

    /// A guest asks. Exactly one [`Effect::Reply`] with the same id follows.
    ///
    /// # Panics
    /// Never on anything that a guest can ask: what is wrong is answered with an error.
    pub fn request(&mut self, request: Request, now: Instant) {
        self.begin(request, Aim::Buffers, now);
    }

    /// A guest asks for a read, and says where it wants the bytes: what lies on flash goes there
    /// directly. Exactly one [`Effect::ReplyInPlace`] or [`Effect::Reply`] with the same id follows; after
    /// that nothing is put there any more.
    ///
    /// # Panics
    /// If it is no read, or wants another number of bytes. Never on anything that a guest can ask.
    pub fn request_into(&mut self, request: Request, into: Rc<dyn GuestBuffer>, now: Instant) {
        let Verb::Read { length, .. } = request.verb else {
            panic!("only a read brings bytes: {request:?}");
        };
        assert!(
            length.get() == into.bytes() as u64,
            "a read has memory for its bytes"
        );
        self.begin(request, Aim::Into(into), now);
    }

    fn begin(&mut self, request: Request, aim: Aim, now: Instant) {
        self.ports.set_now(now);
        let Request { id, disk, vm, verb } = request;
        let is_read = matches!(verb, Verb::Read { .. });
        match self.disks.begin(disk, vm, &verb) {
            Ok(()) => self.start(id, disk, vm, verb, aim),
            Err(error) => self.ports.push(Effect::Reply {
                request: id,
                result: Err(error),
            }),
        }
        if is_read {
            self.pump_soon();
        } else {
            self.pump();
        }
    }

    fn start(&mut self, id: RequestId, disk: DiskSlot, vm: TenantSlot, verb: Verb, aim: Aim) {
        let back = self.writes_back(disk);
        if back {
            self.backs.asked(disk, self.ports.now);
        }
        let span = |offset, length| Span {
            id,
            disk,
            vm,
            offset,
            length,
        };
        let stats = self.disks.stats(disk);
        match verb {
            Verb::Read { offset, length } => {
                stats.read_requests += 1;
                stats.read_bytes += length.get();
                if let Some(views) = self.disks.views(disk) {
                    views.asked(vm, length);
                }
                self.read(span(offset, length), aim);
            }
            Verb::Prefetch { offset, length } => {
                self.read(span(offset, length), Aim::CacheOnly);
            }
            Verb::Write { offset, data, fua } => {
                stats.write_requests += 1;
                stats.written_bytes += data.len() as u64;
                let length = Bytes::new(data.len() as u64);
                let change = Change::Data { bytes: data, fua };
                self.write_either(back, span(offset, length), change);
            }
            Verb::Flush => {
                stats.flush_requests += 1;
                if back && self.flush_back(id, disk) {
                    return;
                }
                self.flush_through(id, disk, Asked::Flush);
            }
            Verb::Discard { offset, length } => {
                stats.erase_requests += 1;
                self.write_either(back, span(offset, length), Change::Discard);
            }
            Verb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                stats.erase_requests += 1;
                let change = Change::Zeroes { may_unmap, fua };
                self.write_either(back, span(offset, length), change);
            }
        }
    }

    fn write_either(&mut self, back: bool, span: Span, change: Change) {
        if back {
            self.write_back(span, change);
        } else {
            self.write(span, change);
        }
    }

    /// The answer to [`Effect::Retire`]: whether it is recorded durably.
    pub fn retired(&mut self, token: Token, recorded: bool, now: Instant) {
        self.ports.set_now(now);
        self.retirement_recorded(token, recorded);
        self.pump();
    }

    /// The answer to [`Effect::Own`]: whether it is recorded durably.
    pub fn owned(&mut self, token: Token, recorded: bool, now: Instant) {
        self.ports.set_now(now);
        self.job_owned(token, recorded);
        self.back_owned(token, recorded);
        self.pump();
    }

    /// A guest's request waits for a flush of its origin.
    pub(crate) fn flush_through(&mut self, request: RequestId, disk: DiskSlot, asked: Asked) {
        let purpose = OriginPurpose::GuestFlush {
            request,
            asked,
            disk,
            since: self.flush_mark(disk),
        };
        self.ports.origin(purpose, disk, OriginVerb::Flush);
    }

    /// The operator asks. Exactly one [`Effect::ControlDone`] with the same id follows.
    pub fn control(&mut self, id: ControlId, command: Command, now: Instant) {
        self.ports.set_now(now);
        self.start_command(id, command);
        self.pump();
    }

    /// The driver has stood still for so long before `now`: it was stopped, or was busy with one
    /// thing. What was in flight meanwhile has not taken that time. Hand in what has completed
    /// before the next [`Cache::tick`], which judges what has not.
    pub fn stood_still(&mut self, time: Duration, now: Instant) {
        self.ports.set_now(now);
        self.ports.store.stand_still(time);
    }

    /// Time has passed: does what [`Cache::next_deadline`] announced.
    pub fn tick(&mut self, now: Instant) {
        self.ports.set_now(now);
        if self.ports.store.next_tick().is_none_or(|due| now < due) {
            return;
        }
        self.ports.store.clear_tick();
        if let Some(flash) = self.flash.as_mut() {
            flash.tick(&mut self.ports.store, self.late_writes.is_in_doubt());
        }
        self.division().tick();
        self.tick_backs();
        self.step_prefetches();
        self.watch_flash();
        self.pump();
    }

    /// When [`Cache::tick`] should be called next; none if nothing waits for time.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.ports
            .store
            .next_tick()
            .map(|due| due.min(self.ports.now + TICK_MAX))
    }

    /// Moves what is to be done to the end of `into`, in order.
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        if self.is_pump_due {
            self.pump();
        }
        self.ports.take_effects(into);
    }

    /// Lets what follows from a read wait until the effects are taken, together with what follows
    /// from the reads beside it: of most of them nothing does.
    #[inline]
    pub(crate) fn pump_soon(&mut self) {
        if self.ports.has_wakes() {
            self.pump();
        } else {
            self.is_pump_due = true;
        }
    }

    pub(crate) fn pump(&mut self) {
        self.is_pump_due = false;
        self.take_flash_back();
        self.return_to_back();
        loop {
            // First the jobs: a checkpoint that starts now is not replayed from the entries that
            // have just become durable, so the table has to show already what they freed.
            if holds(Guard::FreedBeforeCheckpoint) {
                self.step_jobs();
            }
            if let Some(flash) = self.flash.as_mut() {
                flash.pump(&mut self.ports.store);
            }
            self.admitter().account();
            let advanced = self.advance_scheduled();
            let progress = self.step_jobs() || advanced;
            if !self.ports.has_wakes() && !self.ports.has_scheduled() && !progress {
                return;
            }
            for wake in self.ports.take_wakes() {
                match wake {
                    Wake::Write(write) if !self.writes.is_waiting(write) => {}
                    Wake::Write(write) => self.send_to_origin(write),
                    Wake::FlashFailed(reason) => self.fail_flash(reason),
                    Wake::Jobs => self.end_jobs_without_flash(),
                }
            }
        }
    }

    pub(crate) fn reply(
        &mut self,
        disk: DiskSlot,
        request: RequestId,
        result: Result<Payload, IoError>,
    ) {
        self.answer(disk, Effect::Reply { request, result });
    }

    /// What lets blocks enter the flash.
    #[inline]
    pub(crate) fn admitter(&mut self) -> Admitter<'_> {
        self.admitter_and_reads().0
    }

    /// The same, beside the reads under way.
    pub(crate) fn admitter_and_reads(&mut self) -> (Admitter<'_>, &Reads) {
        let (flash, disks) = (self.flash.as_mut(), &mut self.disks);
        let admitter = Admitter::new(&mut self.admission, flash, disks, &mut self.ports);
        (admitter, &self.reads)
    }

    /// What divides the flash among tenants.
    pub(crate) fn division(&mut self) -> Division<'_> {
        Division::new(
            &mut self.tenants,
            &mut self.admission,
            self.flash.as_mut(),
            &mut self.disks,
            &mut self.ports,
        )
    }

    /// Gives a request's answer.
    pub(crate) fn answer(&mut self, disk: DiskSlot, answer: Effect) {
        self.disks.end(disk);
        self.ports.push(answer);
    }

    /// Counters since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.ports.stats.with_store(self.ports.store.stats())
    }

    /// Counters of a disk since it was attached; none if it is not.
    pub fn stats_of(&self, disk: DiskSlot) -> Option<DiskStats> {
        self.disks.get(disk)?;
        let cached = self
            .flash
            .as_ref()
            .map_or(0, |flash| flash.facts().cached_blocks_of(disk));
        Some(DiskStats {
            cached_blocks: cached,
            ..*self.disks.counted(disk)
        })
    }

    /// The write policy of an attached disk.
    pub fn policy_of(&self, disk: DiskSlot) -> Option<WritePolicy> {
        Some(self.disks.get(disk)?.policy)
    }

    /// Requests of a disk that are not answered yet.
    pub fn in_flight(&self, disk: DiskSlot) -> u32 {
        self.disks.get(disk).map_or(0, |disk| disk.in_flight)
    }

    /// How far the tables on flash are durable; `None` without flash.
    pub fn committed(&self) -> Option<Committed> {
        Some(self.flash.as_ref()?.facts().committed())
    }

    /// Asserts the invariants that can be seen from inside; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        let Some(flash) = self.flash.as_ref() else {
            return;
        };
        flash.self_check();
    }
}
