//! A guest's memory: its regions, mapped, by guest address.
//!
//! Never changed once it is in use: regions that come or go make a new one, and requests in flight
//! keep the one that they began with. So a region is unmapped when the last request that may touch
//! it has ended, the kernel's own writes included.

use crate::mapping::{MapError, Mapping, View, map};
use crate::quota::Quota;
use block_io::Slice;
use ring::{Foreign, PIECES_MAX};
use smallvec::SmallVec;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use vhost_protocol::{
    BadRegion, GuestAddress, GuestMemory, Region, RegionTable, Segment, Unmapped,
};

/// The regions of a guest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    table: RegionTable<Rc<Mapping>>,
}

/// Why a region was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegionError {
    #[error(transparent)]
    Bad(#[from] BadRegion),
    #[error(transparent)]
    Map(#[from] MapError),
}

impl Memory {
    pub(crate) fn add(
        &mut self,
        region: Region,
        file: &OwnedFd,
        quota: &Quota,
    ) -> Result<(), RegionError> {
        // Checked first: nothing is mapped for a region that makes no sense.
        region.check()?;
        let others = self.table.targets().map(|mapping| mapping.len() as u64);
        quota.check_table(others.sum::<u64>().saturating_add(region.size))?;
        let mapping = map(file, region.offset, region.size, quota)?;
        self.table.add(region, mapping)?;
        Ok(())
    }

    pub(crate) fn remove(&mut self, region: &Region) -> Result<(), RegionError> {
        self.table.remove(region)?;
        Ok(())
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.table.targets().any(|mapping| mapping.is_lost())
    }

    /// Part of a ring, at an address of QEMU's own.
    pub(crate) fn view(&self, at: u64, length: usize, align: usize) -> Result<View, Unmapped> {
        let bytes = length as u64;
        let span = self.table.find_user(at, bytes)?;
        let unmapped = Unmapped {
            at: GuestAddress(at),
            length: bytes,
        };
        let start = usize::try_from(span.start).map_err(|_| unmapped)?;
        View::new(span.target, start, length, align).ok_or(unmapped)
    }

    /// Calls `each` with the mapped pieces of a range, in order: mapping, start, bytes.
    fn walk(
        &self,
        mut at: GuestAddress,
        length: u64,
        mut each: impl FnMut(&Mapping, usize, usize),
    ) -> Result<(), Unmapped> {
        let mut left = length;
        while left > 0 {
            let span = self.table.find(at, left)?;
            // A mapping's offsets and lengths fit, since it is mapped.
            let fits = |bytes: u64| usize::try_from(bytes).expect("a part of a mapping");
            each(span.target, fits(span.start), fits(span.length));
            left -= span.length;
            if left == 0 {
                break;
            }
            at = at.checked_add(span.length).ok_or(Unmapped { at, length })?;
        }
        Ok(())
    }

    /// Whether all of it is the guest's memory.
    pub(crate) fn check(&self, segments: &[Segment]) -> Result<(), Unmapped> {
        segments
            .iter()
            .try_for_each(|one| self.walk(one.address, u64::from(one.length), |_, _, _| {}))
    }

    pub(crate) fn write(&self, at: GuestAddress, bytes: &[u8]) -> Result<(), Unmapped> {
        let mut left = bytes;
        self.walk(at, bytes.len() as u64, |mapping, start, length| {
            let (now, later) = left.split_at(length);
            mapping.store(start, now);
            left = later;
        })
    }

    /// Copies out what lies in the segments, as many bytes as `into` has.
    pub(crate) fn gather(&self, segments: &[Segment], into: &mut [u8]) -> Result<(), Unmapped> {
        let mut left = into;
        for segment in segments {
            self.walk(
                segment.address,
                u64::from(segment.length),
                |mapping, start, length| {
                    let (now, later) = std::mem::take(&mut left).split_at_mut(length);
                    mapping.load(start, now);
                    left = later;
                },
            )?;
        }
        Ok(())
    }

    /// Copies the slices into the segments, which have room for at least as much.
    pub(crate) fn scatter(&self, segments: &[Segment], slices: &[Slice]) -> Result<(), Unmapped> {
        let mut slices = slices.iter();
        let mut left: &[u8] = &[];
        for segment in segments {
            self.walk(
                segment.address,
                u64::from(segment.length),
                |mapping, mut start, mut length| {
                    while length > 0 {
                        if left.is_empty() {
                            let Some(next) = slices.next() else { return };
                            left = next;
                            continue;
                        }
                        let (now, later) = left.split_at(length.min(left.len()));
                        mapping.store(start, now);
                        start += now.len();
                        length -= now.len();
                        left = later;
                    }
                },
            )?;
        }
        Ok(())
    }

    /// The segments as memory that the kernel can fill, if they are few enough for one operation.
    pub(crate) fn foreign(self: &Rc<Self>, segments: &[Segment]) -> Option<Foreign> {
        let mut pieces = SmallVec::<[(*mut u8, usize); 4]>::new();
        for segment in segments {
            self.walk(
                segment.address,
                u64::from(segment.length),
                |mapping, start, length| pieces.push((mapping.pointer(start, length), length)),
            )
            .ok()?;
        }
        if pieces.len() > PIECES_MAX {
            return None;
        }
        let keeper: Rc<Self> = Rc::clone(self);
        Some(foreign(pieces, keeper))
    }
}

#[allow(
    unsafe_code,
    reason = "vouching for pointers into mappings that are kept"
)]
fn foreign(pieces: SmallVec<[(*mut u8, usize); 4]>, keeper: Rc<Memory>) -> Foreign {
    // SAFETY: each piece lies within a mapping, which is readable and writable and lives as long as
    // the memory that keeps it; nobody holds references into mappings.
    unsafe { Foreign::new(pieces.into_iter(), keeper) }
}

impl GuestMemory for Memory {
    fn read(&self, at: GuestAddress, into: &mut [u8]) -> Result<(), Unmapped> {
        let length = into.len() as u64;
        let mut left = into;
        self.walk(at, length, |mapping, start, length| {
            let (now, later) = std::mem::take(&mut left).split_at_mut(length);
            mapping.load(start, now);
            left = later;
        })
    }
}
