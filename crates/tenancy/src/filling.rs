//! Filling an empty flash with what a tenant reads, as long as that pays.
//!
//! ```text
//!   read, nowhere, flash never full ─┬─ half of the share is not filled ─► flash
//!                                    ├─ a quarter comes back ────────────► flash
//!                                    └─ fewer do ────────────────────────► the policy decides
//! ```
//!
//! An empty flash has nothing to lose, and a policy that waits for blocks to come back leaves it empty for long. But a
//! block that nobody reads again is a write for nothing. A sample of the tenant's blocks says how many come back
//! ([`Returns`]). Filling goes on while a quarter does, pauses when fewer do, and goes on again when more have come back.
//! Half of the share is filled in any case: what a guest reads when it starts comes back only when it starts again.
//!
//! What was filled and nobody reads is as good as free room. So the policy hears of the first blocks that leave the flash
//! only when as many have left as came in for nothing: until then it may admit as freely as on flash that was never full.

use policy::admission::Returns;
use policy::replacement::{Fraction, Key};
use units::Bytes;

/// The least part of the blocks that must come back.
const PAYS: Fraction = Fraction::millionths(250_000);

/// One part of so many of a share is filled in any case.
const SURE_PART: u64 = 2;

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

    /// A block is read that is neither on flash nor staged. Whether it enters without the policy being asked, of a tenant
    /// with a share of so many blocks.
    pub(crate) fn takes(&mut self, key: impl Key, share_blocks: u64) -> bool {
        self.seen += 1;
        if !self.returns.read(key, self.seen) {
            self.returns.passes(key, self.seen);
        }
        self.filled < share_blocks / SURE_PART
            || self.returns.part().is_none_or(|part| part >= PAYS)
    }

    /// A block entered that [`Filling::takes`] took.
    pub(crate) fn filled(&mut self) {
        self.filled += 1;
    }

    /// A block that is on flash is read.
    pub(crate) fn hit(&mut self, key: impl Key) {
        self.returns.read(key, self.seen);
    }

    /// Blocks that were filled for nothing, as far as the sample knows.
    pub(crate) fn unread(&self) -> u64 {
        let read = self.returns.part().unwrap_or(Fraction::ZERO);
        let unread = u128::from(Fraction::ONE.get_millionths() - read.get_millionths());
        let blocks = u128::from(self.filled) * unread / u128::from(Fraction::ONE.get_millionths());
        u64::try_from(blocks).expect("no more than were filled")
    }

    /// Memory that it holds beside itself.
    pub(crate) fn memory(&self) -> Bytes {
        self.returns.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: u64 = 4_096;

    /// Reads so many blocks, each once and each `again`-th a second time. Gives how many were filled.
    fn read(filling: &mut Filling, keys: std::ops::Range<u64>, again: u64) -> u64 {
        let before = filling.filled;
        for key in keys {
            let takes = filling.takes(key, FLASH);
            if takes {
                filling.filled();
            }
            if key % again == 0 && takes {
                filling.hit(key);
            } else if key % again == 0 {
                filling.takes(key, FLASH);
            }
        }
        filling.filled - before
    }

    #[test]
    fn half_is_filled_with_blocks_that_nobody_reads_again() {
        let mut filling = Filling::new(FLASH);
        assert_eq!(read(&mut filling, 0..100_000, u64::MAX), FLASH / 2);
        assert_eq!(filling.unread(), FLASH / 2);
    }

    #[test]
    fn blocks_of_which_a_third_comes_back_fill_on() {
        let mut filling = Filling::new(FLASH);
        assert_eq!(read(&mut filling, 0..4_000, 3), 4_000);
        let unread = filling.unread();
        assert!(unread.abs_diff(4_000 * 2 / 3) < 500, "{unread}");
    }

    #[test]
    fn filling_goes_on_when_more_come_back() {
        let mut filling = Filling::new(FLASH);
        read(&mut filling, 0..4_000, u64::MAX);
        let filled = read(&mut filling, 4_000..12_000, 1);
        assert!(filled > 4_000, "{filled}");
    }
}
