//! Making an empty cache.

use super::OfflineError;
use cache::FormatOptions;
use device::uring::FlashFile;
use flash_format::{Geometry, PAGE_BYTES, SUPERBLOCK_OFFSETS, Superblock};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::Bytes;

/// How much of the front of the flash is looked at for something that is not ours: file
/// systems, partition tables and volume managers all leave a mark there.
const FRONT_BYTES: usize = 1 << 20;

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Formatted {
    /// The flash.
    pub path: String,
    /// Which cache it is now: 32 hexadecimal digits.
    pub uuid: String,
    /// Size of the flash.
    pub flash_bytes: u64,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Blocks of 4096 bytes that it can hold.
    pub blocks_max: u64,
}

/// Makes an empty cache on a file or block device. A file is made, or given another size, if
/// `size` says so. Without `force` nothing is written over anything but zeroes.
///
/// # Errors
/// If the flash is in use, not empty, too small, or fails.
pub fn format(
    path: &Path,
    size: Option<Bytes>,
    segment_bytes: Bytes,
    force: bool,
) -> Result<Formatted, OfflineError> {
    let present = present(path, size)?;
    if present && !force {
        refuse_content(path)?;
    }
    // Whether a cache fits is known before the file is made or changed.
    if let Some(size) = size {
        Geometry::new(size, segment_bytes)?;
    }
    let flash = match size {
        Some(size) if !is_block_device(path) => FlashFile::create(path, size)?,
        _ => FlashFile::open(path)?,
    };
    let capacity = size.map_or(flash.capacity(), |size| size.min(flash.capacity()));
    let options = FormatOptions {
        capacity,
        segment_bytes,
        uuid: random().map_err(|source| failed(path, source))?,
    };
    let geometry = Geometry::new(capacity, segment_bytes)?;
    write(path, &cache::format(&options)?).map_err(|source| failed(path, source))?;
    Ok(Formatted {
        path: path.display().to_string(),
        uuid: format!("{:032x}", options.uuid),
        flash_bytes: capacity.get(),
        segment_bytes: segment_bytes.get(),
        segments: u64::from(geometry.segment_count()),
        blocks_max: u64::from(geometry.segment_count()) * u64::from(geometry.segment_blocks_max()),
    })
}

fn failed(path: &Path, source: io::Error) -> OfflineError {
    OfflineError::Io {
        path: path.to_owned(),
        source,
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Whether there is something at `path` already.
fn present(path: &Path, size: Option<Bytes>) -> Result<bool, OfflineError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len() > 0 || is_block_device(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match size {
            Some(_) => Ok(false),
            None => Err(OfflineError::Missing {
                path: path.to_owned(),
            }),
        },
        Err(source) => Err(failed(path, source)),
    }
}

/// Refuses flash whose front is anything but zeroes.
fn refuse_content(path: &Path) -> Result<(), OfflineError> {
    let mut front = Vec::new();
    File::open(path)
        .and_then(|file| {
            let limit = u64::try_from(FRONT_BYTES).unwrap_or(u64::MAX);
            file.take(limit).read_to_end(&mut front)
        })
        .map_err(|source| failed(path, source))?;
    if front.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let slot = |offset: Bytes| front.get(offset.to_usize()..)?.first_chunk::<PAGE_BYTES>();
    let [first, second] = SUPERBLOCK_OFFSETS.map(slot);
    let ours = match (first, second) {
        (Some(first), Some(second)) => !matches!(
            Superblock::choose([first, second], Bytes::new(u64::MAX)),
            Err(flash_format::FormatError::NotACache)
        ),
        _ => false,
    };
    Err(OfflineError::NotEmpty {
        path: path.to_owned(),
        what: if ours {
            "a Hearth cache already"
        } else {
            "something that is not a Hearth cache"
        },
    })
}

/// Carries out [`cache::format`]'s writes: a flush before the last, which makes it a cache,
/// and another after it.
fn write(path: &Path, writes: &[(Bytes, Vec<u8>)]) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let Some(((offset, last), before)) = writes.split_last() else {
        return Ok(());
    };
    for (offset, bytes) in before {
        file.write_all_at(bytes, offset.get())?;
    }
    file.sync_all()?;
    file.write_all_at(last, offset.get())?;
    file.sync_all()
}

fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}
