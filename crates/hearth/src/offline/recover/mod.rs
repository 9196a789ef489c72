//! Getting at what waits on flash for its origin, without the daemon.
//!
//! ```text
//!   flash, memory of a killed daemon ──look──► logs ──verify──► whose bytes are what was written
//!                                               │
//!                    destage ─► origin          ├─► export ─► file, or a copy of the origin
//!                       └─────► owner's record: closed, a later epoch
//!                    drop ────► owner's record: closed, a later epoch
//! ```
//!
//! Nothing here writes to the flash. What has been brought to the origin, or given up, is void from
//! then on because the owner's record has a later epoch than the flash: that is one durable write, and
//! all that is needed.

mod content;
mod target;

pub use content::{Content, Verified};
pub use target::{FileTarget, OriginTarget, Piece, Target, TargetError};

use super::OfflineError;
use block_io::{BufPool, FlashDone, FlashVerb, IoError};
use cache::{DirtyReport, Effect, Inspection, LeftChunk, LogReport, OwnerRecord};
use daemon::superblock;
use device::retained::RetainedMemory;
use device::uring::FlashFile;
use shard::{OwnerError, OwnerFile};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use units::{Bytes, Instant};

/// A flash that no daemon uses, and what on it waits for its origin.
pub struct Looked {
    /// What was found.
    pub report: DirtyReport,
    file: File,
    path: PathBuf,
    /// Held for its lock.
    _lock: FlashFile,
    /// Held for its lock.
    _memory: Option<RetainedMemory>,
}

/// The memory that a killed daemon has left.
#[derive(Clone, Debug)]
pub struct LeftMemory {
    /// Its file.
    pub path: PathBuf,
    /// How many chunks it has room for.
    pub places: usize,
}

/// Looks at the flash at `path`, and at the memory of its daemon if it is known where that is.
///
/// # Errors
/// If a daemon uses either, or the flash cannot be read or is no cache.
pub fn look(path: &Path, memory: Option<&LeftMemory>) -> Result<Looked, OfflineError> {
    let lock = FlashFile::open(path)?;
    let failed = |source| OfflineError::Io {
        path: path.to_owned(),
        source,
    };
    let capacity = lock.capacity();
    let uuid = superblock(path, capacity).map_err(failed)??.uuid;
    let file = File::open(path).map_err(failed)?;
    let (memory, left) = match memory.filter(|memory| memory.path.exists()) {
        Some(memory) => {
            let (memory, left) = RetainedMemory::open(&memory.path, uuid, memory.places)?;
            (Some(memory), left)
        }
        None => (None, Vec::new()),
    };
    let chunks = left.into_iter().map(|left| LeftChunk {
        head: left.head,
        records: left.records,
        pages: left.pages,
    });
    let mut inspection = Inspection::new(capacity, BufPool::new(), Instant::ZERO);
    inspection.set_left(chunks.collect());
    let report = inspect(&mut inspection, &file)
        .map_err(failed)?
        .map_err(OfflineError::Unreadable)?;
    Ok(Looked {
        report,
        file,
        path: path.to_owned(),
        _lock: lock,
        _memory: memory,
    })
}

/// Drives an inspection: every effect is a read of the flash.
fn inspect(
    inspection: &mut Inspection,
    file: &File,
) -> io::Result<Result<DirtyReport, cache::OpenError>> {
    let mut effects = Vec::new();
    loop {
        inspection.take_effects(&mut effects);
        if let Some(finished) = inspection.finished() {
            return Ok(finished);
        }
        if effects.is_empty() {
            return Err(io::Error::other("the inspection waits for nothing"));
        }
        for effect in effects.drain(..) {
            let Effect::Flash(op) = effect else {
                continue;
            };
            let FlashVerb::Read {
                offset,
                length,
                mut buf,
            } = op.verb
            else {
                return Err(io::Error::other("an inspection writes nothing"));
            };
            let read = file.read_exact_at(&mut buf[..length.to_usize()], offset.get());
            let done = FlashDone {
                token: op.token,
                place: None,
                buf: Some(buf),
                result: read.map_err(|error| IoError::of(&error)),
            };
            inspection.flash_done(done, Instant::ZERO);
        }
    }
}

impl Looked {
    /// The log of the disk that is called so, or has this identity.
    pub fn log(&self, disk: &str) -> Option<&LogReport> {
        let mut logs = self.report.logs.iter();
        logs.find(|log| log.name == disk || log.id.to_string() == disk)
    }

    /// What is in a log, with its bytes at hand.
    pub fn content<'a>(&'a self, log: &'a LogReport) -> Content<'a> {
        Content::new(log, &self.file, &self.path)
    }
}

