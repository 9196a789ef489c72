//! The metrics of VMs and base images, and of what divides the flash among them.

use super::encode::{Snapshot, Value};
use super::family::{Family, Series, counter, gauge, some_caches};
use api::vms::{Share, WriteBudget};

const VM: &[&str] = &["vm", "kind", "cache"];
const CACHE: &[&str] = &["cache"];

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    gauge(
        "vm_demand_blocks",
        None,
        "Blocks of 4096 bytes that the VM or image used again within its window",
        VM,
        |snapshot, out| {
            shares(snapshot, out, None, |share| {
                Some(share.demand.reused_blocks)
            });
        },
    ),
    gauge(
        "vm_predicted_blocks",
        None,
        "Demand that is foreseen for the next window; absent before the first has ended",
        VM,
        |snapshot, out| {
            series(snapshot, out, None, |share| {
                share.demand.predicted_blocks.map(Value::Real)
            });
        },
    ),
    gauge(
        "vm_share_blocks",
        None,
        "Flash that the VM or image is to have, in blocks",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| Some(share.share_blocks)),
    ),
    gauge(
        "vm_target_blocks",
        None,
        "Flash that the allocation asked for; the share follows where the change is worth making",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| Some(share.target_blocks)),
    ),
    gauge(
        "vm_held_blocks",
        None,
        "Blocks on flash now",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| Some(share.held_blocks)),
    ),
    counter(
        "vm_read_blocks",
        None,
        "Blocks read",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| Some(share.blocks.reads)),
    ),
    counter(
        "vm_read_block_hits",
        None,
        "Blocks read that were there, by place: flash, memory (staged)",
        &["vm", "kind", "cache", "place"],
        |snapshot, out| {
            shares(snapshot, out, Some(("place", "flash")), |share| {
                Some(share.blocks.flash_hits)
            });
            shares(snapshot, out, Some(("place", "memory")), |share| {
                Some(share.blocks.memory_hits)
            });
        },
    ),
    counter(
        "vm_admitted_blocks",
        None,
        "Blocks that were let into the flash",
        VM,
        |snapshot, out| {
            shares(snapshot, out, None, |share| {
                Some(share.admission.admitted_blocks)
            });
        },
    ),
    counter(
        "vm_refused_blocks",
        None,
        "Blocks that were not let into the flash, by reason as hearth vm show lists them",
        &["vm", "kind", "cache", "reason"],
        |snapshot, out| {
            each(snapshot, |labels, share| {
                for (reason, blocks) in &share.admission.refused_blocks {
                    let mut labels = labels.clone();
                    labels.push(("reason", reason));
                    let value = Value::Whole(*blocks);
                    out.push(Series { labels, value });
                }
            });
        },
    ),
    counter(
        "vm_flash_written",
        Some("bytes"),
        "Bytes written to flash for the VM or image by cause: admitted, reclaim, metadata",
        &["vm", "kind", "cache", "cause"],
        |snapshot, out| {
            each(snapshot, |labels, share| {
                for (cause, bytes) in share.flash_written_bytes.causes() {
                    let mut labels = labels.clone();
                    labels.push(("cause", cause));
                    let value = Value::Whole(bytes);
                    out.push(Series { labels, value });
                }
            });
        },
    ),
    gauge(
        "vm_write_budget_day",
        Some("bytes"),
        "Bytes that may be written to flash for the VM a day; absent without a budget of its own",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| of(share, |b| b.bytes_per_day)),
    ),
    gauge(
        "vm_write_budget_left",
        Some("bytes"),
        "Bytes that may be written to flash for the VM now; absent without a budget of its own",
        VM,
        |snapshot, out| shares(snapshot, out, None, |share| of(share, |b| b.left_bytes)),
    ),
    counter(
        "image_saved_blocks",
        None,
        "Blocks of a base image that VMs found in the cache when they first read them (estimated)",
        &["image", "cache"],
        |snapshot, out| {
            for image in &snapshot.vms.images {
                out.push(Series {
                    labels: vec![
                        ("image", image.name.as_str()),
                        ("cache", image.cache.as_str()),
                    ],
                    value: Value::Whole(image.saved_blocks),
                });
            }
        },
    ),
    gauge(
        "cache_divided_blocks",
        None,
        "Flash that is divided among VMs and images, in blocks",
        CACHE,
        |snapshot, out| {
            some_caches(snapshot, out, None, |cache| {
                let policy = cache.policy.as_ref()?;
                Some(Value::Whole(policy.capacity_blocks))
            });
        },
    ),
    gauge(
        "cache_write_budget_day",
        Some("bytes"),
        "Bytes that may be written to the flash a day; absent without a budget",
        CACHE,
        |snapshot, out| budgets(snapshot, out, |budget| budget.bytes_per_day),
    ),
    gauge(
        "cache_write_budget_left",
        Some("bytes"),
        "Bytes that may be written to the flash now; absent without a budget",
        CACHE,
        |snapshot, out| budgets(snapshot, out, |budget| budget.left_bytes),
    ),
    gauge(
        "cache_policy_memory",
        Some("bytes"),
        "Main memory of admission, demand and curves, staged blocks included",
        CACHE,
        |snapshot, out| {
            some_caches(snapshot, out, None, |cache| {
                let policy = cache.policy.as_ref()?;
                Some(Value::Whole(policy.memory_bytes))
            });
        },
    ),
];

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Every share of VMs and images with its labels.
fn each<'a>(snapshot: &'a Snapshot, mut use_it: impl FnMut(Labels<'a>, &'a Share)) {
    for vm in &snapshot.vms.vms {
        for share in &vm.shares {
            use_it(labels(vm.name.as_str(), "vm", share), share);
        }
    }
    for image in &snapshot.vms.images {
        if let Some(share) = &image.share {
            use_it(labels(image.name.as_str(), "image", share), share);
        }
    }
}

fn labels<'a>(name: &'a str, kind: &'static str, share: &'a Share) -> Labels<'a> {
    vec![
        ("vm", name),
        ("kind", kind),
        ("cache", share.cache.as_str()),
    ]
}

fn series<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a Share) -> Option<Value<'a>>,
) {
    each(snapshot, |mut labels, share| {
        if let Some(value) = value(share) {
            labels.extend(extra);
            out.push(Series { labels, value });
        }
    });
}

fn shares<'a>(
    snapshot: &'a Snapshot,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a Share) -> Option<u64>,
) {
    series(snapshot, out, extra, |share| value(share).map(Value::Whole));
}

fn of(share: &Share, pick: fn(&WriteBudget) -> u64) -> Option<u64> {
    share.write_budget.as_ref().map(pick)
}

fn budgets<'a>(snapshot: &'a Snapshot, out: &mut Vec<Series<'a>>, pick: fn(&WriteBudget) -> u64) {
    some_caches(snapshot, out, None, |cache| {
        let budget = cache.policy.as_ref()?.write_budget.as_ref()?;
        Some(Value::Whole(pick(budget)))
    });
}
