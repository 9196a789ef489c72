//! What this run wrote where, and so what a read must find.
//!
//! Blocks here are those of verification: each carries a [`Stamp`]. The ledger of a job is right
//! as long as no request of the job overlaps a write of it that is in flight, and nobody else
//! writes to its region; both is up to who drives it.

use crate::{Flaw, Place, Region, Stamp, limits};

/// A wrong block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at offset {offset}: {flaw}")]
pub struct Finding {
    /// Where it is, in bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What there was to judge in a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Blocks that were right.
    pub right: u64,
    /// Blocks that were wrong.
    pub wrong: u64,
    /// Blocks of which nothing is known: nobody has told what is in them.
    pub unknown: u64,
}

/// What a job wrote where.
#[derive(Clone, Debug)]
pub struct Ledger {
    region: Region,
    block: u64,
    seed: u64,
    /// By block: how often it was written; 0 for never.
    writes: Vec<u32>,
    /// Whether blocks that were never written here must hold an earlier run's pattern.
    must_hold: bool,
}

impl Ledger {
    /// Nothing was written yet. With `must_hold`, blocks that this run has not written must hold
    /// what an earlier one with the same seed wrote; otherwise they may hold anything that is
    /// not a wrong block of a run.
    ///
    /// `None` if the region has more than [`limits::VERIFIED_BLOCKS_MAX`] blocks.
    ///
    /// # Panics
    /// If the region does not consist of blocks.
    pub fn new(region: Region, block: u64, seed: u64, must_hold: bool) -> Option<Self> {
        assert!(
            region.length.is_multiple_of(block),
            "a region consists of blocks"
        );
        let blocks = region.length / block;
        if blocks > limits::VERIFIED_BLOCKS_MAX {
            return None;
        }
        let blocks = usize::try_from(blocks).ok()?;
        Some(Self {
            region,
            block,
            seed,
            writes: vec![0; blocks],
            must_hold,
        })
    }

    fn index(&self, offset: u64) -> usize {
        let block = (offset - self.region.offset) / self.block;
        usize::try_from(block).expect("the ledger fits in memory")
    }

    fn offsets(&self, place: Place) -> impl Iterator<Item = u64> + use<> {
        let (block, end) = (self.block, place.offset + place.length);
        (place.offset..end).step_by(usize::try_from(block).expect("a block fits in memory"))
    }

    /// Fills the bytes of a write and notes it.
    ///
    /// # Panics
    /// If the place lies outside of the region, or has another length than the bytes.
    pub fn stamp(&mut self, place: Place, bytes: &mut [u8]) {
        assert!(place.length == bytes.len() as u64, "a write has its bytes");
        let size = usize::try_from(self.block).expect("a block fits in memory");
        for (offset, block) in self.offsets(place).zip(bytes.chunks_mut(size)) {
            let index = self.index(offset);
            self.writes[index] = self.writes[index].saturating_add(1);
            let stamp = Stamp {
                seed: self.seed,
                offset,
                sequence: u64::from(self.writes[index]),
            };
            stamp.write(block);
        }
    }

    /// Notes that nothing is known of the place any more: it was trimmed.
    pub fn forget(&mut self, place: Place) {
        for offset in self.offsets(place) {
            let index = self.index(offset);
            self.writes[index] = 0;
        }
    }

    /// Judges the bytes of a read; wrong blocks are told to `report`.
    ///
    /// # Panics
    /// If the place lies outside of the region, or has another length than the bytes.
    pub fn judge(&self, place: Place, bytes: &[u8], report: &mut dyn FnMut(Finding)) -> Verdict {
        assert!(place.length == bytes.len() as u64, "a read has its bytes");
        let size = usize::try_from(self.block).expect("a block fits in memory");
        let mut verdict = Verdict::default();
        for (offset, block) in self.offsets(place).zip(bytes.chunks(size)) {
            let expected = u64::from(self.writes[self.index(offset)]);
            let flaw = match Stamp::read(block, self.seed, offset) {
                Ok(found) if expected == 0 || found.sequence == expected => {
                    verdict.right += 1;
                    continue;
                }
                Ok(found) => Flaw::Stale {
                    expected,
                    found: found.sequence,
                },
                // What lay there before this run is nobody's fault.
                Err(Flaw::NoPattern(_) | Flaw::Foreign { .. })
                    if expected == 0 && !self.must_hold =>
                {
                    verdict.unknown += 1;
                    continue;
                }
                Err(flaw) => flaw,
            };
            verdict.wrong += 1;
            report(Finding { offset, flaw });
        }
        verdict
    }

