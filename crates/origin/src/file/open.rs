//! Opening a file or block device as an origin, and choosing how to do I/O on it.
//!
//! Direct I/O is used only when it takes single 512-byte sectors. Where it wants more (a
//! device with 4 KiB logical blocks), a guest's 512-byte write would need either a
//! read-modify-write, which can undo a neighbour's write, or a second, buffered descriptor,
//! whose dirty page can be written back over a direct write to the same page. So such a file
//! is used through the page cache altogether: more memory, never a wrong byte.

use super::format::ImageFormat;
use super::held::{FileLock, LockWatch};
use super::qemu_locks::{self, Locked};
use crate::limits::SECTOR;
use crate::spec::{FileSpec, OriginSpec};
use crate::{Identity, OpenError};
use block_io::{BufPool, OriginGeometry, PAGE_BYTES};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{Bytes, Duration};

/// A file or block device that is open and locked: [`crate::file::FileOrigin`] in the making.
#[derive(Debug)]
pub struct OpenedFile {
    pub(super) fd: OwnedFd,
    /// As its specification prints.
    pub(super) name: String,
    pub(super) geometry: OriginGeometry,
    /// Alignment in memory that its I/O asks for; 1 without direct I/O.
    pub(super) memory_align: usize,
    pub(super) regular: bool,
    /// Its file system is this host's own.
    pub(super) local: bool,
    /// How long a request of it may take.
    pub(super) request_timeout: Duration,
    identity: Option<Identity>,
    format: Option<ImageFormat>,
    /// Of a file that is written, on a file system that may lose the lock.
    pub(super) lock: Option<Arc<FileLock>>,
}

impl OpenedFile {
    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    /// Which file it is; a block device has no identity that lasts.
    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// The format that its first bytes are of, if any.
    pub fn image_format(&self) -> Option<ImageFormat> {
        self.format
    }

    /// By what it can be asked whether the lock is still held; `None` where it cannot be lost while the file is open.
    pub fn lock_watch(&self) -> Option<LockWatch> {
        self.lock.as_ref().map(LockWatch::on)
    }

    /// Whether it goes around the host's page cache.
    pub fn is_direct(&self) -> bool {
        self.memory_align > 1
    }
}

/// Opens and locks a file or block device. Writers exclude everybody (`flock`, `O_EXCL` on a block
/// device, and the locks of QEMU's raw driver); readers share.
///
/// # Errors
/// [`OpenError`], each variant naming the origin.
pub fn open(spec: &FileSpec, read_only: bool) -> Result<OpenedFile, OpenError> {
    open_as(
        spec,
        if read_only {
            Access::Read
        } else {
            Access::Write
        },
    )
}

/// Opens a file or block device to read it while another host writes it, without a lock.
///
/// # Errors
/// [`OpenError`], each variant naming the origin. A file on NFS or SMB without direct I/O is refused: this host may have
/// older bytes of it in memory.
pub(crate) fn open_beside(spec: &FileSpec) -> Result<OpenedFile, OpenError> {
    open_as(spec, Access::Beside)
}

/// What a file is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Read,
    Beside,
}

fn open_as(spec: &FileSpec, access: Access) -> Result<OpenedFile, OpenError> {
    let read_only = access != Access::Write;
    let named = OriginSpec::File(spec.clone());
    let failed = |errno: Errno| failed(&named, errno);
    let stat = rustix::fs::stat(&spec.path).map_err(failed)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let mut flags = OFlags::CLOEXEC;
    flags |= if read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    match kind {
        FileType::RegularFile => {}
        FileType::BlockDevice if read_only => {}
        FileType::BlockDevice => flags |= OFlags::EXCL,
        _ => {
            let error = io::Error::other("it is neither a file nor a block device");
            return Err(unreachable_because(&named, error));
        }
    }
    let (fd, memory_align) = open_best(spec, flags).map_err(failed)?;
    lock(&fd, &named, access, memory_align > 1)?;
    let size = Bytes::new(rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(failed)?);
    let sector = Bytes::new(SECTOR);
    if size.is_zero() || !size.is_multiple_of(SECTOR) {
        return Err(OpenError::Size {
            origin: named.to_string(),
            size,
            sector,
        });
    }
    let regular = kind == FileType::RegularFile;
    let local = is_local(&fd);
    let may_lose = access == Access::Write && flock_is_of_bytes(&fd);
    let lock = may_lose.then(|| FileLock::of(&fd, &spec.path, memory_align > 1));
    Ok(OpenedFile {
        lock: lock.transpose().map_err(failed)?,
        identity: regular.then(|| Identity::of(&fd)).flatten(),
        format: ImageFormat::of(&fd).map_err(|error| unreachable_because(&named, error))?,
        fd,
        name: named.to_string(),
        geometry: OriginGeometry {
            size,
            sector,
            read_only,
            can_discard: !read_only,
        },
        memory_align,
        regular,
        local,
        request_timeout: spec.request_timeout,
    })
}

fn failed(named: &OriginSpec, errno: Errno) -> OpenError {
    match errno {
        Errno::BUSY | Errno::WOULDBLOCK => OpenError::InUse {
            origin: named.to_string(),
            by: "another process".into(),
        },
        Errno::ROFS => OpenError::ReadOnly {
            origin: named.to_string(),
        },
        errno => unreachable_because(named, errno.into()),
    }
}

