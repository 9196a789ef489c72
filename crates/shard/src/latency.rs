//! How long things take: histograms with logarithmic buckets, and wrappers that time the
//! operations of a device or an origin and keep those that failed, to be told of.
//!
//! A bucket is an eighth of a power of two wide, so a reported time is at most 12.5 % above
//! the real one. Times are those of the loop's turns: an operation begins at the turn that
//! submits it and ends at the turn that sees its completion.

use crate::failures::Failure;
use crate::limits::{FAILURES_KEPT_MAX, TIMED_OPERATIONS_MAX};
use block_io::{
    Extent, FailureKind, FlashDone, FlashOp, IoError, OriginDone, OriginGeometry, OriginOp, Token,
};
use device::Device;
use origin::{Condition, Origin, Sources};
use ring::SourceId;
use std::fmt;
use units::{Bytes, Duration, Instant};

/// Buckets within a power of two, as bits.
const FRACTION_BITS: u32 = 3;
const FRACTION: usize = 1 << FRACTION_BITS;
/// Buckets: 2^40 ns are 18 minutes, longer ones share the last.
const BUCKETS: usize = (40 - FRACTION_BITS as usize + 1) * FRACTION;

/// A latency histogram.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    longest: Duration,
}

/// One bucket that has something in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The longest time that falls into it.
    pub to: Duration,
    /// How many fell into it and into no shorter one.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            longest: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, time: Duration) {
        self.counts[bucket(time.as_nanos())] += 1;
        self.count += 1;
        self.sum += u128::from(time.as_nanos());
        self.longest = self.longest.max(time);
    }

    /// Counts all that another histogram has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// What was counted after `earlier`, which counted the same before; none if that has counted more. The longest of
    /// it is known to the precision of a bucket.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let mut later = Self::default();
        for (index, (now, before)) in self.counts.iter().zip(earlier.counts.iter()).enumerate() {
            later.counts[index] = now.checked_sub(*before)?;
            if later.counts[index] > 0 {
                later.longest = Duration::from_nanos(upper(index)).min(self.longest);
            }
        }
        later.count = self.count.checked_sub(earlier.count)?;
        later.sum = self.sum.checked_sub(earlier.sum)?;
        Some(later)
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their times added up, in nanoseconds.
    pub fn sum_nanos(&self) -> u128 {
        self.sum
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// A time that this many in a thousand did not exceed, to the precision of a bucket; zero
    /// if nothing was counted.
    ///
    /// # Panics
    /// If `thousandths` is above 1000.
    pub fn quantile(&self, thousandths: u64) -> Duration {
        assert!(thousandths <= 1000, "a share is at most the whole");
        let rank = u128::from(self.count) * u128::from(thousandths);
        let mut below = 0_u128;
        for bucket in self.buckets() {
            below += u128::from(bucket.count) * 1000;
            if below >= rank {
                return bucket.to.min(self.longest);
            }
        }
        self.longest
    }

    /// The buckets that are not empty, shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(index, count)| Bucket {
            to: Duration::from_nanos(upper(index)),
            count: *count,
        })
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} up to {}", self.count, self.longest)
    }
}

/// The bucket of a time: below 8 ns one each, then eight for each power of two.
fn bucket(nanos: u64) -> usize {
    let nanos_usize = usize::try_from(nanos).unwrap_or(usize::MAX);
    if nanos_usize < FRACTION {
        return nanos_usize;
    }
    let power = nanos.ilog2();
    let fraction = (nanos_usize >> (power - FRACTION_BITS)) & (FRACTION - 1);
    let index = (power - FRACTION_BITS + 1) as usize * FRACTION + fraction;
    index.min(BUCKETS - 1)
}

/// The longest time of a bucket, in nanoseconds.
fn upper(index: usize) -> u64 {
    let (power, fraction) = (index / FRACTION, index % FRACTION);
    let next = if power == 0 {
        fraction as u64 + 1
    } else {
        ((FRACTION + fraction + 1) as u64) << (power - 1)
    };
    next - 1
}

