//! Requests become accesses of aligned blocks, numbered from 0 in order of first access.
//!
//! A policy then needs no hash table: the number is an index. A block is a place on a volume; the same
//! place on two volumes is two blocks, unless both are the same base image ([`Splitter::know`]).
//!
//! Reads and writes name every block that they touch. Discards and write-zeroes bring nothing into a
//! cache, so they name only the blocks that were accessed before: a discard of a whole volume costs what
//! has been seen of it.

//!
//! Memory: 16 bytes a chunk of 32 neighbours at a load of 44 to 88 %, and 4 bytes a block in chunks whose
//! blocks were not first accessed in ascending order; 4 more a block if there is more than one volume.

mod batch;
mod chunks;

use std::sync::Arc;

use units::{Bytes, Offset};

pub use self::batch::{Batch, Request};
use self::chunks::{Arena, CHUNK_BLOCKS, Chunks, Span};
use crate::limits::{DISTINCT_BLOCKS_MAX, REQUEST_BYTES_MAX};
use crate::record::{Record, Role, VolumeIndex, Volumes};
use crate::records::{Records, Stretch};

/// Why requests cannot be split.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// More distinct blocks than keys.
    #[error(
        "the trace touches more than {DISTINCT_BLOCKS_MAX} distinct blocks; choose larger ones with --block"
    )]
    TooManyBlocks,
    /// A read or write longer than [`REQUEST_BYTES_MAX`], or one that ends beyond 2^64 bytes.
    #[error(
        "a request at offset {offset} is {length} long, which no system issues; the trace is mangled"
    )]
    TooLong {
        /// The request's offset.
        offset: Offset,
        /// Its length.
        length: Bytes,
    },
}

/// Splits requests into blocks of one size and numbers these.
#[derive(Clone, Debug)]
pub struct Splitter {
    /// The block size as a power of two.
    shift: u32,
    next: u32,
    volumes: Vec<Chunks>,
    arena: Arena,
    /// Each key's volume; empty as long as there is only one.
    owners: Vec<VolumeIndex>,
    /// The volume of the keys so far while `owners` is empty.
    only: VolumeIndex,
    roles: Arc<[Role]>,
    /// Whether any volume's blocks are another's.
    has_images: bool,
}

impl Splitter {
    /// A splitter into blocks of that size.
    ///
    /// # Panics
    /// If the size is not a power of two of at least 512 bytes.
    pub fn new(block: Bytes) -> Self {
        assert!(block.get().is_power_of_two());
        assert!(block.get() >= units::SECTOR_BYTES);
        Self {
            shift: block.get().trailing_zeros(),
            next: 0,
            volumes: Vec::new(),
            arena: Arena::default(),
            owners: Vec::new(),
            only: VolumeIndex::default(),
            roles: Arc::default(),
            has_images: false,
        }
    }

    /// Tells which volumes there are, before requests to them are split: VMs of one base image then
    /// access the same blocks. Cheap if there are no new ones.
    pub fn know(&mut self, volumes: &Volumes) {
        if self.roles.len() == volumes.len() {
            return;
        }
        self.roles = volumes.roles().into();
        self.has_images = self.roles.iter().any(|role| role.is_image);
    }

    /// The volume that has the blocks of this one.
    #[inline]
    fn blocks_of(&self, volume: VolumeIndex) -> VolumeIndex {
        if !self.has_images {
            return volume;
        }
        let role = self.roles.get(volume.to_usize());
        role.map_or(volume, |role| role.blocks)
    }

    /// The size of a block.
    pub fn block(&self) -> Bytes {
        Bytes::new(1 << self.shift)
    }

    /// How many different blocks were accessed: keys are below this.
    pub fn distinct(&self) -> u32 {
        self.next
    }

    /// The volume of a block that was accessed.
    ///
    /// # Panics
    /// If `key` is not below [`Self::distinct`].
    pub fn volume_of(&self, key: u32) -> VolumeIndex {
        assert!(key < self.next);
        self.owners.get(key as usize).copied().unwrap_or(self.only)
    }

    /// Where each block is, by key: its volume and its number there. Made anew at each call, in 16 bytes a
    /// block; the splitter itself needs fewer.
    pub fn places(&self) -> Vec<(VolumeIndex, u64)> {
        let mut places = vec![(VolumeIndex::default(), 0); self.next as usize];
        for (volume, chunks) in (0..).map(VolumeIndex::new).zip(&self.volumes) {
            chunks.each(&self.arena, |block, key| {
                places[key as usize] = (volume, block);
            });
        }
        places
    }

    /// Bytes of memory that the blocks seen so far take.
    pub fn heap_bytes(&self) -> usize {
        let chunks: usize = self.volumes.iter().map(Chunks::heap_bytes).sum();
        let volumes = self.volumes.capacity() * size_of::<Chunks>();
        let owners = self.owners.capacity() * size_of::<VolumeIndex>();
        chunks + volumes + owners + self.arena.heap_bytes()
    }

