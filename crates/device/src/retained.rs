//! Retained memory, which outlives the process: what was accepted into it is found again after a kill, and
//! is gone after a power cut, like what is in a disk's own volatile cache.
//!
//! A file on a file system in memory (or any other: then its page cache is what counts), mapped,
//! cut into *places* of equal size. A place holds one chunk that is being gathered or is on its
//! way to flash: a head, records of 16 bytes, and pages.
//!
//! ```text
//!  ┌─ page 0 of the file ─┐┌───── place 0 ──────────────────────────────┐┌ place 1 ...
//!  │ magic, boot, owner   ││ count, head, records │ page │ page │ ...   ││
//!  └──────────────────────┘└────────────────────────────────────────────┘└
//! ```
//!
//! Behind the owner are two counters of the cache's, which it sets as it goes on.
//!
//! Invariants:
//! - A record counts once its number is stored, which is the last store of a push. Between two
//!   instructions of a process that ends, memory is not torn, so there are no checksums here.
//! - What an earlier boot of the host has left is not read: whatever of it reached a disk may be
//!   any mixture.

#![allow(unsafe_code, reason = "one mapping of a file that is locked for us")]

use block_io::PAGE_BYTES;
use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, FlockOperation};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};

/// Bytes of a head; whoever writes it gives them a meaning.
pub const HEAD_BYTES: usize = 64;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 16;
/// Records of a place: behind the count and the head, in its first page.
pub const RECORDS_MAX: usize = (PAGE_BYTES - HEAD_AT - HEAD_BYTES) / RECORD_BYTES;
/// Pages of a place behind its first: those of the longest chunk.
pub const PAGES_MAX: usize = 127;

const MAGIC: &[u8; 8] = b"HEARTHlm";
const BOOT_AT: usize = 8;
const BOOT_BYTES: usize = 36;
const OWNER_AT: usize = 48;
const OWNER_BYTES: usize = 16;
const COUNTERS_AT: usize = 64;
const HEAD_AT: usize = 16;
const RECORDS_AT: usize = HEAD_AT + HEAD_BYTES;
const PLACE_BYTES: usize = (1 + PAGES_MAX) * PAGE_BYTES;

/// Why retained memory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RetainedError {
    /// Another process has it.
    #[error("another process uses {}", path.display())]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// The system does not give it.
    #[error("cannot keep {bytes} bytes of memory in {}", path.display())]
    Unavailable {
        /// Which file.
        path: PathBuf,
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// What a process that ended has left in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which place.
    pub place: usize,
    /// Its head.
    pub head: [u8; HEAD_BYTES],
    /// Its records, in order.
    pub records: Vec<[u8; RECORD_BYTES]>,
    /// All its pages; which of them were pushed the records say.
    pub pages: Vec<u8>,
}

/// Memory that outlives the process.
#[derive(Debug)]
pub struct RetainedMemory {
    map: MmapMut,
    places: usize,
    /// Held for its lock.
    file: File,
    path: PathBuf,
}

