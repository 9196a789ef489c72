//! The sequential runs of disks, for the policies that keep long ones off flash.

use policy::admission::sequential::Runs;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot};

/// By disk: its sequential runs.
#[derive(Default)]
pub(crate) struct Sequences {
    disks: Vec<Option<Box<Runs>>>,
}

impl Sequences {
    /// Notes a request of so many blocks, and says how long the run is to which it belongs.
    #[inline]
    pub(crate) fn note(&mut self, disk: DiskSlot, first: BlockIndex, count: u64) -> Bytes {
        let at = disk.index();
        if self.disks.len() <= at {
            self.disks.resize_with(at + 1, || None);
        }
        let runs = self.disks[at].get_or_insert_default();
        let length = count.saturating_mul(BLOCK_BYTES);
        runs.note(first.start(), Bytes::new(length))
    }

    pub(crate) fn memory(&self) -> Bytes {
        let runs = self.disks.iter().flatten().count() * size_of::<Runs>();
        let table = self.disks.capacity() * size_of::<Option<Box<Runs>>>();
        Bytes::new((runs + table) as u64)
    }
}
