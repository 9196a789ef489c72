//! The dashboard of migrations.

use crate::dashboard::{Dashboard, Panel, Query, Row, Show};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    uid: "hearth-migrations",
    title: "Hearth: migrations",
    description: "Disks that move with their VMs, and the moves that the cluster plans.",
    chooses_vms: false,
    rows: &[MOVES, HAND_OVERS, BETWEEN_HOSTS, CLUSTER],
};

const MOVES: Row = Row {
    title: "Moves",
    panels: &[
        Panel {
            title: "Moves under way",
            description: "Moves that are not over, by stage; those that failed wait for an operator.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "max by (stage) (sum by (role, stage) (hearth_cluster_moves{instance=~\"$instance\"}))",
                legend: "{{stage}}",
            }],
        },
        Panel {
            title: "Moves that ended in an hour",
            description: "Moves by how they ended.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (outcome) (increase(hearth_cluster_moves_ended_total{instance=~\"$instance\"}[1h]))",
                legend: "{{outcome}}",
            }],
        },
        Panel {
            title: "Mean time of a move",
            description: "From when a move was recorded to its end.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "sum by (outcome) (increase(hearth_cluster_move_seconds_total{instance=~\"$instance\"}[1h])) / sum by (outcome) (increase(hearth_cluster_moves_ended_total{instance=~\"$instance\"}[1h]))",
                legend: "{{outcome}}",
            }],
        },
    ],
};

const HAND_OVERS: Row = Row {
    title: "Hand-overs",
    panels: &[
        Panel {
            title: "Hand-overs in an hour",
            description: "Hand-overs of disks by how they ended.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (outcome) (increase(hearth_hand_overs_total{instance=~\"$instance\"}[1h]))",
                legend: "{{outcome}}",
            }],
        },
        Panel {
            title: "Requests held",
            description: "The time for which 99 in 100 hand-overs held requests at most.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "histogram_quantile(0.99, sum by (outcome, le) (increase(hearth_hand_over_held_seconds_bucket{instance=~\"$instance\"}[1h])))",
                legend: "{{outcome}}",
            }],
        },
        Panel {
            title: "Disks by role",
            description: "Disks that roam, by what the host is to them.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (role) (hearth_roaming_disks{instance=~\"$instance\"})",
                legend: "{{role}}",
            }],
        },
    ],
};

const BETWEEN_HOSTS: Row = Row {
    title: "Between hosts",
    panels: &[
        Panel {
            title: "Dirty bytes shipped",
            description: "Bytes that origins lack and that go to another host ahead of a hand-over.",
            show: Show::Lines,
            unit: "binBps",
            queries: &[Query {
                expression: "sum by (instance) (rate(hearth_roaming_shipped_bytes_total{instance=~\"$instance\",direction=\"out\"}[$__rate_interval]))",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Cached bytes copied",
            description: "Cached blocks that come from another host.",
            show: Show::Lines,
            unit: "binBps",
            queries: &[Query {
                expression: "sum by (instance) (rate(hearth_roaming_copied_bytes_total{instance=~\"$instance\",direction=\"in\"}[$__rate_interval]))",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Behind",
            description: "What a standby lacks of a disk.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "max by (vm, disk) (hearth_roaming_behind_bytes{instance=~\"$instance\"})",
                legend: "{{disk}}",
            }],
        },
        Panel {
            title: "Sessions",
            description: "Sessions between hosts that stand, of all links.",
            show: Show::Values,
            unit: "short",
            queries: &[
                Query {
                    expression: "sum(hearth_link_session{instance=~\"$instance\"})",
                    legend: "stand",
                },
                Query {
                    expression: "count(hearth_link_session{instance=~\"$instance\"})",
                    legend: "links",
                },
            ],
        },
    ],
};

const CLUSTER: Row = Row {
    title: "Cluster",
    panels: &[
        Panel {
            title: "Load of each host",
            description: "The working sets of the VMs of a host, of the flash that there is for them.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "hearth_cluster_load_bytes{instance=~\"$instance\"} / hearth_cluster_capacity_bytes{instance=~\"$instance\"}",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Flash that is missing",
            description: "Flash that hosts lack and no move gives.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "max(hearth_cluster_flash_missing_bytes{instance=~\"$instance\"})",
                legend: "missing",
            }],
        },
        Panel {
            title: "Hosts",
            description: "Hosts that are heard of, and those that are missing.",
            show: Show::Values,
            unit: "short",
            queries: &[Query {
                expression: "max by (state) (hearth_cluster_hosts{instance=~\"$instance\"})",
                legend: "{{state}}",
            }],
        },
        Panel {
            title: "Store",
            description: "Hosts that the store of the cluster answers.",
            show: Show::Values,
            unit: "short",
            queries: &[Query {
                expression: "sum(hearth_cluster_store_answers{instance=~\"$instance\"})",
                legend: "answered",
            }],
        },
    ],
};
