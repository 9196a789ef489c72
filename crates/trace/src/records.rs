//! Records in columns, and the readers that hand them out.
//!
//! ```text
//!   times_us   10 12 13 13 │ 15 15 ...        one each
//!   offsets     0  4  8 96 │  0  8 ...        one each
//!   stretches  volume 0, read, 4 KiB, 4 times │ volume 1, write ...
//!   rare       response times and hashes, one each; empty if no record has any
//! ```
//!
//! Neighbours in a trace mostly ask the same of one volume. What they share is kept once, so that a loop over a batch
//! reads 8 bytes a record of each column that it asks for.
//!
//! Invariants: the counts of the stretches add up to the number of records; `rare` is empty or has one for each.

use std::iter::FusedIterator;

use units::{Bytes, Offset};

use crate::error::ReadError;
use crate::limits::REQUEST_BYTES_MAX;
use crate::record::{ContentHash, Op, Record, VolumeIndex, Volumes};

/// Requests that follow each other and differ only in time and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Their volume.
    pub volume: VolumeIndex,
    /// What they ask.
    pub op: Op,
    /// The length of each.
    pub length: Bytes,
    /// How many there are, at least one.
    pub count: u32,
}

impl Stretch {
    /// Whether each of them reads or writes one block of that size, a power of two, if these are their offsets.
    #[inline]
    pub fn is_of_single_blocks(&self, offsets: &[Offset], block: Bytes) -> bool {
        if !self.op.carries_data() || self.length.is_zero() || self.length > REQUEST_BYTES_MAX {
            return false;
        }
        let Some(last_begin) = block.get().checked_sub(self.length.get()) else {
            return false;
        };
        let within = block.get() - 1;
        offsets
            .iter()
            .all(|offset| offset.get() & within <= last_begin)
    }

    fn has(&self, record: &Record) -> bool {
        self.volume == record.volume && self.op == record.op && self.length == record.length
    }
}

/// What few formats know of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rare {
    response_us: Option<u32>,
    hash: Option<ContentHash>,
}

/// Some records of a trace, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    times_us: Vec<u64>,
    offsets: Vec<Offset>,
    stretches: Vec<Stretch>,
    rare: Vec<Rare>,
}

impl Records {
    /// No record.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.times_us.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.times_us.is_empty()
    }

    /// Lets all go, but not their memory.
    pub fn clear(&mut self) {
        self.times_us.clear();
        self.offsets.clear();
        self.stretches.clear();
        self.rare.clear();
    }

    /// Room for so many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.times_us.reserve(more);
        self.offsets.reserve(more);
    }

    /// Adds one behind the others.
    #[inline]
    pub fn push(&mut self, record: Record) {
        match self.stretches.last_mut() {
            Some(stretch) if stretch.has(&record) => stretch.count += 1,
            _ => self.stretches.push(Stretch {
                volume: record.volume,
                op: record.op,
                length: record.length,
                count: 1,
            }),
        }
        let rare = Rare {
            response_us: record.response_us,
            hash: record.hash,
        };
        if rare != Rare::default() || !self.rare.is_empty() {
            self.rare.resize(self.times_us.len(), Rare::default());
            self.rare.push(rare);
        }
        self.times_us.push(record.time_us);
        self.offsets.push(record.offset);
    }

    /// Adds those of a stretch behind the others.
    ///
    /// # Panics
    /// If the stretch counts another number of them, or none.
    #[inline]
    pub(crate) fn push_stretch(
        &mut self,
        stretch: Stretch,
        times_us: impl ExactSizeIterator<Item = u64>,
        offsets: impl ExactSizeIterator<Item = Offset>,
    ) {
        let count = stretch.count as usize;
        assert!(count > 0 && times_us.len() == count && offsets.len() == count);
        self.stretches.push(stretch);
        self.times_us.extend(times_us);
        self.offsets.extend(offsets);
        if !self.rare.is_empty() {
            self.rare.resize(self.times_us.len(), Rare::default());
        }
    }

    /// When each was issued, in microseconds of the trace's clock.
    pub fn times_us(&self) -> &[u64] {
        &self.times_us
    }

    /// What neighbours ask, and where each of them does.
    pub fn stretches(&self) -> impl Iterator<Item = (&Stretch, &[Offset])> {
        let mut rest = &self.offsets[..];
        self.stretches.iter().map(move |stretch| {
            let (offsets, later) = rest.split_at(stretch.count as usize);
            rest = later;
            (stretch, offsets)
        })
    }

    /// Puts each record on another volume.
    pub(crate) fn translate(&mut self, place: impl Fn(VolumeIndex) -> VolumeIndex) {
        for stretch in &mut self.stretches {
            stretch.volume = place(stretch.volume);
        }
    }

    /// One after the other.
    pub fn iter(&self) -> Rows<'_> {
        Rows {
            records: self,
            next: 0,
            stretches: &self.stretches,
            of_stretch: 0,
        }
    }
}