/// Keeps others away, as far as this access asks for it.
fn lock(
    fd: &OwnedFd,
    named: &OriginSpec,
    access: Access,
    is_direct: bool,
) -> Result<(), OpenError> {
    let flock = |lock| rustix::fs::flock(fd, lock).map_err(|errno| failed(named, errno));
    match access {
        Access::Write => flock(FlockOperation::NonBlockingLockExclusive)?,
        Access::Read if flock_is_of_bytes(fd) => {}
        Access::Read => flock(FlockOperation::NonBlockingLockShared)?,
        Access::Beside if is_direct || !flock_is_of_bytes(fd) => return Ok(()),
        Access::Beside => {
            return Err(OpenError::Refused {
                origin: named.to_string(),
                reason: "without direct I/O it may show older bytes than its writer's".to_owned(),
            });
        }
    }
    lock_like_qemu(fd, named, access == Access::Read)
}

/// Whether the file system is one of disks or memory of this host, so that no other host or process has to answer.
fn is_local(fd: &OwnedFd) -> bool {
    const EXT: u32 = 0xef53;
    const XFS: u32 = 0x5846_5342;
    const BTRFS: u32 = 0x9123_683e;
    const F2FS: u32 = 0xf2f5_2010;
    const ZFS: u32 = 0x2fc1_2fc1;
    const TMPFS: u32 = 0x0102_1994;
    is_one_of(fd, &[EXT, XFS, BTRFS, F2FS, ZFS, TMPFS])
}

/// Whether the file system has one of these magic numbers (`statfs(2)`).
fn is_one_of(fd: &OwnedFd, kinds: &[u32]) -> bool {
    let found = rustix::fs::fstatfs(fd).map(|system| i128::from(system.f_type));
    found.is_ok_and(|found| kinds.iter().any(|kind| found == i128::from(*kind)))
}

/// Whether the file system makes a lock of all bytes of a `flock`, as NFS and SMB do. A reader on another
/// host would then seem to have each of the bytes that QEMU locks, and keep further readers away; the
/// locks of bytes are enough there.
fn flock_is_of_bytes(fd: &OwnedFd) -> bool {
    const NFS: u32 = 0x6969;
    const CIFS: u32 = 0xff53_4d42;
    const SMB2: u32 = 0xfe53_4d42;
    is_one_of(fd, &[NFS, CIFS, SMB2])
}

fn lock_like_qemu(fd: &OwnedFd, named: &OriginSpec, read_only: bool) -> Result<(), OpenError> {
    match qemu_locks::lock(fd, read_only) {
        Ok(Locked::Yes) => Ok(()),
        Ok(Locked::InUse) => Err(OpenError::InUse {
            origin: named.to_string(),
            by: "QEMU or one of its tools".into(),
        }),
        Ok(Locked::Unsupported) => {
            tracing::info!(origin = %named, "the file system has no locks that QEMU honours");
            Ok(())
        }
        Err(error) => Err(unreachable_because(named, error)),
    }
}

/// How long a file or block device is now.
///
/// # Errors
/// [`OpenError::Unreachable`].
pub fn measure(spec: &FileSpec) -> Result<OriginGeometry, OpenError> {
    let failed = |errno: Errno| unreachable_because(&OriginSpec::File(spec.clone()), errno.into());
    let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK;
    let fd = rustix::fs::open(&spec.path, flags, Mode::empty()).map_err(failed)?;
    let size = rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(failed)?;
    Ok(OriginGeometry {
        size: Bytes::new(size),
        sector: Bytes::new(SECTOR),
        read_only: false,
        can_discard: true,
    })
}

fn unreachable_because(origin: &OriginSpec, source: io::Error) -> OpenError {
    OpenError::Unreachable {
        origin: origin.to_string(),
        source,
    }
}

/// With direct I/O if it is wanted and takes single sectors; and its alignment in memory.
fn open_best(spec: &FileSpec, flags: OFlags) -> Result<(OwnedFd, usize), Errno> {
    if spec.direct {
        match rustix::fs::open(&spec.path, flags | OFlags::DIRECT, Mode::empty()) {
            Ok(fd) => {
                if let Some(memory_align) = sector_alignment(&fd) {
                    return Ok((fd, memory_align));
                }
            }
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    let fd = rustix::fs::open(&spec.path, flags, Mode::empty())?;
    Ok((fd, 1))
}

/// The alignment in memory for direct I/O on single sectors; `None` if it wants larger ones.
fn sector_alignment(fd: &OwnedFd) -> Option<usize> {
    let told = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(stat) = told
        && stat.stx_dio_offset_align > 0
    {
        let fine = u64::from(stat.stx_dio_offset_align) <= SECTOR;
        return fine.then_some((stat.stx_dio_mem_align as usize).max(2));
    }
    // A kernel or file system that does not say: try.
    let mut page = BufPool::new().take(PAGE_BYTES);
    let sector = Bytes::new(SECTOR).to_usize();
    let tried = rustix::io::pread(fd, &mut page[..sector], SECTOR);
    tried.is_ok().then_some(PAGE_BYTES)
}
