//! Where the content of a dirty log goes: an origin, a file, or nowhere.

use block_io::{BufPool, IoError, OriginOp, OriginVerb, Token};
use origin::{Identity, Keeping, OpenError, Origin, OriginSpec};
use ring::Ring;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use units::{Bytes, DiskSlot, Duration, Offset};

/// Submissions that a ring of one client takes at once.
const RING_ENTRIES: u32 = 8;
/// How long a wait lasts before the origin is looked at anyway.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of zeroes that are written at a time.
const ZERO_PIECE: usize = 1 << 20;

/// Why content could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The origin cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The origin refused.
    #[error("the origin refused what was written at {offset}")]
    Origin {
        /// Where.
        offset: Offset,
        /// With what.
        source: IoError,
    },
    /// It has not the disk's size.
    #[error("{what} has {found}, and the disk had {expected}")]
    Size {
        /// What was opened.
        what: String,
        /// The disk's size on flash.
        expected: Bytes,
        /// What was found.
        found: Bytes,
    },
    /// A file cannot be made or written.
    #[error("cannot write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The ring failed.
    #[error("cannot wait for the origin")]
    Ring(#[source] io::Error),
}

/// What the content of a log is written to. Each call has ended when it returns.
pub trait Target {
    /// Writes whole blocks.
    ///
    /// # Errors
    /// [`TargetError`].
    fn write(&mut self, offset: Offset, data: &[u8]) -> Result<(), TargetError>;
    /// Gives whole blocks up: they read as zeroes, as they did for the guest.
    ///
    /// # Errors
    /// [`TargetError`].
    fn discard(&mut self, offset: Offset, length: Bytes) -> Result<(), TargetError>;
    /// Makes whole blocks read as zeroes.
    ///
    /// # Errors
    /// [`TargetError`].
    fn zero(&mut self, offset: Offset, length: Bytes, may_unmap: bool) -> Result<(), TargetError>;
    /// Makes everything before durable.
    ///
    /// # Errors
    /// [`TargetError`].
    fn flush(&mut self) -> Result<(), TargetError>;
}

/// The disk's origin, locked against everybody else.
pub struct OriginTarget {
    ring: Ring,
    pool: BufPool,
    origin: Box<dyn Origin>,
    identity: Option<Identity>,
}

impl OriginTarget {
    /// Opens an origin that has to have the disk's size. What the sessions of the daemon have left in
    /// its server's hands is in `keeping`: no write goes there before it is over, and the daemon finds
    /// what this session leaves.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn open(spec: &OriginSpec, size: Bytes, keeping: &Keeping) -> Result<Self, TargetError> {
        let opened = origin::open_keeping(spec, false, keeping)?;
        let found = opened.geometry().size;
        if found != size {
            return Err(TargetError::Size {
                what: format!("the origin {spec}"),
                expected: size,
                found,
            });
        }
        let ring = Ring::new(RING_ENTRIES).map_err(TargetError::Ring)?;
        let pool = BufPool::new();
        let identity = opened.identity();
        let origin = opened.start(&ring, &pool);
        Ok(Self {
            ring,
            pool,
            origin,
            identity,
        })
    }

    /// Which file the origin is, if that can be told.
    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    fn carry_out(&mut self, offset: Offset, verb: OriginVerb) -> Result<(), TargetError> {
        let op = OriginOp {
            token: Token(0),
            disk: DiskSlot::new(0),
            verb,
        };
        self.origin.submit(op, self.ring.now());
        let (mut done, mut ready) = (Vec::new(), Vec::new());
        loop {
            self.origin.poll(self.ring.now(), &mut done);
            if let Some(one) = done.pop() {
                let failed = |source| TargetError::Origin { offset, source };
                return one.result.map_err(failed);
            }
            let wait = self.ring.submit_and_wait(Some(LOOK));
            wait.map_err(TargetError::Ring)?;
            self.ring.take_ready(&mut ready);
            ready.clear();
        }
    }
}

