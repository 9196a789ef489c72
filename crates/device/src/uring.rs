//! Flash as a file or a block device, through the shard's `io_uring`.
//!
//! `O_DIRECT` where the file system has it, so that what we keep on flash is not kept in RAM
//! a second time and a completed write has left the host's memory. Where it has not (tmpfs,
//! some network mounts) the page cache is used, and durability rests on flushes alone, which
//! the contract allows.
//!
//! A durable write is a plain write and a sync shared with its neighbours ([`FileSyncs`]), or one
//! command where the device has such ([`writes_through`] says why). After a failed sync no other
//! succeeds: what had been written without one may be lost, and the kernel says so once.
//!
//! One daemon at a time: a file is locked with `flock`, a block device is opened with
//! `O_EXCL`, which also refuses one that is mounted.

use crate::Device;
use block_io::{
    BounceBuffers, Buf, BufPool, ErrorNumbers, FlashDone, FlashOp, FlashVerb, IoError, PAGE_BYTES,
    Place, Since, Slice, Token,
};
use ring::{
    Completion, FileSyncs, Foreign, Op, PIECES_MAX, Ring, Source, SourceId, writes_through,
};
use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use slab::Slab;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use units::{Bytes, Instant, Offset};

/// Why a flash device cannot be opened or made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is not there or may not be opened.
    #[error("cannot open flash {}", path.display())]
    Unavailable {
        /// The file or device.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses it, or this one already.
    #[error("flash {} is in use", path.display())]
    InUse {
        /// The file or device.
        path: PathBuf,
    },
    /// It is neither a file nor a block device.
    #[error("flash {} is neither a file nor a block device", path.display())]
    NotStorage {
        /// What it is called.
        path: PathBuf,
    },
    /// A new flash file cannot have the size asked for.
    #[error("cannot give flash {} a size of {size}", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The size asked for.
        size: Bytes,
        /// What the system said.
        source: io::Error,
    },
}

/// A flash file or block device that is open and locked. It can move between threads and
/// becomes a [`UringDevice`] on its shard's.
#[derive(Debug)]
pub struct FlashFile {
    fd: OwnedFd,
    capacity: Bytes,
    direct: bool,
    memory_align: usize,
    /// A durable write is one command of the device.
    writes_through: bool,
}

impl FlashFile {
    /// Opens and locks flash for reading and writing.
    ///
    /// # Errors
    /// [`OpenError::Unavailable`], [`OpenError::InUse`] or [`OpenError::NotStorage`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let (fd, direct) = open_locked(path, flags)?;
        let capacity = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0))
            .map_err(|errno| unavailable(path, errno))?;
        let whole_pages = capacity / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        Ok(Self {
            memory_align: memory_align(&fd),
            writes_through: writes_through(&fd),
            fd,
            capacity: Bytes::new(whole_pages),
            direct,
        })
    }

    /// Makes a flash file of this size, or gives one that exists this size, with its blocks
    /// allocated so that writing to it later does not find the file system full. Bytes that
    /// were there stay.
    ///
    /// # Errors
    /// Those of [`FlashFile::open`], and [`OpenError::NoRoom`].
    pub fn create(path: &Path, size: Bytes) -> Result<Self, OpenError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE;
        let (fd, _) = open_locked(path, flags)?;
        let no_room = |errno: Errno| OpenError::NoRoom {
            path: path.to_owned(),
            size,
            source: errno.into(),
        };
        rustix::fs::ftruncate(&fd, size.get()).map_err(no_room)?;
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, size.get()) {
            // A file system that cannot reserve blocks: the cache copes with a full one.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(no_room(errno)),
        }
        rustix::fs::fsync(&fd).map_err(no_room)?;
        drop(fd);
        Self::open(path)
    }

    /// Size in bytes, a multiple of 4 KiB.
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// Fills `buf` from `offset`, waiting for it: for a look before it is put on a ring.
    /// False if the flash ends before that.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, offset: Offset, buf: &mut Buf) -> io::Result<bool> {
        let read = rustix::io::pread(&self.fd, &mut buf[..], offset.get())?;
        Ok(read == buf.len())
    }

    /// Whether it goes around the host's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }
}

