//! The table of a guest's memory: which addresses are whose.
//!
//! A region has two address spaces: the guest's (descriptors of chains) and QEMU's own (places of
//! rings). The table knows both; what a region is mapped to is its user's value `T`.
//!
//! ```text
//!   guest address   |──── region A ────|      |── region B ──|
//!   user address          |── B ──|  |──── A ────|              each translated by its own table row
//! ```
//!
//! Invariants: regions are not empty, do not overlap in either space, and no address in them
//! overflows, so that every translation is a plain subtraction.

use crate::limits::REGIONS_MAX;
use crate::{GuestAddress, Unmapped};

/// A region as QEMU describes it. All fields are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins for the guest.
    pub guest: u64,
    /// How long it is.
    pub size: u64,
    /// Where it begins in QEMU's own memory.
    pub user: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// Why a region was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRegion {
    /// It has no bytes.
    #[error("the region at {0:#x} is empty")]
    Empty(u64),
    /// It ends beyond the end of an address space.
    #[error("the region at {0:#x} overflows")]
    Overflow(u64),
    /// It overlaps another.
    #[error("the regions at {0:#x} and {1:#x} overlap")]
    Overlap(u64, u64),
    /// There are too many.
    #[error("more than {REGIONS_MAX} regions of memory")]
    TooMany,
    /// No such region is there to be taken away.
    #[error("there is no region at {0:#x} of that size")]
    Unknown(u64),
}

/// A part of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<'a, T> {
    /// What the region is mapped to.
    pub target: &'a T,
    /// Bytes from the region's beginning.
    pub start: u64,
    /// Bytes of the part.
    pub length: u64,
}

/// The regions of a guest, by guest address.
#[derive(Clone, Debug)]
pub struct RegionTable<T> {
    rows: Vec<(Region, T)>,
}

impl<T> Default for RegionTable<T> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl Region {
    /// Whether it can be a region at all.
    ///
    /// # Errors
    /// [`BadRegion::Empty`] or [`BadRegion::Overflow`].
    pub fn check(&self) -> Result<(), BadRegion> {
        if self.size == 0 {
            return Err(BadRegion::Empty(self.guest));
        }
        let ends = [self.guest, self.user, self.offset].map(|from| from.checked_add(self.size));
        if ends.contains(&None) {
            return Err(BadRegion::Overflow(self.guest));
        }
        Ok(())
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: u64, b: u64| a < b + other.size && b < a + self.size;
        meet(self.guest, other.guest) || meet(self.user, other.user)
    }
}

impl<T> RegionTable<T> {
    /// Adds a region.
    ///
    /// # Errors
    /// [`BadRegion`]; the table is as before.
    pub fn add(&mut self, region: Region, target: T) -> Result<(), BadRegion> {
        region.check()?;
        if self.rows.len() >= REGIONS_MAX {
            return Err(BadRegion::TooMany);
        }
        if let Some((other, _)) = self.rows.iter().find(|(row, _)| row.overlaps(&region)) {
            return Err(BadRegion::Overlap(region.guest, other.guest));
        }
        let place = self
            .rows
            .partition_point(|(row, _)| row.guest < region.guest);
        self.rows.insert(place, (region, target));
        Ok(())
    }

    /// Takes a region away, whatever its place in its file is said to be.
    ///
    /// # Errors
    /// [`BadRegion::Unknown`].
    pub fn remove(&mut self, region: &Region) -> Result<T, BadRegion> {
        let same = |row: &Region| {
            (row.guest, row.user, row.size) == (region.guest, region.user, region.size)
        };
        let place = self.rows.iter().position(|(row, _)| same(row));
        let place = place.ok_or(BadRegion::Unknown(region.guest))?;
        Ok(self.rows.remove(place).1)
    }

    /// What the regions are mapped to.
    pub fn targets(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().map(|(_, target)| target)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The longest part of one region that begins at `at` and has at most `length` bytes.
    ///
    /// # Errors
    /// If no region has that address.
    pub fn find(&self, at: GuestAddress, length: u64) -> Result<Span<'_, T>, Unmapped> {
        let after = self.rows.partition_point(|(row, _)| row.guest <= at.0);
        let unmapped = Unmapped { at, length };
        let (region, target) = after
            .checked_sub(1)
            .and_then(|place| self.rows.get(place))
            .ok_or(unmapped)?;
        let start = at.0 - region.guest;
        if start >= region.size {
            return Err(unmapped);
        }
        Ok(Span {
            target,
            start,
            length: length.min(region.size - start),
        })
    }

