//! What a tenant has: flash, RAM for admission, weight.

use units::Bytes;

use crate::replacement::Fraction;

/// What a tenant has of the host, as far as admission depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Blocks of flash.
    pub blocks: u64,
    /// RAM for all that admission remembers, addresses and staged bytes together.
    pub staging: Bytes,
    /// For `frequency`: the VM's weight. One if it has none.
    pub weight: Fraction,
    /// For `frequency`: a VM of high priority is not held to the threshold.
    pub high_priority: bool,
}

impl Share {
    /// A share of a VM with weight 1 and no priority.
    pub const fn new(blocks: u64, staging: Bytes) -> Self {
        Self {
            blocks,
            staging,
            weight: Fraction::ONE,
            high_priority: false,
        }
    }

    /// The same with this weight.
    pub const fn with_weight(mut self, weight: Fraction) -> Self {
        self.weight = weight;
        self
    }

    /// The same of high priority.
    pub const fn with_high_priority(mut self) -> Self {
        self.high_priority = true;
        self
    }
}
