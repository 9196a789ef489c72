//! The dashboard of hosts.

use crate::dashboard::{Dashboard, Panel, Query, Row, Show};

pub(super) const DASHBOARD: Dashboard = Dashboard {
    uid: "hearth-host",
    title: "Hearth: hosts",
    description: "How the caches of a host serve its guests.",
    chooses_vms: false,
    rows: &[
        AT_A_GLANCE,
        REQUESTS,
        FLASH_AND_ORIGINS,
        ROOM,
        THE_DAEMON_AND_ITS_HOST,
    ],
};

const AT_A_GLANCE: Row = Row {
    title: "At a glance",
    panels: &[
        Panel {
            title: "Read hits",
            description: "Blocks read that were on flash or in memory, of all blocks read.",
            show: Show::Values,
            unit: "percentunit",
            queries: &[Query {
                expression: "(sum(rate(hearth_disk_read_block_hits_total{instance=~\"$instance\"}[$__rate_interval])) + sum(rate(hearth_disk_read_block_memory_hits_total{instance=~\"$instance\"}[$__rate_interval]))) / sum(rate(hearth_disk_read_blocks_total{instance=~\"$instance\"}[$__rate_interval]))",
                legend: "hits",
            }],
        },
        Panel {
            title: "Disks",
            description: "Disks that VMs can attach, and disks that wait for their origin.",
            show: Show::Values,
            unit: "short",
            queries: &[
                Query {
                    expression: "sum(hearth_disk_attached{instance=~\"$instance\"})",
                    legend: "attached",
                },
                Query {
                    expression: "count(hearth_disk_attached{instance=~\"$instance\"} == 0) or vector(0)",
                    legend: "waiting",
                },
            ],
        },
        Panel {
            title: "Caches without their flash",
            description: "Caches whose disks run at the speed of their origins.",
            show: Show::Values,
            unit: "short",
            queries: &[Query {
                expression: "sum(hearth_cache_bypassed{instance=~\"$instance\"})",
                legend: "bypassed",
            }],
        },
        Panel {
            title: "Bytes that origins lack",
            description: "Dirty bytes on flash, of all disks.",
            show: Show::Values,
            unit: "bytes",
            queries: &[Query {
                expression: "sum(hearth_disk_dirty_bytes{instance=~\"$instance\"})",
                legend: "dirty",
            }],
        },
    ],
};

const REQUESTS: Row = Row {
    title: "Requests",
    panels: &[
        Panel {
            title: "Read latency of guests",
            description: "The time that half and 99 in 100 reads take at most.",
            show: Show::Lines,
            unit: "s",
            queries: &[
                Query {
                    expression: "histogram_quantile(0.5, sum by (instance, le) (rate(hearth_cache_guest_request_seconds_bucket{instance=~\"$instance\",op=\"read\"}[$__rate_interval])))",
                    legend: "{{instance}} p50",
                },
                Query {
                    expression: "histogram_quantile(0.99, sum by (instance, le) (rate(hearth_cache_guest_request_seconds_bucket{instance=~\"$instance\",op=\"read\"}[$__rate_interval])))",
                    legend: "{{instance}} p99",
                },
            ],
        },
        Panel {
            title: "Write latency of guests",
            description: "The same of writes, discards included.",
            show: Show::Lines,
            unit: "s",
            queries: &[
                Query {
                    expression: "histogram_quantile(0.5, sum by (instance, le) (rate(hearth_cache_guest_request_seconds_bucket{instance=~\"$instance\",op=\"write\"}[$__rate_interval])))",
                    legend: "{{instance}} p50",
                },
                Query {
                    expression: "histogram_quantile(0.99, sum by (instance, le) (rate(hearth_cache_guest_request_seconds_bucket{instance=~\"$instance\",op=\"write\"}[$__rate_interval])))",
                    legend: "{{instance}} p99",
                },
            ],
        },
        Panel {
            title: "Requests",
            description: "Requests of guests by kind.",
            show: Show::Stack,
            unit: "ops",
            queries: &[Query {
                expression: "sum by (op) (rate(hearth_disk_requests_total{instance=~\"$instance\"}[$__rate_interval]))",
                legend: "{{op}}",
            }],
        },
    ],
};

