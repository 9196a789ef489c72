//! Alerts about the cluster: its store, hosts, plans and moves.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-cluster",
    alerts: &[
        Alert {
            name: "HearthStoreSilent",
            expression: "hearth_cluster_store_answers == 0",
            hold: "3m",
            severity: Severity::Critical,
            scope: Scope::Host,
            summary: "The store of the cluster does not answer {{ $labels.instance }}",
            description: "VMs go on. Nothing moves, and no disk is attached that the host did not have. See that etcd runs and has a leader.",
            samples: &[Sample {
                metric: "hearth_cluster_store_answers",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthHostMissing",
            expression: "max by (job) (hearth_cluster_hosts{state=\"missing\"}) > 0",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Fleet,
            summary: "A host of the cluster is not heard of",
            description: "Its disks stay its own. `hearth cluster status` names the host.",
            samples: &[
                Sample {
                    metric: "hearth_cluster_hosts",
                    labels: "state=\"missing\"",
                    firing: "1x30",
                    quiet: "0x30",
                },
                Sample {
                    metric: "hearth_cluster_hosts",
                    labels: "state=\"heard\"",
                    firing: "3x30",
                    quiet: "4x30",
                },
            ],
            tested_at: "10m",
        },
        Alert {
            name: "HearthNoPlanner",
            expression: "sum by (job) (hearth_cluster_planner) != 1",
            hold: "2m",
            severity: Severity::Warning,
            scope: Scope::Fleet,
            summary: "Not exactly one host plans for the cluster",
            description: "No moves are planned, or the store is away. `hearth cluster status` says who plans.",
            samples: &[Sample {
                metric: "hearth_cluster_planner",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthMoveFailed",
            expression: "max by (job) (hearth_cluster_moves{stage=\"failed\"}) > 0",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Fleet,
            summary: "A move of a VM has failed and waits for an operator",
            description: "`hearth move list` names it, `hearth move show` says why.",
            samples: &[
                Sample {
                    metric: "hearth_cluster_moves",
                    labels: "role=\"driver\",stage=\"failed\"",
                    firing: "1x30",
                    quiet: "0x30",
                },
                Sample {
                    metric: "hearth_cluster_moves",
                    labels: "role=\"driver\",stage=\"migrating\"",
                    firing: "0x30",
                    quiet: "1x30",
                },
            ],
            tested_at: "5m",
        },
        Alert {
            name: "HearthClusterFlashShort",
            expression: "max by (job) (hearth_cluster_flash_missing_bytes) > 0",
            hold: "2h",
            severity: Severity::Warning,
            scope: Scope::Fleet,
            summary: "Hosts of the cluster have had too little flash for two hours, and no move helps",
            description: "`hearth events --kind flash-missing` names the hosts. Add flash there, or move VMs out of the cluster.",
            samples: &[Sample {
                metric: "hearth_cluster_flash_missing_bytes",
                labels: "",
                firing: "1073741824x240",
                quiet: "1073741824x100 0x140",
            }],
            tested_at: "3h",
        },
    ],
};
