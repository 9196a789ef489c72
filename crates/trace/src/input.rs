//! The bytes of a trace: from a file or stdin, unpacked while they are read, in one buffer.
//!
//! What packs them is told by their first bytes, never by the file's name: `trace.csv` may be gzip and
//! `trace.gz` plain text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Position, ReadError};
use crate::limits::{CHECKED_BYTES_MAX, INPUT_BUFFER_BYTES, SAMPLE_BYTES};
use crate::seal::{Form, Sealed, bits_between};
use crate::untar::{self, Untar};

/// What a trace is packed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Nothing.
    None,
    /// gzip, one or several members.
    Gzip,
    /// Zstandard, one or several frames.
    Zstd,
    /// xz, one or several streams.
    Xz,
    /// bzip2, one or several streams.
    Bzip2,
}

impl Packing {
    /// The usual name: `none`, `gzip`, `zstd`, `xz`, `bzip2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }

    fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            // The second is a skippable frame, which pzstd writes first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Self::Bzip2,
            _ => Self::None,
        }
    }

    fn unpack(self, source: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(source),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
            Self::Xz => Box::new(lzma_rust2::XzReader::new(source, true)),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        })
    }

    /// What a damaged one is called in errors.
    const fn archive(self) -> &'static str {
        match self {
            Self::None => "file",
            Self::Gzip => "gzip archive",
            Self::Zstd => "zstd archive",
            Self::Xz => "xz archive",
            Self::Bzip2 => "bzip2 archive",
        }
    }
}

/// What a file is that nothing knows and that begins with a magic number but for one bit.
fn nearly(first: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &'static str); 4] = [
        (&[0x1f, 0x8b, 8], Packing::Gzip.archive()),
        (ZSTD_MAGIC, Packing::Zstd.archive()),
        (b"\xfd7zXZ\0", Packing::Xz.archive()),
        (b"PAR1", "Parquet file"),
    ];
    if let [b @ .., level, p, q] = first.get(..6)? {
        // A wrong level of bzip2 is no digit.
        let known = bits_between(b.iter().chain([p, q]).zip(b"BZh\x31\x41"));
        if known + u32::from(!level.is_ascii_digit()) <= 1 {
            return Some(Packing::Bzip2.archive());
        }
    }
    let is_near = |magic: &[u8]| is_nearly(first, magic);
    magic
        .into_iter()
        .find(|(magic, _)| is_near(magic))
        .map(|(_, what)| what)
}

/// Whether bytes begin with others but for one bit at most.
fn is_nearly(first: &[u8], wanted: &[u8]) -> bool {
    first.len() >= wanted.len() && bits_between(first.iter().zip(wanted)) <= 1
}

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How the text begins that Hearth writes, and ends with a seal.
const TEXT_BEGINNING: &[u8] = b"# hearth trace ";

/// Counts the bytes of an archive that its unpacker has seen: damage that it finds is within them.
struct Counted<R> {
    inner: R,
    consumed: u64,
    seen: Arc<AtomicU64>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.consumed += count as u64;
        self.seen.store(self.consumed, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.inner.fill_buf()?;
        let seen = self.consumed + bytes.len() as u64;
        self.seen.store(seen, Ordering::Relaxed);
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        self.inner.consume(count);
        self.consumed += count as u64;
    }
}

/// Bytes of magic numbers that tell the packings apart.
const MAGIC_BYTES: usize = 6;

/// Packed bytes that an unpacker sees at a time: few, so that it is known where damage is.
const PACKED_BUFFER_BYTES: usize = 32 << 10;

/// Bytes that an archive is recognised by.
const TAR_HEADER_BYTES: usize = 512;

/// A source of unpacked bytes and the part of them that is not consumed yet.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    name: String,
    path: Option<PathBuf>,
    packing: Packing,
    is_archive: bool,
    /// Something in it tells whether it is damaged.
    is_checked: bool,
    /// Bytes of the packing that its unpacker has seen.
    seen: Arc<AtomicU64>,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// How many bytes were consumed.
    consumed: u64,
    ended: bool,
}