/// Opens with `O_DIRECT` or, where the file system refuses that, without.
fn open_locked(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool), OpenError> {
    let failed = |errno| match errno {
        Errno::BUSY => OpenError::InUse {
            path: path.to_owned(),
        },
        errno => unavailable(path, errno),
    };
    let kind = match rustix::fs::stat(path) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        Err(Errno::NOENT) if flags.contains(OFlags::CREATE) => FileType::RegularFile,
        Err(errno) => return Err(failed(errno)),
    };
    let flags = match kind {
        FileType::BlockDevice => (flags - OFlags::CREATE) | OFlags::EXCL,
        FileType::RegularFile => flags,
        _ => {
            return Err(OpenError::NotStorage {
                path: path.to_owned(),
            });
        }
    };
    let (fd, direct) = open_best(path, flags).map_err(failed)?;
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok((fd, direct)),
        Err(Errno::WOULDBLOCK) => Err(OpenError::InUse {
            path: path.to_owned(),
        }),
        Err(errno) => Err(failed(errno)),
    }
}

/// With direct I/O where the file system has it; and without a note of each read in the inode,
/// which only the file's owner may ask for.
fn open_best(path: &Path, flags: OFlags) -> Result<(OwnedFd, bool), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    let quietly = |flags| match rustix::fs::open(path, flags | OFlags::NOATIME, mode) {
        Err(Errno::PERM) => rustix::fs::open(path, flags, mode),
        other => other,
    };
    match quietly(flags | OFlags::DIRECT) {
        Ok(fd) => Ok((fd, true)),
        Err(Errno::INVAL) => Ok((quietly(flags)?, false)),
        Err(errno) => Err(errno),
    }
}

fn unavailable(path: &Path, errno: Errno) -> OpenError {
    OpenError::Unavailable {
        path: path.to_owned(),
        source: errno.into(),
    }
}

/// The alignment in memory that direct I/O asks for, or a page if the kernel does not say.
fn memory_align(fd: &OwnedFd) -> usize {
    let asked = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match asked {
        Ok(stat) if stat.stx_dio_mem_align > 0 => stat.stx_dio_mem_align as usize,
        Ok(_) | Err(_) => PAGE_BYTES,
    }
}

/// What a piece of memory must be a multiple of for direct I/O, whatever the flash's alignment.
const SECTOR_BYTES: usize = 512;

struct Flight {
    token: Token,
    /// Bytes that have to be moved for success.
    length: usize,
    /// What is not ours and is being filled.
    place: Option<Place>,
    /// Waits for a sync when it has been written.
    durable: bool,
}

/// Flash through `io_uring`.
pub struct UringDevice {
    file: Rc<OwnedFd>,
    capacity: Bytes,
    memory_align: usize,
    writes_through: bool,
    source: Source,
    pool: BufPool,
    flights: Slab<Flight>,
    syncs: FileSyncs,
    /// Reads into memory that the flash cannot reach directly.
    bounce_buffers: BounceBuffers,
    refused: Vec<FlashDone>,
    numbers: ErrorNumbers,
}

impl UringDevice {
    /// Puts an open flash file on a shard's ring.
    pub fn new(file: FlashFile, ring: &Ring, pool: &BufPool) -> Self {
        let fd = Rc::new(file.fd);
        Self {
            syncs: FileSyncs::new(Rc::clone(&fd)),
            file: fd,
            capacity: file.capacity,
            memory_align: file.memory_align,
            writes_through: file.writes_through,
            source: ring.source(),
            pool: pool.clone(),
            flights: Slab::new(),
            bounce_buffers: BounceBuffers::new(pool.clone()),
            refused: Vec::new(),
            numbers: ErrorNumbers::default(),
        }
    }

    fn fits(&self, offset: Offset, length: Bytes) -> bool {
        let page = PAGE_BYTES as u64;
        let end = offset.checked_add(length);
        offset.is_multiple_of(page)
            && length.is_multiple_of(page)
            && !length.is_zero()
            && end.is_some_and(|end| end.from_start() <= self.capacity)
    }

    fn go(&mut self, token: Token, length: usize, op: Op) {
        self.fly(
            Flight {
                token,
                length,
                place: None,
                durable: false,
            },
            op,
        );
    }

    fn fly(&mut self, flight: Flight, op: Op) {
        let key = self.flights.insert(flight);
        self.source.submit(key as u64, op);
    }

