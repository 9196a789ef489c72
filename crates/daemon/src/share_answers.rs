//! From the tenancy's words about one tenant to those of the API.

use api::vms::{
    Admission, BlockCounts, Curve, CurvePoint, Demand, FlashWritten, ImageUser, Prefetch, Share,
    Sharing, WriteBudget,
};
use configuration::Name;
use tenancy::{BudgetLeft, LiveCurve, Report};
use units::{BLOCK_BYTES, TenantSlot};

/// Steps of a curve's sizes in an octave.
const PER_OCTAVE: u32 = 4;

/// What the shard says of a tenant beside the tenancy's report.
pub(super) struct About<'a> {
    pub(super) cache: &'a Name,
    pub(super) error: Option<String>,
    pub(super) held_blocks: u64,
    pub(super) written_day_bytes: u64,
    pub(super) foreseen: Option<cache::Foreseen>,
    pub(super) memory_weight: f64,
    /// Names of tenants by slot.
    pub(super) name: &'a dyn Fn(TenantSlot) -> Option<String>,
}

pub(super) fn share(report: &Report, about: About<'_>) -> Share {
    let (wants, counts) = (&report.wants, &report.counts);
    let refused = counts.refused.iter();
    Share {
        cache: about.cache.clone(),
        error: about.error,
        share_blocks: report.curve.present_blocks,
        target_blocks: report.curve.proposed_blocks,
        held_blocks: about.held_blocks,
        demand: Demand {
            window_seconds: wants.window.to_std().as_secs_f64(),
            working_set_blocks: wants.wss,
            reused_blocks: wants.rwss,
            predicted_blocks: wants.rwss_predicted,
            prediction_error: wants.error,
            reads_per_second: report.reads_a_second,
        },
        admission: Admission {
            policy: report.admission.clone(),
            staging_bytes: report.staging.get(),
            admitted_blocks: counts.admitted,
            filled_blocks: counts.filled,
            staged_blocks: counts.staged,
            dropped_blocks: counts.unstaged,
            withheld_blocks: counts.withheld,
            refused_blocks: refused
                .map(|(reason, blocks)| (reason.name().to_owned(), blocks))
                .collect(),
        },
        blocks: BlockCounts {
            reads: counts.reads,
            flash_hits: counts.read_hits,
            memory_hits: counts.staged_hits,
            writes: counts.writes,
            image_reads: counts.image_reads,
            image_hits: counts.image_hits,
            evicted: counts.evicted,
        },
        flash_written_bytes: FlashWritten {
            admitted: counts.wrote.admitted,
            reclaim: counts.wrote.reclaim,
            metadata: counts.wrote.metadata,
        },
        flash_written_day_bytes: about.written_day_bytes,
        write_budget: report.budget.as_ref().map(budget),
        curve: curve(&report.curve),
        sharing: report.sharing.as_ref().map(|of| sharing(of, about.name)),
        prefetch: about.foreseen.map(|seen| Prefetch {
            fetched_blocks: seen.fetched_blocks,
            used_blocks: seen.used_blocks,
            told_blocks: seen.told_blocks,
            wasted_blocks: seen.wasted_blocks,
            precision: Prefetch::precision_of(seen.used_blocks, seen.wasted_blocks),
            refused_guesses: seen.refused_guesses,
            dropped_guesses: seen.dropped_guesses,
            memory_bytes: seen.memory.get(),
        }),
        memory_bytes: report.memory.get(),
        memory_weight: about.memory_weight,
    }
}

pub(super) fn budget(budget: &BudgetLeft) -> WriteBudget {
    WriteBudget {
        bytes_per_day: budget.per_day.get(),
        burst_bytes: budget.burst.get(),
        left_bytes: budget.left.get(),
        debt_bytes: budget.debt.get(),
    }
}

fn curve(live: &LiveCurve) -> Curve {
    let widest = live.reads.blocks_max().max(live.all.blocks_max());
    let widest = widest.max(live.present_blocks).max(live.proposed_blocks);
    let point = |size_blocks: u64| CurvePoint {
        size_blocks,
        read_hit_ratio: live.reads.hit_ratio(size_blocks),
        hit_ratio: live.all.hit_ratio(size_blocks),
    };
    Curve {
        sampled_rate: live.rate,
        present_read_hit_ratio: live.present_hit_ratio,
        target_read_hit_ratio: live.proposed_hit_ratio,
        knee_blocks: live.knee_blocks,
        points: mrc::plot_sizes(widest.max(1), PER_OCTAVE)
            .into_iter()
            // Sizes below a MiB are of no use to anybody.
            .filter(|size| size * BLOCK_BYTES >= 1 << 20 || *size == widest)
            .map(point)
            .collect(),
    }
}

fn sharing(of: &tenancy::Sharing, name: &dyn Fn(TenantSlot) -> Option<String>) -> Sharing {
    let users = of.users.iter().filter_map(|user| {
        Some(ImageUser {
            vm: name(user.vm)?,
            used_blocks: user.blocks,
            shared_blocks: user.shared_blocks,
            portion_blocks: user.portion_blocks,
        })
    });
    let mut users: Vec<ImageUser> = users.collect();
    users.sort_by(|a, b| a.vm.cmp(&b.vm));
    Sharing {
        shared_blocks: of.shared_blocks,
        saved_blocks: of.saved_blocks,
        users,
    }
}
