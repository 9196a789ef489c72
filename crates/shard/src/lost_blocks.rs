//! Log lines about damaged blocks on flash that no origin has: each one is told, once.

use crate::failures::FlashName;
use block_io::{FailureKind, PAGE_BYTES};
use cache::Damage;
use events::EventKind;
use std::collections::BTreeSet;
use units::Offset;

/// So many are remembered as told; then all are told anew.
const TOLD_MAX: usize = 4096;

/// The places on flash of which it was told.
#[derive(Debug, Default)]
pub(crate) struct LostBlocks(BTreeSet<u64>);

impl LostBlocks {
    /// Whether a place is told now.
    fn tells(&mut self, at: Offset) -> bool {
        if self.0.len() >= TOLD_MAX {
            self.0.clear();
        }
        self.0.insert(at.get())
    }

    /// A block that its origin lacks is not what was written.
    pub(crate) fn told(&mut self, at: FlashName<'_>, disk: Option<&str>, damage: Damage) {
        const KIND: FailureKind = FailureKind::FlashDamaged;
        if !self.tells(damage.at) {
            return;
        }
        tracing::error!(
            event = EventKind::DirtyDamaged.word(),
            kind = KIND.name(), message_id = KIND.message_id(), disk,
            offset = damage.block.map(|block| block.start().get()), length = PAGE_BYTES,
            cache = at.cache, flash = %at.flash.display(), flash_offset = damage.at.get(),
            "a block that the origin lacks is damaged on flash: reads of it fail until it is written again"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_told_once() {
        let mut lost = LostBlocks::default();
        assert!(lost.tells(Offset::ZERO));
        assert!(!lost.tells(Offset::ZERO));
        assert!(lost.tells(Offset::new(4096)));
    }
}