    /// The memory of a place as the kernel can fill it past the page cache, if it is of a kind that
    /// it can reach, and its pieces are few and lie as direct I/O asks.
    fn reachable(&self, place: &Place) -> Option<Foreign> {
        let memory = place.memory().downcast::<Foreign>().ok()?;
        let part = memory.part(place.range());
        let align = self.memory_align.max(SECTOR_BYTES);
        (part.pieces() <= PIECES_MAX && part.is_aligned_to(align)).then_some(part)
    }

    fn read_into(&mut self, token: Token, offset: Offset, place: Place) {
        if !self.fits(offset, Bytes::new(place.len() as u64)) {
            return self.refuse(token, IoError::Invalid, None, Some(place));
        }
        let Some(into) = self.reachable(&place) else {
            let verb = FlashVerb::ReadInto { offset, place };
            let op = self.bounce_buffers.begin(FlashOp { token, verb });
            return self.carry_out(op);
        };
        let op = Op::ReadInto {
            file: Rc::clone(&self.file),
            offset: offset.get(),
            into,
        };
        let length = place.len();
        let flight = Flight {
            token,
            length,
            place: Some(place),
            durable: false,
        };
        self.fly(flight, op);
    }

    /// The same bytes where direct I/O can take them from.
    fn aligned(&self, data: Slice) -> Slice {
        if data.as_ptr().addr().is_multiple_of(self.memory_align) {
            data
        } else {
            self.pool.copy_of(&data)
        }
    }

    /// The outcome of an operation, unless it waits for a sync now.
    fn land(&mut self, completion: Completion) -> Option<FlashDone> {
        let key = usize::try_from(completion.token).expect("a slab's key");
        let flight = self.flights.remove(key);
        let mut result = match completion.result {
            Ok(moved) if moved == flight.length => Ok(()),
            // The file ends early: somebody truncated it under us.
            Ok(_) => Err(IoError::Failed),
            Err(error) => Err(self.numbers.kind_of(flight.token, &error)),
        };
        if result.is_ok() && flight.durable {
            result = self.syncs.wait(flight.token, Since::OPENED);
            if result.is_ok() {
                return None;
            }
        }
        Some(self.bounce_buffers.end(FlashDone {
            token: flight.token,
            buf: completion.buf,
            place: flight.place,
            result,
        }))
    }

    fn synced(&mut self, outcome: io::Result<usize>, done: &mut Vec<FlashDone>) {
        let number = outcome.as_ref().err().and_then(io::Error::raw_os_error);
        let (ended, result) = self.syncs.end(outcome);
        self.numbers.keep(&ended, number);
        done.extend(ended.into_iter().map(|token| FlashDone {
            token,
            buf: None,
            place: None,
            result,
        }));
    }
}

impl Device for UringDevice {
    fn capacity(&self) -> Bytes {
        self.capacity
    }

    fn submit(&mut self, op: FlashOp, _now: Instant) {
        self.carry_out(op);
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<FlashDone>) {
        done.append(&mut self.refused);
        while let Some(completion) = self.source.pop() {
            if FileSyncs::is_one(&completion) {
                self.synced(completion.result, done);
            } else {
                done.extend(self.land(completion));
            }
        }
        self.syncs.issue(&self.source);
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.refused.is_empty()).then_some(Instant::ZERO)
    }

    fn source(&self) -> Option<SourceId> {
        Some(self.source.id())
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.numbers.take(token)
    }
}

impl UringDevice {
    fn carry_out(&mut self, op: FlashOp) {
        let token = op.token;
        let file = Rc::clone(&self.file);
        match op.verb {
            FlashVerb::Read {
                offset,
                length,
                buf,
            } => {
                if !self.fits(offset, length) || length.get() > buf.len() as u64 {
                    self.refuse(token, IoError::Invalid, Some(buf), None);
                    return;
                }
                let (offset, length) = (offset.get(), length.to_usize());
                let op = Op::Read {
                    file,
                    offset,
                    buf,
                    length,
                };
                self.go(token, length, op);
            }
            FlashVerb::ReadInto { offset, place } => self.read_into(token, offset, place),
            FlashVerb::Write {
                offset,
                data,
                durable,
            } => {
                let length = data.len();
                if !self.fits(offset, Bytes::new(length as u64)) {
                    self.refuse(token, IoError::Invalid, None, None);
                    return;
                }
                let op = Op::Write {
                    file,
                    offset: offset.get(),
                    data: self.aligned(data),
                    dsync: durable && self.writes_through,
                };
                let flight = Flight {
                    token,
                    length,
                    place: None,
                    durable: durable && !self.writes_through,
                };
                self.fly(flight, op);
            }
            FlashVerb::Flush => {
                if let Err(error) = self.syncs.wait(token, Since::OPENED) {
                    return self.refuse(token, error, None, None);
                }
                self.syncs.issue(&self.source);
            }
        }
    }

