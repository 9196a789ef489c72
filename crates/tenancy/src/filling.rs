//! Filling an empty flash with what a tenant reads, as long as that pays.
//!
//! ```text
//!   read, nowhere, flash never full ─┬─ sampled ───────────► the policy decides; read again? ─► worth
//!                                    ├─ worth >= a quarter ─► flash, nobody is asked
//!                                    └─ less ──────────────► the policy decides
//! ```
//!
//! An empty flash has nothing to lose, and a policy that waits for blocks to come back leaves it empty for long. But a
//! block that nobody reads again is a write for nothing. A sample of the tenant's blocks, which are not filled, says how
//! many come back ([`Returns`]). Filling goes on while a quarter does, pauses when fewer do, and goes on again when more
//! have come back.
//!
//! What was filled and nobody reads is as good as free room. So the policy hears of the first blocks that leave the flash
//! only when as many have left as came in for nothing: until then it may admit as freely as on flash that was never full.

use policy::admission::Returns;
use policy::replacement::{Fraction, Key};

/// The least part of the blocks that must come back.
const PAYS: Fraction = Fraction::millionths(250_000);

/// Of one tenant. See the module's header.
#[derive(Debug)]
pub(crate) struct Filling {
    returns: Returns,
    /// Blocks that came by: filled, or left to the policy.
    seen: u64,
    filled: u64,
}

impl Filling {
    /// Nothing is filled of a flash of so many blocks.
    pub(crate) fn new(flash_blocks: u64) -> Self {
        Self {
            returns: Returns::new(flash_blocks),
            seen: 0,
            filled: 0,
        }
    }

    /// A block is read that is neither on flash nor staged. Whether it enters without the policy being asked.
    pub(crate) fn takes(&mut self, key: impl Key) -> bool {
        if self.returns.samples(key) {
            if !self.returns.read(key, self.seen) {
                self.seen += 1;
                self.returns.passes(key, self.seen);
            }
            return false;
        }
        self.seen += 1;
        let pays = self.returns.part().is_none_or(|part| part >= PAYS);
        self.filled += u64::from(pays);
        pays
    }

    /// Blocks that were filled for nothing, as far as the sample knows.
    pub(crate) fn unread(&self) -> u64 {
        let read = self.returns.part().unwrap_or(Fraction::ZERO);
        let unread = u128::from(Fraction::ONE.get_millionths() - read.get_millionths());
        let blocks = u128::from(self.filled) * unread / u128::from(Fraction::ONE.get_millionths());
        u64::try_from(blocks).expect("no more than were filled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: u64 = 4_096;

    /// How many of so many blocks, each read once and each `again`-th a second time, are filled.
    fn filled(blocks: u64, again: u64) -> (u64, Filling) {
        let mut filling = Filling::new(FLASH);
        for key in 0..blocks {
            filling.takes(key);
            if key % again == 0 && filling.returns.samples(key) {
                filling.takes(key);
            }
        }
        (filling.filled, filling)
    }

    #[test]
    fn blocks_that_nobody_reads_again_fill_until_the_sample_knows() {
        let (blocks, _) = filled(100_000, u64::MAX);
        // Two times sixteen sampled blocks, of which one is one in sixteen.
        assert!((250..1_200).contains(&blocks), "{blocks}");
    }

    #[test]
    fn blocks_of_which_a_third_comes_back_fill_on() {
        let (blocks, filling) = filled(4_000, 3);
        assert!(blocks > 3_400, "{blocks}");
        let unread = filling.unread();
        assert!(
            unread.abs_diff(blocks * 2 / 3) < blocks / 8,
            "{unread} of {blocks}"
        );
    }

    #[test]
    fn filling_goes_on_when_more_come_back() {
        let (blocks, mut filling) = filled(4_000, u64::MAX);
        for key in 4_000..12_000_u64 {
            filling.takes(key);
            if filling.returns.samples(key) {
                filling.takes(key);
            }
        }
        assert!(
            filling.filled > blocks + 1_000,
            "{} after {blocks}",
            filling.filled
        );
    }
}
