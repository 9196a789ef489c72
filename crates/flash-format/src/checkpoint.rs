//! The checkpoint: the disk table and the segment table as they were at one place in the
//! journal. Two areas take turns; each page carries the checkpoint's number.
//!
//! Pages may be written while changes go on: replaying the journal from the checkpoint's
//! start over a page that already holds some of the changes gives the same end.

use crate::page::{self, BODY_BYTES, COUNTER_END, HEADER_BYTES, Magic, PageBytes};
use crate::{Damage, Geometry, PAGE_BYTES, Position, SegmentIndex};
use std::num::NonZeroU64;
use units::{Bytes, DiskId, DiskSlot};
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a disk's name that are kept.
pub const NAME_BYTES_MAX: usize = 43;
/// Bytes of its name that version 1 kept; what has come since lies behind shorter ones.
const NAME_BYTES_MAX_ONCE: usize = 55;

/// What the disk table says of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskEntry {
    /// Who it is.
    pub id: DiskId,
    /// What people called it; at most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The origin's size when it was last attached.
    pub size: Bytes,
    /// The origin's fingerprint when the disk was last detached cleanly; none while it is
    /// attached.
    pub fingerprint: Option<u128>,
    /// Which of the periods in which it was attached for writing is the latest; 0 before the first.
    pub epoch: u64,
    /// Its watermark: up to here in its dirty log the origin has everything durably.
    pub destaged: Position,
    /// Up to here its dirty log was durable on flash, so that much of it must be there.
    pub logged: Position,
    /// The watermark may be wrong, since metadata was damaged: what is above it is not destaged
    /// unless the operator says so.
    pub in_doubt: bool,
    /// The tag of the key by which its blocks are encrypted; none if they lie there as they are.
    pub key: Option<NonZeroU64>,
}

/// What a used segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentKind {
    /// Blocks that equal the origin's where they are trusted, and do not count elsewhere.
    Clean,
    /// A part of its disk's dirty log: what is above the disk's watermark counts although the
    /// origin may not have it.
    Dirty,
}

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Nothing in it counts.
    Free,
    /// It belongs to a disk and may hold blocks that count.
    Used(SegmentKind),
}

/// What the segment table says of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Free, or used for what.
    pub state: SegmentState,
    /// Whose it is, or was.
    pub disk: DiskSlot,
    /// How it is told from earlier uses of the same place; rises with every opening in the
    /// whole cache, so it also orders segments by age.
    pub generation: u64,
    /// Where a recovery has cut its disk's dirty log: this page, not the first, and what is
    /// behind it in the segment does not count. None if nothing was cut.
    pub cut: Option<u32>,
    /// A bit for each page, bit `p % 8` of byte `p / 8`: whether the block there equals the
    /// origin's.
    pub trusted: Vec<u8>,
}

impl SegmentEntry {
    /// Whether the block in a page equals the origin's; no page behind the segment's end does.
    pub fn is_trusted(&self, page: u32) -> bool {
        let byte = self.trusted.get(page as usize / 8);
        byte.is_some_and(|byte| byte >> (page % 8) & 1 == 1)
    }

