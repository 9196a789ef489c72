//! The cache of a shard: events in, effects out.

mod attach;
mod commands;
mod completions;
mod facts;
mod keys;
mod late_writes;
mod retirement;
mod tenant_commands;

pub use facts::{Facts, Kept, Mode, Status};

use crate::admitter::{Admission, Admitter};
use crate::api::{Command, Config, ControlId, Effect, LoanId, LoanRequest, Request, RequestId};
use crate::back::{BackRequests, Backs, Changes, Destager, Over};
use crate::disks::Disks;
use crate::division::{Division, admission_of};
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::host_record::HostRecord;
use crate::jobs::Jobs;
use crate::lending::{Lending, Loans};
use crate::limits::TICK_MAX;
use crate::origin_flushes::OriginFlushes;
use crate::ports::{Ports, Wake};
use crate::reads::{GuestReads, ReadState};
use crate::request::{Asked, Span};
use crate::tenants::Tenants;
use crate::under_way::Aim;
use crate::writes::{Change, Through, Writes};
use block_io::{BlockCipher, BufPool, GuestBuffer, Token, Verb};
use std::rc::Rc;
use units::{Bytes, DiskId, DiskSlot, Duration, Instant, Map, TenantSlot};

/// The cache of a shard.
///
/// Its driver hands in requests, completions and the time, and carries out what
/// [`Cache::take_effects`] gives. Nothing happens in between: no clock, no I/O, no threads.
pub struct Cache {
    config: Config,
    ports: Ports,
    flash: FlashUse,
    host_record: HostRecord,
    disks: Disks,
    tenants: Tenants,
    admission: Admission,
    reads: ReadState,
    writes: Writes,
    /// Ciphers of disks that are about to be attached.
    coming_ciphers: Map<DiskId, Box<dyn BlockCipher>>,
    jobs: Jobs,
    /// Disks under write-back.
    backs: Backs,
    /// What is read for hosts that have disks now.
    loans: Loans,
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
            writes: Writes::new(config.allocate_writes),
            config,
            ports,
            flash,
            host_record: HostRecord::default(),
            disks: Disks::new(),
            tenants: Tenants::default(),
            admission,
            reads: ReadState::default(),
            coming_ciphers: Map::default(),
            jobs: Jobs::default(),
            backs: Backs::default(),
            loans: Loans::default(),
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

