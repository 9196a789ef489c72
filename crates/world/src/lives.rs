//! The lives of the host's process: opening the cache, attaching disks, traffic, an end, again.

use crate::disk::Standing;
use crate::host::{CACHE_UUID, Software};
use crate::settings::{End, Life, pick};
use crate::violation::Violation;
use crate::world::{Stop, World, geometry};
use block_io::IoError;
use cache::{Cache, Command, ControlId, FormatOptions, Mode, Recovery, WritePolicy, format};
use flash_format::{PAGE_BYTES, SUPERBLOCK_OFFSETS, SegmentIndex, Superblock};
use medium::{Fault, Kind};
use units::{Bytes, Duration};

/// Memory that requests in flight may pin beside what the configuration allows for writes.
const BUFFERED_SLACK: Bytes = Bytes::mib(1);

impl World {
    /// All lives, and a last one in which everything is read and compared.
    ///
    /// # Errors
    /// The first violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.make_cache();
        let mut lives = self.settings.lives.clone();
        if let (Some(crash_at), Some(first)) = (self.options.crash_at, lives.first_mut()) {
            first.crash_at = Some(crash_at);
            first.end = End::PowerCut;
        }
        for (number, life) in lives.iter().enumerate() {
            self.trace.event(self.now, &[10, number as u64], |line| {
                line.push_str(&format!("=== life {number}: {life:?}"));
            });
            let died = self.live(*life)? == Stop::Crashed;
            if number == 0 {
                self.first_life_operations = self.operations;
            }
            self.end(*life, died)?;
        }
        self.last_life()
    }

    fn make_cache(&mut self) {
        let geometry = geometry(&self.settings);
        let options = FormatOptions {
            capacity: geometry.capacity(),
            segment_bytes: geometry.segment_bytes(),
            uuid: CACHE_UUID,
        };
        for (offset, bytes) in format(&options).expect("the layout is valid") {
            self.flash.poke(offset, &bytes);
        }
    }

    fn live(&mut self, life: Life) -> Result<Stop, Violation> {
        self.begin(life);
        if life.faults_while_opening {
            self.set_faults();
        }
        if self.open_cache()? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        for disk in 0..self.disks.len() {
            self.start_attach(disk);
        }
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
            self.strangers_write();
            for disk in 0..self.disks.len() {
                self.start_attach(disk);
            }
        }
        self.inspect()?;
        match life.end {
            End::CleanStop => self.stop_cleanly(),
            End::Kill | End::PowerCut => Ok(Stop::Reached),
        }
    }

    fn begin(&mut self, life: Life) {
        self.crashed = false;
        self.operations = 0;
        self.requests_made = 0;
        self.requests_left = 0;
        self.crash_at = life.crash_at;
        self.controls.clear();
        self.host.written_before = self.flash.written_bytes;
        self.host.flash_dies_at = life.flash_dies_at;
        self.host.dies_silently = life.dies_silently;
        self.clear_faults();
        self.flash.open();
        for origin in self.origins() {
            origin.open();
        }
        for worker in &mut self.workers {
            worker.next_at = self.now;
        }
    }

    fn clear_faults(&mut self) {
        self.flash.errors.clear();
        self.flash.lies.clear();
        self.flash.rot = 0;
        for disk in &self.disks {
            disk.origin.errors.clear();
            disk.origin.errors.release();
        }
    }

    fn set_faults(&mut self) {
        self.clear_faults();
        self.flash.rot = self.settings.rates.metadata_rot;
        let rates = self.settings.rates;
        let late = Duration::from_nanos(self.settings.config.flash_timeout.as_nanos() * 3 / 2);
        let failed = Fault::Error(IoError::Failed);
        let flash = &self.flash;
        flash.errors.chance(Kind::Any, rates.flash_errors, failed);
        flash
            .errors
            .chance(Kind::Any, rates.flash_delays, Fault::Delay(late));
        flash
            .errors
            .chance(Kind::Any, rates.flash_stalls, Fault::Stall);
        flash.lies.chance(Kind::Any, rates.rot, Fault::Rot);
        flash
            .lies
            .chance(Kind::Any, rates.misdirected, Fault::Misdirect);
        flash.lies.chance(Kind::Write, rates.lost, Fault::Lose);
        for disk in &self.disks {
            let errors = &disk.origin.errors;
            errors.chance(Kind::Any, rates.origin_errors, failed);
            errors.chance(Kind::Any, rates.origin_stalls, Fault::Stall);
        }
    }

    /// What the superblocks say of the flash's incarnation; 0 if they say nothing.
    fn incarnation_on_flash(&self) -> u64 {
        let mut slots = [[0; PAGE_BYTES]; 2];
        for (slot, offset) in slots.iter_mut().zip(SUPERBLOCK_OFFSETS) {
            self.flash.peek(offset, slot);
        }
        let capacity = geometry(&self.settings).capacity();
        Superblock::choose([&slots[0], &slots[1]], capacity)
            .map_or(0, |superblock| superblock.incarnation)
    }

    fn open_cache(&mut self) -> Result<Stop, Violation> {
        self.host.before_use(self.incarnation_on_flash());
        let recovery = Recovery::new(
            self.settings.config.clone(),
            geometry(&self.settings).capacity(),
            Some(self.host.least),
            self.pool.clone(),
            self.now,
        );
        self.host.software = Software::Recovery(Box::new(recovery));
        loop {
            if self.host.is_up() {
                return Ok(Stop::Reached);
            }
            let before = self.operations;
            // Looked at after each operation: `finished` gives its answer once.
            let moved = move |world: &Self| world.operations != before;
            if let Software::Recovery(recovery) = &mut self.host.software
                && let Some(finished) = recovery.finished()
            {
                self.cache_is_open(finished);
                continue;
            }
            if self.drive_opening(moved)? == Stop::Crashed {
                self.marks.hit("crash while opening");
                return Ok(Stop::Crashed);
            }
        }
    }

    /// Opening has no deadline of its own: flash that stalls is given up by the shell.
    fn drive_opening(&mut self, moved: impl Fn(&Self) -> bool) -> Result<Stop, Violation> {
        self.carry_out_effects()?;
        if self.flash.next_deadline().is_none() && !self.crashed {
            self.cache_is_open(Err(cache::OpenError::Io(IoError::TimedOut)));
            return Ok(Stop::Reached);
        }
        self.drive("the cache being opened", moved)
    }

    fn cache_is_open(&mut self, finished: Result<cache::Recovered, cache::OpenError>) {
        self.trace.event(self.now, &[11], |line| {
            line.push_str(&format!("opened: {finished:?}"));
        });
        let cache = match finished {
            Ok(recovered) => {
                self.marks.hit(if recovered.clean {
                    "clean start"
                } else {
                    "start after a crash"
                });
                self.marks.add("blocks came back", recovered.blocks);
                self.marks.add("descriptors lost", recovered.blocks_lost);
                match recovered.cold {
                    Some(cache::ColdReason::Retired) => self.marks.hit("cold: retired"),
                    Some(cache::ColdReason::JournalDamaged) => {
                        self.marks.hit("cold: journal damaged")
                    }
                    None => {}
                }
                recovered.cache
            }
            Err(error) => {
                self.marks.hit("flash could not be opened");
                self.host.without_flash(0);
                // What recovery still had in flight is not the new cache's.
                self.flash.open();
                let config = self.settings.config.clone();
                Cache::bypassed(config, self.pool.clone(), error.to_string(), self.now)
            }
        };
        self.host.in_use(cache.status().incarnation);
        self.host.software = Software::Cache(Box::new(cache));
    }

    /// No control command is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.controls.values().all(Option::is_some)
    }

    fn nobody_is_served(&self) -> bool {
        self.outstanding.is_empty() && self.disks.iter().all(|disk| disk.served_as().is_none())
    }

    fn control(&mut self, command: Command) -> ControlId {
        let id = ControlId(self.next_id());
        self.trace.event(self.now, &[12, id.0], |line| {
            line.push_str(&format!("control {}: {command:?}", id.0));
        });
        self.controls.insert(id, None);
        if let Software::Cache(cache) = &mut self.host.software {
            cache.control(id, command, self.now);
        }
        id
    }

    fn start_attach(&mut self, number: usize) {
        if self.disks[number].standing != Standing::Away {
            return;
        }
        let policy = *pick(&mut self.dice, &[WritePolicy::Through, WritePolicy::Around]);
        let disk = &mut self.disks[number];
        disk.policy = policy;
        let command = Command::Attach {
            disk: disk.id,
            name: format!("disk {number}"),
            size: disk.size(),
            policy,
            read_only: disk.settings.read_only,
            fingerprint: disk.fingerprint(),
        };
        // The command may be answered at once, and says where the disk is then.
        let id = ControlId(self.peek_id());
        self.disks[number].standing = Standing::Attaching(id);
        let given = self.control(command);
        assert_eq!(id, given, "ids are given in order");
    }

    fn start_detach(&mut self, number: usize) {
        let Standing::Served(slot) = self.disks[number].standing else {
            return;
        };
        let fingerprint = self.disks[number].fingerprint();
        let id = ControlId(self.peek_id());
        self.disks[number].standing = Standing::Detaching(id, slot);
        self.control(Command::Detach {
            disk: slot,
            fingerprint,
        });
    }

    /// What happens beside a guest's request: commands of the operator, a dying flash.
    pub(crate) fn before_request(&mut self) {
        if self.host.flash_dies_at == Some(self.requests_made) {
            self.marks.hit("flash dies");
            let fault = if self.host.dies_silently {
                Fault::Stall
            } else {
                Fault::Error(IoError::Failed)
            };
            self.flash.errors.clear();
            self.flash.errors.always(Kind::Any, fault);
        }
        if !self.dice.one_in(self.settings.control_rate) {
            return;
        }
        let count = self.disks.len() as u64;
        let number = usize::try_from(self.dice.below(count)).expect("an index");
        match (self.dice.below(4), self.disks[number].standing) {
            (0, Standing::Served(disk)) => {
                let policy = *pick(&mut self.dice, &[WritePolicy::Through, WritePolicy::Around]);
                self.disks[number].policy = policy;
                self.control(Command::SetPolicy { disk, policy });
            }
            (1, Standing::Served(disk)) => {
                self.marks.hit("drop");
                self.control(Command::Drop { disk });
            }
            (2, Standing::Served(_)) => {
                self.marks.hit("detach");
                self.start_detach(number);
            }
            (_, Standing::Away) => {
                self.marks.hit("attach while running");
                self.strangers_write();
                self.start_attach(number);
            }
            _ => {}
        }
    }

    /// Somebody else writes disks that are detached and would show it.
    fn strangers_write(&mut self) {
        for number in 0..self.disks.len() {
            let disk = &self.disks[number];
            let may = disk.standing == Standing::Away && disk.may_be_written_by_strangers;
            if !self.settings.strangers || !may || self.dice.one_in(2) {
                continue;
            }
            for _ in 0..1 + self.dice.below(20) {
                let sector = self.dice.below(self.disks[number].settings.sectors);
                let tag = self.next_tags(1);
                let now = self.next_moment();
                self.disks[number].replace_sector(sector, tag, now);
            }
            self.marks.hit("stranger writes");
        }
    }

    /// Nothing is in flight: reads every disk through the cache.
    fn audit(&mut self) -> Result<Stop, Violation> {
        for number in 0..self.disks.len() {
            if self.disks[number].served_as().is_some() {
                self.ask_for_audit(number)?;
            }
        }
        self.drive("the audit's reads being answered", |world| {
            world.outstanding.is_empty()
        })
    }

    /// Nothing is in flight: counts and limits.
    fn inspect(&mut self) -> Result<(), Violation> {
        let Software::Cache(cache) = &self.host.software else {
            return Ok(());
        };
        cache.self_check();
        let status = cache.status();
        let stats = cache.stats();
        let counted = stats.flash_written.total();
        let written = self.flash.written_bytes - self.host.written_before;
        if status.mode == Mode::Active && counted != written {
            return Err(Violation::new(
                "I7",
                format!("the cache counts {counted} bytes written to flash, the device {written}"),
            ));
        }
        if status.buffered > self.settings.config.write_buffer + BUFFERED_SLACK {
            return Err(Violation::new(
                "I7",
                format!("{} wait to be written to flash", status.buffered),
            ));
        }
        Ok(())
    }

    fn stop_cleanly(&mut self) -> Result<Stop, Violation> {
        for number in 0..self.disks.len() {
            self.start_detach(number);
        }
        if self.drive("detaching the disks", Self::is_settled)? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.control(Command::Stop);
        if self.drive("the clean stop", Self::is_settled)? == Stop::Crashed {
            return Ok(Stop::Crashed);
        }
        self.marks.hit("clean stop");
        Ok(Stop::Reached)
    }

    fn end(&mut self, life: Life, died: bool) -> Result<(), Violation> {
        self.trace.event(self.now, &[13, u64::from(died)], |line| {
            line.push_str(&format!("=== the process ends, died: {died}"));
        });
        self.count_marks();
        if died {
            self.marks.hit("crash");
        }
        self.mark_writes_in_flight();
        let lands = self.dice.one_in(2);
        self.host.die(lands);
        let power_cut = life.end == End::PowerCut;
        if power_cut {
            self.marks.hit("power cut");
            self.flash.cut_power();
        } else {
            self.flash.kill();
        }
        let origins_too = power_cut && self.settings.origin_loses_power;
        for origin in self.origins() {
            if origins_too {
                origin.cut_power();
            } else {
                origin.kill();
            }
        }
        self.guests_lose_their_requests();
        for disk in &mut self.disks {
            // What was in flight may have changed the origin after its last fingerprint.
            if disk.standing != Standing::Away {
                disk.may_be_written_by_strangers = false;
            }
            disk.standing = Standing::Away;
        }
        self.look_at_origins(origins_too)?;
        self.strangers_write();
        self.put_back_an_old_copy();
        self.now = self.now + Duration::from_millis(1 + self.dice.below(50));
        Ok(())
    }

    /// What a crash found half done on flash.
    fn mark_writes_in_flight(&mut self) {
        let geometry = geometry(&self.settings);
        let journal = geometry.journal_page_offset(0);
        let checkpoints = geometry.checkpoint_page_offset(0, 0);
        let segments = geometry.segment_offset(SegmentIndex::new(0));
        for offset in self.flash.writes_in_flight() {
            self.marks.hit(match offset {
                _ if offset < journal => "superblock in flight at a crash",
                _ if offset < checkpoints => "journal page in flight at a crash",
                _ if offset < segments => "checkpoint in flight at a crash",
                _ => "blocks in flight at a crash",
            });
        }
    }

    /// Somebody copies the flash between two lives, and puts the copy back after a later one.
    fn put_back_an_old_copy(&mut self) {
        if !self.settings.old_copies {
            return;
        }
        if let Some(copy) = self.old_copy.take() {
            if self.dice.one_in(2) {
                self.marks.hit("old copy of the flash put back");
                self.flash.poke(Bytes::ZERO, &copy);
                self.trace.event(self.now, &[15], |line| {
                    line.push_str("an old copy of the flash is put back");
                });
            }
        } else if self.dice.one_in(2) {
            let size = geometry(&self.settings).capacity().to_usize();
            let mut copy = vec![0; size];
            self.flash.peek(Bytes::ZERO, &mut copy);
            self.old_copy = Some(copy);
        }
    }

    /// What the origins hold after a crash is what counts from now on.
    fn look_at_origins(&mut self, lost_power: bool) -> Result<(), Violation> {
        let now = self.next_moment();
        for disk in &mut self.disks {
            if lost_power {
                disk.history.origin_lost_power();
            }
            let mut bytes = vec![0; disk.size().to_usize()];
            disk.origin.peek(Bytes::ZERO, &mut bytes);
            disk.history.origin_holds(&bytes, lost_power, now)?;
        }
        Ok(())
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
        self.trace
            .event(self.now, &[14], |line| line.push_str("=== last life"));
        let rates = std::mem::take(&mut self.settings.rates);
        self.settings.control_rate = 0;
        self.settings.rates = crate::settings::Rates {
            // Earlier lives may have left a retirement that could not be recorded; this one has
            // no trouble of its own.
            retire_fails: 0,
            ..Default::default()
        };
        let result = self.live(life);
        self.count_marks();
        self.settings.rates = rates;
        result.map(|_| ())
    }

    fn count_marks(&mut self) {
        let Software::Cache(cache) = &self.host.software else {
            return;
        };
        let stats = cache.stats().clone();
        let marks = &mut self.marks;
        marks.add("checksum mismatch", stats.checksum_mismatches);
        marks.add("flash error", stats.flash_errors);
        marks.add("flash timeout", stats.flash_timeouts);
        marks.add("segment reclaimed", stats.segments_reclaimed);
        marks.add("survivor kept", stats.blocks_kept);
        marks.add("block evicted", stats.blocks_evicted);
        marks.add("not admitted: no segment", stats.not_admitted.no_segment);
        marks.add(
            "not admitted: write buffer",
            stats.not_admitted.write_buffer,
        );
        marks.add("not admitted: index full", stats.not_admitted.index_full);
        marks.add("write waited for the journal", stats.writes_waited);
        marks.add("checkpoint", stats.checkpoints);
        marks.add("contended write", stats.contended_writes);
        marks.add("shared fill", stats.shared_fills);
        marks.add("killed fill", stats.killed_fills);
        marks.add("rewritten block trusted again", stats.retrusted_blocks);
        let pages = stats.flash_written.journal / 4096;
        if pages > geometry(&self.settings).journal_pages() {
            marks.hit("journal wrapped");
        }
    }
}
