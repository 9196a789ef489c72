//! What the world checks of write budgets and of memory for admission.
//!
//! The write budget is checked by a meter of its own: what the cache takes in to be written to the
//! segments, its survivors and descriptors included, may never be more over any span of time than the
//! budget's rate times the span and one burst. The journal and checkpoints are not in it: correctness
//! asks for them, so they are charged afterwards and hold up admission instead. Nor is what dirty logs
//! write, blocks, headers and footers.

use crate::run::Run;
use crate::violation::Violation;
use cache::Cache;
use policy::admission::budget::Budget;
use units::{Bytes, Instant};

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
    /// Memory and budgets, now.
    ///
    /// # Errors
    /// I7 if there is more of something than there may be.
    pub(crate) fn judge(&mut self, cache: &Cache, run: &Run) -> Result<(), Violation> {
        let stats = cache.facts().stats();
        let wrote = &stats.flash_written;
        let written = if run.settings().goes_back() {
            // What a guest wrote under write-back is not held up by a budget, only charged to it; nor is
            // what reclaim writes again to make room for it, nor what describes them.
            wrote.fill + wrote.update
        } else {
            stats.blocks_appended * 4096 + wrote.descriptors
        };
        let settings = cache.facts().tenancy();
        let budget = settings.and_then(|settings| settings.budget);
        self.look(budget, written, run.now())?;
        let status = cache.facts().status();
        let (staging, memory) = settings.map_or((Bytes::ZERO, Bytes::ZERO), |settings| {
            (settings.staging, settings.memory)
        });
        let staged = Bytes::new(status.staged_blocks * 4096);
        let frames = settings.and_then(|settings| settings.frames);
        if frames.is_some_and(|frames| status.staged > frames) {
            let held = status.staged;
            return Err(Violation::new(
                "I7",
                format!("{held} of frames in memory, {frames:?} may be"),
            ));
        }
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
