//! Tenants in the world: what a seed sets for them, the VMs that read base images, and what is checked
//! of budgets and memory.
//!
//! The write budget is checked by a meter of its own: what the cache takes in to be written to the
//! segments, its survivors and descriptors included, may never be more over any span of time than the
//! budget's rate times the span and one burst. The journal and checkpoints are not in it: correctness
//! asks for them, so they are charged afterwards and hold up admission instead. Nor is what dirty logs
//! write, blocks, headers and footers.

use crate::host::Software;
use crate::settings::{draw_settings, draw_tenant, pick};
use crate::violation::Violation;
use crate::world::World;
use policy::admission::budget::Budget;
use tenancy::Capacity;
use units::{Bytes, Instant, TenantSlot};

/// A leaky bucket that what goes to flash must never overfill.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    budget: Option<Budget>,
    /// In bytes times the nanoseconds of a day.
    level: i128,
    at: Instant,
    seen: u64,
}

const DAY: i128 = 24 * 3600 * 1_000_000_000;

impl Meter {
    /// `written` bytes have been taken in so far in this life.
    fn look(
        &mut self,
        budget: Option<Budget>,
        written: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        let passed = i128::from((now - self.at).as_nanos());
        let more = i128::from(written - self.seen) * DAY;
        self.at = now;
        self.seen = written;
        let Some(budget) = budget.filter(|budget| Some(*budget) == self.budget) else {
            // Another budget: what was written before it does not count.
            self.budget = budget;
            self.level = 0;
            return Ok(());
        };
        let drained = passed * i128::from(budget.bytes_per_day().get());
        self.level = (self.level - drained).max(0) + more;
        if self.level > i128::from(budget.burst().get()) * DAY {
            return Err(Violation::new(
                "I7",
                format!(
                    "{} bytes over a span whose budget is {budget:?}",
                    self.level / DAY
                ),
            ));
        }
        Ok(())
    }
}

impl World {
    /// Memory and budgets, now.
    pub(crate) fn check_tenancy(&mut self) -> Result<(), Violation> {
        let Software::Cache(cache) = &self.host.software else {
            return Ok(());
        };
        let stats = cache.stats();
        let wrote = &stats.flash_written;
        let written = if self.run.settings().back.is_some() {
            // What a guest wrote under write-back is not held up by a budget, only charged to it; nor is
            // what reclaim writes again to make room for it, nor what describes them.
            wrote.fill + wrote.update
        } else {
            stats.blocks_appended * 4096 + wrote.descriptors
        };
        let settings = cache.tenancy();
        let budget = settings.and_then(|settings| settings.budget);
        self.meter.look(budget, written, self.run.now())?;
        let status = cache.status();
        let (staging, memory) = settings.map_or((Bytes::ZERO, Bytes::ZERO), |settings| {
            (settings.staging, settings.memory)
        });
        let staged = Bytes::new(status.staged_blocks * 4096);
        if staged > staging || status.admission > memory {
            return Err(Violation::new(
                "I7",
                format!(
                    "{staged} staged of {staging}, admission has {} of {memory}",
                    status.admission
                ),
            ));
        }
        Ok(())
    }

    /// The operator changes what holds for tenants.
    pub(crate) fn change_tenancy(&mut self) {
        let capacity = Capacity::of(&self.run.settings().geometry());
        let all = self.run.one_in(2);
        let number = self.run.below(self.disks.len() as u64);
        let tenant = self.tenant_name(usize::try_from(number).expect("an index"));
        let settings = draw_settings(self.run.dice(), capacity);
        let of_tenant = draw_tenant(self.run.dice(), capacity);
        let off = self.run.one_in(6);
        let now = self.run.now();
        let Software::Cache(cache) = &mut self.host.software else {
            return;
        };
        let result = if all {
            cache.set_tenancy((!off).then_some(settings), now)
        } else {
            cache.set_tenant(&tenant, of_tenant, now)
        };
        let refused = result.is_err();
        self.run.hit(if refused {
            "settings refused"
        } else {
            "settings changed"
        });
        self.run.event(&[17, u64::from(refused)], || {
            format!("tenants set, all: {all}, off: {off}: {result:?}")
        });
    }

    /// Whose share a disk takes. Two disks may have one tenant.
    pub(crate) fn tenant_name(&self, number: usize) -> String {
        if self.disks[number].settings.shared {
            format!("image {number}")
        } else {
            format!("vm {}", number / self.run.settings().disks_per_vm)
        }
    }

    /// Now and then another VM joins an image that is served, or one leaves.
    pub(crate) fn readers_come_and_go(&mut self) {
        for number in 0..self.disks.len() {
            if !self.disks[number].settings.shared {
                continue;
            }
            if self.run.one_in(30) {
                self.join(number);
            } else if self.run.one_in(30) && !self.is_asked(number) {
                self.leave(number);
            }
        }
    }

    fn join(&mut self, number: usize) {
        let vm = format!("vm {}", self.run.below(4));
        let disk = &mut self.disks[number];
        let Some(slot) = disk.served_as() else { return };
        if let Software::Cache(cache) = &mut self.host.software {
            let joined = cache.join(slot, &vm);
            disk.readers.push(joined.expect("there are few tenants"));
            self.run.hit("image joined");
        }
    }

    fn leave(&mut self, number: usize) {
        let disk = &mut self.disks[number];
        let Some(slot) = disk.served_as() else { return };
        if let (Software::Cache(cache), Some(vm)) = (&mut self.host.software, disk.readers.pop()) {
            cache.leave(slot, vm);
            self.run.hit("image left");
        }
    }

    /// Under whose name a disk is asked; somebody joins an image that nobody has joined.
    pub(crate) fn asker(&mut self, number: usize) -> TenantSlot {
        if self.disks[number].settings.shared && self.disks[number].readers.is_empty() {
            self.join(number);
        }
        let readers = &self.disks[number].readers;
        if !readers.is_empty() {
            return *pick(self.run.dice(), readers);
        }
        let slot = self.disks[number].served_as().expect("it is served");
        match &self.host.software {
            Software::Cache(cache) => cache.tenant_of(slot).expect("it is served"),
            Software::Down | Software::Recovery(_) => TenantSlot::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn the_meter_allows_a_burst_and_the_rate() {
        let budget = Budget::per_day(Bytes::new(24 * 3600 * 100)).unwrap();
        let budget = Some(budget.with_burst(Bytes::new(1000)));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut meter = Meter::default();
        meter.look(budget, 5_000, at(0)).unwrap();
        meter.look(budget, 6_000, at(0)).unwrap();
        meter.look(budget, 6_300, at(3)).unwrap();
        assert!(meter.look(budget, 6_401, at(4)).is_err());
    }
}
