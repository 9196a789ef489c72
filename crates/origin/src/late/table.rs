//! The table of changes that were sent and not answered, in memory that outlives the process.
//!
//! A file on a file system in memory (or any other: then its page cache is what counts), mapped:
//!
//! ```text
//!  ┌ 0 ───────────┐┌ 64 ───────────────────────┐┌ 88 ────
//!  │ magic        ││ cookie │ offset │ length  ││ cookie ...
//!  └──────────────┘└───────────────────────────┘└────────
//! ```
//!
//! Invariants:
//! - A slot counts if its cookie is not zero. The cookie is the last store of a begin and the only one
//!   of an end. Memory is not torn between two instructions of a process that ends.
//! - A change is in the table before its request is given to a socket, and until it is answered.

#![allow(unsafe_code, reason = "one mapping of a file that is locked for us")]

use super::Change;
use crate::kept_text::give_to_owner_of_folder;
use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, FlockOperation};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, compiler_fence};
use units::Map;

const MAGIC: &[u8; 8] = b"HEARTHif";
const SLOTS_AT: usize = 64;
const SLOT_BYTES: usize = 24;
/// Twice what one session may have in flight, and as much again for those before it.
const SLOTS: usize = 4096;
/// Changes of former sessions that it may have in it.
const FORMER_MAX: usize = SLOTS / 2;
const BYTES: usize = SLOTS_AT + SLOTS * SLOT_BYTES;

/// A table that nobody else has.
#[derive(Debug)]
pub(crate) struct Table {
    map: MmapMut,
    slots: Map<u64, usize>,
    /// The lowest last, so that few pages are used.
    free: Vec<usize>,
    path: PathBuf,
    /// Held for its lock.
    _file: File,
}

impl Drop for Table {
    /// A table with nothing in it is not kept: a host has many disks in its time.
    fn drop(&mut self) {
        if self.is_empty() {
            // One that stays is found empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    give_to_owner_of_folder(path);
    Ok(file)
}

impl Table {
    /// Opens the file `path`, or makes it, with what is in it.
    ///
    /// # Errors
    /// `WouldBlock` if somebody else has it; else what the system said.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Change>)> {
        let file = loop {
            let file = locked(path)?;
            // Whoever had it before may have removed it meanwhile.
            let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|found| found.ino());
            if inode(file.metadata()) == inode(std::fs::metadata(path)) {
                break file;
            }
        };
        // All of it: a mapping of a file that cannot get its memory would end the process.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BYTES as u64)?;
        // SAFETY: the file is locked, so nobody who keeps to our locks changes it or cuts it while
        // it is mapped; whoever else may write it may end this process as well.
        let mut map = unsafe { memmap2::MmapOptions::new().len(BYTES).map_mut(&file) }?;
        if map[..MAGIC.len()] != *MAGIC {
            map[SLOTS_AT..].fill(0);
            compiler_fence(Ordering::SeqCst);
            map[..MAGIC.len()].copy_from_slice(MAGIC);
        }
        let mut table = Self {
            map,
            slots: Map::default(),
            free: Vec::new(),
            path: path.to_owned(),
            _file: file,
        };
        let mut found = Vec::new();
        for slot in (0..SLOTS).rev() {
            match change_in(&table.map, slot) {
                Some(change) => {
                    table.slots.insert(change.cookie, slot);
                    found.push(change);
                }
                None => table.free.push(slot),
            }
        }
        Ok((table, found))
    }

    #[cfg(test)]
    fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Has exactly these in it. If they are so many that there would be little room for a session,
    /// there is one instead, of everything.
    pub(crate) fn refill(&mut self, changes: &mut Vec<Change>) {
        if changes.len() > FORMER_MAX {
            *changes = vec![Change::ANYWHERE];
        }
        for change in &*changes {
            if !self.slots.contains_key(&change.cookie) {
                self.begin(*change);
            }
        }
        self.retain(|cookie| changes.iter().any(|change| change.cookie == cookie));
    }