/// Records, one after the other.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    records: &'a Records,
    next: usize,
    /// The stretch of the next record, and those behind.
    stretches: &'a [Stretch],
    /// How many of that stretch came already.
    of_stretch: u32,
}

impl Iterator for Rows<'_> {
    type Item = Record;

    #[inline]
    fn next(&mut self) -> Option<Record> {
        let (stretch, later) = self.stretches.split_first()?;
        let (records, at) = (self.records, self.next);
        self.next += 1;
        self.of_stretch += 1;
        if self.of_stretch == stretch.count {
            (self.stretches, self.of_stretch) = (later, 0);
        }
        let rare = records.rare.get(at).copied().unwrap_or_default();
        Some(Record {
            time_us: records.times_us[at],
            offset: records.offsets[at],
            length: stretch.length,
            response_us: rare.response_us,
            volume: stretch.volume,
            op: stretch.op,
            hash: rare.hash,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.records.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Rows<'_> {}
impl FusedIterator for Rows<'_> {}

impl<'a> IntoIterator for &'a Records {
    type Item = Record;
    type IntoIter = Rows<'a>;

    fn into_iter(self) -> Rows<'a> {
        self.iter()
    }
}

impl Extend<Record> for Records {
    fn extend<I: IntoIterator<Item = Record>>(&mut self, records: I) {
        records.into_iter().for_each(|record| self.push(record));
    }
}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        let mut all = Self::new();
        all.extend(records);
        all
    }
}

impl From<&[Record]> for Records {
    fn from(records: &[Record]) -> Self {
        records.iter().copied().collect()
    }
}

/// A source of records: a reader of a format, a generator, several of them in one.
///
/// ```
/// # fn count(mut reader: impl trace::Reader) -> Result<usize, trace::ReadError> {
/// let mut records = trace::Records::new();
/// let mut count = 0;
/// while reader.read_batch(&mut records)? {
///     count += records.len();
/// }
/// # Ok(count)
/// # }
/// ```
pub trait Reader: Send {
    /// Replaces the content of `records` with the next ones, some thousands at most.
    ///
    /// False at the trace's end; `records` is then empty, and stays so on further calls.
    ///
    /// # Errors
    /// If the trace cannot be read or is not what its format says. `records` then holds those before the
    /// fault; the next call may do anything but panic.
    fn read_batch(&mut self, records: &mut Records) -> Result<bool, ReadError>;

    /// The volumes of all records handed out so far.
    fn volumes(&self) -> &Volumes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Prng;

    fn any(dice: &mut Prng, before: &Record) -> Record {
        let number = |dice: &mut Prng, below| u32::try_from(dice.below(below)).unwrap();
        let mut record = *before;
        (record.time_us, record.offset) = (dice.below(9), Offset::new(dice.below(9) * 512));
        match dice.below(12) {
            0 => record.volume = VolumeIndex::new(number(dice, 3)),
            1 => record.op = Op::ALL[number(dice, 5) as usize],
            2 => record.length = Bytes::kib(dice.below(3)),
            3 => record.response_us = Some(number(dice, 9)),
            4 => record.hash = Some(ContentHash([7; 16])),
            5 => (record.response_us, record.hash) = (None, None),
            _ => {}
        }
        record
    }

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut dice = Prng::new(8);
        let (volume, length) = (VolumeIndex::new(0), Bytes::kib(4));
        let mut last = Record::new(0, volume, Op::Read, Offset::ZERO, length);
        for count in 0..300 {
            let next = |_| {
                last = any(&mut dice, &last);
                last
            };
            let rows: Vec<Record> = (0..count).map(next).collect();
            let records = Records::from(&rows[..]);
            assert_eq!(records.iter().collect::<Vec<_>>(), rows);
            assert_eq!(records.iter().len(), rows.len());
            let mut rest = &rows[..];
            for (stretch, offsets) in records.stretches() {
                let (these, later) = rest.split_at(stretch.count as usize);
                rest = later;
                assert!(these.iter().all(|record| stretch.has(record)));
                assert!(these.iter().map(|record| &record.offset).eq(offsets));
                assert!(!rest.first().is_some_and(|record| stretch.has(record)));
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_stretch_is_of_single_blocks_if_no_request_reaches_into_the_next() {
        let is = |op, length, offset| {
            let stretch = Stretch {
                volume: VolumeIndex::new(0),
                op,
                length: Bytes::new(length),
                count: 2,
            };
            let offsets = [Offset::kib(8), Offset::new(offset)];
            stretch.is_of_single_blocks(&offsets, Bytes::kib(4))
        };
        assert!(is(Op::Read, 4096, 0));
        assert!(is(Op::Write, 512, 3584));
        assert!(is(Op::Write, 512, u64::MAX - 511));
        assert!(!is(Op::Write, 512, 3585));
        assert!(!is(Op::Read, 4097, 0));
        assert!(!is(Op::Read, 0, 0));
        assert!(!is(Op::Discard, 512, 0));
    }
}
