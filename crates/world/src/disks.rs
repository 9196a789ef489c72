//! The disks of the world, and what befalls their origins all together.

use crate::disk::Disk;
use crate::run::Run;
use crate::violation::Violation;
use std::ops::{Index, IndexMut};
use units::{DiskId, Duration, Instant};

/// Origins that stall go on after at most this long.
const STALL_MOST: Duration = Duration::from_millis(300);

/// Disks by their number.
pub(crate) struct Disks {
    disks: Vec<Disk>,
    /// When stalled origins go on.
    release_at: Option<Instant>,
}

impl Disks {
    /// Those that the seed says.
    pub(crate) fn new(run: &mut Run) -> Self {
        let settings = run.settings().disks.clone();
        let disks = settings.into_iter().enumerate();
        Self {
            disks: disks
                .map(|(number, settings)| Disk::new(number, settings, run))
                .collect(),
            release_at: None,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.disks.len()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Disk> {
        self.disks.iter()
    }

    /// All of them.
    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Disk> {
        self.disks.iter_mut()
    }

    /// The number of one.
    pub(crate) fn number_of(&self, id: DiskId) -> Option<usize> {
        self.disks.iter().position(|disk| disk.id() == id)
    }

    /// Nothing goes wrong at the origins.
    pub(crate) fn clear_faults(&mut self) {
        for disk in &mut self.disks {
            disk.origin_mut().clear_faults();
        }
    }

    /// What goes wrong now and then at the origins.
    pub(crate) fn set_faults(&mut self, run: &Run) {
        self.clear_faults();
        for disk in &mut self.disks {
            disk.origin_mut().set_faults(run.settings());
        }
    }

    /// Whoever has waited long finds origins that fail no more.
    pub(crate) fn recover(&mut self) {
        for disk in &mut self.disks {
            disk.origin_mut().recover();
        }
    }

    /// Stalled origins go on, some time from now.
    pub(crate) fn plan_release(&mut self, run: &mut Run) {
        if run.settings().rates.origin_stalls > 0 && self.release_at.is_none() {
            let wait = Duration::from_nanos(run.below(STALL_MOST.as_nanos()));
            self.release_at = Some(run.now() + wait);
        }
    }

    /// When they do.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.release_at
    }

    /// They do.
    pub(crate) fn release(&mut self) {
        self.release_at = None;
        for disk in &self.disks {
            disk.origin().release();
        }
    }

    /// Now and then an origin goes away, or takes no more writes, for some time.
    pub(crate) fn origin_goes(&mut self, run: &mut Run) {
        let rate = run.settings().back.map_or(0, |back| back.origin_goes);
        if !run.one_in(rate) {
            return;
        }
        let number = run.index(self.disks.len());
        let full = run.one_in(2);
        let origin = self.disks[number].origin_mut();
        if origin.gone_until().is_some() {
            return;
        }
        let span = Duration::from_micros(1 + run.below(4_000_000));
        origin.go(full, span, run.now());
        run.hit(if full { "origin full" } else { "origin gone" });
        run.event(&[23, number as u64], || {
            format!("origin {number} fails for {span}, full: {full}")
        });
    }

    /// Now and then: what would be left of the disks if the flash were gone.
    ///
    /// # Errors
    /// A violation if it is no disk that its guest could have left behind.
    pub(crate) fn look_now_and_then(&self, run: &mut Run) -> Result<(), Violation> {
        let Some(back) = run.settings().back else {
            return Ok(());
        };
        if !run.one_in(back.look_rate) {
            return Ok(());
        }
        self.disks.iter().try_for_each(Disk::judge_origin_alone)
    }

    /// Somebody else writes those that are `away` and would show it.
    pub(crate) fn strangers_write(&mut self, away: impl Fn(usize) -> bool, run: &mut Run) {
        for (number, disk) in self.disks.iter_mut().enumerate() {
            if away(number) {
                disk.strangers_write(run);
            }
        }
    }
}

impl Index<usize> for Disks {
    type Output = Disk;

    fn index(&self, number: usize) -> &Disk {
        &self.disks[number]
    }
}

impl IndexMut<usize> for Disks {
    fn index_mut(&mut self, number: usize) -> &mut Disk {
        &mut self.disks[number]
    }
}