    /// Replaces the content of `into` with these records and their blocks.
    ///
    /// # Errors
    /// If a request is longer than any system issues, or there are more distinct blocks than keys. What `into` then
    /// holds is a part.
    ///
    /// # Panics
    /// If the records of one call name 2^32 blocks or more, which [`crate::limits::BATCH_RECORDS`] of
    /// them cannot.
    pub fn split(&mut self, records: &Records, into: &mut Batch) -> Result<(), SplitError> {
        self.split_lean(records, into)?;
        if into.requests.is_empty() {
            into.add_singles(records);
        }
        Ok(())
    }

    /// The same without requests if [`Batch::stretches`] tell all but their times and places.
    ///
    /// # Errors
    /// As [`Self::split`].
    ///
    /// # Panics
    /// As [`Self::split`].
    pub fn split_lean(&mut self, records: &Records, into: &mut Batch) -> Result<(), SplitError> {
        into.begin(records, &self.roles);
        let block = self.block();
        let is_of_singles =
            |(stretch, offsets): (&Stretch, &[Offset])| stretch.is_of_single_blocks(offsets, block);
        if records.stretches().all(is_of_singles) {
            into.set_stretches(records);
            return self.split_singles(records, &mut into.keys);
        }
        let mut start = into.key_count();
        for record in records {
            self.split_one(&record, &mut into.keys)?;
            let end = into.key_count();
            into.requests.push(Request {
                record,
                keys: start..end,
            });
            start = end;
        }
        Ok(())
    }

    /// Appends the keys of requests that read or write one block each.
    fn split_singles(&mut self, records: &Records, keys: &mut Vec<u32>) -> Result<(), SplitError> {
        for (stretch, offsets) in records.stretches() {
            let volume = self.blocks_of(stretch.volume);
            let shift = self.shift;
            let blocks = offsets.iter().map(|offset| offset.get() >> shift);
            self.access_each(volume, blocks, keys)?;
        }
        Ok(())
    }

    /// Appends the keys of blocks that are accessed one after the other.
    fn access_each(
        &mut self,
        volume: VolumeIndex,
        blocks: impl Iterator<Item = u64>,
        keys: &mut Vec<u32>,
    ) -> Result<(), SplitError> {
        let mut blocks = blocks.peekable();
        while let Some(first) = blocks.next() {
            // Neighbours in a chunk that follow each other are looked up at once.
            let chunk_last = first | (CHUNK_BLOCKS - 1);
            let mut last = first;
            while last < chunk_last && blocks.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            let known = (first == last).then(|| self.key(volume, first)).flatten();
            match known {
                Some(key) => keys.push(key),
                None => self.access(volume, first, last, keys)?,
            }
        }
        Ok(())
    }

    /// The key of a block that was accessed before.
    #[inline]
    fn key(&self, volume: VolumeIndex, block: u64) -> Option<u32> {
        let chunks = self.volumes.get(volume.to_usize())?;
        chunks.key(block, &self.arena)
    }

    #[inline]
    fn split_one(&mut self, record: &Record, keys: &mut Vec<u32>) -> Result<(), SplitError> {
        let Some(before_last) = record.length.get().checked_sub(1) else {
            return Ok(());
        };
        let last_byte = record.offset.get().checked_add(before_last);
        let Some(last_byte) = last_byte else {
            return Err(too_long(record));
        };
        let volume = self.blocks_of(record.volume);
        let first = record.offset.get() >> self.shift;
        let last = last_byte >> self.shift;
        if !record.op.carries_data() {
            self.known(volume, first, last, keys);
            return Ok(());
        }
        if record.length > REQUEST_BYTES_MAX {
            return Err(too_long(record));
        }
        self.access(volume, first, last, keys)
    }

    #[inline]
    fn access(
        &mut self,
        volume: VolumeIndex,
        first: u64,
        last: u64,
        keys: &mut Vec<u32>,
    ) -> Result<(), SplitError> {
        if last - first >= u64::from(DISTINCT_BLOCKS_MAX - self.next) {
            return Err(SplitError::TooManyBlocks);
        }
        if volume.to_usize() >= self.volumes.len() {
            self.volumes
                .resize_with(volume.to_usize() + 1, Chunks::default);
        }
        let chunks = &mut self.volumes[volume.to_usize()];
        let before = self.next;
        let mut block = first;
        while block <= last {
            let (span, after) = Span::from(block, last);
            self.next = chunks
                .access(span, self.next, &mut self.arena, keys)
                .map_err(|_| SplitError::TooManyBlocks)?;
            block = after;
        }
        if self.next != before {
            self.own(volume, before);
        }
        Ok(())
    }