    /// Asks when what was read of a disk so far is durable: before another host may have it, whose guest goes on when
    /// this host has lost power. Exactly one [`Effect::Reply`] with the same id and without bytes follows. No flush that
    /// has failed is told of by it.
    pub fn when_durable(&mut self, id: RequestId, disk: DiskSlot, vm: TenantSlot, now: Instant) {
        self.ports.set_now(now);
        match self.disks.begin(disk, vm, &Verb::Flush) {
            Ok(()) if self.back_requests().when_durable(id, disk) => {}
            Ok(()) => self.disks.reply(&mut self.ports, disk, id, Ok(())),
            Err(error) => self.ports.push(Effect::Reply {
                request: id,
                result: Err(error),
            }),
        }
        self.pump();
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
        let back = self.backs.has(disk);
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
                self.guest_reads().read(span(offset, length), aim);
            }
            Verb::Prefetch { offset, length } => {
                self.guest_reads()
                    .read(span(offset, length), Aim::CacheOnly);
            }
            Verb::Write { offset, data, fua } => {
                stats.write_requests += 1;
                stats.written_bytes += data.len() as u64;
                let length = Bytes::new(data.len() as u64);
                let change = Change::Data { bytes: data, fua };
                self.write(span(offset, length), change);
            }
            Verb::Flush => {
                stats.flush_requests += 1;
                if back && self.back_requests().flush(id, disk) {
                    return;
                }
                self.origin_flushes().ask(id, disk, Asked::Flush);
            }
            Verb::Discard { offset, length } => {
                stats.erase_requests += 1;
                self.write(span(offset, length), Change::Discard);
            }
            Verb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                stats.erase_requests += 1;
                let change = Change::Zeroes { may_unmap, fua };
                self.write(span(offset, length), change);
            }
        }
    }

    fn write(&mut self, span: Span, change: Change) {
        if self.backs.has(span.disk) {
            self.back_requests().write(span, change);
        } else {
            self.through().write(span, change);
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
        let asked = self.jobs.owned(token, recorded, self.flash.as_mut());
        if asked && !self.flash.is_in_use() {
            self.end_jobs_without_flash();
        }
        self.changes().owned(token, recorded);
        self.pump();
    }

    /// The operator asks. Exactly one [`Effect::ControlDone`] with the same id follows.
    pub fn control(&mut self, id: ControlId, command: Command, now: Instant) {
        self.ports.set_now(now);
        self.start_command(id, command);
        self.pump();
    }

    /// A host that has a disk now asks for what is cached of it here. Exactly one [`Effect::Lent`] with the
    /// same id follows, late if the flash is.
    pub fn lend(&mut self, id: LoanId, request: LoanRequest, now: Instant) {
        self.ports.set_now(now);
        let disks = &self.disks;
        Lending::new(&mut self.loans, &mut self.flash, disks, &mut self.ports).lend(id, request);
        self.pump();
    }

    /// The driver has stood still for so long before `now`: it was stopped, or was busy with one
    /// thing. What was in flight meanwhile has not taken that time. Hand in what has completed
    /// before the next [`Cache::tick`], which judges what has not.
    pub fn stood_still(&mut self, time: Duration, now: Instant) {
        self.ports.set_now(now);
        self.ports.store.stand_still(time);
    }

    /// Ends what prefetches of a disk have not asked for yet, as if it were not to be had: the disk is
    /// about to leave, and nobody waits for the rest.
    pub fn cut_prefetches(&mut self, disk: DiskSlot, now: Instant) {
        self.ports.set_now(now);
        self.guest_reads().cut_prefetches(disk);
    }

    /// Time has passed: does what [`Cache::next_deadline`] announced.
    pub fn tick(&mut self, now: Instant) {
        self.ports.set_now(now);
        if self.ports.store.next_tick().is_none_or(|due| now < due) {
            return;
        }
        self.ports.store.clear_tick();
        if let Some(flash) = self.flash.as_mut() {
            flash.tick(&mut self.ports.store, self.host_record.is_in_doubt());
        }
        self.division().tick();
        self.back_requests().tick();
        self.guest_reads().step_prefetches();
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
        if let Some(flash) = self.flash.as_ref() {
            self.host_record.reinstate(flash, &mut self.ports);
        }
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
                    Wake::Write(write) => self.through().send_to_origin(write),
                    Wake::FlashFailed(reason) => self.fail_flash(reason),
                    Wake::Jobs => self.end_jobs_without_flash(),
                }
            }
        }
    }

    /// Does what can be done for the disks that are scheduled. True if there was one.
    fn advance_scheduled(&mut self) -> bool {
        let some = self.ports.has_scheduled();
        while let Some(disk) = self.ports.take_scheduled() {
            if self.backs.has(disk) {
                self.advance_back(disk);
            } else if self.backs.keeps(disk) {
                self.back_requests().advance_arrivals(disk);
            }
        }
        some
    }

    fn advance_back(&mut self, disk: DiskSlot) {
        self.back_requests().advance(disk);
        self.destager().advance(disk);
        match self.changes().advance(disk) {
            Some(Over::Left {
                writes,
                flushes,
                demands,
            }) => {
                for (span, change) in writes {
                    self.through().write(span, change);
                }
                for (request, asked) in flushes {
                    self.origin_flushes().ask(request, disk, asked);
                }
                for id in demands {
                    self.ports.command_ended(id, Some(Ok(())));
                }
            }
            Some(Over::Detaches { id, fingerprint }) => self.begin_detach(id, disk, fingerprint),
            None => {}
        }
        self.back_requests().wake(disk);
    }

    /// What writes to an origin first.
    pub(crate) fn through(&mut self) -> Through<'_> {
        Through::new(
            &mut self.writes,
            self.reads.fills_mut(),
            &mut self.admission,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
            &mut self.host_record,
        )
    }

    /// What takes guests' requests under write-back.
    pub(crate) fn back_requests(&mut self) -> BackRequests<'_> {
        BackRequests::new(
            &mut self.backs,
            self.reads.fills_mut(),
            &mut self.admission,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
        )
    }

    /// What brings dirty logs to their origins.
    pub(crate) fn destager(&mut self) -> Destager<'_> {
        Destager::new(
            &mut self.backs,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
            &mut self.host_record,
        )
    }

    /// What brings disks under write-back, and out of it.
    pub(crate) fn changes(&mut self) -> Changes<'_> {
        Changes::new(
            &mut self.backs,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
            &mut self.host_record,
            &self.writes,
        )
    }

    /// What a flush of an origin says of the cache.
    pub(crate) fn origin_flushes(&mut self) -> OriginFlushes<'_> {
        OriginFlushes::new(
            &mut self.writes,
            self.reads.fills_mut(),
            &mut self.backs,
            &mut self.admission,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
        )
    }

    /// What answers guests' reads.
    #[inline]
    pub(crate) fn guest_reads(&mut self) -> GuestReads<'_> {
        GuestReads::new(
            &mut self.reads,
            &self.writes,
            &mut self.admission,
            &mut self.flash,
            &self.host_record,
            &mut self.disks,
            &mut self.ports,
        )
    }

    /// What lets blocks enter the flash.
    #[inline]
    pub(crate) fn admitter(&mut self) -> Admitter<'_> {
        let (flash, disks) = (self.flash.as_mut(), &mut self.disks);
        Admitter::new(&mut self.admission, flash, disks, &mut self.ports)
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
