//! A file or block device as an origin, through the shard's `io_uring`.
//!
//! ```text
//!  read, write ──────────────► one kernel operation; a short one is a failure
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
//! What waits for an `fdatasync` shares it with its neighbours ([`FileSyncs`]). A write with FUA is one
//! operation where the device has such ([`writes_through`]).

mod open;

pub use open::{OpenedFile, measure, open};

use crate::limits::ZERO_PIECE_BYTES;
use crate::{Origin, Sources};
use block_io::{
    BufPool, IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Since, Slice, Token,
};
use ring::{Completion, FileSyncs, Op, Ring, Source, writes_through};
use rustix::fs::{FallocateFlags, SeekFrom};
use slab::Slab;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use units::{Bytes, Instant};
use xxhash_rust::xxh3::Xxh3;

/// What a completion means.
enum Flight {
    /// The operation is over if this many bytes were moved, but for a sync if it has to be durable.
    Last {
        token: Token,
        length: usize,
        durable: Option<Since>,
    },
    /// A discard is over.
    Discard { token: Token },
    /// A step of a write-zeroes is.
    Zero(Zero),
}

struct Zero {
    token: Token,
    offset: Bytes,
    length: Bytes,
    durable: Option<Since>,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// Deallocate the range.
    Punch,
    /// Zero it and keep it allocated.
    ZeroRange,
    /// Write zeroes: `written` bytes are done and `piece` more are in flight.
    Write { written: u64, piece: usize },
}

struct Can {
    punch: bool,
    zero_range: bool,
}

/// A file or block device as an origin.
pub struct FileOrigin {
    file: Rc<OwnedFd>,
    geometry: OriginGeometry,
    memory_align: usize,
    regular: bool,
    writes_through: bool,
    source: Source,
    pool: BufPool,
    flights: Slab<Flight>,
    syncs: FileSyncs,
    /// Ended before they reached the kernel.
    ended: Vec<OriginDone>,
    /// What was not found to be unsupported.
    can: Can,
    /// A piece of zeroes, made when first needed.
    zeroes: Option<Slice>,
}

impl FileOrigin {
    /// Puts an open file on a shard's ring.
    pub fn new(opened: OpenedFile, ring: &Ring, pool: &BufPool) -> Self {
        let fd = Rc::new(opened.fd);
        Self {
            writes_through: writes_through(&fd),
            syncs: FileSyncs::new(Rc::clone(&fd)),
            file: fd,
            geometry: opened.geometry,
            memory_align: opened.memory_align,
            regular: opened.regular,
            source: ring.source(),
            pool: pool.clone(),
            flights: Slab::new(),
            ended: Vec::new(),
            can: Can {
                punch: true,
                zero_range: true,
            },
            zeroes: None,
        }
    }

    fn go(&mut self, flight: Flight, op: Op) {
        let key = self.flights.insert(flight);
        self.source.submit(key as u64, op);
    }

    fn end(&mut self, token: Token, result: Result<(), IoError>) {
        let buf = None;
        self.ended.push(OriginDone { token, buf, result });
    }

    /// Whether the file has become shorter than the disk.
    fn has_shrunk(&self) -> bool {
        self.regular
            && rustix::fs::fstat(&self.file).is_ok_and(|stat| {
                u64::try_from(stat.st_size).unwrap_or(0) < self.geometry.size.get()
            })
    }

    fn write(&mut self, token: Token, offset: Bytes, data: Slice, fua: bool) {
        let length = data.len();
        let data = if data.as_ptr().addr().is_multiple_of(self.memory_align) {
            data
        } else {
            self.pool.copy_of(&data)
        };
        let op = Op::Write {
            file: Rc::clone(&self.file),
            offset: offset.get(),
            data,
            dsync: fua && self.writes_through,
        };
        let waits = fua && !self.writes_through;
        let flight = Flight::Last {
            token,
            length,
            durable: waits.then(|| self.syncs.now()),
        };
        self.go(flight, op);
    }

    fn discard(&mut self, token: Token, offset: Bytes, length: Bytes) {
        if self.can.punch {
            let op = self.fallocate(punch(), offset, length);
            self.go(Flight::Discard { token }, op);
        } else {
            self.end(token, Ok(()));
        }
    }

    fn fallocate(&self, mode: FallocateFlags, offset: Bytes, length: Bytes) -> Op {
        Op::Fallocate {
            file: Rc::clone(&self.file),
            mode: mode.bits().cast_signed(),
            offset: offset.get(),
            length: length.get(),
        }
    }

    /// Ends what has been carried out whole, now or with the next sync.
    fn end_durable(&mut self, token: Token, durable: Option<Since>) {
        match durable.map(|since| self.syncs.wait(token, since)) {
            None => self.end(token, Ok(())),
            Some(Ok(())) => self.syncs.issue(&self.source),
            Some(Err(error)) => self.end(token, Err(error)),
        }
    }

