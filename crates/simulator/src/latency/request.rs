//! A request of the trace, and what of it waits for room.

use crate::destaged::LogRoom;
use trace::Record;

/// A request of the trace, and what the cache did for it.
pub(crate) struct Asked<'a> {
    pub(crate) record: &'a Record,
    /// What became of its blocks.
    pub(crate) blocks: &'a [u8],
    /// The dirty log of its disk, if it has one.
    pub(crate) room: Option<LogRoom>,
    /// Dirty blocks that its own blocks have evicted.
    pub(crate) evicted: u32,
}

/// A write that is not answered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    /// When it arrived, ns.
    pub(super) at: u64,
    /// When the parts of it that wait for nothing are done, ns.
    pub(super) done: u64,
    pub(super) bytes: u64,
    /// How often counting had begun before it arrived.
    pub(super) era: u32,
}

/// A store that begins when the dirty blocks that it evicts are at the origin.
pub(super) struct Evicting {
    /// Evicted blocks that are not there yet.
    pub(super) left: u32,
    /// Blocks that it writes to flash.
    pub(super) blocks: u64,
    /// The write that waits for it; a fill has none.
    pub(super) write: Option<Open>,
}
