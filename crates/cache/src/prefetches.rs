//! Prefetches that wait for their turns, and what they have on its way.

use crate::limits::{PREFETCH_BYTES_MAX, PREFETCH_DISK_BYTES_MAX};
use crate::under_way::ReadId;
use std::collections::VecDeque;
use units::{DiskSlot, Map};

/// A prefetch that has not been asked for as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) read: ReadId,
    pub(crate) disk: DiskSlot,
    /// The first byte that was not looked at.
    pub(crate) at: u64,
}

/// All of them, in the order of their turns, and what they have on its way.
#[derive(Debug, Default)]
pub(crate) struct Prefetches {
    queue: VecDeque<Pending>,
    bytes: u64,
    by_disk: Map<DiskSlot, u64>,
}

impl Prefetches {
    /// So many bytes were asked of an origin, or of who fetches them.
    pub(crate) fn fetches(&mut self, disk: DiskSlot, bytes: u64) {
        self.bytes += bytes;
        *self.by_disk.entry(disk).or_insert(0) += bytes;
    }

    /// They have come, or will not.
    ///
    /// # Panics
    /// If they were not asked for.
    pub(crate) fn fetched(&mut self, disk: DiskSlot, bytes: u64) {
        let of_disk = self.by_disk.get_mut(&disk);
        let of_disk = of_disk.expect("what comes was asked for");
        *of_disk -= bytes;
        if *of_disk == 0 {
            self.by_disk.remove(&disk);
        }
        self.bytes -= bytes;
    }

    fn is_full(&self) -> bool {
        self.bytes >= PREFETCH_BYTES_MAX.get()
    }

    /// The next one whose disk has room.
    pub(crate) fn next(&mut self) -> Option<Pending> {
        if self.is_full() {
            return None;
        }
        let has_room = |one: &Pending| {
            let bytes = self.by_disk.get(&one.disk).copied().unwrap_or(0);
            bytes < PREFETCH_DISK_BYTES_MAX.get()
        };
        let at = self.queue.iter().position(has_room)?;
        self.queue.remove(at)
    }

    /// One waits for its turn, behind the others.
    pub(crate) fn push(&mut self, one: Pending) {
        self.queue.push_back(one);
    }

    /// Whether none waits for its turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// What they have on its way from origins.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes those of a disk out that wait for their turns.
    pub(crate) fn cut(&mut self, disk: DiskSlot) -> Vec<ReadId> {
        let cut = self.queue.iter().filter(|one| one.disk == disk);
        let cut = cut.map(|one| one.read).collect();
        self.queue.retain(|one| one.disk != disk);
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_whose_origin_is_slow_leaves_room_for_others() {
        let (slow, other) = (DiskSlot::new(0), DiskSlot::new(1));
        let mut all = Prefetches::default();
        for disk in [slow, other, slow] {
            let (read, at) = (disk.index(), 0);
            all.queue.push_back(Pending { read, disk, at });
        }
        all.fetches(slow, PREFETCH_DISK_BYTES_MAX.get());
        assert_eq!(all.next().map(|one| one.disk), Some(other));
        assert!(all.next().is_none());
        all.fetched(slow, PREFETCH_DISK_BYTES_MAX.get());
        assert!(all.by_disk.is_empty() && all.bytes == 0);
        assert_eq!(all.next().map(|one| one.disk), Some(slow));
        all.fetches(other, PREFETCH_BYTES_MAX.get());
        assert!(all.next().is_none(), "all together have a bound, too");
    }
}