    /// What this run has written, in order, in places of at most `bytes`.
    pub fn written(&self, bytes: u64) -> impl Iterator<Item = Place> + '_ {
        let most = (bytes / self.block).max(1);
        let mut next = 0;
        std::iter::from_fn(move || {
            let skipped = self.writes[next..].iter().position(|count| *count > 0)?;
            let first = next + skipped;
            let run = self.writes[first..].iter().take_while(|count| **count > 0);
            let run = run
                .take(usize::try_from(most).unwrap_or(usize::MAX))
                .count();
            next = first + run;
            Some(Place {
                offset: self.region.offset + first as u64 * self.block,
                length: run as u64 * self.block,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGION: Region = Region {
        offset: 8192,
        length: 64 << 10,
    };

    fn place(block: u64, blocks: u64) -> Place {
        Place {
            offset: REGION.offset + block * 4096,
            length: blocks * 4096,
        }
    }

    fn ledger(must_hold: bool) -> Ledger {
        Ledger::new(REGION, 4096, 11, must_hold).unwrap()
    }

    fn findings(ledger: &Ledger, place: Place, bytes: &[u8]) -> Vec<Finding> {
        let mut findings = Vec::new();
        ledger.judge(place, bytes, &mut |finding| findings.push(finding));
        findings
    }

    #[test]
    fn the_last_write_is_what_must_be_read() {
        let mut ledger = ledger(false);
        let (mut one, mut two) = (vec![0; 8192], vec![0; 8192]);
        ledger.stamp(place(3, 2), &mut one);
        ledger.stamp(place(3, 2), &mut two);
        assert_eq!(findings(&ledger, place(3, 2), &two), []);
        let stale = findings(&ledger, place(3, 2), &one);
        let flaw = Flaw::Stale {
            expected: 2,
            found: 1,
        };
        let offset = place(4, 1).offset;
        assert_eq!(stale.len(), 2);
        assert_eq!(stale[1], Finding { offset, flaw });
        let said = stale[1].to_string();
        assert_eq!(
            said,
            "at offset 24576: write 1 of this block instead of write 2"
        );
    }

    #[test]
    fn blocks_of_another_place_are_found_even_where_nothing_was_written() {
        let mut ledger = ledger(false);
        let mut bytes = vec![0; 4096];
        ledger.stamp(place(1, 1), &mut bytes);
        let found = findings(&ledger, place(9, 1), &bytes);
        assert_eq!(found[0].flaw, Flaw::Misplaced(place(1, 1).offset));
    }

    #[test]
    fn what_lay_there_before_is_unknown_unless_it_must_hold_a_pattern() {
        let zeroes = [0; 4096];
        let judge = |must_hold| ledger(must_hold).judge(place(0, 1), &zeroes, &mut |_| ());
        assert_eq!(judge(false).unknown, 1);
        assert_eq!(judge(true).wrong, 1);
        let mut earlier = ledger(false);
        let mut bytes = vec![0; 4096];
        for _ in 0..5 {
            earlier.stamp(place(0, 1), &mut bytes);
        }
        let verdict = ledger(true).judge(place(0, 1), &bytes, &mut |_| ());
        assert_eq!(verdict.right, 1);
    }

    #[test]
    fn a_trimmed_block_may_hold_anything() {
        let mut ledger = ledger(false);
        ledger.stamp(place(0, 1), &mut [0; 4096]);
        ledger.forget(place(0, 1));
        assert_eq!(findings(&ledger, place(0, 1), &[0; 4096]), []);
    }

    proptest! {
        #[test]
        fn what_was_written_is_listed_once_and_in_order(
            writes in proptest::collection::vec((0_u64..16, 1_u64..4), 0..12),
            most in 1_u64..5,
        ) {
            let mut ledger = ledger(false);
            let mut expected = [false; 16];
            for (first, blocks) in writes {
                let blocks = blocks.min(16 - first);
                let mut bytes = vec![0; usize::try_from(blocks * 4096).unwrap()];
                ledger.stamp(place(first, blocks), &mut bytes);
                for block in first..first + blocks {
                    expected[usize::try_from(block).unwrap()] = true;
                }
            }
            let mut seen = [false; 16];
            let mut end = 0;
            for place in ledger.written(most * 4096) {
                prop_assert!(place.offset >= end && place.length <= most * 4096);
                end = place.offset + place.length;
                for offset in (place.offset..end).step_by(4096) {
                    seen[usize::try_from((offset - REGION.offset) / 4096).unwrap()] = true;
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
