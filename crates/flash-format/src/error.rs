//! Why a flash cannot be used as a cache, each with what to do about it.

use units::Bytes;

/// Why a device holds no cache that this program can open, or cannot hold one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Neither superblock slot holds anything of ours: it may be somebody's data.
    #[error("this is not a Hearth cache")]
    NotACache,
    /// It is ours, but of a format that this program does not speak.
    #[error(
        "the cache has format version {found}, this program speaks version {spoken}: use the matching release, or lose its content with `hearth cache format --force`"
    )]
    OtherVersion {
        /// Version on flash.
        found: u32,
        /// Version of this program.
        spoken: u32,
    },
    /// Both superblock slots carry our mark, and neither is whole.
    #[error(
        "both superblocks of the cache are damaged, so nothing on it can be trusted: lose its content with `hearth cache format --force`"
    )]
    TornSuperblocks,
    /// The device has become smaller than what was formatted.
    #[error(
        "the cache was formatted for {formatted} but the device has only {present}: restore the device, or lose its content with `hearth cache format --force`"
    )]
    DeviceShrunk {
        /// Size when it was formatted.
        formatted: Bytes,
        /// Size now.
        present: Bytes,
    },
    /// The superblock is whole but says what cannot be.
    #[error(
        "the superblock describes an impossible layout ({what}): lose its content with `hearth cache format --force`"
    )]
    ImpossibleLayout {
        /// Which fact.
        what: &'static str,
    },
    /// A cache cannot be made of this size.
    #[error("a cache needs at least {needed}, but the device has {present}")]
    TooSmall {
        /// Least size with these segments.
        needed: Bytes,
        /// Size of the device.
        present: Bytes,
    },
    /// More flash than there are numbers for: of a simulated log, whose index is denser.
    #[error("a simulated log holds at most {most}, not {present}")]
    TooLarge {
        /// Largest size.
        most: Bytes,
        /// Size that was asked for.
        present: Bytes,
    },
    /// A segment size that the format cannot express.
    #[error("the segment size {0} is not a power of two from 64KiB to 16MiB")]
    SegmentSize(Bytes),
}
