//! The flash that a host has: that of the cache in use, and that of another one aside, if two take turns.

use crate::device::{CacheDevice, FIRST_CACHE};
use crate::disks::Disks;
use crate::run::Run;

/// See the module's header.
pub(crate) struct FlashBay {
    in_use: CacheDevice,
    aside: Option<CacheDevice>,
}

impl FlashBay {
    /// One new cache.
    pub(crate) fn new(run: &mut Run) -> Self {
        Self {
            in_use: CacheDevice::blank(run).formatted(FIRST_CACHE),
            aside: None,
        }
    }

    /// That of the cache in use.
    pub(crate) fn in_use(&self) -> &CacheDevice {
        &self.in_use
    }

    /// The same, to be used.
    pub(crate) fn in_use_mut(&mut self) -> &mut CacheDevice {
        &mut self.in_use
    }

    /// Between two lives another flash may be put in, with a cache of its own, or an empty one.
    pub(crate) fn change(&mut self, run: &mut Run, disks: &mut Disks) {
        let Some(back) = run.settings().back else {
            return;
        };
        if back.two_caches && run.one_in(2) {
            self.swap(run);
        }
        if back.flash_is_lost && run.one_in(3) {
            run.hit("flash lost");
            run.event(&[21], || "the flash is lost".to_owned());
            for disk in disks.iter_mut() {
                disk.cache_is_lost(self.in_use.uuid());
            }
            self.in_use = new_cache(CacheDevice::blank(run), run);
        }
    }

    /// The other cache is put in, a new one at first.
    fn swap(&mut self, run: &mut Run) {
        run.hit("another cache");
        // Whether it is needed or not: a seed's dice are thrown for it either way.
        let blank = CacheDevice::blank(run);
        let next = match self.aside.take() {
            Some(next) => next,
            None => new_cache(blank, run),
        };
        self.aside = Some(std::mem::replace(&mut self.in_use, next));
        let uuid = self.in_use.uuid();
        run.event(&[22], || format!("cache {uuid:x} is put in"));
    }

    /// For the last life the flash is put in that has the most of what the origins lack.
    pub(crate) fn insert_what_is_needed(&mut self, run: &mut Run, disks: &Disks) {
        let Some(aside) = &self.aside else { return };
        let waiting = |device: &CacheDevice| {
            let open = disks.iter().filter(|disk| disk.is_open_to(device.uuid()));
            open.count()
        };
        if waiting(aside) > waiting(&self.in_use) {
            self.swap(run);
        }
    }
}

/// A new cache on flash with nothing on it.
fn new_cache(blank: CacheDevice, run: &mut Run) -> CacheDevice {
    blank.formatted(FIRST_CACHE + u128::from(run.next_id()))
}