impl RetainedMemory {
    /// Opens the file `path`, or makes it, with that many places for the cache `owner`. Gives what
    /// an earlier process of the same boot and owner has left. Before anything is put into it its
    /// memory has to be [reserved](Self::reserve).
    ///
    /// # Errors
    /// [`RetainedError`].
    pub fn open(
        path: &Path,
        owner: u128,
        places: usize,
    ) -> Result<(Self, Vec<Left>), RetainedError> {
        let bytes = PAGE_BYTES + places * PLACE_BYTES;
        let failed = |source| RetainedError::Unavailable {
            path: path.to_owned(),
            bytes,
            source,
        };
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").map_err(failed)?;
        let boot: [u8; BOOT_BYTES] = boot
            .first_chunk()
            .copied()
            .ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(RetainedError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        let length = file.metadata().map_err(failed)?.len();
        file.set_len(length.max(bytes as u64)).map_err(failed)?;
        // SAFETY: the file is locked, so nobody who keeps to our locks changes it or cuts it while
        // it is mapped; whoever else may write it may end this process as well.
        let map = unsafe { memmap2::MmapOptions::new().len(bytes).map_mut(&file) };
        let mut memory = Self {
            map: map.map_err(failed)?,
            places,
            file,
            path: path.to_owned(),
        };
        let left = if memory.is_of(boot, owner) {
            (0..places)
                .filter_map(|place| memory.left_in(place))
                .collect()
        } else {
            memory.begin_anew(boot, owner);
            Vec::new()
        };
        Ok((memory, left))
    }

    fn is_of(&self, boot: [u8; BOOT_BYTES], owner: u128) -> bool {
        self.map[..MAGIC.len()] == *MAGIC
            && self.map[BOOT_AT..][..BOOT_BYTES] == boot
            && self.map[OWNER_AT..][..OWNER_BYTES] == owner.to_le_bytes()
    }

    fn begin_anew(&mut self, boot: [u8; BOOT_BYTES], owner: u128) {
        for place in 0..self.places {
            if self.count(place) > 0 {
                self.clear(place);
            }
        }
        compiler_fence(Ordering::SeqCst);
        self.map[BOOT_AT..][..BOOT_BYTES].copy_from_slice(&boot);
        self.map[OWNER_AT..][..OWNER_BYTES].copy_from_slice(&owner.to_le_bytes());
        self.set_counters([0; 2]);
        compiler_fence(Ordering::SeqCst);
        self.map[..MAGIC.len()].copy_from_slice(MAGIC);
    }

    /// Takes all the memory that the places can ever need: a mapping of a file that cannot get it
    /// would end the process.
    ///
    /// # Errors
    /// [`RetainedError::Unavailable`].
    pub fn reserve(&self) -> Result<(), RetainedError> {
        let bytes = self.map.len();
        let taken = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes as u64);
        taken.map_err(|errno| RetainedError::Unavailable {
            path: self.path.clone(),
            bytes,
            source: errno.into(),
        })
    }

    /// The cache's counters; zero if it has set none since the host was started.
    pub fn counters(&self) -> [u64; 2] {
        let (numbers, _) = self.map[COUNTERS_AT..][..16].as_chunks::<8>();
        [0, 1].map(|at| u64::from_le_bytes(numbers[at]))
    }

    /// Sets the counters, each for itself.
    pub fn set_counters(&mut self, counters: [u64; 2]) {
        for (at, counter) in counters.into_iter().enumerate() {
            self.map[COUNTERS_AT + at * 8..][..8].copy_from_slice(&counter.to_le_bytes());
        }
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Begins a chunk in a place: nothing is in it yet.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn begin(&mut self, place: usize, head: &[u8; HEAD_BYTES]) {
        self.clear(place);
        let at = self.at(place);
        self.map[at + HEAD_AT..][..HEAD_BYTES].copy_from_slice(head);
    }

    /// Adds a record to a place, and its page if it has one, as page `page` of the chunk: 0 is
    /// the first behind the header.
    ///
    /// # Panics
    /// If the place is full, or the page is not one of a chunk.
    pub fn push(
        &mut self,
        place: usize,
        record: &[u8; RECORD_BYTES],
        page: Option<(usize, &[u8])>,
    ) {
        let at = self.at(place);
        let count = self.count(place);
        assert!(
            count < RECORDS_MAX,
            "a place has room for a chunk's records"
        );
        if let Some((number, bytes)) = page {
            assert!(number < PAGES_MAX, "a place has room for a chunk's pages");
            let to = at + (1 + number) * PAGE_BYTES;
            self.map[to..to + PAGE_BYTES].copy_from_slice(bytes);
        }
        let to = at + RECORDS_AT + count * RECORD_BYTES;
        self.map[to..to + RECORD_BYTES].copy_from_slice(record);
        // The number comes last: a process that ends before it has not accepted the record.
        compiler_fence(Ordering::SeqCst);
        self.set_count(place, count + 1);
    }

    /// Forgets what is in a place.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn clear(&mut self, place: usize) {
        self.set_count(place, 0);
        compiler_fence(Ordering::SeqCst);
    }

    fn left_in(&self, place: usize) -> Option<Left> {
        let count = self.count(place);
        if count == 0 || count > RECORDS_MAX {
            return None;
        }
        let bytes = &self.map[self.at(place)..][..PLACE_BYTES];
        let records = bytes[RECORDS_AT..].as_chunks::<RECORD_BYTES>().0;
        Some(Left {
            place,
            head: *bytes[HEAD_AT..].first_chunk()?,
            records: records[..count].to_vec(),
            pages: bytes[PAGE_BYTES..].to_vec(),
        })
    }

    fn at(&self, place: usize) -> usize {
        assert!(place < self.places, "there is such a place");
        PAGE_BYTES + place * PLACE_BYTES
    }

