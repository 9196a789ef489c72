//! The metrics of the cluster that a host is in, as this host has observed it. Summed over the hosts, a move is counted
//! once in each role, and once when it has ended.

use super::encode::{Number, Scrape};
use super::family::{Family, Read, Series};
use crate::cluster::{ClusterNumbers, OUTCOMES, ROLES, STAGES};

/// A series without labels, if this host is in a cluster and there is a value.
fn one(
    scrape: &Scrape,
    out: &mut Vec<Series<'_>>,
    value: impl Fn(&ClusterNumbers) -> Option<Number>,
) {
    let value = scrape.cluster.as_ref().and_then(value);
    out.extend(value.map(|value| Series {
        labels: Vec::new(),
        value,
    }));
}

fn count(number: usize) -> Number {
    Number::Whole(number as u64)
}

/// A series of each outcome of moves.
fn ended(
    scrape: &Scrape,
    out: &mut Vec<Series<'_>>,
    value: impl Fn(crate::cluster::Ended) -> Number,
) {
    let Some(cluster) = &scrape.cluster else {
        return;
    };
    for outcome in OUTCOMES {
        let ended = cluster.ended.get(outcome).copied().unwrap_or_default();
        out.push(Series {
            labels: vec![("outcome", outcome)],
            value: value(ended),
        });
    }
}

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "cluster_store_answers",
        unit: None,
        help: "1 if the cluster's store answered when this host asked last, and 0 otherwise: VMs go on, and nothing moves",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Whole(u64::from(cluster.store_answers)))
            });
        }),
    },
    Family {
        name: "cluster_view_age",
        unit: Some("seconds"),
        help: "Time since the cluster's store answered this host last",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Real(cluster.view_age?.as_secs_f64()))
            });
        }),
    },
    Family {
        name: "cluster_hosts",
        unit: None,
        help: "Hosts of the cluster by state: heard, or missing (heard of since this daemon began, and not now)",
        labels: &["state"],
        read: Read::Gauge(|scrape, out| {
            let Some(cluster) = &scrape.cluster else {
                return;
            };
            let states = [
                ("heard", cluster.hosts_heard),
                ("missing", cluster.hosts_missing),
            ];
            for (state, number) in states {
                out.push(Series {
                    labels: vec![("state", state)],
                    value: count(number),
                });
            }
        }),
    },
    Family {
        name: "cluster_moves",
        unit: None,
        help: "Moves of VMs that are not over, or have failed and wait for an operator, by what this host is to them (source, target, driver) and by stage",
        labels: &["role", "stage"],
        read: Read::Gauge(|scrape, out| {
            let Some(cluster) = &scrape.cluster else {
                return;
            };
            for role in ROLES {
                for stage in STAGES {
                    let number = cluster.moves.get(&(role, stage)).copied();
                    out.push(Series {
                        labels: vec![("role", role), ("stage", stage)],
                        value: Number::Whole(number.unwrap_or(0)),
                    });
                }
            }
        }),
    },
    Family {
        name: "cluster_moves_ended",
        unit: None,
        help: "Moves that this host drove to their end, by outcome: done, rolled-back (the VM stayed), failed (an operator has to look)",
        labels: &["outcome"],
        read: Read::Counter(|scrape, out| {
            ended(scrape, out, |ended| Number::Whole(ended.count));
        }),
    },
    Family {
        name: "cluster_move",
        unit: Some("seconds"),
        help: "Time that these moves took together, from when they were recorded, or this host first saw them",
        labels: &["outcome"],
        read: Read::Counter(|scrape, out| {
            ended(scrape, out, |ended| Number::Real(ended.time.as_secs_f64()));
        }),
    },
    Family {
        name: "cluster_planner",
        unit: None,
        help: "1 if this host plans for the cluster, and 0 otherwise: the sum over all hosts is 1",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Whole(u64::from(cluster.plans_now)))
            });
        }),
    },
    Family {
        name: "cluster_plans",
        unit: None,
        help: "Plans that this host made for the cluster",
        labels: &[],
        read: Read::Counter(|scrape, out| {
            one(scrape, out, |cluster| Some(Number::Whole(cluster.plans)));
        }),
    },
    Family {
        name: "cluster_plan_age",
        unit: Some("seconds"),
        help: "Time since this host made its last plan; only at the host that plans",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Real(cluster.plan_age?.as_secs_f64()))
            });
        }),
    },
    Family {
        name: "cluster_hosts_short",
        unit: None,
        help: "Hosts that have too little flash by the last plan, and no move helps; only at the host that plans",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| cluster.hosts_short.map(count));
        }),
    },
    Family {
        name: "cluster_flash_missing",
        unit: Some("bytes"),
        help: "Flash that those hosts lack together; only at the host that plans",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Whole(cluster.flash_missing?.get()))
            });
        }),
    },
    Family {
        name: "cluster_load",
        unit: Some("bytes"),
        help: "What the working sets of this host's VMs are foreseen to take, as it said to the planner last",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Whole(cluster.load?.0.get()))
            });
        }),
    },
    Family {
        name: "cluster_capacity",
        unit: Some("bytes"),
        help: "Flash that there is for them: the load divided by this is what plans compare",
        labels: &[],
        read: Read::Gauge(|scrape, out| {
            one(scrape, out, |cluster| {
                Some(Number::Whole(cluster.load?.1.get()))
            });
        }),
    },
];
