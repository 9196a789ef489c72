//! Between two lives: how the process ends, and what befalls flash and origins until the next.

use crate::accepted::Accepted;
use crate::back::look_at_origin_alone;
use crate::disk::Standing;
use crate::host::FIRST_CACHE;
use crate::retained::RetainedMemory;
use crate::settings::{End, Life};
use crate::special::spare_what_leaves_no_trace;
use crate::storage::Storage;
use crate::violation::Violation;
use crate::world::{World, new_flash};
use flash_format::SegmentIndex;
use units::{Bytes, Duration, SECTOR_BYTES};

/// A cache whose flash is not in use, and what its host has recorded of it.
pub(crate) struct Shelf {
    flash: Storage,
    uuid: u128,
    suspect: bool,
    least: u64,
    served: u64,
    accepted: Accepted,
    retained: RetainedMemory,
    old_copy: Option<Vec<u8>>,
}

impl World {
    pub(crate) fn end(&mut self, life: Life, died: bool) -> Result<(), Violation> {
        self.run.event(&[13, u64::from(died)], || {
            format!("=== the process ends, died: {died}")
        });
        self.count_marks();
        if died {
            self.run.hit("crash");
        }
        self.mark_writes_in_flight();
        let power_cut = life.end == End::PowerCut;
        let emptied = self.host.is_up() && self.is_bypassed();
        for number in 0..self.disks.len() {
            let status = self.write_back_of(number);
            let emptied = emptied || status.is_some_and(|status| status.is_bypassed);
            let disk = &mut self.disks[number];
            if disk.is_open() && emptied {
                disk.back.ragged |= power_cut;
                // What has come from failed or late flash comes again, from the beginning.
                disk.back.ordered = false;
            }
        }
        let lands = self.run.one_in(2);
        self.host.accepted.process_ended();
        // The power may go after a clean stop, too: to flash that does not lie it would make no difference.
        let lies = self.flash.lies_about_durability;
        let stopped = life.end == End::CleanStop && !died;
        let flash_cut = power_cut || (lies && stopped && self.run.one_in(2));
        if flash_cut && lies {
            spare_what_leaves_no_trace(self);
        }
        self.host.die(lands);
        self.owners_at_a_crash();
        if flash_cut {
            self.run.hit("power cut");
            self.flash.cut_power();
            self.host.retained.lose_power();
        } else {
            self.flash.kill();
        }
        let origins_too = power_cut && self.run.settings().origin_loses_power;
        for origin in self.origins() {
            if origins_too {
                origin.cut_power();
            } else {
                origin.kill();
            }
        }
        for late in self.disks.iter_mut().map(|disk| &mut disk.origin.late) {
            let (landed, waited) = (&mut late.landed, &mut late.waited);
            self.run
                .hit_many("late change landed", std::mem::take(landed));
            self.run
                .hit_many("waited for a late change", std::mem::take(waited));
        }
        self.guests_lose_their_requests();
        for disk in &mut self.disks {
            // What was in flight may have changed the origin after its last fingerprint.
            if disk.standing != Standing::Away {
                disk.may_be_written_by_strangers = false;
            }
            disk.standing = Standing::Away;
        }
        self.look_at_origins(power_cut, origins_too)?;
        self.strangers_write();
        self.put_back_an_old_copy();
        self.rot_at_rest();
        self.change_flash();
        let pause = Duration::from_millis(1 + self.run.below(50));
        self.run.pass_to(self.run.now() + pause);
        Ok(())
    }

    /// What a crash found half done on flash.
    fn mark_writes_in_flight(&mut self) {
        let geometry = self.run.settings().geometry();
        let journal = geometry.journal_page_offset(0);
        let checkpoints = geometry.checkpoint_page_offset(0, 0);
        let segments = geometry.segment_offset(SegmentIndex::new(0));
        for offset in self.flash.writes_in_flight() {
            self.run.hit(match offset {
                _ if offset < journal => "superblock in flight at a crash",
                _ if offset < checkpoints => "journal page in flight at a crash",
                _ if offset < segments => "checkpoint in flight at a crash",
                _ => "blocks in flight at a crash",
            });
        }
    }

    /// Somebody copies the flash between two lives, and puts the copy back after a later one.
    fn put_back_an_old_copy(&mut self) {
        if !self.run.settings().old_copies {
            return;
        }
        if let Some(copy) = self.old_copy.take() {
            if self.run.one_in(2) {
                self.run.hit("old copy of the flash put back");
                self.host.suspect = true;
                self.flash.poke(Bytes::ZERO, &copy);
                self.run
                    .event(&[15], || "an old copy of the flash is put back".to_owned());
            }
        } else if self.run.one_in(2) {
            let size = self.run.settings().geometry().capacity().to_usize();
            let mut copy = vec![0; size];
            self.flash.peek(Bytes::ZERO, &mut copy);
            self.old_copy = Some(copy);
        }
    }

