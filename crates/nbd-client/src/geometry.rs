//! Which exports can be a disk.

use block_io::OriginGeometry;
use nbd_protocol::{Terms, TransmissionFlags};
use units::{Bytes, SECTOR_BYTES};

/// Why an export cannot be the disk that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Its smallest block, in bytes, is larger than a block of the cache.
    Coarse(u64),
    /// It has a size that no disk can have.
    Size {
        /// Its size.
        size: Bytes,
        /// The unit it has to be a multiple of.
        sector: Bytes,
    },
    /// It is open for reading only and the disk is to be written.
    ReadOnly,
}

/// The geometry of an export as a disk.
///
/// # Errors
/// [`Unfit`].
pub fn geometry(terms: &Terms, read_only: bool) -> Result<OriginGeometry, Unfit> {
    let minimum = u64::from(terms.export.blocks.minimum);
    let sector = match minimum {
        0..=SECTOR_BYTES => SECTOR_BYTES,
        _ if minimum <= units::BLOCK_BYTES => units::BLOCK_BYTES,
        _ => return Err(Unfit::Coarse(minimum)),
    };
    let (size, sector) = (terms.export.size, Bytes::new(sector));
    if size.is_zero() || !size.is_multiple_of(sector.get()) {
        return Err(Unfit::Size { size, sector });
    }
    let flags = terms.export.flags;
    if flags.has(TransmissionFlags::READ_ONLY) && !read_only {
        return Err(Unfit::ReadOnly);
    }
    Ok(OriginGeometry {
        size,
        sector,
        read_only,
        can_discard: flags.has(TransmissionFlags::SEND_TRIM),
    })
}
