//! A trace that is looked at while somebody else reads it: what about it ruins a study.
//!
//! The first records are looked at as [`Collector`] does; of those that follow only the times are, so that whoever reads is
//! hardly slower. What ruins a study is in most records of a trace, or in its times.

use super::collect::{Collector, Known};
use super::warnings::{Severity, Warning};
use crate::error::ReadError;
use crate::record::{Reader, Record, Volumes};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Bytes;

/// How many records are looked at whole.
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
            collector: Collector::new(known, block),
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

/// Hands records on.
struct Watched {
    reader: Box<dyn Reader>,
    collector: Collector,
    /// How many more are looked at whole.
    left: usize,
    watch: Watch,
}

impl Watched {
    fn look(&mut self, records: &[Record]) {
        let (whole, rest) = records.split_at(self.left.min(records.len()));
        self.left -= whole.len();
        // Whoever reads on is told of what cannot be numbered.
        if self.collector.add(whole, self.reader.volumes()).is_err() {
            self.left = 0;
        }
        self.collector.add_times(rest);
    }

    fn judge(&mut self) {
        let mut found = self.collector.judge(self.reader.volumes());
        found.retain(|warning| warning.severity == Severity::Ruins);
        *self.watch.lock() = found;
    }
}

impl Reader for Watched {
    fn read_batch(&mut self, records: &mut Vec<Record>) -> Result<bool, ReadError> {
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
        fn read_batch(&mut self, records: &mut Vec<Record>) -> Result<bool, ReadError> {
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
        let mut batch = Vec::new();
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