    /// Another flash is put in, with a cache of its own, or an empty one.
    fn change_flash(&mut self) {
        let Some(back) = self.run.settings().back else {
            return;
        };
        if back.two_caches && self.run.one_in(2) {
            self.swap_flash();
        }
        if back.flash_is_lost && self.run.one_in(3) {
            self.run.hit("flash lost");
            self.run.event(&[21], || "the flash is lost".to_owned());
            for disk in &mut self.disks {
                disk.home = disk.home.filter(|home| *home != self.host.uuid);
            }
            self.flash = new_flash(&mut self.run);
            self.begin_cache();
        }
    }

    fn begin_cache(&mut self) {
        self.host.uuid = FIRST_CACHE + u128::from(self.run.next_id());
        self.host.suspect = false;
        self.host.least = 0;
        self.host.served = 0;
        self.host.accepted = Accepted::default();
        self.host.retained = RetainedMemory::default();
        self.old_copy = None;
        self.make_cache();
    }

    fn swap_flash(&mut self) {
        self.run.hit("another cache");
        let flash = match &mut self.shelf {
            Some(shelf) => std::mem::replace(&mut shelf.flash, new_flash(&mut self.run)),
            None => new_flash(&mut self.run),
        };
        let before = Shelf {
            flash: std::mem::replace(&mut self.flash, flash),
            uuid: self.host.uuid,
            suspect: self.host.suspect,
            least: self.host.least,
            served: self.host.served,
            accepted: std::mem::take(&mut self.host.accepted),
            retained: std::mem::take(&mut self.host.retained),
            old_copy: self.old_copy.take(),
        };
        match self.shelf.replace(before) {
            Some(shelf) => {
                self.host.uuid = shelf.uuid;
                self.host.suspect = shelf.suspect;
                self.host.least = shelf.least;
                self.host.served = shelf.served;
                self.host.accepted = shelf.accepted;
                self.host.retained = shelf.retained;
                self.old_copy = shelf.old_copy;
            }
            None => self.begin_cache(),
        }
        let uuid = self.host.uuid;
        self.run
            .event(&[22], || format!("cache {uuid:x} is put in"));
    }

    /// For the last life: the flash that has the most of what the origins lack.
    pub(crate) fn insert_what_is_needed(&mut self) {
        let Some(shelf) = &self.shelf else { return };
        let waiting = |uuid| {
            let open = self.disks.iter().filter_map(|disk| disk.owner);
            open.filter(|owner| owner.open && owner.cache == uuid)
                .count()
        };
        if waiting(shelf.uuid) > waiting(self.host.uuid) {
            self.swap_flash();
        }
    }

    /// What the origins hold after a crash is what counts from now on.
    fn look_at_origins(&mut self, power_cut: bool, origins_too: bool) -> Result<(), Violation> {
        let now = self.run.next_moment();
        let suspect = self.flash_is_suspect();
        for number in 0..self.disks.len() {
            let disk = &mut self.disks[number];
            if std::mem::take(&mut disk.back.dropping) && !disk.is_open() {
                self.go_on_from_origin(number)?;
                continue;
            }
            // What waits on flash is as durable as the flash is; and if that lies about a write that
            // nobody has flushed, it passes for one that was cut off.
            if origins_too || ((power_cut || suspect) && disk.is_open()) {
                disk.history.lost_power();
            }
            if disk.is_open() {
                look_at_origin_alone(disk)?;
                continue;
            }
            let all = Bytes::new(disk.sectors_most() * SECTOR_BYTES);
            for run in disk.origin.late.settled(all) {
                let mut bytes = vec![0; (run.end - run.start).to_usize()];
                disk.origin.peek(run.start, &mut bytes);
                disk.history
                    .origin_holds(run.start, &bytes, origins_too, now)?;
            }
        }
        Ok(())
    }

    /// Somebody else writes disks that are detached and would show it.
    pub(crate) fn strangers_write(&mut self) {
        for number in 0..self.disks.len() {
            let disk = &self.disks[number];
            let may = disk.standing == Standing::Away && disk.may_be_written_by_strangers;
            if !self.run.settings().strangers || !may || self.run.one_in(2) {
                continue;
            }
            for _ in 0..=self.run.below(20) {
                let sector = self.run.below(self.disks[number].settings.sectors);
                let tag = self.run.next_tags(1);
                let now = self.run.next_moment();
                self.disks[number].replace_sector(sector, tag, now);
            }
            self.run.hit("stranger writes");
        }
    }
}
