//! The crates of the workspace, lower ones first.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// Decides; no files, sockets, threads, clocks, dice.
    Pure,
    /// Acts.
    Shell,
    /// Programs, tests, tools.
    Program,
}

pub(super) struct Crate {
    pub(super) name: &'static str,
    pub(super) folder: &'static str,
    pub(super) layer: Layer,
    /// Crates of this workspace that it may depend on.
    pub(super) below: &'static [&'static str],
    /// Whether it may hold unsafe code (each module that does says why).
    pub(super) may_be_unsafe: bool,
}

const fn pure(name: &'static str, folder: &'static str, below: &'static [&'static str]) -> Crate {
    Crate {
        name,
        folder,
        layer: Layer::Pure,
        below,
        may_be_unsafe: false,
    }
}

const fn shell(name: &'static str, folder: &'static str, below: &'static [&'static str]) -> Crate {
    Crate {
        name,
        folder,
        layer: Layer::Shell,
        below,
        may_be_unsafe: true,
    }
}

const fn program(
    name: &'static str,
    folder: &'static str,
    below: &'static [&'static str],
) -> Crate {
    Crate {
        name,
        folder,
        layer: Layer::Program,
        below,
        may_be_unsafe: false,
    }
}

pub(super) const TABLE: &[Crate] = &[
    pure("guards", "crates/guards", &[]),
    pure("core-guards", "crates/core-guards", &["guards"]),
    pure("units", "crates/units", &[]),
    pure("events", "crates/events", &[]),
    pure("web", "crates/web", &[]),
    pure("block-io", "crates/block-io", &["units"]),
    pure("policy", "crates/policy", &["units"]),
    pure("mrc", "crates/mrc", &["units", "policy"]),
    pure("prefetch", "crates/prefetch", &["units", "policy"]),
    pure("frames", "crates/frames", &["units", "policy"]),
    pure(
        "flash-format",
        "crates/flash-format",
        &["units", "block-io"],
    ),
    pure(
        "nbd-protocol",
        "crates/nbd-protocol",
        &["units", "block-io"],
    ),
    pure("range-order", "crates/range-order", &["units"]),
    pure("throttle", "crates/throttle", &["units"]),
    pure(
        "nbd-client",
        "crates/nbd-client",
        &["guards", "units", "block-io", "nbd-protocol", "range-order"],
    ),
    pure("vhost-protocol", "crates/vhost-protocol", &["units"]),
    pure("link-protocol", "crates/link-protocol", &["units"]),
    pure("guest-files", "crates/guest-files", &["units"]),
    pure("guest-protocol", "crates/guest-protocol", &["units"]),
    pure("handoff", "crates/handoff", &["guards", "units"]),
    pure(
        "borrowing",
        "crates/borrowing",
        &["guards", "units", "block-io"],
    ),
    pure("strategies", "crates/strategies", &[]),
    pure("placement", "crates/placement", &["guards", "units", "mrc"]),
    pure("workload", "crates/workload", &["units"]),
    pure("groups", "crates/groups", &["units"]),
    pure("medium", "crates/medium", &["units", "block-io"]),
    pure(
        "segment-log",
        "crates/segment-log",
        &["units", "policy", "flash-format"],
    ),
    pure(
        "tenancy",
        "crates/tenancy",
        &[
            "units",
            "policy",
            "prefetch",
            "mrc",
            "flash-format",
            "segment-log",
        ],
    ),
    pure(
        "admission",
        "crates/admission",
        &["frames", "units", "policy", "tenancy"],
    ),
    pure(
        "dirty-log",
        "crates/dirty-log",
        &["core-guards", "units", "flash-format"],
    ),
    pure(
        "destage",
        "crates/destage",
        &[
            "core-guards",
            "units",
            "block-io",
            "flash-format",
            "dirty-log",
        ],
    ),
    pure(
        "block-store",
        "crates/block-store",
        &[
            "core-guards",
            "dirty-log",
            "units",
            "block-io",
            "policy",
            "flash-format",
            "segment-log",
        ],
    ),
    pure(
        "cache",
        "crates/cache",
        &[
            "admission",
            "core-guards",
            "frames",
            "prefetch",
            "block-store",
            "dirty-log",
            "destage",
            "units",
            "block-io",
            "policy",
            "mrc",
            "flash-format",
            "segment-log",
            "tenancy",
        ],
    ),
    shell("ring", "crates/ring", &["units", "block-io"]),
    Crate {
        may_be_unsafe: false,
        ..shell("durable-file", "crates/durable-file", &[])
    },
    Crate {
        may_be_unsafe: false,
        ..shell("store", "crates/store", &["units", "durable-file"])
    },
    Crate {
        may_be_unsafe: false,
        ..shell(
            "executor",
            "crates/executor",
            &["events", "placement", "store", "units"],
        )
    },
    Crate {
        may_be_unsafe: false,
        ..shell("hypervisor", "crates/hypervisor", &[])
    },
    Crate {
        may_be_unsafe: false,
        ..shell(
            "at-rest",
            "crates/at-rest",
            &["units", "block-io", "durable-file"],
        )
    },
    shell(
        "device",
        "crates/device",
        &["units", "block-io", "medium", "ring"],
    ),
    shell("libiscsi", "crates/libiscsi", &["block-io"]),
    shell("librbd", "crates/librbd", &["block-io"]),
    shell(
        "origin",
        "crates/origin",
        &[
            "events",
            "units",
            "block-io",
            "medium",
            "durable-file",
            "ring",
            "nbd-protocol",
            "nbd-client",
            "range-order",
            "libiscsi",
            "librbd",
        ],
    ),
    shell(
        "frontend",
        "crates/frontend",
        &["units", "block-io", "ring"],
    ),
    shell(
        "nbd-server",
        "crates/nbd-server",
        &["units", "block-io", "ring", "nbd-protocol", "frontend"],
    ),
    shell(
        "vhost-user",
        "crates/vhost-user",
        &["units", "block-io", "ring", "vhost-protocol", "frontend"],
    ),
    Crate {
        may_be_unsafe: false,
        ..shell(
            "shard",
            "crates/shard",
            &[
                "at-rest",
                "durable-file",
                "events",
                "units",
                "block-io",
                "policy",
                "flash-format",
                "tenancy",
                "cache",
                "ring",
                "device",
                "origin",
                "frontend",
                "handoff",
                "borrowing",
                "throttle",
            ],
        )
    },
    Crate {
        may_be_unsafe: false,
        ..shell("link", "crates/link", &["events", "units", "link-protocol"])
    },
    shell(
        "load",
        "crates/load",
        &["units", "block-io", "workload", "nbd-protocol", "ring"],
    ),
    Crate {
        may_be_unsafe: false,
        ..shell("traffic", "crates/traffic", &["units", "groups"])
    },
    program("trace-fixtures", "crates/trace-fixtures", &[]),
    program("trace", "crates/trace", &["units", "workload"]),
    program(
        "curves",
        "crates/curves",
        &["units", "policy", "mrc", "trace", "trace-fixtures"],
    ),
    program(
        "yardstick",
        "crates/yardstick",
        &["units", "policy", "trace", "trace-fixtures"],
    ),
    program(
        "simulator",
        "crates/simulator",
        &[
            "admission",
            "block-store",
            "curves",
            "destage",
            "dirty-log",
            "units",
            "placement",
            "store",
            "policy",
            "prefetch",
            "mrc",
            "flash-format",
            "frames",
            "segment-log",
            "tenancy",
            "trace",
            "trace-fixtures",
        ],
    ),
    program(
        "moves",
        "crates/moves",
        &[
            "units",
            "block-io",
            "policy",
            "flash-format",
            "segment-log",
            "borrowing",
            "strategies",
            "trace",
            "simulator",
        ],
    ),
    Crate {
        may_be_unsafe: false,
        ..shell("monitor", "crates/monitor", &["units"])
    },
    Crate {
        may_be_unsafe: false,
        ..shell("drives", "crates/drives", &["units"])
    },
    Crate {
        may_be_unsafe: false,
        ..shell(
            "configuration",
            "crates/configuration",
            &[
                "throttle",
                "at-rest",
                "strategies",
                "units",
                "policy",
                "prefetch",
                "tenancy",
                "cache",
            ],
        )
    },
    Crate {
        may_be_unsafe: false,
        ..shell(
            "api",
            "crates/api",
            &["units", "drives", "monitor", "configuration"],
        )
    },
    Crate {
        may_be_unsafe: false,
        ..shell(
            "daemon",
            "crates/daemon",
            &[
                "throttle",
                "api",
                "events",
                "executor",
                "hypervisor",
                "placement",
                "store",
                "drives",
                "monitor",
                "configuration",
                "at-rest",
                "durable-file",
                "units",
                "block-io",
                "policy",
                "flash-format",
                "tenancy",
                "cache",
                "device",
                "origin",
                "frontend",
                "nbd-server",
                "vhost-user",
                "handoff",
                "borrowing",
                "strategies",
                "link",
                "link-protocol",
                "guest-protocol",
                "shard",
                "trace",
                "mrc",
                "web",
            ],
        )
    },
    Crate {
        may_be_unsafe: false,
        ..shell("mixin", "crates/mixin", &[])
    },
    program(
        "hearth",
        "crates/hearth",
        &[
            "api",
            "configuration",
            "daemon",
            "events",
            "drives",
            "monitor",
            "at-rest",
            "units",
            "block-io",
            "executor",
            "placement",
            "policy",
            "prefetch",
            "flash-format",
            "cache",
            "ring",
            "device",
            "origin",
            "shard",
            "simulator",
            "strategies",
            "mixin",
            "moves",
            "groups",
            "traffic",
            "trace",
            "mrc",
            "curves",
            "workload",
            "load",
        ],
    ),
    program(
        "world",
        "crates/world",
        &[
            "units",
            "block-io",
            "policy",
            "flash-format",
            "tenancy",
            "cache",
            "guards",
            "core-guards",
            "handoff",
            "borrowing",
            "medium",
            "device",
            "origin",
            "nbd-protocol",
            "nbd-client",
        ],
    ),
    pure(
        "workbench",
        "crates/workbench",
        &["units", "block-io", "cache"],
    ),
    program(
        "hostile",
        "crates/hostile",
        &[
            "workbench",
            "units",
            "block-io",
            "flash-format",
            "medium",
            "cache",
            "nbd-protocol",
            "link-protocol",
            "guest-protocol",
            "trace",
            "groups",
            "traffic",
            "ring",
            "frontend",
            "vhost-protocol",
            "vhost-user",
        ],
    ),
    Crate {
        may_be_unsafe: true,
        ..program(
            "hearth-guest",
            "crates/hearth-guest",
            &["units", "durable-file", "guest-files", "guest-protocol"],
        )
    },
    program("guest-probe", "crates/guest-probe", &[]),
    program("e2e", "tests", &["groups", "units", "vhost-protocol"]),
    program("xtask", "crates/xtask", &[]),
];
