//! The bytes of a trace: from a file or stdin, unpacked while they are read, in one buffer.
//!
//! What packs them is told by their first bytes, never by the file's name: `trace.csv` may be gzip and
//! `trace.gz` plain text.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::ReadError;
use crate::limits::{INPUT_BUFFER_BYTES, SAMPLE_BYTES};
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

    fn unpack(self, source: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => source,
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(source)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::new(source)?),
            Self::Xz => Box::new(lzma_rust2::XzReader::new(source, true)),
            Self::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(source)),
        })
    }
}

/// Bytes of `MAGIC` that tell the packings apart.
const MAGIC_BYTES: usize = 6;

/// Bytes that an archive is recognised by.
const TAR_HEADER_BYTES: usize = 512;

/// A source of unpacked bytes and the part of them that is not consumed yet.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    name: String,
    path: Option<PathBuf>,
    packing: Packing,
    is_archive: bool,
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
        let failed = |source, packing| input_error(&name, 0, packing, source);
        let first = first_of(&mut source, MAGIC_BYTES);
        let first = first.map_err(|error| failed(error, Packing::None))?;
        let packing = Packing::of(&first);
        let opened = || {
            let whole = Box::new(io::Cursor::new(first).chain(source));
            untarred(packing.unpack(whole)?)
        };
        let (is_archive, source) = opened().map_err(|error| failed(error, packing))?;
        Ok(Self {
            source,
            name,
            path: None,
            packing,
            is_archive,
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
                let unpacked = self.consumed + self.end as u64;
                return Err(input_error(&self.name, unpacked, self.packing, error));
            }
        }
        Ok(())
    }

    /// Gets bytes until there are `count` (at most the buffer's size) or the trace ends.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], ReadError> {
        while self.bytes().len() < count && !self.ended {
            self.fill()?;
        }
        Ok(self.bytes())
    }
}

/// The content of an archive, or the bytes themselves.
fn untarred(mut source: Box<dyn Read + Send>) -> io::Result<(bool, Box<dyn Read + Send>)> {
    let first = first_of(&mut source, TAR_HEADER_BYTES)?;
    let is_archive = untar::is_archive(&first);
    let whole = io::Cursor::new(first).chain(source);
    let content: Box<dyn Read + Send> = if is_archive {
        Box::new(Untar::new(whole))
    } else {
        Box::new(whole)
    };
    Ok((is_archive, content))
}

/// The first `count` bytes, or all if there are fewer.
fn first_of(source: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(count);
    source.take(count as u64).read_to_end(&mut first)?;
    Ok(first)
}

fn input_error(file: &str, unpacked_bytes: u64, packing: Packing, source: io::Error) -> ReadError {
    ReadError::Input {
        file: file.to_owned(),
        unpacked_bytes,
        remedy: match (packing, source.kind()) {
            (_, io::ErrorKind::Unsupported) => "unpack it, and name one file or several",
            (Packing::None, io::ErrorKind::IsADirectory) => "name the files in the folder",
            (Packing::None, _) => "get a whole copy of the file",
            _ => "it is packed, and damaged or cut short: get a whole copy",
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