/// Reads and everything else, apart.
#[derive(Clone, Debug, Default)]
pub struct ReadWrite {
    /// Reads.
    pub read: Histogram,
    /// Writes, discards, write-zeroes and flushes.
    pub write: Histogram,
}

impl ReadWrite {
    /// Counts all that `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
    }

    fn record(&mut self, start: Start, now: Instant) {
        let histogram = match start.kind {
            FailureKind::OriginRead | FailureKind::FlashRead => &mut self.read,
            _ => &mut self.write,
        };
        histogram.record(now - start.at);
    }
}

#[derive(Clone, Copy)]
struct Start {
    at: Instant,
    /// What it is if it fails.
    kind: FailureKind,
    extent: Option<Extent>,
}

/// When each operation in flight began, by its token.
#[derive(Default)]
struct Starts(Vec<Option<Start>>);

impl Starts {
    fn begin(&mut self, token: Token, start: Start) {
        let index = usize::try_from(token.0).unwrap_or(usize::MAX);
        if index >= TIMED_OPERATIONS_MAX {
            return;
        }
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index] = Some(start);
    }

    fn end(&mut self, token: Token) -> Option<Start> {
        let index = usize::try_from(token.0).ok()?;
        self.0.get_mut(index)?.take()
    }
}

/// A device or an origin whose operations are timed and counted.
pub(crate) struct Timed<T> {
    inner: T,
    starts: Starts,
    in_flight: usize,
    latency: ReadWrite,
    failures: Vec<Failure>,
}

impl<T> Timed<T> {
    /// Wraps `inner`.
    pub(crate) fn new(inner: T) -> Self {
        Self {
            inner,
            starts: Starts::default(),
            in_flight: 0,
            latency: ReadWrite::default(),
            failures: Vec::new(),
        }
    }

    /// How long its operations have taken.
    pub(crate) fn latency(&self) -> &ReadWrite {
        &self.latency
    }

    /// Operations submitted and not handed back.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The operations that have failed since this was asked last, oldest first; of very many the
    /// first.
    pub(crate) fn failures(&mut self) -> impl Iterator<Item = Failure> + '_ {
        self.failures.drain(..)
    }

    fn begin(&mut self, token: Token, start: Start) {
        self.starts.begin(token, start);
        self.in_flight += 1;
    }

    /// An operation has ended; `number` is the system's or the server's of its failure.
    fn end(
        &mut self,
        token: Token,
        result: Result<(), IoError>,
        number: Option<i32>,
        now: Instant,
    ) {
        self.in_flight -= 1;
        let Some(start) = self.starts.end(token) else {
            return;
        };
        self.latency.record(start, now);
        // An end that we or the far side wanted is no failure.
        if let Err(error) = result
            && error != IoError::ShuttingDown
            && self.failures.len() < FAILURES_KEPT_MAX
        {
            self.failures.push(Failure {
                kind: start.kind,
                extent: start.extent,
                error,
                number,
            });
        }
    }
}

