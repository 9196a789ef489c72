//! The number of a record in its log.

/// The number of a record: the first record of a log has [`RecordNumber::FIRST`], each other one the
/// number behind that of the record before it. Numbers are in memory only: a recovery counts anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordNumber(u64);

impl RecordNumber {
    /// The first record of a log has it: no record comes before it.
    pub const FIRST: Self = Self(0);

    /// Every record of any log comes before it.
    pub const BEHIND_ALL: Self = Self(u64::MAX);

    /// The number of the next record.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.advance(1)
    }

    /// The number so many records later.
    #[inline]
    #[must_use]
    pub const fn advance(self, records: u64) -> Self {
        Self(self.0 + records)
    }

    /// How many records there are from `earlier` on that come before this number.
    ///
    /// `earlier` is not behind this number.
    #[inline]
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> u64 {
        self.0 - earlier.0
    }

    /// Each number from this one on that comes before `end`.
    #[inline]
    pub fn up_to(self, end: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..end.0).map(Self)
    }

    /// How many records of the log came before it.
    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}