    /// `length` bytes of one region at an address of QEMU's own.
    ///
    /// # Errors
    /// If no region has all of them.
    pub fn find_user(&self, at: u64, length: u64) -> Result<Span<'_, T>, Unmapped> {
        let holds = |row: &Region| {
            at.checked_sub(row.user)
                .is_some_and(|start| start < row.size && length <= row.size - start)
        };
        let found = self.rows.iter().find(|(row, _)| holds(row));
        let (region, target) = found.ok_or(Unmapped {
            at: GuestAddress(at),
            length,
        })?;
        Ok(Span {
            target,
            start: at - region.user,
            length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(guest: u64, size: u64, user: u64) -> Region {
        Region {
            guest,
            size,
            user,
            offset: 0,
        }
    }

    fn table() -> RegionTable<char> {
        let mut table = RegionTable::default();
        table.add(region(0x4000, 0x2000, 0x9_0000), 'b').unwrap();
        table.add(region(0x1000, 0x1000, 0x8_0000), 'a').unwrap();
        table
    }

    #[test]
    fn an_address_is_found_in_its_region() {
        let table = table();
        let span = table.find(GuestAddress(0x4010), 0x100).unwrap();
        assert_eq!((*span.target, span.start, span.length), ('b', 0x10, 0x100));
        let cut = table.find(GuestAddress(0x1ff0), 0x100).unwrap();
        assert_eq!((*cut.target, cut.length), ('a', 0x10));
        for outside in [0, 0xfff, 0x2000, 0x3fff, 0x6000, u64::MAX] {
            assert!(table.find(GuestAddress(outside), 1).is_err());
        }
    }

    #[test]
    fn a_ring_lies_in_one_region_or_nowhere() {
        let table = table();
        let span = table.find_user(0x9_1ff0, 0x10).unwrap();
        assert_eq!((*span.target, span.start), ('b', 0x1ff0));
        assert!(table.find_user(0x9_1ff0, 0x11).is_err());
        assert!(table.find_user(0x9_0000, u64::MAX).is_err());
        assert!(table.find_user(u64::MAX, 1).is_err());
    }

    #[test]
    fn regions_that_overlap_or_overflow_are_refused() {
        let mut table = table();
        let taken = table.add(region(0x1fff, 1, 0), 'c');
        assert_eq!(taken, Err(BadRegion::Overlap(0x1fff, 0x1000)));
        let user = table.add(region(0x10_0000, 1, 0x9_0000), 'c');
        assert_eq!(user, Err(BadRegion::Overlap(0x10_0000, 0x4000)));
        let empty = table.add(region(0, 0, 0), 'c');
        assert_eq!(empty, Err(BadRegion::Empty(0)));
        for (guest, user, offset) in [(u64::MAX, 0, 0), (0, u64::MAX, 0), (0, 0, u64::MAX)] {
            let mut beyond = region(guest, 2, user);
            beyond.offset = offset;
            assert_eq!(table.add(beyond, 'c'), Err(BadRegion::Overflow(guest)));
        }
        table.add(region(0x2000, 1, 0), 'c').unwrap();
    }

    #[test]
    fn only_what_is_there_is_taken_away() {
        let mut table = table();
        let unknown = table.remove(&region(0x4000, 0x1000, 0x9_0000));
        assert_eq!(unknown, Err(BadRegion::Unknown(0x4000)));
        assert_eq!(table.remove(&region(0x4000, 0x2000, 0x9_0000)), Ok('b'));
        assert!(table.find(GuestAddress(0x4010), 1).is_err());
    }

    #[test]
    fn there_is_an_end_to_regions() {
        let mut table = RegionTable::default();
        for number in 0..REGIONS_MAX as u64 {
            let at = number * 0x1000;
            table.add(region(at, 0x1000, at), ()).unwrap();
        }
        let one_more = region(1 << 40, 0x1000, 1 << 40);
        assert_eq!(table.add(one_more, ()), Err(BadRegion::TooMany));
    }
}