    /// Writes down whose the keys from `before` on are.
    fn own(&mut self, volume: VolumeIndex, before: u32) {
        if before == 0 {
            self.only = volume;
        }
        if self.owners.is_empty() && volume == self.only {
            return;
        }
        let missing = self.next as usize - self.owners.len();
        if self.owners.capacity() - self.owners.len() < missing {
            // By a quarter, as in the arena.
            self.owners
                .reserve_exact(missing.max(self.owners.len() / 4));
        }
        self.owners.resize(before as usize, self.only);
        self.owners.resize(self.next as usize, volume);
    }

    /// Appends the keys of those blocks that have one.
    fn known(&self, volume: VolumeIndex, first: u64, last: u64, keys: &mut Vec<u32>) {
        let Some(chunks) = self.volumes.get(volume.to_usize()) else {
            return;
        };
        let ends = (first / CHUNK_BLOCKS, last / CHUNK_BLOCKS);
        if ends.1 - ends.0 < chunks.chunk_count() as u64 {
            let mut block = first;
            while block <= last {
                let (span, after) = Span::from(block, last);
                chunks.known(span, &self.arena, keys);
                block = after;
            }
            return;
        }
        for chunk in chunks.seen_within(ends.0, ends.1) {
            let start = first.max(chunk * CHUNK_BLOCKS);
            let (span, _) = Span::from(start, last);
            chunks.known(span, &self.arena, keys);
        }
    }
}

#[cold]
fn too_long(record: &Record) -> SplitError {
    SplitError::TooLong {
        offset: record.offset,
        length: record.length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Op;

    fn record(op: Op, volume: u32, offset: u64, length: u64) -> Record {
        Record {
            time_us: 0,
            offset: Offset::new(offset),
            length: Bytes::new(length),
            response_us: None,
            volume: VolumeIndex::new(volume),
            op,
            hash: None,
        }
    }

    fn keys(splitter: &mut Splitter, record: Record) -> Vec<u32> {
        let mut batch = Batch::default();
        splitter
            .split(&Records::from(&[record][..]), &mut batch)
            .unwrap();
        assert_eq!(batch.keys_of(&batch.requests[0]), batch.keys);
        batch.keys
    }

    #[test]
    fn a_request_touches_every_block_that_it_overlaps() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4095, 2)), [0, 1]);
        assert_eq!(keys(&mut splitter, record(Op::Write, 0, 4096, 4096)), [1]);
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4096, 4097)), [1, 2]);
        assert_eq!(splitter.distinct(), 3);
    }

    #[test]
    fn the_same_place_on_another_volume_is_another_block() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 0, 512)), [0]);
        assert_eq!(keys(&mut splitter, record(Op::Read, 7, 0, 512)), [1]);
        assert_eq!(splitter.volume_of(1), VolumeIndex::new(7));
    }

    #[test]
    fn the_same_place_on_a_base_image_is_one_block_for_all_vms() {
        let mut volumes = Volumes::new();
        for (vm, name) in [
            ("a", "disk"),
            ("a", "base:x"),
            ("b", "disk"),
            ("b", "base:x"),
        ] {
            volumes.intern(&crate::record::Volume {
                vm: vm.to_owned(),
                name: name.to_owned(),
            });
        }
        let mut splitter = Splitter::new(Bytes::kib(4));
        splitter.know(&volumes);
        let of_volume = |volume| record(Op::Read, volume, 0, 8192);
        assert_eq!(keys(&mut splitter, of_volume(0)), [0, 1]);
        assert_eq!(keys(&mut splitter, of_volume(3)), [2, 3]);
        assert_eq!(keys(&mut splitter, of_volume(1)), [2, 3]);
        assert_eq!(keys(&mut splitter, of_volume(2)), [4, 5]);
        assert_eq!(splitter.volume_of(2), VolumeIndex::new(1));
        let mut batch = Batch::default();
        let records = Records::from(&[of_volume(3)][..]);
        splitter.split(&records, &mut batch).unwrap();
        assert_eq!(batch.role(VolumeIndex::new(3)).vm, 1);
    }

    #[test]
    fn discards_and_flushes_number_nothing() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        assert_eq!(keys(&mut splitter, record(Op::Flush, 0, 0, 0)), []);
        assert_eq!(keys(&mut splitter, record(Op::Discard, 0, 0, 8192)), []);
        assert_eq!(keys(&mut splitter, record(Op::Read, 0, 4096, 1)), [0]);
        assert_eq!(
            keys(&mut splitter, record(Op::WriteZeroes, 0, 0, 8192)),
            [0]
        );
        assert_eq!(splitter.distinct(), 1);
    }

    #[test]
    fn mangled_lengths_are_refused() {
        let mut splitter = Splitter::new(Bytes::kib(4));
        let mut batch = Batch::default();
        for (offset, length) in [(0, 1 << 40), (u64::MAX, 2)] {
            let records = Records::from(&[record(Op::Read, 0, offset, length)][..]);
            let split = splitter.split(&records, &mut batch);
            assert!(matches!(split, Err(SplitError::TooLong { .. })), "{offset}");
        }
        assert_eq!(splitter.distinct(), 0);
    }
}
