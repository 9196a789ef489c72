//! Alerts about bytes that origins lack.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-write-back",
    alerts: &[
        Alert {
            name: "HearthDiskLocked",
            expression: "hearth_disk_locked == 1",
            hold: "1m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "The disk {{ $labels.disk }} on {{ $labels.instance }} is locked",
            description: "Bytes that its origin lacks cannot be brought there without you. `hearth disk show` says what is missing; do not attach the disk elsewhere.",
            samples: &[Sample {
                metric: "hearth_disk_locked",
                labels: "",
                firing: "1x30",
                quiet: "0x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthDestageFailing",
            expression: "hearth_disk_destage_failing_seconds > 60",
            hold: "1m",
            severity: Severity::Critical,
            scope: Scope::Disk,
            summary: "The origin of disk {{ $labels.disk }} on {{ $labels.instance }} does not take what it lacks",
            description: "Guests go on until the dirty log is full, then they wait. Bring the origin back; the destage goes on by itself.",
            samples: &[Sample {
                metric: "hearth_disk_destage_failing_seconds",
                labels: "",
                firing: "0+60x30",
                quiet: "0x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthDirtyLogFull",
            expression: "hearth_disk_dirty_log_bytes > 0.9 * hearth_disk_dirty_log_max_bytes",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Disk,
            summary: "The dirty log of disk {{ $labels.disk }} on {{ $labels.instance }} is nearly full",
            description: "Writes are about to wait: the origin is slower than the guest. See whether the origin is slow, or give the disk a larger dirty_max.",
            samples: &[
                Sample {
                    metric: "hearth_disk_dirty_log_bytes",
                    labels: "",
                    firing: "95x30",
                    quiet: "80x30",
                },
                Sample {
                    metric: "hearth_disk_dirty_log_max_bytes",
                    labels: "",
                    firing: "100x30",
                    quiet: "100x30",
                },
            ],
            tested_at: "15m",
        },
        Alert {
            name: "HearthDirtyTooOld",
            expression: "hearth_disk_dirty_oldest_seconds > 600",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Disk,
            summary: "Bytes of disk {{ $labels.disk }} on {{ $labels.instance }} have waited for the origin for more than ten minutes",
            description: "They are lost if the flash is lost. The origin is slower than the guest, or `rate` is too low. Raise the limit of this rule if age_max is above five minutes.",
            samples: &[Sample {
                metric: "hearth_disk_dirty_oldest_seconds",
                labels: "",
                firing: "0+60x60",
                quiet: "30x60",
            }],
            tested_at: "30m",
        },
        Alert {
            name: "HearthWritesStall",
            expression: "increase(hearth_disk_stalled_writes_total[5m]) > 0",
            hold: "5m",
            severity: Severity::Warning,
            scope: Scope::Disk,
            summary: "Writes to disk {{ $labels.disk }} on {{ $labels.instance }} wait for room in the dirty log",
            description: "The guest runs at the speed of its origin. See whether the origin is slow, or give the disk a larger dirty_max.",
            samples: &[Sample {
                metric: "hearth_disk_stalled_writes_total",
                labels: "",
                firing: "0+5x30",
                quiet: "5x30",
            }],
            tested_at: "15m",
        },
    ],
};