    /// Enters a change that is about to be sent.
    ///
    /// # Panics
    /// If there is no room, the change is empty, or its cookie is zero or known.
    pub(crate) fn begin(&mut self, change: Change) {
        assert!(
            change.cookie != 0 && change.length > 0,
            "a change has a cookie and a range"
        );
        let slot = self.free.pop().expect("the table has room");
        let at = SLOTS_AT + slot * SLOT_BYTES;
        self.map[at + 8..at + 16].copy_from_slice(&change.offset.to_le_bytes());
        self.map[at + 16..at + 24].copy_from_slice(&change.length.to_le_bytes());
        compiler_fence(Ordering::SeqCst);
        self.map[at..at + 8].copy_from_slice(&change.cookie.to_le_bytes());
        compiler_fence(Ordering::SeqCst);
        let known = self.slots.insert(change.cookie, slot);
        assert!(known.is_none(), "a cookie names one change");
    }

    /// Takes a change out that was answered, or cannot happen any more.
    pub(crate) fn end(&mut self, cookie: u64) {
        if let Some(slot) = self.slots.remove(&cookie) {
            let at = SLOTS_AT + slot * SLOT_BYTES;
            compiler_fence(Ordering::SeqCst);
            self.map[at..at + 8].fill(0);
            self.free.push(slot);
        }
    }

    /// Takes out all but those with such cookies.
    pub(super) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        let mut gone: Vec<u64> = self.slots.keys().copied().collect();
        gone.retain(|cookie| !stays(*cookie));
        for cookie in gone {
            self.end(cookie);
        }
    }
}

/// What is in the table at `path`, whoever has it; nothing if there is none.
///
/// # Errors
/// What the system said.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Change>> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() >= BYTES && bytes.starts_with(MAGIC) => Ok((0..SLOTS)
            .filter_map(|slot| change_in(&bytes, slot))
            .collect()),
        Ok(_) => Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn change_in(bytes: &[u8], slot: usize) -> Option<Change> {
    let at = SLOTS_AT + slot * SLOT_BYTES;
    let number = |at: usize| {
        bytes[at..]
            .first_chunk()
            .map(|bytes| u64::from_le_bytes(*bytes))
    };
    let change = Change {
        cookie: number(at)?,
        offset: number(at + 8)?,
        length: number(at + 16)?,
    };
    (change.cookie != 0 && change.length > 0).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(cookie: u64) -> Change {
        Change {
            cookie,
            offset: cookie * 4096,
            length: 4096,
        }
    }

    #[test]
    fn what_was_not_answered_is_found_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let (mut table, found) = Table::open(&path).unwrap();
        assert_eq!(found, []);
        for cookie in 1..=5 {
            table.begin(change(cookie));
        }
        table.end(2);
        table.end(4);
        table.end(4);
        drop(table);

        assert_eq!(read(&path).unwrap().len(), 3);
        let (mut table, mut found) = Table::open(&path).unwrap();
        found.sort_by_key(|change| change.cookie);
        assert_eq!(found, [change(1), change(3), change(5)]);
        table.begin(change(6));
        table.retain(|cookie| cookie == 3);
        drop(table);
        assert_eq!(Table::open(&path).unwrap().1, [change(3)]);
    }

    #[test]
    fn it_has_one_user_and_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let (mut table, _) = Table::open(&path).unwrap();
        let second = Table::open(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        while table.room() > 0 {
            table.begin(change(table.room() as u64));
        }
        assert_eq!(read(&path).unwrap().len(), SLOTS);
        table.retain(|_| false);
        assert_eq!(table.room(), SLOTS);
        drop(table);
        assert!(!path.exists(), "an empty one is not kept");
    }

    #[test]
    fn there_is_room_for_a_session_however_many_were_left() {
        let dir = tempfile::tempdir().unwrap();
        let (mut table, _) = Table::open(&dir.path().join("table")).unwrap();
        let mut changes: Vec<Change> = (1..=FORMER_MAX as u64).map(change).collect();
        table.refill(&mut changes);
        assert_eq!(
            (changes.len(), table.room()),
            (FORMER_MAX, SLOTS - FORMER_MAX)
        );
        changes.push(change(1 << 40));
        table.refill(&mut changes);
        assert_eq!((changes, table.room()), (vec![Change::ANYWHERE], SLOTS - 1));
    }

    #[test]
    fn a_file_of_something_else_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        std::fs::write(&path, vec![0xa5; 2 * BYTES]).unwrap();
        assert_eq!(read(&path).unwrap(), []);
        let (table, found) = Table::open(&path).unwrap();
        assert_eq!((table.room(), found), (SLOTS, Vec::new()));
    }
}
