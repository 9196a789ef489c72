//! What may still be written while a log has to get shorter: half of what leaves it.

use units::BLOCK_BYTES;

/// Bytes that may be written. Where half as much enters a log as leaves it the log gets shorter, and no guest waits until
/// all of it has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit(u64);

impl Credit {
    /// So many bytes have left.
    pub(super) fn earn(&mut self, bytes: u64) {
        self.0 += bytes / 2;
    }

    /// Pays for a block. False if there is not enough, and then nothing is paid.
    pub(super) fn pays_for_block(&mut self) -> bool {
        let left = self.0.checked_sub(BLOCK_BYTES);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_paid_for_by_two_that_have_left() {
        let mut credit = Credit::default();
        credit.earn(2 * BLOCK_BYTES - 2);
        assert!(!credit.pays_for_block());
        credit.earn(2);
        assert!(credit.pays_for_block());
        assert!(!credit.pays_for_block());
    }
}
