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
    /// For [`super::frequency`]: the VM's weight. One if it has none.
    pub weight: Fraction,
    /// For [`super::frequency`]: a VM of high priority is not held to the threshold.
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

    /// A VM's weight among all VMs of the host: its part of the CPUs times its part of the memory, rounded
    /// down to a millionth. Both sums include the VM itself.
    ///
    /// # Panics
    /// If a part is more than its sum.
    pub fn weight_of(cpus: u64, cpus_sum: u64, memory: u64, memory_sum: u64) -> Fraction {
        assert!(cpus <= cpus_sum);
        assert!(memory <= memory_sum);
        let whole = (u128::from(cpus_sum) * u128::from(memory_sum)).max(1);
        let part = u128::from(cpus) * u128::from(memory);
        // Sums of a host are far below the 2^118 from which on this would overflow.
        let millionths = part.saturating_mul(1_000_000) / whole;
        Fraction::millionths(u32::try_from(millionths).expect("a part is not more than the whole"))
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