const FLASH_AND_ORIGINS: Row = Row {
    title: "Flash and origins",
    panels: &[
        Panel {
            title: "Latency of flash and origins",
            description: "The time that 99 in 100 reads take at most.",
            show: Show::Lines,
            unit: "s",
            queries: &[
                Query {
                    expression: "histogram_quantile(0.99, sum by (instance, le) (rate(hearth_flash_request_seconds_bucket{instance=~\"$instance\",op=\"read\"}[$__rate_interval])))",
                    legend: "{{instance}} flash",
                },
                Query {
                    expression: "histogram_quantile(0.99, sum by (instance, le) (rate(hearth_cache_origin_request_seconds_bucket{instance=~\"$instance\",op=\"read\"}[$__rate_interval])))",
                    legend: "{{instance}} origins",
                },
            ],
        },
        Panel {
            title: "Where reads come from",
            description: "Blocks that guests read, by place.",
            show: Show::Stack,
            unit: "ops",
            queries: &[
                Query {
                    expression: "sum(rate(hearth_disk_read_block_hits_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "flash",
                },
                Query {
                    expression: "sum(rate(hearth_disk_read_block_memory_hits_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "memory",
                },
                Query {
                    expression: "sum(rate(hearth_disk_read_blocks_total{instance=~\"$instance\"}[$__rate_interval])) - sum(rate(hearth_disk_read_block_hits_total{instance=~\"$instance\"}[$__rate_interval])) - sum(rate(hearth_disk_read_block_memory_hits_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "origin",
                },
            ],
        },
        Panel {
            title: "Traffic of origins",
            description: "Bytes read from and written to origins.",
            show: Show::Lines,
            unit: "binBps",
            queries: &[
                Query {
                    expression: "sum by (instance) (rate(hearth_origin_read_bytes_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} read",
                },
                Query {
                    expression: "sum by (instance) (rate(hearth_origin_written_bytes_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} written",
                },
            ],
        },
        Panel {
            title: "Errors",
            description: "Failed requests of guests, and failed operations of origins and flash.",
            show: Show::Lines,
            unit: "ops",
            queries: &[
                Query {
                    expression: "sum by (instance) (rate(hearth_disk_failed_requests_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} guests",
                },
                Query {
                    expression: "sum by (instance) (rate(hearth_origin_errors_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} origins",
                },
                Query {
                    expression: "sum by (instance) (rate(hearth_flash_errors_total{instance=~\"$instance\"}[$__rate_interval]))",
                    legend: "{{instance}} flash",
                },
            ],
        },
    ],
};

const ROOM: Row = Row {
    title: "Room",
    panels: &[
        Panel {
            title: "Blocks on flash",
            description: "Cached blocks, of those that the segments can hold.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "hearth_cache_cached_blocks{instance=~\"$instance\"} / hearth_cache_blocks_max{instance=~\"$instance\"}",
                legend: "{{instance}} {{cache}}",
            }],
        },
        Panel {
            title: "Segments",
            description: "Segments by state.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (state) (hearth_cache_segments{instance=~\"$instance\"})",
                legend: "{{state}}",
            }],
        },
        Panel {
            title: "Blocks in memory",
            description: "Blocks in memory, by why they are there.",
            show: Show::Stack,
            unit: "short",
            queries: &[Query {
                expression: "sum by (kind) (hearth_memory_frames{instance=~\"$instance\"})",
                legend: "{{kind}}",
            }],
        },
    ],
};

const THE_DAEMON_AND_ITS_HOST: Row = Row {
    title: "The daemon and its host",
    panels: &[
        Panel {
            title: "Processors of the daemon",
            description: "Processors that the daemon uses.",
            show: Show::Lines,
            unit: "short",
            queries: &[Query {
                expression: "rate(process_cpu_seconds_total{instance=~\"$instance\",job=~\"hearth.*\"}[$__rate_interval])",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Memory of the daemon",
            description: "Memory of the host that the daemon has.",
            show: Show::Lines,
            unit: "bytes",
            queries: &[Query {
                expression: "process_resident_memory_bytes{instance=~\"$instance\",job=~\"hearth.*\"}",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Open files of the daemon",
            description: "Open file descriptors, of those that the limit allows.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "process_open_fds{instance=~\"$instance\",job=~\"hearth.*\"} / process_max_fds{instance=~\"$instance\",job=~\"hearth.*\"}",
                legend: "{{instance}}",
            }],
        },
        Panel {
            title: "Processors of the host",
            description: "Busy processors, while hearth monitor runs.",
            show: Show::Lines,
            unit: "percentunit",
            queries: &[Query {
                expression: "sum by (instance) (rate(hearth_host_cpu_seconds_total{instance=~\"$instance\",state=\"busy\"}[$__rate_interval])) / sum by (instance) (rate(hearth_host_cpu_seconds_total{instance=~\"$instance\"}[$__rate_interval]))",
                legend: "{{instance}}",
            }],
        },
    ],
};
