//! Alerts about origins and the errors that guests see.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-origin",
    alerts: &[
        Alert {
            name: "HearthDiskWaits",
            expression: "hearth_disk_attached == 0",
            hold: "5m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "The disk {{ $labels.disk }} on {{ $labels.instance }} waits for its origin",
            description: "Its VM cannot use it. `hearth disk show` has the reason; the daemon tries again by itself.",
            samples: &[Sample {
                metric: "hearth_disk_attached",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthOriginLost",
            expression: "hearth_origin_connected == 0",
            hold: "5m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "The origin of disk {{ $labels.disk }} on {{ $labels.instance }} cannot be reached",
            description: "Hits are answered; other requests wait, and fail in the end. Look at the storage server and the network to it.",
            samples: &[Sample {
                metric: "hearth_origin_connected",
                labels: "",
                firing: "0x30",
                quiet: "1x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthOriginErrors",
            expression: "increase(hearth_origin_errors_total[5m]) > 0",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Disk,
            summary: "The origin of disk {{ $labels.disk }} on {{ $labels.instance }} answers with errors",
            description: "The log has offset and error of each. Look at the storage.",
            samples: &[Sample {
                metric: "hearth_origin_errors_total",
                labels: "",
                firing: "0+1x30",
                quiet: "5x30",
            }],
            tested_at: "20m",
        },
        Alert {
            name: "HearthGuestErrors",
            expression: "increase(hearth_disk_failed_requests_total[5m]) > 0",
            hold: "0m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "The guest of disk {{ $labels.disk }} on {{ $labels.instance }} has got I/O errors",
            description: "A guest may mount its file system read-only after an error. The log has the cause of each.",
            samples: &[Sample {
                metric: "hearth_disk_failed_requests_total",
                labels: "",
                firing: "0x10 1x20",
                quiet: "1x30",
            }],
            tested_at: "12m",
        },
        Alert {
            name: "HearthLateWrites",
            expression: "hearth_origin_late_write_bytes > 0",
            hold: "15m",
            severity: Severity::Warning,
            scope: Scope::Disk,
            summary: "The origin of disk {{ $labels.disk }} on {{ $labels.instance }} may still carry out writes that were given up",
            description: "Requests of their ranges wait. The server of the origin hangs, or its session has not ended.",
            samples: &[Sample {
                metric: "hearth_origin_late_write_bytes",
                labels: "",
                firing: "4096x60",
                quiet: "4096x10 0x50",
            }],
            tested_at: "30m",
        },
    ],
};
