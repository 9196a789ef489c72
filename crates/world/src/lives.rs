//! The lives of the host's process: opening the cache, attaching disks, traffic, an end, again.

use crate::disk::Standing;
use crate::host::Software;
use crate::settings::Special;
use crate::settings::{End, Life};
use crate::tenants::Meter;
use crate::violation::Violation;
use crate::world::{Stop, World};
use block_io::IoError;
use cache::{Command, Mode};
use medium::{Fault, Kind};
use units::Bytes;

/// Memory that requests in flight may pin beside what the configuration allows for writes.
const BUFFERED_SLACK: Bytes = Bytes::mib(1);

impl World {
    /// All lives, and a last one in which everything is read and compared.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let mut lives = self.run.settings().lives.clone();
        if let (Some(crash_at), Some(first)) = (self.options.crash_at, lives.first_mut()) {
            first.crash_at = Some(crash_at);
            first.end = End::PowerCut;
        }
        for (number, life) in lives.iter().enumerate() {
            self.run.event(&[10, number as u64], || {
                format!("=== life {number}: {life:?}")
            });
            let died = self.live(*life)? == Stop::Crashed;
            if number == 0 {
                self.first_life_operations = self.operations;
            }
            self.end(*life, died)?;
        }
        self.last_life()
    }

    fn live(&mut self, life: Life) -> Result<Stop, Violation> {
        self.begin(life);
        if life.faults_while_opening {
            self.set_faults();
        }
        if self.open_cache()? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.attach_all();
        if self.drive("attaching the disks", Self::is_settled)? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        if life.audit_at_start && self.audit()? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.set_faults();
        self.requests_left = life.requests;
        let done = |world: &Self| {
            world.requests_left == 0 && world.outstanding.is_empty() && world.is_settled()
        };
        loop {
            // A life in which every disk is away would never make its requests.
            let stuck = |world: &Self| world.is_settled() && world.nobody_is_served();
            if self.drive("all requests being answered", |world| {
                done(world) || stuck(world)
            })? == Stop::Crashed
            {
                return Ok(Stop::Crashed);
            }
            if done(self) {
                break;
            }
            if self.disks.iter().all(|disk| disk.back.given_up) {
                break;
            }
            self.strangers_write();
            self.attach_all();
        }
        self.requests_left = 0;
        self.inspect()?;
        match life.end {
            End::CleanStop => self.stop_cleanly(),
            End::Kill | End::PowerCut => Ok(Stop::Reached),
        }
    }

    fn begin(&mut self, life: Life) {
        self.crashed = false;
        self.meter = Meter::default();
        self.operations = 0;
        self.requests_made = 0;
        self.requests_left = 0;
        self.crash_at = life.crash_at;
        self.abandon_commands();
        for number in 0..self.disks.len() {
            self.disks[number].back.given_up = self.belongs_elsewhere(number);
        }
        self.host.flash_dies_at = life.flash_dies_at;
        self.host.dies_silently = life.dies_silently;
        self.clear_faults();
        self.device.open(&self.run);
        for origin in self.origins() {
            origin.open();
        }
        for worker in &mut self.workers {
            worker.next_at = self.run.now();
        }
    }

    fn clear_faults(&mut self) {
        self.device.clear_faults();
        for disk in &mut self.disks {
            disk.gone_until = None;
            disk.origin.late_mut().give_up_one_in(0);
            disk.origin.errors().clear();
            disk.origin.errors().release();
        }
    }

    fn set_faults(&mut self) {
        self.clear_faults();
        self.device.set_faults(&self.run);
        for number in 0..self.disks.len() {
            self.set_origin_faults(number);
        }
    }

    /// What goes wrong now and then at an origin.
    pub(crate) fn set_origin_faults(&mut self, number: usize) {
        let rates = self.run.settings().rates;
        let origin = &mut self.disks[number].origin;
        origin.set_forgets(self.run.settings().origins_forget);
        origin.late_mut().give_up_one_in(rates.origin_late);
        let errors = origin.errors();
        errors.clear();
        errors.chance(
            Kind::Any,
            rates.origin_errors,
            Fault::Error(IoError::Failed),
        );
        errors.chance(Kind::Any, rates.origin_stalls, Fault::Stall);
    }

    fn nobody_is_served(&self) -> bool {
        self.outstanding.is_empty() && self.disks.iter().all(|disk| disk.served_as().is_none())
    }

    /// Attaches every disk that is away, in any order: which slot a disk gets must not matter.
    fn attach_all(&mut self) {
        let mut away: Vec<usize> = (0..self.disks.len()).collect();
        while !away.is_empty() {
            let at = usize::try_from(self.run.below(away.len() as u64)).expect("an index");
            let number = away.swap_remove(at);
            if self.disks[number].standing == Standing::Away {
                self.change_size(number);
            }
            if !self.disks[number].back.given_up {
                self.start_attach(number);
            }
        }
    }

    /// The operator grows or shrinks a disk between two attachments, as it may at any time: what
    /// is cut off is gone, what is added is zero.
    fn change_size(&mut self, number: usize) {
        // Twice without an attachment in between could lead back to the size that was known.
        let disk = &self.disks[number];
        let may = self.run.settings().sizes_change && disk.size_is_known && !disk.is_open();
        if !may || !self.run.one_in(3) {
            return;
        }
        self.disks[number].size_is_known = false;
        let most = self.disks[number].sectors_most();
        let mut sectors = 8 + self.run.below(most - 7);
        if self.run.special() == Special::Pestered {
            // Only whole blocks can be under write-back, and grow.
            sectors -= sectors % 8;
        }
        let before = self.disks[number].settings.sectors;
        self.run.hit("size changed");
        self.run.event(&[16, number as u64, sectors], || {
            format!("disk {number} goes from {before} to {sectors} sectors")
        });
        for sector in sectors..before {
            let now = self.run.next_moment();
            self.disks[number].replace_sector(sector, 0, now);
        }
        self.disks[number].settings.sectors = sectors;
    }

    /// What happens beside a guest's request: commands of the operator, a dying flash.
    pub(crate) fn before_request(&mut self) -> Result<(), Violation> {
        if self.host.flash_dies_at == Some(self.requests_made) {
            self.run.hit("flash dies");
            self.device.die(self.host.dies_silently);
        }
        if let Special::Lying { notes, .. } = self.run.special()
            && self.run.one_in(notes)
        {
            self.note_committed();
        }
        if self.run.one_in(self.run.settings().tenancy_rate) {
            self.change_tenancy();
        }
        if !self.run.one_in(self.run.settings().control_rate) {
            return Ok(());
        }
        // Commands come in bunches, so that they meet each other under way.
        for _ in 0..=self.run.below(2) {
            self.command()?;
        }
        Ok(())
    }

    /// Nothing is in flight: reads every disk through the cache.
    fn audit(&mut self) -> Result<Stop, Violation> {
        self.forget_what_was_found();
        for number in 0..self.disks.len() {
            if self.disks[number].served_as().is_some() {
                self.ask_for_audit(number)?;
            }
        }
        let stop = self.drive("the audit's reads being answered", |world| {
            world.outstanding.is_empty()
        })?;
        if stop == Stop::Reached {
            self.judge_what_was_found()?;
        }
        Ok(stop)
    }

    /// Nothing is in flight: counts and limits.
    fn inspect(&mut self) -> Result<(), Violation> {
        let Software::Cache(cache) = &self.host.software else {
            return Ok(());
        };
        cache.self_check();
        self.check_tenancy()?;
        let Software::Cache(cache) = &self.host.software else {
            return Ok(());
        };
        let status = cache.status();
        let stats = cache.stats();
        let counted = stats.flash_written.total();
        let written = self.device.written_in_life();
        if status.mode == Mode::Active && counted != written {
            return Err(Violation::new(
                "I7",
                format!("the cache counts {counted} bytes written to flash, the device {written}"),
            ));
        }
        if status.buffered > self.run.settings().config.write_buffer + BUFFERED_SLACK {
            return Err(Violation::new(
                "I7",
                format!("{} wait to be written to flash", status.buffered),
            ));
        }
        Ok(())
    }

    fn stop_cleanly(&mut self) -> Result<Stop, Violation> {
        if self.detach_all()? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.control(Command::Stop);
        if self.drive("the clean stop", Self::is_settled)? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.run.hit("clean stop");
        self.note_committed();
        Ok(Stop::Reached)
    }

    fn last_life(&mut self) -> Result<(), Violation> {
        let life = Life {
            requests: 20,
            end: End::CleanStop,
            crash_at: None,
            flash_dies_at: None,
            dies_silently: false,
            audit_at_start: true,
            faults_while_opening: false,
        };
        self.run.event(&[14], || "=== last life".to_owned());
        self.insert_what_is_needed();
        let blamed = self.run.settings().rates.blame_the_flash();
        self.run.begin_last_life();
        let result = self.live(life);
        self.count_marks();
        result?;
        let blamed = blamed || self.device.is_suspect();
        for origin in self.origins() {
            origin.settle_late();
        }
        self.everything_has_arrived(blamed)
    }

    pub(crate) fn count_marks(&mut self) {
        let Software::Cache(cache) = &self.host.software else {
            return;
        };
        let stats = cache.stats().clone();

        self.run
            .hit_many("checksum mismatch", stats.checksum_mismatches);
        self.run.hit_many("flash error", stats.flash_errors);
        self.run.hit_many("flash timeout", stats.flash_timeouts);
        self.run.hit_many("read repeated", stats.reads_repeated);
        self.run
            .hit_many("segment reclaimed", stats.segments_reclaimed);
        self.run.hit_many("survivor kept", stats.blocks_kept);
        self.run.hit_many("block evicted", stats.blocks_evicted);
        self.run
            .hit_many("not admitted: no segment", stats.not_admitted.no_segment);
        self.run.hit_many(
            "not admitted: write buffer",
            stats.not_admitted.write_buffer,
        );
        self.run
            .hit_many("not admitted: index full", stats.not_admitted.index_full);
        self.run
            .hit_many("write waited for the journal", stats.writes_waited);
        self.run.hit_many("checkpoint", stats.checkpoints);
        let staged_hits = self
            .disks
            .iter()
            .filter_map(|disk| cache.stats_of(disk.served_as()?));
        let staged_hits = staged_hits.map(|stats| stats.read_block_staged_hits);
        self.run.hit_many("staged block read", staged_hits.sum());
        self.run.hit_many("write allocated", stats.writes_allocated);
        self.run.hit_many(
            "window ended",
            cache.shares().map_or(0, |shares| shares.window),
        );
        self.run
            .hit_many("not rewritten for the budget", stats.not_rewritten);
        self.run
            .hit_many("not admitted: settings", stats.not_admitted.settings);
        for (reason, count) in stats.not_admitted.refused.iter() {
            self.run.hit_many(reason.name(), count);
        }
        self.run.hit_many("contended write", stats.contended_writes);
        self.run.hit_many("shared fill", stats.shared_fills);
        self.run.hit_many("killed fill", stats.killed_fills);
        self.run
            .hit_many("rewritten block trusted again", stats.retrusted_blocks);
        let pages = stats.flash_written.journal / 4096;
        if pages > self.run.settings().geometry().journal_pages() {
            self.run.hit("journal wrapped");
        }
    }
}
