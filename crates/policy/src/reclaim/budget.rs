//! What reclaim may write: a controller that keeps the log's write amplification at its aim.
//!
//! Every block that is appended earns a part of a block, every block that reclaim writes again
//! spends one. What is earned is the aim less what the log's own pages cost, headers, footers
//! and journal, so that in the long run
//!
//! ```text
//!   (appended + rewritten + overhead) / appended  <=  aim
//! ```
//!
//! whatever the workload does. What is not spent is saved, up to a few segments, so that a burst of
//! segments worth keeping can be kept; the fuller the purse, the more a segment may cost
//! ([`Budget::part`]).

/// Bytes written for each byte admitted that the log aims at, in hundredths. The bar is 1.30;
/// three hundredths are for what chunks sealed early and small segments cost beyond the plan.
const AIM_HUNDREDTHS: u64 = 127;
/// However much the log's own pages cost, so much of a block is earned by each: some survive
/// even in segments so small that headers and footers alone miss the aim.
const EARNED_HUNDREDTHS_MIN: u64 = 3;
/// Segments full of survivors that can be saved for.
const SEGMENTS_SAVED: u64 = 8;
/// A block, in the unit of the purse.
const BLOCK: u64 = 100;

/// Blocks that reclaim may write again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    saved: u64,
    earned: u64,
    most: u64,
}

impl Budget {
    /// An empty purse for segments of so many blocks, each of which costs so many pages of the log's
    /// own.
    ///
    /// # Panics
    /// If a segment holds no block.
    pub fn new(segment_blocks: u32, overhead_pages: u32) -> Self {
        assert!(segment_blocks > 0, "a segment holds blocks");
        let own = (u64::from(overhead_pages) * BLOCK).div_ceil(u64::from(segment_blocks));
        Self {
            saved: 0,
            earned: (AIM_HUNDREDTHS - BLOCK)
                .saturating_sub(own)
                .max(EARNED_HUNDREDTHS_MIN),
            most: SEGMENTS_SAVED * u64::from(segment_blocks) * BLOCK,
        }
    }

    /// So many blocks that are not survivors were appended.
    #[inline]
    pub fn earn(&mut self, blocks: u32) {
        self.saved = (self.saved + self.earned * u64::from(blocks)).min(self.most);
    }

    /// A survivor is written.
    #[inline]
    pub fn spend(&mut self) {
        self.saved = self.saved.saturating_sub(BLOCK);
    }

    /// Whole blocks that may be written now.
    pub fn blocks(&self) -> u32 {
        u32::try_from(self.saved / BLOCK).unwrap_or(u32::MAX)
    }

    /// The part of `blocks` that the purse is full: all of it if nothing more can be saved.
    pub fn part(&self, blocks: u64) -> u64 {
        blocks * self.saved / self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 62 blocks of 64 pages; header, footer and a journal page are 5 hundredths: 22 are left.
    #[test]
    fn each_block_earns_what_the_aim_leaves() {
        let mut budget = Budget::new(62, 3);
        assert_eq!(budget.earned, 22);
        for _ in 0..5 {
            budget.earn(1);
        }
        assert_eq!((budget.saved, budget.blocks()), (110, 1));
        budget.spend();
        assert_eq!((budget.saved, budget.blocks()), (10, 0));
        budget.spend();
        assert_eq!(budget.saved, 0, "nothing is owed");
    }

    #[test]
    fn a_full_purse_holds_eight_segments_and_allows_all() {
        let mut budget = Budget::new(62, 3);
        assert_eq!(budget.part(1000), 0);
        (0..100_000).for_each(|_| budget.earn(1));
        assert_eq!(budget.blocks(), 8 * 62);
        assert_eq!(budget.part(1000), 1000);
    }

    #[test]
    fn a_segment_that_is_mostly_overhead_earns_a_little() {
        assert_eq!(Budget::new(14, 4).earned, 3);
        assert_eq!(Budget::new(1011, 14).earned, 25);
    }

    #[test]
    #[should_panic(expected = "a segment holds blocks")]
    fn a_segment_without_blocks_is_refused() {
        let _ = Budget::new(0, 1);
    }

    proptest! {
        /// However it is spent, no more is written than the aim allows and what had been saved.
        #[test]
        fn what_is_written_converges_to_the_aim(
            wishes in prop::collection::vec(0..200_u32, 1..400),
            blocks in 14..1024_u32,
            overhead in 1..16_u32,
        ) {
            let mut budget = Budget::new(blocks, overhead);
            let mut spent = 0;
            for wish in &wishes {
                budget.earn(blocks);
                let allowed = budget.blocks().min(*wish);
                (0..allowed).for_each(|_| budget.spend());
                spent += u64::from(allowed);
            }
            let appended = wishes.len() as u64 * u64::from(blocks);
            prop_assert!(spent * BLOCK <= appended * budget.earned);
        }
    }
}
