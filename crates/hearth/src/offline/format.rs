//! Making an empty cache.

use super::OfflineError;
use super::probe::{FRONT_BYTES, looks_like};
use cache::FormatOptions;
use device::uring::FlashFile;
use flash_format::{Geometry, PAGE_BYTES, SUPERBLOCK_OFFSETS, Superblock, segment_bytes_for};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use units::{Bytes, Offset};

/// What is where a cache is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Present {
    /// Nothing, or zeroes only at its front.
    Nothing,
    /// A Hearth cache, or what is left of one.
    Cache,
    /// Something else, and what it looks like if that is recognised.
    Foreign(Option<&'static str>),
}

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

/// Makes an empty cache on a file or block device, whatever is there: see [`present`]. A file is made,
/// or given another size, if `size` says so; its segments have the size that suits the flash unless it is given.
///
/// # Errors
/// If the flash is in use, missing without a size, too small or too large, or fails. A file that was
/// not there before is gone again then.
pub fn format(
    path: &Path,
    size: Option<Bytes>,
    segment_bytes: Option<Bytes>,
) -> Result<Formatted, OfflineError> {
    let is_new = !path.exists();
    if is_new && size.is_none() {
        return Err(OfflineError::Missing {
            path: path.to_owned(),
        });
    }
    // Whether a cache fits is known before the file is made or changed.
    if let Some(size) = size {
        Geometry::new(
            size,
            segment_bytes.unwrap_or_else(|| segment_bytes_for(size)),
        )?;
        if !is_block_device(path) {
            fits(path, size)?;
        }
    }
    let made = make(path, size, segment_bytes);
    if made.is_err() && is_new {
        // It has nothing, and would keep the file system full.
        let _ = std::fs::remove_file(path);
    }
    made
}

fn make(
    path: &Path,
    size: Option<Bytes>,
    segment_bytes: Option<Bytes>,
) -> Result<Formatted, OfflineError> {
    let flash = match size {
        Some(size) if !is_block_device(path) => FlashFile::create(path, size)?,
        _ => FlashFile::open(path)?,
    };
    let capacity = size.map_or(flash.capacity(), |size| size.min(flash.capacity()));
    let uuid = random().map_err(|source| failed(path, source))?;
    let mut options = FormatOptions::new(capacity, uuid);
    options.segment_bytes = segment_bytes.unwrap_or(options.segment_bytes);
    let geometry = Geometry::new(capacity, options.segment_bytes)?;
    write(path, &cache::format(&options)?).map_err(|source| failed(path, source))?;
    Ok(Formatted {
        path: path.display().to_string(),
        uuid: format!("{:032x}", options.uuid),
        flash_bytes: capacity.get(),
        segment_bytes: options.segment_bytes.get(),
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

/// What is at `path` already.
///
/// # Errors
/// If it is there and cannot be read.
pub fn present(path: &Path) -> Result<Present, OfflineError> {
    let mut front = Vec::new();
    let read = File::open(path).and_then(|file| {
        let limit = u64::try_from(FRONT_BYTES).unwrap_or(u64::MAX);
        file.take(limit).read_to_end(&mut front)
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Present::Nothing),
        read => read.map_err(|source| failed(path, source))?,
    };
    if front.iter().all(|byte| *byte == 0) {
        return Ok(Present::Nothing);
    }
    let slot = |offset: Offset| front.get(offset.to_usize()..)?.first_chunk::<PAGE_BYTES>();
    let [first, second] = SUPERBLOCK_OFFSETS.map(slot);
    let is_ours = match (first, second) {
        (Some(first), Some(second)) => !matches!(
            Superblock::choose([first, second], Bytes::new(u64::MAX)),
            Err(flash_format::FormatError::NotACache)
        ),
        _ => false,
    };
    Ok(if is_ours {
        Present::Cache
    } else {
        Present::Foreign(looks_like(&front))
    })
}

/// Refuses a file that its file system cannot hold, before anything is taken from that.
fn fits(path: &Path, size: Bytes) -> Result<(), OfflineError> {
    let folder = path.parent().filter(|folder| folder != &Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let system = rustix::fs::statvfs(folder).map_err(|errno| failed(folder, errno.into()))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    // In sectors of 512 bytes, whatever the file system's own are.
    let own = std::fs::metadata(path).map_or(0, |about| about.blocks().saturating_mul(512));
    let free = Bytes::new(free.saturating_add(own));
    if size <= free {
        return Ok(());
    }
    Err(OfflineError::NoRoom {
        path: path.to_owned(),
        size,
        free,
    })
}

/// Carries out [`cache::format`]'s writes: a flush before the last, which makes it a cache,
/// and another after it.
fn write(path: &Path, writes: &[(Offset, Vec<u8>)]) -> io::Result<()> {
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
