//! What memory in front of a cache would change: copies of blocks that are read, so that some reads need no flash.

use super::{Costs, Outlook, Workload, limits};
use units::number::real;

/// Memory in front of a cache, and what it would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryOutlook {
    /// Its size.
    pub blocks: u64,
    /// The same in bytes.
    pub bytes: u64,
    /// Part of all reads that are answered from it.
    pub read_hit_ratio: f64,
    /// Mean latency of a block's read or write with it.
    pub access_us: f64,
    /// How much less that is than with the flash alone, 0 to 1.
    pub gain: f64,
}

impl MemoryOutlook {
    /// Memory of `blocks` from which that part of all reads is answered, each in `memory_read_us`, in front of a cache
    /// with this outlook.
    pub fn new(
        workload: &Workload,
        costs: &Costs,
        flash: &Outlook,
        (blocks, read_hit_ratio): (u64, f64),
        memory_read_us: f64,
    ) -> Self {
        let reads = real(workload.reads) / real((workload.reads + workload.writes).max(1));
        let faster_us = (costs.flash_read_us - memory_read_us).max(0.0);
        let access_us = flash.access_us - reads * read_hit_ratio * faster_us;
        Self {
            blocks,
            bytes: blocks * workload.block_bytes,
            read_hit_ratio,
            access_us,
            gain: 1.0 - access_us / flash.access_us,
        }
    }

    /// Whether it is felt: as much as is asked of flash.
    pub fn pays(&self) -> bool {
        self.gain >= limits::LATENCY_GAIN_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Behaviour, FlashWrites, Scenario, WriteMode};
    use crate::{Between, Curve, Point};

    const WORKLOAD: Workload = Workload {
        reads: 3_000,
        writes: 1_000,
        footprint_blocks: 100,
        block_bytes: 4096,
        seconds: None,
    };
    const COSTS: Costs = Costs {
        flash_read_us: 100.0,
        flash_write_us: 20.0,
        origin_read_us: 1_000.0,
        origin_write_us: 100.0,
    };

    #[test]
    fn a_read_from_memory_saves_the_flash() {
        let curve = vec![Point {
            blocks: 100,
            miss_ratio: 0.0,
        }];
        let behaviour = Behaviour {
            reads: Curve::new(curve, Between::Line),
            reachable: 1.0,
            flash_writes: FlashWrites::EveryMiss,
            origin_writes: None,
            times: None,
        };
        let scenario = Scenario {
            write_mode: WriteMode::Through,
            costs: COSTS,
            write_amplification: 1.0,
            drive: None,
            years: 5.0,
            prices: None,
        };
        // Every access takes 100 us. Half of the reads, three accesses in eight, take 20 us instead.
        let flash = Outlook::new(&WORKLOAD, &behaviour, &scenario, 100);
        let half = MemoryOutlook::new(&WORKLOAD, &COSTS, &flash, (10, 0.5), 20.0);
        assert!((half.access_us - 70.0).abs() < 1e-6, "{half:?}");
        assert!((half.gain - 0.3).abs() < 1e-6 && half.pays());
        assert_eq!(half.bytes, 40_960);
        let little = MemoryOutlook::new(&WORKLOAD, &COSTS, &flash, (10, 0.1), 20.0);
        assert!(!little.pays(), "{little:?}");
        let slower = MemoryOutlook::new(&WORKLOAD, &COSTS, &flash, (10, 0.5), 200.0);
        assert!(
            slower.gain.abs() < 1e-9,
            "nobody reads from memory that is slower"
        );
    }
}
