//! The result of a run that has come to the trace's end.

use super::{Case, Study};
use crate::account::Finished;
use crate::counters::Counters;
use crate::error::SimError;
use crate::result::{LatencyResult, RunResult, UsedBlocks, VmResult, VolumeResult};
use crate::series::VmSample;
use trace::{Volume, Volumes};

impl Study {
    pub(super) fn result(
        &self,
        trace: &str,
        Case { policy, size, tier }: Case<'_>,
        finished: Finished,
        footprint: u32,
        volumes: &Volumes,
    ) -> Result<RunResult, SimError> {
        if !finished.is_counting {
            return Err(SimError::AllWarmup(self.warmup.to_string()));
        }
        let latency = finished.times().map(LatencyResult::of);
        let of_volume = |(counters, (_, volume)): (_, (_, &Volume))| VolumeResult {
            volume: volume.clone(),
            counters,
        };
        let vms = vms(&finished, volumes);
        let admission = finished.cache.admission();
        Ok(RunResult {
            trace: trace.to_owned(),
            policy: policy.to_string(),
            admission: policy.admission().unwrap_or_else(|| "always".to_owned()),
            allocation: policy.allocation().unwrap_or_else(|| "none".to_owned()),
            ram_policy: tier.map_or_else(|| "none".to_owned(), |tier| tier.policy.to_string()),
            ram_blocks: match tier {
                Some(tier) => tier.size.blocks(self.block, footprint)?,
                None => 0,
            },
            size: size.to_string(),
            size_blocks: size.blocks(self.block, footprint)?,
            block_bytes: self.block.get(),
            write_policy: self.write_policy.name(),
            write_miss: self.write_miss_of(policy).name(),
            footprint_blocks: footprint,
            counters: finished.total,
            volumes: finished
                .volumes
                .into_iter()
                .zip(volumes.iter())
                .map(of_volume)
                .collect(),
            vms,
            refused: admission.refusals,
            admission_memory: admission.memory,
            used: UsedBlocks {
                mean: finished.used_blocks_mean,
                peak: finished.used_blocks_peak,
                end: finished.cache.used_blocks(),
                dirty_end: finished.cache.dirty_blocks(),
            },
            latency,
            series: finished.series,
        })
    }
}

/// What each VM of a divided cache had, and what was counted for the volumes that it asked through.
fn vms(finished: &Finished, volumes: &Volumes) -> Vec<VmResult> {
    let of = |(vm, has): (u32, VmSample)| {
        let mut counters = Counters::default();
        for (role, counted) in volumes.roles().iter().zip(&finished.volumes) {
            if role.vm == vm {
                counters += counted;
            }
        }
        VmResult {
            vm: volumes.vm_name(vm).unwrap_or_default(),
            counters,
            share_blocks: has.share_blocks,
            held_blocks: has.held_blocks,
            demand_blocks: has.demand_blocks,
        }
    };
    (0..).zip(finished.cache.vms()).map(of).collect()
}
