//! Alerts about flash that fails, is not used, or may not be written.

use crate::alert::{Alert, Group, Sample, Scope, Severity};

pub(super) const GROUP: Group = Group {
    name: "hearth-flash",
    alerts: &[
        Alert {
            name: "HearthCacheBypassed",
            expression: "hearth_cache_bypassed == 1",
            hold: "1m",
            severity: Severity::Critical,
            scope: Scope::Cache,
            summary: "The flash of cache {{ $labels.cache }} on {{ $labels.instance }} is not used",
            description: "Disks run at the speed of their origins. `hearth status` says why and what to do.",
            samples: &[Sample {
                metric: "hearth_cache_bypassed",
                labels: "",
                firing: "1x30",
                quiet: "0x30",
            }],
            tested_at: "10m",
        },
        Alert {
            name: "HearthFlashFailing",
            expression: "increase(hearth_flash_errors_total[15m]) + increase(hearth_flash_timeouts_total[15m]) + increase(hearth_flash_taken_back_total[15m]) > 0",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "The flash of cache {{ $labels.cache }} on {{ $labels.instance }} fails or is too slow",
            description: "Reads go to the origins meanwhile. Look at the kernel log and at the health of the device, and plan to replace it.",
            samples: &[
                Sample {
                    metric: "hearth_flash_errors_total",
                    labels: "",
                    firing: "0x60",
                    quiet: "3x60",
                },
                Sample {
                    metric: "hearth_flash_timeouts_total",
                    labels: "",
                    firing: "0x20 2x40",
                    quiet: "2x60",
                },
                Sample {
                    metric: "hearth_flash_taken_back_total",
                    labels: "",
                    firing: "0x60",
                    quiet: "1x60",
                },
            ],
            tested_at: "25m",
        },
        Alert {
            name: "HearthFlashRots",
            expression: "increase(hearth_flash_checksum_errors_total[1h]) > 0",
            hold: "0m",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "Blocks on the flash of cache {{ $labels.cache }} on {{ $labels.instance }} are not what was written",
            description: "Clean blocks come from the origin instead, so guests see nothing. Bytes that an origin lacks can be lost: destage them and replace the device.",
            samples: &[Sample {
                metric: "hearth_flash_checksum_errors_total",
                labels: "",
                firing: "0x20 1x40",
                quiet: "1x60",
            }],
            tested_at: "40m",
        },
        Alert {
            name: "HearthCacheBudgetSpent",
            expression: "hearth_cache_write_budget_left_bytes < 0.01 * hearth_cache_write_budget_day_bytes",
            hold: "2h",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "The write budget of cache {{ $labels.cache }} on {{ $labels.instance }} has been used up for two hours",
            description: "Blocks that would pay are not let in, which costs hits. `hearth advise --host` says how many.",
            samples: &[
                Sample {
                    metric: "hearth_cache_write_budget_left_bytes",
                    labels: "",
                    firing: "0x240",
                    quiet: "50x240",
                },
                Sample {
                    metric: "hearth_cache_write_budget_day_bytes",
                    labels: "",
                    firing: "1000x240",
                    quiet: "1000x240",
                },
            ],
            tested_at: "3h",
        },
        Alert {
            name: "HearthVmBudgetSpent",
            expression: "hearth_vm_write_budget_left_bytes < 0.01 * hearth_vm_write_budget_day_bytes",
            hold: "2h",
            severity: Severity::Info,
            scope: Scope::Vm,
            summary: "The write budget of {{ $labels.vm }} on {{ $labels.instance }} has been used up for two hours",
            description: "Blocks of this VM that would pay are not let in. `hearth advise --host` says what that costs; `hearth vm set` gives more.",
            samples: &[
                Sample {
                    metric: "hearth_vm_write_budget_left_bytes",
                    labels: "",
                    firing: "0x240",
                    quiet: "50x240",
                },
                Sample {
                    metric: "hearth_vm_write_budget_day_bytes",
                    labels: "",
                    firing: "1000x240",
                    quiet: "1000x240",
                },
            ],
            tested_at: "3h",
        },
        Alert {
            name: "HearthSettingsContradict",
            expression: "sum without (reason) (increase(hearth_cache_refused_blocks_total{reason=\"settings\"}[15m])) > 0",
            hold: "15m",
            severity: Severity::Warning,
            scope: Scope::Cache,
            summary: "Settings of cache {{ $labels.cache }} on {{ $labels.instance }} contradict each other, so blocks are not let in",
            description: "The cache does not warm up. `hearth status` and `hearth vm show` name the settings.",
            samples: &[
                Sample {
                    metric: "hearth_cache_refused_blocks_total",
                    labels: "reason=\"settings\"",
                    firing: "0+10x60",
                    quiet: "10x60",
                },
                Sample {
                    metric: "hearth_cache_refused_blocks_total",
                    labels: "reason=\"no_segment\"",
                    firing: "0x60",
                    quiet: "0+10x60",
                },
            ],
            tested_at: "40m",
        },
    ],
};