    /// Notes whether the block in a page equals the origin's.
    ///
    /// # Panics
    /// If the segment has no such page.
    pub fn set_trusted(&mut self, page: u32, trusted: bool) {
        let (byte, bit) = (&mut self.trusted[page as usize / 8], 1 << (page % 8));
        if trusted {
            *byte |= bit;
        } else {
            *byte &= !bit;
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawDisk {
    pub(crate) id: U128,
    pub(crate) fingerprint: U128,
    pub(crate) size: U64,
    pub(crate) used: u8,
    pub(crate) has_fingerprint: u8,
    pub(crate) name_length: u8,
    pub(crate) name: [u8; NAME_BYTES_MAX],
    pub(crate) logged_generation: U64,
    pub(crate) logged_page: U16,
    pub(crate) logged_erasure: U16,
    pub(crate) epoch: U64,
    pub(crate) destaged_generation: U64,
    pub(crate) destaged_page: U16,
    pub(crate) destaged_erasure: U16,
    pub(crate) in_doubt: u8,
    pub(crate) zero: u8,
    pub(crate) key: U64,
}

const _: () = assert!(size_of::<RawDisk>() == 128);

/// Disk table entries in a page.
pub const DISKS_PER_PAGE: usize = BODY_BYTES / size_of::<RawDisk>();
/// Pages of the disk table.
pub(crate) const DISK_PAGES: usize = DiskSlot::COUNT.div_ceil(DISKS_PER_PAGE);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawSegment {
    pub(crate) generation: U64,
    pub(crate) disk: U16,
    pub(crate) used: u8,
    pub(crate) cut: U16,
    pub(crate) zero: [u8; 3],
}

/// Bytes of a segment table entry: fixed part and a bit for each page.
pub(crate) const fn segment_entry_bytes(segment_pages: u32) -> usize {
    size_of::<RawSegment>() + (segment_pages as usize).div_ceil(8)
}

/// One page of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointPage {
    /// Entries of the disk table, from slot `page * DISKS_PER_PAGE`.
    Disks(Vec<Option<DiskEntry>>),
    /// Entries of the segment table, in order.
    Segments(Vec<SegmentEntry>),
}

impl CheckpointPage {
    /// Which disks have their entries in page `page`, or none if it is of the segment table.
    pub fn disks_of(page: u64) -> Option<std::ops::Range<usize>> {
        let first = usize::try_from(page).ok()?.checked_mul(DISKS_PER_PAGE)?;
        (first < DiskSlot::COUNT).then(|| first..(first + DISKS_PER_PAGE).min(DiskSlot::COUNT))
    }

    /// Which segments have their entries in page `page`; none if it is of the disk table.
    ///
    /// # Panics
    /// Never: a geometry has fewer than 2^32 segments.
    pub fn segments_of(geometry: &Geometry, page: u64) -> std::ops::Range<u32> {
        let Some(table_page) = page.checked_sub(DISK_PAGES as u64) else {
            return 0..0;
        };
        let count = u64::from(geometry.segment_count());
        let per_page = u64::from(geometry.segments_per_page());
        let clip = |n: u64| u32::try_from(n.min(count)).expect("segment numbers are 32 bits");
        clip(table_page * per_page)..clip((table_page + 1) * per_page)
    }

    /// The page with number `page` of checkpoint `number`.
    ///
    /// # Panics
    /// If there are more entries than fit, a bitmap of another length than the segment's, or a cut
    /// at a segment's first page.
    pub fn encode(&self, geometry: &Geometry, uuid: u128, number: u64, page: u64) -> PageBytes {
        let mut bytes = [0; PAGE_BYTES];
        let body = &mut bytes[HEADER_BYTES..];
        let count = match self {
            Self::Disks(disks) => {
                assert!(disks.len() <= DISKS_PER_PAGE, "the disks fit in a page");
                for (disk, raw) in disks
                    .iter()
                    .zip(body.chunks_exact_mut(size_of::<RawDisk>()))
                {
                    if let Some(disk) = disk {
                        raw.copy_from_slice(encode_disk(disk).as_bytes());
                    }
                }
                disks.len()
            }
            Self::Segments(segments) => {
                assert!(
                    segments.len() <= geometry.segments_per_page() as usize,
                    "the segments fit in a page"
                );
                let size = segment_entry_bytes(geometry.segment_pages());
                for (segment, raw) in segments.iter().zip(body.chunks_exact_mut(size)) {
                    let (fixed, bits) = raw.split_at_mut(size_of::<RawSegment>());
                    fixed.copy_from_slice(encode_segment(segment).as_bytes());
                    bits.copy_from_slice(&segment.trusted);
                }
                segments.len()
            }
        };
        let mut header = page::header(Magic::CHECKPOINT, uuid, number);
        header.place =
            U32::new(u32::try_from(page).expect("checkpoint pages are counted in 32 bits"));
        header.count = U32::new(u32::try_from(count).expect("a page holds few entries"));
        page::seal(&mut bytes, header);
        bytes
    }

    /// What page `page` of checkpoint `number` says.
    ///
    /// # Errors
    /// How it is damaged.
    pub fn decode(
        bytes: &PageBytes,
        geometry: &Geometry,
        uuid: u128,
        number: u64,
        page: u64,
    ) -> Result<Self, Damage> {
        let header = page::open(bytes, Magic::CHECKPOINT)?;
        if header.uuid.get() != uuid
            || header.sequence.get() != number
            || u64::from(header.place.get()) != page
        {
            return Err(Damage::Misplaced);
        }
        let body = &bytes[HEADER_BYTES..];
        let count = header.count.get() as usize;
        if let Some(disks) = Self::disks_of(page) {
            if count != disks.len() {
                return Err(Damage::Impossible);
            }
            let raw = body.chunks_exact(size_of::<RawDisk>()).take(count);
            return Ok(Self::Disks(raw.map(decode_disk).collect::<Result<_, _>>()?));
        }
        if count != Self::segments_of(geometry, page).len() {
            return Err(Damage::Impossible);
        }
        let raw = body
            .chunks_exact(segment_entry_bytes(geometry.segment_pages()))
            .take(count);
        Ok(Self::Segments(
            raw.map(decode_segment).collect::<Result<_, _>>()?,
        ))
    }
}

fn encode_disk(disk: &DiskEntry) -> RawDisk {
    let length = disk.name.floor_char_boundary(NAME_BYTES_MAX);
    let mut name = [0; NAME_BYTES_MAX];
    name[..length].copy_from_slice(&disk.name.as_bytes()[..length]);
    RawDisk {
        id: U128::new(disk.id.to_u128()),
        fingerprint: U128::new(disk.fingerprint.unwrap_or(0)),
        size: U64::new(disk.size.get()),
        used: 1,
        has_fingerprint: u8::from(disk.fingerprint.is_some()),
        name_length: u8::try_from(length).expect("at most 43"),
        name,
        logged_generation: U64::new(disk.logged.generation),
        logged_page: U16::new(disk.logged.page),
        logged_erasure: U16::new(disk.logged.erasure),
        epoch: U64::new(disk.epoch),
        destaged_generation: U64::new(disk.destaged.generation),
        destaged_page: U16::new(disk.destaged.page),
        destaged_erasure: U16::new(disk.destaged.erasure),
        in_doubt: u8::from(disk.in_doubt),
        zero: 0,
        key: U64::new(disk.key.map_or(0, NonZeroU64::get)),
    }
}

fn decode_disk(bytes: &[u8]) -> Result<Option<DiskEntry>, Damage> {
    let raw = RawDisk::read_from_bytes(bytes).map_err(|_| Damage::Impossible)?;
    if raw.used == 0 {
        return Ok(None);
    }
    let length = usize::from(raw.name_length);
    if length > NAME_BYTES_MAX_ONCE {
        return Err(Damage::Impossible);
    }
    let destaged = Position {
        generation: raw.destaged_generation.get(),
        page: raw.destaged_page.get(),
        erasure: raw.destaged_erasure.get(),
    };
    let logged = if length <= NAME_BYTES_MAX {
        Position {
            generation: raw.logged_generation.get(),
            page: raw.logged_page.get(),
            erasure: raw.logged_erasure.get(),
        }
    } else {
        // The rest of a name as version 1 wrote it: of a log it says nothing.
        Position::START
    };
    let generations = [destaged.generation, logged.generation];
    if raw.epoch.get() >= COUNTER_END || generations.iter().any(|number| *number >= COUNTER_END) {
        return Err(Damage::Impossible);
    }
    Ok(Some(DiskEntry {
        id: DiskId::from_u128(raw.id.get()),
        name: name_of(&raw.name[..length.min(NAME_BYTES_MAX)])?,
        size: Bytes::new(raw.size.get()),
        fingerprint: (raw.has_fingerprint != 0).then_some(raw.fingerprint.get()),
        epoch: raw.epoch.get(),
        destaged,
        logged,
        in_doubt: raw.in_doubt != 0,
        key: NonZeroU64::new(raw.key.get()),
    }))
}

/// A name, of which the end may be cut off within a character.
fn name_of(bytes: &[u8]) -> Result<String, Damage> {
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(error) if error.error_len().is_none() && bytes.len() == NAME_BYTES_MAX => {
            let whole = &bytes[..error.valid_up_to()];
            Ok(String::from_utf8_lossy(whole).into_owned())
        }
        Err(_) => Err(Damage::Impossible),
    }
}

const FREE: u8 = 0;
const CLEAN: u8 = 1;
const DIRTY: u8 = 2;

fn encode_segment(segment: &SegmentEntry) -> RawSegment {
    assert!(
        segment.cut != Some(0),
        "a segment that is cut at its first page is free"
    );
    let cut = segment.cut.unwrap_or(0);
    RawSegment {
        generation: U64::new(segment.generation),
        disk: U16::new(segment.disk.get()),
        used: match segment.state {
            SegmentState::Free => FREE,
            SegmentState::Used(SegmentKind::Clean) => CLEAN,
            SegmentState::Used(SegmentKind::Dirty) => DIRTY,
        },
        cut: U16::new(u16::try_from(cut).expect("a segment has at most 4096 pages")),
        zero: [0; 3],
    }
}

fn decode_segment(bytes: &[u8]) -> Result<SegmentEntry, Damage> {
    let (raw, bits) = RawSegment::read_from_prefix(bytes).map_err(|_| Damage::Impossible)?;
    let disk = raw.disk.get();
    let generation = raw.generation.get();
    if usize::from(disk) >= DiskSlot::COUNT || generation >= COUNTER_END {
        return Err(Damage::Impossible);
    }
    Ok(SegmentEntry {
        state: match raw.used {
            FREE => SegmentState::Free,
            CLEAN => SegmentState::Used(SegmentKind::Clean),
            DIRTY => SegmentState::Used(SegmentKind::Dirty),
            _ => return Err(Damage::Impossible),
        },
        disk: DiskSlot::new(disk),
        generation,
        cut: Some(u32::from(raw.cut.get())).filter(|page| *page > 0),
        trusted: bits.to_vec(),
    })
}

impl SegmentEntry {
    /// A free segment that was never used.
    pub fn unused(geometry: &Geometry) -> Self {
        Self {
            state: SegmentState::Free,
            disk: DiskSlot::new(0),
            generation: 0,
            cut: None,
            trusted: vec![0; (geometry.segment_pages() as usize).div_ceil(8)],
        }
    }

