//! The superblock: what the cache is, and where its latest complete checkpoint is.
//!
//! Two slots take turns, so that a torn write leaves the other. A superblock is written when
//! the cache is opened, after each checkpoint, and at a clean stop.

use crate::geometry::Ring;
use crate::page::{self, COUNTER_END, HEADER_BYTES, Magic, PageBytes};
use crate::{Damage, FormatError, Geometry, PAGE_BYTES};
use units::{Bytes, Offset};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The format of the caches that this program makes.
///
/// 1: the first. 2: dirty logs. What is new in 2 was zero in 1 and means the same there: no log,
/// nothing dirty; so a cache of version 1 is read as it is, and its next superblock says 2. 3: a longer
/// journal, so everything behind it lies elsewhere; a cache of version 2 stays one.
pub const FORMAT_VERSION: u32 = 3;
/// The last format with a journal as long as a checkpoint.
const VERSION_OF_SHORT_RINGS: u32 = 2;
/// The oldest format that this program reads.
const FORMAT_VERSION_MIN: u32 = 1;

/// Where the two slots are.
pub const SUPERBLOCK_OFFSETS: [Offset; 2] = [Offset::ZERO, Offset::kib(64)];

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Which cache; new with each format.
    pub uuid: u128,
    /// Orders superblocks: the higher of two whole ones counts.
    pub sequence: u64,
    /// The layout.
    pub geometry: Geometry,
    /// Rises when everything on the flash has been given up; the host remembers the least
    /// one that it may still trust.
    pub incarnation: u64,
    /// Number of the latest complete checkpoint; its pages carry it.
    pub checkpoint: u64,
    /// In which area (0 or 1) that checkpoint is.
    pub checkpoint_area: u8,
    /// Sequence of the first journal page to replay on top of that checkpoint.
    pub replay_from: u64,
    /// After a clean stop: the sequence that the next journal page would have had. Nothing
    /// was written since.
    pub clean_end: Option<u64>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Body {
    pub(crate) version: U32,
    pub(crate) block_bytes: U32,
    pub(crate) capacity: U64,
    pub(crate) segment_bytes: U64,
    pub(crate) segment_count: U64,
    pub(crate) incarnation: U64,
    pub(crate) checkpoint: U64,
    pub(crate) replay_from: U64,
    pub(crate) clean_end: U64,
    pub(crate) checkpoint_area: u8,
    pub(crate) clean: u8,
}

const BLOCK_BYTES: u32 = 4096;
const _: () = assert!(BLOCK_BYTES as usize == PAGE_BYTES);

const BODY: std::ops::Range<usize> = HEADER_BYTES..HEADER_BYTES + size_of::<Body>();

impl Superblock {
    /// Which of [`SUPERBLOCK_OFFSETS`] it goes to.
    pub fn offset(&self) -> Offset {
        SUPERBLOCK_OFFSETS[usize::from(self.sequence % 2 == 1)]
    }

    /// The format that the cache has.
    pub const fn version(&self) -> u32 {
        match self.geometry.ring() {
            Ring::Short => VERSION_OF_SHORT_RINGS,
            Ring::Long => FORMAT_VERSION,
        }
    }

    /// Its page.
    pub fn encode(&self) -> PageBytes {
        let mut bytes = [0; PAGE_BYTES];
        let body = Body {
            version: U32::new(self.version()),
            block_bytes: U32::new(BLOCK_BYTES),
            capacity: U64::new(self.geometry.capacity().get()),
            segment_bytes: U64::new(self.geometry.segment_bytes().get()),
            segment_count: U64::new(u64::from(self.geometry.segment_count())),
            incarnation: U64::new(self.incarnation),
            checkpoint: U64::new(self.checkpoint),
            replay_from: U64::new(self.replay_from),
            clean_end: U64::new(self.clean_end.unwrap_or(0)),
            checkpoint_area: self.checkpoint_area,
            clean: u8::from(self.clean_end.is_some()),
        };
        bytes[BODY].copy_from_slice(body.as_bytes());
        page::seal(
            &mut bytes,
            page::header(Magic::SUPERBLOCK, self.uuid, self.sequence),
        );
        bytes
    }

    /// The superblock that counts of the two slots' pages, on a device of `present` bytes.
    ///
    /// # Errors
    /// Every [`FormatError`] but the two about making a cache.
    pub fn choose(slots: [&PageBytes; 2], present: Bytes) -> Result<Self, FormatError> {
        let mut best: Option<Self> = None;
        let mut error = FormatError::NotACache;
        for slot in slots {
            match Self::decode(slot) {
                Ok(found)
                    if best
                        .as_ref()
                        .is_none_or(|best| found.sequence > best.sequence) =>
                {
                    best = Some(found);
                }
                Ok(_) => {}
                Err(found) => {
                    let tells_more = matches!(found, FormatError::OtherVersion { .. });
                    if error == FormatError::NotACache || tells_more {
                        error = found;
                    }
                }
            }
        }
        // A later program has had it: what the other slot says is older than what that one did.
        if let FormatError::OtherVersion { .. } = error {
            return Err(error);
        }
        let best = best.ok_or(error)?;
        if best.geometry.capacity() > present {
            return Err(FormatError::DeviceShrunk {
                formatted: best.geometry.capacity(),
                present,
            });
        }
        Ok(best)
    }