    fn count(&self, place: usize) -> usize {
        let at = self.at(place);
        let count: [u8; 4] = *self.map[at..].first_chunk().expect("a place is long");
        u32::from_le_bytes(count) as usize
    }

    fn set_count(&mut self, place: usize, count: usize) {
        let at = self.at(place);
        let count = u32::try_from(count).expect("a place has few records");
        self.map[at..at + 4].copy_from_slice(&count.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u128 = 7;

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; PAGE_BYTES]
    }

    #[test]
    fn what_was_pushed_is_found_and_what_was_cleared_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let (mut memory, left) = RetainedMemory::open(&path, OWNER, 3).unwrap();
        assert_eq!(left, []);
        memory.reserve().unwrap();
        memory.begin(1, &[9; HEAD_BYTES]);
        memory.push(1, &[1; RECORD_BYTES], Some((0, &page(5))));
        memory.push(1, &[2; RECORD_BYTES], None);
        memory.push(1, &[3; RECORD_BYTES], Some((1, &page(6))));
        memory.begin(2, &[8; HEAD_BYTES]);
        memory.push(2, &[4; RECORD_BYTES], None);
        memory.clear(2);
        drop(memory);

        let (_, left) = RetainedMemory::open(&path, OWNER, 3).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].place, left[0].head), (1, [9; HEAD_BYTES]));
        assert_eq!(left[0].records, [[1; 16], [2; 16], [3; 16]]);
        assert_eq!(left[0].pages[..PAGE_BYTES], page(5));
        assert_eq!(left[0].pages[PAGE_BYTES..2 * PAGE_BYTES], page(6));
    }

    #[test]
    fn a_place_that_was_begun_again_has_nothing_of_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let (mut memory, _) = RetainedMemory::open(&path, OWNER, 1).unwrap();
        memory.begin(0, &[1; HEAD_BYTES]);
        memory.push(0, &[1; RECORD_BYTES], None);
        memory.begin(0, &[2; HEAD_BYTES]);
        drop(memory);
        assert_eq!(RetainedMemory::open(&path, OWNER, 1).unwrap().1, []);
    }

    #[test]
    fn what_another_cache_or_an_earlier_boot_has_left_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let push = |owner| {
            let (mut memory, left) = RetainedMemory::open(&path, owner, 1).unwrap();
            assert_eq!(left, []);
            memory.begin(0, &[1; HEAD_BYTES]);
            memory.push(0, &[1; RECORD_BYTES], None);
        };
        push(OWNER);
        let (mut memory, _) = RetainedMemory::open(&path, OWNER, 1).unwrap();
        assert_eq!(memory.counters(), [0, 0]);
        memory.set_counters([3, u64::MAX]);
        drop(memory);
        assert_eq!(
            RetainedMemory::open(&path, OWNER, 1).unwrap().0.counters(),
            [3, u64::MAX]
        );
        push(OWNER + 1);
        assert_eq!(
            RetainedMemory::open(&path, OWNER + 1, 1)
                .unwrap()
                .0
                .counters(),
            [0, 0]
        );
        // The host was started again: its boot is another one.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[BOOT_AT] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        push(OWNER + 1);
    }

    #[test]
    fn it_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let (_memory, _) = RetainedMemory::open(&path, OWNER, 1).unwrap();
        let second = RetainedMemory::open(&path, OWNER, 1);
        assert!(matches!(second, Err(RetainedError::InUse { .. })));
    }

    #[test]
    fn a_full_place_has_all_the_records_of_the_longest_chunk() {
        const { assert!(RECORDS_MAX >= PAGES_MAX) };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let (mut memory, _) = RetainedMemory::open(&path, OWNER, 2).unwrap();
        memory.begin(0, &[1; HEAD_BYTES]);
        memory.begin(1, &[2; HEAD_BYTES]);
        for number in 0..PAGES_MAX {
            let byte = u8::try_from(number).unwrap();
            memory.push(0, &[byte; RECORD_BYTES], Some((number, &page(byte))));
        }
        drop(memory);
        let (_, left) = RetainedMemory::open(&path, OWNER, 2).unwrap();
        assert_eq!(left.len(), 1, "the neighbour was not touched");
        assert_eq!(left[0].records.len(), PAGES_MAX);
        let pages = left[0].pages.as_chunks::<PAGE_BYTES>().0;
        assert!(pages.iter().zip(0..).all(|(bytes, n)| bytes[..] == page(n)));
    }
}
