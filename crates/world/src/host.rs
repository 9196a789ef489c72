//! A host: the flash of its cache, and the process that uses it.
//!
//! ```text
//!   Host ─┬─ bay    flash, retained memory, what was recorded     outlives the process
//!         └─ life   the process, commands, guests' requests       begins and ends with the process
//! ```
//!
//! Disks are not the host's: what one changes at an origin or in an owner's record, others find there.

mod effects;
mod ends;

use crate::context::{Context, somebody_absent_waits};
use crate::device::CacheDevice;
use crate::disks::Disks;
use crate::flash_bay::FlashBay;
use crate::guests::Guests;
use crate::meter::Meter;
use crate::operator::{Operator, Order, change_tenancy};
use crate::process::Process;
use crate::run::Run;
use crate::settings::{End, LifeSettings, Special};
use crate::state_directory::StateDirectory;
use crate::violation::Violation;
use cache::{Cache, OpenError, Recovered};
use units::{Instant, Offset};

/// What begins and ends with the process.
struct Life {
    settings: LifeSettings,
    process: Process,
    state_directory: StateDirectory,
    operator: Operator,
    guests: Guests,
    /// What is held against write budgets.
    meter: Meter,
}

impl Life {
    fn new(settings: LifeSettings, disks: usize, run: &Run) -> Self {
        Self {
            settings,
            process: Process::new(disks, settings.crash_at),
            state_directory: StateDirectory::default(),
            operator: Operator::default(),
            guests: Guests::new(run.settings().workers, run.now()),
            meter: Meter::default(),
        }
    }

    /// Memory and budgets, now.
    fn check_tenancy(&mut self, run: &Run) -> Result<(), Violation> {
        match self.process.cache() {
            Some(cache) => self.meter.judge(cache, run),
            None => Ok(()),
        }
    }

    /// The life ends: what has come to the origins from failed or late flash comes again, from the
    /// beginning.
    fn leave_emptied_flash(&self, disks: &mut Disks) {
        let process = &self.process;
        let power_cut = self.settings.end == End::PowerCut;
        let emptied = process.cache().is_some() && process.is_bypassed();
        for (number, disk) in disks.iter_mut().enumerate() {
            let status = process.write_back_of(number);
            let emptied = emptied || status.is_some_and(|status| status.is_bypassed);
            if disk.is_open() && emptied {
                disk.write_back_mut().emptying_was_cut_short(power_cut);
            }
        }
    }
}

/// See the module's header.
pub(crate) struct Host {
    bay: FlashBay,
    life: Life,
}

impl Host {
    /// A host with a new cache, whose process does not run yet.
    pub(crate) fn new(disks: usize, run: &mut Run) -> Self {
        Self {
            bay: FlashBay::new(run),
            life: Life::new(LifeSettings::LAST, disks, run),
        }
    }