    fn synced(&mut self, outcome: io::Result<usize>) {
        let (ended, result) = self.syncs.end(outcome);
        for token in ended {
            self.end(token, result);
        }
        self.syncs.issue(&self.source);
    }

    /// Begins or continues a write-zeroes with the step it is at.
    fn zero(&mut self, mut zero: Zero) {
        let op = match zero.step {
            Step::Punch => self.fallocate(punch(), zero.offset, zero.length),
            Step::ZeroRange => {
                let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                self.fallocate(mode, zero.offset, zero.length)
            }
            Step::Write { written, .. } => {
                let left = Bytes::new(zero.length.get() - written).to_usize();
                let piece = left.min(ZERO_PIECE_BYTES);
                zero.step = Step::Write { written, piece };
                Op::Write {
                    file: Rc::clone(&self.file),
                    offset: zero.offset.get() + written,
                    data: self.zeroes().slice(0..piece),
                    dsync: false,
                }
            }
        };
        self.go(Flight::Zero(zero), op);
    }

    /// The cheapest step that has not been found to be unsupported.
    fn first_step(&self, may_unmap: bool) -> Step {
        if may_unmap && self.can.punch {
            Step::Punch
        } else if self.can.zero_range {
            Step::ZeroRange
        } else {
            Step::Write {
                written: 0,
                piece: 0,
            }
        }
    }

    fn zeroed(&mut self, mut zero: Zero, result: io::Result<usize>) {
        let failed = match (zero.step, result) {
            (Step::Punch, Err(error)) if is_unsupported(&error) => {
                self.can.punch = false;
                zero.step = self.first_step(false);
                return self.zero(zero);
            }
            (Step::ZeroRange, Err(error)) if is_unsupported(&error) => {
                self.can.zero_range = false;
                zero.step = self.first_step(false);
                return self.zero(zero);
            }
            (_, Err(error)) => IoError::of(&error),
            (Step::Punch | Step::ZeroRange, Ok(_)) => {
                return self.end_durable(zero.token, zero.durable);
            }
            (Step::Write { written, piece }, Ok(moved)) if moved == piece => {
                let written = written + piece as u64;
                if written == zero.length.get() {
                    return self.end_durable(zero.token, zero.durable);
                }
                zero.step = Step::Write { written, piece: 0 };
                return self.zero(zero);
            }
            (Step::Write { .. }, Ok(_)) => IoError::Failed,
        };
        self.end(zero.token, Err(failed));
    }

    fn zeroes(&mut self) -> &Slice {
        let pool = &self.pool;
        self.zeroes
            .get_or_insert_with(|| pool.take_zeroed(ZERO_PIECE_BYTES).freeze())
    }

    fn land(&mut self, completion: Completion) {
        let key = usize::try_from(completion.token).expect("a slab's key");
        match self.flights.remove(key) {
            Flight::Last {
                token,
                length,
                durable,
            } => {
                let result = match completion.result {
                    Ok(moved) if moved == length => Ok(()),
                    // The file ends early: it was truncated, and is not the disk we attached.
                    Ok(_) => Err(IoError::Failed),
                    Err(error) => Err(IoError::of(&error)),
                };
                if result.is_ok() && durable.is_some() {
                    return self.end_durable(token, durable);
                }
                let buf = completion.buf;
                self.ended.push(OriginDone { token, buf, result });
            }
            Flight::Discard { token } => match completion.result {
                Err(error) if is_unsupported(&error) => {
                    self.can.punch = false;
                    self.end(token, Ok(()));
                }
                Err(error) => self.end(token, Err(IoError::of(&error))),
                Ok(_) => self.end(token, Ok(())),
            },
            Flight::Zero(zero) => self.zeroed(zero, completion.result),
        }
    }
}

impl Origin for FileOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn submit(&mut self, op: OriginOp, _now: Instant) {
        let token = op.token;
        let changes = matches!(
            op.verb,
            OriginVerb::Write { .. } | OriginVerb::Discard { .. } | OriginVerb::WriteZeroes { .. }
        );
        let mut checked = op.verb.check(&self.geometry);
        if changes && checked.is_ok() && self.has_shrunk() {
            checked = Err(IoError::Failed);
        }
        if let Err(error) = checked {
            self.ended.push(OriginDone {
                token,
                buf: op.verb.into_buf(),
                result: Err(error),
            });
            return;
        }
        match op.verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => {
                let length = length.to_usize();
                let op = Op::Read {
                    file: Rc::clone(&self.file),
                    offset: offset.get(),
                    buf,
                    length,
                };
                let durable = None;
                let flight = Flight::Last {
                    token,
                    length,
                    durable,
                };
                self.go(flight, op);
            }
            OriginVerb::Write { offset, data, fua } => self.write(token, offset, data, fua),
            OriginVerb::Flush => self.end_durable(token, Some(self.syncs.now())),
            OriginVerb::Discard { offset, length } => self.discard(token, offset, length),
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => self.zero(Zero {
                token,
                offset,
                length,
                durable: fua.then(|| self.syncs.now()),
                step: self.first_step(may_unmap),
            }),
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