impl Input {
    /// Opens a file; `-` is stdin.
    ///
    /// # Errors
    /// If it cannot be opened or its first bytes cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let source: io::Result<Box<dyn Read + Send>> = if path == Path::new("-") {
            Ok(Box::new(io::stdin()))
        } else {
            File::open(path).map(|file| Box::new(file) as Box<dyn Read + Send>)
        };
        let source = source.map_err(|source| ReadError::Input {
            file: name.clone(),
            unpacked_bytes: 0,
            remedy: "check the path and the permissions",
            source,
        })?;
        let mut input = Self::new(name, source)?;
        input.path = (path != Path::new("-")).then(|| path.to_owned());
        Ok(input)
    }

    /// The file, if these are its own bytes.
    pub(crate) fn plain_file(&self) -> Option<&Path> {
        let is_plain = self.packing == Packing::None && !self.is_archive;
        self.path.as_deref().filter(|_| is_plain)
    }

    /// Reads from `source` and calls it `name` in errors.
    pub(crate) fn new(name: String, mut source: Box<dyn Read + Send>) -> Result<Self, ReadError> {
        let seen = Arc::new(AtomicU64::new(0));
        let mut packing = Packing::None;
        let opened = first_of(&mut source, MAGIC_BYTES).and_then(|first| {
            packing = Packing::of(&first);
            unpacked(packing, first, source, &seen)
        });
        let unpacked = opened.map_err(|error| {
            let seen = seen.load(Ordering::Relaxed);
            input_error(&name, (packing, false), (seen, 0), error)
        })?;
        Ok(Self {
            source: unpacked.source,
            name,
            path: None,
            packing,
            is_archive: unpacked.is_archive,
            is_checked: unpacked.is_sealed || packing != Packing::None,
            seen,
            buffer: vec![0; INPUT_BUFFER_BYTES],
            start: 0,
            end: 0,
            consumed: 0,
            ended: false,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    /// What is in the buffer and not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The trace's beginning, the same however it arrives, after [`Self::peek`] and before the first record.
    pub(crate) fn sample(&self) -> &[u8] {
        let bytes = self.bytes();
        &bytes[..bytes.len().min(SAMPLE_BYTES)]
    }

    /// True if nothing follows [`Self::bytes`].
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// How many bytes were consumed: the offset of the first of [`Self::bytes`].
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Marks the first `count` of [`Self::bytes`] as read.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.start);
        self.start += count;
        self.consumed += count as u64;
    }

    /// Gets more bytes, keeping those that are not consumed.
    ///
    /// # Panics
    /// If the buffer is full of unconsumed bytes: every format's records are bounded far below its size.
    pub(crate) fn fill(&mut self) -> Result<(), ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        assert!(self.end < self.buffer.len());
        let read = read_some(&mut self.source, &mut self.buffer[self.end..]);
        match read {
            Ok(0) => self.ended = true,
            Ok(count) => self.end += count,
            Err(error) => {
                let came = (
                    self.seen.load(Ordering::Relaxed),
                    self.consumed + self.end as u64,
                );
                let kind = (self.packing, self.is_archive);
                return Err(input_error(&self.name, kind, came, error));
            }
        }
        Ok(())
    }

    /// Reads on after a fault, to tell whether the fault is the trace's or comes of damage: the checksum of
    /// an archive or of a seal follows the bytes that it covers.
    ///
    /// # Errors
    /// If the trace is damaged. It is not checked beyond [`CHECKED_BYTES_MAX`].
    pub(crate) fn check_rest(&mut self) -> Result<(), ReadError> {
        let end = self.consumed.saturating_add(CHECKED_BYTES_MAX);
        while self.is_checked && !self.ended && self.consumed < end {
            self.consume(self.bytes().len());
            self.fill()?;
        }
        Ok(())
    }

    /// The damage of a trace that no format knows because its magic number has a wrong bit.
    pub(crate) fn damaged_magic(&self) -> Option<ReadError> {
        let what = nearly(self.sample()).filter(|_| self.packing == Packing::None)?;
        Some(ReadError::Damaged {
            file: self.name.clone(),
            what,
            position: Some(Position::Byte(MAGIC_BYTES as u64)),
            source: io::Error::new(
                io::ErrorKind::InvalidData,
                "one bit of its magic number is wrong",
            ),
        })
    }

    /// Gets bytes until there are `count` (at most the buffer's size) or the trace ends.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], ReadError> {
        while self.bytes().len() < count && !self.ended {
            self.fill()?;
        }
        Ok(self.bytes())
    }
}

