//! Opening an origin, in two steps: reach it, then put it on a shard's ring.

use crate::{Identity, ImageFormat, Keeping, LockWatch, OpenError, Origin, OriginSpec};
use block_io::{BufPool, OriginGeometry};
use ring::Ring;
use std::{fmt, io};

/// One kind of origin: what its specification can do.
pub(crate) trait Kind: fmt::Display {
    /// Reaches the origin: see [`open`] and, with `keeping`, [`open_keeping`].
    fn reach(
        &self,
        read_only: bool,
        keeping: Option<&Keeping>,
    ) -> Result<Box<dyn Reached>, OpenError>;

    /// Reaches the origin while another host writes it: see [`open_beside`].
    fn reach_beside(&self) -> Result<Box<dyn Reached>, OpenError>;

    /// What it is now: see [`measure`].
    fn measure(&self) -> Result<OriginGeometry, OpenError>;

    /// The session has ended: see [`settle`].
    fn settle(&self, _keeping: &Keeping, _is_leaving: bool) -> io::Result<()> {
        Ok(())
    }

    /// Another host is gone: see [`expect_anything`].
    fn expect_anything(&self, _keeping: &Keeping) -> io::Result<()> {
        Ok(())
    }
}

/// An origin of one kind that was reached: what [`Opened`] does.
pub(crate) trait Reached: fmt::Debug + Send {
    fn geometry(&self) -> OriginGeometry;

    fn identity(&self) -> Option<Identity> {
        None
    }

    fn image_format(&self) -> Option<ImageFormat> {
        None
    }

    fn lock_watch(&self) -> Option<LockWatch> {
        None
    }

    fn start(self: Box<Self>, ring: &Ring, pool: &BufPool) -> Box<dyn Origin>;
}

/// An origin that was reached: its geometry is known, it can move to its shard's thread.
#[derive(Debug)]
pub struct Opened(Box<dyn Reached>);

/// Reaches an origin. Blocks for as long as the origin takes, up to the specification's own
/// time limits; to be called from a thread that may wait.
///
/// With `read_only` nothing will be written, and several may have it open.
///
/// # Errors
/// [`OpenError`]; every variant names the origin.
pub fn open(spec: &OriginSpec, read_only: bool) -> Result<Opened, OpenError> {
    spec.kind().reach(read_only, None).map(Opened)
}

/// Reaches an origin as [`open`] does. Changes that are in flight outlive the process in `keeping`, and
/// those that former sessions have left there are not overtaken: it may block for 2 s more.
///
/// # Errors
/// [`OpenError`]; every variant names the origin.
pub fn open_keeping(
    spec: &OriginSpec,
    read_only: bool,
    keeping: &Keeping,
) -> Result<Opened, OpenError> {
    spec.kind().reach(read_only, Some(keeping)).map(Opened)
}

/// Reaches an origin to read it while another host has it open and writes it: what was written there before a read begins is
/// in what that brings. Nothing is locked. Blocks as [`open`] does.
///
/// # Errors
/// [`OpenError`]; every variant names the origin. An origin of which a read may bring older bytes is refused.
pub fn open_beside(spec: &OriginSpec) -> Result<Opened, OpenError> {
    spec.kind().reach_beside().map(Opened)
}

/// How long an origin is now and what it can do for a disk that is written, whoever has it open. Blocks as [`open`] does.
///
/// # Errors
/// [`OpenError`]; every variant names the origin.
pub fn measure(spec: &OriginSpec) -> Result<OriginGeometry, OpenError> {
    spec.kind().measure()
}

/// Does `work`, which asks the file system of an origin that is a file: for no longer than a request may take, and at once in
/// vain as long as somebody waits there. With other origins `work` takes as long as it takes.
///
/// # Errors
/// [`OpenError::Unreachable`] if the file system does not answer.
pub fn within_time<T: Send + 'static>(
    spec: &OriginSpec,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, OpenError> {
    match spec {
        OriginSpec::File(file) => file.within(|_| Ok(work())),
        _ => Ok(work()),
    }
}

/// Sees that a session which has ended, of a disk that was written, leaves nothing to the next one that would not be known
/// there, and that another host can open the origin. `is_leaving`: this process ends. May block.
///
/// # Errors
/// What the system said.
pub fn settle(spec: &OriginSpec, keeping: &Keeping, is_leaving: bool) -> io::Result<()> {
    spec.kind().settle(keeping, is_leaving)
}

/// Remembers durably that another host, which had the origin and is gone for good, may have left anything there: the next
/// session of this host waits for it, or fences it off. May block.
///
/// # Errors
/// What the system said.
pub fn expect_anything(spec: &OriginSpec, keeping: &Keeping) -> io::Result<()> {
    spec.kind().expect_anything(keeping)
}

impl Opened {
    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        self.0.geometry()
    }

    /// Which file it is, if it is a file and its file system can tell for good.
    pub fn identity(&self) -> Option<Identity> {
        self.0.identity()
    }

    /// The format that its first bytes are of, if it is a file or device that does not seem to hold
    /// a disk's bytes as they are.
    pub fn image_format(&self) -> Option<ImageFormat> {
        self.0.image_format()
    }

    /// By what it can be asked whether the origin's lock is still held, where that can be lost without a word: a file that is
    /// written, on NFS or SMB.
    pub fn lock_watch(&self) -> Option<LockWatch> {
        self.0.lock_watch()
    }

    /// Puts the origin on a shard's ring. Does not block.
    pub fn start(self, ring: &Ring, pool: &BufPool) -> Box<dyn Origin> {
        self.0.start(ring, pool)
    }
}