    fn decode(bytes: &PageBytes) -> Result<Self, FormatError> {
        let header = page::open(bytes, Magic::SUPERBLOCK).map_err(|damage| match damage {
            Damage::Absent | Damage::Misplaced => FormatError::NotACache,
            Damage::Checksum | Damage::Impossible => FormatError::TornSuperblocks,
        })?;
        let body = Body::read_from_bytes(&bytes[BODY]).expect("the body has its own size");
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&body.version.get()) {
            return Err(FormatError::OtherVersion {
                found: body.version.get(),
                spoken: FORMAT_VERSION,
            });
        }
        let impossible = |what| FormatError::ImpossibleLayout { what };
        if body.block_bytes.get() != BLOCK_BYTES {
            return Err(impossible("block size"));
        }
        let geometry = Geometry::with_ring(
            Bytes::new(body.capacity.get()),
            Bytes::new(body.segment_bytes.get()),
            if body.version.get() <= VERSION_OF_SHORT_RINGS {
                Ring::Short
            } else {
                Ring::Long
            },
        )
        .map_err(|_| impossible("segment size"))?;
        if u64::from(geometry.segment_count()) != body.segment_count.get() {
            return Err(impossible("number of segments"));
        }
        if body.checkpoint_area > 1 || body.clean > 1 {
            return Err(impossible("checkpoint area or clean mark"));
        }
        let counters = [
            body.incarnation,
            body.checkpoint,
            body.replay_from,
            body.clean_end,
        ];
        if counters.iter().any(|counter| counter.get() >= COUNTER_END) {
            return Err(impossible("counters"));
        }
        Ok(Self {
            uuid: header.uuid.get(),
            sequence: header.sequence.get(),
            geometry,
            incarnation: body.incarnation.get(),
            checkpoint: body.checkpoint.get(),
            checkpoint_area: body.checkpoint_area,
            replay_from: body.replay_from.get(),
            clean_end: (body.clean == 1).then_some(body.clean_end.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sequence: u64) -> Superblock {
        Superblock {
            uuid: 77,
            sequence,
            geometry: Geometry::new(Bytes::mib(64), Bytes::mib(1)).unwrap(),
            incarnation: 3,
            checkpoint: 9,
            checkpoint_area: 1,
            replay_from: 1234,
            clean_end: sequence.is_multiple_of(2).then_some(1240),
        }
    }

    #[test]
    fn the_newer_of_two_whole_ones_counts() {
        let (old, new) = (sample(4), sample(5));
        let present = Bytes::mib(64);
        assert_eq!(
            Superblock::choose([&old.encode(), &new.encode()], present),
            Ok(new.clone())
        );
        assert_eq!(
            Superblock::choose([&new.encode(), &old.encode()], present),
            Ok(new)
        );
        assert_ne!(sample(4).offset(), sample(5).offset());
    }

    #[test]
    fn a_torn_one_leaves_the_other() {
        let old = sample(4);
        let mut torn = sample(5).encode();
        torn[100] ^= 1;
        let present = Bytes::mib(64);
        assert_eq!(Superblock::choose([&old.encode(), &torn], present), Ok(old));
        assert_eq!(
            Superblock::choose([&torn, &torn], present),
            Err(FormatError::TornSuperblocks)
        );
    }

    #[test]
    fn foreign_and_shrunk_devices_are_named() {
        let empty = [0; PAGE_BYTES];
        let present = Bytes::mib(64);
        assert_eq!(
            Superblock::choose([&empty, &empty], present),
            Err(FormatError::NotACache)
        );
        let page = sample(4).encode();
        assert!(matches!(
            Superblock::choose([&page, &empty], Bytes::mib(32)),
            Err(FormatError::DeviceShrunk { .. })
        ));
        let mut other = page;
        other[HEADER_BYTES] = 9;
        let header = page::open(&page, Magic::SUPERBLOCK).unwrap();
        page::seal(&mut other, header);
        let refused = Err(FormatError::OtherVersion {
            found: 9,
            spoken: FORMAT_VERSION,
        });
        assert_eq!(Superblock::choose([&other, &empty], present), refused);
        // What this program once wrote is older than what the later one did.
        let before = sample(3).encode();
        assert_eq!(Superblock::choose([&other, &before], present), refused);
        assert_eq!(Superblock::choose([&before, &other], present), refused);
    }

    /// A cache with a short journal, as a program before this one left it.
    fn old(version: u8) -> (Superblock, PageBytes) {
        let of_now = sample(4);
        let found = Superblock {
            geometry: Geometry::with_ring(
                of_now.geometry.capacity(),
                of_now.geometry.segment_bytes(),
                Ring::Short,
            )
            .unwrap(),
            ..of_now
        };
        let mut page = found.encode();
        assert_eq!(page[HEADER_BYTES], 2, "it stays what it is");
        page[HEADER_BYTES] = version;
        let header = page::open(&found.encode(), Magic::SUPERBLOCK).unwrap();
        page::seal(&mut page, header);
        (found, page)
    }

    #[test]
    fn caches_with_a_short_journal_are_read_as_they_are() {
        for version in [1, 2] {
            let (is, page) = old(version);
            let found = Superblock::choose([&page, &[0; PAGE_BYTES]], Bytes::mib(64));
            assert_eq!((is.version(), is.geometry.journal_pages()), (2, 64));
            assert_eq!(found, Ok(is), "{version}");
        }
        let long = sample(4);
        assert!(long.geometry.journal_pages() > 64);
        let found = Superblock::choose([&long.encode(), &[0; PAGE_BYTES]], Bytes::mib(64));
        assert_eq!(found, Ok(long));
    }
}
