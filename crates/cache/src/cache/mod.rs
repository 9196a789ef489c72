//! The cache of a shard: events in, effects out.

mod attach;
mod commands;
mod completions;
mod facts;
mod flash_health;
mod following;
mod guests;
mod requests;
mod tenant_commands;

pub use facts::{Facts, Kept, Mode, Status};
pub use guests::Guest;

use commands::Commands;
use flash_health::FlashHealth;

use crate::admitter::{Admission, Admitter};
use crate::api::{Command, Config, ControlId, Effect};
use crate::back::{BackRequests, Backs, Changes, Destager, Over};
use crate::disks::Disks;
use crate::division::{Division, admission_of};
use crate::flash_use::FlashUse;
use crate::guard::{Guard, holds};
use crate::host_record::HostRecord;
use crate::jobs::Jobs;
use crate::lending::{Lending, Loans};
use crate::limits::TICK_MAX;
use crate::loan::{LoanId, LoanRequest, NotLent};
use crate::origin_flushes::OriginFlushes;
use crate::ports::{Ports, Wake};
use crate::reads::{GuestReads, ReadState};
use crate::scrub::{Scrub, Scrubber};
use crate::tenants::Tenants;
use crate::writes::{Through, Writes};
use block_io::{BlockCipher, BufPool, Token};
use units::{DiskId, DiskSlot, Duration, Instant, Map};

/// The cache of a shard.
///
/// Its driver hands in requests, completions and the time, and carries out what
/// [`Cache::take_effects`] gives. Nothing happens in between: no clock, no I/O, no threads.
pub struct Cache {
    state: State,
    /// Reads have begun or ended since [`Cache::pump`].
    is_pump_due: bool,
}

