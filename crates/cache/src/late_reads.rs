//! What a guest has read of changes that the origin had given up, and that no flush vouches for yet.
//!
//! Under write-back a guest's flush is answered when the log is durable. The log does not have what a late
//! change has left at the origin. So the first flush after such a read goes to the origin, too.

/// Reads of late changes of one disk, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LateReads {
    ended: u64,
    durable: u64,
}

impl LateReads {
    /// A read has brought what a late change has left.
    pub(crate) fn read(&mut self) {
        self.ended += 1;
    }

    /// How many have ended, if a flush of the origin has to vouch for some.
    pub(crate) fn to_flush(self) -> Option<u64> {
        (self.durable < self.ended).then_some(self.ended)
    }

    /// A flush of the origin has succeeded that began when this many had ended.
    pub(crate) fn flushed(&mut self, ended: u64) {
        self.durable = self.durable.max(ended);
    }
}