    /// Its parts that act, and what they act on.
    fn parts<'a>(
        &'a mut self,
        run: &'a mut Run,
        disks: &'a mut Disks,
    ) -> (&'a mut Operator, &'a mut Guests, Context<'a>) {
        let cx = Context {
            run,
            disks,
            device: self.bay.in_use(),
            process: &mut self.life.process,
        };
        (&mut self.life.operator, &mut self.life.guests, cx)
    }

    /// The flash that is in use.
    pub(crate) fn device(&self) -> &CacheDevice {
        self.bay.in_use()
    }

    /// When the state directory answers.
    pub(crate) fn next_answer(&self) -> Option<Instant> {
        self.life.state_directory.next_answer()
    }

    /// The process of this life.
    pub(crate) fn process(&self) -> &Process {
        &self.life.process
    }

    /// Workers that can ask something, by their number, and when each does next.
    pub(crate) fn next_requests(&self) -> impl Iterator<Item = (usize, Instant)> {
        let process = &self.life.process;
        let can_ask = process.cache().is_some() && !process.served().is_empty();
        self.life.guests.next_requests().filter(move |_| can_ask)
    }

    /// Whether nobody waits for an answer.
    pub(crate) fn guests_have_answers(&self) -> bool {
        self.life.guests.have_answers()
    }

    /// Whether no command is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.life.operator.is_settled()
    }

    /// Whether all requests of this life are made and answered, and no command is under way.
    pub(crate) fn is_done(&self) -> bool {
        self.life.guests.are_done() && self.is_settled()
    }

    /// Whether nothing happens any more because every disk is away.
    pub(crate) fn is_stuck(&self) -> bool {
        let nobody_is_served = self.life.process.served().is_empty();
        self.is_settled() && self.life.guests.have_answers() && nobody_is_served
    }

    /// See [`Context::somebody_absent_waits`].
    pub(crate) fn somebody_absent_waits(&self, run: &Run, disks: &Disks) -> bool {
        somebody_absent_waits(run, disks, self.bay.in_use(), &self.life.process)
    }

    /// For a message: what waits on flash, and who waits for what.
    pub(crate) fn what_waits(&self, disks: &Disks) -> String {
        let process = &self.life.process;
        let Some(cache) = process.cache() else {
            return String::new();
        };
        let numbered = disks.iter().enumerate();
        let status = numbered.filter_map(|(n, disk)| Some((disk.id(), process.write_back_of(n)?)));
        format!(
            "; {:?}, {:?}, requests {}, commands {}",
            cache.facts().status().mode,
            status.collect::<Vec<_>>(),
            self.life.guests.what_waits(),
            self.life.operator.what_waits()
        )
    }

    // A life of the process.

    /// A life begins.
    pub(crate) fn begin(&mut self, settings: LifeSettings, run: &mut Run, disks: &mut Disks) {
        if run.is_last_life() {
            self.bay.insert_what_is_needed(run, disks);
        }
        let life = Life::new(settings, disks.count(), run);
        let before = std::mem::replace(&mut self.life, life);
        before.operator.abandon(disks);
        for (number, disk) in disks.iter().enumerate() {
            if disk.belongs_elsewhere(self.bay.in_use().uuid()) {
                self.life.process.disk_mut(number).give_up();
            }
        }
        self.bay.in_use_mut().open(run);
        self.life.process.open_origins(disks);
    }

    /// From now on things go wrong with its flash.
    pub(crate) fn set_faults(&mut self, run: &Run) {
        self.bay.in_use_mut().set_faults(run);
    }

    /// Whoever has waited long finds flash that can be read.
    pub(crate) fn recover(&mut self) {
        self.bay.in_use_mut().recover();
    }

    /// The cache is opened.
    pub(crate) fn open_cache(&mut self, run: &mut Run) {
        let recovery = self.bay.in_use_mut().recovery(run);
        self.life.process.open(recovery);
    }

    /// If that has ended, the cache serves, without its flash if need be.
    pub(crate) fn serve_if_open(&mut self, run: &mut Run) {
        if let Some(finished) = self.life.process.finished() {
            self.serve(finished, run);
        }
    }

    /// Opening the cache has ended.
    pub(crate) fn serve(&mut self, finished: Result<Recovered, OpenError>, run: &mut Run) {
        run.event(&[11], || format!("opened: {finished:?}"));
        let cache = match finished {
            Ok(recovered) => {
                run.hit(if recovered.clean {
                    "clean start"
                } else {
                    "start after a crash"
                });
                run.hit_many("blocks came back", recovered.blocks);
                run.hit_many("descriptors lost", recovered.blocks_lost);
                match recovered.cold {
                    Some(cache::ColdReason::Retired) => run.hit("cold: retired"),
                    Some(cache::ColdReason::JournalDamaged) => run.hit("cold: journal damaged"),
                    Some(cache::ColdReason::OlderCopy) => run.hit("cold: older copy"),
                    None => {}
                }
                self.bay
                    .in_use_mut()
                    .in_use(recovered.cache.facts().status().incarnation);
                recovered.cache
            }
            Err(error) => {
                run.hit("flash could not be opened");
                self.bay.in_use_mut().not_opened();
                let config = run.settings().config.clone();
                Cache::bypassed(config, run.pool().clone(), error.to_string(), run.now())
            }
        };
        self.life.process.serve(cache);
    }

    /// The operator gives orders about every disk, or the cache.
    pub(crate) fn order(&mut self, order: Order, run: &mut Run, disks: &mut Disks) {
        let (operator, _, mut cx) = self.parts(run, disks);
        operator.carry_out(order, &mut cx);
    }

    /// Disks that are away are attached again. False if none will be in this life.
    pub(crate) fn attach_again(&mut self, run: &mut Run, disks: &mut Disks) -> bool {
        let process = &self.life.process;
        if (0..disks.count()).all(|number| process.disk(number).is_given_up()) {
            return false;
        }
        let (operator, _, mut cx) = self.parts(run, disks);
        cx.strangers_write();
        operator.carry_out(Order::AttachAll, &mut cx);
        true
    }

    /// If the flash lies, the host records how far the tables on it are durable, as far as it says.
    pub(crate) fn note_committed(&mut self, run: &Run) {
        if let (Special::Lying { .. }, Some(committed)) =
            (run.special(), self.life.process.committed())
        {
            self.bay.in_use_mut().note_committed(committed);
        }
    }

    // Guests.

    /// Guests may make so many requests from now on.
    pub(crate) fn guests_may_ask(&mut self, requests: u64) {
        self.life.guests.may_ask(requests);
    }

    /// A worker asks the next thing.
    pub(crate) fn guest_asks(
        &mut self,
        worker: usize,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        self.life.guests.count_request();
        // Before the next command: what the cache counts and what it asked for agree.
        self.life.check_tenancy(run)?;
        self.before_request(run, disks)?;
        disks.origin_goes(run);
        let (_, guests, mut cx) = self.parts(run, disks);
        guests.readers_come_and_go(&mut cx);
        cx.disks.look_now_and_then(cx.run)?;
        guests.ask_next(worker, &mut cx);
        self.carry_out_effects(run, disks)
    }

    /// What happens beside a guest's request: commands of the operator, a dying flash.
    fn before_request(&mut self, run: &mut Run, disks: &mut Disks) -> Result<(), Violation> {
        if self.life.settings.flash_dies_at == Some(self.life.guests.requests_made()) {
            run.hit("flash dies");
            self.bay.in_use_mut().die(self.life.settings.dies_silently);
        }
        if let Special::Lying { notes, .. } = run.special()
            && run.one_in(notes)
        {
            self.note_committed(run);
        }
        if run.one_in(run.settings().tenancy_rate) {
            change_tenancy(&mut self.parts(run, disks).2);
        }
        if !run.one_in(run.settings().control_rate) {
            return Ok(());
        }
        // Commands come in bunches, so that they meet each other under way.
        for _ in 0..=run.below(2) {
            self.command(run, disks)?;
        }
        Ok(())
    }

    /// The operator does something with some disk.
    fn command(&mut self, run: &mut Run, disks: &mut Disks) -> Result<(), Violation> {
        let (operator, _, mut cx) = self.parts(run, disks);
        if let Some(number) = operator.command(&mut cx) {
            // What has been answered already may have changed where the disk stands.
            self.carry_out_effects(run, disks)?;
            if !self.life.process.has_crashed() {
                let (operator, _, mut cx) = self.parts(run, disks);
                operator.attach_again(number, &mut cx);
            }
        }
        if run.special() == Special::Pestered {
            // A disk may be longer now, of which the next request must know.
            self.carry_out_effects(run, disks)?;
        }
        Ok(())
    }

    // What must hold.

    /// Nothing is in flight: every disk that is served is read through the cache.
    pub(crate) fn begin_audit(
        &mut self,
        run: &mut Run,
        disks: &mut Disks,
    ) -> Result<(), Violation> {
        for (number, disk) in disks.iter().enumerate() {
            let attachment = self.life.process.disk_mut(number);
            attachment.begin_audit(disk.sectors_most_usize());
        }
        for number in self.life.process.served() {
            let size = disks[number].size();
            let mut offset = Offset::ZERO;
            while offset.from_start() < size && !self.life.process.has_crashed() {
                let (_, guests, mut cx) = self.parts(run, disks);
                offset = guests.ask_for_audit(number, offset, &mut cx);
                self.carry_out_effects(run, disks)?;
            }
        }
        Ok(())
    }

    /// After the audit of a start: what was found of disks with something waiting is everything up
    /// to one point.
    pub(crate) fn judge_audit(&self, run: &mut Run, disks: &mut Disks) -> Result<(), Violation> {
        let process = &self.life.process;
        for number in process.served() {
            if disks[number].is_open() && !process.is_locked(number) {
                disks[number].judge_cut(process.disk(number).found(), run)?;
            }
        }
        Ok(())
    }

    /// Nothing is in flight: counts and limits.
    pub(crate) fn inspect(&mut self, run: &Run) -> Result<(), Violation> {
        if let Some(cache) = self.life.process.cache() {
            cache.self_check();
        }
        self.life.check_tenancy(run)?;
        self.life
            .process
            .inspect(self.bay.in_use().written_in_life(), run)
    }
}