/// What a cache consists of. What handles an event borrows of it what it needs.
struct State {
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
    /// What looks for damage on the flash.
    scrub: Scrub,
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
            admission_of(settings, flash, ports.now()).unwrap_or_else(Admission::closed)
        });
        let mut state = State {
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
            scrub: Scrub::default(),
        };
        state.foresee_as_set();
        Self {
            state,
            is_pump_due: false,
        }
    }

    /// Lets a recovered cache begin its first checkpoint.
    pub(crate) fn open(&mut self, now: Instant) {
        self.state.ports.set_now(now);
        self.state.division().wake_for_window();
        self.pump();
    }

    /// The answer to [`Effect::Retire`]: whether it is recorded durably.
    pub fn retired(&mut self, token: Token, recorded: bool, now: Instant) {
        self.state.ports.set_now(now);
        self.state.flash_health().retired(token, recorded);
        self.pump();
    }

    /// The answer to [`Effect::Reinstate`]: whether it is recorded durably. One to a question that
    /// another has followed means nothing.
    pub fn reinstated(&mut self, token: Token, recorded: bool, now: Instant) {
        self.state.ports.set_now(now);
        if self.state.host_record.reinstated(token, recorded, now) {
            self.state.ports.stats.flash_taken_back += 1;
            // For what has rested meanwhile.
            self.state.ports.wake_at(now);
        }
        self.pump();
    }

    /// The answer to [`Effect::Own`]: whether it is recorded durably.
    pub fn owned(&mut self, token: Token, recorded: bool, now: Instant) {
        self.state.ports.set_now(now);
        let asked = self
            .state
            .jobs
            .owned(token, recorded, self.state.flash.as_mut());
        if asked && !self.state.flash.is_in_use() {
            self.state.commands().end_without_flash();
        }
        self.state.changes().owned(token, recorded);
        self.pump();
    }

    /// The operator asks. Exactly one [`Effect::ControlDone`] with the same id follows.
    pub fn control(&mut self, id: ControlId, command: Command, now: Instant) {
        self.state.ports.set_now(now);
        self.state.commands().start(id, command);
        self.pump();
    }

    /// A host that has a disk now asks for what is cached of it here. Exactly one [`Effect::Lent`] with the
    /// same id follows, late if the flash is.
    pub fn lend(&mut self, id: LoanId, request: LoanRequest, now: Instant) {
        self.state.ports.set_now(now);
        if !self.state.parks(id, request) {
            self.state.lending().lend(id, request);
        }
        self.pump();
    }

    /// Gives a disk that is about to be attached its cipher: from its next attach to the detach
    /// after it its blocks are encrypted on flash. Given again it takes the former one's place;
    /// `None` takes it back.
    pub fn set_cipher(&mut self, disk: DiskId, cipher: Option<Box<dyn BlockCipher>>) {
        match cipher {
            Some(cipher) => self.state.coming_ciphers.insert(disk, cipher),
            None => self.state.coming_ciphers.remove(&disk),
        };
    }

    /// Lets the blocks of an encrypted disk that has left be lent: they are shown with its cipher until it is attached
    /// again. Does nothing if the disk is attached, or has nothing on flash that this cipher's key shows.
    pub fn lend_with(&mut self, disk: DiskId, cipher: Box<dyn BlockCipher>) {
        let State { flash, disks, .. } = &mut self.state;
        if let Some(flash) = flash.as_mut()
            && let Some(slot) = flash.facts().slot_of(disk)
            && disks.get(slot).is_none()
            && !flash.facts().key_differs(slot, disk, Some(cipher.tag()))
        {
            flash.ciphers_mut().set(slot, Some(cipher));
        }
    }

    /// The driver has stood still for so long before `now`: it was stopped, or was busy with one
    /// thing. What was in flight meanwhile has not taken that time. Hand in what has completed
    /// before the next [`Cache::tick`], which judges what has not.
    pub fn stood_still(&mut self, time: Duration, now: Instant) {
        self.state.ports.set_now(now);
        self.state.ports.store.stand_still(time);
    }

    /// Time has passed: does what [`Cache::next_deadline`] announced.
    pub fn tick(&mut self, now: Instant) {
        self.state.ports.set_now(now);
        if self
            .state
            .ports
            .store
            .next_tick()
            .is_none_or(|due| now < due)
        {
            return;
        }
        self.state.ports.store.clear_tick();
        if let Some(flash) = self.state.flash.as_mut() {
            flash.tick(
                &mut self.state.ports.store,
                self.state.host_record.is_in_doubt(),
            );
        }
        self.state.division().tick();
        self.state.back_requests().tick();
        self.state.guest_reads().step_prefetches();
        self.state.flash_health().watch();
        self.state.scrubber().step();
        self.pump();
    }

    /// When [`Cache::tick`] should be called next; none if nothing waits for time.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.state
            .ports
            .store
            .next_tick()
            .map(|due| due.min(self.state.ports.now() + TICK_MAX))
    }

    /// Moves what is to be done to the end of `into`, in order.
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        if self.is_pump_due {
            self.pump();
        }
        self.state.ports.take_effects(into);
    }

    /// Lets what follows from a read wait until the effects are taken, together with what follows
    /// from the reads beside it: of most of them nothing does.
    #[inline]
    pub(crate) fn pump_soon(&mut self) {
        if self.state.ports.has_wakes() {
            self.pump();
        } else {
            self.is_pump_due = true;
        }
    }

    pub(crate) fn pump(&mut self) {
        self.is_pump_due = false;
        if let Some(flash) = self.state.flash.as_ref() {
            self.state
                .host_record
                .reinstate(flash, &mut self.state.ports);
        }
        self.state.flash_health().return_to_back();
        loop {
            // First the jobs: a checkpoint that starts now is not replayed from the entries that
            // have just become durable, so the table has to show already what they freed.
            if holds(Guard::FreedBeforeCheckpoint) {
                self.state.commands().step();
            }
            if let Some(flash) = self.state.flash.as_mut() {
                flash.pump(&mut self.state.ports.store);
            }
            self.state.admitter().account();
            let advanced = self.advance_scheduled();
            let progress = self.state.commands().step() || advanced;
            if !self.state.ports.has_wakes() && !self.state.ports.has_scheduled() && !progress {
                return;
            }
            for wake in self.state.ports.take_wakes() {
                match wake {
                    Wake::Write(write) if !self.state.writes.is_waiting(write) => {}
                    Wake::Write(write) => self.state.through().send_to_origin(write),
                    Wake::FlashFailed(reason) => self.state.flash_health().fail(reason),
                    Wake::Jobs => self.state.commands().end_without_flash(),
                }
            }
        }
    }

    /// Does what can be done for the disks that are scheduled. True if there was one.
    fn advance_scheduled(&mut self) -> bool {
        let some = self.state.ports.has_scheduled();
        while let Some(disk) = self.state.ports.take_scheduled() {
            if self.state.backs.has(disk) {
                self.advance_back(disk);
            } else if self.state.backs.keeps(disk) {
                self.state.back_requests().advance_arrivals(disk);
            }
        }
        some
    }

    fn advance_back(&mut self, disk: DiskSlot) {
        self.state.end_following(disk);
        self.state.back_requests().advance(disk);
        self.state.answer_question(disk);
        self.state.destager().advance(disk);
        match self.state.changes().advance(disk) {
            Some(Over::Left {
                writes,
                question,
                flushes,
                demands,
            }) => {
                if let Some(loan) = question {
                    let result = Err(NotLent);
                    self.state.ports.push(Effect::Lent { loan, result });
                }
                for (span, change) in writes {
                    self.state.through().write(span, change);
                }
                for (request, asked) in flushes {
                    self.state.origin_flushes().ask(request, disk, asked);
                }
                for id in demands {
                    self.state.ports.command_ended(id, Some(Ok(())));
                }
            }
            Some(Over::Detaches { id, fingerprint }) => {
                self.state.commands().begin_detach(id, disk, fingerprint);
            }
            None => {}
        }
        self.state.back_requests().wake(disk);
    }

    /// Asserts the invariants that can be seen from inside; walks the whole index.
    ///
    /// # Panics
    /// If one is broken.
    pub fn self_check(&self) {
        let Some(flash) = self.state.flash.as_ref() else {
            return;
        };
        flash.self_check();
    }
}

