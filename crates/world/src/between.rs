//! Between two lives: how the process ends, and what befalls flash and origins until the next.

use crate::disk::Standing;
use crate::settings::{End, Life};
use crate::violation::Violation;
use crate::world::{World, geometry};
use flash_format::SegmentIndex;
use units::{Bytes, Duration, SECTOR_BYTES};

impl World {
    pub(crate) fn end(&mut self, life: Life, died: bool) -> Result<(), Violation> {
        self.trace.event(self.now, &[13, u64::from(died)], || {
            format!("=== the process ends, died: {died}")
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
                self.trace.event(self.now, &[15], || {
                    "an old copy of the flash is put back".to_owned()
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
                disk.history.lost_power();
            }
            let all = Bytes::new(disk.sectors_most() * SECTOR_BYTES);
            let mut bytes = vec![0; all.to_usize()];
            disk.origin.peek(Bytes::ZERO, &mut bytes);
            disk.history.origin_holds(&bytes, lost_power, now)?;
        }
        Ok(())
    }

    /// Somebody else writes disks that are detached and would show it.
    pub(crate) fn strangers_write(&mut self) {
        for number in 0..self.disks.len() {
            let disk = &self.disks[number];
            let may = disk.standing == Standing::Away && disk.may_be_written_by_strangers;
            if !self.settings.strangers || !may || self.dice.one_in(2) {
                continue;
            }
            for _ in 0..=self.dice.below(20) {
                let sector = self.dice.below(self.disks[number].settings.sectors);
                let tag = self.next_tags(1);
                let now = self.next_moment();
                self.disks[number].replace_sector(sector, tag, now);
            }
            self.marks.hit("stranger writes");
        }
    }
}
