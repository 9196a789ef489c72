//! A file or block device as an origin, through the shard's `io_uring`.
//!
//! ```text
//!  read ─────────────────────► one kernel operation; a short one is a failure
//!  write ────────────────────► the same; of a short one the rest is tried, which says why
//!  flush ────────────────────► fdatasync
//!  discard ──────────────────► punch a hole; unsupported: nothing, and said so
//!  write zeroes ─► punch or zero the range
//!                      └ unsupported ─► write zeroes, a piece at a time
//!  (fua) when it is done ────► fdatasync
//! ```
//!
//! A file that is shorter than it was is not written: a write behind its end would make it longer
//! again, with a hole where the disk's bytes were, and nobody would see that they are lost.
//!
//! After an `fdatasync` that failed the kernel may have dropped what it could not write, and says so
//! once. `Doubt` keeps what that may be, and no flush succeeds before it is written again. Where the
//! page cache is used it is let go, so that readers see what the file has.
//!
//! A file of this host's own is looked at on the spot before each change. One of another file system (NFS, FUSE, ...) is
//! looked at through the ring, because its server may not answer.
//!
//! What waits for an `fdatasync` shares it with its neighbours ([`FileSyncs`]). A write with FUA is one
//! operation where the device has such ([`writes_through`]).

mod doubt;
mod format;
mod held;
mod kind;
mod look;
mod open;
mod qemu_locks;
mod ranges;
mod zeroing;

pub use format::ImageFormat;
pub use held::{LockFault, LockWatch, may_be_lock_loss};
pub(crate) use open::open_beside;
pub use open::{OpenedFile, measure, open};

use crate::{Origin, Sources};
use block_io::{
    Buf, BufPool, ErrorNumbers, IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Since,
    Slice, Token,
};
use doubt::{Change, Doubt};
use held::FileLock;
use ring::{Completion, FileSyncs, Op, Ring, Source, writes_through};
use rustix::fs::{FallocateFlags, SeekFrom};
use slab::Slab;
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Instant, Offset};
use xxhash_rust::xxh3::Xxh3;
use zeroing::Zero;

/// What a completion means.
enum Flight {
    /// A read is over if this many bytes were moved.
    Read { token: Token, length: usize },
    /// A write is over if all that was left of it was moved.
    Write(Write),
    /// A discard is over.
    Discard { token: Token, change: Change },
    /// A step of a write-zeroes is.
    Zero(Zero),
    /// The file was looked at: a change of it may begin.
    Look(OriginOp),
    /// The page cache has forgotten what a failed sync left there; these waited for that sync.
    Forget { ended: Vec<Token>, error: IoError },
}

impl Flight {
    /// What it changes.
    fn change(&self) -> Option<&Change> {
        match self {
            Self::Write(Write { change, .. })
            | Self::Discard { change, .. }
            | Self::Zero(Zero { change, .. }) => Some(change),
            Self::Read { .. } | Self::Look(_) | Self::Forget { .. } => None,
        }
    }
}

struct Write {
    token: Token,
    change: Change,
    /// What has not been written yet: the end of the range.
    left: Slice,
    /// The write is one command that makes it durable.
    dsync: bool,
    /// It needs a sync afterwards.
    durable: Option<Since>,
}

struct Can {
    punch: bool,
    zero_range: bool,
}

/// A file or block device as an origin.
pub struct FileOrigin {
    file: Rc<OwnedFd>,
    /// What may be watched of the file's lock, as long as this has the file open.
    _lock: Option<Arc<FileLock>>,
    /// As people know it.
    name: String,
    geometry: OriginGeometry,
    memory_align: usize,
    regular: bool,
    /// Its file system is this host's own, so that looking at the file takes no time.
    local: bool,
    writes_through: bool,
    source: Source,
    pool: BufPool,
    flights: Slab<Flight>,
    syncs: FileSyncs,
    doubt: Doubt,
    /// Ended before they reached the kernel.
    ended: Vec<OriginDone>,
    /// What was not found to be unsupported.
    can: Can,
    /// A piece of zeroes, made when first needed.
    zeroes: Option<Slice>,
    numbers: ErrorNumbers,
}

impl FileOrigin {
    /// Puts an open file on a shard's ring.
    pub fn new(opened: OpenedFile, ring: &Ring, pool: &BufPool) -> Self {
        let fd = Rc::new(opened.fd);
        Self {
            writes_through: writes_through(&fd),
            syncs: FileSyncs::new(Rc::clone(&fd)),
            doubt: Doubt::default(),
            file: fd,
            _lock: opened.lock,
            name: opened.name,
            geometry: opened.geometry,
            memory_align: opened.memory_align,
            regular: opened.regular,
            local: opened.local,
            source: ring.source(),
            pool: pool.clone(),
            flights: Slab::new(),
            ended: Vec::new(),
            can: Can {
                punch: true,
                zero_range: true,
            },
            zeroes: None,
            numbers: ErrorNumbers::default(),
        }
    }

    fn go(&mut self, flight: Flight, op: Op) {
        let key = self.flights.insert(flight);
        self.source.submit(key as u64, op);
    }

