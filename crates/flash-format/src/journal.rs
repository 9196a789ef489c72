//! The journal: a ring of pages, each a few changes to the segment table since the latest
//! checkpoint.
//!
//! Page `n` is at `n mod ring`. Pages are written in batches; a batch is one write that is
//! durable when it is acknowledged. Sequence numbers have no gaps, so a page that a lying
//! medium lost shows, unless it was the very last.

use crate::page::{self, BODY_BYTES, COUNTER_END, HEADER_BYTES, Magic, PageBytes};
use crate::{Damage, PAGE_BYTES, Position, SegmentIndex, SegmentKind};
use units::{DiskSlot, FlashSlot};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One change to the segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// A free segment was given to a disk. It holds nothing trusted yet.
    Open {
        /// Which segment.
        segment: SegmentIndex,
        /// Whose it is now.
        disk: DiskSlot,
        /// Its new generation.
        generation: u64,
        /// What for.
        kind: SegmentKind,
    },
    /// A segment was given up: nothing in it may be trusted.
    Free {
        /// Which segment.
        segment: SegmentIndex,
        /// The generation that ended.
        generation: u64,
    },
    /// These slots equal the origin, and will until they are distrusted.
    Trust {
        /// The first of them.
        first: FlashSlot,
        /// How many.
        count: u32,
    },
    /// The origin may be about to differ from these slots.
    Distrust {
        /// The first of them.
        first: FlashSlot,
        /// How many.
        count: u32,
    },
    /// The origin has a disk's dirty log durably up to here.
    Destaged {
        /// Whose.
        disk: DiskSlot,
        /// Its new watermark.
        to: Position,
    },
    /// A disk's dirty log is durable on flash up to here: if something of it is missing, it is lost.
    Logged {
        /// Whose.
        disk: DiskSlot,
        /// The last record that is surely there.
        to: Position,
    },
}

/// A page of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPage {
    /// Its number.
    pub sequence: u64,
    /// Number of the first page of its batch.
    pub batch: u64,
    /// The changes, in order; at most [`JOURNAL_ENTRIES_PER_PAGE`].
    pub entries: Vec<JournalEntry>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct Raw {
    pub(crate) kind: u8,
    pub(crate) zero: u8,
    pub(crate) disk: U16,
    /// Segment number, count of slots, or a position's page and (in the upper half) erasure.
    pub(crate) low: U32,
    /// Generation, or first slot.
    pub(crate) high: U64,
}

/// Entries that a page holds.
pub const JOURNAL_ENTRIES_PER_PAGE: usize = BODY_BYTES / size_of::<Raw>();

const OPEN: u8 = 1;
const FREE: u8 = 2;
const TRUST: u8 = 3;
const DISTRUST: u8 = 4;
const OPEN_DIRTY: u8 = 5;
const DESTAGED: u8 = 6;
const LOGGED: u8 = 7;

impl JournalPage {
    /// The page for the cache `uuid`.
    ///
    /// # Panics
    /// If there are more than [`JOURNAL_ENTRIES_PER_PAGE`] entries.
    pub fn encode(&self, uuid: u128) -> PageBytes {
        assert!(
            self.entries.len() <= JOURNAL_ENTRIES_PER_PAGE,
            "the entries fit in a page"
        );
        let mut bytes = [0; PAGE_BYTES];
        for (entry, raw) in self
            .entries
            .iter()
            .zip(bytes[HEADER_BYTES..].chunks_exact_mut(size_of::<Raw>()))
        {
            raw.copy_from_slice(encode_entry(*entry).as_bytes());
        }
        let mut header = page::header(Magic::JOURNAL, uuid, self.sequence);
        header.count = U32::new(u32::try_from(self.entries.len()).expect("at most 252"));
        header.extra = U64::new(self.batch);
        page::seal(&mut bytes, header);
        bytes
    }

    /// What a page of the journal of cache `uuid` says.
    ///
    /// # Errors
    /// How it is damaged. A page that was never written is [`Damage::Absent`].
    pub fn decode(bytes: &PageBytes, uuid: u128) -> Result<Self, Damage> {
        let header = page::open(bytes, Magic::JOURNAL)?;
        if header.uuid.get() != uuid {
            return Err(Damage::Misplaced);
        }
        let count = header.count.get() as usize;
        if count > JOURNAL_ENTRIES_PER_PAGE || header.extra.get() > header.sequence.get() {
            return Err(Damage::Impossible);
        }
        let entries = bytes[HEADER_BYTES..]
            .chunks_exact(size_of::<Raw>())
            .take(count)
            .map(decode_entry)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            sequence: header.sequence.get(),
            batch: header.extra.get(),
            entries,
        })
    }
}

