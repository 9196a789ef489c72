//! Runs of blocks, as a frame's data: 12 bytes each, the first block and how many, little-endian.

use crate::limits::DATA_MAX;
use units::BlockIndex;

/// Most blocks whose bytes a frame has room for.
pub(crate) const BLOCKS_MAX: u32 = 256;
const RUN_BYTES: usize = 12;
/// Most runs of a frame.
const RUNS_MAX: usize = DATA_MAX / RUN_BYTES;

/// Whether a disk can have these blocks.
pub(crate) fn is_run(first: u64, count: u32) -> bool {
    let end = first.checked_add(u64::from(count));
    end.is_some_and(|end| end <= 1 << BlockIndex::BITS)
}

/// A frame's data for runs of blocks: the first block and how many. Those that no frame has room for are left out.
pub fn encode_runs(runs: &[(u64, u32)]) -> Vec<u8> {
    let some = runs.iter().take(RUNS_MAX);
    some.flat_map(|(first, count)| {
        let mut run = [0; RUN_BYTES];
        run[..8].copy_from_slice(&first.to_le_bytes());
        run[8..].copy_from_slice(&count.to_le_bytes());
        run
    })
    .collect()
}

/// The runs of a frame's data, or none if it has something else.
pub fn decode_runs(data: &[u8]) -> Option<Vec<(u64, u32)>> {
    let (runs, rest) = data.as_chunks::<RUN_BYTES>();
    let decode = |run: &[u8; RUN_BYTES]| {
        let (first, count) = run.split_at(8);
        let first = u64::from_le_bytes(first.try_into().ok()?);
        let count = u32::from_le_bytes(count.try_into().ok()?);
        is_run(first, count).then_some((first, count))
    };
    let runs: Option<Vec<_>> = runs.iter().map(decode).collect();
    runs.filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_come_back_as_they_were_and_nothing_else_passes() {
        let runs = vec![(0, 1), (7, 4096), ((1 << 36) - 2, 2)];
        let data = encode_runs(&runs);
        assert_eq!(decode_runs(&data), Some(runs));
        assert_eq!(decode_runs(&[]), Some(Vec::new()));
        assert_eq!(decode_runs(&data[1..]), None);
        for past in [((1 << 36) - 2, 3), (u64::MAX, 1)] {
            assert_eq!(decode_runs(&encode_runs(&[past])), None);
        }
    }

    #[test]
    fn a_frame_has_room_for_the_blocks_that_may_be_asked_for() {
        let bytes = u64::from(BLOCKS_MAX) * units::BLOCK_BYTES;
        assert_eq!(bytes, DATA_MAX as u64);
    }

    #[test]
    fn more_runs_than_a_frame_has_room_for_are_left_out() {
        let runs = vec![(1, 1); RUNS_MAX + 1];
        let data = encode_runs(&runs);
        assert!(data.len() <= DATA_MAX);
        assert_eq!(decode_runs(&data).map(|runs| runs.len()), Some(RUNS_MAX));
    }
}
