//! How long guests' reads take, beside what is usual for them.

use units::Duration;

/// Below this much more nobody notices.
const SLOW_LEAST: Duration = Duration::from_micros(10);
/// Weight of a new read in the averages, as a power of two of its inverse: the recent one follows
/// within some 64 reads, since the times of a disk vary by tens; what is usual within some 256.
const RECENT_SHIFT: u32 = 6;
const USUAL_SHIFT: u32 = 8;
/// A read counts for so many usual ones at most: a single stall says nothing of the next reads.
const OUTLIER_TIMES: u64 = 16;

/// An average that forgets; a plain mean of the first values.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// In units of a 256th of a nanosecond.
    scaled: u64,
    values: u64,
}

impl Average {
    const SCALE: u64 = 256;

    fn add(&mut self, nanos: u64, shift: u32) {
        let value = nanos.saturating_mul(Self::SCALE);
        self.values = (self.values + 1).min(1 << shift);
        if value > self.scaled {
            self.scaled += (value - self.scaled) / self.values;
        } else {
            self.scaled -= (self.scaled - value) / self.values;
        }
    }

    fn nanos(&self) -> u64 {
        self.scaled / Self::SCALE
    }
}

/// The mean time of guests' reads of one origin, or of the flash: of the latest, and of those that
/// nothing of ours was in the way of.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTimes {
    recent: Average,
    usual: Average,
    count: u64,
}

impl ReadTimes {
    /// A read took so long; `disturbed`: while something else of ours was on its way to the same place.
    pub fn took(&mut self, time: Duration, disturbed: bool) {
        let most = match self.usual.nanos() {
            0 => u64::MAX,
            usual => usual.saturating_mul(OUTLIER_TIMES),
        };
        let nanos = time.as_nanos().min(most);
        self.recent.add(nanos, RECENT_SHIFT);
        if !disturbed {
            self.usual.add(nanos, USUAL_SHIFT);
        }
        self.count += 1;
    }

    /// How many reads there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether the mean is more than so many percent above what is usual.
    pub fn is_slow(&self, percent: u64) -> bool {
        let (recent, usual) = (self.recent.nanos(), self.usual.nanos());
        let more = (usual / 100 * percent).max(SLOW_LEAST.as_nanos());
        usual > 0 && recent > usual.saturating_add(more)
    }
}

/// Of so many reads of the flash one is looked at: they are many, and each costs a look at the clock.
const SAMPLED: u32 = 8;

/// The times of guests' reads of the flash, of which a sample is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledReads {
    times: ReadTimes,
    seen: u32,
}

impl SampledReads {
    /// A read took so long; `disturbed` says, if it is asked, whether logs were on their way to origins.
    #[inline]
    pub fn took(&mut self, time: Duration, disturbed: impl FnOnce() -> bool) {
        self.seen = self.seen.wrapping_add(1);
        if self.seen.is_multiple_of(SAMPLED) {
            self.times.took(time, disturbed());
        }
    }

    /// The times of the sample.
    pub fn times(&self) -> &ReadTimes {
        &self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_that_is_above_what_is_usual_is_slow() {
        let mut times = ReadTimes::default();
        for _ in 0..1000 {
            times.took(Duration::from_micros(1000), false);
        }
        assert!(!times.is_slow(12));
        for _ in 0..200 {
            times.took(Duration::from_micros(1200), true);
        }
        assert!(times.is_slow(12) && !times.is_slow(30));
        // It comes back with the reads.
        for _ in 0..200 {
            times.took(Duration::from_micros(1000), true);
        }
        assert!(!times.is_slow(12));
    }

    #[test]
    fn one_stall_is_not_slow() {
        let mut times = ReadTimes::default();
        for _ in 0..1000 {
            times.took(Duration::from_micros(1000), false);
        }
        times.took(Duration::from_secs(10), true);
        assert!(!times.is_slow(30));
    }

    #[test]
    fn a_few_microseconds_are_not_slow() {
        let mut times = ReadTimes::default();
        for _ in 0..1000 {
            times.took(Duration::from_micros(10), false);
        }
        for _ in 0..1000 {
            times.took(Duration::from_micros(18), true);
        }
        assert!(!times.is_slow(12));
    }
}
