//! Alerts about the drives under the caches.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

const DEVICE: &str = "device=\"/dev/nvme0n1\"";

pub(super) const GROUP: Group = Group {
    name: "hearth-drives",
    alerts: &[
        Alert {
            name: "HearthDriveFailing",
            expression: "max without (device) (hearth_flash_drive_failing == 1 or hearth_flash_drive_spare_percent < hearth_flash_drive_spare_threshold_percent) >= 0",
            hold: "0m",
            severity: Severity::Critical,
            scope: Scope::Cache,
            summary: "A drive under cache {{ $labels.cache }} on {{ $labels.instance }} says that it fails",
            description: "Bytes that wait on it for their origins may be lost with it. `hearth cache health` says what the drive reports and what to do.",
            samples: &[
                Sample {
                    metric: "hearth_flash_drive_failing",
                    labels: DEVICE,
                    firing: "0x60",
                    quiet: "0x60",
                },
                Sample {
                    metric: "hearth_flash_drive_spare_percent",
                    labels: DEVICE,
                    firing: "9x60",
                    quiet: "10x60",
                },
                Sample {
                    metric: "hearth_flash_drive_spare_threshold_percent",
                    labels: DEVICE,
                    firing: "10x60",
                    quiet: "10x60",
                },
            ],
            tested_at: "10m",
        },
        Alert {
            name: "HearthDriveWorn",
            expression: "max without (device) (hearth_flash_drive_used_percent) >= 90",
            hold: "1h",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "A drive under cache {{ $labels.cache }} on {{ $labels.instance }} has used up its endurance, or nearly",
            description: "Plan to replace it. `hearth cache health` says how far it is, and a write budget slows the wear.",
            samples: &[Sample {
                metric: "hearth_flash_drive_used_percent",
                labels: DEVICE,
                firing: "90x120",
                quiet: "89x120",
            }],
            tested_at: "90m",
        },
        Alert {
            name: "HearthDriveVolatileCache",
            expression: "max without (device) (hearth_flash_drive_volatile_cache) == 1",
            hold: "1h",
            severity: Severity::Info,
            scope: Scope::Cache,
            summary: "A drive under cache {{ $labels.cache }} on {{ $labels.instance }} has no power-loss protection",
            description: "Nothing that was acknowledged as durable is lost while the drive obeys flushes, but each flush of a guest waits for the drive.",
            samples: &[Sample {
                metric: "hearth_flash_drive_volatile_cache",
                labels: DEVICE,
                firing: "1x120",
                quiet: "0x120",
            }],
            tested_at: "90m",
        },
    ],
};
