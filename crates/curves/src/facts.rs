//! What a trace contains, as far as a curve's reader has to know: how much, how long, what kind.

use trace::{Op, Records};

/// Counts over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub read_requests: u64,
    /// Writes.
    pub write_requests: u64,
    /// Bytes that reads asked for.
    pub read_bytes: u64,
    /// Bytes that writes brought.
    pub written_bytes: u64,
    /// The earliest and the latest time, in microseconds of the trace's clock; both zero in formats
    /// without time.
    pub time_us: Option<(u64, u64)>,
}

impl Facts {
    /// Takes in the next records.
    pub(crate) fn add(&mut self, records: &Records) {
        self.requests += records.len() as u64;
        for (stretch, _) in records.stretches() {
            let count = u64::from(stretch.count);
            let (requests, bytes) = match stretch.op {
                Op::Read => (&mut self.read_requests, &mut self.read_bytes),
                Op::Write => (&mut self.write_requests, &mut self.written_bytes),
                Op::Flush | Op::Discard | Op::WriteZeroes => continue,
            };
            *requests += count;
            *bytes = bytes.saturating_add(stretch.length.get().saturating_mul(count));
        }
        let times_us = records.times_us();
        if let Some(first_us) = times_us.first() {
            let ends = self.time_us.unwrap_or((*first_us, *first_us));
            let widen = |(earliest, latest): (u64, u64), time_us: &u64| {
                (earliest.min(*time_us), latest.max(*time_us))
            };
            self.time_us = Some(times_us.iter().fold(ends, widen));
        }
    }

    /// How long the trace is, in seconds; `None` if its format has no time.
    pub fn duration_seconds(&self) -> Option<f64> {
        let (first, last) = self.time_us?;
        (last > first).then(|| std::time::Duration::from_micros(last - first).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Record, VolumeIndex};
    use units::{Bytes, Offset};

    fn record(time_us: u64, op: Op) -> Record {
        Record::new(
            time_us,
            VolumeIndex::new(0),
            op,
            Offset::ZERO,
            Bytes::kib(8),
        )
    }

    #[test]
    fn unsorted_time_still_gives_the_duration() {
        let mut facts = Facts::default();
        for (time, op) in [
            (3_000_000, Op::Read),
            (1_000_000, Op::Write),
            (2, Op::Flush),
        ] {
            facts.add(&[record(time, op)][..].into());
        }
        assert_eq!(facts.duration_seconds(), Some(2.999_998));
        assert_eq!((facts.requests, facts.read_bytes), (3, 8192));
    }

    #[test]
    fn a_format_without_time_has_no_duration() {
        let mut facts = Facts::default();
        facts.add(&[record(0, Op::Read), record(0, Op::Read)][..].into());
        assert_eq!(facts.duration_seconds(), None);
    }
}
