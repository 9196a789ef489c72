//! The dashboard of write-back.

use crate::dashboard::{Dashboard, Panel, Query, Row, Show};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    uid: "hearth-write-back",
    title: "Hearth: write-back",
    description: "What origins lack, and whether they catch up.",
    chooses_vms: true,
    rows: &[DIRTY, DESTAGE, TROUBLE],
};

const DIRTY: Row = Row {
    title: "Dirty",
    panels: &[
        Panel {
            title: "Dirty bytes",
            description: "Bytes that wait on flash for the origin.",
            show: Show::Stack,
            unit: "bytes",
            queries: &[Query {
                expression: "sum by (vm, disk) (hearth_disk_dirty_bytes{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{disk}}",
            }],
        },
        Panel {
            title: "Age of the oldest",
            description: "How long the oldest bytes have waited.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "max by (vm, disk) (hearth_disk_dirty_oldest_seconds{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{disk}}",
            }],
        },
        Panel {
            title: "Dirty log",
            description: "Length of the dirty log, of the longest that it may be: writes wait at 100 %.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "max by (vm, disk) (hearth_disk_dirty_log_bytes{instance=~\"$instance\",vm=~\"$vm\"} / hearth_disk_dirty_log_max_bytes{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{disk}}",
            }],
        },
    ],
};

const DESTAGE: Row = Row {
    title: "Destage",
    panels: &[
        Panel {
            title: "Written and destaged",
            description: "Bytes that guests of disks with a dirty log write, and bytes that reach the origins.",
            show: Show::Lines,
            unit: "binBps",
            queries: &[
                Query {
                    expression: "sum(rate(hearth_disk_written_bytes_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]) and on (instance, disk) hearth_disk_dirty_log_max_bytes{instance=~\"$instance\",vm=~\"$vm\"})",
                    legend: "written",
                },
                Query {
                    expression: "sum(rate(hearth_disk_destaged_bytes_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                    legend: "destaged",
                },
            ],
        },
        Panel {
            title: "Writes that waited",
            description: "Writes that waited for room in the dirty log.",
            show: Show::Lines,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (vm, disk) (rate(hearth_disk_stalled_writes_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{disk}}",
            }],
        },
        Panel {
            title: "Writes of origins",
            description: "The mean time of a write to the origin.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "sum by (vm, disk) (rate(hearth_disk_origin_request_seconds_total{instance=~\"$instance\",vm=~\"$vm\",op=\"write\"}[$__rate_interval])) / sum by (vm, disk) (rate(hearth_disk_origin_requests_total{instance=~\"$instance\",vm=~\"$vm\",op=\"write\"}[$__rate_interval]))",
                legend: "{{disk}}",
            }],
        },
    ],
};

const TROUBLE: Row = Row {
    title: "Trouble",
    panels: &[
        Panel {
            title: "Destage fails for",
            description: "For how long an origin has not taken what it lacks.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "max by (vm, disk) (hearth_disk_destage_failing_seconds{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{disk}}",
            }],
        },
        Panel {
            title: "Locked disks",
            description: "Disks whose dirty bytes cannot be brought to the origin without an operator.",
            show: Show::Values,
            unit: "short",
            queries: &[Query {
                expression: "sum(hearth_disk_locked{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "locked",
            }],
        },
        Panel {
            title: "Late writes",
            description: "Bytes of writes that were given up and that the origin may still carry out.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "sum by (vm, disk) (hearth_origin_late_write_bytes{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{disk}}",
            }],
        },
    ],
};