    fn refuse(&mut self, token: Token, error: IoError, buf: Option<Buf>, place: Option<Place>) {
        let result = Err(error);
        self.refused.push(FlashDone {
            token,
            buf,
            place,
            result,
        });
    }
}

impl fmt::Debug for UringDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDevice")
            .field("capacity", &self.capacity)
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIO: i32 = 5;

    struct Rig {
        device: UringDevice,
        ring: Ring,
        pool: BufPool,
        _folder: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let file = FlashFile::create(&folder.path().join("flash"), Bytes::mib(1));
            let ring = Ring::new(8).expect("a ring");
            let pool = BufPool::new();
            Self {
                device: UringDevice::new(file.expect("a flash file"), &ring, &pool),
                ring,
                pool,
                _folder: folder,
            }
        }

        fn write(&mut self, token: u64) {
            let verb = FlashVerb::Write {
                offset: Offset::kib(8 * token),
                data: self.pool.copy_of(&[1; 8192]),
                durable: true,
            };
            let token = Token(token);
            self.device.submit(FlashOp { token, verb }, Instant::ZERO);
        }

        /// The next completion, which nobody has looked at.
        fn completion(&self) -> Completion {
            loop {
                if let Some(one) = self.device.source.pop() {
                    return one;
                }
                self.ring.submit_and_wait(None).expect("a turn");
            }
        }
    }

    #[test]
    fn a_durable_write_is_not_answered_before_its_sync() {
        let mut rig = Rig::new();
        rig.write(1);
        let written = rig.completion();
        assert!(rig.device.land(written).is_none());
        rig.device.syncs.issue(&rig.device.source);
        let synced = rig.completion();
        assert!(FileSyncs::is_one(&synced));
        let mut done = Vec::new();
        rig.device.synced(synced.result, &mut done);
        assert_eq!((done[0].token, done[0].result), (Token(1), Ok(())));
    }

    #[test]
    fn a_short_or_failed_durable_write_fails_without_a_sync() {
        for (result, expected) in [
            (Ok(4096), IoError::Failed),
            (Err(io::ErrorKind::StorageFull.into()), IoError::NoSpace),
        ] {
            let mut rig = Rig::new();
            rig.write(1);
            let mut written = rig.completion();
            written.result = result;
            let done = rig.device.land(written).expect("it is over");
            assert_eq!(done.result, Err(expected));
            rig.device.syncs.issue(&rig.device.source);
            assert_eq!(rig.device.source.in_flight(), 0);
        }
    }

    #[test]
    fn a_failed_sync_fails_what_is_under_way_and_all_that_comes() {
        let mut rig = Rig::new();
        rig.write(1);
        let first = rig.completion();
        assert!(rig.device.land(first).is_none());
        rig.device.syncs.issue(&rig.device.source);
        rig.write(2);
        // In either order: the sync's own outcome is replaced by a failure.
        let ended = [rig.completion(), rig.completion()];
        let second = ended.into_iter().find(|one| !FileSyncs::is_one(one));
        let mut done = Vec::new();
        let failure = io::Error::from_raw_os_error(EIO);
        rig.device.synced(Err(failure), &mut done);
        assert_eq!(
            (done[0].token, done[0].result),
            (Token(1), Err(IoError::Failed))
        );
        assert_eq!(rig.device.error_number(Token(1)), Some(EIO));
        let second = second.expect("one of the two is the write");
        let second = rig.device.land(second).expect("it is over");
        assert_eq!(second.result, Err(IoError::Failed));
        let token = Token(3);
        let verb = FlashVerb::Flush;
        rig.device.submit(FlashOp { token, verb }, Instant::ZERO);
        done.clear();
        rig.device.poll(Instant::ZERO, &mut done);
        assert_eq!(
            (done[0].token, done[0].result),
            (token, Err(IoError::Failed))
        );
    }
}
