//! The dashboard of wear.

use crate::dashboard::{Dashboard, Panel, Query, Row, Show};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    uid: "hearth-wear",
    title: "Hearth: wear",
    description: "What is written to flash, why, for whom, and how that compares with the budgets.",
    chooses_vms: false,
    rows: &[WRITTEN, BUDGETS, RECLAIM],
};

const WRITTEN: Row = Row {
    title: "Written",
    panels: &[
        Panel {
            title: "Written to flash by cause",
            description: "Bytes written to flash.",
            show: Show::Stack,
            unit: "binBps",
            queries: &[Query {
                expression: "sum by (cause) (rate(hearth_flash_written_bytes_total{instance=~\"$instance\"}[$__rate_interval]))",
                legend: "{{cause}}",
            }],
        },
        Panel {
            title: "Written in 24 hours",
            description: "Bytes that each flash took in the last 24 hours.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "sum by (instance, cache) (increase(hearth_flash_written_bytes_total{instance=~\"$instance\"}[24h]))",
                legend: "{{instance}} {{cache}}",
            }],
        },
        Panel {
            title: "Flash written over a day",
            description: "How often the whole flash was written in the last 24 hours.",
            show: Show::Lines,
            unit: "short",
            queries: &[Query {
                expression: "sum by (instance, cache) (increase(hearth_flash_written_bytes_total{instance=~\"$instance\"}[24h])) / sum by (instance, cache) (hearth_cache_flash_size_bytes{instance=~\"$instance\"})",
                legend: "{{instance}} {{cache}}",
            }],
        },
    ],
};

const BUDGETS: Row = Row {
    title: "Budgets",
    panels: &[
        Panel {
            title: "Budget left",
            description: "Bytes that may be written now, of those of a day; none without a budget.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "hearth_cache_write_budget_left_bytes{instance=~\"$instance\"} / hearth_cache_write_budget_day_bytes{instance=~\"$instance\"}",
                legend: "{{instance}} {{cache}}",
            }],
        },
        Panel {
            title: "Budget left, VMs",
            description: "The same of VMs that have a budget of their own.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "hearth_vm_write_budget_left_bytes{instance=~\"$instance\"} / hearth_vm_write_budget_day_bytes{instance=~\"$instance\"}",
                legend: "{{instance}} {{vm}}",
            }],
        },
        Panel {
            title: "Ten VMs that write most",
            description: "Bytes written to flash for a VM.",
            show: Show::Lines,
            unit: "binBps",
            queries: &[Query {
                expression: "topk(10, sum by (instance, vm) (rate(hearth_vm_flash_written_bytes_total{instance=~\"$instance\"}[$__rate_interval])))",
                legend: "{{instance}} {{vm}}",
            }],
        },
    ],
};

const RECLAIM: Row = Row {
    title: "Reclaim",
    panels: &[
        Panel {
            title: "Reclaimed segments",
            description: "Segments that were reclaimed.",
            show: Show::Lines,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (instance) (rate(hearth_cache_reclaimed_segments_total{instance=~\"$instance\"}[$__rate_interval]))",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Kept by reclaim",
            description: "Blocks that reclaim wrote again, of all that it looked at.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "sum by (instance) (rate(hearth_cache_kept_blocks_total{instance=~\"$instance\"}[$__rate_interval])) / (sum by (instance) (rate(hearth_cache_kept_blocks_total{instance=~\"$instance\"}[$__rate_interval])) + sum by (instance) (rate(hearth_cache_evicted_blocks_total{instance=~\"$instance\"}[$__rate_interval])))",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Health of the flash",
            description: "Errors, operations that took too long, and blocks with a wrong checksum.",
            show: Show::Lines,
            unit: "ops",
            queries: &[
                Query {
                    expression: "sum by (instance) (rate(hearth_flash_errors_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} errors",
                },
                Query {
                    expression: "sum by (instance) (rate(hearth_flash_timeouts_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} late",
                },
                Query {
                    expression: "sum by (instance) (rate(hearth_flash_checksum_errors_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} checksums",
                },
            ],
        },
    ],
};
