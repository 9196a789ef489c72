//! The dashboard of VMs.

use crate::dashboard::{Dashboard, Panel, Query, Row, Show};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    uid: "hearth-vms",
    title: "Hearth: VMs",
    description: "Which VM gains from the cache, and which is slow.",
    chooses_vms: true,
    rows: &[READS, FLASH, WHAT_ENTERS, GUESTS],
};

const READS: Row = Row {
    title: "Reads",
    panels: &[
        Panel {
            title: "Read hits",
            description: "Blocks read that were on flash or in memory, of all blocks read.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "sum by (vm) (rate(hearth_vm_read_block_hits_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval])) / sum by (vm) (rate(hearth_vm_read_blocks_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Blocks read",
            description: "Blocks that each VM reads.",
            show: Show::Lines,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (vm) (rate(hearth_vm_read_blocks_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Slowest reads",
            description: "The ten VMs with the highest mean time of a read.",
            show: Show::Lines,
            unit: "s",
            queries: &[Query {
                expression: "topk(10, sum by (vm) (rate(hearth_disk_request_seconds_total{instance=~\"$instance\",vm=~\"$vm\",op=\"read\"}[$__rate_interval])) / sum by (vm) (rate(hearth_disk_requests_total{instance=~\"$instance\",vm=~\"$vm\",op=\"read\"}[$__rate_interval])))",
                legend: "{{vm}}",
            }],
        },
    ],
};

const FLASH: Row = Row {
    title: "Flash",
    panels: &[
        Panel {
            title: "Flash held",
            description: "Blocks on flash.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (vm) (hearth_vm_held_blocks{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Share",
            description: "Blocks that each VM is to have.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (vm) (hearth_vm_share_blocks{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Demand",
            description: "Blocks that were used again within the window of the VM.",
            show: Show::Lines,
            unit: "short",
            queries: &[Query {
                expression: "sum by (vm) (hearth_vm_demand_blocks{instance=~\"$instance\",vm=~\"$vm\"})",
                legend: "{{vm}}",
            }],
        },
    ],
};

const WHAT_ENTERS: Row = Row {
    title: "What enters",
    panels: &[
        Panel {
            title: "Admitted",
            description: "Blocks that were let into the flash.",
            show: Show::Lines,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (vm) (rate(hearth_vm_admitted_blocks_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Refused",
            description: "Blocks that were not let in, by reason.",
            show: Show::Stack,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (reason) (rate(hearth_vm_refused_blocks_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{reason}}",
            }],
        },
        Panel {
            title: "Prefetched",
            description: "Prefetched blocks by what became of them.",
            show: Show::Stack,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (outcome) (rate(hearth_vm_prefetched_blocks_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{outcome}}",
            }],
        },
    ],
};

const GUESTS: Row = Row {
    title: "Guests",
    panels: &[
        Panel {
            title: "Failed requests",
            description: "Requests of guests that ended with an error.",
            show: Show::Lines,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (vm) (rate(hearth_disk_failed_requests_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval]))",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Processors",
            description: "Processors that each VM uses, while hearth monitor runs.",
            show: Show::Lines,
            unit: "short",
            queries: &[Query {
                expression: "rate(hearth_vm_cpu_seconds_total{instance=~\"$instance\",vm=~\"$vm\"}[$__rate_interval])",
                legend: "{{vm}}",
            }],
        },
        Panel {
            title: "Memory",
            description: "Memory of the host that each VM has, while hearth monitor runs.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "hearth_vm_resident_memory_bytes{instance=~\"$instance\",vm=~\"$vm\"}",
                legend: "{{vm}}",
            }],
        },
    ],
};