    fn end(&mut self, token: Token, result: Result<(), IoError>) {
        let buf = None;
        self.ended.push(OriginDone::plain(token, buf, result));
    }

    fn read(&mut self, token: Token, offset: Offset, length: usize, buf: Buf) {
        let op = Op::Read {
            file: Rc::clone(&self.file),
            offset: offset.get(),
            buf,
            length,
        };
        self.go(Flight::Read { token, length }, op);
    }

    /// Begins or continues a write. The kernel may write a part only, of which the rest says why.
    fn write(&mut self, write: Write) {
        let left = write.left.clone();
        let op = Op::Write {
            file: Rc::clone(&self.file),
            offset: write.change.range.end - left.len() as u64,
            data: if left.as_ptr().addr().is_multiple_of(self.memory_align) {
                left
            } else {
                self.pool.copy_of(&left)
            },
            dsync: write.dsync,
        };
        self.go(Flight::Write(write), op);
    }

    fn written(&mut self, mut write: Write, result: io::Result<usize>) {
        let error = match result {
            Ok(moved) if moved == write.left.len() => {
                self.doubt.changed(&write.change, true);
                return self.end_durable(write.token, write.durable);
            }
            Ok(moved) if moved > 0 && moved < write.left.len() => {
                write.left = write.left.slice(moved..write.left.len());
                return self.write(write);
            }
            Ok(_) => IoError::Failed,
            Err(error) => self.numbers.kind_of(write.token, &error),
        };
        self.doubt.changed(&write.change, false);
        if write.dsync {
            // It was a sync, too.
            self.come_into_doubt();
        }
        self.end(write.token, Err(error));
    }

    fn discard(&mut self, token: Token, change: Change) {
        if self.can.punch {
            let op = self.fallocate(punch(), &change.range);
            self.go(Flight::Discard { token, change }, op);
        } else {
            self.end(token, Ok(()));
        }
    }

    fn fallocate(&self, mode: FallocateFlags, range: &Range<u64>) -> Op {
        Op::Fallocate {
            file: Rc::clone(&self.file),
            mode: mode.bits().cast_signed(),
            offset: range.start,
            length: range.end - range.start,
        }
    }

    fn flush(&mut self, token: Token) {
        if self.doubt.is_any() {
            return self.end(token, Err(IoError::Failed));
        }
        self.end_durable(token, Some(self.syncs.now()));
    }

    fn sync(&mut self) {
        if self.syncs.issue(&self.source) {
            self.doubt.sync_began();
        }
    }

    /// Ends what has been carried out whole, now or with the next sync.
    fn end_durable(&mut self, token: Token, durable: Option<Since>) {
        match durable.map(|since| self.syncs.wait(token, since)) {
            None => self.end(token, Ok(())),
            Some(Ok(())) => self.sync(),
            Some(Err(error)) => self.end(token, Err(error)),
        }
    }

    fn synced(&mut self, outcome: io::Result<usize>) {
        let number = outcome.as_ref().err().and_then(io::Error::raw_os_error);
        let (ended, result) = self.syncs.end(outcome);
        self.numbers.keep(&ended, number);
        match result {
            Ok(()) => self.doubt.synced(),
            Err(error) => {
                self.come_into_doubt();
                if self.memory_align == 1 {
                    // Readers must not see pages that the kernel has given up.
                    let file = Rc::clone(&self.file);
                    return self.go(Flight::Forget { ended, error }, Op::Forget { file });
                }
            }
        }
        self.end_all(ended, result);
        self.sync();
    }

    fn end_all(&mut self, ended: Vec<Token>, result: Result<(), IoError>) {
        for token in ended {
            self.end(token, result);
        }
    }

    fn come_into_doubt(&mut self) {
        let flights = self.flights.iter();
        let under_way = flights.filter_map(|(_, flight)| flight.change());
        if self.doubt.sync_failed(under_way) {
            tracing::error!(
                origin = self.name,
                "a sync failed: the origin may lack what was written since the last one. \
                Flushes fail until that is written again, or the disk is detached and attached"
            );
        }
    }

    fn land(&mut self, completion: Completion) {
        let key = usize::try_from(completion.token).expect("a slab's key");
        match self.flights.remove(key) {
            Flight::Read { token, length } => {
                let result = match completion.result {
                    Ok(moved) if moved == length => Ok(()),
                    // The file ends early: it was truncated, and is not the disk we attached.
                    Ok(_) => Err(IoError::Failed),
                    Err(error) => Err(self.numbers.kind_of(token, &error)),
                };
                let buf = completion.buf;
                self.ended.push(OriginDone::plain(token, buf, result));
            }
            Flight::Write(write) => self.written(write, completion.result),
            Flight::Discard { token, change } => {
                self.doubt.changed(&change, completion.result.is_ok());
                match completion.result {
                    Err(error) if is_unsupported(&error) => {
                        self.can.punch = false;
                        self.end(token, Ok(()));
                    }
                    Err(error) => {
                        let error = self.numbers.kind_of(token, &error);
                        self.end(token, Err(error));
                    }
                    Ok(_) => self.end(token, Ok(())),
                }
            }
            Flight::Zero(zero) => self.zeroed(zero, completion.result),
            Flight::Look(op) => self.looked(op, completion),
            // A file system that cannot forget has no pages that it could have given up.
            Flight::Forget { ended, error } => {
                self.end_all(ended, Err(error));
                self.sync();
            }
        }
    }