/// A source without its packing.
struct Unpacked {
    source: Box<dyn Read + Send>,
    is_archive: bool,
    is_sealed: bool,
}

/// Takes off the packing and the tar archive, and puts on what compares seals.
fn unpacked(
    packing: Packing,
    first: Vec<u8>,
    source: Box<dyn Read + Send>,
    seen: &Arc<AtomicU64>,
) -> io::Result<Unpacked> {
    let may_have_frame = is_nearly(&first, ZSTD_MAGIC);
    let mut whole: Box<dyn Read + Send> = Box::new(io::Cursor::new(first).chain(source));
    if may_have_frame {
        whole = Box::new(Sealed::new(whole, Form::Frame));
    }
    if packing != Packing::None {
        let counted = Counted {
            inner: BufReader::with_capacity(PACKED_BUFFER_BYTES, whole),
            consumed: 0,
            seen: Arc::clone(seen),
        };
        whole = packing.unpack(counted)?;
    }
    let first = first_of(&mut whole, TAR_HEADER_BYTES)?;
    let is_archive = untar::is_archive(&first);
    let may_have_line = is_nearly(&first, TEXT_BEGINNING);
    let whole = io::Cursor::new(first).chain(whole);
    let source: Box<dyn Read + Send> = if is_archive {
        Box::new(Untar::new(whole))
    } else if may_have_line {
        Box::new(Sealed::new(whole, Form::Line))
    } else {
        Box::new(whole)
    };
    Ok(Unpacked {
        source,
        is_archive,
        is_sealed: may_have_frame || may_have_line,
    })
}

/// The first `count` bytes, or all if there are fewer.
fn first_of(source: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(count);
    source.take(count as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// The error of a file that is packed as `kind` and in a tar archive or not, after so many bytes of the
/// packing and of the trace `came`.
fn input_error(
    file: &str,
    kind: (Packing, bool),
    came: (u64, u64),
    source: io::Error,
) -> ReadError {
    let file = file.to_owned();
    let ((packing, is_archive), (seen, unpacked_bytes)) = (kind, came);
    let is_two = is_archive && source.kind() == io::ErrorKind::Unsupported;
    let is_damage = packing != Packing::None || source.kind() == io::ErrorKind::InvalidData;
    if is_damage && !is_two && source.raw_os_error().is_none() {
        return ReadError::Damaged {
            file,
            what: packing.archive(),
            position: (packing != Packing::None).then_some(Position::Byte(seen)),
            source,
        };
    }
    ReadError::Input {
        file,
        unpacked_bytes,
        remedy: match source.kind() {
            _ if is_two => "unpack it, and name one file or several",
            io::ErrorKind::IsADirectory => "name the files in the folder",
            _ => "get a whole copy of the file",
        },
        source,
    }
}

pub(crate) fn read_some(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_told_by_the_first_bytes() {
        assert_eq!(Packing::of(b"\x1f\x8b\x08\0\0\0"), Packing::Gzip);
        assert_eq!(Packing::of(b"\x28\xb5\x2f\xfd\x04\0"), Packing::Zstd);
        assert_eq!(Packing::of(b"\xfd7zXZ\0"), Packing::Xz);
        assert_eq!(Packing::of(b"BZh91A"), Packing::Bzip2);
        assert_eq!(Packing::of(b"BZh,1,"), Packing::None);
        assert_eq!(Packing::of(b""), Packing::None);
    }

    #[test]
    fn a_peek_consumes_nothing() {
        let mut input = Input::new("x".to_owned(), Box::new(&b"abcdefgh"[..])).unwrap();
        assert_eq!(input.peek(100).unwrap(), b"abcdefgh");
        assert!(input.ended());
        input.consume(3);
        assert_eq!(input.bytes(), b"defgh");
        assert_eq!(input.consumed(), 3);
    }
}
