//! A file or block device through `io_uring`.

use super::{Address, Done, Geometry, Needs, Prepared, Request, Target, fill_with_noise, whole};
use crate::LoadError;
use crate::limits::{DEPTH_MAX, ERASE_BYTES_MAX, RING_ENTRIES_MAX};
use block_io::{Buf, BufPool, Slice};
use ring::{Op, Ring, Source, SourceId};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use units::Duration;

/// A file that is open.
pub(crate) struct OpenFile {
    fd: OwnedFd,
}

/// Opens it, once for each job. Who writes excludes everybody who asks for a lock (and, on a
/// block device, whoever has mounted it); who reads shares.
pub(super) fn open(
    address: &Address,
    path: &Path,
    direct: bool,
    needs: &Needs,
) -> Result<(Geometry, Vec<Prepared>), LoadError> {
    let unreachable = |errno: Errno| address.unreachable(errno.into());
    let kind = FileType::from_raw_mode(rustix::fs::stat(path).map_err(unreachable)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::BlockDevice) {
        return Err(address.refused("it is neither a file nor a block device"));
    }
    let mut flags = OFlags::CLOEXEC;
    flags |= if needs.writes {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    if direct {
        flags |= OFlags::DIRECT;
    }
    if needs.writes && kind == FileType::BlockDevice {
        flags |= OFlags::EXCL;
    }
    let in_use = || address.refused("somebody else uses it: a daemon, a VM, or a mount");
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let fd = opened.map_err(|errno| match errno {
        Errno::BUSY => in_use(),
        Errno::INVAL if direct => address.refused("its file system knows no direct I/O"),
        errno => unreachable(errno),
    })?;
    let lock = if needs.writes {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    rustix::fs::flock(&fd, lock).map_err(|errno| match errno {
        Errno::WOULDBLOCK => in_use(),
        errno => unreachable(errno),
    })?;
    let size = rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(unreachable)?;
    let geometry = Geometry {
        size,
        unit: if direct { 512 } else { 1 },
        request_max: u32::MAX,
        erase_max: ERASE_BYTES_MAX,
        depth_max: DEPTH_MAX,
        read_only: false,
        can_trim: true,
        can_zero: true,
        can_flush: true,
    };
    // Duplicates share the lock; it ends with the last of them.
    let jobs = (0..needs.jobs).map(|_| {
        let fd = rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0).map_err(unreachable)?;
        Ok(Prepared::File(OpenFile { fd }))
    });
    Ok((geometry, jobs.collect::<Result<_, LoadError>>()?))
}

enum Held {
    Nothing,
    /// What a read has left.
    Data(Buf),
}

struct Slot {
    held: Held,
    /// Bytes that have to have been moved.
    expected: usize,
}

/// A file on a job's ring.
pub(super) struct FileTarget {
    file: Rc<OwnedFd>,
    ring: Ring,
    source: Source,
    ready: Vec<SourceId>,
    pool: BufPool,
    noise: Slice,
    slots: Vec<Slot>,
    keeps_data: bool,
}

impl FileTarget {
    pub(super) fn new(open: OpenFile, needs: &Needs) -> io::Result<Self> {
        let entries = needs.depth.clamp(8, RING_ENTRIES_MAX);
        let ring = Ring::sleeping(u32::try_from(entries).expect("the limit fits"))?;
        let pool = BufPool::new();
        let mut noise = pool.take(needs.request_bytes);
        fill_with_noise(&mut noise);
        let slot = |_| Slot {
            held: Held::Nothing,
            expected: 0,
        };
        Ok(Self {
            file: Rc::new(open.fd),
            source: ring.source(),
            ring,
            ready: Vec::new(),
            pool,
            noise: noise.freeze(),
            slots: (0..needs.depth).map(slot).collect(),
            keeps_data: needs.keeps_data,
        })
    }
}

fn fallocate(file: Rc<OwnedFd>, mode: FallocateFlags, offset: u64, length: u32) -> Op {
    Op::Fallocate {
        file,
        mode: i32::try_from(mode.bits()).expect("two low bits"),
        offset,
        length: u64::from(length),
    }
}

impl Target for FileTarget {
    fn submit(&mut self, slot: usize, request: Request, data: Option<&[u8]>) -> io::Result<()> {
        let file = Rc::clone(&self.file);
        let mut expected = 0;
        let op = match request {
            Request::Read { offset, length } => {
                expected = length as usize;
                let held = std::mem::replace(&mut self.slots[slot].held, Held::Nothing);
                let buf = match held {
                    Held::Data(buf) if buf.len() >= expected => buf,
                    Held::Data(_) | Held::Nothing => self.pool.take(expected),
                };
                Op::Read {
                    file,
                    offset,
                    buf,
                    length: expected,
                }
            }
            Request::Write { offset, length } => {
                expected = length as usize;
                let data = match data {
                    Some(bytes) => self.pool.copy_of(bytes),
                    None => self.noise.slice(0..expected),
                };
                Op::Write {
                    file,
                    offset,
                    data,
                    dsync: false,
                }
            }
            Request::Trim { offset, length } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, mode, offset, length)
            }
            Request::WriteZeroes { offset, length } => {
                let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(file, mode, offset, length)
            }
            Request::Flush { data_only } => Op::Fsync {
                file,
                datasync: data_only,
            },
        };
        self.slots[slot].expected = expected;
        self.source.submit(slot as u64, op);
        Ok(())
    }

    fn wait(&mut self, timeout: Duration, done: &mut Vec<Done>) -> io::Result<()> {
        self.ring.submit_and_wait(Some(timeout))?;
        self.ring.take_ready(&mut self.ready);
        self.ready.clear();
        while let Some(completion) = self.source.pop() {
            let slot = usize::try_from(completion.token).expect("a slot's number");
            if let Some(buf) = completion.buf {
                self.slots[slot].held = Held::Data(buf);
            }
            let result = whole(completion.result, self.slots[slot].expected);
            done.push(Done { slot, result });
        }
        Ok(())
    }

    fn fetch(&mut self, slot: usize, into: &mut [u8]) {
        assert!(self.keeps_data, "whoever looks at data says so before");
        let Held::Data(buf) = &self.slots[slot].held else {
            unreachable!("a read leaves its buffer")
        };
        into.copy_from_slice(&buf[..into.len()]);
    }
}