    fn refuse(&mut self, op: OriginOp, error: IoError) {
        self.ended.push(op.ended(Err(error)));
    }

    /// Begins what was checked.
    fn begin(&mut self, op: OriginOp) {
        let token = op.token;
        let change = |offset: Offset, length: u64| {
            let first = offset.get();
            self.doubt.begin(first..first + length)
        };
        match op.verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => self.read(token, offset, length.to_usize(), buf),
            OriginVerb::Write { offset, data, fua } => {
                let waits = fua && !self.writes_through;
                self.write(Write {
                    token,
                    change: change(offset, data.len() as u64),
                    left: data,
                    dsync: fua && self.writes_through,
                    durable: waits.then(|| self.syncs.now()),
                });
            }
            OriginVerb::Flush => self.flush(token),
            OriginVerb::Discard { offset, length } => {
                self.discard(token, change(offset, length.get()));
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => self.zero(Zero {
                token,
                change: change(offset, length.get()),
                durable: fua.then(|| self.syncs.now()),
                step: self.first_step(may_unmap),
            }),
        }
    }
}

impl Origin for FileOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn submit(&mut self, op: OriginOp, _now: Instant) {
        let looks = op.verb.is_change() && self.regular;
        match op.verb.check(&self.geometry) {
            Err(error) => self.refuse(op, error),
            Ok(()) if looks && !self.local => self.look(op),
            Ok(()) if looks && self.has_shrunk() => self.refuse(op, IoError::Failed),
            Ok(()) => self.begin(op),
        }
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<OriginDone>) {
        while let Some(completion) = self.source.pop() {
            if FileSyncs::is_one(&completion) {
                self.synced(completion.result);
            } else {
                self.land(completion);
            }
        }
        done.append(&mut self.ended);
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.ended.is_empty()).then_some(Instant::ZERO)
    }

    fn sources(&self) -> Sources {
        Sources::from_slice(&[self.source.id()])
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        let end = rustix::fs::seek(&self.file, SeekFrom::End(0)).map_err(|_| IoError::Failed)?;
        let sector = self.geometry.sector.get();
        if size < self.geometry.size || size.get() > end || !size.is_multiple_of(sector) {
            return Err(IoError::Invalid);
        }
        self.geometry.size = size;
        Ok(())
    }

    /// Inode, size, and the times of the last change: any write by anybody moves them. Two
    /// writes within one tick of the file system's clock (4 ms, or none on kernels that give
    /// each a time of its own once somebody looked) share a fingerprint. A block device
    /// keeps no such times, so it has none.
    fn fingerprint(&self) -> Option<u128> {
        if !self.regular {
            return None;
        }
        let stat = rustix::fs::fstat(&self.file).ok()?;
        let fields = [
            i128::from(stat.st_ino),
            i128::from(stat.st_size),
            i128::from(stat.st_mtime),
            i128::from(stat.st_mtime_nsec),
            i128::from(stat.st_ctime),
            i128::from(stat.st_ctime_nsec),
        ];
        let mut hash = Xxh3::new();
        for field in fields {
            hash.update(&field.to_le_bytes());
        }
        Some(hash.digest128())
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.numbers.take(token)
    }
}

const fn punch() -> FallocateFlags {
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE)
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

impl fmt::Debug for FileOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOrigin")
            .field("geometry", &self.geometry)
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::FileSpec;
    use units::DiskSlot;

    #[test]
    fn the_systems_number_is_told_once_of_each_failure() {
        const EBADF: i32 = 9;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, [0; 8192]).unwrap();
        let direct = false;
        let spec = FileSpec {
            direct,
            ..FileSpec::new(path)
        };
        let mut opened = open(&spec, false).unwrap();
        // No write succeeds, as if the kernel had a reason.
        opened.fd = std::fs::File::open(&spec.path).unwrap().into();
        let ring = Ring::new(8).unwrap();
        let pool = BufPool::new();
        let mut origin = FileOrigin::new(opened, &ring, &pool);
        let (disk, fua) = (DiskSlot::new(0), false);
        for token in [Token(1), Token(2)] {
            let data = pool.copy_of(&[1; 4096]);
            let offset = Offset::ZERO;
            let verb = OriginVerb::Write { offset, data, fua };
            origin.submit(OriginOp { token, disk, verb }, Instant::ZERO);
        }
        let mut done = Vec::new();
        while done.len() < 2 {
            ring.submit_and_wait(None).unwrap();
            origin.poll(Instant::ZERO, &mut done);
        }
        for one in done {
            assert_eq!(one.result, Err(IoError::Failed));
            assert_eq!(origin.error_number(one.token), Some(EBADF));
            assert_eq!(origin.error_number(one.token), None);
        }
    }
}