fn encode_entry(entry: JournalEntry) -> Raw {
    let (kind, disk, low, high) = match entry {
        JournalEntry::Open {
            segment,
            disk,
            generation,
            kind,
        } => {
            let open = match kind {
                SegmentKind::Clean => OPEN,
                SegmentKind::Dirty => OPEN_DIRTY,
            };
            (open, disk.get(), segment.get(), generation)
        }
        JournalEntry::Free {
            segment,
            generation,
        } => (FREE, 0, segment.get(), generation),
        JournalEntry::Trust { first, count } => (TRUST, 0, count, u64::from(first.get())),
        JournalEntry::Distrust { first, count } => (DISTRUST, 0, count, u64::from(first.get())),
        JournalEntry::Destaged { disk, to } => (DESTAGED, disk.get(), place_of(to), to.generation),
        JournalEntry::Logged { disk, to } => (LOGGED, disk.get(), place_of(to), to.generation),
    };
    Raw {
        kind,
        zero: 0,
        disk: U16::new(disk),
        low: U32::new(low),
        high: U64::new(high),
    }
}

fn place_of(to: Position) -> u32 {
    u32::from(to.page) | u32::from(to.erasure) << 16
}

fn decode_entry(bytes: &[u8]) -> Result<JournalEntry, Damage> {
    let raw = Raw::read_from_bytes(bytes).map_err(|_| Damage::Impossible)?;
    let slot = || {
        u32::try_from(raw.high.get())
            .ok()
            .and_then(FlashSlot::checked_new)
            .ok_or(Damage::Impossible)
    };
    let segment = SegmentIndex::new(raw.low.get());
    let generation = || {
        let generation = raw.high.get();
        let possible = generation < COUNTER_END;
        possible.then_some(generation).ok_or(Damage::Impossible)
    };
    let disk = || {
        let possible = usize::from(raw.disk.get()) < DiskSlot::COUNT;
        possible
            .then(|| DiskSlot::new(raw.disk.get()))
            .ok_or(Damage::Impossible)
    };
    match raw.kind {
        OPEN | OPEN_DIRTY => Ok(JournalEntry::Open {
            segment,
            disk: disk()?,
            generation: generation()?,
            kind: if raw.kind == OPEN {
                SegmentKind::Clean
            } else {
                SegmentKind::Dirty
            },
        }),
        FREE => Ok(JournalEntry::Free {
            segment,
            generation: generation()?,
        }),
        TRUST => Ok(JournalEntry::Trust {
            first: slot()?,
            count: raw.low.get(),
        }),
        DISTRUST => Ok(JournalEntry::Distrust {
            first: slot()?,
            count: raw.low.get(),
        }),
        DESTAGED | LOGGED => {
            let [a, b, c, d] = raw.low.to_bytes();
            let disk = disk()?;
            let to = Position {
                generation: generation()?,
                page: u16::from_le_bytes([a, b]),
                erasure: u16::from_le_bytes([c, d]),
            };
            Ok(if raw.kind == DESTAGED {
                JournalEntry::Destaged { disk, to }
            } else {
                JournalEntry::Logged { disk, to }
            })
        }
        _ => Err(Damage::Impossible),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_comes_back() {
        let entries = (0..252_u32)
            .map(|i| match i % 7 {
                0 | 4 => JournalEntry::Open {
                    segment: SegmentIndex::new(i),
                    disk: DiskSlot::new(1023),
                    generation: COUNTER_END - 1,
                    kind: if i % 7 == 0 {
                        SegmentKind::Clean
                    } else {
                        SegmentKind::Dirty
                    },
                },
                5 => JournalEntry::Destaged {
                    disk: DiskSlot::new(7),
                    to: Position {
                        generation: COUNTER_END - 1,
                        page: 4095,
                        erasure: 258,
                    },
                },
                6 => JournalEntry::Logged {
                    disk: DiskSlot::new(8),
                    to: Position {
                        generation: 3,
                        page: 258,
                        erasure: 4095,
                    },
                },
                1 => JournalEntry::Free {
                    segment: SegmentIndex::new(i),
                    generation: 5,
                },
                2 => JournalEntry::Trust {
                    first: FlashSlot::new(u32::MAX),
                    count: 1,
                },
                _ => JournalEntry::Distrust {
                    first: FlashSlot::new(i),
                    count: i,
                },
            })
            .collect();
        assert_eq!(JOURNAL_ENTRIES_PER_PAGE, 252);
        let page = JournalPage {
            sequence: 10,
            batch: 9,
            entries,
        };
        assert_eq!(JournalPage::decode(&page.encode(1), 1), Ok(page.clone()));
        assert_eq!(
            JournalPage::decode(&page.encode(1), 2),
            Err(Damage::Misplaced)
        );
    }
}
