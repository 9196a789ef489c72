//! The metrics of VMs and base images, and of what divides the flash among them.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series, some_caches};
use api::vms::{Share, WriteBudget};

const VM: &[&str] = &["vm", "kind", "cache"];
const CACHE: &[&str] = &["cache"];

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "vm_demand_blocks",
        unit: None,
        help: "Blocks of 4096 bytes that the VM or image used again within its window",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| {
                Some(share.demand.reused_blocks)
            });
        }),
    },
    Family {
        name: "vm_predicted_blocks",
        unit: None,
        help: "Demand that is foreseen for the next window; absent before the first has ended",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            series(snapshot, out, None, |share| {
                share.demand.predicted_blocks.map(Number::Real)
            });
        }),
    },
    Family {
        name: "vm_prefetched_blocks",
        unit: None,
        help: "Blocks that were prefetched into memory and of which is known what became of them: used, wasted",
        labels: &["vm", "kind", "cache", "outcome"],
        read: Read::Counter(|snapshot, out| {
            shares(snapshot, out, Some(("outcome", "used")), |share| {
                share.prefetch.map(|of| of.used_blocks)
            });
            shares(snapshot, out, Some(("outcome", "wasted")), |share| {
                share.prefetch.map(|of| of.wasted_blocks)
            });
        }),
    },
    Family {
        name: "vm_prefetch_guesses_not_fetched",
        unit: None,
        help: "Guesses of what is read next that were not fetched, by reason: refused (not worth the price), dropped (the VM's own reads kept the origin busy)",
        labels: &["vm", "kind", "cache", "reason"],
        read: Read::Counter(|snapshot, out| {
            shares(snapshot, out, Some(("reason", "refused")), |share| {
                share.prefetch.map(|of| of.refused_guesses)
            });
            shares(snapshot, out, Some(("reason", "dropped")), |share| {
                share.prefetch.map(|of| of.dropped_guesses)
            });
        }),
    },
    Family {
        name: "vm_share_blocks",
        unit: None,
        help: "Flash that the VM or image is to have, in blocks",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| Some(share.share_blocks));
        }),
    },
    Family {
        name: "vm_target_blocks",
        unit: None,
        help: "Flash that the allocation asked for; the share follows where the change is worth making",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| Some(share.target_blocks));
        }),
    },
    Family {
        name: "vm_held_blocks",
        unit: None,
        help: "Blocks on flash now",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| Some(share.held_blocks));
        }),
    },
    Family {
        name: "vm_read_blocks",
        unit: None,
        help: "Blocks read",
        labels: VM,
        read: Read::Counter(|snapshot, out| {
            shares(snapshot, out, None, |share| Some(share.blocks.reads));
        }),
    },
    Family {
        name: "vm_read_block_hits",
        unit: None,
        help: "Blocks read that were there, by place: flash, memory (staged)",
        labels: &["vm", "kind", "cache", "place"],
        read: Read::Counter(|snapshot, out| {
            shares(snapshot, out, Some(("place", "flash")), |share| {
                Some(share.blocks.flash_hits)
            });
            shares(snapshot, out, Some(("place", "memory")), |share| {
                Some(share.blocks.memory_hits)
            });
        }),
    },
    Family {
        name: "vm_admitted_blocks",
        unit: None,
        help: "Blocks that were let into the flash",
        labels: VM,
        read: Read::Counter(|snapshot, out| {
            shares(snapshot, out, None, |share| {
                Some(share.admission.admitted_blocks)
            });
        }),
    },
    Family {
        name: "vm_refused_blocks",
        unit: None,
        help: "Blocks that were not let into the flash, by reason as hearth vm show lists them",
        labels: &["vm", "kind", "cache", "reason"],
        read: Read::Counter(|snapshot, out| {
            each(snapshot, |labels, share| {
                for (reason, blocks) in &share.admission.refused_blocks {
                    let mut labels = labels.clone();
                    labels.push(("reason", reason));
                    let value = Number::Whole(*blocks);
                    out.push(Series { labels, value });
                }
            });
        }),
    },
    Family {
        name: "vm_flash_written",
        unit: Some("bytes"),
        help: "Bytes written to flash for the VM or image by cause: admitted, reclaim, metadata",
        labels: &["vm", "kind", "cache", "cause"],
        read: Read::Counter(|snapshot, out| {
            each(snapshot, |labels, share| {
                for (cause, bytes) in share.flash_written_bytes.causes() {
                    let mut labels = labels.clone();
                    labels.push(("cause", cause));
                    let value = Number::Whole(bytes);
                    out.push(Series { labels, value });
                }
            });
        }),
    },
    Family {
        name: "vm_write_budget_day",
        unit: Some("bytes"),
        help: "Bytes that may be written to flash for the VM a day; absent without a budget of its own",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| of(share, |b| b.bytes_per_day));
        }),
    },
    Family {
        name: "vm_write_budget_left",
        unit: Some("bytes"),
        help: "Bytes that may be written to flash for the VM now; absent without a budget of its own",
        labels: VM,
        read: Read::Gauge(|snapshot, out| {
            shares(snapshot, out, None, |share| of(share, |b| b.left_bytes));
        }),
    },
    Family {
        name: "image_saved_blocks",
        unit: None,
        help: "Blocks of a base image that VMs found in the cache when they first read them (estimated)",
        labels: &["image", "cache"],
        read: Read::Counter(|snapshot, out| {
            for image in &snapshot.vms.images {
                out.push(Series {
                    labels: vec![
                        ("image", image.name.as_str()),
                        ("cache", image.cache.as_str()),
                    ],
                    value: Number::Whole(image.saved_blocks),
                });
            }
        }),
    },
    Family {
        name: "cache_divided_blocks",
        unit: None,
        help: "Flash that is divided among VMs and images, in blocks",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            some_caches(snapshot, out, None, |cache| {
                let policy = cache.policy.as_ref()?;
                Some(Number::Whole(policy.capacity_blocks))
            });
        }),
    },
    Family {
        name: "cache_write_budget_day",
        unit: Some("bytes"),
        help: "Bytes that may be written to the flash a day; absent without a budget",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| budgets(snapshot, out, |budget| budget.bytes_per_day)),
    },
    Family {
        name: "cache_write_budget_left",
        unit: Some("bytes"),
        help: "Bytes that may be written to the flash now; absent without a budget",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| budgets(snapshot, out, |budget| budget.left_bytes)),
    },
    Family {
        name: "cache_policy_memory",
        unit: Some("bytes"),
        help: "Main memory of admission, demand and curves, staged blocks included",
        labels: CACHE,
        read: Read::Gauge(|snapshot, out| {
            some_caches(snapshot, out, None, |cache| {
                let policy = cache.policy.as_ref()?;
                Some(Number::Whole(policy.memory_bytes))
            });
        }),
    },
];

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Every share of VMs and images with its labels.
fn each<'a>(snapshot: &'a Scrape, mut use_it: impl FnMut(Labels<'a>, &'a Share)) {
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
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a Share) -> Option<Number>,
) {
    each(snapshot, |mut labels, share| {
        if let Some(value) = value(share) {
            labels.extend(extra);
            out.push(Series { labels, value });
        }
    });
}

fn shares<'a>(
    snapshot: &'a Scrape,
    out: &mut Vec<Series<'a>>,
    extra: Option<(&'static str, &'a str)>,
    value: impl Fn(&'a Share) -> Option<u64>,
) {
    series(snapshot, out, extra, |share| {
        value(share).map(Number::Whole)
    });
}

fn of(share: &Share, pick: fn(&WriteBudget) -> u64) -> Option<u64> {
    share.write_budget.as_ref().map(pick)
}

fn budgets<'a>(snapshot: &'a Scrape, out: &mut Vec<Series<'a>>, pick: fn(&WriteBudget) -> u64) {
    some_caches(snapshot, out, None, |cache| {
        let budget = cache.policy.as_ref()?.write_budget.as_ref()?;
        Some(Number::Whole(pick(budget)))
    });
}