    /// The entries of a cache that was never used.
    pub fn all_unused(geometry: &Geometry) -> Vec<Self> {
        vec![Self::unused(geometry); SegmentIndex::new(geometry.segment_count()).index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_know_their_place() {
        let geometry = Geometry::new(Bytes::mib(64), Bytes::mib(1)).unwrap();
        let mut disks = vec![None; DISKS_PER_PAGE];
        disks[3] = Some(DiskEntry {
            id: DiskId::from_u128(5),
            name: "é".repeat(21) + "a",
            size: Bytes::gib(1),
            fingerprint: Some(9),
            epoch: 6,
            destaged: Position {
                generation: 11,
                page: 1023,
                erasure: 2,
            },
            logged: Position {
                generation: 12,
                page: 3,
                erasure: 1,
            },
            in_doubt: true,
            key: NonZeroU64::new(13),
        });
        let page = CheckpointPage::Disks(disks);
        let bytes = page.encode(&geometry, 1, 7, 0);
        assert_eq!(CheckpointPage::decode(&bytes, &geometry, 1, 7, 0), Ok(page));
        assert_eq!(
            CheckpointPage::decode(&bytes, &geometry, 1, 8, 0),
            Err(Damage::Misplaced)
        );
        assert_eq!(
            CheckpointPage::decode(&bytes, &geometry, 1, 7, 1),
            Err(Damage::Misplaced)
        );

        let first = DISK_PAGES as u64;
        let count = CheckpointPage::segments_of(&geometry, first).len();
        let mut segments = vec![SegmentEntry::unused(&geometry); count];
        segments[1] = SegmentEntry {
            state: SegmentState::Used(SegmentKind::Dirty),
            disk: DiskSlot::new(3),
            generation: 12,
            cut: Some(255),
            trusted: vec![0xa5; geometry.segment_pages() as usize / 8],
        };
        let page = CheckpointPage::Segments(segments);
        let bytes = page.encode(&geometry, 1, 7, first);
        assert_eq!(
            CheckpointPage::decode(&bytes, &geometry, 1, 7, first),
            Ok(page)
        );
    }

    #[test]
    fn a_long_name_of_version_1_is_no_position() {
        let entry = DiskEntry {
            id: DiskId::from_u128(5),
            name: "x".repeat(43),
            size: Bytes::gib(1),
            fingerprint: None,
            epoch: 0,
            destaged: Position::START,
            logged: Position::START,
            in_doubt: false,
            key: None,
        };
        let mut raw = encode_disk(&entry);
        let name = "x".repeat(42) + &"é".repeat(6) + "a";
        let bytes: &mut [u8] = raw.as_mut_bytes();
        bytes[42] = u8::try_from(name.len()).unwrap();
        bytes[43..98].copy_from_slice(name.as_bytes());
        let read = decode_disk(bytes).unwrap().unwrap();
        assert_eq!(
            (&*read.name, read.logged),
            (&*"x".repeat(42), Position::START)
        );
        bytes[42] = 56;
        assert_eq!(decode_disk(bytes), Err(Damage::Impossible));
    }

    #[test]
    fn every_segment_and_disk_has_one_page() {
        let geometry = Geometry::new(Bytes::gib(10), Bytes::mib(4)).unwrap();
        let (mut disks, mut segments) = (0, 0);
        for page in 0..geometry.checkpoint_pages() {
            disks += CheckpointPage::disks_of(page).map_or(0, |range| range.len());
            segments += CheckpointPage::segments_of(&geometry, page).len();
        }
        assert_eq!(disks, DiskSlot::COUNT);
        assert_eq!(segments, geometry.segment_count() as usize);
    }
}
