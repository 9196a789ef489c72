//! A disk's clock of writes.

/// How many writes of a disk had ended when something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteCount(u64);

impl WriteCount {
    /// None had.
    pub(crate) const NONE: Self = Self(0);

    /// One more.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