impl State {
    /// What carries out what the operator asks.
    fn commands(&mut self) -> Commands<'_> {
        Commands::new(self)
    }

    /// What reads for other hosts.
    fn lending(&mut self) -> Lending<'_> {
        Lending::new(
            &mut self.loans,
            &mut self.flash,
            &self.disks,
            &mut self.ports,
        )
    }

    /// What looks for damage on the flash.
    fn scrubber(&mut self) -> Scrubber<'_> {
        let is_late = self.reads.is_slow() || self.host_record.is_in_doubt();
        Scrubber::new(&mut self.scrub, &mut self.flash, &mut self.ports, is_late)
    }

    /// What judges the flash.
    fn flash_health(&mut self) -> FlashHealth<'_> {
        FlashHealth::new(self)
    }

    /// What writes to an origin first.
    fn through(&mut self) -> Through<'_> {
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
    fn back_requests(&mut self) -> BackRequests<'_> {
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
    fn destager(&mut self) -> Destager<'_> {
        Destager::new(
            &mut self.backs,
            &mut self.flash,
            &mut self.disks,
            &mut self.ports,
            &mut self.host_record,
        )
    }

    /// What brings disks under write-back, and out of it.
    fn changes(&mut self) -> Changes<'_> {
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
    fn origin_flushes(&mut self) -> OriginFlushes<'_> {
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
    fn guest_reads(&mut self) -> GuestReads<'_> {
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
    fn admitter(&mut self) -> Admitter<'_> {
        let (flash, disks) = (self.flash.as_mut(), &mut self.disks);
        Admitter::new(&mut self.admission, flash, disks, &mut self.ports)
    }

    /// What divides the flash among tenants.
    fn division(&mut self) -> Division<'_> {
        Division::new(
            &mut self.tenants,
            &mut self.admission,
            self.flash.as_mut(),
            &mut self.disks,
            &mut self.ports,
        )
    }
}
