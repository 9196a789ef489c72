//! What is read after a boot, and in which order.
//!
//! Files come in the order of their worth until the budget is spent; what is read of them is then sorted by its
//! address on the disk, so that a disk that seeks, or an origin that reads ahead, sees one pass.

use crate::limits::{EXTENTS_MAX, READ_BYTES};

/// Where a piece of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Where it begins on the disk, in bytes.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// One call that reads ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which file, in the order in which they were added.
    pub file: usize,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its length: [`READ_BYTES`] at most.
    pub length: u64,
}

/// A list of extents that grows until the budget is spent, and is read in the order of the disk.
#[derive(Debug)]
pub struct Plan {
    left_bytes: u64,
    files: usize,
    /// File system, address, file, offset, length.
    extents: Vec<(u64, u64, usize, u64, u64)>,
}

impl Plan {
    /// Nothing is planned; so many bytes may be.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            left_bytes: budget_bytes,
            files: 0,
            extents: Vec::new(),
        }
    }

    /// Whether a file may still be added.
    pub fn has_room(&self) -> bool {
        self.left_bytes > 0 && self.extents.len() < EXTENTS_MAX
    }

    /// Adds a file; what is beyond the budget is left out.
    pub fn add(&mut self, file_system: u64, extents: &[Extent]) {
        let file = self.files;
        self.files += 1;
        for extent in extents {
            if !self.has_room() {
                return;
            }
            let length = extent.length.min(self.left_bytes);
            if length == 0 {
                continue;
            }
            self.left_bytes -= length;
            let whole = (file_system, extent.address, file, extent.offset, length);
            self.extents.push(whole);
        }
    }

    /// Bytes that are read.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|(.., length)| length).sum()
    }

    /// The reads, in the order of the disk.
    pub fn into_reads(mut self) -> impl Iterator<Item = Read> + use<> {
        self.extents.sort_unstable();
        let extents = self.extents.into_iter();
        extents.flat_map(|(_, _, file, offset, length)| {
            let steps = (0..length).step_by(usize::try_from(READ_BYTES).unwrap_or(usize::MAX));
            steps.map(move |at| Read {
                file,
                offset: offset.saturating_add(at),
                length: READ_BYTES.min(length - at),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(offset: u64, address: u64, length: u64) -> Extent {
        Extent {
            offset,
            address,
            length,
        }
    }

    #[test]
    fn reads_follow_the_disk_and_not_the_files() {
        let mut plan = Plan::new(u64::MAX);
        plan.add(1, &[extent(0, 900, 10), extent(10, 100, 10)]);
        plan.add(1, &[extent(0, 500, 10)]);
        let order: Vec<_> = plan
            .into_reads()
            .map(|read| (read.file, read.offset))
            .collect();
        assert_eq!(order, [(0, 10), (1, 0), (0, 0)]);
    }

    #[test]
    fn long_extents_are_read_in_windows() {
        let mut plan = Plan::new(u64::MAX);
        plan.add(1, &[extent(4096, 0, READ_BYTES + 1)]);
        let reads: Vec<_> = plan.into_reads().collect();
        assert_eq!((reads[0].offset, reads[0].length), (4096, READ_BYTES));
        assert_eq!((reads[1].offset, reads[1].length), (4096 + READ_BYTES, 1));
    }

    proptest! {
        #[test]
        fn no_plan_exceeds_its_budget_and_the_first_files_are_whole(
            budget in 0..5_000_u64,
            files in proptest::collection::vec(
                proptest::collection::vec((0..9_000_u64, 0..300_u64), 0..5), 0..20),
        ) {
            let mut plan = Plan::new(budget);
            let mut wanted = 0;
            for extents in &files {
                let extents: Vec<_> = extents.iter().map(|(at, length)| extent(*at, *at, *length)).collect();
                wanted += extents.iter().map(|one| one.length).sum::<u64>();
                plan.add(7, &extents);
            }
            prop_assert!(plan.bytes() <= budget);
            prop_assert_eq!(plan.has_room(), plan.bytes() < budget);
            if wanted <= budget {
                prop_assert_eq!(plan.bytes(), wanted);
            }
        }
    }
}
