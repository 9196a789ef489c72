//! Alerts about the daemon itself, its files, its memory and its monitor.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-daemon",
    alerts: &[
        Alert {
            name: "HearthDown",
            expression: "up{job=~\"hearth.*\"} == 0",
            hold: "2m",
            severity: Severity::Critical,
            scope: Scope::Host,
            summary: "{{ $labels.instance }} does not answer Prometheus",
            description: "Guests of this host wait if the daemon is not there. Run `systemctl status hearth` on the host first.",
            samples: &[Sample {
                metric: "up",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthRestarts",
            expression: "changes(process_start_time_seconds{job=~\"hearth.*\"}[1h]) > 3",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Host,
            summary: "The daemon on {{ $labels.instance }} has begun anew more than three times in an hour",
            description: "Each restart is a pause for guests. The end of the log before each start says why: `journalctl -u hearth`.",
            samples: &[Sample {
                metric: "process_start_time_seconds",
                labels: "",
                firing: "0+100x10 1000x50",
                quiet: "0x10 100x50",
            }],
            tested_at: "30m",
        },
        Alert {
            name: "HearthFilesNearlyOut",
            expression: "process_open_fds{job=~\"hearth.*\"} > 0.8 * process_max_fds{job=~\"hearth.*\"}",
            hold: "10m",
            severity: Severity::Warning,
            scope: Scope::Host,
            summary: "The daemon on {{ $labels.instance }} has more than 80 % of the files open that it may have",
            description: "Without free file descriptors new connections of VMs are refused. Raise LimitNOFILE in a drop-in of the unit.",
            samples: &[
                Sample {
                    metric: "process_open_fds",
                    labels: "",
                    firing: "900x60",
                    quiet: "700x60",
                },
                Sample {
                    metric: "process_max_fds",
                    labels: "",
                    firing: "1000x60",
                    quiet: "1000x60",
                },
            ],
            tested_at: "30m",
        },
        Alert {
            name: "HearthRequestMemoryRefused",
            expression: "increase(hearth_cache_request_memory_refused_total[15m]) > 0",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "Connections to cache {{ $labels.cache }} on {{ $labels.instance }} were refused for want of memory",
            description: "VMs that connect get an error. `hearth status` says how much memory requests have; raise `request_memory_max`, or attach fewer VMs.",
            samples: &[Sample {
                metric: "hearth_cache_request_memory_refused_total",
                labels: "",
                firing: "0x10 1x50",
                quiet: "1x60",
            }],
            tested_at: "15m",
        },
        Alert {
            name: "HearthMonitorSilent",
            expression: "hearth_host_reading_age_seconds > 120",
            hold: "5m",
            severity: Severity::Info,
            scope: Scope::Host,
            summary: "hearth monitor on {{ $labels.instance }} has said nothing for two minutes",
            description: "Processors and memory of the host and its VMs are not shown meanwhile. Run `systemctl status hearth-monitor`.",
            samples: &[Sample {
                metric: "hearth_host_reading_age_seconds",
                labels: "",
                firing: "0+60x30",
                quiet: "10x30",
            }],
            tested_at: "20m",
        },
    ],
};
