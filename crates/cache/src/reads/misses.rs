//! What a read does not find on this host: it comes from the origin, with others who want the same, or past the
//! cache.

use super::GuestReads;
use crate::admitter::Admitter;
use crate::disks::Disks;
use crate::fills::{Fill, Fills, Waiter};
use crate::guard::{Guard, holds};
use crate::limits::RUN_BLOCKS_MAX;
use crate::ports::Ports;
use crate::purpose::{Hit, OriginPurpose};
use crate::under_way::{Read, ReadId, blocks_to, index};
use admission::Key;
use block_io::{IoError, OriginDone, OriginVerb, Slice};
use dirty_log::Found;
use frames::Kind;
use units::{BLOCK_BYTES, BlockIndex, Bytes, DiskSlot, Duration, Offset};

impl GuestReads<'_> {
    /// Handles a run of blocks that is nowhere on this host; returns where it ends.
    pub(super) fn read_miss_run(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) -> u64 {
        let first = BlockIndex::containing(Offset::new(at));
        let (fill, fill_first, count) = match self.state.fills.covering(disk, first) {
            Some(found) => {
                self.ports.stats.shared_fills += 1;
                found
            }
            None => self.start_fill(disk, first, end),
        };
        let stop = fill_first.advance(count).start().get().min(end);
        let read = self.state.reads.get(id);
        self.state.lacks |= !read.is_prefetch();
        count_misses(read, self.disks, first, blocks_to(first, stop));
        let part = self.state.reads.add_part(id, at);
        if self.state.reads.get(id).is_prefetch() {
            self.state.prefetches.fetches(disk, stop - at);
        }
        let skip = index(at - fill_first.start().get());
        self.state.fills.join(
            fill,
            Waiter {
                read: id,
                part,
                skip,
                length: index(stop - at),
            },
        );
        stop
    }

    /// Fetches the run of blocks from `first` that nobody has or fetches.
    fn start_fill(
        &mut self,
        disk: DiskSlot,
        first: BlockIndex,
        end: u64,
    ) -> (usize, BlockIndex, u64) {
        let blocks = blocks_to(first, end).min(RUN_BLOCKS_MAX);
        let mut limit = first.advance(blocks);
        if let Some(covered) = self.state.fills.next_covered(disk, first, limit) {
            limit = covered;
        }
        let mut count = 1;
        let flash = self.flash.as_ref().expect("a fill is for the flash");
        let staged = |block| {
            self.admission.staged(Key::new(disk, block)).is_some() && holds(Guard::NoFillOfStaged)
        };
        let frames = self.admission.frames();
        let is_ahead = |block| {
            let key = Key::new(disk, block);
            frames.has_ahead() && frames.get_of(Kind::Ahead, key).is_some()
        };
        let lacking = flash.dirty_logs().has(disk) && holds(Guard::NoFillOfDirty);
        let dirty = |block| lacking && flash.dirty_logs().find(disk, block) != Found::Clean;
        while first.advance(count) < limit
            && !flash.facts().has_copy(disk, first.advance(count))
            && !staged(first.advance(count))
            && !is_ahead(first.advance(count))
            && !dirty(first.advance(count))
        {
            count += 1;
        }
        // Blocks that are being written come from the origin too, but are not admitted.
        let killed = self.writes.overlaps(disk, first, count) && holds(Guard::NoFillDuringWrite);
        let fill = Fill {
            killed,
            ..Fill::new(disk, first, count)
        };
        let fill = fetch(&mut self.state.fills, self.disks, self.ports, fill);
        (fill, first, count)
    }

    /// A fill has come, or has failed to, after so long.
    pub(crate) fn fill_done(&mut self, fill: usize, done: OriginDone, time: Duration) {
        let fill = self.state.fills.remove(fill);
        if fill.ahead.is_none() {
            self.state.foresight.origin_took(fill.disk, time);
        }
        for waiter in &fill.waiters {
            if self.state.reads.get(waiter.read).is_prefetch() {
                self.state
                    .prefetches
                    .fetched(fill.disk, waiter.length as u64);
            }
        }
        let bytes = match (done.result, done.buf) {
            (Ok(()), Some(buf)) => Ok(buf.freeze()),
            (Err(error), _) => Err(error),
            (Ok(()), None) => Err(IoError::Failed),
        };
        match bytes {
            Ok(bytes) => {
                let (flash, disks) = (self.flash.as_mut(), &mut *self.disks);
                if !done.passes {
                    Admitter::new(self.admission, flash, disks, self.ports).admit_fill(
                        &fill,
                        &bytes,
                        &self.state.reads,
                    );
                }
                if let Some(promise) = fill.ahead {
                    let kept = Some(&bytes).filter(|_| !done.passes);
                    self.foreseeing().done(&fill, promise, kept);
                }
                for waiter in &fill.waiters {
                    let bytes = bytes.slice(waiter.skip..waiter.skip + waiter.length);
                    self.fill_part(waiter.read, waiter.part, bytes);
                }
            }
            Err(error) => {
                self.disks.stats(fill.disk).origin_errors += 1;
                if let Some(promise) = fill.ahead {
                    self.foreseeing().done(&fill, promise, None);
                }
                for waiter in &fill.waiters {
                    self.fail_part(waiter.read, error);
                }
            }
        }
        self.step_prefetches();
        if self.state.foresight.is_on() {
            self.foreseeing().fetch(fill.disk);
        }
    }

    /// Reads part of a request from the origin, past the cache.
    pub(super) fn read_direct(&mut self, id: ReadId, disk: DiskSlot, at: u64, end: u64) {
        let part = self.state.reads.add_part(id, at);
        self.fetch_part(id, part, disk, at, end - at);
    }

    pub(super) fn fetch_part(
        &mut self,
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        at: u64,
        length: u64,
    ) {
        // Whole blocks where the disk has them, so that the origin can read past its own caches.
        let size = self.disks.size(disk);
        let start = at / BLOCK_BYTES * BLOCK_BYTES;
        let stop = (at + length).next_multiple_of(BLOCK_BYTES).min(size);
        self.disks.stats(disk).origin_read_bytes += stop - start;
        let buf = self.ports.pool().take(index(stop - start));
        let verb = OriginVerb::Read {
            offset: Offset::new(start),
            length: Bytes::new(stop - start),
            buf,
        };
        let purpose = OriginPurpose::Direct {
            read,
            part,
            disk,
            skip: index(at - start),
            length: index(length),
        };
        self.ports.origin(purpose, disk, verb);
    }

    /// A part from the origin has come, or has failed to.
    pub(crate) fn direct_done(
        &mut self,
        read: ReadId,
        part: usize,
        disk: DiskSlot,
        bytes: Result<Slice, IoError>,
    ) {
        match bytes {
            Ok(bytes) => {
                self.fill_part(read, part, bytes);
            }
            Err(error) => {
                self.disks.stats(disk).origin_errors += 1;
                self.fail_part(read, error);
            }
        }
    }

    /// Asks the origin for what the flash could not give.
    pub(super) fn refetch(&mut self, hit: &Hit) {
        let at = hit.first.start().get() + hit.skip as u64;
        self.fetch_part(hit.read, hit.part, hit.disk, at, hit.length as u64);
    }
}

/// Asks the origin for the blocks of a fill.
pub(super) fn fetch(fills: &mut Fills, disks: &mut Disks, ports: &mut Ports, fill: Fill) -> usize {
    let (disk, offset) = (fill.disk, fill.first.start());
    let length = fill.count * BLOCK_BYTES;
    let fill = fills.insert(fill);
    disks.stats(disk).origin_read_bytes += length;
    let buf = ports.pool().take(index(length));
    let verb = OriginVerb::Read {
        offset,
        length: Bytes::new(length),
        buf,
    };
    ports.origin(OriginPurpose::Fill(fill), disk, verb);
    fill
}

/// Counts a run of blocks (or parts) that a read did not find.
fn count_misses(read: &Read, disks: &mut Disks, first: BlockIndex, count: u64) {
    let (disk, vm) = (read.disk(), read.vm());
    disks.stats(disk).read_block_misses += count;
    if let Some(views) = disks.views(disk) {
        views.read(vm, first, count, false);
    }
}
