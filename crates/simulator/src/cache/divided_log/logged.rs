//! Writes of disks under write-back: they go to dirty logs, and no policy is asked.

use super::{DividedLog, Found, Outcome, leaves, name};
use crate::cache::write_back::{Back, Logged};
use tenancy::Arrival;
use units::DiskSlot;

impl DividedLog {
    /// Its disks, if they are under write-back.
    pub fn back(&mut self) -> Option<Back<'_>> {
        self.store.back()
    }

    /// What had to leave under write-back since time has passed is told.
    #[inline]
    pub(super) fn tell_left(&mut self) {
        if self.store.back().is_none() {
            return;
        }
        let (admission, owners) = (&mut self.admission, &self.owners);
        self.store.tell_left(&mut leaves(admission, owners));
    }

    /// The blocks of one request are written whole to a disk under write-back: they go to its log, whoever the
    /// tenant is. Those for which there is no room leave. [`DividedLog::advance_log`] follows.
    pub fn log_run(
        &mut self,
        arrival: &Arrival,
        disk: DiskSlot,
        keys: &[u32],
        mut each: impl FnMut(usize, Outcome),
    ) {
        for (at, key) in keys.iter().enumerate() {
            let name = name(disk, *key);
            let back = self.store.back();
            let Some(logged) = back.and_then(|mut back| back.log_block(disk, *key)) else {
                self.invalidate_run(disk, &[*key], |_, was| each(at, Outcome::new(was, false)));
                continue;
            };
            if logged == Logged::Clean {
                self.admission.hits(arrival, [name]);
            }
            let was_staged = self.admission.change(arrival.tenant, name);
            let found = match (logged, was_staged) {
                (Logged::Clean | Logged::Dirty, _) => Found::Flash,
                (Logged::Absent, true) => Found::Memory,
                (Logged::Absent, false) => Found::Nowhere,
            };
            each(at, Outcome::new(found, true));
        }
    }

    /// A guest erases blocks of a disk under write-back: its log says so.
    pub fn erase_run(&mut self, disk: DiskSlot, keys: &[u32]) {
        if let Some(mut back) = self.store.back() {
            back.log_erasure(disk, keys);
        }
        if let Some(owner) = self.owners[disk.index()] {
            for key in keys {
                self.admission.change(owner, name(disk, *key));
            }
        }
    }

    /// A request of a disk under write-back is over: `SimulatedStore::advance_log`.
    pub fn advance_log(&mut self, written: Option<DiskSlot>) {
        let (admission, owners) = (&mut self.admission, &self.owners);
        self.store
            .advance_log(written, &mut leaves(admission, owners));
        self.charge();
    }
}
