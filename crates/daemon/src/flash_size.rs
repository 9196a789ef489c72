//! What the flash of a cache is like, read without opening it as a cache.

use super::system::block_device_size;
use flash_format::{FormatError, PAGE_BYTES, PageBytes, SUPERBLOCK_OFFSETS, Superblock};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use tenancy::Capacity;
use units::{Bytes, Offset};

/// What the flash of a cache is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlashSize {
    /// The file or device: what a drive write writes.
    pub(crate) device: Bytes,
    /// What is divided among tenants.
    pub(crate) capacity: Capacity,
}

impl FlashSize {
    /// That of a formatted flash; none if it cannot be read or is not formatted.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let (_, device) = block_storage(path).ok()?;
        let superblock = superblock(path, device).ok()?.ok()?;
        Some(Self {
            device,
            capacity: Capacity::of(&superblock.geometry),
        })
    }
}

/// The superblock of the flash at `path`, `capacity` bytes long, without locking it.
///
/// # Errors
/// If the file cannot be read; inside, if it has no superblock that this version knows.
pub fn superblock(path: &Path, capacity: Bytes) -> io::Result<Result<Superblock, FormatError>> {
    let file = File::open(path)?;
    let [first, second] = SUPERBLOCK_OFFSETS;
    let (first, second) = (page(&file, first)?, page(&file, second)?);
    Ok(Superblock::choose([&first, &second], capacity))
}

/// A page of the flash. A page behind its end reads as zeroes.
///
/// # Errors
/// If it cannot be read.
pub fn page(file: &File, offset: Offset) -> io::Result<PageBytes> {
    let mut bytes = [0; PAGE_BYTES];
    match file.read_exact_at(&mut bytes, offset.get()) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok([0; PAGE_BYTES]),
        Err(error) => Err(error),
        Ok(()) => Ok(bytes),
    }
}

/// A regular file or block device, and its size.
pub(crate) fn block_storage(path: &Path) -> io::Result<(Metadata, Bytes)> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_file() {
        let size = Bytes::new(metadata.len());
        File::open(path)?;
        return Ok((metadata, size));
    }
    if metadata.file_type().is_block_device() {
        let size = block_device_size(&File::open(path)?)?;
        return Ok((metadata, size));
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "neither a regular file nor a block device",
    ))
}
