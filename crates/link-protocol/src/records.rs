//! Records of a dirty log, as a frame's data: a head of 16 bytes for each, and behind that of a block its bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | what it says: 0 a block has the bytes that follow; 1 blocks were discarded; 2 they read as zeroes; 3 so, and the origin may deallocate them |
//! | 1 | 1, if the guest had flushed before it; else 0 |
//! | 2–3 | 0 |
//! | 4–7 | how many blocks, little-endian; 1 with bytes |
//! | 8–15 | the first block, little-endian |

use crate::limits::DATA_MAX;
use crate::runs::is_run;
use units::BLOCK_BYTES;

const HEAD_BYTES: usize = 16;
#[expect(clippy::cast_possible_truncation, reason = "4096")]
const PAGE_BYTES: usize = BLOCK_BYTES as usize;

const BLOCK: u8 = 0;
const DISCARDED: u8 = 1;
const ZEROES: u8 = 2;
const UNMAPPED: u8 = 3;

/// A record of the owner's dirty log, with the bytes of a block as `B`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<B = Vec<u8>> {
    /// The guest had flushed before it.
    pub begins_interval: bool,
    /// What it says.
    pub what: RecordWhat<B>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordWhat<B = Vec<u8>> {
    /// A block has these bytes: 4,096.
    Block {
        /// Which.
        block: u64,
        /// Its bytes.
        bytes: B,
    },
    /// Blocks were erased.
    Erased {
        /// The first one.
        first: u64,
        /// How many.
        count: u32,
        /// How.
        how: Erased,
    },
}

/// How blocks were erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    /// They were discarded.
    Discarded,
    /// They read as zeroes.
    Zeroes,
    /// They read as zeroes, and the origin may deallocate them.
    Unmapped,
}

impl Erased {
    const fn kind(self) -> u8 {
        match self {
            Self::Discarded => DISCARDED,
            Self::Zeroes => ZEROES,
            Self::Unmapped => UNMAPPED,
        }
    }

    const fn of_kind(kind: u8) -> Option<Self> {
        match kind {
            DISCARDED => Some(Self::Discarded),
            ZEROES => Some(Self::Zeroes),
            UNMAPPED => Some(Self::Unmapped),
            _ => None,
        }
    }
}

/// A frame's data for records. `None`: a frame has no room for them, or a block's bytes are not one block.
pub fn encode_records<B: AsRef<[u8]>>(records: &[Record<B>]) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for record in records {
        let (kind, count, first) = match &record.what {
            RecordWhat::Block { block, .. } => (BLOCK, 1_u32, *block),
            RecordWhat::Erased { first, count, how } => (how.kind(), *count, *first),
        };
        data.extend_from_slice(&[kind, u8::from(record.begins_interval), 0, 0]);
        data.extend_from_slice(&count.to_le_bytes());
        data.extend_from_slice(&first.to_le_bytes());
        if let RecordWhat::Block { bytes, .. } = &record.what {
            let bytes = bytes.as_ref();
            if bytes.len() != PAGE_BYTES {
                return None;
            }
            data.extend_from_slice(bytes);
        }
        if data.len() > DATA_MAX {
            return None;
        }
    }
    Some(data)
}

/// The records of a frame's data, or none if it has something else.
pub fn decode_records(mut data: &[u8]) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !data.is_empty() {
        let (head, rest) = data.split_first_chunk::<HEAD_BYTES>()?;
        data = rest;
        let [kind, begins, 0, 0, ..] = *head else {
            return None;
        };
        let begins_interval = match begins {
            0 => false,
            1 => true,
            _ => return None,
        };
        let count = u32::from_le_bytes(head[4..8].try_into().ok()?);
        let first = u64::from_le_bytes(head[8..].try_into().ok()?);
        if count == 0 || !is_run(first, count) {
            return None;
        }
        let what = match kind {
            BLOCK if count == 1 => {
                let (bytes, rest) = data.split_at_checked(PAGE_BYTES)?;
                data = rest;
                RecordWhat::Block {
                    block: first,
                    bytes: bytes.to_vec(),
                }
            }
            BLOCK => return None,
            kind => RecordWhat::Erased {
                first,
                count,
                how: Erased::of_kind(kind)?,
            },
        };
        records.push(Record {
            begins_interval,
            what,
        });
    }
    Some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(block: u64, byte: u8) -> Record {
        Record {
            begins_interval: byte.is_multiple_of(2),
            what: RecordWhat::Block {
                block,
                bytes: vec![byte; PAGE_BYTES],
            },
        }
    }

    fn erased(first: u64, count: u32, how: Erased) -> Record {
        Record {
            begins_interval: how == Erased::Zeroes,
            what: RecordWhat::Erased { first, count, how },
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let records = vec![
            block(7, 1),
            erased(3, 5, Erased::Zeroes),
            block((1 << 36) - 1, 2),
            erased(0, u32::MAX, Erased::Discarded),
            erased(1, 1, Erased::Unmapped),
        ];
        let data = encode_records(&records).unwrap();
        assert_eq!(decode_records(&data), Some(records));
        assert_eq!(decode_records(&[]), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let whole = encode_records(&[block(7, 2), erased(3, 5, Erased::Discarded)]).unwrap();
        for cut in [1, HEAD_BYTES - 1, HEAD_BYTES, whole.len() - 1] {
            assert_eq!(decode_records(&whole[..cut]), None, "cut at {cut}");
        }
        // Kind, mark, and what has to be zero.
        for (at, byte) in [(0, 4), (1, 2), (2, 1), (3, 1)] {
            let mut bad = whole.clone();
            bad[at] = byte;
            assert_eq!(decode_records(&bad), None, "byte {at} is {byte}");
        }
        for (first, count) in [(0, 0), ((1 << 36) - 1, 2), (u64::MAX, 1)] {
            let data = encode_records(&[erased(first, count, Erased::Zeroes)]).unwrap();
            assert_eq!(decode_records(&data), None, "{first}, {count}");
        }
        let mut two = encode_records(&[block(1, 1)]).unwrap();
        two[4] = 2;
        assert_eq!(decode_records(&two), None, "the bytes are of one block");
    }

    #[test]
    fn what_a_frame_has_no_room_for_is_not_encoded() {
        let most = DATA_MAX / (HEAD_BYTES + PAGE_BYTES);
        assert!(most >= 240, "as many as are shipped at a time");
        assert!(encode_records(&vec![block(1, 1); most]).is_some());
        assert!(encode_records(&vec![block(1, 1); most + 1]).is_none());
        let torn = Record {
            begins_interval: false,
            what: RecordWhat::Block {
                block: 1,
                bytes: vec![0; PAGE_BYTES - 1],
            },
        };
        assert!(encode_records(&[torn]).is_none());
    }

    proptest! {
        #[test]
        fn whatever_parses_is_written_alike(data in proptest::collection::vec(0..5_u8, 0..200)) {
            if let Some(records) = decode_records(&data) {
                prop_assert_eq!(encode_records(&records), Some(data));
            }
        }
    }
}
