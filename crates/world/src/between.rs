//! Between two lives: how the process ends, and what befalls flash and origins until the next.

use crate::back::look_at_origin_alone;
use crate::device::{CacheDevice, FIRST_CACHE};
use crate::disk::Standing;
use crate::settings::{End, Life};
use crate::violation::Violation;
use crate::world::World;
use units::{Bytes, Duration, SECTOR_BYTES};

impl World {
    pub(crate) fn end(&mut self, life: Life, died: bool) -> Result<(), Violation> {
        self.run.event(&[13, u64::from(died)], || {
            format!("=== the process ends, died: {died}")
        });
        self.count_marks();
        if died {
            self.run.hit("crash");
        }
        self.device.mark_writes_in_flight(&mut self.run);
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
        // The power may go after a clean stop, too: to flash that does not lie it would make no difference.
        let lies = self.device.lies_about_durability();
        let stopped = life.end == End::CleanStop && !died;
        let flash_cut = power_cut || (lies && stopped && self.run.one_in(2));
        if flash_cut && lies {
            let committed = self.committed();
            self.device
                .spare_what_leaves_no_trace(committed, &mut self.run);
        }
        self.host_dies(lands);
        self.owners_at_a_crash();
        if flash_cut {
            self.run.hit("power cut");
        }
        self.device.end(flash_cut);
        let origins_too = power_cut && self.run.settings().origin_loses_power;
        for origin in self.origins() {
            if origins_too {
                origin.cut_power();
            } else {
                origin.kill();
            }
        }
        for disk in &mut self.disks {
            let (landed, waited) = disk.origin.late_mut().take_counts();
            self.run.hit_many("late change landed", landed);
            self.run.hit_many("waited for a late change", waited);
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
        self.device.put_back_an_old_copy(&mut self.run);
        self.device.rot_at_rest(&mut self.run);
        self.change_flash();
        let pause = Duration::from_millis(1 + self.run.below(50));
        self.run.pass_to(self.run.now() + pause);
        Ok(())
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
            let lost = self.device.uuid();
            for disk in &mut self.disks {
                disk.home = disk.home.filter(|home| *home != lost);
            }
            self.device = self.new_device();
        }
    }

    /// Flash with a new cache on it.
    fn new_device(&mut self) -> CacheDevice {
        let blank = CacheDevice::blank(&mut self.run);
        blank.formatted(FIRST_CACHE + u128::from(self.run.next_id()))
    }

    fn swap_flash(&mut self) {
        self.run.hit("another cache");
        // Whether it is needed or not: the dice of all seeds were thrown so.
        let blank = CacheDevice::blank(&mut self.run);
        let next = match self.aside.take() {
            Some(next) => next,
            None => blank.formatted(FIRST_CACHE + u128::from(self.run.next_id())),
        };
        self.aside = Some(std::mem::replace(&mut self.device, next));
        let uuid = self.device.uuid();
        self.run
            .event(&[22], || format!("cache {uuid:x} is put in"));
    }

    /// For the last life: the flash that has the most of what the origins lack.
    pub(crate) fn insert_what_is_needed(&mut self) {
        let Some(aside) = &self.aside else { return };
        let waiting = |uuid| {
            let open = self.disks.iter().filter_map(|disk| disk.owner);
            open.filter(|owner| owner.open && owner.cache == uuid)
                .count()
        };
        if waiting(aside.uuid()) > waiting(self.device.uuid()) {
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
            for run in disk.origin.late().settled(all) {
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
