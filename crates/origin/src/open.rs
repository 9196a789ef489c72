//! Opening an origin, in two steps: reach it, then put it on a shard's ring.

use crate::{Identity, ImageFormat, Keeping, Origin, OriginSpec, file, nbd};
use block_io::{BufPool, OriginGeometry};
use ring::Ring;
use std::io;
use std::path::PathBuf;
use units::Bytes;

/// Why an origin cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, device or server cannot be reached at all; it may be later.
    #[error("cannot reach origin {origin}")]
    Unreachable {
        /// The origin as its specification prints.
        origin: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open for writing; ours would be a second writer.
    #[error("origin {origin} is in use by {by}")]
    InUse {
        /// The origin as its specification prints.
        origin: String,
        /// By whom, as far as is known.
        by: &'static str,
    },
    /// The server answered, and refuses or breaks the protocol.
    #[error("origin {origin} refused: {reason}")]
    Refused {
        /// The origin as its specification prints.
        origin: String,
        /// The server's words, or what was wrong with them.
        reason: String,
    },
    /// It has a size that no disk can have.
    #[error("origin {origin} is {size} long, which is not a positive multiple of {sector}")]
    Size {
        /// The origin as its specification prints.
        origin: String,
        /// Its size.
        size: Bytes,
        /// The unit it has to be a multiple of.
        sector: Bytes,
    },
    /// It cannot be remembered which changes are in flight, or known which were.
    #[error("cannot keep the record of changes in flight to origin {origin} in {}", path.display())]
    Record {
        /// The origin as its specification prints.
        origin: String,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is open for reading only and the disk is to be written.
    #[error("origin {origin} is read-only, the disk is not")]
    ReadOnly {
        /// The origin as its specification prints.
        origin: String,
    },
}

/// An origin that was reached: its geometry is known, it can move to its shard's thread.
#[derive(Debug)]
pub struct Opened(Form);

#[derive(Debug)]
enum Form {
    File(file::OpenedFile),
    Nbd(Box<nbd::Dialled>),
}

/// Reaches an origin. Blocks for as long as the origin takes, up to the specification's own
/// time limits; to be called from a thread that may wait.
///
/// With `read_only` nothing will be written, and several may have it open.
///
/// # Errors
/// [`OpenError`]; every variant names the origin.
pub fn open(spec: &OriginSpec, read_only: bool) -> Result<Opened, OpenError> {
    let form = match spec {
        OriginSpec::File(spec) => Form::File(file::open(spec, read_only)?),
        OriginSpec::Nbd(spec) => Form::Nbd(Box::new(nbd::dial(spec, read_only, None)?)),
    };
    Ok(Opened(form))
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
    match spec {
        OriginSpec::File(_) => open(spec, read_only),
        OriginSpec::Nbd(spec) => {
            let dialled = nbd::dial(spec, read_only, Some(keeping))?;
            Ok(Opened(Form::Nbd(Box::new(dialled))))
        }
    }
}

/// How long an origin is now, whoever has it open. Blocks as [`open`] does.
///
/// # Errors
/// [`OpenError`]; every variant names the origin.
pub fn measure(spec: &OriginSpec) -> Result<Bytes, OpenError> {
    match spec {
        OriginSpec::File(spec) => file::measure(spec),
        OriginSpec::Nbd(spec) => Ok(nbd::dial(spec, true, None)?.geometry().size),
    }
}

impl Opened {
    /// Size, sector and abilities.
    pub fn geometry(&self) -> OriginGeometry {
        match &self.0 {
            Form::File(file) => file.geometry(),
            Form::Nbd(dialled) => dialled.geometry(),
        }
    }

    /// Which file it is, if it is a file and its file system can tell for good.
    pub fn identity(&self) -> Option<Identity> {
        match &self.0 {
            Form::File(file) => file.identity(),
            Form::Nbd(_) => None,
        }
    }

    /// The format that its first bytes are of, if it is a file or device that does not seem to hold
    /// a disk's bytes as they are.
    pub fn image_format(&self) -> Option<ImageFormat> {
        match &self.0 {
            Form::File(file) => file.image_format(),
            Form::Nbd(_) => None,
        }
    }

    /// Puts the origin on a shard's ring. Does not block.
    pub fn start(self, ring: &Ring, pool: &BufPool) -> Box<dyn Origin> {
        match self.0 {
            Form::File(opened) => Box::new(file::FileOrigin::new(opened, ring, pool)),
            Form::Nbd(dialled) => Box::new(nbd::NbdOrigin::new(*dialled, ring, pool)),
        }
    }
}
