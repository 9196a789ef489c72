//! A trace that is looked at while somebody else reads it: what about it ruins a study.
//!
//! In the first records everything is looked at that can ruin a study; of those that follow only the times are, so that
//! whoever reads is hardly slower. What ruins a study is in most records of a trace, or in its times.

use super::collect::Known;
use super::copies::{COPY_REQUESTS_MAX, COPY_TIME_US_MAX};
use super::signs::{Access, Look, Signs};
use super::warnings::{Severity, Warning};
use crate::error::ReadError;
use crate::record::{Record, Volumes};
use crate::records::{Reader, Records};
use crate::splitter::SplitError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Bytes;

/// How many records are looked at whole, and the rest of the batch of the last of them.
const WHOLE_MAX: usize = 1 << 18;

/// What ruins a study of a trace that is being read, or was.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Vec<Warning>>>);

impl Watch {
    /// A reader of the same records, which says so much, in blocks of that size; and what is known of them once that is at
    /// its end or gone.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub fn over(reader: Box<dyn Reader>, known: Known, block: Bytes) -> (Box<dyn Reader>, Self) {
        let watch = Self::default();
        let watched = Watched {
            reader,
            signs: Signs::new(known, block, Recency::default()),
            left: WHOLE_MAX,
            watch: watch.clone(),
        };
        (Box::new(watched), watch)
    }

    /// What ruins a study.
    pub fn ruins(&self) -> Vec<Warning> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Warning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When each block was accessed last: 12 bytes a block.
#[derive(Clone, Debug, Default)]
struct Recency {
    /// By key: the number of the record, modulo 2^32.
    records: Vec<u32>,
    /// By key: microseconds since the first record.
    times_us: Vec<u64>,
}

/// The low half.
#[allow(clippy::cast_possible_truncation, reason = "the low half of a number")]
const fn low(number: u64) -> u32 {
    number as u32
}

impl Look for Recency {
    fn sized(&mut self, _: &Record) {}

    fn time(&mut self, _: u64) {}

    fn may_be_copy(&self, access: &Access<'_>) -> bool {
        let first = access.keys[0] as usize;
        let (Some(record), Some(time_us)) = (self.records.get(first), self.times_us.get(first))
        else {
            return false;
        };
        u64::from(low(access.number).wrapping_sub(*record)) <= COPY_REQUESTS_MAX
            && access.time_us.abs_diff(*time_us) <= COPY_TIME_US_MAX
    }

    fn blocks(
        &mut self,
        _: &Record,
        access: Option<Access<'_>>,
        _: bool,
    ) -> Result<(), SplitError> {
        let Some(access) = access else {
            return Ok(());
        };
        for &key in access.keys {
            let place = key as usize;
            if place >= self.records.len() {
                self.records.resize(place + 1, 0);
                self.times_us.resize(place + 1, 0);
            }
            self.records[place] = low(access.number);
            self.times_us[place] = access.time_us;
        }
        Ok(())
    }
}

/// Hands records on.
struct Watched {
    reader: Box<dyn Reader>,
    signs: Signs<Recency>,
    /// How many more are looked at whole.
    left: usize,
    watch: Watch,
}

impl Watched {
    fn look(&mut self, records: &Records) {
        if self.left == 0 {
            self.signs.add_times(records.times_us());
            return;
        }
        self.left = self.left.saturating_sub(records.len());
        // Whoever reads on is told of what cannot be numbered.
        if self.signs.add(records, self.reader.volumes()).is_err() {
            self.left = 0;
        }
    }

    fn judge(&mut self) {
        let mut found = self.signs.warnings(&[]);
        found.retain(|warning| warning.severity == Severity::Ruins);
        *self.watch.lock() = found;
    }
}

impl Reader for Watched {
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
        let more = self.reader.read_batch(records)?;
        if more {
            self.look(records);
        } else {
            self.judge();
        }
        Ok(more)
    }

    fn volumes(&self) -> &Volumes {
        self.reader.volumes()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.judge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;
    use units::Offset;

    /// Some records, a few at a time.
    struct Given(Vec<Record>, Volumes);

    impl Reader for Given {
        fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError> {
            records.clear();
            let count = self.0.len().min(1_000);
            records.extend(self.0.drain(..count));
            Ok(count > 0)
        }

        fn volumes(&self) -> &Volumes {
            &self.1
        }
    }

    const EVERYTHING: Known = Known {
        time: true,
        operation: true,
        place: true,
    };

    fn ruins_of(records: impl Iterator<Item = (u64, u64)>) -> Vec<&'static str> {
        let mut volumes = Volumes::new();
        let volume = volumes.intern(&crate::record::Volume {
            vm: "vm".to_owned(),
            name: "disk".to_owned(),
        });
        let record = |(time_us, offset)| Record {
            time_us,
            volume,
            op: Op::Read,
            offset: Offset::new(offset),
            length: Bytes::kib(4),
            hash: None,
            response_us: None,
        };
        let given = Given(records.map(record).collect(), volumes);
        let (mut reader, watch) = Watch::over(Box::new(given), EVERYTHING, Bytes::kib(4));
        let mut batch = Records::new();
        while reader.read_batch(&mut batch).unwrap() {}
        watch.ruins().iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn what_ruins_a_study_is_found_by_the_way() {
        let sound = |i: u64| (i * 100, (i * 7 % 5_000) * 4096);
        assert_eq!(ruins_of((0..3_000).map(sound)), [""; 0]);
        let mangled = |i: u64| (i * 100, i * 4096 + 7);
        assert_eq!(ruins_of((0..3_000).map(mangled)), ["mangled-offsets"]);
        let twice = |i: u64| sound(i / 2);
        assert_eq!(ruins_of((0..3_000).map(twice)), ["duplicated-logging"]);
    }

    #[test]
    fn the_copies_of_a_busy_block_are_found_as_the_collector_finds_them() {
        // Each I/O twice, up to 300 records apart: some copies come too late to be one.
        let times = |i: u64| (i * 10, (i / 600 * 300 + i % 300) * 4096);
        let near = |i: u64| (i * 10, (i / 400 * 200 + i % 200) * 4096);
        assert_eq!(ruins_of((0..6_000).map(times)), [""; 0]);
        assert_eq!(ruins_of((0..6_000).map(near)), ["duplicated-logging"]);
    }

    #[test]
    fn a_clock_that_was_set_is_found_wherever_that_was() {
        let late = WHOLE_MAX as u64 + 5_000;
        let set = |i: u64| {
            let time = if i < late { i * 1_000 } else { i };
            (time, (i * 7 % 5_000) * 4096)
        };
        assert_eq!(ruins_of((0..late + 100).map(set)), ["clock-jump"]);
        assert_eq!(ruins_of((0..late).map(set)), [""; 0]);
    }
}