impl<D: Device> Device for Timed<D> {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn submit(&mut self, op: FlashOp, now: Instant) {
        let start = Start {
            at: now,
            kind: FailureKind::of_flash(&op.verb),
            extent: op.verb.extent(),
        };
        self.begin(op.token, start);
        self.inner.submit(op, now);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<FlashDone>) {
        let first = done.len();
        self.inner.poll(now, done);
        for one in &done[first..] {
            let number = one
                .result
                .err()
                .and_then(|_| self.inner.error_number(one.token));
            self.end(one.token, one.result, number, now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn source(&self) -> Option<SourceId> {
        self.inner.source()
    }
}

impl<O: Origin> Origin for Timed<O> {
    fn stood_still(&mut self, time: Duration) {
        self.inner.stood_still(time);
    }

    fn geometry(&self) -> OriginGeometry {
        self.inner.geometry()
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        let start = Start {
            at: now,
            kind: FailureKind::of_origin(&op.verb),
            extent: op.verb.extent(),
        };
        self.begin(op.token, start);
        self.inner.submit(op, now);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let first = done.len();
        self.inner.poll(now, done);
        for one in &done[first..] {
            let number = one
                .result
                .err()
                .and_then(|_| self.inner.error_number(one.token));
            self.end(one.token, one.result, number, now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn sources(&self) -> Sources {
        self.inner.sources()
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        self.inner.grow(size)
    }

    fn fingerprint(&self) -> Option<u128> {
        self.inner.fingerprint()
    }

    fn condition(&self) -> Condition {
        self.inner.condition()
    }
}

impl<T> fmt::Debug for Timed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed")
            .field("in_flight", &self.in_flight)
            .field("latency", &self.latency)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::FlashVerb;
    use medium::{Medium, MediumOptions};

    #[test]
    fn every_time_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut last = 0;
        for power in 0..40 {
            for step in 0..16_u64 {
                let nanos = (1_u64 << power) + (step << power) / 16;
                let index = bucket(nanos);
                assert!(index >= last);
                last = index;
                assert!(nanos <= upper(index), "{nanos}");
                assert!(index == 0 || nanos > upper(index - 1), "{nanos}");
                assert!(upper(index) <= nanos + nanos / 8 + 1, "{nanos}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_later_histogram_tells_what_came_since_an_earlier_one() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_secs(1));
        let earlier = histogram.clone();
        for _ in 0..10 {
            histogram.record(Duration::from_micros(100));
        }
        let since = histogram.since(&earlier).unwrap();
        assert_eq!(since.count(), 10);
        assert_eq!(since.sum_nanos(), 1_000_000);
        assert!(since.quantile(1000) < Duration::from_micros(120));
        assert!(earlier.since(&histogram).is_none());
    }

    #[test]
    fn quantiles_are_within_a_bucket_of_the_truth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), Duration::ZERO);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let half = histogram.quantile(500).as_nanos();
        assert!((500_000..=563_000).contains(&half), "{half}");
        assert_eq!(histogram.quantile(1000), Duration::from_micros(1000));
        assert_eq!(histogram.sum_nanos(), 500_500 * 1000);
        let buckets: u64 = histogram.buckets().map(|b| b.count).sum();
        assert_eq!(buckets, 1000);
    }

    #[test]
    fn a_sum_of_histograms_is_the_histogram_of_all() {
        let (mut one, mut other, mut both) = <(Histogram, Histogram, Histogram)>::default();
        for micros in 1..=1000 {
            let time = Duration::from_micros(micros);
            let of_two = if micros % 3 == 0 {
                &mut one
            } else {
                &mut other
            };
            of_two.record(time);
            both.record(time);
        }
        one.add(&other);
        assert!(one.buckets().eq(both.buckets()));
        assert_eq!(one.count(), both.count());
        assert_eq!(one.sum_nanos(), both.sum_nanos());
        assert_eq!(one.longest(), both.longest());
    }

    #[test]
    fn a_timed_device_counts_reads_and_writes_apart() {
        let options = MediumOptions {
            latency_least: Duration::from_micros(50),
            latency_most: Duration::from_micros(50),
            ..MediumOptions::new(Bytes::kib(64), 1)
        };
        let medium = Medium::new(options);
        let mut device = Timed::new(device::memory::MemoryDevice::open(&medium));
        for token in [0, 7] {
            let op = FlashOp {
                token: Token(token),
                verb: FlashVerb::Flush,
            };
            device.submit(op, Instant::ZERO);
        }
        assert_eq!(device.in_flight(), 2);
        let mut done = Vec::new();
        device.poll(Instant::from_nanos(80_000), &mut done);
        assert_eq!(device.in_flight(), 0);
        assert_eq!(device.latency().read.count(), 0);
        assert_eq!(device.latency().write.count(), 2);
        assert_eq!(device.latency().write.longest(), Duration::from_micros(80));
    }
}