impl Target for OriginTarget {
    fn write(&mut self, offset: Offset, data: &[u8]) -> Result<(), TargetError> {
        let data = self.pool.copy_of(data);
        let fua = false;
        self.carry_out(offset, OriginVerb::Write { offset, data, fua })
    }

    /// Zeroes, as the guest read it after the discard: an origin may ignore a discard.
    fn discard(&mut self, offset: Offset, length: Bytes) -> Result<(), TargetError> {
        self.zero(offset, length, true)
    }

    fn zero(&mut self, offset: Offset, length: Bytes, may_unmap: bool) -> Result<(), TargetError> {
        let verb = OriginVerb::WriteZeroes {
            offset,
            length,
            may_unmap,
            fua: false,
        };
        self.carry_out(offset, verb)
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        self.carry_out(Offset::ZERO, OriginVerb::Flush)
    }
}

/// A piece of an exported file that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Where on the disk, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// `data`, `zero` or `discard`.
    pub kind: &'static str,
}

/// A file: a new one that has only what the log has, or a copy of the origin that is brought up to
/// date.
pub struct FileTarget {
    file: File,
    path: PathBuf,
    /// What was written, in order; later pieces count over earlier ones.
    pub pieces: Vec<Piece>,
}

impl FileTarget {
    /// Makes a sparse file of the disk's size where there is none.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn create(path: &Path, size: Bytes) -> Result<Self, TargetError> {
        let made = File::options()
            .write(true)
            .create_new(true)
            .open(path)
            .and_then(|file| file.set_len(size.get()).map(|()| file));
        Self::of(path, made)
    }

    /// Opens a copy of the origin, which has to have the disk's size.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn open(path: &Path, size: Bytes) -> Result<Self, TargetError> {
        let target = Self::of(path, File::options().read(true).write(true).open(path))?;
        let found = target
            .file
            .metadata()
            .map_err(|source| target.failed(source))?;
        let found = Bytes::new(found.len());
        if found != size {
            return Err(TargetError::Size {
                what: path.display().to_string(),
                expected: size,
                found,
            });
        }
        Ok(target)
    }

    fn of(path: &Path, file: io::Result<File>) -> Result<Self, TargetError> {
        let file = file.map_err(|source| TargetError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file,
            path: path.to_owned(),
            pieces: Vec::new(),
        })
    }

    fn failed(&self, source: io::Error) -> TargetError {
        TargetError::File {
            path: self.path.clone(),
            source,
        }
    }

    fn note(&mut self, offset: Offset, length: u64, kind: &'static str) {
        self.pieces.push(Piece {
            offset: offset.get(),
            length,
            kind,
        });
    }

    fn write_zeroes(&self, offset: Offset, length: Bytes) -> io::Result<()> {
        let zeroes = vec![0; ZERO_PIECE];
        let mut done = 0;
        while done < length.get() {
            let piece = Bytes::new(length.get() - done).to_usize().min(ZERO_PIECE);
            self.file
                .write_all_at(&zeroes[..piece], offset.get() + done)?;
            done += piece as u64;
        }
        Ok(())
    }
}

impl Target for FileTarget {
    fn write(&mut self, offset: Offset, data: &[u8]) -> Result<(), TargetError> {
        let written = self.file.write_all_at(data, offset.get());
        written.map_err(|source| self.failed(source))?;
        self.note(offset, data.len() as u64, "data");
        Ok(())
    }

    /// Zeroes, as the guest read it after the discard.
    fn discard(&mut self, offset: Offset, length: Bytes) -> Result<(), TargetError> {
        let written = self.write_zeroes(offset, length);
        written.map_err(|source| self.failed(source))?;
        self.note(offset, length.get(), "discard");
        Ok(())
    }

    fn zero(&mut self, offset: Offset, length: Bytes, _: bool) -> Result<(), TargetError> {
        let written = self.write_zeroes(offset, length);
        written.map_err(|source| self.failed(source))?;
        self.note(offset, length.get(), "zero");
        Ok(())
    }

    fn flush(&mut self) -> Result<(), TargetError> {
        self.file.sync_data().map_err(|source| self.failed(source))
    }
}
