//! What a trace contains, as far as a curve's reader has to know: how much, how long, what kind.

use trace::{Op, Record};

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
    /// Takes in the next records. Sums of all of them, without a branch on what each is: registers hold them.
    pub(crate) fn add(&mut self, records: &[Record]) {
        let Some(first) = records.first() else {
            return;
        };
        let (mut counts, mut bytes) = ([0_u64; 2], [self.read_bytes, self.written_bytes]);
        let (mut earliest, mut latest) = self.time_us.unwrap_or((first.time_us, first.time_us));
        for record in records {
            for (place, op) in [Op::Read, Op::Write].into_iter().enumerate() {
                let is_it = u64::from(record.op == op);
                counts[place] += is_it;
                bytes[place] = bytes[place].saturating_add(record.length.get() * is_it);
            }
            earliest = earliest.min(record.time_us);
            latest = latest.max(record.time_us);
        }
        self.requests += records.len() as u64;
        self.read_requests += counts[0];
        self.write_requests += counts[1];
        [self.read_bytes, self.written_bytes] = bytes;
        self.time_us = Some((earliest, latest));
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
    use trace::VolumeIndex;
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
            facts.add(&[record(time, op)]);
        }
        assert_eq!(facts.duration_seconds(), Some(2.999_998));
        assert_eq!((facts.requests, facts.read_bytes), (3, 8192));
    }

    #[test]
    fn a_format_without_time_has_no_duration() {
        let mut facts = Facts::default();
        facts.add(&[record(0, Op::Read), record(0, Op::Read)]);
        assert_eq!(facts.duration_seconds(), None);
    }
}