/// Where a log stands against the owner's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The next attach serves it and brings it to the origin.
    Waiting,
    /// It waits, and something is wrong with it: the operator has to decide.
    Locked,
    /// The origin has it, or it was given up.
    Void,
    /// The record says that another cache may have newer bytes.
    Elsewhere,
    /// Nothing says that the origin lacks it: the record is missing, or older.
    Unrecorded,
    /// The disk roams, and another host has it: what counts is there, or at the origin.
    Kept,
    /// It waits, and this host has decided to give the disk away with it: another host may have all of it.
    Leaving,
}

impl Standing {
    /// The word in JSON and tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Locked => "locked",
            Self::Void => "void",
            Self::Elsewhere => "elsewhere",
            Self::Unrecorded => "unrecorded",
            Self::Kept => "kept",
            Self::Leaving => "leaving",
        }
    }

    /// Where the log of cache `uuid` stands if its owner's record is this.
    pub fn of(log: &LogReport, uuid: u128, record: Option<OwnerRecord>) -> Self {
        match record {
            None => Self::Unrecorded,
            Some(record) if record.cache != uuid && record.open => Self::Elsewhere,
            Some(record) if record.cache != uuid => Self::Void,
            Some(record) if log.epoch > record.epoch => Self::Unrecorded,
            Some(record) if !record.open => Self::Void,
            Some(_) if log.locked.is_some() => Self::Locked,
            Some(_) => Self::Waiting,
        }
    }
}

/// Writes down that no cache has bytes of a disk that its origin lacks: whatever a flash has is void.
///
/// # Errors
/// [`OwnerError`].
pub fn close(
    file: &OwnerFile,
    before: Option<OwnerRecord>,
    log_epoch: u64,
) -> Result<u64, OwnerError> {
    let epoch = before.map_or(0, |record| record.epoch).max(log_epoch) + 1;
    let record = OwnerRecord {
        epoch,
        cache: 0,
        open: false,
    };
    file.store(record, 0)?;
    Ok(epoch)
}

/// Bytes of a log: its blocks, and what its erasures erase.
pub fn sizes(log: &LogReport) -> (Bytes, Bytes) {
    let (mut blocks, mut erased) = (0_u64, 0_u64);
    for record in &log.records {
        match &record.what {
            cache::FoundWhat::Block { .. } => blocks += 1,
            cache::FoundWhat::Erasure(erasure) => erased += u64::from(erasure.blocks),
        }
    }
    let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(units::BLOCK_BYTES));
    (bytes(blocks), bytes(erased))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::LockReason;
    use flash_format::Position;
    use shard::Folders;
    use units::DiskId;

    fn log(epoch: u64, locked: Option<LockReason>) -> LogReport {
        LogReport {
            id: DiskId::from_u128(1),
            name: "web".to_owned(),
            size: Bytes::mib(1),
            epoch,
            watermark: Position::START,
            locked,
            key: None,
            records: Vec::new(),
        }
    }

    #[test]
    fn a_log_stands_as_the_record_says() {
        let record = |cache, epoch, open| Some(OwnerRecord { epoch, cache, open });
        let stands = |log: &LogReport, record| Standing::of(log, 7, record);
        let whole = log(3, None);
        assert_eq!(stands(&whole, None), Standing::Unrecorded);
        assert_eq!(stands(&whole, record(7, 3, true)), Standing::Waiting);
        assert_eq!(stands(&whole, record(7, 4, true)), Standing::Waiting);
        assert_eq!(stands(&whole, record(7, 2, true)), Standing::Unrecorded);
        assert_eq!(stands(&whole, record(7, 3, false)), Standing::Void);
        assert_eq!(stands(&whole, record(0, 4, false)), Standing::Void);
        assert_eq!(stands(&whole, record(8, 4, true)), Standing::Elsewhere);
        let locked = log(3, Some(LockReason::Damaged));
        assert_eq!(stands(&locked, record(7, 3, true)), Standing::Locked);
    }

    #[test]
    fn what_is_closed_is_void_for_every_flash() {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("web.raw");
        std::fs::write(&origin, "").unwrap();
        let origin = origin::OriginSpec::File(origin::FileSpec {
            direct: false,
            ..origin::FileSpec::new(origin)
        });
        let file = OwnerFile::new(
            DiskId::from_u128(1),
            &origin,
            &Folders::alone(folder.path()),
            "recover",
        );
        assert_eq!(close(&file, None, 3), Ok(4));
        let now = file.load().unwrap().unwrap().record;
        assert_eq!(Standing::of(&log(3, None), 7, Some(now)), Standing::Void);
        assert_eq!(close(&file, Some(now), 3), Ok(5));
    }
}
